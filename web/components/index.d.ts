// index.d.ts -- the reference of this module; the manual is
// docs/guide/components.md. Durations are milliseconds.

export type Kind = "ok" | "rate" | "plan" | "unavailable" | "conflict" |
    "invalid" | "forbidden" | "other";

/** What an answer says. */
export interface Answer {
    status: number;
    ok: boolean;
    kind: Kind;
    /** Monotonic time of the answer. */
    at: number;
    /** Time until the same request passes; null if unknown or allowed. */
    waitMs: number | null;
    /** Time until the limit resets. */
    resetMs: number | null;
    message: string | null;
    code: string | null;
    requestId: string | null;
    limit: number | null;
    remaining: number | null;
    quotaRemaining: number | null;
    /** Wall times by the server's clock. */
    until: number | null;
    resetAt: number | null;
    upgradeUrl: string | null;
}

/** performance.now() */
export function monotonic(): number;
export function parseAnswer(
    response: { status: number; headers: { get(name: string): string | null };
                body?: unknown },
    options?: { at?: number; wall?: number }): Answer;
/** Reads a Response, which stays readable. */
export function readAnswer(response: Response,
                           options?: { now?: () => number }): Promise<Answer>;
/** An http or https link, or null. */
export function safeLink(url: string, base?: string): string | null;

export interface Clock {
    now?: () => number;
    setTimer?: (run: () => void, ms: number) => unknown;
    clearTimer?: (timer: unknown) => void;
    events?: EventTarget | null;
}

export class Deadline {
    constructor(waitMs: number, options?: { at?: number; now?: () => number });
    /** 0 when the time has come. */
    left(): number;
    seconds(): number;
}

/** Calls onTick when the number of seconds changes; returns a stop. */
export function countDown(deadline: Deadline, onTick: (seconds: number) => void,
                          options?: Clock): () => void;

export type Message = string | { other: string; [form: string]: string };
export type Messages = Record<string, Message>;

export function messagesOf(language?: string, own?: Messages): Messages;
export function setMessages(language: string, messages: Messages): void;
export function say(messages: Messages, key: string,
                    values?: Record<string, unknown>, language?: string): string;

interface Translated {
    messages: Messages;
    readonly language: string;
}

/** Events: sluice-ready. */
export class SluiceCountdown extends HTMLElement implements Translated {
    messages: Messages;
    readonly language: string;
    readonly waiting: boolean;
    show(response: Response | Answer): Promise<Answer>;
    clear(): void;
}

/** A meter of the usage JSON. */
export interface Meter {
    name: string;
    kind?: string;
    unit?: string;
    plan?: string | null;
    used: number;
    limit: number | null;
    remaining?: number | null;
    overage?: number;
    credits?: number;
    credited?: number;
    reset?: string | null;
    exhausted?: string | null;
    degraded?: boolean;
    [more: string]: unknown;
}

export class SluiceMeter extends HTMLElement implements Translated {
    messages: Messages;
    readonly language: string;
    meter: Meter | null;
}

export function stateOf(used: number, limit: number | null):
    "ok" | "warn" | "high" | "over";

/** Events: sluice-ready. */
export class SluiceSendGuard extends HTMLElement implements Translated {
    messages: Messages;
    readonly language: string;
    readonly blocked: boolean;
    readonly remaining: number | null;
    learn(response: Response | Answer): Promise<Answer>;
}

export interface QueueRequest {
    url: string;
    /** Default POST. */
    method?: string;
    headers?: Record<string, string>;
    /** A string, or a value that becomes JSON. */
    body?: unknown;
    /** Default: the url. */
    label?: string;
    /** The Idempotency-Key; default: a random one. */
    key?: string;
}

export interface QueueItem {
    id: string;
    key: string;
    url: string;
    method: string;
    label: string;
    state: "waiting" | "sending" | "limited" | "offline" | "stopped" | "done";
    /** From 1; undefined when it was sent. */
    position?: number;
    attempts: number;
    status?: number | null;
    message?: string | null;
    upgradeUrl?: string | null;
    until?: number | null;
}

/** Events: change, done, stopped. */
export class SendQueue extends EventTarget {
    constructor(name?: string, options?: {
        storage?: Storage | null; locks?: LockManager | null;
        fetch?: typeof fetch; random?: () => number; wall?: () => number;
        skipStopped?: boolean; clock?: Clock });
    readonly name: string;
    readonly items: QueueItem[];
    readonly deadline: Deadline | null;
    skipStopped: boolean;
    add(request: QueueRequest): QueueItem;
    retry(id: string): void;
    remove(id: string): void;
    close(): void;
}

/** Events: sluice-sent, sluice-stopped, with a QueueItem in `detail`. */
export class SluiceQueue extends HTMLElement implements Translated {
    messages: Messages;
    readonly language: string;
    readonly queue: SendQueue | null;
    readonly items: QueueItem[];
    add(request: QueueRequest): QueueItem;
}

/** The state of a limit in all tabs. Events: change. */
export class LimitState extends EventTarget {
    constructor(name: string, options?: {
        channel?: BroadcastChannel; storage?: Storage | null;
        wall?: () => number; now?: () => number });
    readonly name: string;
    readonly remaining: number | null;
    readonly deadline: Deadline | null;
    readonly resetAt: number | null;
    readonly blocked: boolean;
    learn(answer: Answer): void;
    expire(): void;
    close(): void;
}

declare global {
    interface HTMLElementTagNameMap {
        "sluice-countdown": SluiceCountdown;
        "sluice-meter": SluiceMeter;
        "sluice-send-guard": SluiceSendGuard;
        "sluice-queue": SluiceQueue;
    }
}
