// answer.js -- what an answer of a limited endpoint says.
//
// Times are durations from the moment of the answer, in ms of a monotonic
// clock. The client's wall clock is not used: it may be wrong by hours. An
// absolute time in the answer (X-RateLimit-Reset, a date in Retry-After) is
// compared with the answer's own Date. Only if that is missing (another origin
// does not expose it), the client's clock stands in for it.

const KINDS = {
    402: "plan", 403: "forbidden", 409: "conflict", 422: "invalid",
    429: "rate", 503: "unavailable",
};

// X-RateLimit-Reset below this is in seconds from now, else since 1970. Values
// above the second are ignored: they may be milliseconds.
const EPOCH_BEGINS = 1e9;
const EPOCH_ENDS = 1e11;

export const monotonic = () => performance.now();

/** Whole or decimal seconds as ms, rounded up; null if it is no number. */
function readSeconds(text) {
    return /^\d+(\.\d*)?$/.test(text ?? "") ? Math.ceil(Number(text)) * 1000
        : null;
}

function readDate(text) {
    const at = /^[A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} \d{4} [\d:]{8} GMT$/
        .test(text ?? "") ? Date.parse(text) : NaN;

    return Number.isNaN(at) ? null : at;
}

// r and t of RateLimit: "api";r=0;t=12
function readRateLimit(text) {
    const part = (name) => {
        const found = new RegExp(`;\\s*${name}=(\\d+)`).exec(text ?? "");

        return found ? Number(found[1]) : null;
    };

    return { remaining: part("r"), resetMs: part("t") === null ? null
        : part("t") * 1000 };
}

function readNumber(text) {
    return /^\d+$/.test(text ?? "") ? Number(text) : null;
}

function readRetryAfter(text, serverNow) {
    const ms = readSeconds(text);

    if (ms !== null)
        return ms;

    const at = readDate(text);

    return at === null ? null : Math.max(0, at - serverNow);
}

function readReset(text, serverNow) {
    const ms = readSeconds(text);

    if (ms === null || ms >= EPOCH_ENDS * 1000)
        return null;
    return ms < EPOCH_BEGINS * 1000 ? ms : Math.max(0, ms - serverNow);
}

// The body has the wait in ms. Retry-After is the same, rounded up to seconds.
// If they differ by more, a proxy has changed one of them, and the header
// counts.
function readWait(header, body) {
    const exact = Number.isFinite(body?.retry_after_ms)
        ? Math.max(0, Math.ceil(body.retry_after_ms)) : null;
    const told = header ?? readSeconds(`${body?.retryAfterSec ??
        body?.retry_after ?? ""}`);

    if (exact === null || told === null)
        return exact ?? told;
    return exact <= told && exact > told - 1000 ? exact : told;
}

function messageOf(body) {
    const text = body?.message ?? body?.detail ?? body?.error?.message ??
        body?.error;

    return typeof text === "string" && text !== "" ? text : null;
}

/** An http(s) link, or null: other schemes could run a script. */
export function safeLink(url, base) {
    try {
        const link = new URL(url, base ?? globalThis.location?.href);

        return /^https?:$/.test(link.protocol) ? link.href : null;
    } catch {
        return null;
    }
}

/**
 * Reads status, headers and parsed body. `at` is the monotonic time of the
 * answer.
 */
export function parseAnswer({ status, headers, body = null },
                            { at = monotonic(), wall = Date.now() } = {}) {
    const get = (name) => headers?.get(name)?.trim() ?? null;
    const date = readDate(get("date"));
    const serverNow = date ?? wall;
    const standard = readRateLimit(get("ratelimit"));
    const ok = status >= 200 && status < 300;
    const waitMs = ok ? null
        : readWait(readRetryAfter(get("retry-after"), serverNow), body);
    // RateLimit has a duration. X-RateLimit-Reset needs the answer's Date, and
    // can be the time of the next unit (`reset: next`), which is earlier.
    const reset = readReset(get("x-ratelimit-reset"), serverNow);
    const resetMs = date !== null ? reset ?? standard.resetMs
        : standard.resetMs ?? reset;
    // Date is rounded down to a second. With waits rounded up, the sum is the
    // end of a period that ends with a second.
    const momentOf = (ms) => serverNow + Math.ceil(ms / 1000) * 1000;
    const upgrade = body?.upgrade_url ?? body?.upgradeUrl ?? null;

    return {
        status, ok, at, waitMs, resetMs,
        kind: ok ? "ok" : KINDS[status] ?? "other",
        message: messageOf(body),
        code: typeof body?.code === "string" ? body.code : null,
        requestId: get("x-request-id") ?? body?.request_id ??
            body?.requestId ?? null,
        limit: readNumber(get("x-ratelimit-limit")),
        remaining: readNumber(get("x-ratelimit-remaining")) ??
            standard.remaining,
        quotaRemaining: readNumber(get("x-org-quota-remaining")),
        /** Wall time by the server's clock, to show as a date. */
        until: waitMs === null ? null : momentOf(waitMs),
        resetAt: resetMs === null ? null : momentOf(resetMs),
        upgradeUrl: typeof upgrade === "string" ? safeLink(upgrade) : null,
    };
}

/** Reads a Response of fetch(), which stays readable. */
export async function readAnswer(response, { now = monotonic } = {}) {
    const at = now(); // before the body has come
    let body = null;

    if (!response.ok) {
        try {
            body = JSON.parse(await response.clone().text());
        } catch {
            // Not JSON: the status and the headers say enough.
        }
    }
    return parseAnswer({ status: response.status, headers: response.headers,
                         body }, { at });
}
