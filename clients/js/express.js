// express.js -- middleware for Express, Connect and node:http.

import { Gate, forwardedFor } from "./gate.js";
import { setHeaders } from "./headers.js";

export { forwardedFor };

const textOf = (value) =>
    (Array.isArray(value) ? value.join(", ") : value) || undefined;

function factsOf(request, response) {
    return {
        method: request.method,
        target: request.originalUrl ?? request.url,
        header: (name) => textOf(request.headers[name]),
        requestId: response.getHeader("x-request-id") ??
            request.headers["x-request-id"],
    };
}

function setGiven(response, given) {
    if (Array.isArray(given)) {
        const pairs = given.flat();

        for (let i = 0; i + 1 < pairs.length; i += 2)
            response.setHeader(pairs[i], pairs[i + 1]);
    } else {
        for (const [name, value] of Object.entries(given ?? {}))
            response.setHeader(name, value);
    }
}

// Adds the headers when the response begins: what the application sets before
// or after this middleware stays.
function addHeaders(response, result) {
    const { writeHead } = response;

    response.writeHead = function (status, ...rest) {
        const text = typeof rest[0] === "string" ? [rest[0]] : [];

        response.writeHead = writeHead;
        if (rest.length > 0)
            setGiven(response, rest.find((one) => typeof one === "object"));
        setHeaders(response, result);
        return writeHead.call(response, status, ...text);
    };
}

function refuse(response, passage) {
    const text = passage.bodyText();

    setHeaders(response, passage.result);
    response.statusCode = passage.result.status;
    response.setHeader("Content-Length", Buffer.byteLength(text));
    response.end(text);
}

// Ends the hold with the response, which may have ended already.
async function endWith(response, request, passage) {
    response.once("close", () => passage.end({
        request, response, status: response.statusCode,
        aborted: !response.writableFinished }));
    if (response.destroyed || response.closed)
        await passage.end({ request, response, aborted: true,
                            status: response.statusCode });
}

/**
 * Middleware that checks each request. A denied one is answered by the policy,
 * or by `deny(result, request, response, next)`.
 */
export function sluice(options = {}) {
    const gate = new Gate(options, {
        ip: (request) => request.ip ?? request.socket?.remoteAddress });

    return async function sluiceMiddleware(request, response, next) {
        let passage;

        try {
            passage = await gate.pass(request, factsOf(request, response));
        } catch (error) {
            next(error);
            return;
        }
        if (!passage) {
            next();
            return;
        }
        request.sluice = passage;
        if (passage.result.allowed) {
            addHeaders(response, passage.result);
            if (passage.result.hold)
                await endWith(response, request, passage);
            next();
        } else if (options.deny) {
            await answerByHandler(options, passage, request, response, next);
        } else {
            refuse(response, passage);
        }
    };
}

async function answerByHandler(options, passage, request, response, next) {
    addHeaders(response, { ...passage.result, headers: withoutType(passage) });
    try {
        await options.deny(passage.result, request, response, next);
    } catch (error) {
        next(error);
    }
}

// The handler's body has a type of its own.
const withoutType = ({ result }) => Object.fromEntries(
    Object.entries(result.headers)
        .filter(([name]) => name.toLowerCase() !== "content-type"));
