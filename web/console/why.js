// A record of /v1/denials as a sentence, like `sluice why`.
import { duration, el, key, number, time } from "./dom.js";

const units = (n) => `${number(n)} unit${n === 1 ? "" : "s"}`;

function reason(record) {
    const { limit, scope, cost, capacity, remaining } = record;

    switch (record.reason) {
    case "limit":
        return [`The limit `, key(limit), ` (per ${scope || "all callers"}) allows ` +
                `${number(capacity)}; ${units(remaining)} were left and it needed ` +
                `${number(cost)}.`];
    case "quota":
        return [`The quota `, key(limit), ` of the ${scope} has ${units(capacity)}; ` +
                `${units(remaining)} were left and it needed ${number(cost)}.`];
    case "feature":
        return ["The feature was switched off."];
    case "role":
        return ["The role of the caller is not allowed."];
    case "backlog":
        return ["Too many jobs were waiting."];
    case "store":
        return ["The store did not answer, and the policy denies then."];
    default:
        return [`Reason: ${record.reason}.`];
    }
}

export function sentence(record) {
    const callers = Object.entries(record.caller ?? {})
        .flatMap(([scope, id]) => [`${scope} `, key(id), " "]);

    return el("li", {},
        el("div", { class: "row" }, el("strong", {}, `${record.status} ${record.code}`),
           time(record.at), el("span", { class: "soft" }, `at ${record.endpoint || "–"}`)),
        el("div", {}, reason(record),
           record.retry_after_ms !== undefined &&
               ` It could have passed ${duration(record.retry_after_ms)} later.`,
           record.line && el("span", { class: "soft" }, ` Policy line ${record.line}.`)),
        el("div", { class: "small soft" }, callers, `plan ${record.plan || "–"} · `,
           el("code", {}, record.request_id), ` · ${record.daemon}`));
}

export const list = (records, empty) => records.length === 0
    ? el("p", { class: "empty" }, empty)
    : el("ul", { class: "why" }, records.map(sentence));
