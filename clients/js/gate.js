// gate.js -- what the middleware of all frameworks shares: the check of a
// request, its hold, and the answer to a denied one.

import { Sluice, readDuration } from "./client.js";
import { sleep } from "./backoff.js";
import { SluiceError } from "./transport.js";

// Anonymous callers may be told apart by these.
const HEADERS = ["user-agent", "accept-language"];

// Members of a check that an option of the same name sets, by a value or by a
// function of the request.
const FACTS = ["user", "org", "plan", "role", "ip", "cost", "hold", "wait",
               "job", "limit", "key"];
const OWN = [...FACTS, "client", "headers", "skip", "settle", "deny", "onError"];
const CALLERS = ["user", "org", "ip", "key"];

/**
 * The address that `hops` proxies in front of the application vouch for: the
 * one that many from the right in X-Forwarded-For. Addresses further left may
 * come from the client.
 */
export function forwardedFor(hops = 1) {
    return (request) => {
        const { headers } = request.req?.raw ?? request;
        const text = typeof headers.get === "function"
            ? headers.get("x-forwarded-for") : headers["x-forwarded-for"];
        const addresses = (text ?? "").split(",").map((one) => one.trim());

        return addresses.at(-hops) || undefined;
    };
}

/** The path and query of a request target, also of the absolute form. */
export function pathOf(target) {
    if (target.startsWith("/"))
        return target;
    try {
        const { pathname, search } = new URL(target);

        return pathname + search;
    } catch {
        return target;
    }
}

function checkNames(options) {
    const { client, ...rest } = options;
    const clientOptions = {};

    for (const [name, value] of Object.entries(rest))
        if (!OWN.includes(name) && value !== undefined)
            clientOptions[name] = value;
    if (client && Object.keys(clientOptions).length > 0)
        throw new TypeError(
            `"${Object.keys(clientOptions)[0]}" is not an option of the ` +
            `middleware; with \`client\`, set it there`);
    if (options.limit && !options.key)
        throw new TypeError("`limit` needs `key`: whom the limit counts");
    return clientOptions;
}

// Frameworks would send the status of a refusal to the user, as if the request
// of the user was wrong.
function hideStatus(error) {
    throw error instanceof SluiceError
        ? new Error(`the request cannot be checked: ${error.message}`,
                    { cause: error })
        : error;
}

/** One use of the middleware. */
export class Gate {
    constructor(options = {}, { ip } = {}) {
        const clientOptions = checkNames(options);

        this.options = { ...options, ip: options.ip ?? ip };
        if (!CALLERS.some((name) => this.options[name]) && !options.headers)
            throw new TypeError(
                "say who asks: set `user`, `org` or `ip`, for example " +
                "ip: forwardedFor(1) behind one proxy");
        this.client = options.client ??
            new Sluice({ ...clientOptions, onError: options.onError });
        this.headers = [...HEADERS, ...options.headers ?? []]
            .map((name) => name.toLowerCase());
    }

    async #checkOf(request, options, { method, target, header, requestId }) {
        const check = { headers: {} };

        for (const name of FACTS) {
            let value = options[name];

            if (typeof value === "function")
                value = value(request);
            if (typeof value?.then === "function")
                value = await value;

            if (value !== undefined && value !== null && value !== "")
                check[name] = typeof value === "number" && name !== "cost"
                    ? String(value) : value;
        }
        if (!check.job && !check.limit)
            Object.assign(check, { method, path: pathOf(target) });
        for (const name of this.headers) {
            const value = header(name);

            if (typeof value === "string")
                check.headers[name] = value;
        }
        if (requestId)
            check.request_id = String(requestId);
        return check;
    }

    /**
     * The result for a request, and its hold; null if the request is skipped.
     * `facts` describes the request: method, target, header(name), requestId.
     * `more` replaces options for this request.
     */
    async pass(request, facts, more = null) {
        const options = more ? { ...this.options, ...more } : this.options;

        if (options.skip && await options.skip(request))
            return null;

        const check = await this.#checkOf(request, options, facts);
        const result = await this.client.check(check).catch(hideStatus);

        if (result.allowed && result.waitMs > 0)
            await sleep(result.waitMs);
        return new Passage(this, result, check);
    }
}

/** A checked request: its result, and its hold until the response has ended. */
export class Passage {
    #gate;
    #timer;
    #ended = false;

    constructor(gate, result, check) {
        this.#gate = gate;
        this.result = result;
        this.cost = undefined;
        if (result.hold)
            this.#keep(check.hold);
    }

    // A response may take longer than the hold: extend it while it is sent.
    #keep(time) {
        const { client } = this.#gate;
        const ms = this.result.holdExpiresMs ?? readDuration(time);

        this.#timer = setInterval(() => {
            client.extend(this.result.hold, time).catch(this.#report);
        }, Math.max(50, ms / 2));
        this.#timer.unref?.();
    }

    #report = (error) => this.#gate.options.onError?.(error);

    /** Sets the cost with which the hold is settled when the response ends. */
    setCost(cost) {
        this.cost = cost;
    }

    async #settle(how) {
        const { client, options } = this.#gate;
        const { hold } = this.result;
        const cost = this.cost ?? await options.settle?.(how);

        if (cost === undefined && how.status >= 500)
            return client.release(hold, { status: how.status });
        return client.settle(hold, cost, { status: how.status });
    }

    /**
     * Ends the hold: with the cost that setCost() or the option `settle` gave;
     * else it is released after a status of 500 or above, and settled otherwise.
     * A client that goes away early pays: it must not choose the cost.
     */
    async end(how) {
        if (this.#ended || !this.result.hold)
            return;
        this.#ended = true;
        clearInterval(this.#timer);
        try {
            await this.#settle({ ...how, result: this.result });
        } catch (error) {
            this.#report(error);
        }
    }

    /** The body of a denial as text. */
    bodyText() {
        const { body } = this.result;

        if (body === null)
            return "";
        return typeof body === "string" ? body : JSON.stringify(body);
    }
}
