// meter.js -- <sluice-meter>: how much of a quota or a level is used.
//
//     <sluice-meter label="Transcription" used="96" limit="120" unit="minutes">
//     </sluice-meter>
//
//     meter.meter = usage.meters[0];   // of the usage JSON, with reset, plan ...
//
// Colours change at 80, 90 and 100 percent, and words say the same. Above 80
// there is a link to upgrade, which is stronger at 100.

import { safeLink } from "./answer.js";
import { SluiceElement, define, make, setText } from "./element.js";
import { dateText, isNear, numberText } from "./messages.js";

/** "ok", "warn" (80 %), "high" (90 %) or "over" (100 %). */
export function stateOf(used, limit) {
    if (!(limit > 0))
        return limit === 0 ? "over" : "ok";
    if (used >= limit)
        return "over";
    if (used * 10 >= limit * 9)
        return "high";
    return used * 10 >= limit * 8 ? "warn" : "ok";
}

const numberOf = (text) =>
    text === null || text.trim() === "" || Number.isNaN(Number(text))
        ? null : Number(text);

const timeOf = (text) => {
    const at = text ? Date.parse(text) : NaN;

    return Number.isNaN(at) ? null : at;
};

export class SluiceMeter extends SluiceElement {
    static observedAttributes = ["label", "used", "limit", "unit", "plan",
        "reset", "exhausted", "overage", "credits", "upgrade-url",
        "upgrade-target", "lang", "messages", "compact"];

    static css = `
.meter { display: grid; gap: 0.375rem; }
.head { display: flex; flex-wrap: wrap; gap: 0.125rem 0.75rem;
    justify-content: space-between; align-items: baseline; }
.label { font-weight: 650; overflow-wrap: anywhere; min-width: 0; }
.numbers { font-variant-numeric: tabular-nums; color: var(--_text);
    overflow-wrap: anywhere; }
.track { height: 0.625rem; border-radius: 999px; background: var(--_soft);
    overflow: hidden; box-shadow: inset 0 0 0 1px var(--_border); }
.fill { height: 100%; border-radius: 999px; background: var(--_tone);
    min-width: 0; }
@media (prefers-reduced-motion: no-preference) {
    .fill { transition: inline-size 0.3s ease; }
}
@media (forced-colors: active) {
    .track { border: 1px solid CanvasText; }
    .fill { background: Highlight; forced-color-adjust: none; }
}
.meter[data-state=ok] { --_tone: var(--_ok); }
.meter[data-state=warn] { --_tone: var(--_warn); }
.meter[data-state=high] { --_tone: var(--_high); }
.meter[data-state=over] { --_tone: var(--_over); }
.foot { display: flex; flex-wrap: wrap; gap: 0.25rem 0.875rem;
    align-items: center; color: var(--_muted); font-size: 0.9em; }
.state { color: var(--_tone); font-weight: 600; }
.more { display: flex; flex-wrap: wrap; gap: 0.125rem 0.875rem;
    color: var(--_muted); font-size: 0.9em; }
.under { display: grid; grid-template-columns: 1fr auto; gap: 0.5rem;
    align-items: start; }
a.button { font-size: 1em; padding: 0.25rem 0.625rem; min-height: 0; }
`;

    #meter = null;
    #parts = null;

    /** A meter of the usage JSON; replaces the attributes. */
    get meter() {
        return this.#meter;
    }

    set meter(meter) {
        this.#meter = meter ?? null;
        this.update();
    }

    #read() {
        const m = this.#meter;
        const get = (name) => this.getAttribute(name);

