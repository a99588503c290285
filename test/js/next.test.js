// examples/next-visitors and the application of the page nextjs.md as they run in
// production: `next build`, then `next start`, beside a real daemon whose clock
// stands still. Long runs install Next.js with its
// compiler into build/clients/next; other runs skip this and call the handlers.

import assert from "node:assert/strict";
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync,
         writeFileSync } from "node:fs";
import { dirname } from "node:path";
import test from "node:test";

import { blocksOf, daemon, run, start } from "./apps.js";

const root = new URL("../..", import.meta.url).pathname;
const installed = `${root}build/clients/next`;
const program = `${installed}/node_modules/next/dist/bin/next`;
const skip = !existsSync(`${installed}/.installed`) &&
    "Next.js is not installed with its compiler: SL_LONG=1 scripts/setup clients";

// A folder for an application, in which `next` finds its compiler.
function folderFor(t) {
    const folder = mkdtempSync(`${installed}/app-`);

    t.after(() => rmSync(folder, { recursive: true, force: true }));
    cpSync(`${root}clients/js`, `${folder}/node_modules/sluice-client`,
           { recursive: true }); // as npm install --install-links does
    return folder;
}

// Builds and starts it; where it listens.
async function serve(t, folder, url) {
    process.env.NEXT_TELEMETRY_DISABLED = "1";
    await run(`${process.execPath} ${program} build`, folder);
    return start(t, folder, [program, "start", "-H", "localhost"], url);
}

test("examples/next-visitors", { skip }, async (t) => {
    const folder = folderFor(t);

    cpSync(`${root}examples/next-visitors`, folder, {
        recursive: true, filter: (path) => !/node_modules|\.next/.test(
            path.slice(root.length)) });

    const { url } = await daemon(t, { file: `${root}presets/jobseek.yaml` });
    const host = await serve(t, folder, url);
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

test("the page", { skip }, async (t) => {
    const { files, policy } = blocksOf(readFileSync(
        `${root}docs/guide/clients/nextjs.md`, "utf8"));
    const folder = folderFor(t);

    writeFileSync(`${folder}/package.json`, '{ "type": "module" }');
    files["app/api/jobs/route.js"] = {
        body: "export const GET = (request) => Response.json({ jobs: [] });\n" };
    for (const [name, { body }] of Object.entries(files)) {
        mkdirSync(dirname(`${folder}/${name}`), { recursive: true });
        writeFileSync(`${folder}/${name}`, body);
    }

    const { url, nothingHeld } = await daemon(t, { policy });
    const host = await serve(t, folder, url);
    const ask = async (path, address) => {
        const response = await fetch(`http://${host}${path}`, {
            headers: { "X-Forwarded-For": address } });

        await response.text();
        return [response.status, response.headers.get("x-ratelimit-remaining")];
    };

    for (const [path, address] of [["/search", "192.0.2.7"], // by the handler
                                   ["/api/jobs", "192.0.2.8"]]) // by middleware
        assert.deepEqual([await ask(path, address), await ask(path, address),
                          await ask(path, address)],
                         [[200, "1"], [200, "0"], [429, "0"]], path);
    for (const remaining of ["500", "150"]) {
        assert.deepEqual(await ask("/chat", "192.0.2.9"), [200, remaining]);
        await nothingHeld();
    }
});
