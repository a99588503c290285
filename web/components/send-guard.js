// send-guard.js -- <sluice-send-guard>: no send while nothing is left.
//
//     <sluice-send-guard name="assistant">
//         <form>... <button>Send</button></form>
//     </sluice-send-guard>
//
//     guard.learn(await fetch("/api/assistant/query", ...));
//
// At X-RateLimit-Remaining: 0, and after a 429, the submit button is blocked
// with a tooltip until the reset, in all tabs that have a guard of this name.

import { readAnswer } from "./answer.js";
import { Blocker } from "./blocker.js";
import { countDown } from "./clock.js";
import { SluiceElement, define, make, setText } from "./element.js";
import { dateText, numberText, spanText } from "./messages.js";
import { LimitState } from "./shared.js";

let count = 0;

export class SluiceSendGuard extends SluiceElement {
    static observedAttributes = ["name", "low", "lang", "messages"];

    static css = `
:host { position: relative; }
.note { color: var(--_muted); font-size: 0.9em; margin-top: 0.25rem;
    font-variant-numeric: tabular-nums; }
::slotted([aria-disabled=true]) { opacity: 0.55; cursor: not-allowed; }
::slotted([slot=tooltip]) {
    position: absolute; inset-block-start: calc(100% + 0.375rem);
    inset-inline-end: 0; z-index: 10; max-width: min(22rem, 100%);
    background: var(--_text); color: var(--_bg); padding: 0.375rem 0.625rem;
    border-radius: calc(var(--_radius) * 0.6); font-size: 0.9em;
    box-shadow: 0 2px 8px rgb(0 0 0 / 0.25); width: max-content;
}
::slotted([slot=tooltip][hidden]) { display: none; }
`;

    #state = null;
    #blocker = null;
    #parts = null;
    #stop = null;
    #open = false;

    /** Learns from a Response of fetch(), or from what readAnswer() made of
     * one. Returns what was read. */
    async learn(response) {
        const answer = typeof response.clone === "function"
            ? await readAnswer(response) : response;

        this.#state?.learn(answer);
        return answer;
    }

    get blocked() {
        return this.#state?.blocked ?? false;
    }

    /** Requests left by the last answer; null if unknown. */
    get remaining() {
        return this.#state?.remaining ?? null;
    }

    connectedCallback() {
        this.#blocker ??= new Blocker(this);
        this.#build();
        this.#join();
        super.connectedCallback();
    }

    disconnectedCallback() {
        this.#leave();
    }

    attributeChangedCallback(name, before, after) {
        if (!this.#parts || !this.isConnected || before === after)
            return; // connectedCallback() reads them
        if (name === "name")
            this.#join();
        this.update();
    }

    #join() {
        this.#leave();
        this.#state = new LimitState(this.getAttribute("name") || "default");
        this.#state.addEventListener("change", () => this.#changed());
        if (this.#state.remaining !== null)
            this.#changed();
    }

    #leave() {
        this.#stop?.();
        this.#stop = null;
        this.#state?.close();
    }

    #build() {
        if (this.#parts)
            return;

        const id = `sluice-tooltip-${++count}`;
        const p = {
            // In the page, not in the shadow root: aria-describedby of the
            // button must find it.
            tooltip: make("span", { slot: "tooltip", role: "tooltip", id,
                                    hidden: true }),
            note: make("div", { class: "note", part: "note", hidden: true }),
            status: make("div", { class: "reader", role: "status" }),
        };

        this.append(p.tooltip);
        this.shadowRoot.append(make("slot"), p.note,
                               make("slot", { name: "tooltip" }), p.status);
        this.#parts = p;
        for (const name of ["pointerenter", "focusin"])
            this.addEventListener(name, () => this.#show(true));
        for (const name of ["pointerleave", "focusout"])
            this.addEventListener(name, () => this.#show(false));
        // A touch has no hover: the blocked button itself opens it.
        this.addEventListener("pointerdown", () => this.#show(true));
        this.addEventListener("keydown", (event) => {
            if (event.key === "Escape")
                this.#show(false);
        });
    }

    #show(open) {
        this.#open = open;
        this.#parts.tooltip.hidden = !(open && this.blocked);
    }

    #changed() {
        const { blocked, deadline } = this.#state;

        this.#stop?.();
        this.#stop = null;
        if (blocked)
            this.#stop = countDown(deadline, (seconds) => this.#tick(seconds));
        this.update();
        if (blocked)
            setText(this.#parts.status, this.#text());
    }

    #tick(seconds) {
        if (seconds > 0) {
            this.update();
            return;
        }
        this.#stop = null;
        this.#state.expire();
        this.update();
        setText(this.#parts.status, this.say("ready"));
        this.emit("sluice-ready");
    }

    #text() {
        const { deadline, resetAt } = this.#state;
        const seconds = deadline?.seconds() ?? null;

        if (seconds === null)
            return this.say("blocked_unknown");

        const at = resetAt ?? Date.now() + seconds * 1000;

        return this.say("blocked", {
            date: dateText(at, this.language, { now: at - seconds * 1000 }),
            time: spanText(seconds, this.language),
        });
    }

    update() {
        const p = this.#parts;

        if (!p || !this.#state)
            return;

        const { blocked, remaining } = this.#state;
        const low = Number(this.getAttribute("low") ?? 3);
        const near = remaining !== null && remaining > 0 && remaining <= low;

        this.#blocker.set(blocked);
        this.toggleAttribute("data-blocked", blocked);
        if (blocked)
            setText(p.tooltip, this.#text());
        for (const action of this.#blocker.actions)
            if (blocked)
                action.setAttribute("aria-describedby", p.tooltip.id);
            else if (action.getAttribute("aria-describedby") === p.tooltip.id)
                action.removeAttribute("aria-describedby");
        p.note.hidden = !near;
        setText(p.note, near ? this.say("left", {
            n: numberText(remaining, this.language), count: remaining }) : "");
        p.tooltip.hidden = !(this.#open && blocked);
    }
}

define("sluice-send-guard", SluiceSendGuard);
