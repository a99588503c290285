// hono.js -- middleware for Hono, on Node and edge runtimes.

import { Gate, forwardedFor } from "./gate.js";
import { denial, factsOf, finish } from "./fetchlike.js";
import { setHeaders } from "./headers.js";

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

// The headers that the context will give to a response. On Node they are those
// of the response itself, which has no Response of the platform until its body
// is read as a stream, for several times the cost of a check. Such a response
// must not lose what is set here, so it is changed only if the headers are the
// same object. Elsewhere this is null.
function preparedBy(c) {
    if (!c.env?.incoming || c.finalized)
        return null;
    c.header("x-none", undefined); // makes the object
    return c.body("").headers;
}

async function answered(c, passage, prepared) {
    const { res } = c;

    if (passage.result.hold || res.headers !== prepared) {
        replace(c, await finish(c.req.raw, res, passage, c));
        return;
    }
    setHeaders(prepared, passage.result);
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

            replace(c, await finish(c.req.raw, answer, passage, c));
        } else {
            const prepared = preparedBy(c);

            await next();
            await answered(c, passage, prepared);
        }
    };
}
