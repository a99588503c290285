// The logic of web/components without a browser: answers, countdowns, the
// state of several tabs and the queue, on clocks that the test moves.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import test from "node:test";

import { toldWait } from "../../clients/js/index.js";
import { parseAnswer, readAnswer, safeLink } from "../../web/components/answer.js";
import { Deadline, countDown } from "../../web/components/clock.js";
import { clockText, dateText, messagesOf, say, setMessages, spanText }
    from "../../web/components/messages.js";
import { stateOf } from "../../web/components/meter.js";
import { SendQueue } from "../../web/components/send-queue.js";
import { LimitState } from "../../web/components/shared.js";
import { daysOf } from "../../web/usage/history.js";
import * as all from "../../web/components/index.js";

const NOW = Date.UTC(2026, 10, 16, 12, 0, 0);
const HOUR = 3600_000;

// ---- answers

const headersOf = (fields) => new Headers(fields);

function answer(status, fields = {}, body = null, wall = NOW) {
    return parseAnswer({ status, headers: headersOf(fields), body },
                       { at: 0, wall });
}

test("a wait is that of Retry-After, exact to the ms if the body has it", () => {
    assert.equal(answer(429, { "retry-after": "12" }).waitMs, 12_000);
    assert.equal(answer(429, { "retry-after": "12" },
                        { retry_after_ms: 11_400 }).waitMs, 11_400);
    // A proxy has changed one of them: the header counts.
    assert.equal(answer(429, { "retry-after": "60" },
                        { retry_after_ms: 11_400 }).waitMs, 60_000);
    assert.equal(answer(429, {}, { retryAfterSec: 7 }).waitMs, 7000);
    assert.equal(answer(429, {}, { retry_after_ms: "soon" }).waitMs, null);
    assert.equal(answer(429, { "retry-after": "soon" }).waitMs, null);
    assert.equal(answer(429, { "retry-after": "-3" }).waitMs, null);
});

test("the client's clock does not matter, if the answer has a Date", () => {
    const date = new Date(NOW).toUTCString();

    for (const wall of [NOW, NOW - 9 * HOUR, NOW + 9 * HOUR, 0]) {
        const { waitMs, until, resetMs } = answer(429, {
            date, "retry-after": new Date(NOW + 30_000).toUTCString(),
            "x-ratelimit-reset": `${NOW / 1000 + 45}` }, null, wall);

        assert.deepEqual([waitMs, until, resetMs],
                         [30_000, NOW + 30_000, 45_000]);
    }
});

test("durations need no clock at all", () => {
    for (const wall of [NOW, 0])
        assert.equal(answer(200, { ratelimit: '"api";r=0;t=12' }, null,
                            wall).resetMs, 12_000);
});

test("a wait of Retry-After is that of clients/js", () => {
    const vectors = readFileSync(new URL("../data/backoff.txt", import.meta.url),
                                 "utf8").split("\n")
        .filter((line) => line && !line.startsWith("#"))
        .map((line) => line.split("|"));
    let compared = 0;

    for (const [why, retryAfter] of vectors) {
        const fields = retryAfter === "-" ? {} : { "retry-after": retryAfter };
        const told = toldWait(headersOf(fields), NOW);

        if (told === null || !/^[\d.]+$/.test(retryAfter.trim()))
            continue;
        assert.equal(answer(429, fields).waitMs, told, why);
        compared++;
    }
    assert.ok(compared >= 5, `${compared}`);
});

test("a quota's date is the end of the period, not the second before", () => {
    const date = new Date(NOW).toUTCString(); // it was 12:00:00.700
    const end = Date.UTC(2026, 11, 1);
    const { until } = answer(402, {
        date, "retry-after": `${(end - NOW) / 1000}` },
        { retry_after_ms: end - NOW - 700 });

    assert.equal(until, end);
});

test("kinds, numbers and texts", () => {
    const kinds = [200, 402, 403, 409, 422, 429, 503, 500, 418]
        .map((status) => answer(status).kind);

    assert.deepEqual(kinds, ["ok", "plan", "forbidden", "conflict", "invalid",
                             "rate", "unavailable", "other", "other"]);

    const a = answer(429, { "x-ratelimit-limit": "5", "x-request-id": "r1",
                            "x-ratelimit-remaining": "0",
                            "x-org-quota-remaining": "17" },
                     { detail: "Slow down.", code: "RATE_LIMITED",
                       upgrade_url: "javascript:alert(1)" });

    assert.deepEqual([a.limit, a.remaining, a.quotaRemaining, a.requestId,
                      a.message, a.code, a.upgradeUrl],
                     [5, 0, 17, "r1", "Slow down.", "RATE_LIMITED", null]);
    assert.equal(answer(429, {}, { message: { x: 1 } }).message, null);
});

