// Policy: the policy in force, what a candidate would change, and what it would
// have decided in the last minutes.
import { choice, get, post, session } from "./api.js";
import { card, el, form, key, number, percent, pill, table, tile, time } from "./dom.js";

export const title = "Policy";

const MINUTES = [5, 10, 30, 60];

const lines = (entries) => el("pre", { tabindex: "0" }, entries.join("\n"));

const change = ({ newly_denied: more, newly_allowed: less }) => [
    more > 0 && pill("bad", `${number(more)} more denied`), " ",
    less > 0 && pill("good", `${number(less)} more allowed`),
    more + less === 0 && "the same"];

const share = (part) => part === 1 ? "all callers"
    : `${Number((100 * part).toPrecision(2))} % of the callers`;

// The daemon that recorded: the one that serves this page. Others are not asked.
const recorder = () => choice.known.length < 2 ? "this daemon"
    : `${choice.known.find((one) => one.self)?.name ?? "this daemon"} alone, the daemon ` +
      `that serves this page, and not of the other ${choice.known.length - 1},`;

// What the last minutes would have been.
function whatIf(found) {
    if (found.requests === 0)
        return [el("h3", {}, "The last minutes"),
                el("p", { class: "empty" }, "No request was recorded.")];
    return [el("h3", {}, "The last minutes under this policy"),
        el("div", { class: "tiles" },
           tile("Recorded requests", number(found.requests), share(found.share)),
           tile("Denied in force", percent(found.active, found.requests),
                `${number(found.active)} by the policy in force`),
           tile("Denied by the candidate", percent(found.candidate, found.requests),
                `${number(found.candidate)} by the candidate`,
                found.candidate > found.active ? "bad" : "good")),
        table(["Endpoint", "#Requests", "#Denied in force", "#By the candidate", "Change"],
            found.endpoints.map((one) => [key(one.name || "–"), number(one.requests),
                number(one.active), number(one.candidate), change(one)])),
        el("p", { class: "small soft" }, `Requests of ${recorder()} since `, time(found.from),
           ", decided again by both policies. Counts begin at zero, also those of quotas; " +
           "overrides, blocks and switches by hand are left out. " +
           `${number(found.denied)} of the requests were denied when they came.`)];
}

async function check({ text, minutes }) {
    try {
        const found = await post(`v1/policy/check?minutes=${minutes}`, text);

        return [el("p", {}, "This policy is valid. It would change:"), lines(found.changes),
                ...whatIf(found.what_if)];
    } catch (failed) {
        if (failed.code !== "POLICY_REFUSED")
            throw failed;
        return [el("p", { class: "error" }, "This policy would be refused:"),
                lines(failed.problems)];
    }
}

export function open(main) {
    const text = el("pre", { tabindex: "0", "aria-label": "The policy in force" });
    const warnings = el("div"), result = el("div", { "aria-live": "polite" });
    const candidate = el("textarea", { name: "text", required: true, spellcheck: "false",
                                       "aria-label": "Candidate" });
    const minutes = el("label", {}, "Decide again the requests of",
        el("select", { name: "minutes" }, MINUTES.map((n) =>
            el("option", { value: n, selected: n === 10 }, `the last ${n} minutes`))));

    main.append(el("h1", {}, "Policy"), warnings, el("div", { class: "two" },
        card("In force", text),
        card("Candidate",
             el("p", { class: "soft" }, session.readOnly
                 ? "The read-only token cannot check a policy."
                 : "Paste a policy to see what it would change, and what the last minutes " +
                   "would have been. Nothing is activated."),
             !session.readOnly && form([candidate, minutes], "Compare", async (given) => {
                 result.replaceChildren(card("Compared", ...await check(given)));
                 result.scrollIntoView({ block: "nearest" });
             }))), result);

    async function update() {
        try {
            const active = await get("v1/policy");

            text.textContent = active;
            if (session.readOnly)
                return;

            const { changes } = await post("v1/policy/check", active);
            const found = changes.filter((one) => /warning/i.test(one));

            warnings.replaceChildren(...found.length === 0 ? []
                : [card("Warnings", lines(found))]);
        } catch {
            // the policy in force may have secrets that a posted one cannot have
        }
    }
    update();
    return { stop() {} };
}
