// http1.js -- HTTP/1.1 to one server over kept connections, on Node.
//
// node:http costs a program several times as much as the check itself. The
// requests of this client are small and known, and so are the answers: a body has
// a length, is in chunks, or ends with the connection.

const LONGEST_ANSWER = 64 * 1024 * 1024;
const LONGEST_HEAD = 64 * 1024;
const LONGEST_LINE = 4096; // of a chunk
const CONNECTIONS = 64;
const IDLE = 16;
const MOST = 16; // calls that share a connection

// Not a Buffer: bundles for browsers have none.
const NOTHING = new Uint8Array(0);

/** The answer is not HTTP. */
export class MalformedError extends Error {}

// ---- bodies. push() takes what has arrived and returns what comes after the
// body, or null if the body is not complete.

class LengthBody {
    constructor(length) {
        this.left = length;
        this.parts = [];
    }

    push(bytes) {
        if (bytes.length < this.left) {
            this.left -= bytes.length;
            this.parts.push(bytes);
            return null;
        }
        this.parts.push(bytes.subarray(0, this.left));
        return bytes.subarray(this.left);
    }
}

class ChunkedBody {
    constructor() {
        this.parts = [];
        this.rest = NOTHING;
        this.left = 0;
        this.next = "size"; // size, data, end (of the data), trailer
        this.length = 0;
    }

    // The next line, or null.
    #line() {
        const end = this.rest.indexOf("\r\n");

        if (end < 0 ? this.rest.length > LONGEST_LINE : end > LONGEST_LINE)
            throw new MalformedError("a line between chunks is too long");
        if (end < 0)
            return null;

        const line = this.rest.toString("latin1", 0, end);

        this.rest = this.rest.subarray(end + 2);
        return line;
    }

    #data() {
        const part = this.rest.subarray(0, this.left);

        this.parts.push(part);
        this.left -= part.length;
        this.rest = this.rest.subarray(part.length);
        if (this.left === 0)
            this.next = "end";
        return this.left === 0;
    }

    #size(line) {
        const [size] = /^[0-9a-f]{1,8}(?=$|[;\s])/i.exec(line) ?? [];

        if (size === undefined)
            throw new MalformedError("a chunk has no size");
        this.left = parseInt(size, 16);
        this.length += this.left;
        if (this.length > LONGEST_ANSWER)
            throw new MalformedError("the answer is longer than 64 MiB");
        this.next = this.left > 0 ? "data" : "trailer";
    }

    push(bytes) {
        this.rest = this.rest.length > 0 ? Buffer.concat([this.rest, bytes])
            : bytes;
        for (;;) {
            if (this.next === "data") {
                if (!this.#data())
                    return null;
                continue;
            }

            const line = this.#line();

            if (line === null)
                return null;
            if (this.next === "size")
                this.#size(line);
            else if (this.next === "trailer" && line === "")
                return this.rest;
            else if (this.next === "end" && line !== "")
                throw new MalformedError("a chunk is longer than its size");
            else if (this.next === "end")
                this.next = "size";
        }
    }
}

class OpenBody {
    constructor() {
        this.parts = [];
        this.length = 0;
    }

    push(bytes) {
        this.length += bytes.length;
        if (this.length > LONGEST_ANSWER)
            throw new MalformedError("the answer is longer than 64 MiB");
        this.parts.push(bytes);
        return null;
    }
}

// ---- heads ----

const field = (name) => new RegExp(`\r\n${name}:[ \t]*([^\r\n]*)`, "i");
const STATUS = /^HTTP\/1\.([01]) (\d{3})(?:[ \r]|$)/;
const LENGTH = field("content-length");
const CODING = field("transfer-encoding");
const CONNECTION = field("connection");

function bodyOf(head, status) {
    const coding = CODING.exec(head)?.[1].trim().toLowerCase();
    const length = LENGTH.exec(head)?.[1].trim();

    if (status === 204 || status === 304)
        return new LengthBody(0);
    if (coding !== undefined && coding !== "chunked")
        throw new MalformedError(`the answer has the coding ${coding}`);
    if (coding)
        return new ChunkedBody();
    if (length === undefined)
        return new OpenBody();
    if (!/^\d{1,15}$/.test(length))
        throw new MalformedError(`the answer has the length ${length}`);
    if (Number(length) > LONGEST_ANSWER)
        throw new MalformedError("the answer is longer than 64 MiB");
    return new LengthBody(Number(length));
}

