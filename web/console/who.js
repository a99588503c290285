// Who: the most refused users, organisations and addresses, and what can be done
// for or against each of them.
import { chosen, daemons, get, part, patch, post, remove, session } from "./api.js";
import { card, dialog, el, field, form, key, number, percent, table, time, toast }
    from "./dom.js";
import { list } from "./why.js";

export const title = "Who";

const NAMES = { user: "Users", org: "Organisations", ip: "Addresses" };
const REGISTERED = ["user", "org"]; // the registry has these

// ---- one subject ----

async function why(scope, id) {
    const { denials } = await get(
        `v1/denials?scope=${part(scope)}&id=${part(id)}&limit=20`);

    return list(denials, "No denial of this caller is recorded.");
}

function meter(one) {
    const full = one.share >= 100 ? "bad" : one.share >= 80 ? "warn" : "good";

    return el("li", {}, el("div", { class: "row between" }, key(one.name),
        el("span", { class: `pill ${full}` }, `${one.share} %`)),
        el("progress", { max: 100, value: Math.min(one.share, 100),
                         "aria-label": `${one.name}: ${one.share} percent used` }),
        el("div", { class: "small soft" },
           `${number(one.used)} of ${number(one.limit ?? 0)} ${one.unit}, plan ${one.plan}`,
           one.reset && [", resets ", time(one.reset)]));
}

async function usage(scope, id) {
    const { meters } = await get(`v1/usage/${part(scope)}/${part(id)}`);

    return meters.length === 0
        ? el("p", { class: "empty" }, "No quota counts this subject.")
        : el("ul", { class: "why" }, meters.map(meter));
}

const limitField = (limits, label = "Limit") => el("label", {}, label,
    el("select", { name: "limit" }, limits.map((name) => el("option", {}, name))));
const noteField = () => field("Note", "note", { maxlength: 200 }, "why, for the audit");

const actions = {
    Override: (scope, id, limits, done) => form([
        limitField(limits),
        field("Rate", "rate", { required: true, placeholder: "100/min" },
              "as in the policy"),
        field("Until", "until", { required: true, type: "date" }, "the override ends then"),
        noteField(),
    ], "Override the limit", async ({ limit, rate, until, note }) => {
        await patch(`v1/subjects/${part(scope)}/${part(id)}`, {
            overrides: { [limit]: { rate, until } }, note }, note);
        done(`${limit} of ${id} is ${rate} until ${until}`);
    }),
    Credit: (scope, id, limits, done) => form([
        limitField(limits, "Quota"),
        field("Units", "amount", { required: true, type: "number", min: 1 }),
        noteField(),
    ], "Give credits", async ({ limit, amount, note }) => {
        await post(`v1/credits/${part(scope)}/${part(id)}`, {
            limit, amount: Number(amount), note }, note);
        done(`${amount} units of ${limit} were given to ${id}`);
    }),
    Reset: (scope, id, limits, done) => form([
        limitField(limits), noteField(),
    ], "Reset the count", async ({ limit, note }) => {
        await remove(`v1/keys/${part(limit)}/${part(id)}`, note);
        done(`${limit} of ${id} begins again`);
    }),
    Block: (scope, id, limits, done) => form([
        field("For", "until", { required: true, value: "1h" },
              "a duration such as 2h, or a time"),
        noteField(),
    ], "Block", async ({ until, note }) => {
        await post(`v1/blocks/${part(scope)}/${part(id)}`, { until, note }, note);
        done(`${id} is blocked`);
    }, "danger"),
};

async function show(scope, id, limits, after) {
    const place = el("div", { "aria-live": "polite" });
    const views = { Why: () => why(scope, id), Usage: () => usage(scope, id) };
    const done = (text) => {
        box.close();
        toast(text);
        after();
    };

    if (!session.readOnly)
        for (const [name, make] of Object.entries(actions))
            if (REGISTERED.includes(scope) || name === "Reset" ||
                (name === "Block" && scope === "ip"))
                views[name] = () => make(scope, id, limits, done);

    const buttons = Object.entries(views).map(([name, view]) => el("button", {
        "aria-pressed": "false", onclick: () => open(name, view) }, name));
    const heading = el("span", {}, `${scope} `, key(id));
    const box = dialog(heading, el("div", { class: "row" }, buttons), el("hr"), place);

    async function open(name, view) {
        buttons.forEach((one) => one.setAttribute("aria-pressed",
                                                  String(one.textContent === name)));
        try {
            place.replaceChildren(await view());
        } catch (failed) {
            place.replaceChildren(el("p", { class: "error" }, failed.message));
        }
    }
    await open("Why", views.Why);
}

// What is known of a caller without its name: which daemons refused it, and by
// which limits.
function showNameless(scope, one) {
    const text = one.hashed
        ? "Another daemon refused this caller and tells only a hash of its name. If you " +
          "know the name, look it up above: why, usage and changes need the name. With " +
          "“denials: ids” in the policy, daemons tell each other the names."
        : "The name is longer than the daemon keeps for this list. Look up the whole name " +
          "above.";

    dialog(el("span", {}, `${scope} `, key(one.hashed ? `${one.id.slice(0, 13)}…` : `${one.id}…`)),
        el("p", { class: "soft" }, text),
        table(["Daemon", "Limit", "#Denied", "#Share"], one.rows.map((row) => [
            row.daemon, row.limit, number(row.denied),
            percent(row.denied, row.denied + row.allowed)])));
}

