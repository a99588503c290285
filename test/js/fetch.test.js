// fetch() by the rules: which calls are repeated, with which headers, and what
// stops them.

import assert from "node:assert/strict";
import { Readable } from "node:stream";
import test from "node:test";

import { BackoffError, fetchWithBackoff, newIdempotencyKey }
    from "../../clients/js/index.js";
import { answer, server, virtual } from "./servers.js";

const URL_ = "http://app.example/api/assistant/query";
const busy = () => answer(429, { "Retry-After": "9" });
const UUID = /^"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"$/;

test("a refused GET is asked again when the server said", async () => {
    const world = virtual();
    const { fetch, asked } = server(busy, () => answer(503),
                                    () => answer(200, {}, "well"));
    const response = await fetchWithBackoff(URL_, {}, { ...world, fetch });

    assert.equal(await response.text(), "well");
    assert.deepEqual(world.waits, [9000, 1000]);
    assert.equal(asked.length, 3);
    assert.ok(asked.every(({ input }) => input === URL_));
    assert.ok(asked.every(({ headers }) => !("idempotency-key" in headers)));
});

test("every attempt of a POST carries one key", async () => {
    const { fetch, asked } = server(busy, busy, () => answer(201));
    const init = { method: "post", body: "{}", headers: { "X-A": "b" } };
    const keys = [];

    for (let call = 0; call < 2; call++) {
        const from = asked.length;

        await fetchWithBackoff(URL_, init, { ...virtual(), fetch });

        const sent = asked.slice(from);

        assert.ok(sent.every(({ headers }) => headers["x-a"] === "b"));
        assert.ok(sent.every(({ body }) => body === "{}"));
        assert.equal(new Set(sent.map(({ headers }) =>
            headers["idempotency-key"])).size, 1);
        keys.push(sent[0].headers["idempotency-key"]);
    }
    assert.equal(asked.length, 4); // the second call was answered at once
    assert.match(keys[0], UUID);
    assert.notEqual(keys[0], keys[1]);
    assert.deepEqual(init.headers, { "X-A": "b" }); // yours is untouched
});

test("PATCH has a key too; PUT and DELETE say all there is to say", async () => {
    for (const [method, wanted] of [["PATCH", true], ["PUT", false],
                                    ["DELETE", false], ["HEAD", false]]) {
        const { fetch, asked } = server(busy, () => answer(200));

        await fetchWithBackoff(URL_, { method }, { ...virtual(), fetch });
        assert.equal("idempotency-key" in asked[1].headers, wanted, method);
    }
});

test("a key of your own is kept", async () => {
    const { fetch, asked } = server(busy, () => answer(200));

    await fetchWithBackoff(URL_, {
        method: "POST", headers: { "idempotency-key": "order-7" },
    }, { ...virtual(), fetch });
    await fetchWithBackoff(URL_, { method: "POST" },
                           { ...virtual(), fetch, idempotencyKey: "order-8" });
    assert.deepEqual(asked.map(({ headers }) => headers["idempotency-key"]),
                     ["order-7", "order-7", '"order-8"']);
});

test("keys are keys also where the global crypto is missing", async (t) => {
    const real = Object.getOwnPropertyDescriptor(globalThis, "crypto");

    t.after(() => Object.defineProperty(globalThis, "crypto", real ??
        { value: undefined, configurable: true }));
    Object.defineProperty(globalThis, "crypto",
                          { value: undefined, configurable: true });
    assert.match(`"${await newIdempotencyKey()}"`, UUID);
});

test("six attempts, then an error", async () => {
    const { fetch, asked } = server(() => answer(429));

    await assert.rejects(
        fetchWithBackoff(URL_, {}, { ...virtual(), fetch }),
        { name: "BackoffError", status: 429, attempts: 6 });
    assert.equal(asked.length, 6);
});

