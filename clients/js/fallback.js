// fallback.js -- without a daemon: a breaker that stops asking, and an
// allowance of this process.

const KEYS_MOST = 10_000;

/**
 * Opens after `failures` failures in a row. While it is open, one call in each
 * `restMs` may try.
 */
export class Breaker {
    constructor({ failures = 5, restMs = 1000 } = {}, now) {
        this.most = failures;
        this.restMs = restMs;
        this.now = now;
        this.failed = 0;
        this.tryAt = 0;
    }

    /** True if the daemon may be asked. */
    mayAsk() {
        if (this.failed < this.most)
            return true;

        const now = this.now();

        if (now < this.tryAt)
            return false;
        this.tryAt = now + this.restMs;
        return true;
    }

    good() {
        this.failed = 0;
    }

    bad() {
        this.failed++;
        if (this.failed >= this.most)
            this.tryAt = this.now() + this.restMs;
    }
}

/** At most `limit` units per caller in a window that begins with the first. */
export class Allowance {
    constructor({ limit, windowMs }, now) {
        this.limit = limit;
        this.windowMs = windowMs;
        this.now = now;
        this.windows = new Map();
    }

    // Windows are in the order of their ends: all have the same length.
    #window(key, now) {
        for (const [name, { endsAt }] of this.windows) {
            if (endsAt > now && this.windows.size < KEYS_MOST)
                break;
            this.windows.delete(name);
        }
        if (!this.windows.has(key))
            this.windows.set(key, { endsAt: now + this.windowMs, used: 0 });
        return this.windows.get(key);
    }

    take(key, cost) {
        const now = this.now();
        const window = this.#window(key, now);
        const allowed = window.used + cost <= this.limit;

        if (allowed)
            window.used += cost;
        return { allowed, limit: this.limit, remaining: this.limit - window.used,
                 resetMs: Math.max(0, window.endsAt - now),
                 never: cost > this.limit };
    }
}
