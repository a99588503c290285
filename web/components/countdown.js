// countdown.js -- <sluice-countdown>: a denial as a friendly message.
//
//     <sluice-countdown><button>Save</button></sluice-countdown>
//
//     countdown.show(await fetch("/api/save", { method: "POST" }));
//
// A 429 shows when the action is possible again, and blocks the action inside
// until then. A 402 shows the date of the reset and a link to upgrade. A 503
// shows the banner of the server. Any other answer clears the message.
//
// The visible seconds are a timer without announcements. A live region speaks
// twice: when the message appears, and when the time has come.

import { readAnswer, safeLink } from "./answer.js";
import { Blocker } from "./blocker.js";
import { Deadline, countDown } from "./clock.js";
import { SluiceElement, define, make, setText } from "./element.js";
import { clockText, dateText, isNear, spanText } from "./messages.js";

// Longer waits are shown as a date.
const LONG = 24 * 3600;

const ICONS = {
    rate: "M12 7v5l3.5 2M12 3a9 9 0 1 0 0 18a9 9 0 0 0 0-18",
    plan: "M4 19h16M6 16V11M11 16V5M16 16v-3M21 8l-3-3l-3 3M18 5v6",
    unavailable: "M12 9v4m0 3.5v.01M10.3 4.2L2.7 17.4a2 2 0 0 0 1.7 3h15.2a2 " +
        "2 0 0 0 1.7-3L13.7 4.2a2 2 0 0 0-3.4 0",
};
ICONS.other = ICONS.unavailable;

const SHOWN = new Set(["rate", "plan", "unavailable", "other"]);

function icon(kind) {
    const space = "http://www.w3.org/2000/svg";
    const svg = document.createElementNS(space, "svg");
    const path = document.createElementNS(space, "path");

    for (const [name, value] of Object.entries({
        viewBox: "0 0 24 24", fill: "none", stroke: "currentColor",
        "stroke-width": "2", "stroke-linecap": "round",
        "stroke-linejoin": "round", "aria-hidden": "true" }))
        svg.setAttribute(name, value);
    path.setAttribute("d", ICONS[kind]);
    svg.append(path);
    return svg;
}

export class SluiceCountdown extends SluiceElement {
    static observedAttributes = ["retry-after", "kind", "message", "lang",
                                 "upgrade-url", "messages"];

    static css = `
.box {
    display: grid; grid-template-columns: auto 1fr auto; gap: 0.25rem 0.75rem;
    align-items: start; padding: 0.75rem 0.875rem; margin-bottom: 0.625rem;
    background: var(--_bg); border: 1px solid var(--_border);
    border-inline-start: 4px solid var(--_tone); border-radius: var(--_radius);
    position: relative; overflow: hidden;
}
.box[data-kind=rate] { --_tone: var(--_accent); }
.box[data-kind=plan] { --_tone: var(--_high); }
.box[data-kind=unavailable], .box[data-kind=other] { --_tone: var(--_over); }
svg { width: 1.375rem; height: 1.375rem; color: var(--_tone); margin-top: 1px; }
.title { font-weight: 650; }
.message, .when { overflow-wrap: anywhere; }
.when { color: var(--_muted); }
.clock {
    font-variant-numeric: tabular-nums; font-weight: 650; font-size: 1.375em;
    line-height: 1.2; color: var(--_text); min-width: 3ch; text-align: end;
}
.actions { grid-column: 2 / -1; margin-top: 0.375rem; }
.bar {
    position: absolute; inset: auto 0 0 0; height: 3px;
    background: var(--_tone); transform-origin: left; opacity: 0.7;
}
:host(:dir(rtl)) .bar { transform-origin: right; }
@media (prefers-reduced-motion: no-preference) {
    .bar { transition: transform 1s linear; }
}
::slotted([aria-disabled=true]) { opacity: 0.55; cursor: not-allowed; }
`;

    #answer = null;
    #deadline = null;
    #total = 0;
    #stop = null;
    #blocker = null;
    #parts = null;

    /** Shows a Response of fetch(), or what readAnswer() made of one. Returns
     * what was read. */
    async show(response) {
        const answer = typeof response.clone === "function"
            ? await readAnswer(response) : response;

        this.#start(SHOWN.has(answer.kind) ? answer : null);
        return answer;
    }

    /** Removes the message and frees the action. */
    clear() {
        this.#start(null);
    }

    /** Is the action blocked? */
    get waiting() {
        return this.#deadline !== null && this.#deadline.left() > 0;
    }

