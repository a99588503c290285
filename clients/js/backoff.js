// backoff.js -- retry times of a denied client, by the rules of
// include/sluice_backoff.h.
//
// A wait has a fixed and a random part. The fixed part is the wait that the
// server asks for, or base * 2^n. The random part is at most base * 2^n.
// Without a wait from the server, both together stay below the cap. Durations
// are whole milliseconds, rounded up.

import { readHttpDate } from "./httpdate.js";

export const ATTEMPTS = 6;
const BASE = 500;
const CAP = 30_000;
const LONGEST = 15 * 60_000;

// X-RateLimit-Reset below EPOCH_BEGINS is in seconds from now, below EPOCH_ENDS
// in seconds since 1970. Larger values are ignored: they may be milliseconds.
const EPOCH_BEGINS = 1e9;
const EPOCH_ENDS = 1e11;

// A longer timer fires at once.
const TIMER_MOST = 2 ** 31 - 1;

/** All attempts have failed, or no retry is possible. */
export class BackoffError extends Error {
    constructor(message, { response, attempts, retryAt = null }) {
        super(message);
        this.name = "BackoffError";
        // Not enumerable, so that it is not printed with the error.
        Object.defineProperty(this, "response", { value: response });
        this.status = response.status;
        this.attempts = attempts;
        this.retryAt = retryAt;
    }
}

/** True if a call with this status is retried. */
export function isRetried(status) {
    return status === 429 || status === 503;
}

// Seconds, rounded up; null if `text` is not a number.
function readSeconds(text) {
    return /^\d+(\.\d*)?$/.test(text) ? Math.ceil(Number(text)) : null;
}

const trimmed = (text) => (text ?? "").replace(/^[ \t]+|[ \t]+$/g, "");

function toldByRetryAfter(text, now) {
    const seconds = readSeconds(text);

    if (seconds !== null)
        return seconds * 1000;

    const at = readHttpDate(text, now);

    return at === null ? null : at - now;
}

function toldByReset(text, now) {
    const seconds = readSeconds(text);

    if (seconds === null || seconds >= EPOCH_ENDS)
        return null;
    return seconds < EPOCH_BEGINS ? seconds * 1000 : seconds * 1000 - now;
}

/**
 * The wait that the server asks for, in ms: 0 if that time has passed, null if
 * there is no valid header.
 */
export function toldWait(headers, now) {
    const span =
        toldByRetryAfter(trimmed(headers.get("retry-after")), now) ??
        toldByReset(trimmed(headers.get("x-ratelimit-reset")), now);

    return span === null ? null : Math.max(0, Math.ceil(span));
}

/** Waits. Rejects with the reason of the signal when it is aborted. */
export async function sleep(ms, signal) {
    for (let left = ms; left > 0; left -= TIMER_MOST)
        await nap(Math.min(left, TIMER_MOST), signal);
}

function nap(ms, signal) {
    return new Promise((resolve, reject) => {
        const stop = () => {
            clearTimeout(timer);
            reject(signal.reason);
        };
        const timer = setTimeout(() => {
            signal?.removeEventListener("abort", stop);
            resolve();
        }, ms);

        if (signal?.aborted)
            stop();
        else
            signal?.addEventListener("abort", stop, { once: true });
    });
}

function atLeast(name, value, least) {
    if (typeof value !== "number" || !(value >= least))
        throw new RangeError(
            `${name} must be a number of at least ${least}, not ${value}`);
    return value;
}

/** The attempts of one call: counts denials and computes the waits. */
export class Backoff {
    constructor(options = {}) {
        this.attempts = atLeast("attempts", options.attempts ?? ATTEMPTS, 1);
        this.baseMs = atLeast("baseMs", options.baseMs ?? BASE, 0);
        this.capMs = atLeast("capMs", options.capMs ?? CAP, 0);
        this.longestMs = atLeast("longestMs", options.longestMs ?? LONGEST, 0);
        this.random = options.random ?? Math.random;
        this.now = options.now ?? Date.now;
        this.refused = 0;
    }

    // The fixed part if the server asks for no wait.
    #step() {
        return Math.min(this.baseMs * 2 ** this.refused,
                        Math.floor(this.capMs / 2));
    }

    /** The wait before the next attempt in ms. Throws if there is none. */
    next(response) {
        const now = this.now();
        const told = toldWait(response.headers, now);
        const attempts = this.refused + 1;
        const said = `the server answered ${response.status}`;
        const retryAt = told ? now + told : null;

        if (attempts >= this.attempts)
            throw new BackoffError(
                `${said} to the last of ${this.attempts} attempts`,
                { response, attempts, retryAt });
        if (told > this.longestMs)
            throw new BackoffError(
                `${said} and asks to wait ${Math.floor(told / 1000)} s; ` +
                `the longest wait is ${Math.floor(this.longestMs / 1000)} s`,
                { response, attempts, retryAt });

        const step = this.#step();
        const chance = Math.floor(this.random() * (step + 1));

        this.refused++;
        return (told || step) + Math.min(chance, step);
    }
}

// An unread body would keep its connection busy.
async function drop(response) {
    try {
        await response.body?.cancel?.();
    } catch {
        // The body has ended already.
    }
}

/**
 * Repeats a call until its status is neither 429 nor 503. `call(attempt)`
 * returns a response. `options.once`, if set, is the reason why the call cannot
 * be repeated. /
 */
export async function withBackoff(call, options = {}) {
    const backoff = new Backoff(options);
    const rest = options.sleep ?? sleep;
    const { signal } = options;

    for (let attempt = 1; ; attempt++) {
        signal?.throwIfAborted();

        const response = await call(attempt);

        if (!isRetried(response.status))
            return response;
        if (options.once)
            throw new BackoffError(
                `the server answered ${response.status}, and there is no ` +
                `second attempt: ${options.once}`,
                { response, attempts: attempt });

        const waitMs = backoff.next(response);

        options.onWait?.({ attempt, waitMs, status: response.status });
        await drop(response);
        await rest(waitMs, signal);
    }
}
