// The React components render the elements: attributes, children, and nothing
// that only a browser has.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync }
    from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import test from "node:test";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("../..", import.meta.url));
const modules = process.env.SLUICE_NODE_MODULES ?? join(root, "build/node_modules");

const PROGRAM = `
import { createElement as h } from "react";
import { renderToString } from "react-dom/server";
import { Countdown, Meter, Queue, SendGuard } from "sluice-components/react";

for (const node of [
    h(Countdown, { upgradeUrl: "/plans", answer: null, onReady: () => {} },
      h("button", null, "Save")),
    h(Meter, { used: 96, limit: 120, unit: "minutes", compact: true,
               label: '<script>"' }),
    h(SendGuard, { name: "ask", low: 2, className: "wide" }, "x"),
    h(Queue, { name: "finalize", skipStopped: false }),
])
    console.log(renderToString(node));
`;

test("the components render on a server", (t) => {
    const folder = mkdtempSync(join(tmpdir(), "sluice-react-"));

    t.after(() => rmSync(folder, { recursive: true, force: true }));
    mkdirSync(join(folder, "node_modules"));
    for (const name of ["react", "react-dom", "scheduler"])
        symlinkSync(join(modules, name), join(folder, "node_modules", name));
    symlinkSync(join(root, "web/components"),
                join(folder, "node_modules/sluice-components"));
    writeFileSync(join(folder, "app.mjs"), PROGRAM);

    const lines = execFileSync(process.execPath, [
        "--preserve-symlinks", "--preserve-symlinks-main",
        join(folder, "app.mjs")], { encoding: "utf8" }).trim().split("\n");

    assert.deepEqual(lines, [
        '<sluice-countdown upgrade-url="/plans"><button>Save</button>' +
            "</sluice-countdown>",
        '<sluice-meter used="96" limit="120" unit="minutes" compact="" ' +
            'label="&lt;script&gt;&quot;"></sluice-meter>',
        '<sluice-send-guard name="ask" low="2" class="wide">x' +
            "</sluice-send-guard>",
        '<sluice-queue name="finalize"></sluice-queue>',
    ]);
});