test("V12: six refusals that name a date are five waits and an error",
     async () => {
    const world = virtual();
    const { fetch, asked } = server(() => answer(429, {
        "Retry-After": new Date(world.now() + 9000).toUTCString(),
    }));

    await assert.rejects(fetchWithBackoff(URL_, {}, { ...world, fetch }),
                         BackoffError);
    assert.deepEqual(world.waits, [9000, 9000, 9000, 9000, 9000]);
    assert.equal(asked.length, 6);
});

test("other statuses and failures are not asked again", async () => {
    for (const status of [200, 304, 400, 401, 402, 403, 404, 409, 422, 500,
                          502, 504]) {
        const { fetch, asked } = server(() => answer(status));
        const response = await fetchWithBackoff(URL_, {},
                                                { ...virtual(), fetch });

        assert.equal(response.status, status);
        assert.equal(asked.length, 1);
    }

    const { fetch, asked } = server(() => {
        throw new TypeError("fetch failed");
    });

    await assert.rejects(fetchWithBackoff(URL_, {}, { ...virtual(), fetch }),
                         TypeError);
    assert.equal(asked.length, 1);
});

test("a stream is sent once", async () => {
    async function* bytes() {
        yield new Uint8Array(1);
    }
    const streams = [new ReadableStream(), Readable.from(["a"]), bytes()];

    for (const body of streams) {
        const { fetch, asked } = server(busy);

        await assert.rejects(
            fetchWithBackoff(URL_, { method: "PUT", body, duplex: "half" },
                             { ...virtual(), fetch }),
            /there is no second attempt: its body is a stream/);
        assert.equal(asked.length, 1);
    }

    const request = new Request(URL_, { method: "POST", body: "x" });
    const { fetch, asked } = server(busy);

    await assert.rejects(fetchWithBackoff(request, {}, { ...virtual(), fetch }),
                         (error) => error instanceof BackoffError &&
                             /pass its URL/.test(error.message));
    assert.equal(asked.length, 1);
});

test("a stream that is taken at once is as good as any", async () => {
    const { fetch } = server(() => answer(200));
    const response = await fetchWithBackoff(
        URL_, { method: "PUT", body: new ReadableStream(), duplex: "half" },
        { ...virtual(), fetch });

    assert.equal(response.status, 200);
});

test("bodies that stay are sent again", async () => {
    const form = new FormData();

    form.set("a", "b");
    for (const body of ["text", new Uint8Array(3), new ArrayBuffer(3),
                        new Blob(["x"]), new URLSearchParams("a=b"), form]) {
        const { fetch, asked } = server(busy, () => answer(200));

        await fetchWithBackoff(URL_, { method: "PUT", body },
                               { ...virtual(), fetch });
        assert.equal(asked.length, 2);
        assert.equal(asked[1].body, body);
    }
});

test("a Request without a body is asked again, with its method and signal",
     async () => {
    const stop = new AbortController();
    const request = new Request(URL_, { method: "DELETE", headers: { "X-A": "b" },
                                        signal: stop.signal });
    const { fetch, asked } = server(busy, () => answer(204));
    const response = await fetchWithBackoff(request, {},
                                            { ...virtual(), fetch });

    assert.equal(response.status, 204);
    assert.equal(asked[1].headers["x-a"], "b");

    const waiting = fetchWithBackoff(request, {}, {
        ...virtual(), fetch: server(busy).fetch, sleep: undefined,
    });

    stop.abort(new Error("gone"));
    await assert.rejects(waiting, /gone/);
});

test("a signal stops the wait, the next attempt and the first", async () => {
    const stop = new AbortController();
    const { fetch, asked } = server(busy);
    const waiting = fetchWithBackoff(URL_, { signal: stop.signal }, {
        fetch, onWait: () => queueMicrotask(() => stop.abort()),
    });

    await assert.rejects(waiting, { name: "AbortError" });
    assert.equal(asked.length, 1);
    assert.equal(asked[0].signal, stop.signal); // fetch() hears it too
    await assert.rejects(fetchWithBackoff(URL_, { signal: stop.signal },
                                          { fetch }), { name: "AbortError" });
    assert.equal(asked.length, 1);
});