// ---- connections ----

class Connection {
    constructor(pool, socket) {
        this.pool = pool;
        this.socket = socket;
        this.calls = []; // in the order of their answers
        this.answers = 0; // to these calls
        this.reads = 0; // in which they came
        this.wasUsed = this.isClosing = false;
        this.#reset();
        socket.setNoDelay?.(true);
        socket.on("data", (bytes) => this.#read(bytes));
        socket.on("error", (error) => {
            this.error = error;
        });
        socket.on("end", () => pool.retire(this));
        socket.on("close", () => this.#lost());
    }

    #reset() {
        this.head = NOTHING; // until it is complete
        this.body = null;
        this.status = 0;
        this.keeps = true;
    }

    /** Sends calls; nothing else is under way. */
    send(calls) {
        let text = "";

        for (const call of calls) {
            call.connection = this;
            text += call.text;
        }
        this.calls = calls;
        this.answers = this.reads = 0;
        this.socket.ref();
        this.socket.write(text);
    }

    /** A call has ended without an answer. */
    forget() {
        if (this.calls.every((call) => call.isSettled))
            this.fail();
    }

    fail(error) {
        const calls = this.calls.splice(0);

        this.answers = 0;
        this.socket.destroy();
        for (const call of calls)
            call.settle(error);
    }

    #read(bytes) {
        let rest = bytes;

        this.reads++;
        try {
            while (rest.length > 0 && this.calls.length > this.answers) {
                rest = this.body ? this.body.push(rest) : this.#readHead(rest);
                if (rest === null)
                    return;
                if (!this.#answered())
                    return;
            }
        } catch (error) {
            this.fail(error);
            return;
        }
        if (rest.length > 0) // nothing was asked
            this.socket.destroy();
        else if (this.answers === this.calls.length)
            this.pool.free(this);
    }

    // Returns what comes after the body, or null.
    #readHead(bytes) {
        const all = this.head.length > 0 ? Buffer.concat([this.head, bytes]) : bytes;
        const end = all.indexOf("\r\n\r\n");

        if (!"HTTP/1.".startsWith(all.toString("latin1", 0, 7)))
            throw new MalformedError("the answer is not HTTP/1.1");
        if (end < 0) {
            if (all.length > LONGEST_HEAD)
                throw new MalformedError("the head of the answer is too long");
            this.head = all;
            return null;
        }

        const head = all.toString("latin1", 0, end);
        const [, minor, status] = STATUS.exec(head) ?? [];

        if (!status)
            throw new MalformedError("the answer is not HTTP/1.1");
        this.head = NOTHING;
        if (status.startsWith("1")) // more follows
            return this.#readHead(all.subarray(end + 4));
        this.status = Number(status);
        this.body = bodyOf(head, this.status);

        const says = CONNECTION.exec(head)?.[1].toLowerCase();

        this.keeps = !(this.body instanceof OpenBody) &&
            (says ? !says.includes("close") : minor === "1");
        return this.body.push(all.subarray(end + 4));
    }

    // Settles the next call. False if the connection cannot go on.
    #answered() {
        const { keeps, status } = this;
        const { parts } = this.body;
        const text = (parts.length === 1 ? parts[0] : Buffer.concat(parts))
            .toString("utf8");

        this.#reset();
        this.calls[this.answers++].settle(null, { status, text });
        this.wasUsed = true;
        if (!keeps)
            this.socket.destroy();
        this.isClosing = !keeps;
        return keeps;
    }

    // Calls after an answer with which the server closes are repeated: it has not
    // read them. So are those on a kept connection that it has closed without an
    // answer, except those that must not be made twice: it may have read them.
    #lost() {
        const { error } = this;

        // Without calls: they ended before the body.
        if (this.body instanceof OpenBody && !error &&
            this.calls.length > this.answers)
            this.#answered();

        const left = this.calls.slice(this.answers);
        const isStale = this.wasUsed && this.reads === 0 &&
            (!error || ["ECONNRESET", "EPIPE"].includes(error.code));
        const why = error ?? (this.body || this.head.length > 0
            ? new MalformedError("the connection was closed within the answer")
            : new Error("the connection was closed"));

        this.calls = [];
        this.answers = 0;
        this.pool.remove(this);
        for (const call of left)
            if (this.isClosing || isStale && !call.once)
                this.pool.place(call);
            else
                call.settle(why);
    }
}

