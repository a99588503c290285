// The elements, the usage page and the demo in a real Chromium, with a real
// daemon and real denials. The daemon's clock and the browser's are moved by
// the test; nothing waits for a limit.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import test, { after, before } from "node:test";

import { accessible, browserOfFile, calmPage, daemon, fits, send, shot, until }
    from "./browser.js";

const START = "2026-11-16T12:00:00Z";
const SIZES = [[360, "light"], [360, "dark"], [1440, "light"], [1440, "dark"]];
const HOSTILE = [
    `<script>alert(1)</script><img src=x onerror=alert(1)>`,
    `"'\`>${"${7*7}"}{{7*7}}</title>`,
    "😀".repeat(64), // 256 bytes
    "\u202Eعربي‏ שלום abc\u202C",
];

const browser = browserOfFile(before, after);

const newPage = (t, options) => calmPage(t, browser.context, options);

async function audit(page) {
    await accessible(page);
    await fits(page);
}

async function clock(own, now) {
    await send(`${own.admin}/v1/clock`, { now: new Date(now).toISOString() });
    own.now = new Date(now).getTime();
}

// The demo, or a policy, on the virtual clock.
async function virtual(t, options = {}) {
    const own = await daemon(t, {
        program: process.env.SLUICED_TEST, ...options,
        flags: ["--clock", "virtual", "--store", "memory:",
                ...options.flags ?? []] });

    await clock(own, START);
    return own;
}

// A page of the demo with a clock of its own, which is `wrong` ms off.
async function demo(t, own, { wrong = 0, user = "ann", ...options } = {}) {
    const page = await newPage(t, options);

    await page.clock.install({ time: own.now + wrong }); // it still runs
    await page.goto(`${own.http}/ui/demo/?user=${user}`);
    await page.waitForSelector("#live sluice-meter");
    await page.clock.pauseAt(own.now + wrong + 60_000);
    return page;
}

// Both clocks move.
async function move(own, pages, ms) {
    await clock(own, own.now + ms);
    for (const page of pages)
        await page.clock.runFor(ms);
}

// Moves both clocks until `check` is true: requests of the queue need turns of
// the real network in between.
const movedUntil = (own, page, check) => until(async () => {
    if (await check())
        return true;
    await move(own, [page], 1000);
    return false;
}, "moved");

const inside = (page, id, part) => page.locator(`#${id}`).locator(part);
const isBlocked = async (page, selector) =>
    await page.getAttribute(selector, "aria-disabled") === "true";

// Sends `n` requests, each after the answer to the one before.
async function press(page, selector, n, path = "/v1/auth") {
    for (let i = 0; i < n; i++)
        await Promise.all([
            page.waitForResponse((r) => r.url().endsWith(path)),
            page.click(selector),
        ]);
}

// ---- the countdown

for (const hours of [0, -9, 9])
    test(`a 429 counts down to the instant, the clock ${hours} h off`, async (t) => {
        const own = await virtual(t);
        const page = await demo(t, own, { wrong: hours * 3600_000 });
        const box = inside(page, "saving", ".box");
        const timer = inside(page, "saving", "[role=timer]");
        let sent = 0;

        await press(page, "#save", 6);
        await box.waitFor();
        assert.equal(await box.getAttribute("data-kind"), "rate");
        assert.equal(await timer.textContent(), "0:12");
        assert.match(await inside(page, "saving", "[role=status]").textContent(),
                     /Just a moment Five saves a minute are allowed\. Too many requests\. You can try again in 12 seconds\.$/);
        page.on("request", (r) => { sent += r.url().endsWith("/v1/auth"); });
        assert.ok(await isBlocked(page, "#save"));
        await page.locator("#save").click({ force: true });
        await page.focus("#save");
        await page.keyboard.press("Enter");
        await move(own, [page], 5000);
        assert.equal(await timer.textContent(), "0:07");
        // The wall clock is set: nothing changes.
        await page.clock.setSystemTime(own.now + 5 * 3600_000);
        await move(own, [page], 6990);
        assert.ok(await isBlocked(page, "#save"));
        await move(own, [page], 10);
        assert.ok(!await isBlocked(page, "#save"), "enabled on time");
        assert.equal(await box.isVisible(), false);
        assert.equal(await inside(page, "saving", "[role=status]").textContent(),
                     "You can try again now.");
        assert.equal(sent, 0);
        assert.equal(await page.evaluate(() => document.activeElement.id), "save");
        await press(page, "#save", 1);
        await page.waitForFunction(() =>
            document.querySelector("#save-result").textContent === "Saved.");
    });