test("links that run scripts are none", () => {
    for (const url of ["javascript:alert(1)", "JavaScript:alert(1)",
                       " javascript:alert(1)", "data:text/html,x",
                       "vbscript:x", "blob:https://a/b"])
        assert.equal(safeLink(url, "https://app.example/"), null, url);
    assert.equal(safeLink("/plans", "https://app.example/x"),
                 "https://app.example/plans");
});

test("an answer stays readable, also if it is not JSON", async () => {
    const response = new Response("<h1>busy</h1>", { status: 503,
        headers: { "Retry-After": "3" } });

    assert.equal((await readAnswer(response, { now: () => 5 })).waitMs, 3000);
    assert.equal(await response.text(), "<h1>busy</h1>");
});

// ---- clocks

// A clock, and timers that fire when it is moved; `late` delays them.
function fakeClock() {
    const timers = new Map();
    let now = 0;
    let id = 0;
    const clock = {
        now: () => now,
        setTimer: (run, ms) => {
            timers.set(++id, { run, at: now + ms });
            return id;
        },
        clearTimer: (one) => timers.delete(one),
        events: null,
        pending: () => timers.size,
        // Time passes and no timer fires: a frozen tab.
        freeze: (ms) => { now += ms; },
        async move(ms) {
            const end = now + ms;

            for (;;) {
                const [next] = [...timers].sort((a, b) => a[1].at - b[1].at);

                if (!next || next[1].at > end)
                    break;
                timers.delete(next[0]);
                now = Math.max(now, next[1].at);
                next[1].run();
                await settle();
            }
            now = end;
            await settle();
        },
    };

    return clock;
}

async function settle() {
    for (let i = 0; i < 20; i++)
        await new Promise((done) => setImmediate(done));
}

test("a countdown shows each second once, and ends exactly", async () => {
    const clock = fakeClock();
    const seen = [];

    countDown(new Deadline(2400, clock),
              (seconds) => seen.push([clock.now(), seconds]), clock);
    await clock.move(2399);
    assert.deepEqual(seen, [[0, 3], [400, 2], [1400, 1]]);
    await clock.move(1);
    assert.deepEqual(seen.at(-1), [2400, 0]);
    await clock.move(60_000);
    assert.equal(seen.length, 4);
    assert.equal(clock.pending(), 0);
});

test("time between the answer and the display counts", () => {
    const clock = fakeClock();

    clock.freeze(700);
    assert.equal(new Deadline(1000, { at: 0, now: clock.now }).left(), 300);
});

test("a tab that slept shows the right time when it comes back", async () => {
    const clock = fakeClock();
    const page = new EventTarget();
    const seen = [];

    clock.events = page;
    countDown(new Deadline(60_000, clock), (s) => seen.push(s), clock);
    clock.freeze(45_000);
    page.dispatchEvent(new Event("visibilitychange"));
    assert.deepEqual(seen, [60, 15]);
    clock.freeze(30_000);
    page.dispatchEvent(new Event("pageshow"));
    assert.deepEqual(seen, [60, 15, 0]);
    page.dispatchEvent(new Event("visibilitychange"));
    assert.equal(seen.length, 3);
});

test("waits of months need no timer that overflows", async () => {
    const clock = fakeClock();
    let last = null;

    countDown(new Deadline(40 * 24 * HOUR, clock), (s) => { last = s; }, clock);
    clock.freeze(40 * 24 * HOUR - 500);
    await clock.move(1000);
    assert.equal(last, 0);
});

// ---- texts

