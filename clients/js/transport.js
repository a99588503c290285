// transport.js -- one HTTP request to the daemon, within its deadline.
//
// On Node it has connections of its own (http1.js), also to unix sockets.
// Elsewhere, and with a `fetch` of the caller, it is fetch().

import { MalformedError, Pool } from "./http1.js";

const DAEMON = "http://127.0.0.1:8080";
const DEADLINE = 250;

/**
 * The daemon gave no verdict (`failure` says why) or refused the call
 * (`status`, `code` and `detail` are those of its answer).
 */
export class SluiceError extends Error {
    constructor(message, options = {}) {
        super(message, options.cause ? { cause: options.cause } : undefined);
        this.name = "SluiceError";
        this.status = options.status ?? null;
        this.code = options.code ?? null;
        this.detail = options.detail ?? null;
        this.failure = options.failure ?? null;
    }
}

const failed = (failure, message, more = {}) =>
    new SluiceError(message, { ...more, failure });

/** The deadline in ms: `value`, else SLUICE_DEADLINE_MS, else 250. */
export function readDeadline(value) {
    const ms = value ??
        Number(globalThis.process?.env?.SLUICE_DEADLINE_MS ?? DEADLINE);

    if (!Number.isSafeInteger(ms) || ms < 1)
        throw new RangeError(
            `deadlineMs must be a whole number of at least 1, not ${ms}`);
    return ms;
}

/** Where the daemon is: `url`, else SLUICE_URL, else the default address. */
export function readUrl(url) {
    const text = String(url ?? globalThis.process?.env?.SLUICE_URL ?? DAEMON);

    if (/^unix:./.test(text))
        return { text, authority: "localhost",
                 socketPath: text.replace(/^unix:(\/\/(?=\/))?/, "") };
    if (!/^https?:\/\/[^/]+\/?$/.test(text))
        throw new TypeError(
            `url must be http://HOST:PORT, https://HOST:PORT or unix:PATH, ` +
            `not ${text}`);

    const { protocol, host: authority, hostname, port } = new URL(text);

    return { text: text.replace(/\/$/, ""), secure: protocol === "https:",
             host: hostname.replace(/^\[|\]$/g, ""), port, authority };
}

// A token that could end its line is refused.
function readToken(token) {
    if (token && !/^[\t\x20-\x7e]+$/.test(token))
        throw new TypeError("token must have printable characters only");
    return token;
}

// A module of Node, or null elsewhere. Bundlers leave the name alone.
async function nodeModule(name) {
    const { process } = globalThis;

    if (!process?.versions?.node || typeof globalThis.EdgeRuntime === "string")
        return null;
    return process.getBuiltinModule?.(name) ??
        import(/* webpackIgnore: true */ /* @vite-ignore */ name);
}

// ---- sockets of Node ----

class NodeTransport {
    constructor(net, where, token) {
        const { socketPath, host, port, secure } = where;
        const to = socketPath ? { path: socketPath }
            : { host, port: Number(port) || (secure ? 443 : 80) };
        // A certificate is for a name, and names of addresses are not sent.
        const more = secure && !/^[\d.]+$|:/.test(host) ? { servername: host } : {};

        this.fields = `Host: ${where.authority}\r\n` +
            (token ? `Authorization: Bearer ${token}\r\n` : "");
        this.pool = new Pool(() => net.connect({ ...to, ...more }));
    }

    ask({ method, path, body }, options) {
        const head = `${method} ${path} HTTP/1.1\r\n${this.fields}`;
        const text = body === undefined ? `${head}\r\n`
            : `${head}Content-Type: application/json\r\nContent-Length: ` +
              `${Buffer.byteLength(body)}\r\n\r\n${body}`;

        return this.pool.ask(text, options);
    }

    close() {
        this.pool.close();
    }
}

// ---- fetch ----

class FetchTransport {
    constructor(fetch, where, token) {
        this.fetch = fetch;
        this.base = where.text;
        this.headers = token ? { Authorization: `Bearer ${token}` } : {};
    }

    async ask({ method, path, body }, { ms, late, signal }) {
        const stop = new AbortController();
        const onAbort = () => stop.abort(signal.reason);
        const timer = setTimeout(() => stop.abort(late()), ms);
        const headers = { ...this.headers };

        if (body !== undefined)
            headers["Content-Type"] = "application/json";
        signal?.addEventListener("abort", onAbort, { once: true });
        try {
            const response = await this.fetch(
                this.base + path,
                { method, headers, body, signal: stop.signal, redirect: "manual" });

            return { status: response.status, text: await response.text() };
        } catch (error) {
            throw stop.signal.aborted ? stop.signal.reason : error;
        } finally {
            clearTimeout(timer);
            signal?.removeEventListener("abort", onAbort);
        }
    }

    close() {}
}

async function open(where, token, fetch) {
    const net = fetch ? null :
        await nodeModule(where.secure ? "node:tls" : "node:net");

    if (net)
        return new NodeTransport(net, where, token);
    if (where.socketPath)
        throw failed("unreachable", "unix sockets need Node");
    return new FetchTransport(fetch ?? globalThis.fetch.bind(globalThis), where,
                              token);
}

// ---- one call ----

export class Transport {
    #transport = null;

    constructor({ url, token, fetch }) {
        this.where = readUrl(url);
        this.token = readToken(token);
        this.fetch = fetch;
    }

    async close() {
        (await this.opened?.catch(() => null))?.close();
    }

    async #open() {
        this.opened ??= open(this.where, this.token, this.fetch);
        this.#transport = await this.opened;
    }

    /**
     * Sends a request and returns its JSON. Throws a SluiceError, or the reason
     * of `signal` if the caller has aborted.
     */
    async call(method, path, value, { deadlineMs, signal, alone, once }) {
        const body = value === undefined ? undefined : JSON.stringify(value);
        const late = () => failed("timeout", `${this.where.text} did not answer ` +
                                             `within ${deadlineMs} ms`);
        let answer;

        signal?.throwIfAborted();
        try {
            if (!this.#transport)
                await this.#open();
            answer = await this.#transport.ask(
                { method, path, body },
                { ms: deadlineMs, late, signal, alone, once });
        } catch (error) {
            signal?.throwIfAborted();
            throw this.#failure(error);
        }
        return readAnswer(this.where.text, answer);
    }

    // A failure with the error of the platform.
    #failure(error) {
        if (error instanceof SluiceError)
            return error;
        return failed(error instanceof MalformedError ? "malformed" : "unreachable",
                      `${this.where.text} cannot be reached: ` +
                      `${error?.message ?? error}`, { cause: error });
    }
}

function parse(text) {
    try {
        return JSON.parse(text);
    } catch {
        return undefined;
    }
}

const isRefusal = (status) => status >= 400 && status < 500 && status !== 429;

function readAnswer(url, { status, text }) {
    const value = parse(text);

    if (status >= 200 && status < 300) {
        if (value === undefined || value === null)
            throw failed("malformed", `${url} answered ${status} without JSON`,
                         { status });
        return value;
    }

    const code = typeof value?.code === "string" ? value.code : null;
    const detail = typeof value?.detail === "string" ? value.detail : null;

    throw new SluiceError(
        `${url} answered ${status}${detail ? `: ${detail}` : ""}`,
        { status, code, detail, failure: isRefusal(status) ? null : "status" });
}
