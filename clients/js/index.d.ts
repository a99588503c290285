// index.d.ts -- the reference of this module.
//
// The client of a daemon comes first, then what a denied client uses.
//
// Durations are milliseconds, times are milliseconds since 1970, as in
// Date.now(). `now`, `random`, `sleep` and `fetch` default to the platform's;
// tests replace them. An option may be undefined, also under TypeScript's
// exactOptionalPropertyTypes.

/** What is checked: exactly one of `path`, `job` and `limit` with `key`. */
export interface Check {
    /** Path of the request, as the client sent it. */
    path?: string | undefined;
    /** Default GET. */
    method?: string | undefined;
    job?: string | undefined;
    limit?: string | undefined;
    key?: string | undefined;
    user?: string | undefined;
    org?: string | undefined;
    plan?: string | undefined;
    role?: string | undefined;
    ip?: string | undefined;
    headers?: Record<string, string> | undefined;
    /** Units, for all limits or by limit; 0 takes nothing. */
    cost?: number | Record<string, number> | undefined;
    /** Holds the units for a time such as "30s". */
    hold?: string | undefined;
    /** Waits for capacity; the deadline of the call grows by it. */
    wait?: string | undefined;
    request_id?: string | undefined;
    idempotency_key?: string | undefined;
    body?: string | undefined;
    body_base64?: string | undefined;
}

/** One limit of a verdict. */
export interface LimitVerdict {
    name: string;
    kind: string;
    plan: string | null;
    scope: string | null;
    limit: number | null;
    burst: number | null;
    remaining: number | null;
    reset_ms: number | null;
    retry_after_ms: number | null;
    mode: "enforce" | "shadow" | "off";
    allowed: boolean;
    wait_ms?: number;
    [more: string]: unknown;
}

/** Why there is no verdict: no answer in time, no connection, an answer that is
 * no verdict, a status of 5xx, 3xx or 429, or the breaker. */
export type Failure =
    "timeout" | "unreachable" | "malformed" | "status" | "open";

/** The result of a check. */
export interface Result {
    allowed: boolean;
    /** Of the answer to the user; 200 if allowed. */
    status: number;
    code: string | null;
    message: string | null;
    /** The limit that denies. */
    by: string | null;
    /** Numbers of the limit in `by`, else of the one with the smallest share
     * left; null without limits. */
    limit: number | null;
    remaining: number | null;
    resetMs: number | null;
    /** Time until the same request passes; null if allowed, or if it never
     * will. */
    retryMs: number | null;
    /** A leaky bucket asks the request to wait. */
    waitMs: number;
    hold: string | null;
    holdExpiresMs: number | null;
    requestId: string | null;
    /** Decided without the store, or without the daemon. */
    degraded: boolean;
    failure: Failure | null;
    headers: Record<string, string>;
    /** Names of headers that are lists which a response may have already. */
    appendHeaders: string[];
    body: unknown;
    limits: LimitVerdict[];
}

export interface ClientOptions {
    /** http://HOST:PORT, https://HOST:PORT, or unix:PATH on Node. Default:
     * SLUICE_URL in the environment, else http://127.0.0.1:8080. */
    url?: string | undefined;
    /** The access_token of the daemon. */
    token?: string | undefined;
    /** Default: SLUICE_DEADLINE_MS in the environment, else 250. */
    deadlineMs?: number | undefined;
    /** Checks without a verdict: allow (default), deny with 503, or take from an
     * allowance of this process, `local`. */
    onFailure?: "allow" | "deny" | "local" | undefined;
    /** Units per caller in a window that begins with the first one. */
    local?: { limit: number; windowMs: number } | undefined;
    /** After `failures` (default 5) failures in a row the daemon is asked once
     * in `restMs` (default 1000). */
    breaker?: { failures?: number | undefined; restMs?: number | undefined } |
        undefined;
    /** Called for each failure that `onFailure` decides. */
    onError?: ((error: SluiceError) => void) | undefined;
    /** Default: sockets of Node, else the platform's. */
    fetch?: typeof fetch | undefined;
    now?: (() => number) | undefined;
}

export interface CallOptions {
    deadlineMs?: number | undefined;
    signal?: AbortSignal | undefined;
}

export interface EndOptions extends CallOptions {
    /** Of the upstream response, for metrics. */
    status?: number | undefined;
}

/** The state of a hold. */
export interface HoldState {
    hold: string;
    state: "settled" | "released" | "expired" | "held";
    /** It had ended before; nothing was changed. */
    again: boolean;
    expires_ms?: number;
    limits: { name: string; held: number; cost: number;
              remaining: number | null; over: boolean }[];
}

export interface UsageReport {
    org?: string | undefined;
    user?: string | undefined;
    limit: string;
    amount: number;
    idempotency_key?: string | undefined;
    [more: string]: unknown;
}

/** A client of a daemon. Calls that are no checks throw a SluiceError if they
 * fail. */
