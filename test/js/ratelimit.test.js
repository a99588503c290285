// Questions to a daemon that is a list of answers; test/web/guide.sh asks a
// real one.

import assert from "node:assert/strict";
import { ServerResponse } from "node:http";
import test from "node:test";

import { RateLimitError, rateLimit, setHeaders }
    from "../../clients/js/index.js";
import { NOW, answer, server, virtual } from "./servers.js";

const verdict = (more = {}, limit = {}) => answer(200, {}, JSON.stringify({
    allowed: true, status: 200, by: null, retry_after_ms: null,
    degraded: false, body: null, headers: { "X-RateLimit-Limit": "10" },
    limits: [{ name: "assistant_query", scope: "org", limit: 10, remaining: 7,
               reset_ms: 5000, ...limit }],
    ...more,
}));
const KEY = "rl:prod:assistant_query:org:c2b3";

const asking = (fetch, more = {}) => ({ ...virtual(), fetch, ...more });

test("as the helper it stands for: ok, remaining, resetAt", async () => {
    const { fetch, asked } = server(() => verdict());
    const result = await rateLimit({ key: KEY, limit: 10, windowSec: 10 },
                                   asking(fetch));

    assert.deepEqual(result, {
        ok: true, remaining: 7, resetAt: NOW + 5000, limit: 10,
        retryAfterMs: null, status: 200, headers: { "X-RateLimit-Limit": "10" },
        appendHeaders: [], body: null, degraded: false,
    });
    assert.equal(asked[0].input, "http://127.0.0.1:8080/v1/check");
    assert.equal(asked[0].method, "POST");
    assert.deepEqual(JSON.parse(asked[0].body),
                     { limit: "assistant_query", key: "c2b3" });
});

test("refused: when to come back and what to answer", async () => {
    const { fetch } = server(() => verdict(
        { allowed: false, status: 429, retry_after_ms: 900,
          body: { code: "RATE_LIMITED" } }, { remaining: 0 }));
    const result = await rateLimit({ key: KEY }, asking(fetch));

    assert.equal(result.ok, false);
    assert.equal(result.remaining, 0);
    assert.equal(result.retryAfterMs, 900);
    assert.equal(result.status, 429);
    assert.deepEqual(result.body, { code: "RATE_LIMITED" });
});

test("the limit by its name, a cost, a place and a token", async () => {
    const { fetch, asked } = server(() => verdict());
    const ask = (url) => rateLimit({ key: "a:b", limit: "search", cost: 3 },
                                   asking(fetch, { url, token: "s3cret" }));

    await ask("https://limits.example");
    await ask("https://limits.example/");
    await ask("https://app.example/api/limit?v=1");
    await ask("/api/limit");
    assert.deepEqual(asked.map(({ input }) => input), [
        "https://limits.example/v1/check", "https://limits.example/v1/check",
        "https://app.example/api/limit?v=1", "/api/limit"]);
    assert.deepEqual(JSON.parse(asked[0].body),
                     { limit: "search", key: "a:b", cost: 3 });
    assert.equal(asked[0].headers.authorization, "Bearer s3cret");
});

test("the environment says where the daemon is", async (t) => {
    const { fetch, asked } = server(() => verdict());

    process.env.SLUICE_URL = "http://10.0.0.1:8080";
    t.after(() => delete process.env.SLUICE_URL);
    await rateLimit({ key: KEY }, asking(fetch));
    assert.equal(asked[0].input, "http://10.0.0.1:8080/v1/check");
});

test("an id may have colons", async () => {
    const { fetch, asked } = server(() => verdict({}, { scope: "ip" }));

    await rateLimit({ key: "rl:prod:public_api:ip:2001:db8::1" },
                    asking(fetch));
    assert.deepEqual(JSON.parse(asked[0].body),
                     { limit: "public_api", key: "2001:db8::1" });
});

test("a key that names no limit is refused, and no daemon is asked", async () => {
    const { fetch, asked } = server(() => verdict());

    for (const key of ["ann", "rl:prod:search:ann", "rl:prod::user:ann",
                       "xx:prod:search:user:ann"])
        await assert.rejects(rateLimit({ key, limit: 10, windowSec: 10 },
                                       asking(fetch)),
                             /names no limit; write rl:ENV:LIMIT:SCOPE:ID/);
    await assert.rejects(rateLimit({ limit: "search" }, asking(fetch)),
                         /key must be a non-empty string, not undefined/);
    await assert.rejects(rateLimit({ key: KEY },
                                   asking(fetch, { onFailure: "pass" })),
                         /onFailure must be throw, allow or deny, not pass/);
    assert.equal(asked.length, 0);
});

test("a scope that is not the policy's is an error", async () => {
    const { fetch } = server(() => verdict({}, { scope: "user" }));

    await assert.rejects(rateLimit({ key: KEY }, asking(fetch)),
                         /counts "assistant_query" per user; the key has scope org/);
});

