// queue.js -- <sluice-queue>: requests that wait for their limit.
//
//     <sluice-queue name="finalize"></sluice-queue>
//
//     queue.add({ label: "Recording 7", url: "/api/recordings/finalize",
//                 body: { id: 7 } });
//
// Shows the order, the position and what happens to each request. See
// send-queue.js for when a request is tried again and when the queue stops.

import { countDown } from "./clock.js";
import { SluiceElement, define, make, setText } from "./element.js";
import { clockText, numberText } from "./messages.js";
import { SendQueue } from "./send-queue.js";

const REASONS = new Set([402, 409, 422]);

export class SluiceQueue extends SluiceElement {
    static observedAttributes = ["name", "lang", "messages", "skip-stopped"];

    static css = `
.box { border: 1px solid var(--_border); border-radius: var(--_radius);
    background: var(--_bg); overflow: hidden; }
.head { display: flex; flex-wrap: wrap; gap: 0.125rem 1rem;
    justify-content: space-between; padding: 0.625rem 0.875rem; }
.title { font-weight: 650; }
.summary { color: var(--_muted); font-variant-numeric: tabular-nums; }
ol { list-style: none; }
li { display: grid; grid-template-columns: 2rem 1fr auto; gap: 0.125rem 0.625rem;
    align-items: center; padding: 0.5rem 0.875rem;
    border-top: 1px solid var(--_border); }
.number { width: 1.625rem; height: 1.625rem; border-radius: 999px;
    display: grid; place-items: center; font-size: 0.85em; font-weight: 650;
    background: var(--_soft); color: var(--_text);
    font-variant-numeric: tabular-nums; }
li[data-state=sending] .number { background: var(--_accent);
    color: var(--_on-accent); }
li[data-state=done] .number { background: transparent; color: var(--_ok);
    font-size: 1.1em; }
li[data-state=stopped] { box-shadow: inset 4px 0 0 var(--_over); }
:host(:dir(rtl)) li[data-state=stopped] {
    box-shadow: inset -4px 0 0 var(--_over); }
.label { font-weight: 550; overflow-wrap: anywhere; }
.state { color: var(--_muted); font-size: 0.9em; overflow-wrap: anywhere; }
li[data-state=stopped] .state { color: var(--_over); }
.text { min-width: 0; }
.buttons { display: flex; gap: 0.375rem; flex-wrap: wrap;
    justify-content: flex-end; }
button.button { padding: 0.125rem 0.5rem; min-height: 1.875rem;
    font-size: 0.9em; }
@media (max-width: 26rem) {
    .buttons { grid-column: 2 / -1; justify-content: flex-start; }
}
.empty { padding: 0 0.875rem 0.75rem; color: var(--_muted); }
`;

    #queue = null;
    #parts = null;
    #stop = null;
    #rows = new Map();

    /** The queue itself; NULL before the element is in a page. */
    get queue() {
        return this.#queue;
    }

    add(request) {
        return this.#queue.add(request);
    }

    get items() {
        return this.#queue?.items ?? [];
    }

    connectedCallback() {
        this.#build();
        this.#open();
        super.connectedCallback();
    }

    disconnectedCallback() {
        this.#close();
    }