// ---- the lists ----

// The most refused of all chosen daemons by subject: a subject may be refused by
// several limits, at several daemons. Other daemons tell hashes, unless the policy
// has `denials: ids`; a name that this one knows replaces its hash.
function bySubject(known, scope) {
    const found = new Map();
    const rows = chosen(known).flatMap(({ name, top }) =>
        top.map((row) => ({ ...row, daemon: name })));
    const names = new Map(known.flatMap(({ top }) => top)
        .filter((row) => row.key !== undefined && row.hash).map((row) => [row.hash, row]));

    for (const row of rows.filter((one) => one.scope === scope && one.denied > 0)) {
        const { key: name, cut } = row.key === undefined ? names.get(row.hash) ?? {} : row;
        const one = found.get(row.hash ?? row.key) ??
            { id: name ?? row.hash, cut, hashed: name === undefined, denied: 0, allowed: 0,
              limits: new Set(), rows: [] };

        one.denied += row.denied;
        one.allowed += row.allowed;
        one.limits.add(row.limit);
        one.rows.push(row);
        found.set(row.hash ?? row.key, one);
    }
    return [...found.values()].sort((a, b) => b.denied - a.denied).slice(0, 20)
        .map((one) => ({ ...one, limits: [...one.limits] }));
}

// Refusals of blocked callers have this name instead of a limit's.
const BLOCKED = "(blocked)";

// A subject that only blocks refuse has all limits of its scope to choose from.
function showSubject(scope, { id, limits }, after) {
    const real = limits.filter((name) => name !== BLOCKED);

    return real.length > 0 ? show(scope, id, real, after) : showAny(scope, id, after);
}

const subjectTable = (scope, subjects, after) => table(
    ["Name", "#Denied", "#Share", "Limits", ""],
    subjects.map((one) => [
        one.hashed ? el("span", {}, key(`${one.id.slice(0, 13)}…`),
                        el("div", { class: "small soft" }, "hashed by another daemon"))
            : key(one.id + (one.cut ? "…" : "")), number(one.denied),
        percent(one.denied, one.denied + one.allowed), one.limits.join(", "),
        el("button", {
            "aria-label": `Details of ${scope} ${one.id}`,
            onclick: () => one.cut || one.hashed ? showNameless(scope, one)
                : showSubject(scope, one, after) }, "Details")]),
    "No caller was refused.");

function blockTable(blocks, after) {
    return table(["Blocked", "Until", "By", "Note", ""], blocks.map((one) => [
        el("span", {}, `${one.scope} `, key(one.id)), one.until ? time(one.until) : "lifted by hand",
        one.by ?? "", one.note ?? "",
        !session.readOnly && el("button", { onclick: async () => {
            await remove(`v1/blocks/${part(one.scope)}/${part(one.id)}`);
            toast(`${one.id} is not blocked any more`);
            after();
        } }, "Unblock")]), "No caller is blocked.");
}

function search(after) {
    return el("form", { class: "row", role: "search", onsubmit: (event) => {
        const given = Object.fromEntries(new FormData(event.target));

        event.preventDefault();
        if (given.id)
            (given.scope === "request" ? showRequest : showAny)(given.scope, given.id, after);
    } }, el("select", { name: "scope", "aria-label": "Kind" },
            [["user", "User"], ["org", "Organisation"], ["ip", "Address"],
             ["request", "Request id"]].map(([value, text]) => el("option", { value }, text))),
         el("input", { name: "id", "aria-label": "Name", placeholder: "name or id" }),
         el("button", { class: "main" }, "Look up"));
}

async function showRequest(_, id) {
    const { denials } = await get(`v1/denials?request_id=${part(id)}`);

    dialog(el("span", {}, "Request ", key(id)), list(denials, "This request is not recorded."));
}

async function showAny(scope, id, after) {
    const { limits } = await get("v1/limits");

    await show(scope, id, limits.filter((one) => one.per.includes(scope))
        .map((one) => one.name), after);
}

export function open(main) {
    const places = Object.keys(NAMES).map((scope) => [scope, el("div", { class: "aligned" })]);
    const blocks = el("div");

    main.append(
        el("div", { class: "row between" }, el("h1", {}, "Who"), search(() => update())),
        el("p", { class: "soft" }, "The most refused since the daemon started. Details has " +
           "the reasons, usage, and what you can do."),
        ...places.map(([scope, place]) => card(NAMES[scope], place)),
        card("Blocks", blocks));

    // What has the focus is not replaced under it, unless something was changed.
    async function update(isChanged = true) {
        const isFree = (place) => isChanged || !place.contains(document.activeElement);

        try {
            const known = await daemons();

            for (const [scope, place] of places)
                if (isFree(place))
                    place.replaceChildren(subjectTable(scope, bySubject(known, scope), update));
            if (isFree(blocks))
                blocks.replaceChildren(blockTable((await get("v1/blocks")).blocks, update));
        } catch (failed) {
            if (failed.status)
                blocks.replaceChildren(el("p", { class: "error" }, failed.message));
        }
    }

    const timer = setInterval(() => document.hidden || update(false), 10_000);

    update();
    return { stop: () => clearInterval(timer) };
}
