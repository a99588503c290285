// The console in a real browser, with a real daemon and real denials.

import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:http";
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync }
    from "node:fs";
import { tmpdir } from "node:os";
import test from "node:test";
import { gzipSync } from "node:zlib";

import { daemon } from "../js/apps.js";
import { accessible, browser, calm, fits, pageOf, shot, until } from "./browser.js";

const root = new URL("../..", import.meta.url).pathname;

const POLICY = `
sluice: 1
server: { denials: ids }
plans: { default: free, free: {}, pro: {} }
identity: { user: [header.x-user-id], org: [header.x-org-id] }
limits:
  search: { kind: token-bucket, per: user, rate: { free: 20/min, pro: 600/min } }
  ai-tokens: { kind: quota, per: org, unit: tokens, rate: { free: 100000/month, pro: unlimited }, deny: { status: 402, code: PLAN_LIMIT_EXCEEDED } }
  login: { kind: fixed-window, per: ip, rate: 5/min }
  burst: { kind: sliding-window, per: org, rate: 30/min, mode: shadow }
features: { assistant: { enabled: true, message: "The assistant is paused.", retry_after: 60s } }
routes:
  - { match: /api/search, endpoint: search, limits: [search, burst] }
  - { match: /api/ai/**, endpoint: ai, feature: assistant, limits: [ai-tokens] }
  - { match: POST /login, endpoint: login, limits: [login] }
  - { job: transcribe, endpoint: transcribe, limits: [], backlog: { max: 1000, retry_after: 30s } }
default: []
`;

const HOSTILE = ["<script>document.title='broken'</script>", `"'><img src=x onerror=alert(1)>`,
                 "🦊".repeat(64), "שלום עולם‮ gnirts"];
const SECTIONS = ["overview", "who", "limits", "costs", "webhooks", "switches",
                  "policy"];

const post = (url, value, headers = {}) =>
    fetch(url, { method: "POST", headers, body: JSON.stringify(value) });

async function check(sluiced, ...checks) {
    const response = await post(`${sluiced.url}/v1/check`, checks);

    assert.equal(response.status, 200);
    return response.json();
}

const times = (n, make) => Array.from({ length: n }, (_, i) => make(i));

// Twenty minutes of traffic, in steps of ten seconds.
async function traffic(sluiced, headers = {}) {
    const start = Math.floor(Date.now() / 10_000) * 10_000 - 1_200_000;

    for (let i = 0; i <= 120; i++) {
        await post(`${sluiced.admin}/v1/clock`,
                   { now: new Date(start + i * 10_000).toISOString() }, headers);
        await fetch(`${sluiced.admin}/v1/history?since=4000000000`, { headers });
        await check(sluiced,
            ...times(20 + Math.round(12 * Math.sin(i / 12)), (k) =>
                ({ path: "/api/search", user: `user-${k}`, org: `org-${k % 5}`, plan: "pro" })),
            ...times(4 + (i % 7 === 0 ? 9 : 0), () =>
                ({ path: "/api/search", user: "ann", org: "acme" })),
            ...times(i % 3, () => ({ method: "POST", path: "/login", ip: "192.0.2.7" })),
            { path: "/api/ai/ask", user: "bob", org: "acme", cost: 2500 });
    }
    for (const user of HOSTILE)
        await check(sluiced, ...times(25, () => ({ path: "/api/search", user })));
    await post(`${sluiced.admin}/v1/clock`,
               { now: new Date(start + 1_220_000).toISOString() }, headers);
}

async function setUp(t, words = [], policy = POLICY) {
    const folder = mkdtempSync(`${tmpdir()}/sluice-console-`);

    t.after(() => rmSync(folder, { recursive: true, force: true }));
    return daemon(t, { policy,
                       words: ["--usage", `sqlite:${folder}/usage.db`, ...words] });
}

// The section is drawn: it has a heading and no card is empty.
async function open(page, sluiced, section) {
    await page.goto(`${sluiced.admin}/ui/#${section}`);
    await page.locator("main h1").waitFor();
    await page.waitForFunction(() =>
        [...document.querySelectorAll("main .card > div")].every(
            (place) => place.childElementCount > 0 || place.hasAttribute("aria-live")));
}

