// Webhooks that go out: messages, their deliveries and attempts.
import { get, part, post, session } from "./api.js";
import { card, dialog, duration, el, key, number, pill, table, time, toast } from "./dom.js";

export const title = "Webhooks";

const PAGE = 50;
const KINDS = { delivered: "good", dead: "bad", disabled: "bad" };

const state = (name) => pill(KINDS[name] ?? "", name);

// The state of a message: of the delivery that needs a look most.
function summary({ deliveries, delivered, waiting, dead }) {
    if (deliveries === 0)
        return "no endpoint";
    return el("span", {}, dead > 0 ? state("dead") : waiting > 0 ? state("waiting")
        : delivered === deliveries ? state("delivered") : state("dropped"),
        deliveries > 1 && el("div", { class: "small soft" },
                             `${number(delivered)} of ${number(deliveries)} delivered`));
}

const answer = (attempt) => !attempt ? "–"
    : attempt.status ? String(attempt.status) : attempt.error || "no answer";

const next = (text) => text ? time(text) : "–";

const detailsButton = (id, after) => el("button", {
    "aria-label": `Details of ${id}`,
    onclick: () => show(id, after).catch((failed) => toast(failed.message)),
}, "Details");

function deliveryTable({ deliveries, attempts }) {
    const last = (endpoint) => attempts.filter((one) => one.endpoint === endpoint).at(-1);

    return table(["Endpoint", "State", "#Attempts", "Last answer", "Next try"],
        deliveries.map((one) => [
            el("span", {}, key(one.url || "removed"),
               el("div", { class: "small soft" }, one.endpoint)),
            state(one.state), number(one.attempts), answer(last(one.endpoint)),
            one.state === "disabled" ? "–" : next(one.next)]),
        "No endpoint of the organisation wants this type.");
}

const attemptTable = (attempts) => table(["When", "Endpoint", "#Attempt", "Answer", "Took"],
    [...attempts].reverse().map((one) => [time(one.at), one.endpoint, number(one.attempt),
        el("span", {}, answer(one), one.answer && el("div", { class: "small soft key" }, one.answer)),
        duration(one.latency_ms)]), "There was no attempt yet.");

async function show(id, after) {
    const message = await get(`v1/webhooks/messages/${part(id)}`);
    const box = dialog(el("span", {}, "Webhook ", key(message.type), " of ", key(message.org)),
        el("p", { class: "small soft" }, el("code", {}, id), " ", time(message.at)),
        deliveryTable(message),
        !session.readOnly && message.deliveries.length > 0 && el("p", {}, el("button", {
            class: "main", onclick: async () => {
                try {
                    await post(`v1/webhooks/messages/${part(id)}/replay`);
                    toast("the message is sent again");
                    box.close();
                    after();
                } catch (failed) {
                    toast(failed.message);
                }
            } }, "Send again")),
        el("h3", {}, "Attempts"), attemptTable(message.attempts));
}

const messageTable = (messages, after) => table(
    ["When", "Organisation", "Type", "State", ""],
    messages.map((one) => [time(one.at), key(one.org), key(one.type), summary(one),
                           detailsButton(one.id, after)]), "No message yet. Applications send them with POST /v1/webhooks/messages.");

const failedTable = (attempts, after) => table(
    ["When", "Organisation", "Endpoint", "#Attempt", "Answer", "Next try", ""],
    attempts.map((one) => [time(one.at), key(one.org), one.endpoint, number(one.attempt),
        answer(one), one.result === "dead" ? state("dead") : next(one.next),
        detailsButton(one.message, after)]), "No attempt has failed.");

export function open(main) {
    const messages = el("div"), failed = el("div");
    const older = el("button", { onclick: () => { pages.push(last); update(); } }, "Older");
    const newer = el("button", { onclick: () => { pages.pop(); update(); } }, "Newer");
    const filter = el("form", { class: "row", role: "search", onsubmit: (event) => {
        event.preventDefault();
        pages.length = 0;
        update();
    } }, el("input", { name: "org", "aria-label": "Organisation", placeholder: "organisation" }),
         el("input", { name: "type", "aria-label": "Type", placeholder: "type, like order.*" }),
         el("button", { class: "main" }, "Filter"));
    const turns = el("div", { class: "row", hidden: true }, newer, older);
    const pages = []; // the last message of each page before
    let last = "", turn = 0;

    main.append(el("div", { class: "row between" }, el("h1", {}, title), filter),
        card("Messages, the newest first", messages),
        turns,
        card("Attempts that failed", failed));

    // What has the focus is not replaced under it, unless something was changed.
    async function update(isChanged = true) {
        const given = new URLSearchParams([...new FormData(filter)].filter(([, text]) => text));
        const org = given.get("org") ?? "";
        const mine = ++turn;

        given.set("limit", String(PAGE));
        if (pages.length > 0)
            given.set("before", pages.at(-1));
        try {
            const { messages: rows } = await get(`v1/webhooks/messages?${given}`);
            const { attempts } = await get("v1/webhooks/attempts?result=failed&limit=20" +
                                           (org && `&org=${part(org)}`));

            if (mine !== turn)
                return;
            last = rows.at(-1)?.id ?? "";
            turns.hidden = pages.length === 0 && rows.length < PAGE;
            older.disabled = rows.length < PAGE;
            newer.disabled = pages.length === 0;
            for (const [place, drawn] of [[messages, messageTable(rows, update)],
                                          [failed, failedTable(attempts, update)]])
                if (isChanged || !place.contains(document.activeElement))
                    place.replaceChildren(drawn);
        } catch (refused) {
            if (!refused.status || mine !== turn)
                return;
            for (const place of [messages, failed])
                place.replaceChildren(el("p", { class: "error" }, refused.message));
        }
    }

    const timer = setInterval(() => document.hidden || update(false), 10_000);

    update();
    return { stop: () => clearInterval(timer) };
}
