// ratelimit.js -- checks against a daemon.
//
// The policy of the daemon has the numbers. A key of the form
// rl:ENV:LIMIT:SCOPE:ID names the limit. A number that the caller passes is not
// sent; if the policy has another, a warning says so, once for each limit.

import { readDeadline } from "./transport.js";

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

    const { signal } = options;
    const deadlineMs = readDeadline(options.deadlineMs);
    const stop = new AbortController();
    const onAbort = () => stop.abort(signal.reason);
    const timer = setTimeout(() => stop.abort(), deadlineMs);

    signal?.throwIfAborted();
    signal?.addEventListener("abort", onAbort, { once: true });
    try {
        return await readAnswer(
            url, await (options.fetch ?? globalThis.fetch)(url, {
                method: "POST", headers, body: JSON.stringify(question),
                signal: stop.signal,
            }));
    } catch (cause) {
        signal?.throwIfAborted();
        if (cause instanceof RateLimitError && !stop.signal.aborted)
            throw cause;
        throw new RateLimitError(
            stop.signal.aborted
                ? `${url} did not answer within ${deadlineMs} ms`
                : `${url} cannot be reached`, { cause });
    } finally {
        clearTimeout(timer);
        signal?.removeEventListener("abort", onAbort);
    }
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

const warned = new Set();

// Programs that were written with numbers of their own learn that the policy has
// others.
function warnOfLimit(wanted, shown, name, options) {
    if (typeof wanted !== "number" || typeof shown?.limit !== "number" ||
        wanted === shown.limit)
        return;

    const warning = `rateLimit() was called with limit ${wanted}; the policy ` +
        `allows ${shown.limit} for "${name}", and the policy decides`;

    if (options.onWarning) {
        options.onWarning(warning);
    } else if (!warned.has(name)) {
        warned.add(name);
        (globalThis.process?.emitWarning ?? console.warn)(warning);
    }
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
    warnOfLimit(what.limit, shown, question.limit, options);
    return resultOf(verdict, shown, (options.now ?? Date.now)());
}
