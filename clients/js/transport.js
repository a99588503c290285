// transport.js -- one HTTP request to the daemon, within its deadline.
//
// On Node it is node:http with kept connections, which also reaches unix
// sockets. Elsewhere, and with a `fetch` of the caller, it is fetch().

const DAEMON = "http://127.0.0.1:8080";
const DEADLINE = 250;
const LONGEST_ANSWER = 64 * 1024 * 1024;
const SOCKETS = 64;

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
        return { text, socketPath: text.replace(/^unix:(\/\/(?=\/))?/, "") };
    if (!/^https?:\/\/[^/]+\/?$/.test(text))
        throw new TypeError(
            `url must be http://HOST:PORT, https://HOST:PORT or unix:PATH, ` +
            `not ${text}`);

    const { protocol, hostname, port } = new URL(text);

    return { text: text.replace(/\/$/, ""), secure: protocol === "https:",
             host: hostname.replace(/^\[|\]$/g, ""), port };
}

// A module of Node, or null elsewhere. Bundlers leave the name alone.
async function nodeModule(name) {
    const { process } = globalThis;

    if (!process?.versions?.node || typeof globalThis.EdgeRuntime === "string")
        return null;
    return process.getBuiltinModule?.(name) ??
        import(/* webpackIgnore: true */ /* @vite-ignore */ name);
}

// ---- node:http ----

class NodeTransport {
    constructor(http, where) {
        this.http = http;
        this.where = where;
        this.agent = new http.Agent({ keepAlive: true, maxSockets: SOCKETS,
                                      maxFreeSockets: SOCKETS / 4 });
    }

    // A kept connection that the daemon has closed meanwhile is replaced: the
    // request did not arrive.
    async ask(request, signal) {
        for (;;) {
            try {
                return await this.once(request, signal);
            } catch (error) {
                if (!error.wasClosed)
                    throw error;
            }
        }
    }

    once({ method, path, headers, body }, signal) {
        const { socketPath, host, port } = this.where;

        return new Promise((resolve, reject) => {
            const request = this.http.request(
                { socketPath, host, port, method, path, agent: this.agent,
                  headers: body === undefined ? headers : {
                      ...headers, "Content-Length": Buffer.byteLength(body) } });
            const stop = () => request.destroy(signal.reason);
            const end = (settle, value) => {
                signal.removeEventListener("abort", stop);
                settle(value);
            };
            let response;

            request.on("response", (got) => {
                response = got;
                readNode(got).then((text) => end(resolve, {
                    status: got.statusCode, text }),
                                   (error) => end(reject, error));
            });
            request.on("error", (error) => {
                error.wasClosed = !response && !signal.aborted &&
                    request.reusedSocket &&
                    ["ECONNRESET", "EPIPE"].includes(error.code);
                end(reject, error);
            });
            if (signal.aborted)
                stop();
            else
                signal.addEventListener("abort", stop, { once: true });
            request.end(body);
        });
    }

    close() {
        this.agent.destroy();
    }
}

async function readNode(response) {
    const chunks = [];
    let length = 0;

    for await (const chunk of response) {
        length += chunk.length;
        if (length > LONGEST_ANSWER)
            throw failed("malformed", "the answer is longer than 64 MiB");
        chunks.push(chunk);
    }
    return Buffer.concat(chunks).toString("utf8");
}

// ---- fetch ----

class FetchTransport {
    constructor(fetch, where) {
        this.fetch = fetch;
        this.base = where.text;
    }

    async ask({ method, path, headers, body }, signal) {
        const response = await this.fetch(
            this.base + path,
            { method, headers, body, signal, redirect: "manual" });

        return { status: response.status, text: await response.text() };
    }

    close() {}
}

async function open(where, fetch) {
    const http = fetch ? null :
        await nodeModule(where.secure ? "node:https" : "node:http");

    if (http)
        return new NodeTransport(http, where);
    if (where.socketPath)
        throw failed("unreachable", "unix sockets need Node");
    return new FetchTransport(fetch ?? globalThis.fetch.bind(globalThis), where);
}

// ---- one call ----

// The kind of a failure, by the error of the platform.
function failureOf(error) {
    if (error instanceof SluiceError)
        return error.failure;
    return /^HPE_/.test(error?.code ?? "") ? "malformed" : "unreachable";
}

export class Transport {
    constructor({ url, token, fetch }) {
        this.where = readUrl(url);
        this.headers = token ? { Authorization: `Bearer ${token}` } : {};
        this.fetch = fetch;
    }

    async close() {
        (await this.opened?.catch(() => null))?.close();
    }

    /**
     * Sends a request and returns its JSON. Throws a SluiceError, or the reason
     * of `signal` if the caller has aborted.
     */
    async call(method, path, value, { deadlineMs, signal }) {
        const headers = { ...this.headers };
        const body = value === undefined ? undefined : JSON.stringify(value);

        if (body !== undefined)
            headers["Content-Type"] = "application/json";
        return readAnswer(this.where.text, await this.#within(
            { method, path, headers, body }, deadlineMs, signal));
    }

    async #within(request, deadlineMs, signal) {
        const stop = new AbortController();
        const onAbort = () => stop.abort();
        const timer = setTimeout(onAbort, deadlineMs);

        signal?.throwIfAborted();
        signal?.addEventListener("abort", onAbort, { once: true });
        try {
            this.opened ??= open(this.where, this.fetch);
            return await (await this.opened).ask(request, stop.signal);
        } catch (error) {
            signal?.throwIfAborted();
            throw stop.signal.aborted
                ? failed("timeout", `${this.where.text} did not answer within ` +
                         `${deadlineMs} ms`)
                : failed(failureOf(error), `${this.where.text} cannot be ` +
                         `reached: ${error?.message ?? error}`, { cause: error });
        } finally {
            clearTimeout(timer);
            signal?.removeEventListener("abort", onAbort);
        }
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