test("every section, light and dark, narrow and wide", async (t) => {
    const sluiced = await setUp(t);
    const context = await browser(t);

    await traffic(sluiced);
    await fetch(`${sluiced.admin}/v1/features/assistant`, {
        method: "PUT", body: '{"enabled":false}',
        headers: { "X-Sluice-By": "kim", "X-Sluice-Note": "the vendor is down" } });

    for (const [width, scheme] of [[1440, "light"], [360, "dark"],
                                   [1440, "dark"], [360, "light"]]) {
        const page = await pageOf(context, { origin: sluiced.admin, width, scheme });

        for (const section of SECTIONS) {
            await open(page, sluiced, section);
            await fits(page);
            assert.deepEqual(await page.evaluate(() =>
                [...document.querySelectorAll("nav, .scroll")]
                    .filter((one) => one.scrollWidth > one.clientWidth)
                    .map((one) => one.textContent)), [], `cut at ${width} px: ${section}`);
            if (width === 1440 || section === "overview" || section === "who")
                await accessible(page);
            await shot(page, `${section}-${width}-${scheme}`);
        }
        calm(page);
        await page.close();
    }
});

test("numbers, people and changes", async (t) => {
    const sluiced = await setUp(t);
    const context = await browser(t);

    await traffic(sluiced);

    const page = await pageOf(context, { origin: sluiced.admin });

    await open(page, sluiced, "overview");
    const tiles = await page.locator(".tile").allInnerTexts();
    const { total } = await (await fetch(`${sluiced.admin}/v1/history`)).json();
    const sum = (all) => (all ?? []).reduce((a, b) => a + b, 0);

    assert.match(tiles[0], new RegExp(`${sum(total.allowed).toLocaleString("en-US")} allowed`));
    assert.match(tiles[1], /above the 5 % line/);
    assert.match(tiles[2], new RegExp(String(sum(total["402"]))));
    await page.getByLabel("Endpoint", { exact: true }).selectOption("login");
    await page.getByText("fine").first().waitFor();
    await page.getByLabel("Endpoint", { exact: true }).selectOption("");
    await page.setViewportSize({ width: 1100, height: 740 });
    await shot(page, "doc-overview", false); // for docs/guide/console.md

    await t.test("hostile names are text", async () => {
        await open(page, sluiced, "who");
        for (const name of HOSTILE)
            await page.locator("bdi", { hasText: [...name].slice(0, 12).join("") })
                .first().waitFor(); // a long one is cut
        assert.equal(await page.title(), "Who · Sluice");
        assert.equal(await page.locator("main script, main img").count(), 0);
        await page.getByLabel(`Details of user ${HOSTILE[0]}`, { exact: true }).click();
        await page.getByText("429 RATE_LIMITED").first().waitFor();
        await accessible(page);
        await shot(page, "why-1440-light", false);
        await page.getByRole("button", { name: "Close" }).click();
    });

    await t.test("block, override, credit, reset", async () => {
        await page.getByLabel("Details of user ann", { exact: true }).click();
        await page.getByText("policy line 7", { exact: false }).first().waitFor();
        await shot(page, "doc-why", false);
        await page.getByRole("button", { name: "Override", exact: true }).click();
        await page.getByLabel("Rate").fill("500/min");
        await page.getByLabel("Until").fill("2027-01-31");
        await page.getByLabel("Note").fill("trial");
        await page.getByRole("button", { name: "Override the limit" }).click();
        await page.getByText("search of ann is 500/min").waitFor();

        await page.getByLabel("Details of user ann", { exact: true }).click();
        await page.getByRole("button", { name: "Reset", exact: true }).click();
        await page.getByRole("button", { name: "Reset the count" }).click();
        await page.getByText("search of ann begins again").waitFor();

        await page.getByLabel("Details of org acme", { exact: true }).click();
        await page.getByRole("button", { name: "Usage", exact: true }).click();
        await page.locator("dialog progress").first().waitFor();
        await page.getByRole("button", { name: "Credit", exact: true }).click();
        await page.getByLabel("Units").fill("1000");
        await page.getByRole("button", { name: "Give credits" }).click();
        await page.getByText("1000 units of ai-tokens").waitFor();

        await page.getByLabel("Details of ip 192.0.2.7", { exact: true }).click();
        await page.getByText("429 RATE_LIMITED").first().waitFor();
        assert.equal(await page.getByRole("button", { name: "Override" }).count(), 0);
        await page.getByRole("button", { name: "Close" }).click();
        for (const [scope, id] of [["ip", "192.0.2.7"], ["user", "ann"]]) {
            await page.getByLabel(`Details of ${scope} ${id}`, { exact: true }).click();
            await page.getByRole("button", { name: "Block", exact: true }).click();
            await page.locator("dialog form").getByRole("button", { name: "Block" }).click();
            await page.getByText(`${id} is blocked`).waitFor();
            await page.getByRole("button", { name: "Unblock" }).click();
            await page.getByText("No caller is blocked").waitFor();
        }
    });

    await t.test("a block is no limit that can be changed", async () => {
        for (const id of ["ann", "eve"]) {
            await post(`${sluiced.admin}/v1/blocks/user/${id}`, { until: "1h" });
            await check(sluiced, { method: "GET", path: "/api/search", user: id });
        }
        await open(page, sluiced, "who");
        for (const id of ["ann", "eve"]) { // by a limit and a block; by a block alone
            const details = page.getByLabel(`Details of user ${id}`, { exact: true });

            await page.locator("tr", { has: details }).getByText("(blocked)").waitFor();
            await details.click();
            await page.getByText("The caller is blocked.").first().waitFor();
            await page.getByRole("button", { name: "Override", exact: true }).click();
            await page.locator("dialog select[name=limit]").waitFor();
            assert.deepEqual(await page.locator("dialog select[name=limit] option")
                .allInnerTexts(), ["search"]);
            await page.getByRole("button", { name: "Close" }).click();
            await fetch(`${sluiced.admin}/v1/blocks/user/${id}`, { method: "DELETE" });
        }
    });

    await t.test("a kill switch, and the audit of all that", async () => {
        await open(page, sluiced, "switches");
        await page.getByRole("button", { name: "Switch off" }).click();
        await page.getByLabel("Note").fill("the vendor is down");
        await page.locator("dialog").getByRole("button", { name: "Switch off" }).click();
        await page.getByText("Switched off: assistant").waitFor();
        await page.getByText("are told: “The assistant is paused.”").waitFor();
        assert.equal((await check(sluiced, { path: "/api/ai/ask", org: "x" }))[0].status, 503);
        for (const what of ["feature", "block", "credit", "reset", "create"])
            await page.locator("td", { hasText: what }).first().waitFor();
        await page.locator("td", { hasText: "the vendor is down" }).first().waitFor();
        await page.locator("td", { hasText: "on → off" }).first().waitFor();
        await page.locator("td", { hasText: /limit: .*amount: \d/ }).first().waitFor();
    });

    await t.test("a candidate is compared and not activated", async () => {
        await open(page, sluiced, "policy");
        await page.getByLabel("Candidate", { exact: true }).fill(POLICY.replace("20/min", "40/min"));
        await page.getByRole("button", { name: "Compare" }).click();
        await page.getByText("search free 20/min -> 40/min; usage kept").waitFor();
        // The same requests again: fewer of them are denied.
        await page.getByText("The last minutes under this policy").waitFor();
        await page.locator("tr", { hasText: "search" }).getByText(/\d more allowed/).waitFor();
        await page.locator("tr", { hasText: "login" }).getByText("the same").waitFor();
        await accessible(page);
        await shot(page, "what-if-1440-light");
        await page.locator("#toast").evaluate((toast) => { toast.textContent = ""; });
        await shot(page.locator("section", { hasText: "Compared" }), "doc-what-if", false);
        await page.setViewportSize({ width: 360, height: 800 });
        await fits(page);
        await shot(page, "what-if-360-light");
        await page.setViewportSize({ width: 1100, height: 740 });
        await page.getByLabel("Candidate", { exact: true }).fill("sluice: 1\nlimit: 2\n");
        await page.getByRole("button", { name: "Compare" }).click();
        await page.getByText("would be refused").waitFor();
        assert.match(await (await fetch(`${sluiced.admin}/v1/policy`)).text(), /20\/min/);
    });

    await t.test("a price makes costs", async () => {
        await open(page, sluiced, "costs");
        await page.getByText("no price is set").waitFor(); // and costs are not 0.00
        await page.getByLabel("Price of a unit of ai-tokens").fill("0.01");
        await page.keyboard.press("Tab");
        await page.locator(".tile .value", { hasText: /^[1-9].*\.\d\d$/ }).waitFor();
        await page.locator("section", { hasText: "By endpoint" })
            .locator("tr", { hasText: "ai-tokens" }).getByText("1,000.00").waitFor();
        await page.getByText("The daemons remember the last 24 hours by endpoint").waitFor();
        await shot(page, "doc-costs", false);
    });
    calm(page);
});

