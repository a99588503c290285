// The API description is that of the code: every route is described, every
// example is sent to a real daemon, and every answer is valid. A member of an
// answer that is not described is a failure.

import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import test from "node:test";

import { daemon } from "./apps.js";
import { load } from "./frameworks.js";

const root = new URL("../..", import.meta.url).pathname;
const Ajv = load("ajv/dist/2020").default;

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
                    "demoFile", "makeDemoToken",
                    "getWebhookEndpoint", "changeWebhookEndpoint",
                    "deleteWebhookEndpoint", "rotateWebhookSecret",
                    "pingWebhookEndpoint", "replayWebhookRange", "getWebhook",
                    "replayWebhook"];

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

// Objects with properties may have no others, for this test only: clients are
// to ignore new members.
function strict(schema) {
    if (Array.isArray(schema))
        return schema.map(strict);
    if (schema === null || typeof schema !== "object")
        return schema;

    const same = Object.fromEntries(
        Object.entries(schema).map(([name, value]) =>
            [name, ["example", "examples"].includes(name) ? value : strict(value)]));

    if (same.properties && same.type === "object" &&
        same.additionalProperties === undefined)
        same.additionalProperties = false;
    return same;
}

class Description {
    constructor(document) {
        this.document = document;
        this.ajv = new Ajv({ strict: false, allErrors: true });
        this.ajv.addFormat("date-time", true);
        this.ajv.addSchema({ $id: "sluice:",
                             components: strict(document.components) });
        this.seen = new Set();
        this.compiled = new Map();
    }

    resolve(value) {
        if (!value?.$ref)
            return value;
        return value.$ref.slice(2).split("/")
            .reduce((at, name) => at[name], this.document);
    }

    // Complaints about a value.
    validate(schema, value) {
        const text = JSON.stringify(strict(schema))
            .replaceAll('"#/components/', '"sluice:#/components/');

        if (!this.compiled.has(text))
            this.compiled.set(text, this.ajv.compile(JSON.parse(text)));

        const check = this.compiled.get(text);

        return check(value) ? [] : check.errors.map(
            ({ instancePath, message, params }) =>
                `${instancePath} ${message} ${JSON.stringify(params)}`);
    }

    // Path templates with more fixed text come first.
    find(path) {
        const templates = Object.keys(this.document.paths)
            .sort((a, b) => a.split("{").length - b.split("{").length);
        const fits = (template, some) => new RegExp(`^${template
            .replaceAll(".", "\\.").replace(/\{\w+\}/g, some)}$`).test(path);

        return templates.find((one) => fits(one, "[^/]+")) ??
            templates.find((one) => fits(one, ".+"));
    }

    // Complaints about an answer.
    check(method, target, status, type, text) {
        const template = this.find(target.split("?")[0]);
        const operation = this.document.paths[template]?.[method.toLowerCase()];
        const response = this.resolve(operation?.responses[status] ??
                                      operation?.responses.default);
        const media = type.split(";")[0];

        if (!operation || !response)
            return [`${status} is not described`];
        if (status < 300)
            this.seen.add(operation.operationId);
        if (text === "")
            return [];
        if (!response.content?.[media])
            return [`${status} ${media || "without a type"} is not described`];
        return this.#bodies(response.content[media].schema, media, text);
    }

    #bodies(schema, media, text) {
        if (!schema)
            return [];
        if (media === "application/x-ndjson")
            return text.trim().split("\n")
                .flatMap((line) => this.validate(schema, JSON.parse(line)));
        return this.validate(schema, JSON.parse(text));
    }
}

// The routes in the code: a method (or null for any) and a path; a path that
// ends in a slash is a prefix.
function routes() {
    const folder = `${root}src/server/http/`;
    const row = /(?:\{|PROGRAM\()\s*(NULL|"[A-Z]+"),\s*"(\/[^"]*)",[^{}]*?(?:SL_ACCESS_|\))/g;

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
});
