// Overview: requests and denials over time, by endpoint, and the state of the
// daemon in plain words.
import { Away, chosen, daemons, get, sum, together } from "./api.js";
import { chart } from "./chart.js";
import { card, duration, el, key, number, percent, pill, table, tile, time } from "./dom.js";
import { DENIED, History, totals } from "./history.js";

export const title = "Overview";

const LINE = 5; // percent of 429: above it, limits are too tight or are abused

const RANGES = { "10s": "Last hour", "1m": "Up to a day" };

// ---- the daemon in plain words ----

const age = (seconds) => duration(seconds * 1000);

// How many of the daemons say 0 of a metric, as words: "" or " for 1 of 3 daemons".
const down = (values) => values.filter(({ value }) => value === 0).length;
const some = (count, of) => of > 1 ? ` for ${count} of ${of} daemons` : "";

function storeWords(all) {
    const stores = all.get("sluice_store_up") ?? [];
    const name = stores[0]?.labels.store ?? "memory";
    const unknown = sum(all, "sluice_store_uncertain_total");

    if (down(stores) > 0)
        return ["bad", "Store", `${name} does not answer${some(down(stores), stores.length)}. ` +
                "Decisions follow on_store_failure."];
    if (unknown > 0)
        return ["warn", "Store", `${name} answers. ${number(unknown)} takes have an unknown ` +
                "result: the connection was lost before the answer."];
    return ["good", "Store", name === "memory" ? "Counts are in memory."
        : `${name} answers.`];
}

function databaseWords(all) {
    const ups = all.get("sluice_database_up") ?? [];
    const lost = sum(all, "sluice_usage_lost_units_total");
    const risk = sum(all, "sluice_usage_at_risk_units");

    if (ups.length === 0)
        return ["", "Database", "There is none (usage: none): no usage, no audit."];
    if (down(ups) > 0)
        return ["bad", "Database", `It does not answer${some(down(ups), ups.length)}. ` +
                "Usage waits in the journal."];
    if (lost > 0)
        return ["bad", "Database", `It answers. ${number(lost)} units were lost, because the ` +
                "journal had no room."];
    return ["good", "Database", risk > 0
        ? `It answers. ${number(risk)} units would be lost if the daemon were killed now.`
        : "It answers. No unit was lost."];
}

function keysWords(all) {
    const keys = all.get("sluice_jwks_keys") ?? [];
    const ages = (all.get("sluice_jwks_age_seconds") ?? []).map(({ value }) => value);

    if (keys.length === 0)
        return null;
    return down(keys) === 0
        ? ["good", "JWKS", `${keys[0].value} keys, checked ${age(Math.max(0, ...ages))} ago.`]
        : ["bad", "JWKS", "No keys were loaded. Tokens are rejected."];
}

function leaseWords(all) {
    const leased = sum(all, "sluice_lease_keys");
    const failed = sum(all, "sluice_lease_failures_total");

    if (leased === 0 && failed === 0)
        return null;
    return [failed > 0 ? "warn" : "good", "Leases", `${number(leased)} keys have leased units, ` +
            `${number(sum(all, "sluice_lease_unspent_units"))} of them unspent.` +
            (failed > 0 ? ` ${number(failed)} requests for leases failed.` : "")];
}

function tableWords(all) {
    const used = sum(all, "sluice_table_entries"), room = sum(all, "sluice_table_capacity");
    const evicted = sum(all, "sluice_table_evictions_total");

    if (room === 0)
        return null;
    return [evicted > 0 || used > .9 * room ? "warn" : "good", "Keys",
            `${number(used)} of ${number(room)} places are in use.` +
            (evicted > 0 ? ` ${number(evicted)} keys were evicted.` : "")];
}

function policyWords(all) {
    return down(all.get("sluice_config_last_reload_successful") ?? []) === 0
        ? ["good", "Policy", "The last policy that was read is active."]
        : ["bad", "Policy", "The last policy was refused. The previous one stays active."];
}

const WORD = { good: "fine", warn: "look", bad: "problem", "": "none" };

const running = ({ metrics }) =>
    age(Date.now() / 1000 - sum(metrics, "process_start_time_seconds"));

function health(known, ready) {
    const shown = chosen(known), all = together(known);
    const rows = [storeWords, databaseWords, keysWords, leaseWords, tableWords, policyWords]
        .map((words) => words(all)).filter(Boolean);
    const degraded = /degraded: (.*)/.exec(ready);
    const waiting = `${number(sum(all, "sluice_waiting"))} checks wait now.`;

    if (degraded)
        rows.unshift(["warn", "Daemon", degraded[1]]);
    for (const one of shown)
        rows.push(["", shown.length === 1 ? "Running" : one.name, one.metrics.size === 0
            ? "It has not told yet." : `for ${running(one)}` +
              (shown.length === 1 ? `, ${waiting}` : one.self ? ", this console" : "")]);
    if (shown.length > 1)
        rows.push(["", "Waiting", waiting]);
    return el("ul", { class: "health" }, rows.map(([kind, name, text]) => el("li", {},
        el("span", {}, pill(kind, kind === "" ? name : `${name}: ${WORD[kind]}`)),
        el("span", {}, text))));
}