    attributeChangedCallback(name, before, after) {
        if (!this.#parts || !this.isConnected || before === after)
            return; // connectedCallback() reads them
        if (name === "name")
            this.#open();
        else if (name === "skip-stopped")
            this.#queue.skipStopped = this.hasAttribute("skip-stopped");
        this.update();
    }

    #open() {
        this.#close();
        this.#queue = new SendQueue(this.getAttribute("name") || "default", {
            skipStopped: this.hasAttribute("skip-stopped") });
        this.#queue.addEventListener("change", () => this.update());
        this.#queue.addEventListener("done", ({ detail }) => {
            this.#announce("queue_said_done", detail);
            this.emit("sluice-sent", detail);
        });
        this.#queue.addEventListener("stopped", ({ detail }) => {
            this.#announce("queue_said_stopped", detail);
            this.emit("sluice-stopped", detail);
        });
    }

    #close() {
        this.#stop?.();
        this.#stop = null;
        this.#queue?.close();
        this.#queue = null;
    }

    #announce(key, item) {
        setText(this.#parts.status, this.say(key, {
            label: item.label, reason: this.#reason(item) }));
    }

    #build() {
        if (this.#parts)
            return;

        const p = {
            title: make("span", { class: "title", part: "title", id: "title" }),
            summary: make("span", { class: "summary", part: "summary" }),
            empty: make("p", { class: "empty" }),
            list: make("ol", { "aria-labelledby": "title" }),
            status: make("div", { class: "reader", role: "status" }),
        };

        p.box = make("div", { class: "box", part: "box" },
            make("div", { class: "head" }, p.title, p.summary), p.empty, p.list);
        this.shadowRoot.append(p.box, p.status);
        this.#parts = p;
    }

    #reason(item) {
        return item.message ?? this.say(
            `queue_stopped_${REASONS.has(item.status) ? item.status : "other"}`,
            { status: item.status });
    }

    #stateText(item) {
        if (item.state === "stopped")
            return this.say("queue_stopped", { reason: this.#reason(item) });
        return this.say(`queue_${item.state}`);
    }

    #row(item) {
        const button = (kind, run) => {
            const node = make("button", { type: "button",
                                          class: "button quiet", part: kind });

            node.addEventListener("click", run);
            return node;
        };
        const row = {
            number: make("span", { class: "number" }),
            label: make("div", { class: "label", part: "label", dir: "auto" }),
            state: make("div", { class: "state", part: "state" }),
            retry: button("retry", () => this.#queue?.retry(item.id)),
            remove: button("remove", () => this.#removed(item.id)),
        };

        row.buttons = make("div", { class: "buttons" }, row.retry, row.remove);
        row.node = make("li", { part: "item" }, row.number,
            make("div", { class: "text" }, row.label, row.state), row.buttons);
        return row;
    }

    // The focus goes to the row that takes the place of the removed one.
    #removed(id) {
        const rows = [...this.#rows.keys()];
        const next = rows[rows.indexOf(id) + 1] ?? rows[rows.indexOf(id) - 1];

        this.#queue?.remove(id);
        this.#rows.get(next)?.remove.focus();
    }

    #showRow(row, item) {
        row.node.dataset.state = item.state;
        setText(row.number, item.state === "done" ? "✓"
            : numberText(item.position, this.language));
        if (item.state === "done")
            row.number.setAttribute("aria-hidden", "true");
        else
            row.number.setAttribute("aria-label", this.say("queue_position",
                { n: item.position }));
        row.number.setAttribute("role", "img");
        setText(row.label, item.label);
        setText(row.state, this.#stateText(item));
        for (const name of ["retry", "remove"]) {
            setText(row[name], this.say(`queue_${name}`));
            row[name].setAttribute("aria-label", this.say(
                `queue_${name}_of`, { label: item.label }));
        }
        row.retry.hidden = item.state !== "stopped";
        row.remove.hidden = item.state === "done" || item.state === "sending";
        row.buttons.hidden = row.retry.hidden && row.remove.hidden;
    }

    update() {
        const p = this.#parts;

        if (!p || !this.#queue)
            return;

        const { items } = this.#queue;
        const open = items.filter((item) => item.state !== "done");
        const ids = new Set(items.map((item) => item.id));

        setText(p.title, this.say("queue_title"));
        setText(p.empty, this.say("queue_empty"));
        p.empty.hidden = items.length > 0;
        for (const [id, row] of this.#rows)
            if (!ids.has(id)) {
                row.node.remove();
                this.#rows.delete(id);
            }
        items.forEach((item, i) => {
            const row = this.#rows.get(item.id) ?? this.#row(item);

            this.#rows.set(item.id, row);
            this.#showRow(row, item);
            if (p.list.children[i] !== row.node)
                p.list.insertBefore(row.node, p.list.children[i] ?? null);
        });
        this.#summarize(open.length);
    }

    #summarize(n) {
        const { deadline } = this.#queue;
        const show = (seconds) => setText(this.#parts.summary, [
            n > 0 ? this.say("queue_summary", {
                n: numberText(n, this.language), count: n }) : null,
            seconds > 0 ? this.say("queue_next", { time: clockText(seconds) })
                : null].filter(Boolean).join(" · "));

        this.#stop?.();
        this.#stop = null;
        if (deadline && deadline.left() > 0)
            this.#stop = countDown(deadline, show);
        else
            show(0);
    }
}

define("sluice-queue", SluiceQueue);
