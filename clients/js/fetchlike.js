// fetchlike.js -- what frameworks with Request and Response share.

import { setHeaders } from "./headers.js";

export function factsOf(request) {
    const { pathname, search } = new URL(request.url);

    return {
        method: request.method,
        target: pathname + search,
        header: (name) => request.headers.get(name) ?? undefined,
        requestId: request.headers.get("x-request-id"),
    };
}

/** The answer to a denied request; `headers` are set already. */
export function denial(request, passage, headers = {}) {
    const response = new Response(
        request.method === "HEAD" ? null : passage.bodyText(),
        { status: passage.result.status, headers });

    setHeaders(response.headers, passage.result);
    return response;
}

// Calls `end` when the last byte has been read, or the client is gone.
function watch(body, end) {
    const reader = body.getReader();

    return new ReadableStream({
        async pull(controller) {
            try {
                const { done, value } = await reader.read();

                if (!done) {
                    controller.enqueue(value);
                    return;
                }
            } catch (error) {
                await end(true);
                controller.error(error);
                return;
            }
            await end(false);
            controller.close();
        },
        async cancel(reason) {
            await end(true);
            await reader.cancel(reason);
        },
    }, { highWaterMark: 0 });
}

// A client may go away before the body is read for the first time, and frameworks
// drop that body without a word.
function whenAborted({ signal }, end) {
    if (signal?.aborted)
        return end(true);
    signal?.addEventListener("abort", () => end(true), { once: true });
    return undefined;
}

/**
 * The response with the headers of the passage. Its hold ends with the body, which
 * nothing reads if the request, a Request, is HEAD. A response without a hold keeps
 * its body as it is. `subject` is what the options are functions of.
 */
export async function finish(request, response, passage, subject = request) {
    const { result } = passage;
    const end = (aborted) => passage.end({
        request: subject, response, status: response.status, aborted });
    const headers = new Headers(response.headers);
    let { body } = response;

    setHeaders(headers, { ...result, allowed: true });
    if (result.hold && body && request.method !== "HEAD") {
        body = watch(body, end);
        await whenAborted(request, end);
    } else {
        await end(false);
    }
    if (body === response.body && tryHeaders(response, headers))
        return response;
    return new Response(body, { status: response.status,
                                statusText: response.statusText, headers });
}

// Sets the headers in place; false if they cannot be changed.
function tryHeaders(response, headers) {
    try {
        for (const [name, value] of headers)
            if (name !== "set-cookie" && response.headers.get(name) !== value)
                response.headers.set(name, value);
        return true;
    } catch {
        return false;
    }
}