export class Sluice {
    constructor(options?: ClientOptions);
    deadlineMs: number;
    onFailure: "allow" | "deny" | "local";
    onError?: (error: SluiceError) => void;
    /** Throws a SluiceError only if the daemon refuses the check. */
    check(check: Check, options?: CallOptions): Promise<Result>;
    checkAll(checks: Check[], options?: CallOptions): Promise<Result[]>;
    hold(check: Check, time: string, options?: CallOptions): Promise<Result>;
    /** Default: the held cost. */
    settle(hold: string, cost?: Check["cost"], options?: EndOptions):
        Promise<HoldState>;
    release(hold: string, options?: EndOptions): Promise<HoldState>;
    extend(hold: string, time: string, options?: CallOptions):
        Promise<HoldState>;
    report(usage: UsageReport | UsageReport[], options?: CallOptions):
        Promise<unknown>;
    usage(scope: "org" | "user", id: string, options?: CallOptions):
        Promise<Record<string, unknown>>;
    explain(check: Check, options?: CallOptions):
        Promise<Record<string, unknown>>;
    close(): Promise<void>;
}

/** The daemon gave no verdict, or refused the call. */
export class SluiceError extends Error {
    name: "SluiceError";
    /** Status of the answer; null without one. */
    status: number | null;
    code: string | null;
    detail: string | null;
    /** Null if the daemon refused the call: a fault of the program. */
    failure: Failure | null;
}

/** The webhook is not accepted; the message says why. */
export class WebhookError extends Error {
    name: "WebhookError";
}

/** Verifies a webhook of the scheme standard-webhooks and returns its body,
 * parsed. `body` is the body as it arrived. Throws a WebhookError. */
export function verifyWebhook(
    webhook: {
        headers: { get(name: string): string | null } |
            Record<string, string | string[] | undefined>;
        body: string | Uint8Array;
        /** whsec_ and base64; several during a rotation. */
        secret: string | string[];
    },
    options?: { toleranceSec?: number; now?: () => number }): Promise<unknown>;

/** One wait. */
export interface Wait {
    /** The attempt that was denied; the first is 1. */
    attempt: number;
    waitMs: number;
    status: number;
}

export interface BackoffOptions {
    /** Attempts of a call, including the first; default 6. */
    attempts?: number | undefined;
    /** First wait; default 500. Each wait is twice the previous one. */
    baseMs?: number | undefined;
    /** Longest wait, including its random part, if the server asks for none;
     * default 30,000. */
    capMs?: number | undefined;
    /** Gives up if the server asks for a longer wait; default 900,000 (15
     * minutes). */
    longestMs?: number | undefined;
    now?: (() => number) | undefined;
    /** In [0, 1). */
    random?: (() => number) | undefined;
    sleep?: ((ms: number, signal?: AbortSignal) => Promise<void>) | undefined;
    /** Called before each wait, for example for a countdown. */
    onWait?: ((wait: Wait) => void) | undefined;
    signal?: AbortSignal | undefined;
}

/** A denied response; a Response is one. */
export interface Refusal {
    status: number;
    headers: { get(name: string): string | null };
}

/** No further attempt: it was the last one, the server asks for more than the
 * longest wait, or the body was a stream. */
export class BackoffError extends Error {
    name: "BackoffError";
    /** The last response; its body has not been read. */
    readonly response: Response;
    status: number;
    attempts: number;
    /** Time at which the server allows a retry, or null. */
    retryAt: number | null;
}

/** True for 429 and 503. */
export function isRetried(status: number): boolean;

/** The wait that the server asks for: by Retry-After (seconds, or a date in any
 * of the three HTTP formats), else by X-RateLimit-Reset (below 1,000,000,000
 * seconds from now, below 100,000,000,000 seconds since 1970). 0 if that time
 * has passed, null if there is no valid header. */
export function toldWait(headers: Refusal["headers"], now: number):
    number | null;

/** Rejects with the reason of the signal when it is aborted. */
export function sleep(ms: number, signal?: AbortSignal): Promise<void>;

/** The attempts of one call. */
export class Backoff {
    constructor(options?: BackoffOptions);
    /** Number of denials so far. */
    refused: number;
    /** The wait before the next attempt. Throws a BackoffError if there is
     * none. */
    next(response: Refusal): number;
}

/** Repeats a call until its status is neither 429 nor 503. */
export function withBackoff(
    call: (attempt: number) => Promise<Response>,
    options?: BackoffOptions & {
        /** If set, the reason why the call cannot be repeated. */
        once?: string;
    }): Promise<Response>;

export interface FetchOptions extends Omit<BackoffOptions, "signal"> {
    fetch?: typeof fetch | undefined;
    /** Key for POST and PATCH without the header; default: a random key. */
    idempotencyKey?: string | undefined;
}

/** fetch() with retries after 429 and 503. All attempts of a POST or PATCH
 * carry the same Idempotency-Key. A stream body is sent once. The signal in
 * `init` stops attempts and waits. Other statuses are returned, and network
 * errors are thrown, as by fetch(). */
export function fetchWithBackoff(
    input: string | URL | Request, init?: RequestInit, options?: FetchOptions):
    Promise<Response>;

