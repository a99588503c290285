// usage.js -- the usage page: the meters of one organisation.
//
// The token comes in the fragment of the address (#token=...), which browsers
// send to no server, and is removed from the address at once. A page that
// shows this one in a frame may also pass it by postMessage:
//
//     frame.contentWindow.postMessage(
//         { type: "sluice-usage-token", token }, "https://limits.example");
//
// Only the parent is heard. Which pages can be the parent is decided by
// frame-ancestors of the Content-Security-Policy. The parent is told
// "sluice-usage-ready", "sluice-usage-expired" when it should send a new
// token, and "sluice-usage-height" with the height of the page.

import "../components/meter.js";
import { readAnswer, safeLink } from "../components/answer.js";
import { make, setText } from "../components/element.js";
import { messagesOf, say as sayIn } from "../components/messages.js";
import { stateOf } from "../components/meter.js";
import { history } from "./history.js";
import "./texts.js";

const EVERY = 30_000;
const RETRY = 1_000;
const DAYS = 30;

const query = new URLSearchParams(location.search);
const language = languageOf(query.get("lang"));
const $ = (id) => document.getElementById(id);
const say = (key, values) =>
    sayIn(messagesOf(language), key, values, language);

let token = null;
let shown = null; // the last answer
let failures = 0;
let timer = null;
let asking = 0;
const cards = new Map();

function languageOf(wanted) {
    try {
        return Intl.getCanonicalLocales(wanted ?? navigator.language)[0];
    } catch {
        return "en";
    }
}

// "assistant_queries" -> "Assistant queries"
function labelOf(name) {
    const words = name.replace(/[_-]+/g, " ").trim() || name;

    return words.charAt(0).toLocaleUpperCase(language) + words.slice(1);
}

const tellParent = (message) => {
    if (window.parent !== window)
        window.parent.postMessage(message, "*"); // nothing of it is secret
};

// ---- the token

