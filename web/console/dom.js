// Elements and texts. Names of keys and people become text nodes, never markup.

// el("td", { class: "num", onclick: f }, "text", otherElement, [more])
export function el(tag, attributes = {}, ...children) {
    const element = document.createElement(tag);

    for (const [name, value] of Object.entries(attributes)) {
        if (value === undefined || value === null || value === false)
            continue;
        if (name.startsWith("on"))
            element.addEventListener(name.slice(2), value);
        else if (name === "value")
            element.value = value;
        else
            element.setAttribute(name, value === true ? "" : String(value));
    }
    element.append(...children.flat(Infinity)
        .filter((child) => child !== null && child !== undefined && child !== false)
        .map((child) => child instanceof Node ? child : String(child)));
    return element;
}

// A name that others chose: isolated, so that right-to-left text stays inside.
export const key = (name) => el("bdi", { class: "key", dir: "auto" }, name);

export const pill = (kind, text) => el("span", { class: `pill ${kind}` }, text);

// On narrow screens each row is a list of its cells, with the headings as labels.
export function table(head, rows, empty = "Nothing here.") {
    if (rows.length === 0)
        return el("p", { class: "empty" }, empty);
    return el("div", { class: "scroll", tabindex: "0", role: "region",
                       "aria-label": head.map(title).join(", ") },
        el("table", {},
            el("thead", {}, el("tr", {}, head.map((cell) =>
                el("th", { scope: "col", class: kind(cell) }, title(cell))))),
            el("tbody", {}, rows.map((row) => el("tr", {},
                row.map((cell, i) => i === 0
                    ? el("th", { scope: "row" }, cell)
                    : el("td", { class: kind(head[i]), "data-label": title(head[i]) },
                         el("span", {}, cell))))))));
}

// Numbers are on the right; what can be done stays in sight.
const kind = (cell) => cell === "" ? "act" : cell.startsWith("#") && "num";
const title = (cell) => cell.replace(/^#/, "");

export const card = (heading, ...children) =>
    el("section", { class: "card" }, heading && el("h2", {}, heading), ...children);

export const tile = (label, value, note = "", kind = "") =>
    el("div", { class: `tile ${kind}` }, el("div", { class: "label" }, label),
       el("div", { class: "value" }, value), el("div", { class: "note" }, note));

// ---- numbers and times ----

const plain = new Intl.NumberFormat("en-US");
const short = new Intl.NumberFormat("en-US", { notation: "compact",
                                               maximumFractionDigits: 1 });

export const whole = (n) => plain.format(n);
export const number = (n) => n >= 100_000 ? short.format(n) : whole(n);
export const percent = (part, of) =>
    of > 0 ? `${(100 * part / of).toFixed(1)} %` : "–";

export function duration(ms) {
    const s = Math.round(ms / 1000);

    if (ms < 1000)
        return `${Math.round(ms)} ms`;
    if (s < 120)
        return `${s} s`;
    if (s < 7200)
        return `${Math.round(s / 60)} min`;
    return s < 172_800 ? `${Math.round(s / 3600)} h` : `${Math.round(s / 86_400)} days`;
}

const clock = new Intl.DateTimeFormat([], { dateStyle: "medium", timeStyle: "medium" });

export const time = (text) =>
    el("time", { datetime: text, class: "nowrap" }, clock.format(new Date(text)));

let toastTimer;

export function toast(text) {
    const place = document.getElementById("toast");

    clearTimeout(toastTimer);
    place.textContent = text;
    toastTimer = setTimeout(() => { place.textContent = ""; }, 6000);
}

// A dialog that is removed when it closes. Returns it, open.
export function dialog(heading, ...children) {
    const close = el("button", { type: "button", onclick: () => box.close() }, "Close");
    const box = el("dialog", { "aria-label": typeof heading === "string" ? heading
                                 : heading.textContent },
        el("div", { class: "row between" }, el("h2", {}, heading), close), ...children);

    box.addEventListener("close", () => box.remove());
    document.body.append(box);
    box.showModal();
    return box;
}

// A form with named fields, an error line and a button. `send` gets the values.
export function form(fields, label, send, kind = "main") {
    const error = el("p", { class: "error", role: "alert" });
    const button = el("button", { class: kind }, label);
    const element = el("form", { class: "stack", onsubmit: submit },
                       fields, error, el("div", {}, button));

    async function submit(event) {
        event.preventDefault();
        error.textContent = "";
        button.disabled = true;
        try {
            await send(Object.fromEntries(new FormData(element)));
        } catch (failed) {
            error.textContent = failed.message;
        }
        button.disabled = false;
    }
    return element;
}

export const field = (label, name, attributes = {}, note = "") =>
    el("label", {}, label, note && el("span", { class: "soft" }, note),
       el("input", { name, ...attributes }));
