// The console: sections by #fragment, sign-in, and what happens if the daemon is
// away.
import { choice, daemons, listen, operator, readSession, session, signIn, signOut } from "./api.js";
import { el, field, form } from "./dom.js";
import * as costs from "./costs.js";
import * as limits from "./limits.js";
import * as overview from "./overview.js";
import * as policy from "./policy.js";
import * as switches from "./switches.js";
import * as webhooks from "./webhooks.js";
import * as who from "./who.js";

const sections = { overview, who, limits, costs, webhooks, switches, policy };
const main = document.getElementById("main");
const away = document.getElementById("away");
let current = { stop() {} };

const chosen = () => {
    const name = location.hash.slice(1).split("?")[0];

    return name in sections ? name : "overview";
};

function showNav() {
    document.getElementById("nav").replaceChildren(...Object.entries(sections)
        .map(([name, section]) => el("a", {
            href: `#${name}`, "aria-current": name === chosen() && "page",
        }, section.title)));
}

function showSession() {
    const place = document.getElementById("session");

    place.replaceChildren(
        ...session.readOnly ? [el("span", { class: "pill" }, "read-only")] : [],
        // A token that a proxy adds has no session that could end.
        ...session.signedIn && session.csrf ? [el("button", {
            onclick: () => signOut().then(start) }, "Sign out")] : []);
}

// Which daemon is shown, if there are several.
function showDaemons() {
    const place = document.getElementById("daemons");
    const names = choice.known.map(({ id, name }) => [String(id), name]);

    if (place.contains(document.activeElement))
        return;
    if (names.length < 2) {
        place.replaceChildren();
        return;
    }

    const pick = el("select", { "aria-label": "Daemon", onchange: () => {
        choice.daemon = pick.value;
        pick.blur();
        show();
    } }, [["all", `All ${names.length} daemons`], ...names].map(([value, text]) =>
        el("option", { value, selected: value === choice.daemon }, text)));

    place.replaceChildren(pick);
}

const readDaemons = () => session.signedIn && daemons().then(showDaemons).catch(() => {});

async function show() {
    current.stop();
    showNav();
    showSession();
    document.title = `${sections[chosen()].title} · Sluice`;
    main.replaceChildren();
    current = sections[chosen()].open(main);
}

function showLogin() {
    current.stop();
    current = { stop() {} };
    showSession();
    document.getElementById("nav").replaceChildren();
    document.title = "Sign in · Sluice";

    const fields = [
        field("Admin token", "token", { type: "password", required: true,
                                        autocomplete: "current-password" },
              "admin_token of the daemon, or admin_read_token to look only"),
        field("Your name", "name", { value: operator.name, maxlength: 64,
                                     autocomplete: "username" },
              "for the audit of your changes"),
    ];

    main.replaceChildren(el("section", { class: "card login" },
        el("h1", {}, "Sign in"), form(fields, "Sign in", async (given) => {
            operator.name = given.name;
            await signIn(given.token);
            show();
            readDaemons();
        })));
    main.querySelector("input").focus();
}

async function start() {
    try {
        await readSession();
    } catch {
        setTimeout(start, 2000);
        return;
    }
    if (session.signedIn) {
        show();
        readDaemons();
    } else {
        showLogin();
    }
}

let wasAway = false;

listen({
    signedOut: showLogin,
    reached(isThere) {
        away.textContent = isThere ? ""
            : "The daemon does not answer. The console tries again.";
        if (isThere && wasAway)
            setTimeout(start, 0);
        wasAway = !isThere;
    },
});
window.addEventListener("hashchange", () => session.signedIn && show());
setInterval(() => document.hidden || showDaemons(), 2000);
setInterval(() => document.hidden || readDaemons(), 30_000);
setInterval(() => session.needsToken && session.signedIn &&
            readSession().catch(() => {}), 600_000);
start();
