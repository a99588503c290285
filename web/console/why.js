// A record of /v1/denials as a sentence, like `sluice why`.
import { daemonName } from "./api.js";
import { duration, el, key, number, time } from "./dom.js";

// The sentences of `sluice why`.
const REASONS = {
    feature: "The feature behind this route is switched off.",
    anonymous: "The route needs an identity; this request had none.",
    missing: "The limit counts by a value that the request lacked.",
    role: "The caller has none of the roles of this route.",
    capability: "The plan does not include this.",
    unknown_plan: "The policy does not know the plan of the caller.",
    unknown_subject: "The caller is not registered (unknown_subject: deny).",
    store: "The store did not answer; the policy denies then.",
    webhook: "The signature of the webhook is not valid.",
    webhooks_full: "The memory of webhooks is full.",
    require: "A header that the route requires is missing or wrong.",
    cost: "The cost of the request could not be read.",
    backlog: "The backlog behind this route is too long.",
    running: "The same request was still running.",
    reused: "The idempotency key belongs to another request.",
    path: "The path has too many readings for one decision.",
    long_path: "The path is too long.",
    holds: "There is no room for another hold.",
    queue: "The wait for capacity would have been too long.",
    guard: "Another request of the same guard was running.",
    blocked: "The caller is blocked.",
    penalty: "The caller went on after denials and is blocked now.",
};

const units = (n) => `${number(n)} unit${n === 1 ? "" : "s"}`;

function reason(record) {
    const { limit, scope, cost, capacity, remaining } = record;

    switch (record.reason) {
    case "limit":
    case "concurrency":
        return [`The limit `, key(limit), ` (per ${scope || "all callers"}) allows ` +
                `${number(capacity)}; ${units(remaining)} were left and it needed ` +
                `${number(cost)}.`];
    case "quota":
        return [`The quota `, key(limit), ` of the ${scope} has ${units(capacity)}; ` +
                `${units(remaining)} were left and it needed ${number(cost)}.`];
    default:
        return [REASONS[record.reason] ?? `Reason: ${record.reason}.`];
    }
}

// With other reasons Retry-After is an estimate, or what the policy says.
const CERTAIN = ["limit", "quota", "blocked", "penalty"];

function retry({ reason: why, retry_after_ms: wait }) {
    if (wait === undefined || wait === null)
        return "";
    return CERTAIN.includes(why) ? ` It could have passed ${duration(wait)} later.`
        : " It is not known when it would have passed; the client was told to retry " +
          `after ${duration(wait)}.`;
}

export function sentence(record) {
    const callers = Object.entries(record.caller ?? {})
        .filter(([scope, id], _, all) => all.length === 1 || scope !== "ip" || id !== "unknown")
        .flatMap(([scope, id]) => [`${scope} `, key(id), " · "]);

    return el("li", {},
        el("div", { class: "row" }, el("strong", {}, `${record.status} ${record.code}`),
           time(record.at), el("span", { class: "soft" }, `at ${record.endpoint || "–"}`)),
        el("div", {}, reason(record),
           retry(record),
           record.line && el("span", { class: "soft" }, ` Policy line ${record.line}.`)),
        el("div", { class: "small soft" }, callers, `plan ${record.plan || "–"} · `,
           el("code", {}, record.request_id), ` · ${daemonName(record.daemon)}`));
}

export const list = (records, empty) => records.length === 0
    ? el("p", { class: "empty" }, empty)
    : el("ul", { class: "why" }, records.map(sentence));