function takeFragment() {
    const found = /[#&]token=([A-Za-z0-9._-]+)/.exec(location.hash);

    if (!found)
        return;
    window.history.replaceState(null, "", location.pathname + location.search);
    use(found[1]);
}

function use(next) {
    token = next;
    failures = 0;
    load();
}

addEventListener("message", (event) => {
    if (event.source === window.parent && window.parent !== window &&
        event.data?.type === "sluice-usage-token" &&
        typeof event.data.token === "string")
        use(event.data.token);
});
addEventListener("hashchange", takeFragment);

// ---- loading

function later(ms) {
    clearTimeout(timer);
    timer = setTimeout(load, ms);
}

async function ask(more = "") {
    return fetch(`data?days=${DAYS}${more}`, {
        headers: { Authorization: `Bearer ${token}` }, cache: "no-store",
        credentials: "omit", referrerPolicy: "no-referrer",
    });
}

async function load() {
    const turn = ++asking;

    clearTimeout(timer);
    if (token === null)
        return;
    try {
        const response = await ask();

        if (turn !== asking)
            return;
        if (response.status === 401)
            expire();
        else if (response.ok)
            show(await response.json());
        else
            fail((await readAnswer(response)).waitMs);
    } catch {
        if (turn === asking)
            fail(null);
    }
}

function expire() {
    token = null;
    notice(say("page_expired"));
    $("csv").hidden = true;
    $("meters").removeAttribute("aria-busy");
    tellParent({ type: "sluice-usage-expired" });
}

function fail(wait) {
    failures++;
    notice(shown ? say("page_away_old", { time: timeText(Date.parse(shown.now)) })
        : say("page_away"));
    later(wait ?? Math.min(RETRY * 2 ** (failures - 1), EVERY));
}

document.addEventListener("visibilitychange", () => {
    if (!document.hidden && token !== null)
        load();
});

// ---- showing

const timeText = (at) => new Intl.DateTimeFormat(language, {
    hour: "numeric", minute: "2-digit" }).format(at);

function notice(text) {
    $("notice").hidden = text === null;
    if (text === null)
        return;
    setText($("notice-text"), text);
    setText($("status"), text);
}

function show(usage) {
    const back = failures > 0;

    shown = usage;
    failures = 0;
    notice(null);
    if (back)
        setText($("status"), say("page_back"));
    setText($("org"), usage.name ?? usage.id);
    showPlan(usage.meters);
    setText($("updated"), say("page_updated",
                              { time: timeText(Date.parse(usage.now)) }));
    $("csv").hidden = !usage.history;
    showMeters(usage);
    showCall(usage);
    later(Math.min(EVERY, Math.max(RETRY, usage.expires_in_ms + 200)));
}

// One plan is shown once. Meters say theirs if they differ.
function showPlan(meters) {
    const plans = new Set(meters.map(({ plan }) => plan).filter(Boolean));
    const [plan] = plans;

    $("plan").hidden = plans.size !== 1;
    setText($("plan"), plans.size === 1 ? say("plan_name", { plan }) : "");
}

// What needs attention comes first.
const RANK = { over: 0, high: 1, warn: 2, ok: 3 };
const rankOf = ({ used, limit }) =>
    RANK[limit === null ? "ok" : stateOf(used, limit)];

function card(meter) {
    const known = cards.get(meter.name);

    if (known)
        return known;

    const one = { meter: document.createElement("sluice-meter"), history: null };

    one.node = make("section", { class: "card" }, one.meter);
    cards.set(meter.name, one);
    return one;
}

function showMeters(usage) {
    const now = Date.parse(usage.now);
    const url = usage.upgrade_url ? safeLink(usage.upgrade_url) : null;
    const meters = [...usage.meters].sort((a, b) => rankOf(a) - rankOf(b));
    const nodes = meters.map((meter) => {
        const one = card(meter);
        const label = labelOf(meter.name);
        const open = one.history?.querySelector("details")?.open;

        one.node.setAttribute("aria-label", label);
        one.meter.setAttribute("lang", language);
        one.meter.setAttribute("label", label);
        if (url)
            one.meter.setAttribute("upgrade-url", url);
        one.meter.setAttribute("upgrade-target", "_top");
        one.meter.meter = { ...meter, now,
                            plan: $("plan").hidden ? meter.plan : null };
        one.history?.remove();
        one.history = usage.history && meter.days?.some(({ used }) => used > 0)
            ? history(meter, { label, now, language, say, count: DAYS }) : null;
        if (one.history) {
            one.node.append(one.history);
            if (open)
                one.history.querySelector("details")?.setAttribute("open", "");
        }
        return one.node;
    });

    $("meters").removeAttribute("aria-busy");
    if (nodes.length === 0)
        nodes.push(make("p", { class: "empty" }, say("page_empty")));
    // Nodes that stay keep the focus and the scroll position.
    if (nodes.some((node, i) => $("meters").children[i] !== node) ||
        nodes.length !== $("meters").children.length)
        $("meters").replaceChildren(...nodes);
}

// One call for all meters: the strongest state decides.
function showCall(usage) {
    const states = usage.meters.filter((meter) => meter.limit !== null)
        .map((meter) => [labelOf(meter.name), stateOf(meter.used, meter.limit)]);
    const over = states.filter(([, state]) => state === "over");
    const near = states.filter(([, state]) => state !== "ok");
    const list = over.length ? over : near;
    const url = usage.upgrade_url ? safeLink(usage.upgrade_url) : null;

    $("call").hidden = list.length === 0;
    $("call").classList.toggle("strong", over.length > 0);
    setText($("call-text"), list.length === 0 ? "" : say(
        over.length ? "page_call_over" : "page_call", {
            names: new Intl.ListFormat(language).format(
                list.map(([name]) => name)) }));
    $("call-link").hidden = !url;
    if (url)
        $("call-link").href = url;
    // In a frame the link leaves it.
    $("call-link").target = "_top";
    setText($("call-link"), say(over.length ? "upgrade_now" : "upgrade"));
}

// ---- CSV

$("csv").addEventListener("click", async () => {
    try {
        const response = await ask("&format=csv");

        if (!response.ok)
            throw new Error(`${response.status}`);

        const url = URL.createObjectURL(await response.blob());
        const link = make("a", { href: url, download: "usage.csv" });

        link.click();
        setTimeout(() => URL.revokeObjectURL(url), 1000);
    } catch {
        notice(say("page_csv_failed"));
    }
});

// ---- begin

document.documentElement.lang = language;
document.title = say("page_title");
setText($("title"), say("page_title"));
setText($("csv"), say("page_csv"));
new ResizeObserver(() => tellParent({
    type: "sluice-usage-height",
    height: document.documentElement.scrollHeight })).observe(document.body);
takeFragment();
tellParent({ type: "sluice-usage-ready" });
if (token === null && window.parent === window)
    notice(say("page_no_token"));