/** 128 random bits in the form of a UUID. */
export function newIdempotencyKey(): Promise<string>;

export interface RateLimitQuestion {
    /** rl:ENV:LIMIT:SCOPE:ID, which names a limit of the policy and its key; or
     * only the ID, with `limit: "name"`. */
    key: string;
    /** Name of the limit. A number is not sent: the policy has the number, and
     * the result contains it. If they differ, a warning says so. */
    limit?: string | number | undefined;
    /** Ignored: the policy has it. */
    windowSec?: number | undefined;
    /** Default 1; 0 takes nothing. */
    cost?: number | undefined;
}

export interface RateLimitOptions {
    /** URL of the daemon; or, with a path, of an endpoint of your application
     * that forwards the check. Default: SLUICE_URL in the environment, else
     * http://127.0.0.1:8080. */
    url?: string | undefined;
    /** The access_token of the daemon. Not for browsers. */
    token?: string | undefined;
    /** Result if the daemon does not answer: an error (default), allow, or
     * deny. */
    onFailure?: "throw" | "allow" | "deny" | undefined;
    /** Default: SLUICE_DEADLINE_MS in the environment, else 250. */
    deadlineMs?: number | undefined;
    /** Called if the number in the call is not the policy's; default: a warning
     * of the process, once for each limit. */
    onWarning?: ((message: string) => void) | undefined;
    fetch?: typeof fetch | undefined;
    now?: (() => number) | undefined;
    signal?: AbortSignal | undefined;
}

export interface RateLimitResult {
    ok: boolean;
    /** Remaining units; null if the daemon does not answer. */
    remaining: number | null;
    /** Time of the full reset; null if unknown. */
    resetAt: number | null;
    /** The number in the policy. */
    limit: number | null;
    /** If denied: time until the same request passes. Null if it passed, or
     * never will. */
    retryAfterMs: number | null;
    /** The response for a denied client: status, headers and body. */
    status: number;
    headers: Record<string, string>;
    /** Names of headers that are lists which a response may have already. */
    appendHeaders: string[];
    body: unknown;
    /** Decided without the store, or without the daemon. */
    degraded: boolean;
}

/** The daemon, or a proxy in front of it, returned no verdict. */
export class RateLimitError extends Error {
    name: "RateLimitError";
    /** Status of the response; null without a response. */
    status: number | null;
}

/** Checks a request against a daemon. */
export function rateLimit(what: RateLimitQuestion, options?: RateLimitOptions):
    Promise<RateLimitResult>;

/** Sets the headers of a result on a response of node:http, or on a Headers
 * object. What the response has stays, except Content-Type of a denial; lists
 * get what is missing in them. */
export function setHeaders(
    to: { getHeader(name: string): string | number | string[] | undefined;
          setHeader(name: string, value: string): unknown } |
        { get(name: string): string | null;
          set(name: string, value: string): void },
    result: Pick<RateLimitResult, "headers" | "appendHeaders"> &
        { ok?: boolean; allowed?: boolean }): void;

/** State of an upload: plain data that can be stored as JSON. */
export interface UploadState {
    id: string | number;
    size: number;
    partSize: number;
    /** By index: the ETag of each uploaded part, or true. */
    done: Record<number, string | true>;
}

export interface UploadPart {
    index: number;
    etag: string | true;
}

/** A Blob, a File, or an object with the same slice(). */
export interface UploadSource {
    size: number;
    slice(from: number, to: number): Blob;
}

export interface UploadOptions<T>
    extends Omit<BackoffOptions, "attempts" | "signal"> {
    /** Starts an upload and returns its id. Called once; not called with
     * `resume`. */
    start: (what: { size: number; partSize: number; count: number }) =>
        Promise<string | number> | string | number;
    /** URL to PUT a part to; called for each attempt. */
    urlOf: (part: { id: string | number; index: number; attempt: number }) =>
        Promise<string | URL> | string | URL;
    /** Completes the upload. upload() returns its result. */
    finish?: ((sent: { id: string | number; parts: UploadPart[] }) => Promise<T>) |
        undefined;
    /** State of a stopped upload. */
    resume?: UploadState | undefined;
    /** Called at the start and after each part: store the state. */
    onProgress?: ((state: UploadState) => void | Promise<void>) | undefined;
    /** Default 8 MiB. */
    partSize?: number | undefined;
    /** Concurrent parts; default and maximum 8. */
    atOnce?: number | undefined;
    headers?: RequestInit["headers"] | undefined;
    fetch?: typeof fetch | undefined;
    signal?: AbortSignal | undefined;
}

/** The upload stopped for the reason `cause`. Pass `state` as `resume` to
 * continue. */
export class UploadError extends Error {
    name: "UploadError";
    state: UploadState;
    cause: unknown;
}

/** Sends a file in parts, with at most six retries per part. */
export function upload<T = { id: string | number; parts: UploadPart[] }>(
    source: UploadSource, options: UploadOptions<T>): Promise<T>;
