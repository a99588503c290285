// fastify.js -- a plugin for Fastify.

import { Gate, forwardedFor } from "./gate.js";
import { setHeaders } from "./headers.js";
import { SluiceError } from "./transport.js";

export { forwardedFor };

const textOf = (value) =>
    (Array.isArray(value) ? value.join(", ") : value) || undefined;

function factsOf(request, reply) {
    return {
        method: request.method,
        target: request.raw.url,
        header: (name) => textOf(request.headers[name]),
        requestId: reply.getHeader("x-request-id") ??
            request.headers["x-request-id"],
    };
}

const asNode = (reply) => ({
    getHeader: (name) => reply.getHeader(name),
    setHeader: (name, value) => reply.header(name, value),
});

function refuse(reply, passage) {
    const { result } = passage;

    for (const [name, value] of Object.entries(result.headers))
        if (name.toLowerCase() === "content-type")
            reply.header(name, value);
    reply.code(result.status);
    reply.send(Buffer.from(passage.bodyText()));
    return reply;
}

// Ends the hold with the response, which may have ended already: a client can go
// away while the daemon is asked.
async function endWith(reply, request, passage) {
    const { raw } = reply;
    const end = () => passage.end({
        request, response: reply, status: raw.statusCode,
        aborted: !raw.writableFinished });

    raw.once("close", end);
    if (raw.destroyed || raw.closed)
        await end();
}

// Fastify sends the message of an error to the client, whom the daemon does not
// concern. The log has the cause.
function hideDaemon(error) {
    throw error.cause instanceof SluiceError
        ? new Error("the request cannot be checked", { cause: error.cause })
        : error;
}

/**
 * The plugin: every request of the instance is checked, before its body is
 * read. Routes with `config: { sluice: false }` are not; `config: { sluice:
 * { cost: 5 } }` replaces options. A denied request is answered by the
 * policy, or by `deny(result, request, reply)`.
 */
export async function sluice(fastify, options = {}) {
    const { hook = "onRequest", ...rest } = options;
    const gate = new Gate(rest, { ip: (request) => request.ip });

    fastify.decorateRequest("sluice", null);
    fastify.addHook(hook, async (request, reply) => {
        const own = request.routeOptions?.config?.sluice;
        const passage = own === false ? null
            : await gate.pass(request, factsOf(request, reply), own)
                .catch(hideDaemon);

        request.sluice = passage;
        if (!passage)
            return undefined;
        if (passage.result.allowed) {
            if (passage.result.hold)
                await endWith(reply, request, passage);
            return undefined;
        }
        if (!rest.deny)
            return refuse(reply, passage);
        await rest.deny(passage.result, request, reply);
        return reply;
    });
    // Headers are added when the response begins, and keep what it has.
    fastify.addHook("onSend", async (request, reply, payload) => {
        if (request.sluice)
            setHeaders(asNode(reply), { ...request.sluice.result, allowed: true });
        return payload;
    });
}

// Fastify reads these: the hooks belong to the instance that registers the
// plugin, not to a scope of their own.
sluice[Symbol.for("skip-override")] = true;
sluice[Symbol.for("fastify.display-name")] = "sluice";

export default sluice;
