// hono.d.ts -- middleware for Hono, on Node and edge runtimes.

import type { GateOptions, Passage } from "./gate.js";
import type { Result } from "./index.js";

export { forwardedFor } from "./gate.js";

/** The functions get Hono's context. */
export interface Options extends GateOptions<any, Response> {
    /** Answers a denied request instead of the policy. */
    deny?: ((result: Result, c: any) => Response | Promise<Response>) |
        undefined;
}

// @ts-ignore: from here Hono is not found if this package is a link
declare module "hono" {
    interface ContextVariableMap {
        /** Undefined if the request was skipped. */
        sluice: Passage | undefined;
    }
}

/** Middleware that checks each request; `c.get("sluice")` is its passage. */
export function sluice(options?: Options):
    (c: any, next: () => Promise<void>) => Promise<void>;