test("daemons that share a database are summed, or shown alone", async (t) => {
    const folder = mkdtempSync(`${tmpdir()}/sluice-console-`);

    t.after(() => rmSync(folder, { recursive: true, force: true }));

    const words = ["--usage", `sqlite:${folder}/usage.db?shared`, "--threads", "1"];
    const both = [await daemon(t, { policy: POLICY, words }),
                  await daemon(t, { policy: POLICY, words })];
    const start = Math.floor(Date.now() / 10_000) * 10_000;
    const clock = (i) => Promise.all(both.map(async ({ admin }) => {
        await post(`${admin}/v1/clock`, { now: new Date(start + i * 10_000).toISOString() });
        await fetch(`${admin}/v1/history`); // it reads the counts
    }));
    const known = async () =>
        (await (await fetch(`${both[0].admin}/v1/daemons`)).json()).daemons;

    await clock(0);
    await until(async () => (await known()).length === 2, "they know each other");
    await clock(1);
    await check(both[0], ...times(30, () => ({ path: "/api/search", user: "ann" })));
    await check(both[1], ...times(50, () => ({ path: "/api/search", user: "ann" })),
                ...times(7, () => ({ method: "POST", path: "/login", ip: "192.0.2.7" })));
    await clock(2);
    await clock(3);

    const sumOf = async (which) => {
        const news = await (await fetch(
            `${both[0].admin}/v1/history?daemon=${which}`)).json();

        return (news.total?.allowed ?? []).concat(news.total?.["429"] ?? [])
            .reduce((a, b) => a + b, 0);
    };
    const other = (await known()).find((one) => !one.self);

    await until(async () => await sumOf("all") === 87, "the counts of both");
    assert.equal(await sumOf(String(other.id)), 57);
    assert.equal((await fetch(`${both[0].admin}/v1/history?daemon=63`)).status, 404);
    await until(async () => (await known()).some((one) =>
        !one.self && /192\.0\.2\.7/.test(one.top)), "the callers of the other one");

    const context = await browser(t);
    const page = await pageOf(context, { origin: both[0].admin });
    const requests = (n) => page.locator(".tile", { hasText: "Requests" })
        .locator(".value", { hasText: new RegExp(`^${n}$`) }).waitFor();

    await open(page, both[0], "overview");
    await requests(87);
    await page.getByText(other.name).last().waitFor();
    await accessible(page);
    await shot(page, "daemons-1440-light");
    await page.getByLabel("Daemon", { exact: true }).selectOption(String(other.id));
    await requests(57);
    await page.goto(`${both[0].admin}/ui/#policy`); // what was recorded is of one of them
    await page.getByLabel("Candidate", { exact: true }).fill(POLICY.replace("20/min", "40/min"));
    await page.getByRole("button", { name: "Compare" }).click();
    await page.getByText("alone, the daemon that serves this page, and not of the other 1")
        .waitFor();
    await page.goto(`${both[0].admin}/ui/#who`);
    await page.getByLabel("Daemon", { exact: true }).selectOption("all");
    await page.locator("tr", { hasText: "ann" }).getByText("40", { exact: true }).waitFor();
    await page.getByLabel("Details of ip 192.0.2.7", { exact: true }).click();
    await page.getByText(`· ${other.name}`).first().waitFor();
    await page.getByRole("button", { name: "Close" }).click();
    await page.setViewportSize({ width: 360, height: 800 });
    await fits(page);
    await shot(page, "daemons-360-light");

    // Without `denials: ids` the other one tells hashes.
    await page.route("**/v1/daemons", async (route) => {
        const response = await route.fetch();
        const json = await response.json();

        for (const one of json.daemons.filter(({ self }) => !self)) {
            const rows = JSON.parse(one.top);

            rows.forEach((row) => delete row.key);
            one.top = JSON.stringify(rows);
        }
        await route.fulfill({ response, json });
    });
    await page.reload();
    await page.locator("tr", { hasText: "hashed by another daemon" })
        .getByRole("button", { name: "Details of ip #" }).click();
    await page.getByText("tells only a hash of its name").waitFor();
    await page.locator("dialog tr", { hasText: other.name }).getByText("login").waitFor();
    await accessible(page);
    await page.getByRole("button", { name: "Close" }).click();
    await page.unrouteAll({ behavior: "wait" });

    // One that was killed is not shown for long; its past is.
    both.pop().child.kill("SIGKILL");
    await clock(12);
    await until(async () => (await known()).length === 1, "the other one is gone");
    calm(page);
});