    connectedCallback() {
        this.#blocker ??= new Blocker(this);
        this.#build();
        super.connectedCallback();
        if (this.hasAttribute("retry-after") && !this.#answer)
            this.#fromAttributes();
        else if (this.#answer)
            this.#begin();
    }

    disconnectedCallback() {
        this.#stop?.();
        this.#stop = null;
    }

    attributeChangedCallback(name, before, after) {
        if (!this.#parts || !this.isConnected || before === after)
            return; // connectedCallback() reads them
        if (name === "retry-after" || name === "kind")
            this.#fromAttributes();
        else
            this.update();
    }

    #fromAttributes() {
        const seconds = Number(this.getAttribute("retry-after") ?? NaN);
        const known = Number.isFinite(seconds);
        const kind = this.getAttribute("kind") ?? "rate";

        if (!known && !this.hasAttribute("kind")) {
            this.clear();
            return;
        }
        this.#start({
            kind: SHOWN.has(kind) ? kind : "other", message: null,
            waitMs: known ? seconds * 1000 : null, at: undefined,
            until: known ? Date.now() + seconds * 1000 : null,
            upgradeUrl: null,
        });
    }

    #start(answer) {
        this.#stop?.();
        this.#stop = null;
        this.#answer = answer;
        this.#total = answer?.waitMs ?? 0;
        this.#deadline = answer && answer.waitMs !== null
            ? new Deadline(answer.waitMs, { at: answer.at }) : null;
        if (this.isConnected)
            this.#begin();
    }

    #begin() {
        this.update();
        this.#announce();
        this.#stop?.();
        this.#stop = this.#deadline && this.#deadline.left() > 0
            ? countDown(this.#deadline, (seconds) => this.#tick(seconds)) : null;
        if (!this.#stop)
            this.#blocker?.set(false);
    }

    #build() {
        if (this.#parts)
            return;

        const part = (tag, name, more = {}) =>
            make(tag, { class: name, part: name, ...more });
        const p = {
            icon: part("div", "icon"), title: part("p", "title"),
            message: part("p", "message"), when: part("p", "when"),
            clock: part("div", "clock", { role: "timer", "aria-live": "off" }),
            upgrade: make("a", { class: "button strong", part: "upgrade" }),
            bar: part("div", "bar"),
            status: make("div", { class: "reader", role: "status" }),
        };

        p.actions = make("div", { class: "actions" }, p.upgrade);
        p.box = make("div", { class: "box", part: "box", hidden: true },
                     p.icon, make("div", {}, p.title, p.message, p.when),
                     p.clock, p.actions, p.bar);
        this.shadowRoot.append(p.box, p.status, make("slot"));
        this.#parts = p;
    }

    #tick(seconds) {
        this.#blocker.set(seconds > 0);
        if (seconds > 0) {
            this.update();
            return;
        }
        this.#stop = null;
        this.#answer = null;
        this.update();
        setText(this.#parts.status, this.say("ready"));
        this.emit("sluice-ready");
    }

    #whenText(seconds) {
        const { kind, until } = this.#answer;

        if (seconds === null)
            return this.say(`${kind}_unknown`);
        if (kind === "plan" || seconds >= LONG) {
            const now = until - seconds * 1000; // by the server's clock

            return this.say(isNear(until, now) ? "plan_at" : "plan",
                            { date: dateText(until, this.language, { now }) });
        }
        return this.say(kind, { time: spanText(seconds, this.language) });
    }

    update() {
        const p = this.#parts;
        const answer = this.#answer;

        if (!p)
            return;
        p.box.hidden = !answer;
        if (!answer)
            return;

        const seconds = this.#deadline?.seconds() ?? null;
        const counts = seconds !== null && seconds < LONG &&
            answer.kind !== "plan";
        const link = safeLink(this.getAttribute("upgrade-url") ?? "", undefined);
        const url = answer.upgradeUrl ??
            (this.hasAttribute("upgrade-url") ? link : null);

        if (p.box.dataset.kind !== answer.kind)
            p.icon.replaceChildren(icon(answer.kind));
        p.box.dataset.kind = answer.kind;
        setText(p.title, this.say(`${answer.kind}_title`));
        setText(p.message, this.getAttribute("message") ?? answer.message ?? "");
        p.message.hidden = p.message.textContent === "";
        setText(p.when, this.#whenText(seconds));
        // The clock has the seconds; the sentence would repeat them.
        p.when.hidden = counts && !p.message.hidden && answer.kind === "rate";
        p.clock.hidden = !counts;
        setText(p.clock, counts ? clockText(seconds) : "");
        p.actions.hidden = answer.kind !== "plan" || !url;
        if (url)
            p.upgrade.href = url;
        setText(p.upgrade, this.say("upgrade"));
        p.bar.hidden = !counts;
        p.bar.style.transform =
            `scaleX(${this.#total ? (seconds - 1) * 1000 / this.#total : 0})`;
    }

    #announce() {
        if (!this.#parts || !this.#answer)
            return;

        const seconds = this.#deadline?.seconds() ?? null;
        const { title, message } = this.#parts;

        setText(this.#parts.status,
                [title.textContent, message.textContent,
                 this.#whenText(seconds)].filter(Boolean).join(" "));
    }
}

define("sluice-countdown", SluiceCountdown);
