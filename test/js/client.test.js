// The client beyond the table: connections, deadlines, the breaker, options.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import test from "node:test";

import { Sluice, SluiceError, WebhookError, verifyWebhook }
    from "../../clients/js/index.js";

const VERDICT = { allowed: true, status: 200, limits: [], headers: {},
                  append_headers: [], body: null };
const PATIENT = { deadlineMs: 20_000, onFailure: "deny" };

async function daemon(t, where = { port: 0, host: "127.0.0.1" },
                      handle = (request, response) =>
                          response.end(JSON.stringify(VERDICT))) {
    const sockets = new Set();
    const server = createServer((request, response) => {
        request.resume();
        request.on("end", () => handle(request, response));
    });

    server.on("connection", (socket) => sockets.add(socket));
    server.listen(where);
    await once(server, "listening");
    t.after(() => {
        server.closeAllConnections();
        server.close();
    });
    return { server, sockets,
             url: `http://127.0.0.1:${server.address().port}` };
}

test("connections are kept, and replaced when the daemon closed them", async (t) => {
    const { server, sockets, url } = await daemon(t);
    const client = new Sluice({ ...PATIENT, url });

    for (let i = 0; i < 3; i++)
        assert.equal((await client.check({ path: "/" })).failure, null);
    assert.equal(sockets.size, 1);
    server.closeIdleConnections();
    assert.equal((await client.check({ path: "/" })).failure, null);
    assert.equal(sockets.size, 2);
    await client.close();
});

test("a unix socket", async (t) => {
    const folder = mkdtempSync(`${tmpdir()}/sluice-`);

    t.after(() => rmSync(folder, { recursive: true }));
    await daemon(t, { path: `${folder}/http` });
    for (const url of [`unix:${folder}/http`, `unix://${folder}/http`]) {
        const client = new Sluice({ ...PATIENT, url });

        assert.equal((await client.check({ path: "/" })).failure, null);
        await client.close();
    }
});

test("where there is no node:http, fetch is asked", async () => {
    const asked = [];
    const fetch = async (url, init) => {
        asked.push({ url, ...init });
        return Response.json(VERDICT);
    };
    const client = new Sluice({ ...PATIENT, url: "http://a:1/", token: "t", fetch });

    assert.equal((await client.check({ path: "/ü" })).failure, null);
    assert.equal(asked[0].url, "http://a:1/v1/check");
    assert.equal(asked[0].body, '{"path":"/ü"}');
    assert.equal(asked[0].redirect, "manual");
    assert.deepEqual(asked[0].headers, { "Authorization": "Bearer t",
                                         "Content-Type": "application/json" });
});

test("a deadline ends a call to a silent fetch", async () => {
    const fetch = (url, { signal }) => new Promise((resolve, reject) => {
        signal.addEventListener("abort", () => reject(signal.reason));
    });
    const client = new Sluice({ deadlineMs: 10, fetch });
    const before = performance.now();

    assert.equal((await client.check({ path: "/" })).failure, "timeout");
    assert.ok(performance.now() - before < 10_000);
});

test("the default deadline is 250 ms, and grows by the wait", async () => {
    const client = new Sluice();

    assert.equal(client.deadlineMs, 250);
    assert.equal(client.onFailure, "allow");
});

test("a daemon that answers half and dies", async (t) => {
    const { url } = await daemon(t, undefined, (request, response) => {
        response.writeHead(200, { "Content-Length": 1000 });
        response.write('{"allowed":true,');
        setTimeout(() => response.destroy(), 5);
    });
    const client = new Sluice({ ...PATIENT, url });
    const result = await client.check({ path: "/" });

    assert.equal(result.status, 503);
    assert.equal(result.failure, "malformed");
    await client.close();
});

