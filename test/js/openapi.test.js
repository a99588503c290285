// The API description is that of the code: every route is described, every
// example is sent to a real daemon, and every answer is valid. A member of an
// answer that is not described is a failure.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { appendFileSync, mkdtempSync, readFileSync, readdirSync, rmSync }
    from "node:fs";
import { tmpdir } from "node:os";
import test from "node:test";

import { daemon } from "./apps.js";
import { Description } from "./description.js";
import { load } from "./frameworks.js";

const root = new URL("../..", import.meta.url).pathname;

const POLICY = `
sluice: 1
plans: { default: free, free: {}, pro: { overage: true } }
identity:
  user: [header.x-user-id]
limits:
  ai-minute: { kind: token-bucket, per: user, rate: { free: 2/min, pro: 60/min }, candidate: 1/min }
  transcription: { kind: quota, per: org, unit: minutes, rate: 120/month, deny: { status: 402, code: PLAN_LIMIT_EXCEEDED } }
  links: { kind: level, per: org, rate: 5 }
  running: { kind: concurrency, per: org, rate: 2, hold: 1m, missing: skip }
  paced: { kind: leaky-bucket, per: user, rate: 1/s queue 5 }
  trial: { kind: sliding-window, per: user, rate: 5/min, mode: shadow }
  login: { kind: fixed-window, per: ip, rate: 5/min, penalty: { after: 5, within: 10m, block: 15m } }
  talk: { kind: quota, per: org, unit: { name: minutes, of: 60, reports: seconds }, rate: 120/month, charge: on_report }
features: { assistant: { enabled: true, message: "Paused.", retry_after: 60s } }
routes:
  - { match: /api/ai/**, endpoint: ai, feature: assistant, limits: [ai-minute] }
  - { match: /api/paced, limits: [paced, trial] }
  - { match: POST /api/links, limits: [links] }
  - { match: POST /login, limits: [login] }
  - { job: transcribe, limits: [transcription, running], backlog: { max: 1000, retry_after: 30s } }
  - { job: talk, limits: [talk] }
default: []
`;

// Operations that this daemon, alone and with this policy, answers with a refusal
// or a denial.
const NEVER_GOOD = ["rlconfig", "releaseLeases", "deny", "authPath",
                    "demoFile", "makeDemoToken"];

// What the examples do not show: denials, ended holds, switches, other formats.
const MORE = [
    ["POST", "/v1/check", { path: "/api/ai/x", user: "eve", cost: 3 }],
    ["POST", "/v1/check", { path: "/api/ai/x", user: "eve", cost: 2 }],
    ["POST", "/v1/check", { path: "/api/ai/x", user: "eve" }],
    ["POST", "/v1/check", { job: "transcribe", org: "acme", cost: 10_000 }],
    ["POST", "/v1/check", { job: "transcribe" }],
    ["POST", "/v1/check", { job: "talk", org: "acme" }],
    ["POST", "/v1/check", { path: "/nowhere" }],
    ["POST", "/v1/check", { path: "/api/paced", usr: "x" }],
    ["POST", "/v1/explain", [{ path: "/api/paced", user: "ann" }]],
    ["POST", "/v1/explain", { path: "/api/ai/x", user: "eve" }],
    ["POST", "/v1/usage", { org: "acme", limit: "talk", amount: 90 }],
    ["POST", "/v1/usage", { org: "acme", limit: "nope", amount: 1 }],
    ["GET", "/v1/usage/org/acme"],
    ["GET", "/v1/usage/org/acme?format=csv"],
    ["GET", "/v1/usage/export?from=2026-11-01&to=2026-12-01&format=csv"],
    ["GET", "/v1/auth?cost=99", undefined, { "X-Original-URI": "/api/ai/x" }],
    ["GET", "/v1/backlog/nope"],
    ["GET", "/v1/top?by=denied"],
    ["GET", "/v1/denials?passed=true"],
    ["POST", "/v1/policy", "sluice: 1\nfoo: 1\n"],
    ["PUT", "/v1/features/assistant", { enabled: false }],
    ["POST", "/v1/check", { path: "/api/ai/x", user: "ann" }],
    ["DELETE", "/v1/features/assistant"],
    ["POST", "/v1/blocks/user/mal", { until: "2h" }],
    ["POST", "/v1/check", { path: "/api/ai/x", user: "mal" }],
    ["GET", "/v1/blocks"],
    ["DELETE", "/v1/subjects/user/bob?erase=true"],
    ["GET", "/v1/subjects/user/bob"],
    ["GET", "/v1/audit"],
    ["GET", "/v1/subjects?scope=user"],
];

