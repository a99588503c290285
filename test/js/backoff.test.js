// How long is waited, and when it is given up: the vectors that the C library
// reads as well, the course of a call, and random servers against the bounds.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import test from "node:test";

import { Backoff, BackoffError, isRetried, sleep, toldWait, withBackoff }
    from "../../clients/js/index.js";
import { NOW, answer, server, virtual } from "./servers.js";

const vectors = readFileSync(new URL("../data/backoff.txt", import.meta.url),
                             "utf8")
    .split("\n").filter((line) => line && !line.startsWith("#"))
    .map((line) => line.split("|"));

function headersOf(retryAfter, reset) {
    const headers = new Map();

    if (retryAfter !== "-")
        headers.set("retry-after", retryAfter);
    if (reset !== "-")
        headers.set("x-ratelimit-reset", reset);
    return { get: (name) => headers.get(name) ?? null };
}

test("the vectors", async (t) => {
    assert.ok(vectors.length >= 40);
    for (const [why, retryAfter, reset, want] of vectors)
        await t.test(why, () => {
            const backoff = new Backoff(virtual());
            const response = { status: 429,
                               headers: headersOf(retryAfter, reset) };

            if (want === "gives up")
                assert.throws(() => backoff.next(response), BackoffError);
            else
                assert.equal(backoff.next(response), Number(want));
        });
});

function course(options, headers) {
    const backoff = new Backoff({ ...virtual(), ...options });
    const waits = [];

    try {
        for (;;)
            waits.push(backoff.next(answer(503, headers)));
    } catch (error) {
        assert.ok(error instanceof BackoffError, error);
        return { waits, error };
    }
}

test("five waits, each twice the one before, and as much again by chance", () => {
    assert.deepEqual(course({}).waits, [500, 1000, 2000, 4000, 8000]);
    assert.deepEqual(course({ random: () => 0.999999 }).waits,
                     [1000, 2000, 4000, 8000, 16000]);
    assert.deepEqual(course({ random: () => 1 }).waits,
                     [1000, 2000, 4000, 8000, 16000]);
    assert.deepEqual(course({ random: () => 0.5 }).waits,
                     [750, 1500, 3000, 6000, 12000]);
});

test("no wait of our own passes the cap", () => {
    assert.deepEqual(course({ attempts: 9, random: () => 0.999999 }).waits,
                     [1000, 2000, 4000, 8000, 16000, 30000, 30000, 30000]);
    assert.deepEqual(course({ attempts: 3, baseMs: 2, capMs: 3,
                              random: () => 0.999999 }).waits, [2, 2]);
});

test("chance comes behind what the server says", () => {
    assert.deepEqual(course({ random: () => 0.999999 },
                            { "Retry-After": "12" }).waits,
                     [12500, 13000, 14000, 16000, 20000]);
});

test("the last attempt ends in an error that says so", () => {
    const { error } = course({}, { "Retry-After": "12" });

    assert.equal(error.message,
                 "the server answered 503 to the last of 6 attempts");
    assert.equal(error.name, "BackoffError");
    assert.equal(error.status, 503);
    assert.equal(error.attempts, 6);
    assert.equal(error.retryAt, NOW + 12000);
    assert.equal(course({}).error.retryAt, null);
});

test("a server that asks for too much is given up at once", () => {
    const { waits, error } = course({}, { "Retry-After": "86400" });

    assert.deepEqual(waits, []);
    assert.equal(error.message, "the server answered 503 and asks to wait " +
                 "86400 s; the longest wait is 900 s");
    assert.equal(error.retryAt, NOW + 86400_000);
    assert.equal(course({ longestMs: 1e8 },
                        { "Retry-After": "86400" }).waits.length, 5);
});

test("options that are none are refused", () => {
    assert.throws(() => new Backoff({ attempts: 0 }), RangeError);
    assert.throws(() => new Backoff({ attempts: "six" }),
                  /attempts must be a number of at least 1, not six/);
    assert.throws(() => new Backoff({ capMs: NaN }), RangeError);
});

test("429 and 503 are asked again, and no other", () => {
    for (let status = 0; status < 1000; status++)
        assert.equal(isRetried(status), status === 429 || status === 503);
});

test("random servers: every wait is inside its bounds", () => {
    for (let round = 0; round < 5000; round++) {
        const seconds = Math.floor(10 ** (Math.random() * 4));
        const said = Math.random() < 0.5;
        const { waits } = course({ random: Math.random },
                                 said ? { "Retry-After": `${seconds}` } : {});

        waits.forEach((wait, n) => {
            const step = 500 * 2 ** n;
            const least = said ? seconds * 1000 : step;

            assert.ok(wait >= least && wait <= least + step,
                      `${wait} at ${n} after ${seconds}, ${said}`);
            assert.ok(said || wait <= 30000);
        });
        assert.equal(waits.length, said && seconds > 900 ? 0 : 5);
    }
});

test("what a fuzzer might say is a wait or nothing", () => {
    const letters = "0123456789.,-+ eE:GMTSunNovJan\t\u0660\ufeff";

    for (let round = 0; round < 20000; round++) {
        let text = "";

        for (let n = Math.random() * 30; n > 0; n--)
            text += letters[Math.floor(Math.random() * letters.length)];

        const wait = toldWait(headersOf(text, text), NOW);

        assert.ok(wait === null || Number.isInteger(wait) && wait >= 0, text);
    }
});

test("withBackoff: what is refused is dropped, what is not is handed over",
     async () => {
    const world = virtual();
    let cancelled = 0;
    const refused = () => {
        const response = answer(429, {}, new ReadableStream({
            cancel() {
                cancelled++;
            },
        }));

        return response;
    };
    const seen = [];
    const { fetch } = server(refused, refused, () => answer(404));
    const response = await withBackoff(fetch, {
        ...world, onWait: (wait) => seen.push(wait),
    });

    assert.equal(response.status, 404);
    assert.deepEqual(world.waits, [500, 1000]);
    assert.equal(cancelled, 2);
    assert.deepEqual(seen, [{ attempt: 1, waitMs: 500, status: 429 },
                            { attempt: 2, waitMs: 1000, status: 429 }]);
});

test("withBackoff: there is no wait behind the last attempt", async () => {
    const world = virtual();
    const { fetch, asked } = server(() => answer(429, {}, "why"));
    const error = await withBackoff(fetch, world).catch((e) => e);

    assert.ok(error instanceof BackoffError);
    assert.equal(asked.length, 6);
    assert.equal(world.waits.length, 5);
    assert.equal(await error.response.text(), "why"); // still to be read
});

test("sleep: a signal ends it with its reason", async () => {
    const stop = new AbortController();
    const long = sleep(3e9, stop.signal); // more than a timer can hold

    stop.abort(new Error("enough"));
    await assert.rejects(long, /enough/);
    await assert.rejects(sleep(1e6, AbortSignal.abort(new Error("before"))),
                         /before/);
    await sleep(0);
    await sleep(1);
});

test("sleep: longer than a timer is several", async (t) => {
    const naps = [];
    const real = globalThis.setTimeout;

    t.after(() => {
        globalThis.setTimeout = real;
    });
    globalThis.setTimeout = (f, ms) => {
        naps.push(ms);
        queueMicrotask(f);
    };
    await sleep(5e9);
    assert.equal(naps.reduce((a, b) => a + b), 5e9);
    assert.ok(naps.every((ms) => ms < 2 ** 31));
});