// A destination of webhooks that answers /500 with 500.
async function destination(t) {
    const server = createServer((request, response) => {
        request.resume();
        request.on("end", () => {
            server.count++;
            response.statusCode = Number(request.url.slice(1, 4));
            response.end();
        });
    });

    server.count = 0;
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    t.after(() => server.close());
    t.after(() => server.closeAllConnections());
    return server;
}

test("webhooks: messages, deliveries, attempts and a replay", async (t) => {
    const sluiced = await setUp(t, [], `${POLICY}
webhooks: { destination: unlimited, allow: [127.0.0.0/8], insecure: true }`);
    const server = await destination(t);
    const url = `http://127.0.0.1:${server.address().port}`;
    const api = async (path, value) => {
        const response = await post(`${sluiced.url}/v1/webhooks/${path}`, value);

        assert.ok(response.ok, `${response.status}`);
        return response.json();
    };
    const list = async (query) => (await (await fetch(
        `${sluiced.admin}/v1/webhooks/messages?${query}`)).json()).messages;

    await api("endpoints", { org: "acme", url: `${url}/200` });
    await api("endpoints", { org: HOSTILE[1].replaceAll('"', ""), url: `${url}/500` });
    // The list is in the order of time, which only the test moves.
    const start = Date.now();
    const clock = (i) => post(`${sluiced.admin}/v1/clock`,
                              { now: new Date(start + i * 1000).toISOString() });

    for (let i = 0; i < 55; i++) {
        await clock(i);
        await api("messages", { org: "acme", type: `order.${i}`, payload: { secret: "s3cr3t" } });
    }
    await clock(55);

    const failing = await api("messages", { org: HOSTILE[1].replaceAll('"', ""),
                                            type: "a.b", payload: 1 });

    await until(async () => (await list("limit=1000")).filter((one) => one.delivered === 1)
        .length === 55, "they are delivered");
    await until(async () => server.count === 56, "one has failed");
    await until(async () => (await (await fetch(
        `${sluiced.admin}/v1/webhooks/attempts?result=failed`)).json()).attempts.length === 1,
                "it is in the log");

    const context = await browser(t);
    const page = await pageOf(context, { origin: sluiced.admin });
    const row = (text) => page.locator("tr", { hasText: text });

    await t.test("the newest, and older ones", async () => {
        await open(page, sluiced, "webhooks");
        await row("a.b").getByText("waiting").waitFor();
        await row("order.54").getByText("delivered").waitFor();
        assert.equal(await page.locator(".card").first().locator("tbody tr").count(), 50);
        await page.getByRole("button", { name: "Older" }).click();
        await row("order.0").waitFor();
        assert.equal(await page.locator(".card").first().locator("tbody tr").count(), 6);
        await page.getByRole("button", { name: "Newer" }).click();
        await row("order.54").waitFor();
        await page.getByLabel("Type", { exact: true }).fill("order.1*");
        await page.getByRole("button", { name: "Filter" }).click();
        await page.waitForFunction(() =>
            document.querySelector(".card").querySelectorAll("tbody tr").length === 11);
        await page.getByLabel("Type", { exact: true }).fill("");
        await page.getByRole("button", { name: "Filter" }).click();
        await row("a.b").waitFor();
        await accessible(page);
    });

    await t.test("each delivery, its attempts and the next try; again", async () => {
        const { attempts } = await (await fetch(
            `${sluiced.admin}/v1/webhooks/attempts?result=failed`)).json();
        const details = page.getByLabel(`Details of ${failing.id}`, { exact: true }).first();

        assert.equal(attempts[0].status, 500);
        await details.click();
        const box = page.locator("dialog");

        await box.getByText(`${url}/500`).waitFor();
        assert.match(await box.locator("tbody").first().innerText(), /waiting\s+1\s+500/);
        assert.equal(await box.locator("tbody time").count(), 2);
        await accessible(page);
        await shot(page, "webhook-1440-light");
        await box.getByRole("button", { name: "Send again" }).click();
        await until(async () => server.count === 57, "it is sent again");
        await open(page, sluiced, "switches");
        await row("replay").getByText(failing.id).waitFor();
    });

    await t.test("no payload and no secret is shown to the console", async () => {
        for (const path of ["messages", `messages/${failing.id}`, "attempts"]) {
            const text = await (await fetch(`${sluiced.admin}/v1/webhooks/${path}`)).text();

            assert.doesNotMatch(text, /s3cr3t|whsec|payload/);
        }
        assert.equal((await fetch(
            `${sluiced.admin}/v1/webhooks/messages?limit=1001`)).status, 400);
        assert.equal((await fetch(`${sluiced.admin}/v1/webhooks/messages/msg_none`)).status, 404);
    });
    calm(page);
});

