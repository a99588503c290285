// client.mjs -- the client in JavaScript against a daemon (SLUICE_URL) and a
// server that refuses; prints what was seen as JSON. No wait is waited for.

import { createServer } from "node:http";
import { BackoffError, fetchWithBackoff, rateLimit, upload }
    from "../../clients/js/index.js";
import { Deadline, LimitState, SendQueue, readAnswer }
    from "../../web/components/index.js";

const seen = {};
let answers = [];
let asked = [];

const server = createServer((request, response) => {
    const [status, headers] = answers.length > 1 ? answers.shift() : answers[0];

    asked.push(request.headers["idempotency-key"] ?? null);
    response.writeHead(status, headers);
    response.end("{}");
}).listen(0, "127.0.0.1");

await new Promise((done) => server.once("listening", done));

// One call against these answers: its waits, attempts and result.
async function call(list, method = "GET", random = 0) {
    const waits = [];

    answers = list;
    asked = [];
    const result = await fetchWithBackoff(
        `http://127.0.0.1:${server.address().port}/`,
        { method, body: method === "POST" ? "x" : undefined },
        { now: () => 0, random: () => random,
          sleep: async (ms) => { waits.push(ms); } })
        .then((response) => response.status, (error) =>
            error instanceof BackoffError ? `error after ${error.attempts}`
                : String(error));
    return { result, attempts: asked.length, waits, keys: new Set(asked).size,
             key: typeof asked[0] };
}

const busy = [429, {}];
const date = [429, { "Retry-After": "Thu, 01 Jan 1970 00:00:07 GMT" }];

seen.plain = await call([busy]);
seen.jitter = await call([busy], "GET", 0.999999);
seen.told = await call([[429, { "Retry-After": "9" }], [200, {}]]);
seen.toldJitter = await call([[429, { "Retry-After": "9" }], [200, {}]],
                             "GET", 0.5);
seen.reset = await call([[429, { "X-RateLimit-Reset": "5" }], [200, {}]]);
seen.away = await call([[503, { "Retry-After": "2" }], [200, {}]]);
seen.wrong = await call([[400, {}]]);
seen.broken = await call([[500, {}]]);
seen.date = await call([date]);
seen.post = await call([busy, busy, [201, {}]], "POST");

// The elements of web/components: a denial in a page, on a clock that jumps to
// its next timer.
answers = [[429, { "Retry-After": "12", "X-RateLimit-Remaining": "0" }],
           [429, { "Retry-After": "12" }], [201, {}]];
asked = [];
let now = 0;
const url = `http://127.0.0.1:${server.address().port}/`;
const clock = { now: () => now, clearTimer: () => {}, events: null,
                setTimer: (run, ms) => setImmediate(() => {
                    now += ms;
                    run();
                }) };
const denial = await readAnswer(await fetch(url), clock);
const guard = new LimitState("assistant", {
    now: clock.now, storage: null,
    channel: { postMessage: () => {}, close: () => {} } });
const queue = new SendQueue("finalize", {
    storage: null, locks: null, random: () => 0, wall: clock.now, clock });

guard.learn(denial);
seen.page = { seconds: new Deadline(denial.waitMs, { at: 0, now: () => 0 })
    .seconds(), blocked: guard.blocked };
asked = [];
queue.add({ url, label: "Recording 7" });
seen.page.position = queue.items[0].position;
await new Promise((done) => queue.addEventListener("done", done));
seen.page.queue = [asked.length, new Set(asked).size, now];
guard.expire();
seen.page.later = guard.blocked;
server.close();

seen.rateLimit = [];
for (let i = 0; i < 11; i++) {
    const one = await rateLimit(
        { key: "rl:prod:assistant_query:user:js", limit: 10, windowSec: 10 },
        { now: () => 0, deadlineMs: 20_000 });

    seen.rateLimit.push([one.ok, one.remaining, one.resetAt, one.limit,
                         one.retryAfterMs]);
}

// Parts of an upload: how many at once, and how often one that is refused.
let under = 0, most = 0, tries = 0;
const state = await upload(new Blob([new Uint8Array(200)]), {
    partSize: 10, now: () => 0, random: () => 0, sleep: async () => {},
    start: () => "u", urlOf: ({ index }) => `http://parts.example/${index}`,
    fetch: async (url) => {
        most = Math.max(most, ++under);
        await new Promise(setImmediate);
        under--;
        if (!String(url).endsWith("/3"))
            return new Response(null, { headers: { ETag: "e" } });
        tries++;
        return new Response(null, { status: 503 });
    },
}).then(() => null, (error) => error.state);

seen.upload = { most, tries, id: state.id, done: Object.keys(state.done).length };
console.log(JSON.stringify(seen));
