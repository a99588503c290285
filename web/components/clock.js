// clock.js -- the end of a wait, on a monotonic clock.
//
// performance.now() continues in a hidden or frozen tab and ignores changes of
// the wall clock. Timers of such a tab fire late, so each tick reads the clock
// again, and a tab that comes back ticks at once. While the whole computer
// sleeps, some systems stop this clock: the wait ends late then, never early.

import { monotonic } from "./answer.js";

// A longer timer fires at once.
const TIMER_MOST = 2 ** 31 - 1;

const WAKES = ["visibilitychange", "pageshow", "focus", "resume"];

/** A moment `waitMs` after `at`. */
export class Deadline {
    constructor(waitMs, { at, now = monotonic } = {}) {
        this.now = now;
        this.end = (at ?? now()) + Math.max(0, waitMs);
    }

    /** ms until the end; 0 afterwards. */
    left() {
        return Math.max(0, this.end - this.now());
    }

    /** Whole seconds, rounded up: 0 only when the time has come. */
    seconds() {
        return Math.ceil(this.left() / 1000);
    }
}

/**
 * Calls onTick(seconds) now, when the number of seconds changes, and last with
 * 0. Returns a function that stops it.
 */
export function countDown(deadline, onTick, {
    setTimer = setTimeout.bind(globalThis),
    clearTimer = clearTimeout.bind(globalThis),
    events = globalThis.document ?? null,
} = {}) {
    let timer = null;
    let shown = null;
    const targets = events ? [events, events.defaultView].filter(Boolean) : [];
    const stop = () => {
        clearTimer(timer);
        timer = null;
        for (const target of targets)
            for (const name of WAKES)
                target.removeEventListener(name, tick);
    };
    const tick = () => {
        const left = deadline.left();
        const seconds = Math.ceil(left / 1000);

        clearTimer(timer);
        if (left > 0)
            timer = setTimer(tick, Math.min(left % 1000 || 1000, TIMER_MOST));
        else
            stop();
        if (seconds !== shown) {
            shown = seconds;
            onTick(seconds);
        }
    };

    for (const target of targets)
        for (const name of WAKES)
            target.addEventListener(name, tick);
    tick();
    return stop;
}
