// element.js -- what the custom elements share.
//
// Elements have a shadow root and constructed styles, which a strict
// Content-Security-Policy allows. Texts are set as text, never as markup.
//
// Colours and shapes are CSS variables: --sluice-accent and so on. Set them on
// the element or on any ancestor. Dark colours follow `color-scheme` of the
// page.

import { messagesOf, say } from "./messages.js";

// Modules are also loaded where there is no page: on a server.
const Base = globalThis.HTMLElement ?? class {};

export const SHARED_CSS = `
:host {
    --_font: var(--sluice-font, system-ui, -apple-system, "Segoe UI", Roboto,
        "Helvetica Neue", sans-serif);
    --_text: var(--sluice-text, #1c2024);
    --_muted: var(--sluice-muted, #5a636d);
    --_bg: var(--sluice-bg, #ffffff);
    --_soft: var(--sluice-soft, #f1f3f5);
    --_border: var(--sluice-border, #d5dade);
    --_accent: var(--sluice-accent, #2454c9);
    --_on-accent: var(--sluice-on-accent, #ffffff);
    --_ok: var(--sluice-ok, #1f7a45);
    --_warn: var(--sluice-warn, #8a6100);
    --_high: var(--sluice-high, #b34700);
    --_over: var(--sluice-over, #b3261e);
    --_radius: var(--sluice-radius, 10px);
    display: block;
    font-family: var(--_font);
    font-size: var(--sluice-font-size, 0.9375rem);
    line-height: 1.45;
    color: var(--_text);
}
@supports (color: light-dark(#000, #fff)) {
    :host {
        --_text: var(--sluice-text, light-dark(#1c2024, #e8ebee));
        --_muted: var(--sluice-muted, light-dark(#5a636d, #a3adb8));
        --_bg: var(--sluice-bg, light-dark(#ffffff, #191c20));
        --_soft: var(--sluice-soft, light-dark(#f1f3f5, #2a2f35));
        --_border: var(--sluice-border, light-dark(#d5dade, #3a4149));
        --_accent: var(--sluice-accent, light-dark(#2454c9, #9db7ff));
        --_on-accent: var(--sluice-on-accent, light-dark(#ffffff, #10203f));
        --_ok: var(--sluice-ok, light-dark(#1f7a45, #5ccb8b));
        --_warn: var(--sluice-warn, light-dark(#8a6100, #e6b94d));
        --_high: var(--sluice-high, light-dark(#b34700, #ff9a57));
        --_over: var(--sluice-over, light-dark(#b3261e, #ff8f87));
    }
}
:host([hidden]), [hidden] { display: none !important; }
* { box-sizing: border-box; }
p, ol { margin: 0; padding: 0; }
.reader {
    position: absolute; width: 1px; height: 1px; margin: -1px; padding: 0;
    overflow: hidden; clip-path: inset(50%); white-space: nowrap; border: 0;
}
a.button, button.button {
    font: inherit; font-weight: 600; cursor: pointer; text-decoration: none;
    display: inline-block; padding: 0.375rem 0.75rem; min-height: 2.25rem;
    border-radius: calc(var(--_radius) * 0.7);
    border: 1px solid var(--_accent); color: var(--_accent);
    background: transparent;
}
a.button.strong, button.button.strong {
    background: var(--_accent); color: var(--_on-accent);
}
button.quiet {
    border-color: var(--_border); color: var(--_text); font-weight: 500;
}
a:focus-visible, button:focus-visible {
    outline: 2px solid var(--_accent); outline-offset: 2px;
}
`;

/** Creates an element with attributes, and children that are nodes or texts. */
export function make(tag, attributes = {}, ...children) {
    const node = document.createElement(tag);

    for (const [name, value] of Object.entries(attributes))
        if (value === true)
            node.setAttribute(name, "");
        else if (value !== null && value !== undefined && value !== false)
            node.setAttribute(name, value);
    node.append(...children.filter((child) => child !== null));
    return node;
}

/** Sets a text if it differs: a live region must not repeat itself. */
export function setText(node, text) {
    if (node.textContent !== text)
        node.textContent = text;
}

function stylesOf(css) {
    const styles = new CSSStyleSheet();

    styles.replaceSync(css);
    return styles;
}

let shared = null;

export class SluiceElement extends Base {
    #messages = {};

    constructor() {
        super();
        if (!this.attachShadow)
            return; // without a page
        shared ??= stylesOf(SHARED_CSS);

        const own = new.target;

        if (!Object.hasOwn(own, "styles"))
            own.styles = stylesOf(own.css ?? "");
        this.attachShadow({ mode: "open" }).adoptedStyleSheets =
            [shared, own.styles];
    }

    /** The language of the page around the element, else of the browser. */
    get language() {
        const tag = this.getAttribute("lang") ||
            this.closest?.("[lang]")?.getAttribute("lang") ||
            globalThis.navigator?.language || "en";

        try {
            return Intl.getCanonicalLocales(tag)[0];
        } catch {
            return "en";
        }
    }

    /** Messages that differ from those of the language. */
    get messages() {
        let attribute = {};

        try {
            attribute = JSON.parse(this.getAttribute("messages") || "{}");
        } catch {
            console.warn(`<${this.localName}>: messages is not JSON`);
        }
        return { ...attribute, ...this.#messages };
    }

    set messages(messages) {
        this.#messages = messages ?? {};
        this.update();
    }

    say(key, values) {
        return say(messagesOf(this.language, this.messages), key, values,
                   this.language);
    }

    /** Shows the present state; elements have their own. */
    update() {}

    emit(name, detail) {
        this.dispatchEvent(new CustomEvent(name, {
            detail, bubbles: true, composed: true }));
    }

    connectedCallback() {
        this.update();
    }

    attributeChangedCallback() {
        if (this.isConnected)
            this.update();
    }
}

/** Registers an element, once. */
export function define(name, element) {
    if (globalThis.customElements && !customElements.get(name))
        customElements.define(name, element);
}
