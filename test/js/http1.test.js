// The connections of the client: answers in pieces, calls that share a
// connection, servers that close, are slow, or do not speak HTTP.

import assert from "node:assert/strict";
import { once } from "node:events";
import { connect, createServer } from "node:net";
import test from "node:test";

import { MalformedError, Pool } from "../../clients/js/http1.js";

const answer = (body) =>
    `HTTP/1.1 200 OK\r\nContent-Length: ${body.length}\r\n\r\n${body}`;

// A server; `serve(socket, lines)` gets the request lines of each read.
async function start(t, serve) {
    const sockets = [];
    const server = createServer((socket) => {
        sockets.push(socket);
        socket.setNoDelay(true);
        socket.on("error", () => {});
        socket.on("data", (bytes) => serve(
            socket, bytes.toString().match(/^\S+(?= HTTP)/gm) ?? [], sockets.length));
    });

    server.listen(0, "127.0.0.1");
    await once(server, "listening");

    const pool = new Pool(() => connect(server.address().port, "127.0.0.1"));

    t.after(() => {
        pool.close();
        server.close();
    });
    return { pool, sockets,
             ask: (name, more = {}) => pool.ask(`${name} HTTP/1.1\r\n\r\n`, {
                 ms: 20_000, late: () => new Error("late"), ...more }) };
}

const texts = async (calls) => (await Promise.all(calls)).map(({ text }) => text);

test("calls of one turn share a connection, and get their own answers", async (t) => {
    const { ask, pool, sockets } = await start(t, (socket, lines) =>
        socket.write(lines.map(answer).join("")));

    assert.deepEqual(await texts(["a", "b", "c"].map((name) => ask(name))),
                     ["a", "b", "c"]);
    assert.equal(sockets.length, 1);
    assert.equal(pool.most, 8);
    assert.equal((await ask("d", { alone: true })).text, "d");
    assert.deepEqual(await texts(["a", "b"].map((name) =>
        ask(name, { alone: true }))), ["a", "b"]);
    assert.equal(sockets.length, 2);
});

test("calls do not wait for each other if the server waits", async (t) => {
    // Like a daemon with a remote store: one answer after the other.
    const queue = [];
    const { ask, pool } = await start(t, (socket, lines) => {
        for (const line of lines)
            queue.push(() => socket.write(answer(line)));
    });
    const timer = setInterval(() => queue.shift()?.(), 2);

    t.after(() => clearInterval(timer));
    for (let i = 0; i < 4; i++)
        await texts(["a", "b", "c", "d"].map((name) => ask(name)));
    assert.equal(pool.most, 1);
});

test("answers in pieces of every size", async (t) => {
    const parts = {
        a: answer("one"),
        b: "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 201 Created\r\n" +
            "content-length:3 \r\n\r\ntwo",
        c: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" +
            "2;x=y\r\nth\r\n3\r\nree\r\n0\r\nA: b\r\n\r\n",
        d: "HTTP/1.1 204 No Content\r\n\r\n",
    };
    let size = 1;
    const { ask } = await start(t, async (socket, lines) => {
        const all = lines.map((name) => parts[name]).join("");

        for (let at = 0; at < all.length; at += size) {
            socket.write(all.slice(at, at + size));
            await new Promise(setImmediate);
        }
    });

    for (; size < 140; size += 23) {
        const answers = await Promise.all(
            Object.keys(parts).map((name) => ask(name)));

        assert.deepEqual(answers.map(({ status, text }) => [status, text]),
                         [[200, "one"], [201, "two"], [200, "three"], [204, ""]]);
    }
});

test("calls after an answer that closes are repeated", async (t) => {
    const seen = [];
    const { ask, sockets } = await start(t, (socket, lines) => {
        seen.push(lines.length);
        socket.end("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 1" +
                   `\r\n\r\n${lines[0]}`);
    });

    assert.deepEqual(await texts(["a", "b", "c"].map((name) => ask(name))),
                     ["a", "b", "c"]);
    assert.equal(sockets.length, 3);
    assert.deepEqual(seen, [3, 2, 1]);
});

test("a call that must not be made twice is not repeated", async (t) => {
    const seen = [];
    const { ask } = await start(t, (socket, lines) => {
        seen.push(...lines);
        if (lines[0] === "first")
            socket.write(answer("1"));
        else
            socket.end(); // read, and not answered
    });

    await ask("first");
    await assert.rejects(ask("report", { once: true }), /was closed/);
    await ask("first");
    await assert.rejects(ask("check"), /was closed/);
    assert.deepEqual(seen, ["first", "report", "first", "check", "check"]);
});