// ---- calls ----

class Call {
    constructor(text, { alone, once }, resolve, reject) {
        this.text = text;
        this.alone = alone;
        this.once = once;
        this.resolve = resolve;
        this.reject = reject;
        this.connection = null;
        this.timer = null;
        this.isSettled = false;
    }

    watch(signal) {
        if (signal.aborted) {
            this.stop(signal.reason);
            return;
        }
        this.signal = signal;
        this.onAbort = () => this.stop(signal.reason);
        signal.addEventListener("abort", this.onAbort, { once: true });
    }

    settle(error, answer) {
        if (this.isSettled)
            return;
        this.isSettled = true;
        clearTimeout(this.timer);
        this.signal?.removeEventListener("abort", this.onAbort);
        if (error)
            this.reject(error);
        else
            this.resolve(answer);
    }

    stop(error) {
        this.settle(error);
        this.connection?.forget();
    }
}

/**
 * Connections to one server. `connect()` returns a socket.
 *
 * Calls of one turn of the event loop share a connection, one behind the other,
 * which saves most of the cost of a call. They wait for each other, so as many
 * share it as are answered in one read: many if the server decides in memory,
 * one if it waits for a database.
 */
export class Pool {
    #flush = () => {
        this.isScheduled = false;
        this.#send();
    };

    constructor(connect) {
        this.connect = connect;
        this.idle = []; // the latest last
        this.all = new Set();
        this.waiting = []; // calls without a connection
        this.most = 4; // calls that share a connection
        this.alone = 0; // answers while it is one
        this.isScheduled = false;
    }

    /**
     * Sends the text of a request; the answer is `{ status, text }`. After
     * `ms` the promise is rejected with what `late()` returns. A call that may
     * take long has its connection `alone`. One that must not be made twice, `once`,
     * is not repeated if the server may have read it.
     */
    ask(text, { ms, late, signal, alone = false, once = false }) {
        return new Promise((resolve, reject) => {
            const call = new Call(text, { alone, once }, resolve, reject);

            call.timer = setTimeout(() => call.stop(late()), ms);
            if (signal)
                call.watch(signal);
            this.place(call);
        });
    }

    place(call) {
        if (call.isSettled)
            return;
        call.connection = null;
        this.waiting.push(call);
        if (!this.isScheduled) {
            this.isScheduled = true;
            setImmediate(this.#flush);
        }
    }

    // The next calls that share a connection.
    #take() {
        const calls = [];
        let at = 0;

        for (; at < this.waiting.length && calls.length < this.most; at++) {
            const call = this.waiting[at];

            if (call.isSettled)
                continue;
            if (call.alone && calls.length > 0)
                break;
            calls.push(call);
            if (call.alone) {
                at++;
                break;
            }
        }
        this.waiting.splice(0, at);
        return calls;
    }

    #send() {
        while (this.waiting.length > 0 &&
               (this.idle.length > 0 || this.all.size < CONNECTIONS)) {
            const calls = this.#take();

            if (calls.length > 0)
                (this.idle.pop() ?? this.#open()).send(calls);
        }
    }

    #open() {
        const connection = new Connection(this, this.connect());

        this.all.add(connection);
        return connection;
    }

    /** All calls of a connection are answered. */
    free(connection) {
        const { calls, reads } = connection;

        if (calls.length > 1)
            this.most = reads === 1 ? Math.min(2 * this.most, MOST)
                : Math.max(this.most >> 1, 1);
        else if (this.most === 1 && ++this.alone % 64 === 0)
            this.most = 2; // try again
        connection.calls = [];
        connection.answers = 0;
        if (this.idle.length < IDLE || this.waiting.length > 0) {
            this.idle.push(connection);
            connection.socket.unref();
            this.#send();
        } else {
            connection.socket.destroy();
        }
    }

    /** The server closes the connection: no further calls. */
    retire(connection) {
        const at = this.idle.indexOf(connection);

        if (at >= 0)
            this.idle.splice(at, 1);
    }

    remove(connection) {
        this.all.delete(connection);
        this.retire(connection);
        this.#send();
    }

    /** Closes all connections; calls under way fail. */
    close() {
        const error = new Error("the client was closed");

        for (const call of this.waiting.splice(0))
            call.settle(error);
        for (const connection of this.all)
            connection.fail(error);
    }
}
