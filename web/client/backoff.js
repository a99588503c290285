// backoff.js -- how long a refused client waits: the rules of
// include/sluice_backoff.h.
//
// A wait has two parts, what must pass and a random part behind it. Ours is
// base * 2^n and as much again at most, and never above the cap; a server's is
// waited for in full. Spans are whole milliseconds, rounded up.

import { readHttpDate } from "./httpdate.js";

export const ATTEMPTS = 6;
const BASE = 500;
const CAP = 30_000;
const LONGEST = 15 * 60_000;

// Below the first, X-RateLimit-Reset is seconds from now; from there on below
// the second, seconds since 1970. Above would be milliseconds or worse.
const EPOCH_BEGINS = 1e9;
const EPOCH_ENDS = 1e11;

// A timer of more fires at once.
const TIMER_MOST = 2 ** 31 - 1;

/** There is no other attempt. */
export class BackoffError extends Error {
    constructor(message, { response, attempts, retryAt = null }) {
        super(message);
        this.name = "BackoffError";
        // Not shown when the error is printed: it would fill a page.
        Object.defineProperty(this, "response", { value: response });
        this.status = response.status;
        this.attempts = attempts;
        this.retryAt = retryAt;
    }
}

/** Is a call that was answered with this status to be made again? */
export function isRetried(status) {
    return status === 429 || status === 503;
}

// Whole seconds, a fraction counts as one more; null if it is no number.
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
 * How long a server asks us to wait, in ms: null if it says nothing that we
 * understand, 0 if that lies behind us.
 */
export function toldWait(headers, now) {
    const span =
        toldByRetryAfter(trimmed(headers.get("retry-after")), now) ??
        toldByReset(trimmed(headers.get("x-ratelimit-reset")), now);

    return span === null ? null : Math.max(0, Math.ceil(span));
}

/** Wait, or reject with the signal's reason as soon as it is given. */
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

/** One call with all its attempts: counts refusals and says how long to wait. */
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

    // The wait of our own without its random part.
    #step() {
        return Math.min(this.baseMs * 2 ** this.refused,
                        Math.floor(this.capMs / 2));
    }

    /** The wait before the next attempt in ms; throws if there is none. */
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

// What nobody reads would keep its connection busy.
async function drop(response) {
    try {
        await response.body?.cancel?.();
    } catch {
        // it has ended otherwise
    }
}

/**
 * Make a call until it is answered with something else than 429 and 503.
 * `call(attempt)` hands over a response; `options.once` is why there can be no
 * second attempt, if so.
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
