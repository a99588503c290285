// history.js -- the days of a meter: a chart, and the same as a table.

import { make } from "../components/element.js";
import { numberText } from "../components/messages.js";

const DAY = 86_400_000;
const SVG = "http://www.w3.org/2000/svg";

/** The last `count` days, the oldest first; days without usage are 0. */
export function daysOf(meter, now, count) {
    const by = new Map((meter.days ?? []).map((day) => [day.day, day]));
    const days = [];

    for (let i = count - 1; i >= 0; i--) {
        const day = new Date(now - i * DAY).toISOString().slice(0, 10);

        days.push(by.get(day) ?? { day, used: 0, overage: 0 });
    }
    return days;
}

// Days are of the quota's own zone, so they are shown as they are.
function dayText(day, language, options) {
    return new Intl.DateTimeFormat(language, { timeZone: "UTC", ...options })
        .format(Date.parse(`${day}T00:00:00Z`));
}

function shape(tag, attributes) {
    const node = document.createElementNS(SVG, tag);

    for (const [name, value] of Object.entries(attributes))
        node.setAttribute(name, value);
    return node;
}

function chart(days, label) {
    const most = Math.max(1, ...days.map((day) => day.used));
    const width = 100 / days.length;
    const svg = shape("svg", { viewBox: "0 0 100 30", role: "img",
                               preserveAspectRatio: "none",
                               "aria-label": label });

    svg.append(shape("line", { class: "base", x1: 0, x2: 100, y1: 29.75,
                               y2: 29.75, "stroke-width": 0.5,
                               "vector-effect": "non-scaling-stroke" }));
    days.forEach((day, i) => {
        const height = day.used > 0 ? Math.max(0.8, day.used / most * 28) : 0;

        if (height > 0)
            svg.append(shape("rect", {
                class: day.overage > 0 ? "over" : "day",
                x: (i + 0.12) * width, width: width * 0.76,
                y: 29.5 - height, height }));
    });
    return svg;
}

function table(days, say, language, unit) {
    const cell = (tag, text, more = {}) => make(tag, more, text);
    const rows = [...days].reverse().filter((day) => day.used > 0)
        .map((day) => make("tr", {},
            cell("th", dayText(day.day, language, { dateStyle: "medium" }),
                 { scope: "row" }),
            cell("td", numberText(day.used, language)),
            cell("td", numberText(day.overage, language))));
    const head = make("tr", {},
        cell("th", say("page_day"), { scope: "col" }),
        cell("th", `${say("page_used")} (${unit})`, { scope: "col" }),
        cell("th", say("page_overage"), { scope: "col" }));

    return make("div", { class: "scroll", tabindex: "0", role: "region",
                         "aria-label": say("page_table") },
        make("table", {}, make("thead", {}, head), make("tbody", {}, ...rows)));
}

/** The history of a meter. */
export function history(meter, { label, now, language, say, count = 30 }) {
    const days = daysOf(meter, now, count);
    const total = days.reduce((sum, day) => sum + day.used, 0);
    const top = days.reduce((a, b) => b.used > a.used ? b : a);
    const short = { day: "numeric", month: "short" };
    const number = (n) => numberText(n, language);
    const text = say("page_history", {
        label, total: number(total), unit: meter.unit, n: count,
        date: dayText(top.day, language, short), most: number(top.used) });
    const box = make("div", { class: "history" }, chart(days, text),
        make("div", { class: "axis", "aria-hidden": "true" },
            make("span", {}, dayText(days[0].day, language, short)),
            make("span", {}, dayText(days.at(-1).day, language, short))));

    box.append(make("details", {}, make("summary", {}, say("page_table")),
                    table(days, say, language, meter.unit)));
    return box;
}
