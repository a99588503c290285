// What the middleware of each framework does beyond the table: holds and
// streams, errors, handlers, who asks.

import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:http";
import test from "node:test";

import { forwardedFor } from "../../clients/js/express.js";
import { frameworks, load } from "./frameworks.js";

// A daemon that allows, unless `verdict` says otherwise, and holds. `ended`
// resolves with the first settlement or release.
async function daemon(t, { verdict = {}, status = 200, expires = 60_000,
                           whenAsked = () => {} } = {}) {
    const asked = [];
    let tell;
    const ended = new Promise((resolve) => {
        tell = resolve;
    });
    const server = createServer(async (request, response) => {
        let text = "";

        for await (const chunk of request)
            text += chunk;

        const body = text === "" ? null : JSON.parse(text);
        const isCheck = request.url === "/v1/check";

        asked.push({ path: request.url, body });
        if (isCheck)
            await whenAsked();
        response.writeHead(isCheck ? status : 200);
        response.end(JSON.stringify(!isCheck ? {
            hold: "h1", state: "settled", again: false, limits: [],
        } : status !== 200 ? { code: "BAD_REQUEST", detail: "no such member" } : {
            allowed: true, status: 200, limits: [], headers: {},
            append_headers: [], body: null, hold: body.hold ? "h1" : null,
            hold_expires_ms: body.hold ? expires : undefined, ...verdict,
        }));
        if (/settle|release/.test(request.url))
            tell({ path: request.url, body });
    });

    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    t.after(() => {
        server.closeAllConnections();
        server.close();
    });
    return { asked, ended, url: `http://127.0.0.1:${server.address().port}` };
}

// Answers "a", then "b" when `more` is resolved, in each kind of framework.
function streaming(name, more, status = 200) {
    const web = () => new Response(new ReadableStream({
        start: (c) => c.enqueue(new TextEncoder().encode("a")),
        async pull(c) {
            await more;
            c.enqueue(new TextEncoder().encode("b"));
            c.close();
        },
    }), { status });
    const node = async (response) => {
        response.statusCode = status;
        response.write("a");
        await more;
        response.end("b");
    };

    if (name === "hono" || name === "next")
        return () => web();
    if (name === "fastify")
        return (request, reply) => {
            reply.hijack();
            return node(reply.raw);
        };
    return (request, response) => node(response);
}

const PATIENT = { deadlineMs: 20_000, ip: "192.0.2.1" };

