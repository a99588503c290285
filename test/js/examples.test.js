// The applications of examples/, each beside a real daemon whose clock stands
// still.

import assert from "node:assert/strict";
import { createSign, generateKeyPairSync } from "node:crypto";
import { copyFileSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import test from "node:test";

import { copyOf, daemon, serve } from "./apps.js";

const root = new URL("../..", import.meta.url).pathname;
const example = (path) => `${root}examples/${path}`;
const preset = (name) => `${root}presets/${name}.yaml`;

// Asks `count` times; the statuses.
async function ask(host, path, count, init = {}) {
    const statuses = [];
    let response, text;

    for (let i = 0; i < count; i++) {
        response = await fetch(`http://${host}${path}`, init);
        text = await response.text();
        statuses.push(response.status);
    }
    return { statuses, headers: response.headers, text };
}

const times = (count, status) => Array(count).fill(status);

const base64 = (value) => Buffer.from(JSON.stringify(value)).toString("base64url");

function tokenOf(key, claims) {
    const text = `${base64({ alg: "RS256", kid: "k" })}.${base64({
        iss: "https://issuer.example", aud: "api", iat: 0, exp: 3600, ...claims })}`;

    return `${text}.${createSign("RSA-SHA256").update(text).sign(key, "base64url")}`;
}

test("express: tokens and plans", async (t) => {
    const keys = generateKeyPairSync("rsa", { modulusLength: 2048 });
    const folder = mkdtempSync(`${tmpdir()}/sluice-jwt-`);

    t.after(() => rmSync(folder, { recursive: true }));
    copyFileSync(preset("jwt-redis"), `${folder}/policy.yaml`);
    writeFileSync(`${folder}/jwks.json`, JSON.stringify({ keys: [{
        ...keys.publicKey.export({ format: "jwk" }), kid: "k", alg: "RS256",
        use: "sig" }] }));

    const sluiced = await daemon(t, { file: `${folder}/policy.yaml` });
    const { host } = await serve(t, copyOf(t, "express"), "app.js", sluiced.url);
    const bearer = (claims) => ({ headers: {
        Authorization: `Bearer ${tokenOf(keys.privateKey, claims)}` } });
    const free = await ask(host, "/orders", 11, bearer({ sub: "ann", plan: "free" }));
    const pro = await ask(host, "/orders", 11, bearer({ sub: "bob", plan: "pro" }));

    assert.deepEqual(free.statuses, [...times(10, 200), 429]);
    assert.equal(free.headers.get("retry-after"), "1");
    assert.match(free.headers.get("x-request-id"), /^[0-9a-f-]{36}$/);
    assert.equal(JSON.parse(free.text).code, "RATE_LIMITED");
    assert.deepEqual(pro.statuses, times(11, 200));
    assert.deepEqual(JSON.parse(pro.text), { orders: [], remaining: 89 });
    sluiced.child.kill("SIGKILL");

    const local = await ask(host, "/orders", 12);

    assert.deepEqual(local.statuses, [...times(10, 200), 429, 429]);
});

test("fastify: tokens of a stream are held and settled", async (t) => {
    const sluiced = await daemon(t, { file: example("fastify/policy.yaml") });
    const app = await serve(t, copyOf(t, "fastify"), "app.js", sluiced.url);
    const init = { method: "POST", headers: { "X-Demo-Org": "acme" } };
    const remaining = [];

    for (let i = 0; i < 3; i++) {
        const { headers, statuses, text } = await ask(app.host, "/api/chat", 1, init);

        remaining.push([statuses[0], headers.get("x-ratelimit-remaining")]);
        if (statuses[0] === 200)
            assert.equal(text, "one\ntwo\nthree\n");
        await sluiced.nothingHeld();
    }
    assert.deepEqual(remaining, [[200, "500"], [200, "200"], [429, "400"]]);
});

test("hono: a cost, and an answer of its own", async (t) => {
    const { url } = await daemon(t, { file: example("hono/policy.yaml") });
    const { host } = await serve(t, copyOf(t, "hono"), "app.js", url);
    const { headers, statuses, text } = await ask(host, "/api/search?deep=1", 3);

    assert.deepEqual(statuses, [200, 200, 429]);
    assert.equal(text, '{"error":"slow down","seconds":30}');
    assert.equal(headers.get("retry-after"), "30");
});

test("next: endpoints, quotas and tokens", async (t) => {
    const sluiced = await daemon(t, { file: preset("saas-quotas") });
    const folder = copyOf(t, "next");
    const search = await serve(t, folder, "app/api/search/route.js", sluiced.url);
    const query = await serve(t, folder, "app/api/assistant/query/route.js",
                              sluiced.url);
    const headers = { Cookie: "session=ann.acme.free" };
    const found = await ask(search.host, "/api/search", 21, { headers });
    const asking = { method: "POST", headers, body: '{"question":"why?"}' };

    assert.deepEqual(found.statuses, [...times(20, 200), 429]);
    assert.match(found.text, /Too many requests\. Try again later\./);

    const { statuses, text, headers: quota } =
        await ask(query.host, "/api/assistant/query", 1, asking);

    assert.deepEqual(statuses, [200]);
    assert.equal(text, '{"answer":"WHY?"}');
    assert.equal(quota.get("x-org-quota-remaining"), "99");
    await sluiced.nothingHeld();

    const left = await sluiced.explain({ path: "/api/assistant/query",
                                         method: "POST", user: "ann",
                                         org: "acme", plan: "free", cost: 0 });

    assert.deepEqual(left.limits.map(({ name, remaining }) => [name, remaining]),
                     [["assistant_query", 9], ["assistant_queries", 99],
                      ["assistant_tokens", 50_000 - 160]]);
});

test("next-visitors: visitors, users and premium", async (t) => {
    const folder = mkdtempSync(`${tmpdir()}/sluice-users-`);

    t.after(() => rmSync(folder, { recursive: true, force: true }));

    const sluiced = await daemon(t, { file: preset("jobseek"), words: [
        "--usage", `sqlite:${folder}/users.db`] });
    const { host } = await serve(t, copyOf(t, "next-visitors"),
                                 "app/api/wallcrawler/session/route.js",
                                 sluiced.url);
    const path = "/api/wallcrawler/session";
    const visitor = (more = {}) => ({ method: "POST", headers: {
        "X-Forwarded-For": "192.0.2.7", "User-Agent": "a", ...more } });
    const sixth = await ask(host, path, 6, visitor());

    assert.deepEqual(sixth.statuses, [...times(5, 200), 429]);
    assert.deepEqual(JSON.parse(sixth.text), {
        error: "Rate limit exceeded", limit: 5, remaining: 0,
        resetTime: "1970-01-01T01:00:00.000Z" });
    assert.deepEqual((await ask(host, path, 1, visitor({ "User-Agent": "b" })))
        .statuses, [200]);
    assert.deepEqual((await ask(host, path, 11, visitor({ Cookie: "user=bob" })))
        .statuses, [...times(10, 200), 429]);
    await fetch(`${sluiced.admin}/v1/subjects/user/ann`, {
        method: "PUT", body: '{"plan":"premium"}' });
    assert.deepEqual((await ask(host, path, 11, visitor({ Cookie: "user=ann" })))
        .statuses, times(11, 200));
});