        if (!m)
            return {
                label: get("label") ?? "", used: numberOf(get("used")) ?? 0,
                limit: numberOf(get("limit")), unit: get("unit") ?? "",
                plan: get("plan"), reset: timeOf(get("reset")),
                exhausted: timeOf(get("exhausted")), forecasts: false,
                overage: numberOf(get("overage")) ?? 0,
                credits: numberOf(get("credits")) ?? 0, credited: 0,
                degraded: false, now: Date.now(),
            };
        return {
            label: get("label") ?? m.name ?? "", used: m.used ?? 0,
            limit: m.limit ?? null, unit: m.unit ?? "", plan: m.plan ?? null,
            reset: timeOf(m.reset), exhausted: timeOf(m.exhausted),
            forecasts: m.kind === "quota" && m.used > 0,
            overage: m.overage ?? 0, credits: m.credits ?? 0,
            credited: m.credited ?? 0, degraded: m.degraded === true,
            now: m.now ?? Date.now(),
        };
    }

    #build() {
        const part = (tag, name, more = {}) =>
            make(tag, { class: name, part: name, ...more });
        const p = {
            label: part("span", "label", { id: "label", dir: "auto" }),
            numbers: part("span", "numbers"), fill: part("div", "fill"),
            state: part("span", "state"), percent: part("span", "percent"),
            reset: part("span", "reset"), plan: part("span", "plan"),
            forecast: part("span", "forecast"),
            overage: part("span", "overage"), credits: part("span", "credits"),
            degraded: part("span", "degraded"),
            upgrade: make("a", { class: "button", part: "upgrade" }),
        };

        p.track = part("div", "track", { role: "meter", "aria-valuemin": "0",
                                         "aria-labelledby": "label" });
        p.track.append(p.fill);
        p.more = make("div", { class: "more" }, p.plan, p.forecast, p.overage,
                      p.credits, p.degraded);
        p.box = make("div", { class: "meter", part: "box" },
            make("div", { class: "head" }, p.label, p.numbers), p.track,
            make("div", { class: "under" },
                make("div", {}, make("div", { class: "foot" }, p.percent,
                                     p.state, p.reset), p.more),
                p.upgrade));
        this.shadowRoot.append(p.box);
        return p;
    }

    #forecast(m) {
        if (m.limit === null || m.used >= m.limit || m.reset === null)
            return null;
        if (m.exhausted !== null)
            return this.#dated("exhausted", m.exhausted, m);
        return m.forecasts ? this.say("lasts") : null;
    }

    #dated(key, at, m) {
        return this.say(isNear(at, m.now) ? `${key}_at` : key, {
            date: dateText(at, this.language, { now: m.now }) });
    }

    #notes(m) {
        const n = (value) => ({ n: numberText(value, this.language),
                                count: value, unit: m.unit });

        return {
            plan: m.plan ? this.say("plan_name", { plan: m.plan }) : null,
            forecast: this.#forecast(m),
            overage: m.overage > 0 ? this.say("overage", n(m.overage)) : null,
            credits: m.credits > 0 ? this.say("credits", n(m.credits))
                : m.credited > 0 ? this.say("credited", n(m.credited)) : null,
            degraded: m.degraded ? this.say("degraded") : null,
        };
    }

    update() {
        if (!this.shadowRoot || !this.isConnected)
            return;

        const p = this.#parts ??= this.#build();
        const m = this.#read();
        const limited = m.limit !== null;
        const share = limited && m.limit > 0 ? m.used / m.limit
            : limited ? 1 : 0;
        const state = limited ? stateOf(m.used, m.limit) : "ok";
        const number = (value) => numberText(value, this.language);
        const numbers = this.say(limited ? "used_of" : "used_only", {
            used: number(m.used), limit: number(m.limit ?? 0), unit: m.unit,
        }).trim();
        const percent = new Intl.NumberFormat(this.language, {
            style: "percent" }).format(Math.floor(share * 100) / 100);

        p.box.dataset.state = state;
        setText(p.label, m.label);
        setText(p.numbers, numbers);
        p.track.hidden = p.percent.hidden = !limited;
        p.track.setAttribute("aria-valuemax", m.limit ?? m.used);
        p.track.setAttribute("aria-valuenow", Math.min(m.used, m.limit ?? m.used));
        p.track.setAttribute("aria-valuetext", `${numbers}, ${percent}`);
        p.fill.style.inlineSize = `${Math.min(100, share * 100)}%`;
        setText(p.percent, this.say("percent", { percent }));
        setText(p.state, state === "ok" ? "" : this.say(`state_${state}`));
        p.state.hidden = state === "ok";
        setText(p.reset, m.reset === null ? ""
            : this.#dated("resets", m.reset, m));
        p.reset.hidden = m.reset === null;
        this.#showNotes(p, m);
        this.#showUpgrade(p, state);
    }

    #showNotes(p, m) {
        const notes = this.#notes(m);
        const compact = this.hasAttribute("compact");

        for (const [name, text] of Object.entries(notes)) {
            setText(p[name], text ?? "");
            p[name].hidden = text === null;
        }
        p.more.hidden = compact ||
            Object.values(notes).every((text) => text === null);
    }

    #showUpgrade(p, state) {
        const url = this.hasAttribute("upgrade-url")
            ? safeLink(this.getAttribute("upgrade-url")) : null;

        p.upgrade.hidden = !url || state === "ok";
        p.upgrade.target = this.getAttribute("upgrade-target") ?? "";
        if (url)
            p.upgrade.href = url;
        p.upgrade.classList.toggle("strong", state === "over");
        setText(p.upgrade, this.say(state === "over" ? "upgrade_now"
                                                     : "upgrade"));
    }
}

define("sluice-meter", SluiceMeter);