test("texts: plural forms, placeholders, other languages", () => {
    assert.equal(say(messagesOf("en"), "left", { n: 1, count: 1 }),
                 "1 request left");
    assert.equal(say(messagesOf("en"), "left", { n: "1,200", count: 1200 }),
                 "1,200 requests left");
    assert.equal(say(messagesOf("de-AT"), "upgrade"), "Tarif wechseln");
    assert.equal(say(messagesOf("fr"), "upgrade"), "Upgrade");
    setMessages("fr", { upgrade: "Changer d'offre" });
    assert.equal(say(messagesOf("fr-CA"), "upgrade"), "Changer d'offre");
    // A value is not a template.
    assert.equal(say({ x: "{label}!" }, "x", { label: "{n}" }), "{n}!");
    assert.equal(clockText(5), "0:05");
    assert.equal(clockText(3605), "1:00:05");
    assert.equal(spanText(1, "en"), "1 second");
    assert.equal(spanText(90, "de"), "1 Minute 30 Sekunden");
    assert.equal(dateText(NOW, "en", { now: NOW - 9 * 24 * HOUR, zone: "UTC" }),
                 "November 16");
});

test("every language has every message", () => {
    const en = Object.keys(messagesOf("en")).sort();

    for (const key of en) {
        const german = messagesOf("de")[key];
        const used = (text) => JSON.stringify(text).match(/\{\w+\}/g)?.sort();

        assert.deepEqual(new Set(used(german)),
                         new Set(used(messagesOf("en")[key])), key);
        if (!/^queue_summary$|percent|^used_of$/.test(key))
            assert.notDeepEqual(german, messagesOf("en")[key], key);
    }
});

test("colours change at exactly 80, 90 and 100 percent", () => {
    const states = [[0, 10], [7, 10], [8, 10], [9, 10], [10, 10], [11, 10],
                    [79, 100], [89, 100], [99, 100], [0, 0], [5, null]];

    assert.deepEqual(states.map(([used, limit]) => stateOf(used, limit)),
        ["ok", "ok", "warn", "high", "over", "over", "ok", "warn", "high",
         "over", "ok"]);
});

test("days without usage are shown as 0", () => {
    const days = daysOf({ days: [{ day: "2026-11-15", used: 5, overage: 1 }] },
                        NOW, 3);

    assert.deepEqual(days.map(({ day, used }) => [day, used]),
        [["2026-11-14", 0], ["2026-11-15", 5], ["2026-11-16", 0]]);
});

test("modules load without a page, for servers that render", () => {
    assert.equal(typeof all.SluiceCountdown, "function");
    assert.equal(typeof all.SendQueue, "function");
});

// ---- several tabs

function storage() {
    const map = new Map();

    return {
        get length() { return map.size; },
        key: (i) => [...map.keys()][i] ?? null,
        getItem: (name) => map.get(name) ?? null,
        setItem: (name, value) => { map.set(name, `${value}`); },
        removeItem: (name) => { map.delete(name); },
    };
}

// Tabs that hear each other, with monotonic clocks of their own.
function tabs() {
    const channels = [];

    return () => {
        const own = { onmessage: null, close() { own.onmessage = null; },
                      postMessage(data) {
                          for (const other of channels)
                              if (other !== own)
                                  other.onmessage?.({ data });
                      } };

        channels.push(own);
        return own;
    };
}

const denied = (waitMs) => ({ kind: "rate", remaining: 0, waitMs, resetMs: null,
                              until: NOW + waitMs, resetAt: null });

test("all tabs know that nothing is left, and when it ends", () => {
    const open = tabs();
    const [one, two] = [fakeClock(), fakeClock()];
    const wall = () => NOW + one.now();

    two.freeze(5_000_000); // another origin
    const a = new LimitState("x", { channel: open(), storage: null, wall,
                                    now: one.now });
    const b = new LimitState("x", { channel: open(), storage: null, wall,
                                    now: two.now });
    const c = new LimitState("y", { channel: open(), storage: null, wall,
                                    now: two.now });

    a.learn({ ...denied(12_000), at: 0 });
    assert.deepEqual([a.blocked, b.blocked, c.blocked], [true, true, false]);
    one.freeze(11_999);
    two.freeze(11_999);
    assert.deepEqual([a.blocked, b.blocked], [true, true]);
    one.freeze(1);
    two.freeze(1);
    assert.deepEqual([a.blocked, b.blocked], [false, false]);
    b.expire();
    assert.equal(b.remaining, null);
});

