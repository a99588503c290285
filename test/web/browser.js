// browser.js -- a real daemon and Debian's Chromium for the tests of web/.
//
//     const context = await browser(t);
//     const page = await pageOf(context, { origin: sluiced.admin });
//     ...
//     calm(page);
//
// The complaints of a page are errors of its scripts and violations of the
// Content-Security-Policy; with `origin`, also what it logs as an error and what
// it asks of other servers. Screenshots are kept in SLUICE_SCREENSHOTS, or in the
// build folder, for a person to look at.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync }
    from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { load, modules } from "../js/frameworks.js";

const { chromium } = load("playwright-core");
const FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic",
    "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync"];
const DEADLINE = Number(process.env.SL_WAIT ?? 60_000);
const shots = process.env.SLUICE_SCREENSHOTS ??
    join(process.env.MESON_BUILD_ROOT ?? tmpdir(), "screenshots");

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

/** One browser with a profile of its own; `end` is called with how to close it. */
async function launch(end) {
    const profile = mkdtempSync(join(tmpdir(), "sluice-chromium-"));
    const context = await chromium.launchPersistentContext(profile, {
        executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
        args: FLAGS, timeout: 120_000 });

    end(async () => {
        await context.close();
        rmSync(profile, { recursive: true, force: true, maxRetries: 10,
                          retryDelay: 100 });
    });
    context.setDefaultTimeout(DEADLINE);
    return context;
}

/** A browser that is closed after the test `t`. */
export const browser = (t) => launch((close) => t.after(close));

/** A browser for the tests of a file, given `before` and `after` of node:test. */
export function browserOfFile(before, after) {
    const own = { context: null, close: null };

    before(async () => {
        own.context = await launch((close) => { own.close = close; });
    });
    after(() => own.close?.());
    return own;
}

/**
 * A new page whose complaints are collected. page.allowAway allows failed
 * requests. `init` runs before the scripts of the page.
 */
export async function pageOf(context, { origin = null, width = 1440, height = 900,
                                        scheme = "light", init = null } = {}) {
    const page = await context.newPage();
    const complaints = [];

    page.allowAway = false;
    page.complaints = complaints;
    await page.emulateMedia({ colorScheme: scheme, reducedMotion: "reduce" });
    await page.setViewportSize({ width, height });
    page.on("console", (message) => {
        const text = message.text();

        if (/^CSP: |Content.Security.Policy|violates the following/i.test(text) ||
            (origin && message.type() === "error" &&
             !(page.allowAway && /Failed to load resource/.test(text)) &&
             !/status of 422/.test(text))) // a refused candidate
            complaints.push(text);
    });
    page.on("pageerror", (error) => complaints.push(String(error)));
    page.on("request", (request) => {
        if (origin && !/^(data|blob):/.test(request.url()) &&
            !request.url().startsWith(origin))
            complaints.push(`asked ${request.url()}`);
    });
    await page.addInitScript(() => {
        document.addEventListener("securitypolicyviolation", (event) =>
            console.error(`CSP: ${event.violatedDirective} ${event.blockedURI}`));
    });
    if (init)
        await page.addInitScript(init);
    return page;
}

export function calm(page) {
    assert.deepEqual(page.complaints, []);
}

/** As pageOf(); after the test `t` it is closed, and must have been calm. */
export async function calmPage(t, context, options) {
    const page = await pageOf(context, options);

    t.after(async () => {
        await page.close();
        calm(page);
    });
    return page;
}

/**
 * axe-core finds nothing serious. It is evaluated by the driver, which is not
 * subject to the page's policy.
 */
export async function accessible(page) {
    await page.evaluate(readFileSync(join(modules, "axe-core/axe.min.js"), "utf8"));

    const { violations } = await page.evaluate(() => globalThis.axe.run());

    assert.deepEqual(violations.filter(({ impact }) => ["serious", "critical"]
        .includes(impact)).map(({ id, nodes }) =>
        `${id}: ${nodes.map((node) => node.target + " " + node.failureSummary)}`), []);
}

/** The page is not wider than the window. */
export async function fits(page) {
    const [wide, window] = await page.evaluate(() =>
        [document.documentElement.scrollWidth, innerWidth]);

    assert.ok(wide <= window, `the page has ${wide} px in a window of ${window}`);
}

/** A screenshot of a page, or (with false) of what is seen of it, or of an element. */
export async function shot(page, name, fullPage = true) {
    mkdirSync(shots, { recursive: true });
    await page.screenshot({ path: join(shots, `${name}.png`), fullPage });
}
