// The page of each framework: its first lines are at most ten, its programs run
// as printed, and its commands print what it shows. The daemon is a real one.

import assert from "node:assert/strict";
import { readFileSync, rmSync } from "node:fs";
import test from "node:test";

import { blocksOf, daemon, folderOf, isInstalled, run, serve } from "./apps.js";

const PAGES = {
    express: ["app.js", "chat.js"],
    fastify: ["app.js", "chat.js"],
    hono: ["app.js", "chat.js"],
    nextjs: ["app/search/route.js", "app/chat/route.js"],
};

// Runs the commands that install an application, except what needs the network:
// scripts/setup has installed it.
async function install({ setup, order }, folder) {
    const last = setup.pop();
    const daemon = setup.pop();
    const words = setup.pop().split(" ");

    assert.equal(last, order[0] === "app.js" ? "node app.js" : "npx next dev");
    assert.equal(daemon, "sluiced -c sluice.yaml &");
    assert.deepEqual(words.splice(0, 2), ["npm", "install"]);
    assert.deepEqual(
        words.filter((word) => word !== "--install-links" && !isInstalled(word)), []);
    assert.ok(words.includes("PATH/clients/js"));
    if (setup.length === 0)
        return;
    rmSync(`${folder}/package.json`);
    for (const command of setup)
        await run(command, folder);
    assert.equal(JSON.parse(readFileSync(`${folder}/package.json`, "utf8")).type,
                 "module");
}

for (const [page, [first, second]] of Object.entries(PAGES))
    test(page, async (t) => {
        const text = readFileSync(
            new URL(`../../docs/guide/clients/${page}.md`, import.meta.url), "utf8");
        const blocks = blocksOf(text);
        const folder = folderOf(t, blocks.files);
        const { url, nothingHeld } = await daemon(t, { policy: blocks.policy });

        await install(blocks, folder);

        const app = await serve(t, folder, first, url);
        const { lines } = blocks.files[first];

        assert.equal(blocks.order[0], first);
        assert.ok(lines <= 10, `${lines} lines`);
        assert.equal(
            await run(blocks.commands[0].replaceAll("localhost:3000", app.host)),
            blocks.outputs[0]);

        const chat = await serve(t, folder, second, url);
        for (const remaining of ["500", "150"]) {
            const response = await fetch(`http://${chat.host}/chat`, {
                headers: { "X-Forwarded-For": "192.0.2.9" } });

            assert.equal(await response.text(), "hello world");
            assert.equal(response.headers.get("x-ratelimit-remaining"), remaining);
            await nothingHeld();
        }
    });

test("nextjs: middleware", async (t) => {
    const { files, policy } = blocksOf(readFileSync(
        new URL("../../docs/guide/clients/nextjs.md", import.meta.url), "utf8"));
    const folder = folderOf(t, files);
    const { url } = await daemon(t, { policy });
    const { host } = await serve(t, folder, "middleware.js", url);
    const passed = [];

    for (let i = 0; i < 3; i++) {
        const response = await fetch(`http://${host}/api/jobs`, {
            headers: { "X-Forwarded-For": "192.0.2.8" } });

        passed.push([response.status, response.headers.get("x-middleware-next"),
                     response.headers.get("x-ratelimit-remaining")]);
    }
    assert.deepEqual(passed, [[200, "1", "1"], [200, "1", "0"], [429, null, "0"]]);
});
