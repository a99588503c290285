// Uploads in parts: how many at once, how often, what is kept, how to go on.

import assert from "node:assert/strict";
import test from "node:test";

import { UploadError, upload } from "../../clients/js/index.js";
import { answer, virtual } from "./servers.js";

const FILE = new Blob([Uint8Array.from({ length: 105 }, (_, i) => i)]);

// A place for parts. `refuse(index, attempt)` hands over an answer, or nothing
// to take the part.
function store(refuse = () => undefined) {
    const tries = new Map();
    const parts = new Map();
    const place = {
        parts, tries, most: 0, starts: 0, under: 0,
        start: async () => `u${++place.starts}`,
        urlOf: ({ id, index, attempt }) => `/${id}/${index}?try=${attempt}`,
        fetch: async (url, { method, body, signal }) => {
            const [, id, index] = /^\/(u\d+)\/(\d+)\?try=\d+$/.exec(url);

            assert.equal(method, "PUT");
            tries.set(+index, (tries.get(+index) ?? 0) + 1);
            place.most = Math.max(place.most, ++place.under);
            await new Promise(setImmediate);
            place.under--;
            signal?.throwIfAborted();

            const no = refuse(+index, tries.get(+index));

            if (no)
                return no;
            parts.set(+index, await body.arrayBuffer());
            return answer(200, { ETag: `"${id}-${index}"` });
        },
    };

    return place;
}

async function together(place) {
    const order = [...place.parts.keys()].sort((a, b) => a - b);

    return new Uint8Array(await new Blob(order.map((i) => place.parts.get(i)))
        .arrayBuffer());
}

function options(place, more = {}) {
    return { ...virtual(), start: place.start, urlOf: place.urlOf,
             fetch: place.fetch, partSize: 5, ...more };
}

test("all parts arrive, eight at once at most", async () => {
    const place = store();
    const sent = await upload(FILE, options(place));

    assert.equal(sent.id, "u1");
    assert.equal(sent.parts.length, 21);
    assert.deepEqual(sent.parts[20], { index: 20, etag: '"u1-20"' });
    assert.equal(place.most, 8);
    assert.deepEqual(await together(place),
                     new Uint8Array(await FILE.arrayBuffer()));
});

test("fewer at once may be asked for, more not", async () => {
    const place = store();

    await upload(FILE, options(place, { atOnce: 2 }));
    assert.equal(place.most, 2);
    await assert.rejects(upload(FILE, options(place, { atOnce: 9 })),
                         /atOnce must be a whole number from 1 to 8, not 9/);
    await assert.rejects(upload(FILE, options(place, { partSize: 0 })),
                         RangeError);
});

test("the server is told what comes", async () => {
    const place = store();
    let told;

    await upload(FILE, options(place, {
        start: async (what) => {
            told = what;
            return "u1";
        },
    }));
    assert.deepEqual(told, { size: 105, partSize: 5, count: 21 });
    await assert.rejects(
        upload(FILE, options(place, { start: async () => undefined })),
        /start\(\) must return the id/);
});

test("an empty file is one empty part", async () => {
    const place = store();
    const sent = await upload(new Blob([]), options(place));

    assert.deepEqual(sent.parts.map(({ index }) => index), [0]);
    assert.equal(place.parts.get(0).byteLength, 0);
});

test("a part is asked again six times, and the URL anew each time",
     async () => {
    const world = virtual();
    const place = store((index, attempt) =>
        index === 3 && attempt <= 6 ? answer(429) : undefined);

    await upload(FILE, options(place, world));
    assert.equal(place.tries.get(3), 7);
    assert.equal(place.tries.get(4), 1);
    assert.deepEqual(world.waits, [500, 1000, 2000, 4000, 8000, 15000]);
});

test("after the sixth retry it stops, with all that is needed to go on",
     async () => {
    const states = [];
    const broken = store((index) => index === 3 ? answer(503) : undefined);
    const stopped = await upload(FILE, options(broken, {
        atOnce: 1, onProgress: (state) => states.push(JSON.stringify(state)),
    })).catch((error) => error);

    assert.ok(stopped instanceof UploadError);
    assert.equal(broken.tries.get(3), 7);
    assert.equal(stopped.message, "the upload u1 stopped: the server answered " +
                 "503 to the last of 7 attempts");
    assert.equal(stopped.cause.name, "BackoffError");
    assert.deepEqual(Object.keys(stopped.state.done), ["0", "1", "2"]);
    assert.equal(states.length, 4); // the id before any part
    assert.deepEqual(JSON.parse(states[0]).done, {});
    assert.equal(states.at(-1), JSON.stringify(stopped.state));

    const mended = store();
    const sent = await upload(FILE, options(mended, {
        resume: JSON.parse(states.at(-1)),
    }));

    assert.equal(mended.starts, 0);
    assert.equal(sent.id, "u1");
    assert.equal(sent.parts.length, 21);
    assert.equal(mended.parts.size, 18); // what had arrived is not sent again
    assert.equal(stopped.state.done[5], undefined); // yours is untouched
});

test("the first part that fails stops the others", async () => {
    const place = store((index) => index === 2 ? answer(403) : undefined);

    await assert.rejects(upload(FILE, options(place)),
                         /the upload u1 stopped: part 2 got status 403/);
    assert.ok(place.tries.size < 21);
    assert.equal(place.under, 0); // no request is in flight
});

test("a state of another file is refused", async () => {
    const place = store();
    const resume = { id: "u7", size: 104, partSize: 5, done: {} };

    await assert.rejects(upload(FILE, options(place, { resume })),
                         /file of 104 bytes; this file has 105/);
    resume.size = 105;
    await assert.rejects(upload(FILE, options(place, { resume, partSize: 6 })),
                         /started with parts of 5 bytes, not 6/);
    await assert.rejects(upload(FILE, options(place, { resume: { id: 1 } })),
                         /resume must be the state of an upload/);
    assert.equal(place.tries.size, 0);
});

test("finish: what it says is handed over, and if it fails all parts are there",
     async () => {
    const place = store();
    let finished;

    assert.equal(await upload(FILE, options(place, {
        finish: async (sent) => {
            finished = sent;
            return "done";
        },
    })), "done");
    assert.equal(finished.parts.length, 21);

    const stopped = await upload(FILE, options(store(), {
        finish: async () => {
            throw new Error("finalize is limited");
        },
    })).catch((error) => error);
    const again = store();

    assert.match(stopped.message, /stopped: finalize is limited/);
    await upload(FILE, options(again, { resume: stopped.state }));
    assert.equal(again.tries.size, 0);
});

test("a signal stops it, and the rest can follow", async () => {
    const stop = new AbortController();
    const place = store((index) => {
        if (index === 9)
            stop.abort(new Error("enough"));
    });
    const stopped = await upload(FILE, options(place, { signal: stop.signal }))
        .catch((error) => error);

    assert.ok(stopped instanceof UploadError);
    assert.equal(stopped.cause.message, "enough");
    assert.ok(place.tries.size < 21);

    const rest = store();

    await upload(FILE, options(rest, { resume: stopped.state }));
    assert.equal(rest.parts.size + Object.keys(stopped.state.done).length, 21);
});
