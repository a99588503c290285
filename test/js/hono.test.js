// Hono on Node, whose responses are no Response of the platform until their body
// is asked for. This file is alone in its process: @hono/node-server replaces
// the global Response.

import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:http";
import test from "node:test";
import { inspect } from "node:util";

import { sluice } from "../../clients/js/hono.js";
import { load } from "./frameworks.js";

const { Hono } = load("hono");
const { serve } = load("@hono/node-server");

const VERDICT = {
    allowed: true, status: 200, limits: [], hold: null, body: null,
    headers: { "RateLimit": '"one";r=4;t=33', "X-Request-Id": "req_daemon",
               "Access-Control-Expose-Headers": "RateLimit, X-Request-Id" },
    append_headers: ["Access-Control-Expose-Headers"],
};

async function daemon(t) {
    const server = createServer((request, response) => {
        request.resume();
        response.end(JSON.stringify(VERDICT));
    });

    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    t.after(() => {
        server.closeAllConnections();
        server.close();
    });
    return `http://127.0.0.1:${server.address().port}`;
}

// The answer of an application that has `before`, our middleware and `handler`.
// `seen` gets Hono's response as it leaves our middleware.
async function answerOf(t, { before, handler, seen }) {
    const app = new Hono();

    if (before)
        app.use(before);
    app.use(async (c, next) => {
        await next();
        seen?.(c.res);
    });
    app.use(sluice({ url: await daemon(t), deadlineMs: 20_000,
                     ip: "192.0.2.1" }));
    app.get("/", handler);

    const server = serve({ fetch: app.fetch, port: 0, hostname: "127.0.0.1" });

    if (!server.listening)
        await once(server, "listening");
    t.after(() => {
        server.closeAllConnections();
        server.close();
    });
    return fetch(`http://127.0.0.1:${server.address().port}/`);
}

const stream = () => new ReadableStream({
    start(c) {
        c.enqueue(new TextEncoder().encode("made"));
        c.close();
    },
});

const handlers = {
    "c.json": (c) => c.json("made", 201),
    "c.text": (c) => c.text("made", 201),
    "c.body of a stream": (c) => c.body(stream(), 201),
    "a Response with a record": () => new Response("made", {
        status: 201, headers: { "x-own": "1" } }),
    "a Response with Headers": () => new Response("made", {
        status: 201, headers: new Headers({ "x-own": "1" }) }),
    "a Response of a stream": () => new Response(stream(), { status: 201 }),
};

async function expectHeaders(response, { id = "req_daemon", expose } = {}) {
    assert.equal(response.status, 201);
    assert.match(await response.text(), /^"?made"?$/);
    assert.equal(response.headers.get("ratelimit"), '"one";r=4;t=33');
    assert.equal(response.headers.get("x-request-id"), id);
    assert.equal(response.headers.get("access-control-expose-headers"),
                 expose ?? "RateLimit, X-Request-Id");
}

for (const [name, handler] of Object.entries(handlers)) {
    test(`${name}: it gets the headers`, async (t) => {
        await expectHeaders(await answerOf(t, { handler }));
    });

    test(`${name}: headers of the application stay`, async (t) => {
        const response = await answerOf(t, {
            handler: (c) => {
                c.header("Access-Control-Expose-Headers", "X-Later");
                return handler(c);
            },
            before: async (c, next) => {
                c.res.headers.set("X-Request-Id", "own");
                await next();
            } });

        await expectHeaders(response, {
            id: "own", expose: "X-Later, RateLimit, X-Request-Id" });
    });

    test(`${name}: headers set after it take none away`, async (t) => {
        const response = await answerOf(t, {
            handler, before: async (c, next) => {
                await next();
                c.header("X-After", "1");
            } });

        assert.equal(response.headers.get("x-after"), "1");
        await expectHeaders(response);
    });
}

test("c.header of the application stays", async (t) => {
    await expectHeaders(await answerOf(t, {
        handler: (c) => c.json("made", 201, { "X-Request-Id": "later" }),
        before: async (c, next) => {
            c.header("Access-Control-Expose-Headers", "X-Own");
            await next();
        },
    }), { id: "later", expose: "X-Own, RateLimit, X-Request-Id" });
});

for (const name of ["c.json", "c.text"])
    test(`${name}: no stream is made of its body`, async (t) => {
        let text;

        await expectHeaders(await answerOf(t, {
            handler: handlers[name], seen: (response) => {
                text = inspect(response);
            } }));
        assert.match(text, /lightweight[^]*nativeResponse: undefined/);
    });
