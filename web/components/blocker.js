// blocker.js -- blocks actions and keeps them reachable.
//
// A blocked button has aria-disabled: it keeps the keyboard focus and its
// tooltip, which a disabled button would lose. Clicks and submits are stopped
// before the page sees them.

const ACTIONS = "button:not([type=button]):not([type=reset]), " +
    "input[type=submit], [data-sluice-action]";

export class Blocker {
    #root;
    #blocked = false;

    /** Actions are those in `root` with data-sluice-action, or else its submit
     * buttons. */
    constructor(root) {
        this.#root = root;
        for (const name of ["click", "submit"])
            root.addEventListener(name, (event) => this.#stop(event), true);
    }

    get actions() {
        const marked = this.#root.querySelectorAll("[data-sluice-action]");

        return [...marked.length ? marked : this.#root.querySelectorAll(ACTIONS)]
            .filter((one) => one.closest("[data-sluice-ignore]") === null);
    }

    get blocked() {
        return this.#blocked;
    }

    #stop(event) {
        const stops = event.type === "submit" ||
            this.actions.some((one) => one.contains(event.target));

        if (!this.#blocked || !stops)
            return;
        event.preventDefault();
        event.stopImmediatePropagation();
    }

    /** Blocks or frees all actions; also those that were added since. */
    set(blocked) {
        this.#blocked = blocked;
        for (const action of this.actions)
            if (blocked)
                action.setAttribute("aria-disabled", "true");
            else
                action.removeAttribute("aria-disabled");
    }
}
