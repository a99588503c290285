// result.js -- what a check returns: the verdict with the numbers of one limit,
// or a result that this process has made because there is no verdict.

const PROBLEMS = "https://iana.org/assignments/http-problem-types#";

const share = ({ remaining, limit }) => remaining / Math.max(limit, 1);

// The limit whose numbers are shown: the one that denies, else the one with the
// smallest share left.
function shownOf({ by, limits }) {
    if (by)
        return limits.find(({ name }) => name === by);
    return limits
        .filter(({ mode, limit, remaining }) => mode === "enforce" &&
                Number.isFinite(limit) && Number.isFinite(remaining))
        .reduce((least, one) => !least || share(one) < share(least) ? one : least,
                undefined);
}

const isMap = (value) =>
    value !== null && typeof value === "object" && !Array.isArray(value);

const isAbsent = (value) => value === undefined || value === null;
const isText = (value) => isAbsent(value) || typeof value === "string";
const isNumber = (value) => isAbsent(value) || typeof value === "number";

// What Node and fetch accept as names and values of headers.
const NAME = /^[\w!#$%&'*+.^`|~-]+$/;
const VALUE = /^[\t\x20-\x7e\x80-\xff]*$/;

function areHeaders(value) {
    if (!isMap(value))
        return false;
    for (const name of Object.keys(value))
        if (typeof value[name] !== "string" || !VALUE.test(value[name]) ||
            !NAME.test(name))
            return false;
    return true;
}

const isLimit = (value) =>
    isMap(value) && isNumber(value.limit) && isNumber(value.remaining) &&
    isNumber(value.reset_ms) && isNumber(value.wait_ms);

const areNames = (value) =>
    isAbsent(value) || Array.isArray(value) &&
    value.every((name) => typeof name === "string");

const isStatus = (value) => Number.isInteger(value) && value >= 100 && value < 600;

/** True if `value` has what every verdict has, of the right types. */
export function isVerdict(value) {
    return isMap(value) && typeof value.allowed === "boolean" &&
        isStatus(value.status) && areHeaders(value.headers) &&
        Array.isArray(value.limits) && value.limits.every(isLimit) &&
        areNames(value.append_headers) && isNumber(value.retry_after_ms) &&
        isText(value.by) && isText(value.code) && isText(value.message) &&
        isText(value.hold);
}

/** The result of a verdict. */
export function resultOf(verdict) {
    const shown = shownOf(verdict);
    const waits = verdict.limits.map(({ wait_ms }) => wait_ms ?? 0);

    return {
        allowed: verdict.allowed,
        status: verdict.status,
        code: verdict.code ?? null,
        message: verdict.message ?? null,
        by: verdict.by ?? null,
        limit: shown?.limit ?? null,
        remaining: shown?.remaining ?? null,
        resetMs: shown?.reset_ms ?? null,
        retryMs: verdict.retry_after_ms ?? null,
        waitMs: Math.max(0, ...waits),
        hold: verdict.hold ?? null,
        holdExpiresMs: verdict.hold_expires_ms ?? null,
        requestId: verdict.request_id ?? null,
        degraded: verdict.degraded === true,
        failure: null,
        headers: verdict.headers,
        appendHeaders: verdict.append_headers ?? [],
        body: verdict.body ?? null,
        limits: verdict.limits,
    };
}

const nothing = {
    code: null, message: null, by: null, limit: null, remaining: null,
    resetMs: null, retryMs: null, waitMs: 0, hold: null, holdExpiresMs: null,
    requestId: null, degraded: true, headers: {}, appendHeaders: [], body: null,
    limits: [],
};

function denial(status, code, type, title, detail, retryMs) {
    const seconds = retryMs === null ? null : Math.max(1, Math.ceil(retryMs / 1000));
    const times = seconds === null
        ? {} : { retry_after: seconds, retry_after_ms: retryMs };

    return {
        ...nothing, allowed: false, status, code, message: detail, retryMs,
        headers: { "Content-Type": "application/problem+json",
                   ...seconds === null ? {} : { "Retry-After": String(seconds) },
                   "Cache-Control": "no-store" },
        body: { type: PROBLEMS + type, title, status, detail, code, ...times },
    };
}

/** The result of `onFailure: "allow"`. */
export const passed = (failure) =>
    ({ ...nothing, allowed: true, status: 200, failure });

/** The result of `onFailure: "deny"`: 503, because no limit has denied. */
export const unavailable = (failure) => ({
    ...denial(503, "SERVICE_UNAVAILABLE", "temporary-reduced-capacity",
              "Service unavailable",
              "The limits of this request cannot be checked at the moment. Try " +
              "again shortly.", 1000),
    failure,
});

/** The result of `onFailure: "local"`, from the numbers of the allowance. */
export function localResult(failure, { allowed, limit, remaining, resetMs, never }) {
    const base = allowed ? { ...nothing, allowed, status: 200 }
        : denial(429, "RATE_LIMITED", "quota-exceeded", "Too many requests",
                 never ? `Too many requests: at most ${limit} at once.`
                     : "Too many requests. Please try again in " +
                       `${Math.max(1, Math.ceil(resetMs / 1000))} seconds.`,
                 never ? null : resetMs);

    return { ...base, limit, remaining, resetMs, failure };
}