test("usage is not reported twice if the daemon dies after reading it", async (t) => {
    const asked = [];
    const { url } = await daemon(t, undefined, (request, response) => {
        asked.push(request.url);
        if (asked.length % 2 === 1)
            response.end(JSON.stringify(VERDICT));
        else
            request.socket.destroy();
    });
    const usage = { org: "acme", limit: "minutes", amount: 5 };

    for (const call of [(client) => client.report(usage),
                        (client) => client.report([usage, usage])]) {
        const client = new Sluice({ ...PATIENT, url });

        await client.check({ path: "/" });
        await assert.rejects(call(client), { failure: "unreachable" });
        await client.close();
    }
    assert.deepEqual(asked, ["/v1/check", "/v1/usage", "/v1/check", "/v1/usage"]);
});

test("the caller may abort", async (t) => {
    const { url } = await daemon(t, undefined, () => {});
    const client = new Sluice({ ...PATIENT, url });
    const stop = new AbortController();
    const asked = client.check({ path: "/" }, { signal: stop.signal });

    stop.abort(new Error("enough"));
    await assert.rejects(asked, /enough/);
    await assert.rejects(client.check({ path: "/" }, { signal: stop.signal }),
                         /enough/);
    await client.close();
});

test("the breaker opens, tries once in each rest, and closes", async () => {
    let now = 0, up = false, asked = 0;
    const fetch = async () => {
        asked++;
        if (!up)
            throw new TypeError("down");
        return Response.json(VERDICT);
    };
    const told = [];
    const client = new Sluice({ fetch, now: () => now, onFailure: "deny",
                                breaker: { failures: 3, restMs: 100 },
                                onError: (error) => told.push(error.failure) });
    const failures = async (count) => {
        const results = [];

        for (let i = 0; i < count; i++)
            results.push((await client.check({ path: "/" })).failure);
        return results;
    };

    assert.deepEqual(await failures(5), ["unreachable", "unreachable",
                                         "unreachable", "open", "open"]);
    assert.equal(asked, 3);
    now = 100;
    assert.deepEqual(await failures(2), ["unreachable", "open"]);
    now = 200;
    up = true;
    assert.deepEqual(await failures(3), [null, null, null]);
    assert.equal(asked, 7);
    assert.equal(told.length, 7);
});

test("an allowance of this process: by caller, and anew in each window", async () => {
    let now = 0;
    const fetch = async () => {
        throw new TypeError("down");
    };
    const client = new Sluice({ fetch, now: () => now, onFailure: "local",
                                local: { limit: 2, windowMs: 100 } });
    const ask = async (check) => {
        const { allowed, remaining, retryMs } =
            await client.check({ path: "/", ...check });

        return [allowed, remaining, retryMs];
    };

    assert.deepEqual(await ask({ user: "ann" }), [true, 1, null]);
    now = 40;
    assert.deepEqual(await ask({ user: "ann", cost: 2 }), [false, 1, 60]);
    assert.deepEqual(await ask({ org: "acme", cost: { a: 2, b: 1 } }), [true, 0, null]);
    assert.deepEqual(await ask({ user: "ann", cost: 0 }), [true, 1, null]);
    now = 100;
    assert.deepEqual(await ask({ user: "ann", cost: 2 }), [true, 0, null]);
    for (let i = 0; i < 20_000; i++)
        await ask({ user: `u${i}` });
    assert.deepEqual(await ask({ user: "u19999" }), [true, 0, null]);
});

