// shared.js -- the state of a limit, in all tabs of a browser.
//
// A tab that learns "0 left for 12 s" tells the others by a BroadcastChannel.
// Monotonic clocks of two tabs have different origins, so a message has the
// rest of the wait, and the wall time only to know how old the message is: a
// clock that is wrong is wrong in both. A new or reloaded tab reads the last
// state from localStorage, and asks the other tabs.

import { Deadline } from "./clock.js";

const CHANNEL = "sluice";

// How old a message is; never more than the wait that it carries.
function ageOf(message, wall) {
    const age = wall - message.sent;

    return Number.isFinite(age) ? Math.min(Math.max(0, age), message.left) : 0;
}

const isState = (m) => m !== null && typeof m === "object" &&
    typeof m.name === "string" && Number.isFinite(m.left) &&
    (m.remaining === null || Number.isFinite(m.remaining));

/** Emits "change" when the state has changed, in this tab or another. */
export class LimitState extends EventTarget {
    #channel;
    #storage;
    #wall;
    #clock;

    constructor(name, { channel, storage, wall = Date.now, now } = {}) {
        super();
        this.name = name;
        this.remaining = null;
        this.deadline = null;
        this.resetAt = null; // to show: wall time by the server's clock
        this.#wall = wall;
        this.#clock = now ? { now } : {};
        this.#storage = storage ?? storageOf();
        this.#channel = channel ?? (globalThis.BroadcastChannel
            ? new BroadcastChannel(CHANNEL) : null);
        if (this.#channel)
            this.#channel.onmessage = ({ data }) => this.#hear(data);
        this.#recall();
        this.#post({ asks: name });
    }

    /** Is nothing left, and the time of the reset not here yet? */
    get blocked() {
        return this.remaining === 0 && this.deadline !== null &&
            this.deadline.left() > 0;
    }

    /** Takes over what an answer says: see answer.js. */
    learn(answer) {
        const denied = answer.kind === "rate" || answer.kind === "plan";
        const remaining = denied ? 0 : answer.remaining;
        const wait = denied ? answer.waitMs ?? answer.resetMs : answer.resetMs;

        if (remaining === null || remaining === undefined)
            return;
        this.#set(remaining, remaining === 0 ? wait ?? null : null, answer.at,
                  (denied ? answer.until : null) ?? answer.resetAt ?? null);
        this.#tell();
    }

    /** The time has come: the next answer says how many are left. */
    expire() {
        if (this.remaining === 0 && !this.blocked)
            this.#set(null, null, undefined, null);
    }

    close() {
        this.#channel?.close?.();
        this.#channel = null;
    }

    #set(remaining, wait, at, resetAt) {
        this.remaining = remaining;
        this.resetAt = resetAt;
        this.deadline = wait === null ? null
            : new Deadline(wait, { at, ...this.#clock });
        this.dispatchEvent(new Event("change"));
    }

    #message() {
        return { name: this.name, remaining: this.remaining,
                 left: this.deadline?.left() ?? 0, resetAt: this.resetAt,
                 sent: this.#wall() };
    }

    #post(message) {
        try {
            this.#channel?.postMessage(message);
        } catch {
            // The channel is closed: the page is on its way out.
        }
    }

    #tell() {
        const message = this.#message();

        this.#post(message);
        try {
            this.#storage?.setItem(`sluice:${this.name}`,
                                   JSON.stringify(message));
        } catch {
            // No storage: a reloaded tab asks the others only.
        }
    }

    #recall() {
        try {
            this.#hear(JSON.parse(
                this.#storage?.getItem(`sluice:${this.name}`) ?? "null"));
        } catch {
            // Not ours.
        }
    }

    #hear(data) {
        if (data?.asks === this.name) {
            if (this.remaining !== null)
                this.#post(this.#message());
            return;
        }
        if (!isState(data) || data.name !== this.name)
            return;

        const left = data.left - ageOf(data, this.#wall());

        if (data.remaining === 0 && left <= 0)
            return; // it is over
        if (this.blocked && data.remaining === 0 &&
            Math.abs(left - this.deadline.left()) < 1000)
            return; // known already
        this.#set(data.remaining, data.remaining === 0 ? left : null, undefined,
                  Number.isFinite(data.resetAt) ? data.resetAt : null);
    }
}

/** localStorage, or null where it is not allowed. */
export function storageOf() {
    try {
        return globalThis.localStorage ?? null;
    } catch {
        return null;
    }
}
