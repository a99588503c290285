// Policy: the policy in force, and what a candidate would change.
import { get, post, session } from "./api.js";
import { card, el, form } from "./dom.js";

export const title = "Policy";

const lines = (entries) => el("pre", { tabindex: "0" }, entries.join("\n"));

async function check(text) {
    try {
        const { changes } = await post("v1/policy/check", text);

        return [el("p", {}, "This policy is valid. It would change:"), lines(changes)];
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

    main.append(el("h1", {}, "Policy"), warnings, el("div", { class: "two" },
        card("In force", text),
        card("Candidate",
             el("p", { class: "soft" }, session.readOnly
                 ? "The read-only token cannot check a policy."
                 : "Paste a policy to see what it would change. Nothing is activated."),
             !session.readOnly && form([candidate], "Compare", async (given) => {
                 result.replaceChildren(...await check(given.text));
             }), result)));

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
