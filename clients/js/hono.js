// hono.js -- middleware for Hono, on Node and edge runtimes.

import { Gate, forwardedFor } from "./gate.js";
import { denial, factsOf, finish } from "./fetchlike.js";

export { forwardedFor };

// The peer, where Hono runs on node:http.
function peerOf(c) {
    const peer = c.env?.incoming?.socket?.remoteAddress;

    if (!peer)
        throw new TypeError("the address of the client is not known here: set " +
                            "`ip`, for example ip: forwardedFor(1)");
    return peer;
}

// Hono merges the headers of an earlier response, unless it is taken away.
function replace(c, response) {
    if (response === c.res)
        return;
    c.res = undefined;
    c.res = response;
}

/**
 * Middleware that checks each request. Its options are functions of Hono's
 * context. A denied request is answered by the policy, or by
 * `deny(result, c)`.
 */
export function sluice(options = {}) {
    const named = options.user ?? options.org ?? options.key ?? options.headers;
    const gate = new Gate(options, { ip: named ? undefined : peerOf });

    return async function sluiceMiddleware(c, next) {
        const passage = await gate.pass(c, factsOf(c.req.raw));

        if (!passage) {
            await next();
            return;
        }
        c.set("sluice", passage);
        if (!passage.result.allowed && !options.deny) {
            replace(c, denial(c.req.raw, passage, c.res.headers));
        } else if (!passage.result.allowed) {
            const answer = await options.deny(passage.result, c);

            replace(c, await finish(c, answer, passage));
        } else {
            await next();
            replace(c, await finish(c, c.res, passage));
        }
    };
}
