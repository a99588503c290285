// The pages for those who come from another limiter of Node: the programs are
// run as printed, and those before and after answer alike.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import test from "node:test";

import { blocksOf, daemon, folderOf, run, serve } from "./apps.js";

const pageOf = (name) => blocksOf(readFileSync(
    new URL(`../../docs/guide/moving/${name}.md`, import.meta.url), "utf8"));

// Status and remaining units of each of `count` requests.
async function answers(host, path, count) {
    const found = [];

    for (let i = 0; i < count; i++) {
        const response = await fetch(`http://${host}${path}`);

        await response.arrayBuffer();
        found.push([response.status, response.headers.get("ratelimit-remaining")]);
    }
    return found;
}

test("express-rate-limit", async (t) => {
    const { files, policy } = pageOf("express-rate-limit");
    const folder = folderOf(t, files);
    const { url } = await daemon(t, { policy });
    const before = await serve(t, folder, "before.js", url);
    const after = await serve(t, folder, "after.js", url);
    // The first of the five was the request of serve().
    const want = [[200, "3"], [200, "2"], [200, "1"], [200, "0"], [429, "0"],
                  [429, "0"]];

    assert.deepEqual(await answers(before.host, "/search", 6), want);
    assert.deepEqual(await answers(after.host, "/search", 6), want);
});

test("rate-limiter-flexible", async (t) => {
    const { files, policy } = pageOf("express-rate-limit");
    const folder = folderOf(t, files);
    const { url, admin } = await daemon(t, { policy });
    const before = await serve(t, folder, "flexible.js", url);
    const after = await serve(t, folder, "login.js", url);
    const statusOf = async (host) =>
        (await answers(host, "/login", 5)).map(([status]) => status);

    assert.deepEqual(await statusOf(before.host), [200, 200, 200, 429, 429]);
    assert.deepEqual(await statusOf(after.host), [200, 200, 200, 429, 429]);
    // The block lasts longer than the window.
    await fetch(`${admin}/v1/clock`, { method: "POST", body: '{"now":"1970-01-01T00:05:00Z"}' });
    assert.deepEqual((await statusOf(after.host))[0], 429);
    await fetch(`${admin}/v1/clock`, { method: "POST", body: '{"now":"1970-01-01T00:30:00Z"}' });
    assert.deepEqual((await statusOf(after.host))[0], 200);
});

test("upstash", async (t) => {
    const { files, policy, outputs } = pageOf("upstash");
    const folder = folderOf(t, files);
    const { url } = await daemon(t, { policy });

    assert.equal(await run(`cd ${folder} && SLUICE_URL=${url} ` +
                           "SLUICE_DEADLINE_MS=20000 node search.js"), outputs[0]);
});
