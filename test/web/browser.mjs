// browser.mjs -- a real daemon and a real Chromium for the tests of web/.
//
//     const { page } = await browser.page(t, { width: 360, scheme: "dark" });
//
// Violations of the Content-Security-Policy and errors of scripts fail the
// test. Screenshots are kept in SLUICE_SCREENSHOTS, or below the build folder.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync }
    from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("../..", import.meta.url));
const modules = process.env.SLUICE_NODE_MODULES ?? join(root, "build/node_modules");
const need = createRequire(join(modules, "index.js"));
const shots = process.env.SLUICE_SCREENSHOTS ?? join(root, "build/screenshots");

const FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic",
    "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync"];
const DEADLINE = 60_000;

export const sleep = (ms) => new Promise((done) => setTimeout(done, ms));

/** Waits until `check` returns something true, and returns it. */
export async function until(check, what, ms = DEADLINE) {
    for (const end = Date.now() + ms; ;) {
        const found = await check();

        if (found)
            return found;
        assert.ok(Date.now() < end, `waited too long: ${what}`);
        await sleep(50);
    }
}

// ---- the daemon

/**
 * Starts sluiced in a folder of its own, and stops it after the test. Returns
 * http and admin (URLs), log() and stop(); start({ http, admin }) begins it
 * again. Without `policy` it is the demo.
 */
export async function daemon(t, { policy = null, flags = [],
                                  program = process.env.SLUICED } = {}) {
    const folder = mkdtempSync(join(tmpdir(), "sluice-web-"));
    const own = { http: null, admin: null, child: null, text: "" };

    if (policy !== null)
        writeFileSync(join(folder, "policy.yaml"), policy);
    own.log = () => own.text;
    own.start = async () => {
        const at = (url) => url ? new URL(url).host : "127.0.0.1:0";
        const begun = own.text.length;

        own.child = spawn(program, [
            ...policy === null ? [] : ["-c", "policy.yaml"],
            "--listen-http", at(own.http), "--listen-admin", at(own.admin),
            "--listen-grpc", "off", "--listen-resp", "off",
            "--log-format", "json", "--threads", "1", ...flags,
        ], { cwd: folder, stdio: ["ignore", "pipe", "pipe"] });
        for (const stream of [own.child.stdout, own.child.stderr])
            stream.on("data", (data) => { own.text += data; });

        const serving = await until(() => {
            assert.equal(own.child.exitCode, null, own.text);
            return /\{[^\n]*"event":"serving"[^\n]*\}/
                .exec(own.text.slice(begun));
        }, "sluiced serves");
        const line = JSON.parse(serving[0]);

        own.http = `http://${line.http}`;
        own.admin = `http://${line.admin}`;
    };
    own.stop = async (signal = "SIGKILL") => {
        if (own.child.exitCode !== null || own.child.signalCode !== null)
            return;

        const gone = new Promise((done) => own.child.once("exit", done));

        own.child.kill(signal);
        await gone;
    };
    t.after(async () => {
        await own.stop();
        rmSync(folder, { recursive: true, force: true });
    });
    await own.start();
    return own;
}

/** Sends JSON and returns JSON. */
export async function send(url, body, options = {}) {
    const response = await fetch(url, { method: "POST",
                                        body: JSON.stringify(body), ...options });
    const text = await response.text();

    assert.ok(response.ok, `${url}: ${response.status} ${text}`);
    return JSON.parse(text);
}

// ---- the browser

/** Starts Chromium for the tests of a file; close() ends it. */
export async function launch() {
    const { chromium } = need("playwright-core");
    const folder = mkdtempSync(join(tmpdir(), "sluice-chromium-"));
    const context = await chromium.launchPersistentContext(folder, {
        executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
        args: FLAGS, headless: true, timeout: DEADLINE,
        viewport: { width: 1440, height: 900 },
    });

    return {
        context,
        close: async () => {
            await context.close();
            rmSync(folder, { recursive: true, force: true,
                             maxRetries: 10, retryDelay: 100 });
        },
        page: (t, options) => openPage(context, t, options),
    };
}

async function openPage(context, t, { width = 1440, height = 900,
                                      scheme = "light", init = null } = {}) {
    const page = await context.newPage();
    const faults = [];

    page.setDefaultTimeout(DEADLINE);
    await page.setViewportSize({ width, height });
    await page.emulateMedia({ colorScheme: scheme, reducedMotion: "reduce" });
    page.on("pageerror", (error) => faults.push(`${error}`));
    page.on("console", (message) => {
        const text = message.text();

        if (/Content.Security.Policy|violates the following/i.test(text))
            faults.push(text);
    });
    await page.addInitScript(() => {
        window.violations = [];
        document.addEventListener("securitypolicyviolation", (event) =>
            window.violations.push(`${event.violatedDirective}: ` +
                                   `${event.blockedURI}`));
    });
    if (init)
        await page.addInitScript(init);
    t.after(async () => {
        if (page.isClosed())
            return;
        faults.push(...await page.evaluate(() => window.violations)
            .catch(() => []));
        await page.close();
        assert.deepEqual(faults, []);
    });
    return { page, faults };
}

/** Fails if axe finds something serious, or the page scrolls sideways. */
export async function audit(page) {
    const source = readFileSync(join(modules, "axe-core/axe.min.js"), "utf8");

    await page.evaluate(source); // by the debugger: the page's policy stays
    const found = await page.evaluate(async () => (await globalThis.axe.run())
        .violations.filter(({ impact }) => /serious|critical/.test(impact))
        .map(({ id, nodes }) => `${id}: ${nodes.map((n) => n.html +
            n.any.map((a) => ` (${a.message})`)).join("; ")}`));

    assert.deepEqual(found, []);
    assert.equal(await page.evaluate(() =>
        document.documentElement.scrollWidth > innerWidth + 1), false,
                 "the page scrolls sideways");
}

/** Keeps a screenshot for a person to look at. */
export async function shoot(page, name) {
    mkdirSync(shots, { recursive: true });
    await page.screenshot({ path: join(shots, `${name}.png`), fullPage: true });
}