for (const { name, start } of frameworks.filter((one) => !/later/.test(one.name))) {
    test(`${name}: a hold is settled when the stream has ended`, async (t) => {
        const { asked, ended, url } = await daemon(t);
        let go;
        const more = new Promise((resolve) => {
            go = resolve;
        });
        const ask = await start(t, {
            ...PATIENT, url, hold: "30s", cost: 500,
            settle: ({ status, aborted }) => status + (aborted ? 1 : 0),
        }, {}, streaming(name, more));
        const reader = (await ask("/api/chat")).body.getReader();

        assert.equal(String.fromCharCode(...(await reader.read()).value), "a");
        assert.deepEqual(asked.map(({ path }) => path), ["/v1/check"]);
        go();
        while (!(await reader.read()).done);
        assert.deepEqual(await ended, { path: "/v1/holds/h1/settle",
                                        body: { cost: 200, status: 200 } });
        assert.equal(asked[0].body.cost, 500);
        assert.equal(asked[0].body.hold, "30s");
    });

    test(`${name}: a client that leaves pays what was held`, async (t) => {
        const { ended, url } = await daemon(t);
        const ask = await start(t, { ...PATIENT, url, hold: "30s" }, {},
                                streaming(name, new Promise(() => {})));
        const stop = new AbortController();
        const response = await ask("/", { signal: stop.signal });

        await response.body.getReader().read();
        stop.abort();
        assert.equal((await ended).path, "/v1/holds/h1/settle");
        assert.equal((await ended).body.cost, undefined);
    });

    test(`${name}: a client that leaves while the daemon is asked`, async (t) => {
        const stop = new AbortController();
        const { ended, url } = await daemon(t, { async whenAsked() {
            stop.abort();
            // The application learns of it in this time. If it is later, it has
            // sent the response, and the test shows less.
            await new Promise((done) => setTimeout(done, 50));
        } });
        const ask = await start(t, { ...PATIENT, url, hold: "30s" }, {});

        await assert.rejects(ask("/", { signal: stop.signal }));
        assert.match((await ended).path, /settle|release/);
    });

    test(`${name}: HEAD, whose body is not read`, async (t) => {
        const { ended, url } = await daemon(t);
        const ask = await start(t, { ...PATIENT, url, hold: "30s" }, {});

        await ask("/", { method: "HEAD" });
        assert.equal((await ended).path, "/v1/holds/h1/settle");
    });

    test(`${name}: a failed response releases its hold`, async (t) => {
        const { ended, url } = await daemon(t);
        const ask = await start(t, { ...PATIENT, url, hold: "30s" }, {},
                                streaming(name, Promise.resolve(), 502));

        await (await ask("/")).text();
        assert.equal((await ended).path, "/v1/holds/h1/release");
    });

    test(`${name}: a long stream extends its hold`, async (t) => {
        const { asked, url } = await daemon(t, { expires: 100 });
        let go;
        const more = new Promise((resolve) => {
            go = resolve;
        });
        const ask = await start(t, { ...PATIENT, url, hold: "100ms" }, {},
                                streaming(name, more));
        const response = await ask("/");

        while (!asked.some(({ path }) => path.endsWith("/extend")))
            await new Promise((done) => setTimeout(done, 5));
        go();
        await response.text();
        assert.deepEqual(asked.find(({ path }) => path.endsWith("/extend")).body,
                         { hold: "100ms" });
    });

    test(`${name}: a refusal of the daemon is an error, not a pass`, async (t) => {
        const { url } = await daemon(t, { status: 400 });
        const ask = await start(t, { ...PATIENT, url }, {});
        const response = await ask("/");
        const text = await response.text();

        assert.equal(response.status, 500);
        if (name === "fastify") // the others answer as the application does
            assert.doesNotMatch(text, /127\.0\.0\.1|no such member/);
    });

    test(`${name}: a paced request waits`, async (t) => {
        const { url } = await daemon(t, {
            verdict: { limits: [{ name: "p", mode: "enforce", wait_ms: 60 }] } });
        const ask = await start(t, { ...PATIENT, url }, {});
        const before = performance.now();

        assert.equal((await ask("/")).status, 201);
        assert.ok(performance.now() - before >= 59);
    });

    test(`${name}: who asks, what it costs, and what is not asked`, async (t) => {
        const { asked, url } = await daemon(t);
        const headerOf = (request, header) => {
            const { headers } = request.req?.raw ?? request;

            return headers.get?.(header) ?? headers[header];
        };
        const ask = await start(t, {
            ...PATIENT, url, ip: forwardedFor(2),
            user: (request) => headerOf(request, "x-me"),
            org: async () => 7, cost: () => 0, headers: ["Authorization"],
            skip: (request) => headerOf(request, "x-free") === "yes",
        }, {});

        await ask("/a/b?c=d", { method: "DELETE", headers: {
            "x-me": "ann", "x-forwarded-for": "6.6.6.6, 192.0.2.7, 10.0.0.1",
            "authorization": "Bearer t", "accept-language": "de",
            "user-agent": "test", "x-request-id": "r7", "x-user-id": "evil",
        } });
        assert.equal((await ask("/", { headers: { "x-free": "yes" } })).status, 201);
        assert.deepEqual(asked.map(({ body }) => body), [{
            user: "ann", org: "7", ip: "192.0.2.7", cost: 0, method: "DELETE",
            path: "/a/b?c=d", request_id: "r7", headers: {
                "user-agent": "test", "accept-language": "de",
                "authorization": "Bearer t" },
        }]);
    });

    test(`${name}: a handler may answer a denied request`, async (t) => {
        const { url } = await daemon(t, { verdict: {
            allowed: false, status: 429, body: { policy: true },
            headers: { "Content-Type": "application/problem+json",
                       "Retry-After": "7" } } });
        const ask = await start(t, { ...PATIENT, url, deny: (result, ...rest) => {
            const [a, b] = rest;

            if (name === "next")
                return Response.json({ own: result.status }, { status: 418 });
            if (name === "hono")
                return a.json({ own: result.status }, 418);
            if (name === "fastify")
                return b.code(418).send({ own: result.status });
            b.statusCode = 418;
            b.setHeader("Content-Type", "application/json");
            return b.end(JSON.stringify({ own: result.status }));
        } }, {});
        const response = await ask("/");

        assert.equal(response.status, 418);
        assert.equal(response.headers.get("retry-after"), "7");
        assert.match(response.headers.get("content-type"), /^application\/json/);
        assert.deepEqual(await response.json(), { own: 429 });
    });
}

test("node:http: headers that writeHead() is given twice", async (t) => {
    const { url } = await daemon(t, { verdict: { headers: { "X-A": "1" } } });
    const node = frameworks.find(({ name }) => name === "node:http");
    const forms = [
        ["Set-Cookie", "a=1", "Set-Cookie", "b=2", "X-Y", "z"],
        ["set-cookie", ["a=1", "b=2"], "X-Y", "z"],
        [["Set-Cookie", "a=1"], ["set-cookie", "b=2"], ["X-Y", "z"]],
        { "Set-Cookie": ["a=1", "b=2"], "X-Y": "z" },
    ];

    for (const form of forms) {
        const ask = await node.start(t, { ...PATIENT, url }, {}, (_, response) =>
            response.writeHead(200, form).end());
        const { headers } = await ask("/");

        assert.deepEqual(headers.getSetCookie(), ["a=1", "b=2"]);
        assert.equal(headers.get("x-y"), "z");
        assert.equal(headers.get("x-a"), "1");
    }
});

test("next: redirect() and notFound() are answers, a failure is none", async (t) => {
    const next = frameworks.find(({ name }) => name === "next");
    const { redirect, notFound } = load("next/navigation");

    for (const [thrower, end] of [
        [() => redirect("/there"), "settle"], [() => notFound(), "settle"],
        [() => {
            throw new Error("x");
        }, "release"]]) {
        const { ended, url } = await daemon(t);
        const ask = await next.start(t, { ...PATIENT, url, hold: "30s" }, {},
                                     thrower);

        await ask("/");
        assert.equal((await ended).path, `/v1/holds/h1/${end}`);
    }
});