test("a monthly 402 shows the date and the link, a 503 the banner", async (t) => {
    const own = await virtual(t);
    const page = await demo(t, own, { wrong: 20 * 24 * 3600_000 });

    await press(page, "#transcribe", 5);
    await inside(page, "transcribing", ".box").waitFor();
    assert.match(await inside(page, "transcribing", ".box").innerText(),
        /You have reached the limit of your plan\s+20 of 120 minutes are left this month\.\s+It resets on (November 30|December 1)\.\s+Upgrade/);
    assert.match(await inside(page, "transcribing", "a").getAttribute("href"),
                 /#plans$/);
    await press(page, "#export", 1);
    await inside(page, "exporting", ".box").waitFor();
    assert.match(await inside(page, "exporting", ".box").innerText(),
        /Temporarily unavailable\s+Exports are paused for maintenance\.\s+Please try again in 20 seconds/);
    await page.waitForFunction(() => document.querySelector("#live-minutes")
        ?.shadowRoot.querySelector(".meter").dataset.state === "warn");
});

// ---- the send guard

test("send is blocked at 0 in all tabs, with a tooltip", async (t) => {
    const own = await virtual(t);
    const one = await demo(t, own);
    const two = await demo(t, own, { wrong: 5 * 3600_000 });
    const button = "#ask button";
    const tip = one.locator("#guard > [role=tooltip]");
    let sent = 0;

    await press(one, button, 2);
    await one.waitForFunction(() => document.querySelector("#guard")
        .shadowRoot.querySelector(".note").textContent === "3 requests left");
    await press(one, button, 3);
    await one.waitForFunction(() => document.querySelector("#guard").blocked);
    await two.waitForFunction(() => document.querySelector("#guard").blocked);
    for (const page of [one, two]) {
        assert.ok(await isBlocked(page, button));
        page.on("request", (r) => { sent += r.url().endsWith("/v1/auth"); });
        await page.focus("#question");
        await page.keyboard.press("Enter");
        await page.locator(button).click({ force: true });
    }
    assert.equal(sent, 0);
    await one.focus(button);
    assert.ok(await tip.isVisible());
    assert.match(await tip.textContent(),
                 /^No requests left\. You can send again at .+ \(in 1[23] seconds\)\.$/);
    assert.equal(await one.getAttribute(button, "aria-describedby"),
                 await tip.getAttribute("id"));
    await shot(one, "send-guard-tooltip");
    await one.keyboard.press("Escape");
    assert.ok(!await tip.isVisible());

    // A third tab, and a reload, know it as well.
    await two.reload();
    await two.waitForFunction(() => document.querySelector("#guard")?.blocked);
    await move(own, [one, two], 13_000);
    for (const page of [one, two])
        assert.ok(!await isBlocked(page, button));
    await press(one, button, 1);
    assert.equal(sent, 1);
});

// ---- the queue

const rows = (page) => page.evaluate(() => [...document.querySelector("#queue")
    .shadowRoot.querySelectorAll("li")].map((row) =>
    [row.querySelector(".number").textContent,
     row.querySelector(".label").textContent, row.dataset.state]));

const waitRows = (page, ...states) => until(async () => {
    const found = (await rows(page)).map(([, , state]) => state);

    return JSON.stringify(found) === JSON.stringify(states);
}, states.join(" "), 20_000);

test("the queue waits, survives a reload and uses the same key", async (t) => {
    const own = await virtual(t);
    const page = await demo(t, own);
    const keys = [];

    page.on("request", (r) => {
        const key = r.headers()["idempotency-key"];

        if (key)
            keys.push(key);
    });
    await page.click("#enqueue");
    await waitRows(page, "limited", "waiting", "done", "done");
    assert.deepEqual((await rows(page)).slice(0, 2),
        [["1", "Recording 3", "limited"], ["2", "Recording 4", "waiting"]]);
    assert.match(await inside(page, "queue", ".summary").textContent(),
                 /^2 in the queue · Next attempt in 0:[012]\d$/);
    await page.reload();
    await waitRows(page, "limited", "waiting");
    assert.equal(keys.length, 3);
    await movedUntil(own, page, async () => JSON.stringify(
        (await rows(page)).map(([, , state]) => state)) === '["done","done"]');
    // Recordings 1 and 2 once, 3 and 4 as often as they were denied.
    assert.ok(keys.length >= 5, `${keys.length}`);
    assert.equal(keys[2], keys[3]);
    assert.equal(new Set(keys).size, 4);
});

test("the queue stops on 409 and 422, and goes on when it is told", async (t) => {
    const own = await virtual(t);
    const page = await demo(t, own);
    const status = inside(page, "queue", "[role=status]");

    await page.click("#conflict");
    await waitRows(page, "stopped", "done");
    assert.match(await status.textContent(),
                 /^The queue stopped at Recording, second: /);
    await page.click("#enqueue");
    await waitRows(page, "stopped", "waiting", "waiting", "waiting", "waiting",
                   "done");
    await shot(page, "queue-stopped");
    await page.getByRole("button", { name: "Remove Recording, second" }).click();
    await page.waitForFunction(() => document.querySelector("#queue")
        .items.filter(({ state }) => state === "stopped").length === 0);
    await movedUntil(own, page, async () =>
        (await rows(page)).every(([, , state]) => state === "done"));
    await page.click("#changed");
    await movedUntil(own, page, async () =>
        (await rows(page))[0][2] === "stopped");
    assert.equal(await page.evaluate(() =>
        document.querySelector("#queue").items[0].status), 422);
});

// ---- the demo

test("the demo: every state, light and dark, narrow and wide", async (t) => {
    const own = await virtual(t);

    for (const [width, scheme] of SIZES) {
        const page = await demo(t, own, { width, scheme,
                                          user: `u${width}${scheme}` });

        await press(page, "#ask button", 5);
        await press(page, "#save", 6);
        await press(page, "#transcribe", 5 - 4 * (width !== 360 ||
                                                  scheme !== "light"));
        await press(page, "#export", 1);
        await page.click("#enqueue");
        await until(async () => (await rows(page)).some(([, , state]) =>
            state === "limited"), "the queue waits");
        await page.focus("#ask button");
        await page.clock.resume(); // axe has timers
        await audit(page);
        await shot(page, `demo-${width}-${scheme}`);
        await page.evaluate(() => localStorage.clear());
        await page.close();
    }
});

test("a daemon that is killed and comes back", async (t) => {
    const own = await daemon(t); // on the real clock
    const page = await newPage(t);

    await page.goto(`${own.http}/ui/demo/`);
    await page.waitForSelector("#live sluice-meter");
    await own.stop();
    await page.waitForSelector("#away:not([hidden])");
    await own.start();
    await page.waitForSelector("#away", { state: "hidden" });
    await press(page, "#save", 1);
});

// ---- the usage page

const POLICY = `
sluice: 1
plans: { default: free, free: {}, pro: { overage: true } }
limits:
  fine: { kind: quota, per: org, unit: minutes, rate: 100/month }
  from_80: { kind: quota, per: org, unit: minutes, rate: 100/month }
  from_90: { kind: quota, per: org, unit: tokens, rate: 100/day }
  used_up: { kind: quota, per: org, unit: docs, rate: 100/month }
  public_links: { kind: level, per: org, unit: links, rate: 5 }
  counted: { kind: quota, per: org, unit: tokens, rate: unlimited }
default: [fine]
`;
const AMOUNTS = { fine: 42, from_80: 83, from_90: 94, used_up: 131,
                  public_links: 5, counted: 9876 };

async function usage(t, { org = "acme", ...options } = {}) {
    const own = await virtual(t, { policy: POLICY, ...options });

    for (let back = 20; back >= 0; back -= 3) {
        await clock(own, Date.parse(START) - back * 86_400_000);
        await send(`${own.http}/v1/usage`, { org, limit: "counted",
                                             amount: 1000 + back * 777 });
    }
    await clock(own, START);
    for (const [limit, amount] of Object.entries(AMOUNTS))
        await send(`${own.http}/v1/usage`, { org, limit, amount });
    return own;
}

async function open(t, own, { claims = {}, query = "", ...options } = {}) {
    const page = await newPage(t, options);
    const { token } = await send(`${own.http}/v1/usage-tokens`, {
        org: "acme", upgrade_url: "https://app.example/plans", ...claims });

    await page.goto(`${own.http}/ui/usage/${query}#token=${token}`);
    return { page, token };
}

const stateOf = (page, label) => page.evaluate((name) =>
    [...document.querySelectorAll("sluice-meter")].find((meter) =>
        meter.getAttribute("label") === name).shadowRoot
        .querySelector(".meter").dataset.state, label);

test("the usage page: meters, states, history, upgrade", async (t) => {
    const own = await usage(t);

    for (const [width, scheme] of SIZES) {
        const { page, token } = await open(t, own, {
            width, scheme, claims: { name: "Acme Inc" } });

        await page.waitForSelector("sluice-meter");
        assert.equal(new URL(page.url()).hash, "", "the token has gone");
        assert.ok(!(await page.content()).includes(token));
        assert.equal(await page.textContent("#org"), "Acme Inc");
        assert.equal(await page.textContent("#plan"), "Plan: free");
        assert.deepEqual([await stateOf(page, "Fine"), await stateOf(page, "From 80"),
                          await stateOf(page, "From 90"), await stateOf(page, "Used up")],
                         ["ok", "warn", "high", "over"]);
        assert.equal(await page.textContent("#call-text"),
            "Used up and Public links: the limit of the plan is reached.");
        assert.equal(await page.getAttribute("#call-link", "href"),
                     "https://app.example/plans");
        assert.equal(await page.getByRole("meter", { name: "From 80" })
            .getAttribute("aria-valuetext"), "83 of 100 minutes, 83%");
        assert.match(await page.locator("sluice-meter[label='From 80'] .under").innerText(),
            /83% used\s*More than 80% used\s*Resets on (November 30|December 1)\s*At this rate used up on November 1\d\s*Upgrade/);
        assert.ok(await page.locator(".history svg[aria-label^='Counted: ']").count());
        await page.locator("summary").first().click();
        await audit(page);
        await shot(page, `usage-${width}-${scheme}`);
        await page.close();
    }
});

test("the usage page: CSV, another language, expiry", async (t) => {
    const own = await usage(t);
    const { page } = await open(t, own, { query: "?lang=de",
                                          claims: { ttl: "10m" } });

    await page.waitForSelector("sluice-meter");
    assert.equal(await page.textContent("h1"), "Verbrauch");

    const [download] = await Promise.all([page.waitForEvent("download"),
                                          page.click("#csv")]);
    const chunks = [];

    for await (const chunk of await download.createReadStream())
        chunks.push(chunk);
    assert.match(Buffer.concat(chunks).toString(),
                 /^limit,day,used,overage\r\n[^]*from_80,2026-11-16,83,0\r\n/);
    await clock(own, own.now + 600_000);
    await page.evaluate(() => document.dispatchEvent(
        new Event("visibilitychange")));
    await page.waitForSelector("#notice:not([hidden])");
    assert.match(await page.textContent("#notice"), /ist abgelaufen/);
    await page.goto(`${own.http}/ui/usage/?lang=en`);
    await page.waitForSelector("#notice:not([hidden])");
    assert.match(await page.textContent("#notice"), /needs a link from the application/);
    await audit(page);
});

test("hostile names are text", async (t) => {
    for (const name of HOSTILE) {
        const own = await usage(t, { org: name });
        const { page } = await open(t, own, { width: 360,
                                              claims: { org: name, name } });

        await page.waitForSelector("sluice-meter");
        assert.equal(await page.textContent("#org"), name);
        assert.equal(await page.locator("img, h1 ~ script").count(), 0);
        await audit(page);
        await page.evaluate((label) => {
            const meter = document.querySelector("sluice-meter");

            meter.setAttribute("label", label);
            meter.setAttribute("upgrade-url", "javascript:alert(1)");
            meter.meter = { ...meter.meter, unit: label, plan: label };
        }, name);
        await audit(page);
        await shot(page, `hostile-${HOSTILE.indexOf(name)}`);
    }
});

test("the usage page while the daemon is away", async (t) => {
    const own = await daemon(t, { policy: POLICY });
    const { page } = await open(t, own);

    await page.waitForSelector("sluice-meter");
    await own.stop();
    await page.evaluate(() => document.dispatchEvent(
        new Event("visibilitychange")));
    await page.waitForSelector("#notice:not([hidden])");
    assert.match(await page.textContent("#notice"), /These are of /);
    assert.equal(await page.locator("sluice-meter").count(), 6);
    await shot(page, "usage-away");
    await own.start(); // the key is in the database
    await page.waitForSelector("#notice", { state: "hidden" });
});

// A page of another origin that shows the usage page in a frame.
function host(t, html) {
    return new Promise((done) => {
        const server = createServer((request, response) => {
            response.setHeader("Content-Type", "text/html");
            response.end(html());
        }).listen(0, "127.0.0.1", () =>
            done(`http://127.0.0.1:${server.address().port}`));

        t.after(() => server.close());
    });
}

test("only pages of the given origins can embed it", async (t) => {
    const own = { http: null };
    const html = () => `<iframe src="${own.http}/ui/usage/?lang=en"></iframe>`;
    const friend = await host(t, html);
    const stranger = await host(t, html);

    Object.assign(own, await usage(t, { flags: ["--usage-origins", friend] }));

    const { token } = await send(`${own.http}/v1/usage-tokens`, { org: "acme" });
    const page = await newPage(t);

    await page.goto(friend);
    await page.evaluate((text) => {
        const frame = document.querySelector("iframe").contentWindow;
        const give = () => frame.postMessage(
            { type: "sluice-usage-token", token: text }, "*");

        window.heights = [];
        addEventListener("message", ({ data }) => {
            if (data.type === "sluice-usage-ready")
                give();
            if (data.type === "sluice-usage-height")
                window.heights.push(data.height);
        });
        give();
    }, token);
    await page.frameLocator("iframe").locator("sluice-meter").first().waitFor();
    await page.waitForFunction(() => window.heights.at(-1) > 100);

    const other = await browser.context.newPage();

    t.after(() => other.close());
    await other.goto(stranger);
    await until(() => other.frames().some((frame) =>
        frame.url().startsWith("chrome-error:")), "the frame is refused");
});

// ---- the guide

test("the examples of the guide work as printed", async (t) => {
    const root = new URL("../../", import.meta.url);
    const guide = readFileSync(new URL("docs/guide/components.md", root), "utf8");
    const blocks = [...guide.matchAll(/^```html\n([^]*?)^```/gm)]
        .map(([, text]) => text);
    const keys = [];
    const server = createServer((request, response) => {
        const { pathname } = new URL(request.url, "http://x");

        response.setHeader("Content-Security-Policy", "style-src 'self'");
        if (pathname === "/") {
            response.setHeader("Content-Type", "text/html; charset=utf-8");
            response.end(`<!doctype html><html lang="en">${blocks.join("")}`);
        } else if (pathname.startsWith("/components/")) {
            response.setHeader("Content-Type", "text/javascript");
            response.end(readFileSync(new URL(`web${pathname}`, root)));
        } else if (pathname === "/api/save") {
            response.writeHead(429, { "Retry-After": "12" }).end("{}");
        } else if (pathname === "/api/recordings/finalize") {
            keys.push(request.headers["idempotency-key"]);
            response.writeHead(201).end();
        } else {
            response.writeHead(404).end();
        }
    }).listen(0, "127.0.0.1");

    t.after(() => server.close());
    await new Promise((done) => server.once("listening", done));
    assert.equal(blocks.length, 4);

    const page = await newPage(t);

    await page.goto(`http://127.0.0.1:${server.address().port}/`);
    await page.getByRole("button", { name: "Save" }).click();
    await inside(page, "saving", "[role=timer]").waitFor();
    assert.ok(await isBlocked(page, "#saving button"));
    await page.waitForFunction(() => document.querySelector("sluice-queue")
        .items[0]?.state === "done");
    assert.equal(keys.length, 1);
    assert.equal(await page.getByRole("meter", { name: "Transcription" })
        .getAttribute("aria-valuetext"), "96 of 120 minutes, 80%");
    assert.equal(await page.evaluate(() => document.querySelector(
        "sluice-send-guard").blocked), false);
});