test("no time is null", async () => {
    const { fetch } = server(() => verdict({}, { reset_ms: null }));

    assert.equal((await rateLimit({ key: KEY }, asking(fetch))).resetAt, null);
});

test("what is no verdict is an error with what was said", async () => {
    const bad = [
        [() => answer(400, {}, '{"detail":"there is no limit \\"x\\""}'),
         /answered 400: there is no limit "x"/, 400],
        [() => answer(200, {}, "<html>"), /answered 200 without a verdict/, 200],
        [() => answer(200, {}, "null"), /answered 200: no verdict/, 200],
        [() => answer(401, {}, "{}"), /answered 401: no verdict/, 401],
        [() => answer(503, {}, '{"message":"full"}'), /answered 503: full/, 503],
        [() => {
            throw new TypeError("fetch failed");
        }, /cannot be reached/, null],
    ];

    for (const [say, why, status] of bad) {
        const { fetch } = server(say);

        await assert.rejects(rateLimit({ key: KEY }, asking(fetch)), (error) =>
            error instanceof RateLimitError && why.test(error.message) &&
            error.status === status);
    }
});

test("while no daemon answers, what you said holds; mistakes stay mistakes",
     async () => {
    const down = server(() => {
        throw new TypeError("fetch failed");
    });
    const wrong = server(() => answer(400, {}, '{"detail":"no"}'));

    for (const [onFailure, ok, status] of [["allow", true, 200],
                                           ["deny", false, 503]]) {
        const result = await rateLimit({ key: KEY },
                                       asking(down.fetch, { onFailure }));

        assert.equal(result.ok, ok);
        assert.equal(result.status, status);
        assert.equal(result.degraded, true);
        await assert.rejects(rateLimit({ key: KEY },
                                       asking(wrong.fetch, { onFailure })),
                             RateLimitError);
    }
});

test("a signal is no outage", async () => {
    const stop = AbortSignal.abort(new Error("enough"));
    const { fetch } = server(() => {
        throw stop.reason;
    });

    await assert.rejects(rateLimit({ key: KEY }, asking(fetch, {
        signal: stop, onFailure: "allow",
    })), /enough/);
});

test("headers are set, and those that are there already are kept", async () => {
    const name = "Access-Control-Expose-Headers";
    const { fetch } = server(() => verdict(
        { headers: { "X-RateLimit-Limit": "10",
                     [name]: "X-RateLimit-Limit, ETag" },
          append_headers: [name] }));
    const result = await rateLimit({ key: KEY }, asking(fetch));
    const headers = new Headers({ [name]: "etag, Link",
                                  "x-ratelimit-limit": "9" });
    const response = new ServerResponse({ method: "GET" });
    const several = new ServerResponse({ method: "GET" });
    const merged = "etag, Link, X-RateLimit-Limit";

    setHeaders(headers, result);
    assert.equal(headers.get(name), merged);
    assert.equal(headers.get("X-RateLimit-Limit"), "9");
    response.setHeader(name, "etag, Link");
    setHeaders(response, result);
    setHeaders(response, result);
    assert.equal(response.getHeader(name), merged);
    assert.equal(response.getHeader("X-RateLimit-Limit"), "10");
    several.setHeader(name, ["etag", "Link"]);
    setHeaders(several, result);
    assert.equal(several.getHeader(name), merged);
});

test("without a list before, the list is that of the verdict", async () => {
    const response = new ServerResponse({ method: "GET" });

    setHeaders(response, { headers: { Vary: "A, B" }, appendHeaders: ["vary"] });
    assert.equal(response.getHeader("Vary"), "A, B");
});

test("a number that is not the policy's is told", async () => {
    const { fetch } = server(() => verdict());
    const told = [];
    const ask = (limit, more = {}) => rateLimit(
        { key: KEY, limit, windowSec: 10 },
        asking(fetch, { onWarning: (text) => told.push(text), ...more }));
    const emitted = [];
    const emit = process.emitWarning;

    await ask(10);
    assert.deepEqual(told, []);
    await ask(20);
    assert.deepEqual(told, ['rateLimit() was called with limit 20; the policy ' +
        'allows 10 for "assistant_query", and the policy decides']);
    process.emitWarning = (text) => emitted.push(text);
    try {
        await ask(20, { onWarning: undefined });
        await ask(20, { onWarning: undefined });
    } finally {
        process.emitWarning = emit;
    }
    assert.deepEqual(emitted, told);
});

test("a daemon that does not answer is not waited for", async () => {
    const fetch = (url, { signal }) => new Promise((resolve, reject) => {
        signal.addEventListener("abort", () => reject(signal.reason));
    });

    await assert.rejects(rateLimit({ key: KEY }, { fetch, deadlineMs: 5 }),
                         /did not answer within 5 ms/);
    assert.equal((await rateLimit({ key: KEY },
                                  { fetch, deadlineMs: 5, onFailure: "deny" }))
        .status, 503);
});