// ---- the section ----

function tiles(sums) {
    const share = sums.requests > 0 ? 100 * sums["429"] / sums.requests : 0;

    return [
        tile("Requests", number(sums.requests), `${number(sums.allowed)} allowed`),
        tile("429", percent(sums["429"], sums.requests),
             share > LINE ? `above the ${LINE} % line` : `below the ${LINE} % line`,
             share > LINE ? "bad" : "good"),
        tile("402", number(sums["402"]), "plan is used up"),
        tile("403", number(sums["403"]), "not allowed"),
        tile("409", number(sums["409"]), "in progress"),
        tile("503", number(sums["503"]), "paused or full"),
        tile("Retry-After", sums.retry === null ? "–" : duration(sums.retry), "average of all denials"),
    ];
}

function endpointTable(history, choose) {
    const rows = [...history.endpoints.values()]
        .map((row) => [row.name, totals(row)])
        .filter(([, sums]) => sums.requests > 0)
        .sort(([, a], [, b]) => b.requests - a.requests);

    return table(["Endpoint", "#Requests", "#429 share", "#429", "#402", "#403", "#409",
                  "#503", "#Retry-After"],
        rows.map(([name, sums]) => [
            el("button", { class: "link", onclick: () => choose(name) }, key(name)),
            number(sums.requests), percent(sums["429"], sums.requests),
            ...["429", "402", "403", "409", "503"].map((status) => number(sums[status])),
            sums.retry === null ? "–" : duration(sums.retry)]),
        "No requests yet. They appear here ten seconds after the first one.");
}

export function open(main) {
    const state = { step: "10s", endpoint: "", histories: {}, at: null };
    const numbers = el("div", { class: "tiles" });
    const left = el("div", { class: "chart" }), right = el("div", { class: "chart" });
    const endpoints = el("div"), words = el("div"), heading = el("span");
    const pick = el("select", { "aria-label": "Endpoint", onchange: () => {
        state.endpoint = pick.value;
        draw();
    } });
    const ranges = Object.entries(RANGES).map(([step, text]) => el("button", {
        "aria-pressed": String(step === state.step), onclick: () => {
            state.step = step;
            ranges.forEach((one, i) => one.setAttribute("aria-pressed",
                String(Object.keys(RANGES)[i] === step)));
            update();
        } }, text));

    main.append(
        el("div", { class: "row between" }, el("h1", {}, "Overview"),
           el("div", { class: "row" }, ranges, pick)),
        numbers,
        el("div", { class: "two" },
           card(heading, left),
           card(`Share of 429, with the ${LINE} % line`, right)),
        el("div", { class: "two wide" }, card("Endpoints", endpoints),
           card("In plain words", words)));

    const requests = chart(left, { label: "Requests over time, allowed and denied",
        series: [{ label: "allowed", color: "--allowed", fill: true },
                 { label: "429", color: "--c429" }, { label: "402", color: "--c402" },
                 { label: "403", color: "--c403" }, { label: "503", color: "--c503" }] });
    const share = chart(right, { label: "Share of requests that were answered 429",
        unit: " %", most: 10,
        series: [{ label: "429", color: "--c429", fill: true },
                 { label: `${LINE} % line`, color: "--soft", dash: [6, 6] }] });

    function choices(history) {
        const names = ["", ...[...history.endpoints.keys()].sort()];

        if (names.length === pick.options.length)
            return;
        pick.replaceChildren(...names.map((name) =>
            el("option", { value: name }, name || "All endpoints")));
        pick.value = state.endpoint;
    }

    function draw() {
        const history = state.histories[state.step];
        const row = history.endpoints.get(state.endpoint) ?? history.total;
        const all = row.allowed.map((n, i) =>
            DENIED.reduce((total, status) => total + row[status][i], n));

        choices(history);
        heading.textContent = `Requests per ${history.seconds} seconds`;
        numbers.replaceChildren(...tiles(totals(row)));
        requests.set([history.times, row.allowed, row["429"], row["402"], row["403"],
                      row["503"]]);
        share.set([history.times,
                   all.map((n, i) => n > 0 ? 100 * row["429"][i] / n : 0),
                   all.map(() => LINE)]);
        endpoints.replaceChildren(endpointTable(history, (name) => {
            state.endpoint = pick.value = name;
            draw();
        }));
    }

    async function update() {
        state.histories[state.step] ??= new History(state.step);
        try {
            await state.histories[state.step].update();
            draw();
            words.replaceChildren(health(await daemons(), await get("readyz?verbose")));
            state.at = new Date().toISOString();
        } catch (failed) {
            if (failed instanceof Away)
                words.replaceChildren(el("ul", { class: "health" }, el("li", {},
                    el("span", {}, pill("bad", "Daemon: away")),
                    el("span", {}, "It does not answer.",
                       state.at && [" What is shown is of ", time(state.at), "."]))));
        }
    }

    const timer = setInterval(() => document.hidden || update(), 5000);

    update();
    return { stop() {
        clearInterval(timer);
        requests.stop();
        share.stop();
    } };
}
