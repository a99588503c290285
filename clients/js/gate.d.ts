// gate.d.ts -- what the middleware of all frameworks shares.

import type { Check, ClientOptions, Result, Sluice } from "./index.js";

type Value<R, T> = T | ((request: R) => T | undefined | null |
                        Promise<T | undefined | null>);

/** How a response ended. */
export interface Ended<R, S> {
    request: R;
    response: S;
    status: number;
    /** The client went away before the end. */
    aborted: boolean;
    result: Result;
}

/** Options of a middleware: those of the client, or `client`, and who asks. Each
 * of the latter is a value or a function of the request. */
export interface GateOptions<R, S> extends ClientOptions {
    client?: Sluice | undefined;
    user?: Value<R, string | number> | undefined;
    org?: Value<R, string | number> | undefined;
    plan?: Value<R, string> | undefined;
    role?: Value<R, string> | undefined;
    ip?: Value<R, string> | undefined;
    /** Units; default 1, or what the policy says. */
    cost?: Value<R, NonNullable<Check["cost"]>> | undefined;
    /** Holds the cost, and settles it when the response has ended. */
    hold?: Value<R, string> | undefined;
    wait?: Value<R, string> | undefined;
    /** Checks a job, or one limit, instead of the path. */
    job?: Value<R, string> | undefined;
    limit?: Value<R, string> | undefined;
    key?: Value<R, string | number> | undefined;
    /** Names of headers that the policy reads, besides User-Agent and
     * Accept-Language: for example Authorization. */
    headers?: string[] | undefined;
    /** True: the request is not checked. */
    skip?: ((request: R) => boolean | Promise<boolean>) | undefined;
    /** The cost of a hold, from its response; undefined: the held cost, or
     * nothing if the status is 500 or above. */
    settle?: ((ended: Ended<R, S>) => Check["cost"] | undefined |
        Promise<Check["cost"] | undefined>) | undefined;
}

/** A checked request. */
export interface Passage {
    result: Result;
    /** Sets the cost with which the hold is settled. */
    setCost(cost: NonNullable<Check["cost"]>): void;
}

/** The address that `hops` proxies vouch for, from X-Forwarded-For. */
export function forwardedFor(hops?: number): (request: any) => string | undefined;
