// demo.js -- the page of the demo, against the daemon that serves it.
//
// A real application has a backend that asks the daemon and answers the
// browser. Here /v1/auth stands in for it: it answers with the status, the
// headers and the body that the backend would pass on.

import "../components/index.js";
import { make, setText } from "../components/element.js";

const $ = (id) => document.getElementById(id);
const query = new URLSearchParams(location.search);
const user = query.get("user") ?? "ann";
const org = query.get("org") ?? "demo";
const REFRESH = 2000;

function ask(path, more = {}) {
    return fetch("/v1/auth", {
        method: "POST", cache: "no-store",
        headers: { "X-Original-URI": path, "X-Original-Method": "POST",
                   "X-User-Id": user, "X-Org-Id": org, ...more },
    });
}

// Every answer also says whether the daemon is there.
async function call(path, more) {
    try {
        const response = await ask(path, more);

        $("away").hidden = true;
        return response;
    } catch {
        $("away").hidden = false;
        return null;
    }
}

// ---- the send guard

$("ask").addEventListener("submit", async (event) => {
    event.preventDefault();

    const response = await call("/demo/assistant");

    if (!response)
        return;

    const answer = await $("guard").learn(response);

    $("answers").prepend(make("li", {}, answer.ok
        ? `Answered; ${answer.remaining} left.`
        : `Refused: ${answer.message ?? answer.status}`));
    while ($("answers").children.length > 5)
        $("answers").lastChild.remove();
});

// ---- countdowns

function wire(button, countdown, path, done) {
    $(button).addEventListener("click", async () => {
        // A user of its own: the button has its own five requests.
        const response = await call(path, { "X-User-Id": `${user}-${button}` });

        if (!response)
            return;

        const answer = await $(countdown).show(response);

        setText($(`${button}-result`), answer.ok ? done : "");
        refresh();
    });
}

wire("save", "saving", "/demo/save", "Saved.");
wire("transcribe", "transcribing", "/demo/transcribe",
     "25 minutes are transcribed.");
wire("export", "exporting", "/demo/export", "Exported.");

// ---- the queue

let number = 0;

function finish(label, more = {}, key = undefined) {
    $("queue").add({
        label, url: "/v1/auth", key,
        headers: { "X-Original-URI": "/demo/finalize",
                   "X-Original-Method": "POST", "X-User-Id": user,
                   "X-Org-Id": org, ...more },
    });
}

$("enqueue").addEventListener("click", () => {
    for (let i = 0; i < 4; i++)
        finish(`Recording ${++number}`);
});
$("conflict").addEventListener("click", () => {
    const id = `${Date.now()}`;

    finish("Recording, first", { "X-Recording-Id": id });
    finish("Recording, second", { "X-Recording-Id": id });
});
$("changed").addEventListener("click", () => {
    const key = `demo-${Date.now()}`;

    finish("File of 10 MB", { "X-Size": "10" }, key);
    finish("Same key, file of 20 MB", { "X-Size": "20" }, key);
});

// ---- the meters

let token = null;
let timer = null;

async function readUsage() {
    for (let attempt = 0; attempt < 2; attempt++) {
        if (token === null) {
            const made = await fetch("token", { method: "POST" });

            token = (await made.json()).token;
        }

        const response = await fetch("../usage/data?days=0", {
            headers: { Authorization: `Bearer ${token}` } });

        if (response.ok)
            return response.json();
        token = null; // expired, or of a daemon that was restarted
    }
    return null;
}

function showUsage(usage) {
    for (const meter of usage.meters) {
        const id = `live-${meter.name}`;
        const node = $(id) ?? make("sluice-meter", {
            id, "upgrade-url": "#plans" });

        node.setAttribute("label",
            meter.name.charAt(0).toUpperCase() + meter.name.slice(1));
        node.meter = meter;
        if (!node.isConnected)
            $("live").append(node);
    }
    $("usage-link").href = `../usage/#token=${token}`;
}

async function refresh() {
    clearTimeout(timer);
    try {
        const usage = await readUsage();

        if (usage)
            showUsage(usage);
        $("away").hidden = true;
    } catch {
        $("away").hidden = false;
    }
    timer = setTimeout(refresh, REFRESH);
}

refresh();
