// webhook.js -- verifies webhooks of the scheme standard-webhooks, which Sluice
// sends and many others do. Works wherever Web Crypto does.

const TOLERANCE = 300;
const SIGNATURES_MOST = 16;

/** The webhook is not accepted; the message says why. */
export class WebhookError extends Error {
    constructor(message) {
        super(message);
        this.name = "WebhookError";
    }
}

async function subtleCrypto() {
    const module = "node:crypto";

    return (globalThis.crypto ??
        (await import(/* webpackIgnore: true */ /* @vite-ignore */ module))
            .webcrypto).subtle;
}

function bytesOf(base64) {
    return Uint8Array.from(atob(base64), (c) => c.charCodeAt(0));
}

function keyOf(secret) {
    try {
        return bytesOf(secret.replace(/^whsec_/, ""));
    } catch {
        throw new TypeError("a secret is whsec_ and base64, or base64 alone");
    }
}

function headerOf(headers, name) {
    const value = typeof headers.get === "function" ? headers.get(name)
        : headers[name] ?? Object.entries(headers)
            .find(([key]) => key.toLowerCase() === name)?.[1];

    if (typeof value !== "string" || value === "")
        throw new WebhookError(`the header ${name} is missing`);
    return value;
}

function signaturesOf(text) {
    const found = text.split(" ").filter((one) => one.startsWith("v1,"));

    if (found.length === 0 || found.length > SIGNATURES_MOST)
        throw new WebhookError("there is no signature of version v1");
    return found.map((one) => one.slice(3)).map((one) => {
        try {
            return bytesOf(one);
        } catch {
            return new Uint8Array();
        }
    });
}

function checkTime(text, { now = Date.now, toleranceSec = TOLERANCE }) {
    const age = /^\d{1,12}$/.test(text) ? now() / 1000 - Number(text) : NaN;

    if (Number.isNaN(age))
        throw new WebhookError("its timestamp is not a number of seconds");
    if (Math.abs(age) > toleranceSec)
        throw new WebhookError(age > 0 ? "it was sent too long ago"
                                   : "its timestamp is in the future");
}

/**
 * Verifies a webhook and returns its body, parsed. `body` is the body as it
 * arrived, text or bytes; `secret` is one secret or, during a rotation,
 * several. Throws a WebhookError if the webhook is not accepted.
 */
export async function verifyWebhook({ headers, body, secret }, options = {}) {
    const id = headerOf(headers, "webhook-id");
    const time = headerOf(headers, "webhook-timestamp");
    const signatures = signaturesOf(headerOf(headers, "webhook-signature"));
    const subtle = await subtleCrypto();
    const encoder = new TextEncoder();
    const text = typeof body === "string" ? body
        : new TextDecoder("utf-8").decode(body);
    const bytes = typeof body === "string" ? encoder.encode(body) : body;
    const head = encoder.encode(`${id}.${time}.`);
    const signed = new Uint8Array(head.length + bytes.length);
    let good = false;

    signed.set(head);
    signed.set(bytes, head.length);
    checkTime(time, options);
    for (const one of [secret].flat()) {
        const key = await subtle.importKey(
            "raw", keyOf(one), { name: "HMAC", hash: "SHA-256" }, false,
            ["verify"]);

        for (const signature of signatures)
            good = await subtle.verify("HMAC", key, signature, signed) || good;
    }
    if (!good)
        throw new WebhookError("its signature is wrong");
    try {
        return JSON.parse(text);
    } catch {
        throw new WebhookError("its body is not JSON");
    }
}
