// client.js -- the client of a daemon.

import { Allowance, Breaker } from "./fallback.js";
import { isVerdict, localResult, passed, resultOf, unavailable }
    from "./result.js";
import { SluiceError, Transport, readDeadline } from "./transport.js";

const FAILURES = ["allow", "deny", "local"];
const UNITS = { ms: 1, s: 1000, m: 60_000, min: 60_000, h: 3_600_000 };

const OPTIONS = ["url", "token", "deadlineMs", "onFailure", "local", "breaker",
                 "onError", "fetch", "now"];

/** Milliseconds of a duration such as "30s"; 0 if it is none. */
export function readDuration(text) {
    const parts = /^(\d+)(ms|s|m|min|h)$/.exec(text ?? "");

    return parts ? Number(parts[1]) * UNITS[parts[2]] : 0;
}

function wholeAtLeast(name, value, least) {
    if (!Number.isSafeInteger(value) || value < least)
        throw new RangeError(
            `${name} must be a whole number of at least ${least}, not ${value}`);
    return value;
}

function checkOptions({ onFailure = "allow", local, ...options }) {
    for (const name of Object.keys(options))
        if (!OPTIONS.includes(name))
            throw new TypeError(`unknown option "${name}"; the options are ` +
                                OPTIONS.join(", "));
    if (!FAILURES.includes(onFailure))
        throw new TypeError(
            `onFailure must be ${FAILURES.join(", ")}, not ${onFailure}`);
    if (onFailure === "local") {
        if (!local)
            throw new TypeError('onFailure "local" needs an allowance: ' +
                                "local: { limit: 60, windowMs: 60000 }");
        wholeAtLeast("local.limit", local.limit, 1);
        wholeAtLeast("local.windowMs", local.windowMs, 1);
    }
}

// The caller that an allowance of this process belongs to.
const callerOf = (check) =>
    check.user ?? check.org ?? check.key ?? check.ip ?? "";

function costOf({ cost }) {
    return typeof cost === "number" ? cost
        : Math.max(...Object.values(cost ?? { all: 1 }));
}

// What a second call would record or hold twice is not repeated.
const hasNoKey = (value) => !value?.idempotency_key;
const isOnce = (check) => Boolean(check.hold) && hasNoKey(check);

/** A client. All calls share its connections and its breaker. */
export class Sluice {
    #transport;
    #breaker;
    #allowance;

    constructor(options = {}) {
        checkOptions(options);

        const now = options.now ?? (() => performance.now());

        this.#transport = new Transport(options);
        this.#breaker = new Breaker(options.breaker, now);
        this.#allowance = options.local && new Allowance(options.local, now);
        this.onFailure = options.onFailure ?? "allow";
        this.deadlineMs = readDeadline(options.deadlineMs);
        this.onError = options.onError;
    }

    // Asks unless the breaker is open. A refusal is an answer, too.
    async #ask(method, path, value, options = {}) {
        if (!this.#breaker.mayAsk())
            throw new SluiceError("the daemon did not answer the last calls; " +
                                  "it is asked again shortly",
                                  { failure: "open" });
        try {
            const answer = await this.#transport.call(method, path, value, {
                signal: options.signal, alone: options.alone, once: options.once,
                deadlineMs: options.deadlineMs ?? this.deadlineMs });

            options.verify?.(answer);
            this.#breaker.good();
            return answer;
        } catch (error) {
            if (error instanceof SluiceError && error.failure)
                this.#breaker.bad();
            else if (error instanceof SluiceError)
                this.#breaker.good();
            throw error;
        }
    }

    #instead(failure, check) {
        if (this.onFailure === "local")
            return localResult(failure, this.#allowance.take(callerOf(check),
                                                             costOf(check)));
        return this.onFailure === "deny" ? unavailable(failure) : passed(failure);
    }

    // `read` makes results of an answer, `instead` makes them without one.
    async #decide(value, options, read, instead) {
        try {
            return read(await this.#ask("POST", "/v1/check", value, options));
        } catch (error) {
            if (!(error instanceof SluiceError) || !error.failure)
                throw error;
            this.onError?.(error);
            return instead(error.failure);
        }
    }

    /** Checks one request and takes its cost. */
    async check(check, options = {}) {
        const deadlineMs = (options.deadlineMs ?? this.deadlineMs) +
            readDuration(check.wait);

        return this.#decide(
            check, { ...options, deadlineMs, alone: Boolean(check.wait),
                     once: isOnce(check), verify: needVerdict }, resultOf,
            (failure) => this.#instead(failure, check));
    }

    /** Checks up to 1,000 requests at once; the results are in their order. */
    async checkAll(checks, options = {}) {
        if (checks.length === 0)
            return [];
        return this.#decide(
            checks,
            { ...options, once: checks.some(isOnce),
              verify: (answer) => needVerdicts(answer, checks.length) },
            (verdicts) => verdicts.map(resultOf),
            (failure) => checks.map((check) => this.#instead(failure, check)));
    }

    /** Checks a request and holds its cost for a time such as "30s". */
    async hold(check, time, options) {
        return this.check({ ...check, hold: time }, options);
    }

    /** Ends a hold with the actual cost; without one, with the held cost. */
    async settle(hold, cost, options) {
        return this.#end(hold, "settle", cost === undefined ? {} : { cost },
                         options);
    }

    /** Ends a hold and gives everything back. */
    async release(hold, options) {
        return this.#end(hold, "release", {}, options);
    }

    /** Sets the time of a hold, from now. */
    async extend(hold, time, options) {
        return this.#end(hold, "extend", { hold: time }, options);
    }

    #end(hold, verb, body, options = {}) {
        const more = options.status === undefined ? {} : { status: options.status };

        return this.#ask("POST", `/v1/holds/${encodeURIComponent(hold)}/${verb}`,
                         { ...body, ...more }, options);
    }

    /** Reports usage: one report, or an array of them. */
    async report(usage, options) {
        return this.#ask("POST", "/v1/usage", usage,
                         { ...options, once: [usage].flat().some(hasNoKey) });
    }

    /** The meters of a subject. */
    async usage(scope, id, options) {
        return this.#ask("GET", `/v1/usage/${encodeURIComponent(scope)}/` +
                                encodeURIComponent(id), undefined, options);
    }

    /** The verdict that a check would get, with its reasons. Takes nothing. */
    async explain(check, options) {
        return this.#ask("POST", "/v1/explain", check, options);
    }

    /** Closes idle connections. */
    async close() {
        await this.#transport.close();
    }
}

function needVerdict(answer) {
    if (!isVerdict(answer))
        throw new SluiceError("the answer is not a verdict",
                              { failure: "malformed" });
}

function needVerdicts(answer, count) {
    if (!Array.isArray(answer) || answer.length !== count ||
        !answer.every(isVerdict))
        throw new SluiceError(`the answer does not have ${count} verdicts`,
                              { failure: "malformed" });
}
