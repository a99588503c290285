// Requests to the admin listener. A change has the session's CSRF value, and the
// name of the operator for the audit.

export const session = { needsToken: false, signedIn: true, readOnly: false,
                         csrf: "", version: "" };

export class Refused extends Error {
    constructor(status, problem) {
        super(problem.detail ?? problem.message ?? `the daemon answered ${status}`);
        this.status = status;
        this.code = problem.code;
        this.problems = problem.problems ?? [];
    }
}

export class Away extends Error {}

export const operator = {
    get name() { return localStorage.getItem("operator") ?? ""; },
    set name(name) { localStorage.setItem("operator", name); },
};

let onSignedOut = () => {};
let onReached = () => {};

export function listen({ signedOut, reached }) {
    onSignedOut = signedOut;
    onReached = reached;
}

const base = new URL("..", document.baseURI);
// Header values are ASCII.
const ascii = (text) => text.replace(/[^\x20-\x7e]/g, "?").trim();

async function send(method, path, body, note) {
    const headers = {};

    if (method !== "GET") {
        headers["X-Sluice-CSRF"] = session.csrf;
        if (ascii(operator.name))
            headers["X-Sluice-By"] = ascii(operator.name);
        if (note && ascii(note))
            headers["X-Sluice-Note"] = ascii(note);
    }

    let response;

    try {
        response = await fetch(new URL(path, base), {
            method, headers, cache: "no-store", signal: AbortSignal.timeout(10_000),
            body: body === undefined || typeof body === "string" ? body
                : JSON.stringify(body) });
    } catch {
        onReached(false);
        throw new Away("the daemon does not answer");
    }
    onReached(true);
    return response;
}

// The answer as JSON (or as text), or throws.
async function ask(method, path, body, note) {
    const response = await send(method, path, body, note);
    const text = await response.text();
    const isJson = /json/.test(response.headers.get("content-type") ?? "");

    if (response.ok)
        return isJson && !/ndjson/.test(response.headers.get("content-type"))
            ? JSON.parse(text) : text;
    if (response.status === 401 && path !== "v1/session") {
        session.signedIn = false;
        onSignedOut();
    }
    throw new Refused(response.status, isJson && text ? JSON.parse(text) : {});
}

export const get = (path) => ask("GET", path);
export const post = (path, body, note) => ask("POST", path, body, note);
export const patch = (path, body, note) => ask("PATCH", path, body, note);
export const put = (path, body, note) => ask("PUT", path, body, note);
export const remove = (path, note) => ask("DELETE", path, undefined, note);

export const part = encodeURIComponent;

function learn(state) {
    Object.assign(session, { needsToken: state.needs_token, signedIn: state.signed_in,
                             readOnly: state.read_only, csrf: state.csrf ?? "",
                             version: state.version });
}

export const readSession = async () => learn(await get("v1/session"));
export const signIn = async (token) => learn(await post("v1/session", { token }));
export const signOut = async () => learn(await remove("v1/session"));

// ---- daemons that share a store or a database ----

// Which daemon is shown: "all", or the id of one.
export const choice = { daemon: "all", known: [] };

// Metrics as a map from name to [{ labels, value }].
function parse(text) {
    const found = new Map();
    const line = /^([a-z_]+)(?:\{(.*)\})? (\S+)$/;
    const label = /([a-z_]+)="((?:[^"\\]|\\.)*)"/g;

    for (const one of text.split("\n")) {
        const [, name, inside = "", value] = line.exec(one) ?? [];

        if (!name)
            continue;
        if (!found.has(name))
            found.set(name, []);
        found.get(name).push({ value: Number(value), labels: Object.fromEntries(
            [...inside.matchAll(label)].map(([, k, v]) => [k, v])) });
    }
    return found;
}

function rowsOf(text) {
    try {
        return JSON.parse(text);
    } catch {
        return []; // it has not told yet
    }
}

// All daemons, this one first: { id, name, self, metrics, top }
export async function daemons() {
    const { daemons: all } = await get("v1/daemons");

    choice.known = all.map((one) => ({ ...one, metrics: parse(one.state),
                                       top: rowsOf(one.top) }));
    if (!choice.known.some(({ id }) => String(id) === choice.daemon))
        choice.daemon = "all";
    return choice.known;
}

export const chosen = (all) => choice.daemon === "all" ? all
    : all.filter(({ id }) => String(id) === choice.daemon);

// The name of the daemon that a record of a denial has.
export const daemonName = (node) =>
    choice.known.find((one) => one.node === node)?.name ?? node;

// The metrics of the chosen daemons, one behind the other.
export function together(all) {
    const found = new Map();

    for (const { metrics } of chosen(all))
        for (const [name, values] of metrics)
            found.set(name, [...found.get(name) ?? [], ...values]);
    return found;
}

export const sum = (all, name) =>
    (all.get(name) ?? []).reduce((total, { value }) => total + value, 0);