test("options that are not known, or not right, are refused", () => {
    const refused = [
        [{ urll: "x" }, /unknown option "urll"; the options are url, token/],
        [{ onFailure: "pass" }, /onFailure must be allow, deny, local, not pass/],
        [{ onFailure: "local" }, /needs an allowance: local: \{ limit: 60/],
        [{ deadlineMs: 0 }, /deadlineMs must be a whole number of at least 1/],
        [{ url: "ftp://x" }, /url must be http:.*not ftp:\/\/x/],
        [{ url: "http://a/b" }, /url must be/],
    ];

    for (const [options, why] of refused)
        assert.throws(() => new Sluice(options), why);
});

test("10,000 calls at once leave nothing behind", async (t) => {
    const { sockets, url } = await daemon(t);
    const client = new Sluice({ ...PATIENT, deadlineMs: 120_000, url });
    const timers = () => process.getActiveResourcesInfo()
        .filter((name) => name === "Timeout").length;
    const before = timers();
    const results = await Promise.all(Array.from(
        { length: 10_000 }, (_, i) => client.check({ path: `/${i}` })));

    assert.equal(results.filter(({ failure }) => failure === null).length, 10_000);
    assert.ok(sockets.size <= 64, `${sockets.size} connections`);
    await client.close();
    for (const socket of sockets)
        if (!socket.closed)
            await once(socket, "close");
    assert.ok(timers() <= before); // timers of earlier tests may have ended
});

// The daemon is a process, killed after 500 answers.
const KILLED = `
    let left = 500;
    require("node:http").createServer((request, response) => {
        request.resume();
        request.on("end", () => {
            if (left-- === 0)
                process.kill(process.pid, "SIGKILL");
            response.end(${JSON.stringify(JSON.stringify(VERDICT))});
        });
    }).listen(0, "127.0.0.1", function () {
        console.log(this.address().port);
    });`;

test("a daemon that is killed in the middle of 5,000 calls", async (t) => {
    const child = spawn(process.execPath, ["-e", KILLED]);

    t.after(() => child.kill("SIGKILL"));

    const [port] = await once(child.stdout, "data");
    const client = new Sluice({ ...PATIENT, url: `http://127.0.0.1:${+port}` });
    const got = {};

    await Promise.all(Array.from({ length: 50 }, async () => {
        for (let i = 0; i < 100; i++) {
            const { failure } = await client.check({ path: "/" });

            got[failure] = (got[failure] ?? 0) + 1;
        }
    }));
    assert.equal(Object.values(got).reduce((sum, n) => sum + n), 5000);
    assert.ok(got.null >= 400 && got.null <= 500, JSON.stringify(got));
    assert.ok(got.open > 3000, JSON.stringify(got)); // the breaker
    await client.close();
});

test("webhooks: a good one, and each kind of bad one", async () => {
    const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    const headers = {
        "webhook-id": "msg_1", "webhook-timestamp": "1000",
        "webhook-signature": "v1,bU/RKKzWBtzgCgheaXdW1kq0cFhlbuP6R6XT1Xi7ZP0=",
    };
    const body = '{"type":"done"}';
    const at = { now: () => 1_000_000 };
    const bad = (more, why, options = at) => assert.rejects(
        verifyWebhook({ headers, body, secret, ...more }, options), (error) => {
            assert.ok(error instanceof WebhookError);
            assert.match(error.message, why);
            return true;
        });

    assert.deepEqual(await verifyWebhook({ headers, body, secret }, at),
                     { type: "done" });
    assert.deepEqual(await verifyWebhook({
        headers: new Headers(headers), body: Buffer.from(body),
        secret: ["whsec_AAAA", secret] }, at), { type: "done" });
    await bad({ body: `${body} ` }, /its signature is wrong/);
    await bad({ secret: "whsec_AAAA" }, /its signature is wrong/);
    await bad({ headers: {} }, /the header webhook-id is missing/);
    await bad({ headers: { ...headers, "webhook-signature": "v2,AAAA" } },
              /no signature of version v1/);
    await bad({ headers: { ...headers, "webhook-timestamp": "1e3" } },
              /not a number of seconds/);
    await bad({}, /sent too long ago/, { now: () => 1_301_000 });
    await bad({}, /in the future/, { now: () => 699_000 });
});

test("require() finds the same module", {
    skip: !process.features.require_module && "this Node requires no ES modules",
}, () => {
    const require = createRequire(import.meta.url);

    assert.equal(require("../../clients/js/index.js").Sluice, Sluice);
    assert.equal(require("../../clients/js/index.js").SluiceError, SluiceError);
});
