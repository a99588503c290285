// The table of all clients: the calls of the client, and what the middleware of
// each framework sends to the user.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createServer } from "node:net";
import test from "node:test";

import { Sluice, SluiceError } from "../../clients/js/index.js";
import { frameworks } from "./frameworks.js";

const cases = JSON.parse(readFileSync(
    new URL("../../clients/conformance.json", import.meta.url), "utf8"));
const DEADLINE = 20_000;
const SHORT = 100;

const REASONS = { 200: "OK", 202: "Accepted", 302: "Found", 400: "Bad Request" };

function answerText({ status, headers = {}, body, text, interim = 0 }) {
    const content = text ?? JSON.stringify(body);
    const lines = Object.entries(headers).map(([n, v]) => `${n}: ${v}\r\n`);

    return "HTTP/1.1 102 Processing\r\n\r\n".repeat(interim) +
        `HTTP/1.1 ${status} ${REASONS[status] ?? "Other"}\r\n` +
        `${lines.join("")}Content-Length: ${Buffer.byteLength(content)}\r\n` +
        `\r\n${content}`;
}

// Reads one request from `text`; null if it is not complete.
function readRequest(bytes) {
    const end = bytes.indexOf("\r\n\r\n");

    if (end < 0)
        return null;

    const [first, ...lines] = bytes.toString("latin1", 0, end).split("\r\n");
    const headers = Object.fromEntries(lines.map((line) => {
        const [name, ...value] = line.split(":");

        return [name.toLowerCase(), value.join(":").trim()];
    }));
    const length = Number(headers["content-length"] ?? 0);
    const [method, path] = first.split(" ");

    if (bytes.length < end + 4 + length)
        return null;
    return { method, path, headers, size: end + 4 + length,
             body: bytes.toString("utf8", end + 4, end + 4 + length) };
}

// A server that does what the case says, and keeps what it was asked.
async function daemon(t, how) {
    const asked = [];
    const server = createServer((socket) => {
        let bytes = Buffer.alloc(0);

        socket.on("error", () => {});
        socket.on("data", (chunk) => {
            bytes = Buffer.concat([bytes, chunk]);
            for (let got; (got = readRequest(bytes)) !== null;) {
                bytes = bytes.subarray(got.size);
                asked.push(got);
                if (how === "reset")
                    socket.destroy();
                else if (how === "malformed")
                    socket.end("hello, world\r\n\r\n");
                else if (how.missing)
                    socket.end(answerText(how).slice(0, -how.missing));
                else if (how !== "timeout")
                    socket.write(answerText(how));
            }
        });
        t.after(() => socket.destroy());
    });

    await new Promise((done) => server.listen(0, "127.0.0.1", done));
    t.after(() => server.close());
    return { asked, url: `http://127.0.0.1:${server.address().port}` };
}

const deadlineOf = (one) => (one.daemon === "timeout" ? SHORT : DEADLINE);

function clientOf(one, url, deadlineMs = deadlineOf(one)) {
    const { on_failure: onFailure, local, token } = one.client ?? {};

    return new Sluice({
        url, token, onFailure,
        local: local && { limit: local.limit, windowMs: local.window_ms },
        deadlineMs,
        breaker: { restMs: 3_600_000 },
    });
}

const calls = {
    check: (client, { check }) => client.check(check),
    check_all: (client, { checks }) => client.checkAll(checks),
    hold: (client, r) => client.hold(r.check, r.for),
    settle: (client, { hold, cost }) => client.settle(hold, cost),
    release: (client, { hold }) => client.release(hold),
    extend: (client, r) => client.extend(r.hold, r.for),
    report: (client, { usage }) => client.report(usage),
    usage: (client, { scope, id }) => client.usage(scope, id),
    explain: (client, { check }) => client.explain(check),
};

const NAMES = { reset_ms: "resetMs", retry_ms: "retryMs", wait_ms: "waitMs" };

function compare(result, expect) {
    for (const [name, want] of Object.entries(expect)) {
        const got = result[NAMES[name] ?? name];

        if (want === "any")
            assert.equal(typeof got, "number", name);
        else if (name === "failure" && result.state !== undefined)
            assert.equal(want, null);
        else
            assert.deepEqual(got, want, name);
    }
}

async function run(one, client) {
    let last;

    for (let i = 0; i < (one.times ?? 1); i++)
        last = await calls[one.request.call](client, one.request)
            .then((result) => ({ result }), (error) => ({ error }));
    return last;
}

// What the client says, and what the server was asked. A client whose time is over
// before a busy machine has sent its request gets more.
async function ask(t, one, deadlineMs) {
    const { asked, url } = await daemon(t, one.daemon);
    const client = clientOf(one, url, deadlineMs);
    const said = await run(one, client);

    t.after(() => client.close());
    if (one.daemon === "timeout" && asked.length < one.expect.asked &&
        deadlineMs < DEADLINE)
        return ask(t, one, 4 * deadlineMs);
    return { ...said, asked };
}

function checkSent(one, asked) {
    const { method, path, headers = {}, body } = one.sends ?? {};
    const got = asked.at(-1);

    if (!one.sends)
        return;
    assert.equal(got.method, method);
    assert.equal(got.path, path);
    for (const [name, value] of Object.entries(headers))
        assert.equal(got.headers[name.toLowerCase()], value);
    if (body)
        assert.deepEqual(JSON.parse(got.body), body);
}

for (const one of cases)
    test(one.name, async (t) => {
        const { asked, error, result } = await ask(t, one, deadlineOf(one));
        const { user, all, answer, asked: count, error: wanted, ...expect } =
            one.expect;

        if (wanted) {
            assert.ok(error instanceof SluiceError, String(error));
            compare(error, wanted);
        } else {
            assert.equal(error, undefined);
            if (all)
                all.forEach((each, i) => compare(result[i], each));
            if (answer)
                assert.deepEqual(result, answer);
            compare(result, expect);
        }
        assert.equal(asked.length, count);
        checkSent(one, asked);
    });

function sameHeaders(got, want) {
    for (const [name, value] of Object.entries(want))
        assert.equal(got.get(name), value, name);
}

for (const framework of frameworks)
    for (const one of cases.filter(({ expect }) => expect.user))
        test(`${framework.name}: ${one.name}`, async (t) => {
            const { url } = await daemon(t, one.daemon);
            const client = clientOf(one, url);
            const { check } = one.request;
            const ask = await framework.start(t, {
                client, user: check.user, org: check.org, cost: check.cost,
                job: check.job, ip: "192.0.2.1",
            }, one.response ?? {});
            const { user } = one.expect;
            const response = await ask("/api/ai/ask");
            const text = await response.text();

            t.after(() => client.close());
            assert.equal(response.status, user.status ?? 201);
            if (framework.setsBefore || !user.status || !one.response)
                sameHeaders(response.headers, user.headers);
            if (user.status)
                assert.deepEqual(JSON.parse(text), user.body);
            else
                assert.equal(text, "made");
        });
