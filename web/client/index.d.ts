// index.d.ts -- the manual of this module.
//
// Spans are milliseconds, instants are milliseconds since 1970, as Date.now()
// has them. `now`, `random`, `sleep` and `fetch` are what you would expect
// unless you hand in something else, as tests do.

/** What is said of one wait. */
export interface Wait {
    /** The attempt that was refused; the first is 1. */
    attempt: number;
    waitMs: number;
    status: number;
}

export interface BackoffOptions {
    /** Of a call, the first included; 6. */
    attempts?: number;
    /** The first wait of our own; 500. Each is twice the one before. */
    baseMs?: number;
    /** No wait of our own is longer, its random part included; 30,000. */
    capMs?: number;
    /** A server that asks for more is given up; 900,000 (15 minutes). */
    longestMs?: number;
    now?: () => number;
    /** In [0, 1). */
    random?: () => number;
    sleep?: (ms: number, signal?: AbortSignal) => Promise<void>;
    /** Called before each wait: for a countdown. */
    onWait?: (wait: Wait) => void;
    signal?: AbortSignal;
}

/** What a refusal is read from: a Response is one. */
export interface Refusal {
    status: number;
    headers: { get(name: string): string | null };
}

/** There is no other attempt: it was the last, or the server asks for more
 * than the longest wait, or the body was a stream. */
export class BackoffError extends Error {
    name: "BackoffError";
    /** The last answer, its body still to be read. */
    readonly response: Response;
    status: number;
    attempts: number;
    /** When the server said to come back, or null. */
    retryAt: number | null;
}

/** True for 429 and 503. */
export function isRetried(status: number): boolean;

/** How long a server asks to wait: by Retry-After (seconds, or a date in any
 * of the three forms of HTTP), else by X-RateLimit-Reset (below 1,000,000,000
 * seconds from now, below 100,000,000,000 seconds since 1970). 0 if that lies
 * behind us, null if it says nothing that we understand. */
export function toldWait(headers: Refusal["headers"], now: number):
    number | null;

/** Rejects with the signal's reason as soon as it is given. */
export function sleep(ms: number, signal?: AbortSignal): Promise<void>;

/** One call with all its attempts. */
export class Backoff {
    constructor(options?: BackoffOptions);
    /** Refusals so far. */
    refused: number;
    /** How long to wait before the next attempt. Throws a BackoffError if
     * there is none. */
    next(response: Refusal): number;
}

/** Make a call until it is answered with something else than 429 and 503. */
export function withBackoff(
    call: (attempt: number) => Promise<Response>,
    options?: BackoffOptions & {
        /** Why there can be no second attempt, if so. */
        once?: string;
    }): Promise<Response>;

export interface FetchOptions extends Omit<BackoffOptions, "signal"> {
    fetch?: typeof fetch;
    /** For POST and PATCH without such a header; one is made up otherwise. */
    idempotencyKey?: string;
}

/** fetch(), made again after 429 and 503. Every attempt of a POST or PATCH
 * carries the same Idempotency-Key. A body that is a stream is sent once. The
 * signal of `init` stops attempts and waits. Other statuses are handed over,
 * and failures of the network are thrown, as by fetch(). */
export function fetchWithBackoff(
    input: string | URL | Request, init?: RequestInit, options?: FetchOptions):
    Promise<Response>;

/** 128 bits of chance in the form of a UUID. */
export function newIdempotencyKey(): Promise<string>;

export interface RateLimitQuestion {
    /** rl:ENV:LIMIT:SCOPE:ID, which names the limit of the policy and whose it
     * is; or the ID alone beside `limit: "name"`. */
    key: string;
    /** The limit's name; or its number, which is the policy's to say: the
     * answer has it. */
    limit?: string | number;
    /** The policy's to say, too. */
    windowSec?: number;
    /** 1; 0 looks and takes nothing. */
    cost?: number;
}

export interface RateLimitOptions {
    /** Of the daemon; or, with a path, of an endpoint of your application that
     * hands the question on. Default: SLUICE_URL in the environment, else
     * http://127.0.0.1:8080. */
    url?: string;
    /** The daemon's access_token. Not for browsers. */
    token?: string;
    /** What holds while nobody answers: an error (the default), or yes, or
     * no. */
    onFailure?: "throw" | "allow" | "deny";
    fetch?: typeof fetch;
    now?: () => number;
    signal?: AbortSignal;
}

export interface RateLimitResult {
    ok: boolean;
    /** What is left; null while nobody answers. */
    remaining: number | null;
    /** When all is there again; null if no time is known. */
    resetAt: number | null;
    /** The policy's number. */
    limit: number | null;
    /** Refused: until the same passes; null if it passed, or never will. */
    retryAfterMs: number | null;
    /** What to answer if it is refused: status, headers and body. */
    status: number;
    headers: Record<string, string>;
    body: unknown;
    /** Decided without the store, or without the daemon. */
    degraded: boolean;
}

/** The daemon, or what stands before it, did not answer the question. */
export class RateLimitError extends Error {
    name: "RateLimitError";
    /** What it answered; null if it did not. */
    status: number | null;
}

/** May this pass? */
export function rateLimit(what: RateLimitQuestion, options?: RateLimitOptions):
    Promise<RateLimitResult>;

/** What is known of an upload; plain data, to be kept as JSON. */
export interface UploadState {
    id: string | number;
    size: number;
    partSize: number;
    /** By index: the ETag of each part that has arrived, or true. */
    done: Record<number, string | true>;
}

export interface UploadPart {
    index: number;
    etag: string | true;
}

/** A Blob or a File, or what can be cut alike. */
export interface UploadSource {
    size: number;
    slice(from: number, to: number): Blob;
}

export interface UploadOptions<T>
    extends Omit<BackoffOptions, "attempts" | "signal"> {
    /** Begin an upload and hand over its id. Called once; not if there is a
     * state to resume. */
    start: (what: { size: number; partSize: number; count: number }) =>
        Promise<string | number> | string | number;
    /** Where to PUT a part; asked anew for each attempt. */
    urlOf: (part: { id: string | number; index: number; attempt: number }) =>
        Promise<string | URL> | string | URL;
    /** End it; what it hands over, upload() hands over. */
    finish?: (sent: { id: string | number; parts: UploadPart[] }) => Promise<T>;
    /** The state of an upload that was stopped. */
    resume?: UploadState;
    /** Called at the beginning and after each part: keep the state. */
    onProgress?: (state: UploadState) => void | Promise<void>;
    /** 8 MiB. */
    partSize?: number;
    /** Parts on their way at the same time; 8, and no more. */
    atOnce?: number;
    headers?: RequestInit["headers"];
    fetch?: typeof fetch;
    signal?: AbortSignal;
}

/** The upload stopped; `state` is how to go on, `cause` is why. */
export class UploadError extends Error {
    name: "UploadError";
    state: UploadState;
    cause: unknown;
}

/** Send a file in parts, each asked again six times at most. */
export function upload<T = { id: string | number; parts: UploadPart[] }>(
    source: UploadSource, options: UploadOptions<T>): Promise<T>;
