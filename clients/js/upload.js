// upload.js -- resumable upload of a file in parts: at most eight parts at
// once, at most six retries per part.
//
// The state of an upload is one plain object. An application that stores it
// (for example in localStorage) can resume after a crash without sending a part
// twice.

import { withBackoff } from "./backoff.js";

const PART = 8 * 1024 * 1024;
const AT_ONCE = 8;
const RETRIES = 6;

/** The upload stopped. Pass `state` as `resume` to continue. */
export class UploadError extends Error {
    constructor(message, { state, cause }) {
        super(message, { cause });
        this.name = "UploadError";
        this.state = state;
    }
}

function whole(name, value, least, most) {
    if (!Number.isSafeInteger(value) || value < least || value > most)
        throw new RangeError(
            `${name} must be a whole number from ${least} to ${most}, ` +
            `not ${value}`);
    return value;
}

// A state of another file or part size would corrupt the upload.
function checkState(state, size, partSize) {
    if (!state || state.id === undefined || !state.done ||
        typeof state.done !== "object")
        throw new TypeError("resume must be the state of an upload");
    if (state.size !== size)
        throw new RangeError(
            `the state belongs to a file of ${state.size} bytes; this file ` +
            `has ${size}`);
    if (partSize !== undefined && state.partSize !== partSize)
        throw new RangeError(
            `the upload was started with parts of ${state.partSize} bytes, ` +
            `not ${partSize}`);
}

async function begin(source, options) {
    if (options.resume) {
        checkState(options.resume, source.size, options.partSize);
        return { ...options.resume, done: { ...options.resume.done } };
    }

    const partSize = whole("partSize", options.partSize ?? PART, 1,
                           Number.MAX_SAFE_INTEGER);
    const count = Math.max(1, Math.ceil(source.size / partSize));
    const id = await options.start({ size: source.size, partSize, count });

    if (id === undefined || id === null)
        throw new TypeError("start() must return the id of the upload");
    return { id, size: source.size, partSize, done: {} };
}

async function sendPart(source, state, index, options, signal) {
    const from = index * state.partSize;
    const chunk =
        source.slice(from, Math.min(from + state.partSize, state.size));
    const ask = options.fetch ?? globalThis.fetch;
    // A new URL for each attempt: its signature may have expired.
    const call = async (attempt) => ask(
        await options.urlOf({ id: state.id, index, attempt }),
        { method: "PUT", body: chunk, headers: options.headers, signal });
    const response = await withBackoff(
        call, { ...options, attempts: RETRIES + 1, signal });

    if (!response.ok)
        throw new Error(`part ${index} got status ${response.status}`);
    return response.headers.get("etag") ?? true;
}

// One signal for all parts: the first failure stops the others.
function linked(signal) {
    const stop = new AbortController();
    const on = () => stop.abort(signal.reason);

    if (signal?.aborted)
        on();
    else
        signal?.addEventListener("abort", on, { once: true });
    return {
        signal: stop.signal,
        abort: (reason) => stop.abort(reason),
        unlink: () => signal?.removeEventListener("abort", on),
    };
}

async function sendAll(source, state, options, all) {
    const count = Math.max(1, Math.ceil(state.size / state.partSize));
    const todo = Array.from({ length: count }, (_, index) => index)
        .filter((index) => !(index in state.done));
    const worker = async () => {
        for (;;) {
            const index = todo.shift();

            if (index === undefined || all.signal.aborted)
                return;
            state.done[index] =
                await sendPart(source, state, index, options, all.signal);
            await options.onProgress?.(snapshot(state));
        }
    };
    const atOnce = whole("atOnce", options.atOnce ?? AT_ONCE, 1, AT_ONCE);
    const workers = Array.from({ length: atOnce }, () =>
        worker().catch((error) => {
            all.abort(error);
            throw error;
        }));

    await Promise.allSettled(workers);
    if (all.signal.aborted)
        throw all.signal.reason;
}

const snapshot = (state) => ({ ...state, done: { ...state.done } });

const partsOf = (state) =>
    Object.keys(state.done).map(Number).sort((a, b) => a - b)
        .map((index) => ({ index, etag: state.done[index] }));

/**
 * Sends a Blob or File in parts. Returns the result of finish(), or the id and
 * the parts.
 */
export async function upload(source, options) {
    const state = await begin(source, options);
    const all = linked(options.signal);

    try {
        await options.onProgress?.(snapshot(state));
        await sendAll(source, state, options, all);

        const sent = { id: state.id, parts: partsOf(state) };

        return options.finish ? await options.finish(sent) : sent;
    } catch (cause) {
        throw new UploadError(
            `the upload ${state.id} stopped: ${cause?.message ?? cause}`,
            { state: snapshot(state), cause });
    } finally {
        all.unlink();
    }
}
