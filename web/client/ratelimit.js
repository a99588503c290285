// ratelimit.js -- checks against a daemon.
//
// The policy of the daemon has the numbers. A key of the form
// rl:ENV:LIMIT:SCOPE:ID names the limit. Numbers that the caller passes are
// ignored.

const DAEMON = "http://127.0.0.1:8080";

/** The daemon, or a proxy in front of it, returned no verdict. */
export class RateLimitError extends Error {
    constructor(message, options = {}) {
        super(message, options);
        this.name = "RateLimitError";
        this.status = options.status ?? null;
    }
}

// Splits rl:prod:assistant_query:org:c2b3. The id may contain colons.
function readKey(key) {
    const parts = /^rl:[^:]*:([^:]+):([^:]+):(.+)$/s.exec(key);

    if (!parts)
        throw new TypeError(
            `the key "${key}" names no limit; write rl:ENV:LIMIT:SCOPE:ID, ` +
            `or the limit's name beside it: {limit: "search", key: "ann"}`);
    return { limit: parts[1], scope: parts[2], key: parts[3] };
}

function questionOf({ key, limit }) {
    if (typeof key !== "string" || key === "")
        throw new TypeError(`key must be a non-empty string, not ${key}`);
    return typeof limit === "string" ? { limit, key } : readKey(key);
}

function endpointOf(url) {
    const base = url ?? globalThis.process?.env?.SLUICE_URL ?? DAEMON;

    return /^https?:\/\/[^/]+\/?$/.test(base)
        ? `${base.replace(/\/$/, "")}/v1/check` : base;
}

async function ask(question, options) {
    const url = endpointOf(options.url);
    const headers = { "Content-Type": "application/json" };

    if (options.token)
        headers.Authorization = `Bearer ${options.token}`;

    let response;

    try {
        response = await (options.fetch ?? globalThis.fetch)(url, {
            method: "POST", headers, body: JSON.stringify(question),
            signal: options.signal,
        });
    } catch (cause) {
        options.signal?.throwIfAborted();
        throw new RateLimitError(`${url} cannot be reached`, { cause });
    }
    return readAnswer(url, response);
}

async function readAnswer(url, response) {
    let answer;

    try {
        answer = await response.json();
    } catch (cause) {
        throw new RateLimitError(
            `${url} answered ${response.status} without a verdict`,
            { cause, status: response.status });
    }
    if (!response.ok || typeof answer?.allowed !== "boolean")
        throw new RateLimitError(
            `${url} answered ${response.status}: ` +
            (answer?.detail ?? answer?.message ?? "no verdict"),
            { status: response.status });
    return answer;
}

// A key of an organisation must not be counted as a user.
function checkScope(scope, { limit }, shown) {
    if (scope && shown?.scope && shown.scope !== scope)
        throw new RateLimitError(
            `the policy counts "${limit}" per ${shown.scope}; the key has ` +
            `scope ${scope}`);
}

function resultOf(verdict, shown, now) {
    return {
        ok: verdict.allowed,
        remaining: shown?.remaining ?? null,
        resetAt: shown?.reset_ms == null ? null : now + shown.reset_ms,
        limit: shown?.limit ?? null,
        retryAfterMs: verdict.retry_after_ms ?? null,
        status: verdict.status,
        headers: verdict.headers ?? {},
        appendHeaders: verdict.append_headers ?? [],
        body: verdict.body ?? null,
        degraded: verdict.degraded ?? false,
    };
}

// The result if the daemon does not answer.
function outage(ok) {
    return { ok, remaining: null, resetAt: null, limit: null,
             retryAfterMs: null, status: ok ? 200 : 503, headers: {},
             appendHeaders: [], body: null, degraded: true };
}

/**
 * Takes `cost` (default 1) from the limit that the key names, and returns the
 * decision, the remaining units and the time of the reset.
 */
export async function rateLimit(what, options = {}) {
    const { scope, ...question } = questionOf(what);
    const onFailure = options.onFailure ?? "throw";

    if (!["throw", "allow", "deny"].includes(onFailure))
        throw new TypeError(
            `onFailure must be throw, allow or deny, not ${onFailure}`);
    if (what.cost !== undefined)
        question.cost = what.cost;

    let verdict;

    try {
        verdict = await ask(question, options);
    } catch (error) {
        const down = error instanceof RateLimitError &&
            (error.status === null || error.status >= 500);

        if (!down || onFailure === "throw")
            throw error;
        return outage(onFailure === "allow");
    }

    const shown = verdict.limits?.[0];

    checkScope(scope, question, shown);
    return resultOf(verdict, shown, (options.now ?? Date.now)());
}

// The names in two lists, each once.
function merge(before, more) {
    const names = new Map();

    for (const name of [before ?? [], more].flat().join(",").split(","))
        if (name.trim() && !names.has(name.trim().toLowerCase()))
            names.set(name.trim().toLowerCase(), name.trim());
    return [...names.values()].join(", ");
}

/**
 * Sets the headers of a result on a response of node:http, or on a Headers
 * object. Lists that the response has already (`appendHeaders`) get what is
 * missing in them.
 */
export function setHeaders(to, { headers, appendHeaders }) {
    const lists = appendHeaders.map((name) => name.toLowerCase());

    for (const [name, value] of Object.entries(headers)) {
        const isList = lists.includes(name.toLowerCase());

        if (typeof to.setHeader === "function")
            to.setHeader(name, isList ? merge(to.getHeader(name), value) : value);
        else
            to.set(name, isList ? merge(to.get(name), value) : value);
    }
}
