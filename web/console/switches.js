// Switches: features that an operator can switch off, and the audit of changes.
import { get, part, put, remove, session } from "./api.js";
import { card, dialog, el, field, form, key, pill, table, time, toast } from "./dom.js";

export const title = "Switches";

const last = (audit, name) =>
    audit.find((one) => one.what === "feature" && one.id === name);

function confirm(feature, on, after) {
    const box = dialog(`Switch ${feature.name} ${on ? "on" : "off"}`,
        on ? null : el("p", {}, "Requests to it are answered 503 " +
                       (feature.message ? `with “${feature.message}”, ` : "") +
                       "at once and at all daemons that share the database."),
        form([field("Note", "note", { maxlength: 200, required: !on }, "why, for the audit")],
             on ? "Switch on" : "Switch off", async ({ note }) => {
                 const answer = await put(`v1/features/${part(feature.name)}`,
                                          { enabled: on }, note);

                 box.close();
                 toast(answer.persisted ? `${feature.name} is ${on ? "on" : "off"}`
                     : `${feature.name} is ${on ? "on" : "off"}, until the restart: ${answer.why}`);
                 after();
             }, on ? "main" : "danger"));
}

function switchTable(features, audit, after) {
    return table(["Feature", "State", "Last change", "Why", ""], features.map((one) => {
        const change = last(audit, one.name);

        return [key(one.name),
            el("span", {}, one.enabled ? pill("good", "on") : pill("bad", "off"),
               one.by_hand && el("div", { class: "small soft" }, "by hand")),
            change ? el("span", {}, change.by, " ", time(change.at)) : "–",
            change?.note ?? "",
            session.readOnly ? "" : el("span", { class: "row" },
                el("button", { class: one.enabled ? "danger" : "main",
                               onclick: () => confirm(one, !one.enabled, after) },
                   one.enabled ? "Switch off" : "Switch on"),
                one.by_hand && el("button", { onclick: async () => {
                    await remove(`v1/features/${part(one.name)}`);
                    toast(`the policy decides on ${one.name} again`);
                    after();
                } }, "Leave to the policy"))];
    }), "The policy has no features. Add one under `features` to be able to switch it off.");
}

const auditTable = (audit) => table(["When", "Who", "What", "Of", "Change", "Why"],
    audit.map((one) => [time(one.at), el("span", {}, one.by,
        el("div", { class: "small soft" }, one.origin ?? "")), one.what,
        el("span", {}, one.scope && one.scope !== one.what ? `${one.scope} ` : "",
           one.id ? key(one.id) : ""),
        el("span", { class: "mono small key" }, changes(one).map((line) => el("div", {}, line))),
        one.note ?? ""]),
    "No change was made yet.");

// ---- what an audited change has changed ----

const isMap = (value) =>
    value !== null && typeof value === "object" && !Array.isArray(value);
const text = (value) => value === undefined || value === null ? "" :
    typeof value === "string" ? value : JSON.stringify(value);

// { a: { b: 1 } } as [["a.b", "1"]]
const leaves = (value, name = "") => isMap(value)
    ? Object.entries(value).flatMap(([member, one]) =>
        leaves(one, name ? `${name}.${member}` : member))
    : text(value) ? [[name, text(value)]] : [];

// One line per member that differs, and the limit that it is about.
function changes({ what, before, after }) {
    const old = new Map(leaves(before)), now = new Map(leaves(after));
    const names = [...new Set([...old.keys(), ...now.keys()])];
    const none = isMap(before) && isMap(after) ? "none" : "";
    const arrow = (...states) => states.filter(Boolean).join(" → ");
    const state = (value) => value?.enabled ? "on" : "off";

    if (what === "feature" && none)
        return [arrow(state(before), state(after))];
    const same = (name) => old.get(name) === now.get(name);

    return names.filter((name) => name === "limit" || !same(name))
        .map((name) => (name && `${name}: `) + (same(name) ? now.get(name)
            : arrow(old.get(name) ?? none, now.get(name) ?? none)));
}

export function open(main) {
    const banner = el("div"), switches = el("div"), audit = el("div");

    main.append(el("h1", {}, "Switches"), banner, card("Features", switches),
                card("Audit of every change", audit));

    async function update() {
        try {
            const { features } = await get("v1/features");
            const changes = (await get("v1/audit?limit=100").catch(() => ({ audit: [] }))).audit;
            const off = features.filter((one) => !one.enabled);

            banner.replaceChildren(...off.length === 0 ? [] : [el("p", { class: "banner" },
                `Switched off: ${off.map((one) => one.name).join(", ")}.`,
                off.filter((one) => one.message).map((one) => el("span", { class: "small told" },
                    `Users of ${one.name} are told: “${one.message}”`)))]);
            switches.replaceChildren(switchTable(features, changes, update));
            audit.replaceChildren(auditTable(changes));
        } catch (failed) {
            if (failed.status)
                switches.replaceChildren(el("p", { class: "error" }, failed.message));
        }
    }
    update();
    return { stop() {} };
}
