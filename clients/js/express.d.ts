// express.d.ts -- middleware for Express, Connect and node:http.

import type { IncomingMessage, ServerResponse } from "node:http";
import type { GateOptions, Passage } from "./gate.js";
import type { Result } from "./index.js";

export { forwardedFor } from "./gate.js";

/** A request that the middleware has checked. */
export interface Checked {
    /** Undefined if the request was skipped. */
    sluice?: Passage;
}

declare global {
    // Express's own types extend this one.
    namespace Express {
        interface Request extends Checked {}
    }
}

export interface Options<R, S> extends GateOptions<R, S> {
    /** Answers a denied request instead of the policy. */
    deny?: ((result: Result, request: R, response: S,
            next: (error?: unknown) => void) => unknown) | undefined;
}

/** Middleware that checks each request. */
export function sluice<R extends IncomingMessage = any,
                       S extends ServerResponse = any>(
    options?: Options<R, S>):
    (request: R, response: S, next: (error?: unknown) => void) => Promise<void>;
