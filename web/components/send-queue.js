// send-queue.js -- requests that wait for their limit, over reloads.
//
// Requests are sent one after the other, in the order in which they were
// added. Each has an Idempotency-Key, the same in every attempt, so that an
// attempt whose answer was lost is not executed twice.
//
//   2xx           sent; the next one follows
//   429, 503      tried again after Retry-After
//   no answer, other 5xx   tried again, later each time
//   402, 409, 422 and every other 4xx   the queue stops at this request until
//                 it is tried again or removed
//
// The queue is in localStorage, one entry for each request: two tabs that
// write at once do not lose one. One tab sends, the one with the lock; a tab
// that is closed leaves the lock to another. Without locks (a page without
// https) each tab sends, and the keys prevent that a request counts twice.

import { readAnswer } from "./answer.js";
import { Deadline, countDown } from "./clock.js";
import { storageOf } from "./shared.js";

const BASE = 500;
const CAP = 30_000;
const DONE_SHOWN = 3;

const isRetried = (status) => status === 429 || status >= 500;

const isItem = (item) => item !== null && typeof item === "object" &&
    typeof item.id === "string" && typeof item.key === "string" &&
    typeof item.url === "string" && Number.isFinite(item.order);

/** Emits "change", and "done" and "stopped" with the request in `detail`. */
export class SendQueue extends EventTarget {
    #prefix;
    #options;
    #memory = new Map(); // without a storage
    #running = false;
    #wanted = false;
    #closed = false;
    #done = [];
    #skip = null; // ends a wait
    #onStorage = ({ key }) => {
        if (key === null || key.startsWith(this.#prefix))
            this.#changed();
    };

    constructor(name = "default", options = {}) {
        super();
        this.name = name;
        this.#prefix = `sluice-queue:${name}:`;
        this.#options = {
            storage: storageOf(), locks: globalThis.navigator?.locks ?? null,
            fetch: (...all) => globalThis.fetch(...all), random: Math.random,
            wall: Date.now, skipStopped: false, clock: {}, ...options,
        };
        globalThis.addEventListener?.("storage", this.#onStorage);
        this.#run();
    }

    get skipStopped() {
        return this.#options.skipStopped;
    }

    set skipStopped(skip) {
        this.#options.skipStopped = skip;
        this.#run();
    }

    /** The requests in their order, then the last ones that were sent. */
    get items() {
        return [...this.#read().map((item, i) => ({ ...item, position: i + 1 })),
                ...this.#done];
    }

    /** The end of the wait before the next attempt; or null. */
    deadline = null;

    /**
     * Adds a request: url, and optionally method (POST), headers, body (a
     * string, or a value that becomes JSON), label, key. Returns it.
     */
    add({ url, method = "POST", headers = {}, body, label = url,
          key = newKey() }) {
        if (typeof url !== "string" || url === "")
            throw new TypeError(`url must be a non-empty string, not ${url}`);

        const json = body !== undefined && typeof body !== "string";
        const item = {
            id: newKey(), key, url, method, label: `${label}`,
            headers: json ? { "Content-Type": "application/json", ...headers }
                : headers,
            body: json ? JSON.stringify(body) : body,
            order: Math.max(0, ...this.#read().map((one) => one.order)) + 1,
            state: "waiting", attempts: 0,
        };

        this.#write(item);
        this.#changed();
        return item;
    }

    /** Tries a stopped request again, with its key. */
    retry(id) {
        const item = this.#read().find((one) => one.id === id);

        if (!item)
            return;
        this.#write({ ...item, state: "waiting", status: null, message: null,
                      wait: null });
        this.#skip?.();
        this.#changed();
    }

    remove(id) {
        this.#delete(id);
        this.#skip?.();
        this.#changed();
    }

    /** Sends nothing more in this tab. The requests stay. */
    close() {
        this.#closed = true;
        globalThis.removeEventListener?.("storage", this.#onStorage);
        this.#skip?.();
    }

    // ---- storage

    #read() {
        const { storage } = this.#options;
        const items = [];

        if (!storage)
            return [...this.#memory.values()].sort(byOrder);
        for (let i = 0; i < storage.length; i++) {
            const name = storage.key(i);

            if (!name?.startsWith(this.#prefix))
                continue;
            try {
                const item = JSON.parse(storage.getItem(name));

                if (isItem(item))
                    items.push(item);
            } catch {
                // Not ours.
            }
        }
        return items.sort(byOrder);
    }

    #has(id) {
        const { storage } = this.#options;

        return storage ? storage.getItem(this.#prefix + id) !== null
            : this.#memory.has(id);
    }

    #write(item) {
        this.#memory.set(item.id, item);
        this.#options.storage?.setItem(this.#prefix + item.id,
                                       JSON.stringify(item));
    }

    #delete(id) {
        this.#memory.delete(id);
        this.#options.storage?.removeItem(this.#prefix + id);
    }

    // ---- sending

    #changed() {
        this.dispatchEvent(new Event("change"));
        this.#run();
    }

