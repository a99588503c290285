// Costs: units times a price, by organisation, endpoint and day.
import { get } from "./api.js";
import { add, History } from "./history.js";
import { card, el, key, number, table, tile } from "./dom.js";

export const title = "Costs";

// Prices are kept in this browser: { "ai-tokens": 0.000002 }
const prices = {
    all: () => JSON.parse(localStorage.getItem("prices") ?? "{}"),
    set(limit, price) {
        localStorage.setItem("prices", JSON.stringify({ ...prices.all(), [limit]: price }));
    },
};

const money = (amount) => amount.toLocaleString("en-US", {
    minimumFractionDigits: 2, maximumFractionDigits: 2 });

const day = (date) => date.toISOString().slice(0, 10);

const lines = (text) => text.split("\n").filter(Boolean).map((line) => JSON.parse(line));

// A cost, or a dash where the limit has no price.
const priced = (limit, amount, all) => all[limit] > 0 ? money(amount) : "–";

const costOf = (rows, all) => rows.reduce((total, row) =>
    total + row.used * (all[row.limit] ?? 0), 0);

function priceTable(rows, redraw) {
    const limits = new Map(rows.map((row) => [row.limit, row.unit]));
    const all = prices.all();

    return table(["Limit", "#Units", "Price of a unit"], [...limits].map(([limit, unit]) => [
        el("span", {}, key(limit), unit && el("span", { class: "small soft" }, ` ${unit}`)),
        number(rows.filter((row) => row.limit === limit)
            .reduce((total, row) => total + row.used, 0)),
        el("input", { type: "number", min: 0, step: "any", value: all[limit] ?? "",
                      "aria-label": `Price of a unit of ${limit}`, onchange: (event) => {
                          prices.set(limit, Number(event.target.value));
                          redraw();
                      } })]), "No quota was used this month.");
}

const costTable = (rows, all) => table(["Subject", "Limit", "#Units", "#Overage", "#Cost"],
    rows.map((row) => [row, row.used * (all[row.limit] ?? 0)])
        .sort(([, a], [, b]) => b - a).slice(0, 100)
        .map(([row, cost]) => [
            el("span", {}, `${row.scope} `, key(row.id)), row.limit,
            `${number(row.used)} ${row.unit ?? ""}`, number(row.overage ?? 0),
            priced(row.limit, cost, all)]),
    "No quota was used this month.");

// The use of each day, of the subjects that cost the most.
async function days(rows, all) {
    const top = [...new Map(rows.map((row) => [`${row.scope}/${row.id}`, row])).values()]
        .map((row) => [row, costOf(rows.filter((one) => one.id === row.id), all)])
        .sort(([, a], [, b]) => b - a).slice(0, 10);
    const found = new Map();

    for (const [row] of top) {
        const { meters } = await get(
            `v1/usage/${encodeURIComponent(row.scope)}/${encodeURIComponent(row.id)}`);

        for (const meter of meters)
            for (const one of meter.days ?? [])
                found.set(one.day, (found.get(one.day) ?? 0) +
                    one.used * (all[meter.name] ?? 0));
    }
    return table(["Day", "#Cost"], [...found].sort().reverse()
        .map(([name, cost]) => [name, cost > 0 ? money(cost) : "–"]), "No day has usage.");
}

// What the endpoints took in the last day, as far back as the daemons remember.
function endpoints(history, all) {
    const rows = [...history.uses.values()].map((use) => [use, add(use.consumed)])
        .filter(([, units]) => units > 0)
        .map(([use, units]) => [use, units, units * (all[use.limit] ?? 0)])
        .sort(([, a, x], [, b, y]) => y - x || b - a);

    return table(["Endpoint", "Limit", "#Units", "#Cost"], rows.map(([use, units, cost]) =>
        [key(use.endpoint || "–"), use.limit, number(units), priced(use.limit, cost, all)]),
        "No request took units of a quota yet.");
}

export function open(main) {
    const tiles = el("div", { class: "tiles" });
    const places = { prices: el("div"), costs: el("div"), days: el("div"),
                     endpoints: el("div") };
    const history = new History("1m");
    let rows = [];

    main.append(el("h1", {}, "Costs"),
        el("p", { class: "soft" }, "Units of this month times your price of a unit. " +
           "Prices are kept in this browser."), tiles,
        el("div", { class: "two wide" },
           el("div", { class: "column" }, card("By subject", places.costs),
              card("By endpoint, in the last day", el("p", { class: "small soft" },
                  "The daemons remember the last 24 hours by endpoint, since their start. " +
                  "The other tables are of this month."), places.endpoints)),
           el("div", { class: "column" }, card("Prices", places.prices),
              card("By day, of the ten largest", places.days))));

    async function draw() {
        const all = prices.all();

        tiles.replaceChildren(
            rows.some((row) => all[row.limit] > 0)
                ? tile("This month", money(costOf(rows, all)), "units times price")
                : tile("This month", "–", "no price is set: see Prices"),
            tile("Subjects", number(new Set(rows.map((row) => row.id)).size), "with usage"));
        places.costs.replaceChildren(costTable(rows, all));
        places.prices.replaceChildren(priceTable(rows, draw));
        places.endpoints.replaceChildren(endpoints(history, all));
        places.days.replaceChildren(await days(rows, all));
    }

    async function update() {
        const now = new Date();
        const from = new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth(), 1));
        const to = new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth() + 1, 1));

        await history.update().catch(() => {});
        try {
            rows = lines(await get(`v1/usage/export?from=${day(from)}&to=${day(to)}`));
            await draw();
        } catch (failed) {
            places.costs.replaceChildren(el("p", { class: "error" }, failed.message));
        }
    }
    update();
    return { stop() {} };
}