test("a new tab asks, a reloaded one remembers", () => {
    const open = tabs();
    const clock = fakeClock();
    const kept = storage();
    const options = (more) => ({ storage: null, wall: () => NOW + clock.now(),
                                 now: clock.now, ...more });
    const a = new LimitState("x", options({ channel: open(), storage: kept }));

    a.learn({ ...denied(60_000), at: 0 });
    clock.freeze(10_000);

    const asked = new LimitState("x", options({ channel: open() }));
    const again = new LimitState("x", options({ channel: tabs()(),
                                                storage: kept }));

    assert.deepEqual([asked.deadline.left(), again.deadline.left()],
                     [50_000, 50_000]);
    clock.freeze(60_000);
    assert.equal(new LimitState("x", options({
        channel: tabs()(), storage: kept })).blocked, false);
});

test("what other pages write is not believed", () => {
    const kept = storage();
    const open = tabs();
    const clock = fakeClock();
    const stranger = open();

    kept.setItem("sluice:x", "{");
    const a = new LimitState("x", { channel: open(), storage: kept,
                                    now: clock.now });

    for (const bad of [null, 1, "x", { name: "x" },
                       { name: "x", left: "1", remaining: 0 },
                       { name: "x", left: 1, remaining: "0" }])
        stranger.postMessage(bad);
    assert.equal(a.remaining, null);
});

// ---- the queue

// A server with answers to give; `calls` are the requests.
function server(...answers) {
    const calls = [];
    const fetch = async (url, init) => {
        const next = answers.length > 1 ? answers.shift() : answers[0];
        const [status, fields = {}, body = {}] = next ?? [200];

        calls.push({ url, key: init.headers["Idempotency-Key"],
                     body: init.body });
        if (status === 0)
            throw new TypeError("failed to fetch");
        return new Response(status === 204 ? null : JSON.stringify(body),
                            { status, headers: fields });
    };

    return { calls, fetch };
}

function queueOf(t, clock, fetch, more = {}) {
    const queue = new SendQueue("q", {
        storage: storage(), locks: null, fetch, random: () => 0,
        wall: () => NOW + clock.now(), clock, ...more });

    t.after(() => queue.close());
    return queue;
}

const statesOf = (queue) =>
    queue.items.map(({ label, state, position }) => [label, state, position]);

test("requests are sent in order, each with its own key", async (t) => {
    const clock = fakeClock();
    const { calls, fetch } = server([200]);
    const queue = queueOf(t, clock, fetch);

    for (const label of ["a", "b", "c"])
        queue.add({ label, url: `/${label}`, body: { label } });
    await settle();
    assert.deepEqual(calls.map(({ url }) => url), ["/a", "/b", "/c"]);
    assert.equal(new Set(calls.map(({ key }) => key)).size, 3);
    assert.match(calls[0].key, /^"[0-9a-f]{32}"$/);
    assert.equal(calls[1].body, '{"label":"b"}');
    assert.deepEqual(statesOf(queue), [["a", "done", undefined],
        ["b", "done", undefined], ["c", "done", undefined]]);
});

test("a denied request waits as long as it is told, and has the same key", async (t) => {
    const clock = fakeClock();
    const { calls, fetch } = server([429, { "retry-after": "12" }],
                                    [503, { "retry-after": "2" }], [0], [500], [201]);
    const queue = queueOf(t, clock, fetch);

    queue.add({ label: "a", url: "/a" });
    queue.add({ label: "b", url: "/b" });
    await settle();
    assert.deepEqual(statesOf(queue), [["a", "limited", 1], ["b", "waiting", 2]]);
    await clock.move(11_999);
    assert.equal(calls.length, 1);
    await clock.move(1);
    assert.equal(calls.length, 2);
    await clock.move(2000);
    assert.deepEqual(statesOf(queue)[0], ["a", "offline", 1]);
    assert.equal(queue.deadline.left(), 1000); // 2^2 * 500 / 2
    await clock.move(1000);
    await clock.move(2000);
    await settle();
    assert.deepEqual(calls.map(({ url }) => url),
                     ["/a", "/a", "/a", "/a", "/a", "/b"]);
    assert.equal(new Set(calls.slice(0, 5).map(({ key }) => key)).size, 1);
});

