// fetch.js -- fetch() with retries.

import { withBackoff } from "./backoff.js";

// Methods that are not idempotent.
const CHANGES = new Set(["POST", "PATCH"]);

// Node 18 lacks the global. The name is not a literal, so that bundlers for
// browsers do not resolve it.
async function webCrypto() {
    const module = "node:crypto";

    return globalThis.crypto ?? (await import(module)).webcrypto;
}

/** A unique key: 128 random bits in the form of a UUID. */
export async function newIdempotencyKey() {
    const bytes = (await webCrypto()).getRandomValues(new Uint8Array(16));

    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;

    const hex = Array.from(bytes, (b) => b.toString(16).padStart(2, "0"));

    return [[0, 4], [4, 6], [6, 8], [8, 10], [10, 16]]
        .map(([from, to]) => hex.slice(from, to).join("")).join("-");
}

const isRequest = (input) =>
    typeof Request !== "undefined" && input instanceof Request;

// True if a body can be read only once. Files, forms, texts and bytes can be
// read again.
function isStream(body) {
    return body !== null && typeof body === "object" &&
        (typeof body.getReader === "function" ||
         typeof body[Symbol.asyncIterator] === "function");
}

// Why a call cannot be repeated, or undefined. The body of a Request is always
// a stream.
function whyOnce(input, init) {
    if (init.body === undefined && isRequest(input) && input.body !== null)
        return "the body of a Request is a stream; pass its URL, and the " +
            "body beside it";
    if (isStream(init.body))
        return "its body is a stream; pass a Blob, a text or bytes";
    return undefined;
}

async function headersOf(input, init, method, options) {
    const headers = new Headers(
        init.headers ?? (isRequest(input) ? input.headers : undefined));

    if (CHANGES.has(method) && !headers.has("idempotency-key"))
        headers.set("Idempotency-Key",
                    `"${options.idempotencyKey ?? await newIdempotencyKey()}"`);
    return headers;
}

/**
 * fetch() with retries after 429 and 503. Throws a BackoffError if there is no
 * further attempt. Other statuses are returned as by fetch().
 */
export async function fetchWithBackoff(input, init = {}, options = {}) {
    const ask = options.fetch ?? globalThis.fetch;
    const method =
        (init.method ?? (isRequest(input) ? input.method : "GET"))
            .toUpperCase();
    const signal = init.signal ?? (isRequest(input) ? input.signal : undefined);
    const headers = await headersOf(input, init, method, options);

    return withBackoff(() => ask(input, { ...init, headers }),
                       { ...options, signal, once: whyOnce(input, init) });
}