test("a call that must not be made twice is, if it was not read", async (t) => {
    const { ask } = await start(t, (socket, lines) => socket.end(
        "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 1" +
        `\r\n\r\n${lines[0]}`));

    assert.deepEqual(await texts(["a", "b"].map((name) =>
        ask(name, { once: true }))), ["a", "b"]);
});

test("a body may end with the connection", async (t) => {
    const { ask } = await start(t, (socket) =>
        socket.end("HTTP/1.0 200 OK\r\n\r\nall of it"));

    assert.equal((await ask("a")).text, "all of it");
});

test("a late call does not take the others with it", async (t) => {
    let held;
    const { ask, sockets } = await start(t, (socket, lines) => {
        socket.write(answer(lines[0]));
        held = () => socket.write(lines.slice(1).map(answer).join(""));
    });
    const calls = [ask("a"), ask("b", { ms: 30 }), ask("c")];

    await assert.rejects(calls[1], /late/);
    held();
    assert.equal((await calls[2]).text, "c");
    assert.equal(sockets.length, 1);
});

test("a connection with late calls only is not used again", async (t) => {
    const { ask, sockets } = await start(t, (socket, lines, count) => {
        if (count > 1)
            socket.write(lines.map(answer).join(""));
    });

    await assert.rejects(Promise.all([ask("a", { ms: 20 }), ask("b", { ms: 20 })]),
                         /late/);
    assert.equal((await ask("c")).text, "c");
    assert.equal(sockets.length, 2);
});

test("a server that dies fails its calls, once", async (t) => {
    const { ask, sockets } = await start(t, (socket, lines) => {
        socket.write(answer(lines[0]));
        setTimeout(() => socket.resetAndDestroy(), 10);
    });
    const results = await Promise.allSettled(["a", "b"].map((name) => ask(name)));

    assert.deepEqual(results.map(({ status }) => status), ["fulfilled", "rejected"]);
    assert.equal(sockets.length, 1);
});

test("what is not HTTP is malformed", async (t) => {
    const head = "HTTP/1.1 200 OK\r\n";
    const bad = [
        "SSH-2.0-x\r\n", "HTTP/2 200\r\n\r\n", "HTTP/1.1 2000 OK\r\n\r\n",
        `${head}Content-Length: 1x\r\n\r\n`, `${head}Content-Length: -1\r\n\r\n`,
        `${head}Content-Length: 99999999999\r\n\r\n`,
        `${head}Transfer-Encoding: gzip\r\n\r\n`,
        `${head}Transfer-Encoding: chunked\r\n\r\nx\r\n`,
        `${head}Transfer-Encoding: chunked\r\n\r\n1\r\nab\r\n`,
        `${head}Transfer-Encoding: chunked\r\n\r\nfffffff\r\n`,
        `${head}Transfer-Encoding: chunked\r\n\r\n${"0".repeat(5000)}`,
        `${head}X: ${"y".repeat(70_000)}`,
    ];

    for (const text of bad) {
        const { ask } = await start(t, (socket) => socket.write(text));

        await assert.rejects(Promise.all([ask("a"), ask("b")]), MalformedError, text);
    }
});

test("close() ends what is under way", async (t) => {
    const { ask, pool } = await start(t, () => {});
    const calls = [ask("a"), ask("b")];

    await new Promise((done) => setTimeout(done, 20));
    calls.push(ask("c"));
    pool.close();
    for (const call of calls)
        await assert.rejects(call, /the client was closed/);
});

test("a thousand calls at once use at most 64 connections", async (t) => {
    const { ask, pool, sockets } = await start(t, (socket, lines) =>
        setImmediate(() => lines.forEach((line) => socket.write(answer(line)))));
    const names = Array.from({ length: 1000 }, (_, i) => `n${i}`);

    assert.deepEqual(await texts(names.map((name) => ask(name))), names);
    assert.ok(sockets.length <= 64, `${sockets.length}`);
    assert.ok(pool.idle.length <= 16);
});

test("an answer without an end that is late fails, and nothing else", async (t) => {
    const { ask } = await start(t, (socket) =>
        socket.write("HTTP/1.0 200 OK\r\n\r\npart"));

    await assert.rejects(ask("a", { ms: 30 }), /late/);
    await new Promise(setImmediate); // the end of the connection is seen
    await assert.rejects(ask("b", { ms: 30 }), /late/);
});

test("a signal that has fired already ends a call", async (t) => {
    const { ask } = await start(t, () => {});

    await assert.rejects(ask("a", { signal: AbortSignal.abort(new Error("gone")) }),
                         /gone/);
});
