// next.d.ts -- for Next.js: route handlers and middleware.

import type { GateOptions, Passage } from "./gate.js";
import type { Result } from "./index.js";

export { forwardedFor } from "./gate.js";

export interface Options<R extends Request = any>
    extends GateOptions<R, Response> {
    /** Answers a denied request instead of the policy. */
    deny?: ((result: Result, request: R) => Response | Promise<Response>) |
        undefined;
}

/** Options that several handlers share, with one client. */
export class Gate {
    private constructor();
}

export function gate(options: Options): Gate;

/** Wraps a route handler or a middleware. */
export function withSluice<R extends Request = any, C = any>(
    options: Options<R> | Gate,
    handler: (request: R, context: C, passage: Passage | null) =>
        Response | Promise<Response>):
    (request: R, context: C) => Promise<Response>;
