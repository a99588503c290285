// apps.js -- runs applications of the pages and examples beside a real daemon.
//
// SLUICED_TEST is the daemon; its clock stands still.

import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { cpSync, existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync,
         symlinkSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { dirname } from "node:path";
import { pathToFileURL } from "node:url";
import { promisify } from "node:util";

import { load, modules, bridge } from "./frameworks.js";

const root = new URL("../..", import.meta.url).pathname;

/** The blocks of a page: files by the name in their first line, the policy,
 * commands and their outputs. `setup` has the first indented lines: the commands
 * that install and start the application. */
export function blocksOf(text) {
    const found = { files: {}, order: [], commands: [], outputs: [], policy: "",
                    setup: /(?<=\n\n)(?: {4}.*\n)+/.exec(
                        text.replace(/^```\w+\n[^]*?^```$/gm, ""))?.[0]
                        .trim().split(/\n */) ?? [] };

    for (const [, kind, body] of text.matchAll(/^```(\w+)\n([^]*?)^```$/gm)) {
        const name = /^\/\/ (\S+)\n/.exec(body)?.[1];

        if (kind === "js" && name) {
            found.order.push(name);
            found.files[name] = { body, lines: body.trim().split("\n").length };
        } else if (kind === "yaml") {
            found.policy = body;
        } else if (kind === "sh") {
            found.commands.push(body);
        } else if (kind === "text") {
            found.outputs.push(body);
        }
    }
    return found;
}

// The packages of an application: what scripts/setup has installed, and ours.
function linkModules(folder) {
    mkdirSync(`${folder}/node_modules`);
    for (const name of readdirSync(modules))
        if (!name.startsWith("."))
            symlinkSync(`${modules}/${name}`, `${folder}/node_modules/${name}`);
    symlinkSync(`${root}clients/js`, `${folder}/node_modules/sluice-client`);
}

/** A folder with these files and all packages. */
export function folderOf(t, files) {
    const folder = mkdtempSync(`${tmpdir()}/sluice-app-`);

    t.after(() => rmSync(folder, { recursive: true, force: true }));
    linkModules(folder);
    writeFileSync(`${folder}/package.json`, '{ "type": "module" }');
    for (const [name, { body }] of Object.entries(files)) {
        mkdirSync(dirname(`${folder}/${name}`), { recursive: true });
        writeFileSync(`${folder}/${name}`, body);
    }
    return folder;
}

/** A copy of a folder of examples/, with all packages. */
export function copyOf(t, example) {
    const folder = mkdtempSync(`${tmpdir()}/sluice-app-`);

    t.after(() => rmSync(folder, { recursive: true, force: true }));
    cpSync(`${root}examples/${example}`, folder, { recursive: true });
    linkModules(folder);
    return folder;
}

export async function run(script, cwd) {
    return (await promisify(execFile)("bash", ["-c", script], { cwd })).stdout;
}

/** Does `npm install` with these words find what it installs? A path below PATH is
 * that of this repository. */
export function isInstalled(word) {
    return existsSync(word.startsWith("PATH/")
        ? `${root}${word.slice("PATH/".length)}/package.json`
        : `${modules}/${word}/package.json`);
}

// Waits until `read(line)` returns something for a line of the stream.
async function firstOf(child, stream, read) {
    let rest = "";

    child.once("exit", (code) => stream.destroy(
        new Error(`it ended with ${code}: ${rest.slice(0, 2000)}`)));
    for await (const chunk of stream.setEncoding("utf8")) {
        rest += chunk;
        for (const line of rest.split("\n")) {
            const found = read(line);

            if (found) {
                child.removeAllListeners("exit");
                return found;
            }
        }
    }
    throw new Error(`nothing was said but: ${rest}`);
}

// Ends a process that this file has started, and reads what it still says.
function endAfter(t, child) {
    t.after(async () => {
        if (child.exitCode === null && child.signalCode === null) {
            child.kill("SIGKILL");
            await once(child, "exit");
        }
    });
}

/** A daemon: with the text of a policy, or a policy file. */
export async function daemon(t, { policy, file, words = [] }) {
    const folder = mkdtempSync(`${tmpdir()}/sluice-d-`);

    t.after(() => rmSync(folder, { recursive: true, force: true }));
    if (policy)
        writeFileSync(`${folder}/sluice.yaml`, policy);

    const child = spawn(process.env.SLUICED_TEST, [
        "-c", file ?? `${folder}/sluice.yaml`, "--clock=virtual", "--store",
        "memory:", "--log-format", "json", "--listen-http", "127.0.0.1:0",
        "--listen-admin", "127.0.0.1:0", "--listen-grpc", "off",
        "--listen-resp", "off", ...words], { stdio: ["ignore", "ignore", "pipe"] });

    endAfter(t, child);

    const serving = await firstOf(child, child.stderr, (line) =>
        /"event":"serving"/.test(line) && line.endsWith("}") &&
        JSON.parse(line));

    return known(child, `http://${serving.http}`, `http://${serving.admin}`);
}

function known(child, url, admin) {
    return {
        child, url, admin,
        // Waits until no hold is open.
        async nothingHeld() {
            for (;;) {
                const text = await (await fetch(`${admin}/metrics`)).text();

                if (/^sluice_held 0$/m.test(text))
                    return;
                await new Promise((done) => setTimeout(done, 20));
            }
        },
        async explain(check) {
            const response = await fetch(`${url}/v1/explain`, {
                method: "POST", body: JSON.stringify(check) });

            return response.json();
        },
    };
}

// Below the ports that the system chooses: one of those could be given to a daemon
// of another test before the application listens.
async function freePort() {
    for (;;) {
        const server = createServer();
        const port = 20000 + Math.floor(10000 * Math.random());

        try {
            server.listen(port, "127.0.0.1");
            await once(server, "listening");
        } catch {
            continue;
        }
        server.close();
        await once(server, "close");
        return port;
    }
}

async function untilListening(child, host) {
    for (;;) {
        if (child.exitCode !== null)
            throw new Error(`the application ended with ${child.exitCode}`);
        try {
            await fetch(`http://${host}/-`, { method: "HEAD" });
            return;
        } catch {
            await new Promise((done) => setTimeout(done, 20));
        }
    }
}

// A route handler or the middleware of Next.js behind node:http.
async function serveRoute(t, path, url) {
    const { NextRequest } = load("next/server");

    process.env.SLUICE_URL = url;
    process.env.SLUICE_DEADLINE_MS = "20000";

    const handlers = await import(pathToFileURL(path).href);
    const server = bridge((request) =>
        (handlers[request.method] ?? handlers.middleware)(
            new NextRequest(request), {}));

    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    t.after(() => {
        server.closeAllConnections();
        server.close();
    });
    return `127.0.0.1:${server.address().port}`;
}

/** Starts a program of Node with its words; where it listens. */
export async function start(t, folder, words, url) {
    const port = await freePort();
    const child = spawn(process.execPath, words, {
        cwd: folder, stdio: ["ignore", "inherit", "inherit"],
        env: { ...process.env, PORT: String(port), SLUICE_URL: url,
               SLUICE_DEADLINE_MS: "20000" } });

    endAfter(t, child);
    await untilListening(child, `localhost:${port}`);
    return `localhost:${port}`;
}

/** Starts a program of the folder, or a handler of Next.js. */
export async function serve(t, folder, name, url) {
    const host = /(?:route|middleware)\.js$/.test(name)
        ? await serveRoute(t, `${folder}/${name}`, url)
        : await start(t, folder, [name], url);

    return { host };
}
