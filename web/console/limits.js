// Limits: every limit with its rates by plan, and what it did in the last hour.
import { daemons, get, sum, together } from "./api.js";
import { card, duration, el, key, number, percent, pill, table, tile, whole } from "./dom.js";
import { History, totals } from "./history.js";

export const title = "Limits";

const MODES = { enforce: ["good", "enforce"], shadow: ["warn", "dry run"], off: ["", "off"] };

// "100000/month" as "100,000/month".
const readable = (rate) => rate.replace(/\d{4,}/g, (digits) => whole(Number(digits)));

function rates(limit) {
    const all = Object.entries(limit.rates).map(([plan, rate]) => [plan, readable(rate)]);
    const same = new Set(all.map(([, rate]) => rate)).size === 1;

    return el("div", {},
        same ? all[0]?.[1] : all.map(([plan, rate]) => el("div", { class: "nowrap" },
            el("span", { class: "soft" }, `${plan} `), rate)),
        limit.unit && el("div", { class: "small soft" }, limit.unit),
        Object.entries(limit.candidates).map(([plan, rate]) => el("div", { class: "small soft" },
            `candidate ${plan} ${readable(rate)}`)));
}

function row(limit, history) {
    const past = history.limits.get(limit.name);
    const sums = past ? totals(past) : { requests: 0, denied: 0, shadow: 0, candidate: 0,
                                         consumed: 0 };

    return [el("div", {}, key(limit.name),
               el("div", { class: "small soft" }, `${limit.kind}, per ` +
                  (limit.per.join(" and ") || "all callers"))),
            pill(...MODES[limit.mode]), rates(limit), number(sums.consumed),
            number(sums.denied), percent(sums.denied, sums.requests), number(sums.shadow),
            Object.keys(limit.candidates).length > 0 ? number(sums.candidate) : "–"];
}

// The bound below which all waits were.
function waits(all) {
    const count = sum(all, "sluice_turn_wait_seconds_count");
    const below = new Map();

    for (const { labels, value } of all.get("sluice_turn_wait_seconds_bucket") ?? [])
        below.set(labels.le, (below.get(labels.le) ?? 0) + value);

    const last = [...below].find(([le, value]) => le !== "+Inf" && value >= count);

    return count === 0 ? "–" : last ? `at most ${duration(1000 * last[0])}` : "very long";
}

function upstream(all) {
    const rows = new Map();

    for (const { labels, value } of all.get("sluice_upstream_total") ?? []) {
        const one = rows.get(labels.endpoint) ?? {};

        one[labels.class] = (one[labels.class] ?? 0) + value;
        rows.set(labels.endpoint, one);
    }
    return table(["Endpoint", "#2xx", "#4xx", "#5xx"], [...rows].map(([name, one]) =>
        [key(name), ...["2xx", "4xx", "5xx"].map((c) => number(one[c] ?? 0))]),
        "No answer of a vendor was reported. Settle holds with a status to see them.");
}

export function open(main) {
    const limits = el("div"), tiles = el("div", { class: "tiles" });
    const backlogs = el("div"), vendors = el("div");
    const history = new History("10s");

    main.append(el("h1", {}, "Limits"), tiles,
        card("What each limit did in the last hour", limits),
        el("div", { class: "two" }, card("Backlogs", backlogs),
           card("Answers of vendors", vendors)));

    async function update() {
        try {
            const [now, all] = [await get("v1/limits"), together(await daemons())];

            await history.update();
            limits.replaceChildren(table(["Limit", "Mode", "Rates", "#Units taken", "#Denied",
                "#Share", "#Dry run would deny", "#Candidate would deny"],
                now.limits.map((one) => row(one, history)), "The policy has no limits."));
            tiles.replaceChildren(
                tile("In use", number(sum(all, "sluice_held")), "holds and permits"),
                tile("Waiting", number(sum(all, "sluice_waiting")), "checks in queues"),
                tile("Longest wait", waits(all), "since the start"));
            backlogs.replaceChildren(table(["Backlog", "#Waiting jobs"],
                now.backlogs.map((one) => [key(one.name),
                    one.depth === null ? "not reported" : number(one.depth)]),
                "No route has a backlog."));
            vendors.replaceChildren(upstream(all));
        } catch {
            // main.js says that the daemon is away
        }
    }

    const timer = setInterval(() => document.hidden || update(), 10_000);

    update();
    return { stop: () => clearInterval(timer) };
}