for (const status of [402, 409, 422, 400, 401, 403])
    test(`the queue stops at ${status}`, async (t) => {
        const clock = fakeClock();
        const { calls, fetch } = server([status, {}, { message: "no" }], [200]);
        const queue = queueOf(t, clock, fetch);
        const stopped = [];

        queue.addEventListener("stopped", ({ detail }) => stopped.push(detail));
        const { id, key } = queue.add({ label: "a", url: "/a" });

        queue.add({ label: "b", url: "/b" });
        await settle();
        await clock.move(24 * HOUR);
        assert.equal(calls.length, 1);
        assert.deepEqual(statesOf(queue), [["a", "stopped", 1],
                                           ["b", "waiting", 2]]);
        assert.deepEqual([stopped.length, stopped[0].status, stopped[0].message],
                         [1, status, "no"]);
        queue.retry(id);
        await settle();
        assert.deepEqual(calls.map((one) => one.url), ["/a", "/a", "/b"]);
        assert.equal(calls[1].key, `"${key}"`);
    });

test("a stopped request can be removed, or passed over", async (t) => {
    const clock = fakeClock();
    const { calls, fetch } = server([409], [200]);
    const queue = queueOf(t, clock, fetch);
    const { id } = queue.add({ label: "a", url: "/a" });

    queue.add({ label: "b", url: "/b" });
    await settle();
    queue.remove(id);
    await settle();
    assert.deepEqual(calls.map(({ url }) => url), ["/a", "/b"]);

    const other = server([422], [200]);
    const skips = queueOf(t, clock, other.fetch, { skipStopped: true });

    skips.add({ label: "a", url: "/a" });
    skips.add({ label: "b", url: "/b" });
    await settle();
    assert.deepEqual(statesOf(skips), [["a", "stopped", 1],
                                       ["b", "done", undefined]]);
});

test("a reload keeps the queue, its order, the keys and the wait", async (t) => {
    const clock = fakeClock();
    const kept = storage();
    const before = server([429, { "retry-after": "60" }]);
    const first = queueOf(t, clock, before.fetch, { storage: kept });

    first.add({ label: "a", url: "/a" });
    first.add({ label: "b", url: "/b" });
    await settle();
    first.close();
    clock.freeze(20_000);

    const after = server([200]);
    const again = queueOf(t, clock, after.fetch, { storage: kept });

    await settle();
    assert.deepEqual(statesOf(again), [["a", "limited", 1], ["b", "waiting", 2]]);
    assert.equal(again.deadline.left(), 40_000);
    await clock.move(40_000);
    assert.deepEqual(after.calls.map(({ url }) => url), ["/a", "/b"]);
    assert.equal(after.calls[0].key, before.calls[0].key);
});

test("a request whose answer was lost by a reload is sent again with its key", async (t) => {
    const clock = fakeClock();
    const kept = storage();
    const lost = [];
    const first = queueOf(t, clock, (url, { headers }) => {
        lost.push(headers["Idempotency-Key"]);
        return new Promise(() => {});
    }, { storage: kept });

    first.add({ label: "a", url: "/a" });
    await settle();
    assert.deepEqual(statesOf(first), [["a", "sending", 1]]);

    const { calls, fetch } = server([200]);

    queueOf(t, clock, fetch, { storage: kept });
    await settle();
    assert.deepEqual(calls.map(({ key }) => key), lost);
});

test("one of several tabs sends", async (t) => {
    const clock = fakeClock();
    const kept = storage();
    const { calls, fetch } = server([200]);
    let tail = Promise.resolve();
    const locks = { request: (name, run) => (tail = tail.then(run)) };

    for (let i = 0; i < 3; i++)
        queueOf(t, clock, fetch, { storage: kept, locks })
            .add({ label: `${i}`, url: `/${i}` });
    await settle();
    assert.deepEqual(calls.map(({ url }) => url).sort(), ["/0", "/1", "/2"]);
});

test("entries that are not ours are passed over", async (t) => {
    const clock = fakeClock();
    const kept = storage();
    const { calls, fetch } = server([200]);

    kept.setItem("sluice-queue:q:x", "{");
    kept.setItem("sluice-queue:q:y", '{"id":"y"}');
    kept.setItem("sluice-queue:qq:z", "null");
    const queue = queueOf(t, clock, fetch, { storage: kept });

    await settle();
    assert.deepEqual([queue.items, calls], [[], []]);
    assert.throws(() => queue.add({}), TypeError);
});
