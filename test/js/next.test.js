// examples/next-visitors as it runs in production: `next build`, then `next start`,
// beside a real daemon whose clock stands still. Long runs install Next.js with its
// compiler into build/clients/next; other runs skip this and call the handlers.

import assert from "node:assert/strict";
import { cpSync, existsSync, mkdtempSync, rmSync } from "node:fs";
import test from "node:test";

import { daemon, run, start } from "./apps.js";

const root = new URL("../..", import.meta.url).pathname;
const installed = `${root}build/clients/next`;
const program = `${installed}/node_modules/next/dist/bin/next`;
const skip = !existsSync(`${installed}/.installed`) &&
    "Next.js is not installed with its compiler: SL_LONG=1 scripts/setup clients";

test("next build, next start", { skip }, async (t) => {
    const folder = mkdtempSync(`${installed}/app-`);

    t.after(() => rmSync(folder, { recursive: true, force: true }));
    cpSync(`${root}examples/next-visitors`, folder, {
        recursive: true, filter: (path) => !/node_modules|\.next/.test(
            path.slice(root.length)) });
    cpSync(`${root}clients/js`, `${folder}/node_modules/sluice-client`,
           { recursive: true }); // as npm install --install-links does
    process.env.NEXT_TELEMETRY_DISABLED = "1";
    await run(`${process.execPath} ${program} build`, folder);

    const { url } = await daemon(t, { file: `${root}presets/jobseek.yaml` });
    const host = await start(t, folder, [program, "start", "-H", "localhost"], url);
    const statuses = [];
    let response, text;

    for (let i = 0; i < 6; i++) {
        response = await fetch(`http://${host}/api/wallcrawler/session`, {
            method: "POST", headers: { "X-Forwarded-For": "192.0.2.7" } });
        text = await response.text();
        statuses.push(response.status);
    }
    assert.deepEqual(statuses, [200, 200, 200, 200, 200, 429]);
    assert.equal(response.headers.get("x-ratelimit-remaining"), "0");
    assert.deepEqual(JSON.parse(text), {
        error: "Rate limit exceeded", limit: 5, remaining: 0,
        resetTime: "1970-01-01T01:00:00.000Z" });
});
