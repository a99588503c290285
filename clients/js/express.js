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

// The headers that writeHead() is given: an object, a list of names and values, or
// a list of pairs.
function pairsOf(given) {
    if (!Array.isArray(given))
        return Object.entries(given ?? {});
    if (given.every((one) => Array.isArray(one)))
        return given;
    return given.flatMap((one, i) => i % 2 === 0 ? [[one, given[i + 1]]] : []);
}

// A name may be given twice, such as Set-Cookie.
function setGiven(response, given) {
    const headers = new Map();

    for (const [name, value] of pairsOf(given)) {
        const low = name.toLowerCase();

        headers.set(low, [name, (headers.get(low)?.[1] ?? []).concat(value)]);
    }
    for (const [name, values] of headers.values())
        response.setHeader(name, values.length === 1 ? values[0] : values);
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