// The routes in the code: a method (or null for any) and a path; a path that
// ends in a slash is a prefix.
function routes() {
    const folder = `${root}src/server/http/`;
    const row = /(?:\{|PROGRAM\(|WEBHOOK\()\s*(NULL|"[A-Z]+"),\s*"(\/[^"]*)",[^{}]*?(?:SL_ACCESS_|\))/g;

    return readdirSync(folder).filter((name) => name.endsWith(".c"))
        .flatMap((name) =>
            [...readFileSync(folder + name, "utf8").matchAll(row)])
        .map(([, method, path]) => [JSON.parse(method.toLowerCase()), path]);
}

const isDescribed = (paths, method, route) =>
    Object.entries(paths).some(([path, item]) =>
        (route.endsWith("/") ? path.startsWith(route) && path !== route
            : path === route) && (method === null || item[method]));

test("every route of the code is described", () => {
    const { paths } = load("yaml").parse(
        readFileSync(`${root}docs/reference/openapi.yaml`, "utf8"));
    const all = routes();

    assert.ok(all.length > 40, `${all.length} routes`);
    assert.deepEqual(all.filter(([method, path]) =>
        !isDescribed(paths, method, path)), []);
});

// The requests that the description gives as examples.
function* examplesOf(description) {
    for (const [path, item] of Object.entries(description.document.paths))
        for (const method of ["post", "put", "patch", "get", "delete"])
            if (item[method])
                yield* examplesOfOne(description, path, item, method);
}

function* examplesOfOne(description, path, item, method) {
    const operation = item[method];
    const query = new URLSearchParams();
    const headers = {};
    let target = path;

    for (const given of [...item.parameters ?? [], ...operation.parameters ?? []]) {
        const { name, in: where, example } = description.resolve(given);

        if (where === "path")
            target = target.replace(`{${name}}`, example);
        else if (example !== undefined && where === "query")
            query.set(name, example);
        else if (example !== undefined)
            headers[name] = String(example);
    }
    if (query.size > 0)
        target += `?${query}`;

    const content = description.resolve(operation.requestBody)?.content ?? {};
    const bodies = Object.values(content).flatMap(
        ({ schema, example, examples = {} }) =>
            [...example === undefined ? [] : [example],
             ...Object.values(examples).map(({ value }) => value)]
                .map((value) => ({ schema, value })));

    for (const body of bodies.length > 0 ? bodies : [{}])
        yield { method: method.toUpperCase(), target, headers, ...body,
                isAdmin: operation.tags.includes("admin") &&
                    operation.tags.length === 1 };
}

test("examples and answers are as described", async (t) => {
    const folder = mkdtempSync(`${tmpdir()}/sluice-api-`);

    t.after(() => rmSync(folder, { recursive: true, force: true }));
    process.env.TEST_ANSWERS = `${folder}/answers`;

    const sluiced = await daemon(t, { policy: POLICY, words: [
        "--usage", `sqlite:${folder}/usage.db`] });
    const description = new Description(
        await (await fetch(`${sluiced.url}/openapi.json`)).json());
    const complaints = [];

    async function send(method, target, value, headers = {}, isAdmin = false) {
        const stop = new AbortController();
        const response = await fetch((isAdmin ? sluiced.admin : sluiced.url) + target, {
            method, headers, signal: stop.signal,
            body: value === undefined || typeof value === "string" ? value
                : JSON.stringify(value) });
        const isStream = target === "/v1/events";
        const text = isStream ? "" : await response.text();

        stop.abort();
        for (const why of description.check(
            method, target, response.status,
            response.headers.get("content-type") ?? "", text))
            complaints.push(`${method} ${target}: ${why}`);
        return text;
    }

    await send("POST", "/v1/clock", { now: "2026-11-15T12:00:00Z" }, {}, true);
    for (const one of examplesOf(description)) {
        if (one.value !== undefined)
            for (const why of description.validate(one.schema, one.value))
                complaints.push(`example of ${one.method} ${one.target}: ${why}`);
        await send(one.method, one.target, one.value, one.headers, one.isAdmin);
    }
    for (const [method, target, value, headers] of MORE) {
        const item = description.document.paths[
            description.find(target.split("?")[0])];
        const tags = item[method.toLowerCase()].tags;

        await send(method, target, value, headers, tags.includes("admin"));
    }
    for (const verb of ["extend", "settle", "release"]) {
        const { hold } = JSON.parse(await send("POST", "/v1/check", {
            job: "transcribe", org: `holds-${verb}`, hold: "30s" }));

        await send("POST", `/v1/holds/${hold}/${verb}`,
                   verb === "extend" ? { hold: "30s" } : {});
    }

    await testWebhooks(send);

    const { token } = JSON.parse(await send(
        "POST", "/v1/usage-tokens", { org: "acme", upgrade_url: "https://a.b/" }));

    for (const query of ["", "?format=csv"])
        await send("GET", `/ui/usage/data${query}`, undefined,
                   { Authorization: `Bearer ${token}` });
    assert.deepEqual(complaints, []);
    assert.deepEqual(
        Object.values(description.document.paths).flatMap((item) =>
            Object.values(item).map(({ operationId }) => operationId))
            .filter((name) => name && !description.seen.has(name) &&
                    !NEVER_GOOD.includes(name)), []);
    testRecorded(`${folder}/answers`);
});

// An endpoint and its messages, by the ids that the daemon has given.
async function testWebhooks(send) {
    const at = "/v1/webhooks/endpoints";
    const { id } = JSON.parse(await send("POST", at, {
        org: "acme", url: "https://example.com/in", events: ["order.*"] }));

    await send("GET", `${at}/${id}`);
    await send("PATCH", `${at}/${id}`, { events: ["*"] });
    await send("POST", `${at}/${id}/rotate`, {});
    await send("POST", `${at}/${id}/ping`);
    await send("POST", `${at}/${id}/replay`, {
        from: "2026-11-01T00:00:00Z", to: "2026-12-01T00:00:00Z" });

    const { messages } = JSON.parse(await send("GET", "/v1/webhooks/messages"));

    await send("GET", `/v1/webhooks/messages/${messages[0].id}`);
    await send("POST", `/v1/webhooks/messages/${messages[0].id}/replay`);
    await send("DELETE", `${at}/${id}`);
}

// What the daemon has recorded is valid, too; a member more is found.
function testRecorded(file) {
    const read = () => spawnSync(process.execPath, [
        new URL("recorded.js", import.meta.url).pathname, file],
                                 { encoding: "utf8" });
    const body = '{"allowed":true,"extra":1}';

    assert.match(read().stdout, /^\d{2,} answers, 0 complaints$/m);
    // A daemon that was killed has written a part; the next answer is lost, too.
    appendFileSync(file, 'POST /v1/check 200 application/json 5000\n{"allo' +
                         "POST /v1/check 200 application/json 2\n{}\n");
    assert.match(read().stdout, /^\d{2,} answers, 0 complaints$/m);
    appendFileSync(file, `POST /v1/check 200 application/json ${body.length}\n` +
                         `${body}\n`);

    const { status, stdout } = read();

    assert.equal(status, 1);
    assert.match(stdout, /POST \/v1\/check 200: .*"additionalProperty":"extra"/);
}

test("names that differ only in case", () => {
    const { components } = load("yaml").parse(readFileSync(
        `${root}docs/reference/openapi.yaml`, "utf8"));
    const names = ["schemas", "parameters", "responses", "requestBodies"]
        .flatMap((kind) => Object.keys(components[kind]));
    const known = new Map(); // generators make files of them

    for (const name of names) {
        const other = known.get(name.toLowerCase()) ?? name;

        assert.equal(name, other);
        known.set(name.toLowerCase(), name);
    }
});
