// ratelimit.js -- may this pass? A question to a daemon.
//
// Whose numbers: the policy's. A key in the shape rl:ENV:LIMIT:SCOPE:ID names
// the limit; what the caller believes of its numbers does not change them.

const DAEMON = "http://127.0.0.1:8080";

/** The daemon, or what stands before it, did not answer the question. */
export class RateLimitError extends Error {
    constructor(message, options = {}) {
        super(message, options);
        this.name = "RateLimitError";
        this.status = options.status ?? null;
    }
}

// From rl:prod:assistant_query:org:c2b3; an id may have colons of its own.
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
        throw new TypeError(`key must be a text, not ${key}`);
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

// A key of an organisation must not be counted as that of a user.
function checkScope(scope, { limit }, shown) {
    if (scope && shown?.scope && shown.scope !== scope)
        throw new RateLimitError(
            `the policy counts "${limit}" per ${shown.scope}; the key says ` +
            `${scope}`);
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
        body: verdict.body ?? null,
        degraded: verdict.degraded ?? false,
    };
}

// What holds while nobody answers.
function outage(ok) {
    return { ok, remaining: null, resetAt: null, limit: null,
             retryAfterMs: null, status: ok ? 200 : 503, headers: {},
             body: null, degraded: true };
}

/**
 * May this pass? Takes `cost` (1) from the limit that the key names, and says
 * what is left and when all is there again.
 */
export async function rateLimit(what, options = {}) {
    const { scope, ...question } = questionOf(what);
    const onFailure = options.onFailure ?? "throw";

    if (!["throw", "allow", "deny"].includes(onFailure))
        throw new TypeError(
            `onFailure is throw, allow or deny, not ${onFailure}`);
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
