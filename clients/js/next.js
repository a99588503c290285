// next.js -- for Next.js: route handlers and middleware.

import { Gate, forwardedFor } from "./gate.js";
import { denial, factsOf, finish } from "./fetchlike.js";

export { forwardedFor };

// The status of what a handler has thrown: redirect(), notFound() and their like
// throw, too, and are answers.
function statusOf(thrown) {
    const [kind, ...rest] = String(thrown?.digest).split(";");

    if (kind === "NEXT_REDIRECT")
        return Number(rest.at(-2)) || 307;
    return kind === "NEXT_HTTP_ERROR_FALLBACK" ? Number(rest[0]) || 404 : 500;
}

/**
 * Wraps a route handler or a middleware: it is called if the request is
 * allowed, with the passage as its third argument. A denied request is answered
 * by the policy, or by `deny(result, request)`.
 *
 * `options` may be a Gate that several handlers share.
 */
export function withSluice(options, handler) {
    const gate = options instanceof Gate ? options : new Gate(options);
    const { deny } = gate.options;

    return async function sluiceHandler(request, context) {
        const passage = await gate.pass(request, factsOf(request));

        if (!passage)
            return handler(request, context, null);
        if (!passage.result.allowed && !deny)
            return denial(request, passage);
        if (!passage.result.allowed)
            return finish(request, await deny(passage.result, request), passage);
        try {
            return await finish(
                request, await handler(request, context, passage), passage);
        } catch (error) {
            const status = statusOf(error);

            await passage.end({ request, status, aborted: status >= 500 });
            throw error;
        }
    };
}

/** Options that several handlers share, with one client. */
export function gate(options) {
    return new Gate(options);
}