test("sign in, read only, and a daemon that is killed", async (t) => {
    const folder = mkdtempSync(`${tmpdir()}/sluice-console-`);

    t.after(() => rmSync(folder, { recursive: true, force: true }));
    writeFileSync(`${folder}/token`, "secret-one");
    writeFileSync(`${folder}/read`, "secret-two");

    const words = ["--admin-token-file", `${folder}/token`,
                   "--admin-read-token-file", `${folder}/read`];
    const sluiced = await setUp(t, words);
    const context = await browser(t);
    const page = await pageOf(context, { origin: sluiced.admin });
    const cookieName = `sluice_session_${new URL(sluiced.admin).port}`;
    const cookies = async () => (await context.cookies()).filter(
        ({ name }) => name === cookieName);

    await page.goto(`${sluiced.admin}/ui/`);
    await page.getByLabel("Admin token").fill("wrong");
    page.allowAway = true; // the browser logs the 401
    await page.getByRole("button", { name: "Sign in" }).click();
    await page.getByText("neither admin_token nor admin_read_token").waitFor();
    await accessible(page);
    await shot(page, "login-1440-light");

    await t.test("the token is exchanged for a strict cookie", async () => {
        await page.getByLabel("Admin token").fill("secret-one");
        await page.getByLabel("Your name").fill("kim");
        await page.getByRole("button", { name: "Sign in" }).click();
        await page.getByRole("button", { name: "Sign out" }).waitFor();

        const [cookie] = await cookies();

        assert.equal(cookie.httpOnly, true);
        assert.equal(cookie.sameSite, "Strict");
        assert.ok(!cookie.value.includes("secret"));

        // A change needs the CSRF value, also with the cookie.
        const headers = { Cookie: `${cookieName}=${cookie.value}` };
        const change = (more) => fetch(`${sluiced.admin}/v1/features/assistant`, {
            method: "PUT", body: '{"enabled":true}', headers: { ...headers, ...more } });

        assert.equal((await fetch(`${sluiced.admin}/v1/features`, { headers })).status, 200);
        assert.equal((await (await change({})).json()).code, "NO_CSRF");

        const fresh = await fetch(`${sluiced.admin}/v1/session`, { headers });
        const { csrf } = await fresh.json();
        const renewed = fresh.headers.get("set-cookie").split(";")[0];

        assert.equal((await change({ Cookie: renewed, "X-Sluice-CSRF": csrf })).status, 200);
        assert.equal((await change({ Cookie: renewed, "X-Sluice-CSRF": csrf,
                                     Origin: "http://evil.example" })).status, 403);
        assert.equal((await fetch(`${sluiced.admin}/v1/features`, { headers: {
            Cookie: renewed.replace(/.$/, (c) => c === "0" ? "1" : "0") } })).status, 401);
    });

    await t.test("the read-only token only reads", async () => {
        const [{ value }] = await cookies();

        await page.getByRole("button", { name: "Sign out" }).click();
        await page.getByLabel("Admin token").waitFor();
        assert.equal((await fetch(`${sluiced.admin}/v1/features`, { headers: {
            Cookie: `${cookieName}=${value}` } })).status, 401, "a copy of the cookie is invalid");
        await page.getByLabel("Admin token").fill("secret-two");
        await page.getByRole("button", { name: "Sign in" }).click();
        await page.getByText("read-only").waitFor();
        await page.getByRole("link", { name: "Switches" }).click();
        await page.locator("th", { hasText: "assistant" }).waitFor();
        assert.equal(await page.getByRole("button", { name: /Switch/ }).count(), 0);

        const bearer = { Authorization: "Bearer secret-two" };

        assert.equal((await fetch(`${sluiced.admin}/v1/features`,
                                  { headers: bearer })).status, 200);
        assert.equal((await (await fetch(`${sluiced.admin}/v1/features/assistant`, {
            method: "DELETE", headers: bearer })).json()).code, "READ_ONLY");
    });

    await t.test("a proxy that adds the token has signed in its user", async () => {
        await context.clearCookies();
        await page.setExtraHTTPHeaders({ Authorization: "Bearer secret-one" });
        await page.goto(`${sluiced.admin}/ui/#switches`);
        await page.reload();
        await page.getByRole("button", { name: "Switch off" }).first().waitFor();
        assert.equal(await page.getByRole("button", { name: "Sign out" }).count(), 0);
        assert.equal(await page.evaluate(async () => (await fetch(
            "../v1/features/assistant", { method: "PUT", body: '{"enabled":true}' })).status),
                     200);
        assert.deepEqual(await cookies(), []);

        await page.setExtraHTTPHeaders({ Authorization: "Bearer secret-two" });
        await page.reload();
        await page.getByText("read-only").waitFor();
        await page.setExtraHTTPHeaders({});
        await page.reload();
        await page.getByLabel("Admin token").fill("secret-two");
        await page.getByRole("button", { name: "Sign in" }).click();
        await page.getByText("read-only").waitFor();
    });

    await t.test("it says that the daemon is away, and comes back", async () => {
        await page.getByRole("link", { name: "Overview" }).click();
        sluiced.child.kill("SIGKILL");
        await once(sluiced.child, "exit");
        await page.getByText("The daemon does not answer").waitFor();
        await page.getByText("Daemon: away").waitFor();
        await shot(page, "away-1440-light");
        await setUp(t, [...words, "--listen-admin", new URL(sluiced.admin).host]);
        await page.getByLabel("Admin token").waitFor(); // a restart ends sessions
        assert.equal(await page.locator("#away").innerText(), "");
    });
    assert.deepEqual(page.complaints.filter((one) => /CSP|asked/.test(one)), []);
});

test("all files together are small", () => {
    let size = 0;

    for (const folder of ["console", "vendor"])
        for (const name of readdirSync(`${root}web/${folder}`))
            if (statSync(`${root}web/${folder}/${name}`).isFile())
                size += gzipSync(readFileSync(`${root}web/${folder}/${name}`)).length;
    assert.ok(size <= 150 * 1024, `${size} bytes`);
});