    #next() {
        const items = this.#read();

        if (this.#options.skipStopped)
            return items.find((one) => one.state !== "stopped");
        return items[0]?.state === "stopped" ? undefined : items[0];
    }

    #run() {
        if (this.#closed)
            return;
        this.#wanted = true;
        if (this.#running)
            return;
        this.#running = true;

        const { locks } = this.#options;
        const work = () => this.#work();

        (locks ? locks.request(`sluice-queue:${this.name}`, work) : work())
            .catch(() => {})
            .finally(() => {
                this.#running = false;
                if (this.#wanted && !this.#closed && this.#next())
                    this.#run();
            });
    }

    async #work() {
        for (;;) {
            this.#wanted = false;

            const item = this.#closed ? undefined : this.#next();

            if (!item)
                return;
            await this.#pause(item);
            if (!this.#closed && this.#next()?.id === item.id)
                await this.#send(this.#next());
        }
    }

    // Waits until the request may be tried; also what a reload has left of it.
    async #pause(item) {
        const { wait } = item;
        const { clock, wall } = this.#options;
        const age = wait ? Math.max(0, wall() - wait.since) : 0;
        const left = wait ? wait.left - age : 0;

        if (!(left > 0))
            return;
        this.deadline = new Deadline(Math.min(left, wait.left), clock);
        this.dispatchEvent(new Event("change"));
        await new Promise((resolve) => {
            const stop = countDown(this.deadline, (seconds) => {
                if (seconds === 0)
                    resolve();
            }, clock);

            this.#skip = () => {
                stop();
                resolve();
            };
        });
        this.#skip = null;
        this.deadline = null;
    }

    async #send(item) {
        const attempt = { ...item, state: "sending",
                          attempts: item.attempts + 1, wait: null };
        let answer = null;

        this.#write(attempt);
        this.dispatchEvent(new Event("change"));
        try {
            const response = await this.#options.fetch(item.url, {
                method: item.method, body: item.body,
                headers: { ...item.headers,
                           "Idempotency-Key": `"${item.key}"` },
            });

            answer = await readAnswer(response, this.#options.clock);
        } catch {
            // No answer: it may have arrived. The key is the same next time.
        }
        if (this.#has(item.id)) // not removed meanwhile
            this.#settle(attempt, answer);
    }

    #settle(item, answer) {
        if (answer?.ok) {
            this.#delete(item.id);
            this.#done = [...this.#done, { ...item, state: "done" }]
                .slice(-DONE_SHOWN);
            this.#tell("done", item);
        } else if (answer === null || isRetried(answer.status)) {
            this.#write({ ...item, status: answer?.status ?? null,
                          state: answer === null ? "offline" : "limited",
                          message: answer?.message ?? null,
                          wait: { left: this.#waitOf(item, answer),
                                  since: this.#options.wall() } });
        } else {
            const stopped = { ...item, state: "stopped", status: answer.status,
                              message: answer.message,
                              upgradeUrl: answer.upgradeUrl,
                              until: answer.until };

            this.#write(stopped);
            this.#tell("stopped", stopped);
        }
        this.dispatchEvent(new Event("change"));
    }

    // The wait that the server asks for, and a random part so that clients do
    // not come back together.
    #waitOf(item, answer) {
        const { random } = this.#options;
        const told = answer?.waitMs ?? null;
        const step = Math.min(BASE * 2 ** (item.attempts - 1), CAP);

        return told === null ? step / 2 + random() * step / 2
            : told + random() * Math.min(step, 1000);
    }

    #tell(type, detail) {
        this.dispatchEvent(Object.assign(new Event(type), { detail }));
    }
}

const byOrder = (a, b) => a.order - b.order || (a.id < b.id ? -1 : 1);

// crypto.randomUUID() needs https; the random bytes do not.
function newKey() {
    const bytes = crypto.getRandomValues(new Uint8Array(16));

    return [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}
