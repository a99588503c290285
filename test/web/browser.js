// browser.js -- Debian's Chromium, with pages that must not break a rule.
//
// A page of `pageOf` fails its test if it logs an error, breaks the
// Content-Security-Policy, or asks another server for something.

import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { readFileSync } from "node:fs";
import { tmpdir } from "node:os";

import { load, modules } from "../js/frameworks.js";

const { chromium } = load("playwright-core");
const FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic",
               "--no-first-run", "--disable-background-networking",
               "--disable-component-update", "--disable-sync"];

export const shots = process.env.SL_SHOTS ?? `${process.env.MESON_BUILD_ROOT ??
    tmpdir()}/screenshots`;
mkdirSync(shots, { recursive: true });

// One browser for a file of tests, with a profile of its own.
export async function browser(t) {
    const profile = mkdtempSync(`${tmpdir()}/sluice-chromium-`);
    const context = await chromium.launchPersistentContext(profile, {
        executablePath: "/usr/bin/chromium", args: FLAGS, timeout: 120_000 });

    t.after(async () => {
        await context.close();
        rmSync(profile, { recursive: true, force: true, maxRetries: 5 });
    });
    context.setDefaultTimeout(Number(process.env.SL_WAIT ?? 60_000));
    return context;
}

// A new page whose complaints are collected. `away` allows failed requests.
export async function pageOf(context, origin, { width = 1440, height = 900,
                                                 colorScheme = "light" } = {}) {
    const page = await context.newPage();
    const complaints = [];

    page.allowAway = false;
    page.complaints = complaints;
    await page.emulateMedia({ colorScheme });
    await page.setViewportSize({ width, height });
    page.on("console", (message) => {
        if (message.type() === "error" &&
            !(page.allowAway && /Failed to load resource/.test(message.text())) &&
            !/status of 422/.test(message.text())) // a refused candidate
            complaints.push(message.text());
    });
    page.on("pageerror", (error) => complaints.push(String(error)));
    page.on("request", (request) => {
        if (!/^(data|blob):/.test(request.url()) && !request.url().startsWith(origin))
            complaints.push(`asked ${request.url()}`);
    });
    await page.addInitScript(() => {
        document.addEventListener("securitypolicyviolation", (event) =>
            console.error(`CSP: ${event.violatedDirective} ${event.blockedURI}`));
    });
    return page;
}

export async function shot(page, name, fullPage = true) {
    await page.screenshot({ path: `${shots}/${name}.png`, fullPage });
}

// axe-core finds nothing serious. It is evaluated by the driver, which is not
// subject to the page's policy.
export async function accessible(page) {
    await page.evaluate(readFileSync(`${modules}/axe-core/axe.min.js`, "utf8"));

    const { violations } = await page.evaluate(() => globalThis.axe.run());

    assert.deepEqual(violations.filter(({ impact }) => ["serious", "critical"]
        .includes(impact)).map(({ id, nodes }) =>
        `${id}: ${nodes.map((node) => node.target + " " + node.failureSummary)}`), []);
}

// The page is not wider than the window.
export async function fits(page) {
    const [wide, window] = await page.evaluate(() =>
        [document.documentElement.scrollWidth, innerWidth]);

    assert.ok(wide <= window, `the page has ${wide} px in a window of ${window}`);
}

export function calm(page) {
    assert.deepEqual(page.complaints, []);
}
