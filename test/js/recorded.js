// recorded.js FILE -- validates the answers that the daemons of other tests have
// recorded (src/sluiced/test_answers.c) against the API description.
//
// Prints each complaint once, with the first answer that has it.

import { readFileSync } from "node:fs";

import { Description } from "./description.js";
import { load } from "./frameworks.js";

const root = new URL("../..", import.meta.url).pathname;

// Paths and methods that no listener has: tests ask for them to see the refusal.
const isRefusal = (status, type) =>
    [400, 404, 405].includes(status) && type === "application/problem+json";

const HEAD = /^([\w-]+) (\S+) (\d+) (\S+) (\d+)$/;

// The head in the line that begins at `at`, and where its body is.
function headAt(bytes, at) {
    const end = bytes.indexOf("\n", at);
    const head = end < 0 ? null : HEAD.exec(bytes.toString("latin1", at, end));

    return head && { head, from: end + 1, to: end + 1 + Number(head[5]) };
}

// A daemon that is killed may leave a part of an answer: the next head follows
// later.
function* answersOf(bytes) {
    for (let at = 0; at < bytes.length;) {
        const found = headAt(bytes, at);

        if (!found || found.to >= bytes.length ||
            found.to + 1 < bytes.length && !headAt(bytes, found.to + 1)) {
            at = bytes.indexOf("\n", at) + 1 || bytes.length;
            continue;
        }

        const { head: [, method, path, status, type], from, to } = found;

        yield { method, path, status: Number(status), type,
                text: bytes.toString("utf8", from, to) };
        at = to + 1;
    }
}

const description = new Description(load("yaml").parse(
    readFileSync(`${root}docs/reference/openapi.yaml`, "utf8")));
const complaints = new Map();
let count = 0;

for (const { method: given, path, status, type, text } of
    answersOf(readFileSync(process.argv[2]))) {
    // Proxies may ask with the method of the request.
    const method = path.startsWith("/v1/auth") ? "GET" : given;
    const item = description.document.paths[description.find(path)];

    if (!item?.[method.toLowerCase()] && isRefusal(status, type))
        continue;
    count++;
    for (const why of description.check(method, path, status, type, text)) {
        const key = `${method} ${description.find(path) ?? path} ${status}: ` +
            why.replace(/\/\d+/g, "/N");

        if (!complaints.has(key))
            complaints.set(key, `${path}: ${text.slice(0, 600)}`);
    }
}
for (const [why, example] of complaints)
    console.log(`${why}\n    ${example}`);
console.log(`${count} answers, ${complaints.size} complaints`);
process.exitCode = complaints.size > 0 || count === 0 ? 1 : 0;
