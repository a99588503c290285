// GET /v1/history, kept up to date by asking only for what is new.
import { choice, get } from "./api.js";

export const DENIED = ["429", "402", "403", "409", "503", "other"];
const COLUMNS = ["allowed", ...DENIED, "shadow", "candidate", "consumed", "retries",
                 "retry_ms"];
const MOST = { "10s": 360, "1m": 1440 };

function grow(row, fresh, old, added, most) {
    for (const column of COLUMNS) {
        const before = row[column] ?? new Array(old).fill(0);
        const after = fresh?.[column] ?? new Array(added).fill(0);

        row[column] = before.concat(after).slice(-most);
    }
}

function merge(rows, fresh, old, added, most) {
    for (const row of fresh)
        if (!rows.has(row.name))
            rows.set(row.name, { name: row.name, endpoint: row.endpoint,
                                 limit: row.limit });
    for (const [name, row] of rows)
        grow(row, fresh.find((one) => one.name === name), old, added, most);
}

export class History {
    constructor(step) {
        this.step = step;
        this.clear();
    }

    clear() {
        this.next = 0;
        this.first = 0;
        this.count = 0;
        this.total = { name: "" };
        this.endpoints = new Map();
        this.limits = new Map();
        this.uses = new Map();
        grow(this.total, {}, 0, 0, 1);
    }

    async update() {
        const news = await get(`v1/history?step=${this.step}&since=${this.next}` +
                               `&daemon=${choice.daemon}`);
        const end = news.first + news.count * news.step;

        if (this.next > 0 && (news.first > this.next || end < this.next)) {
            this.clear(); // the daemon was restarted, or the page slept
            return this.update();
        }

        const most = MOST[this.step];

        grow(this.total, news.total, this.count, news.count, most);
        merge(this.endpoints, news.endpoints, this.count, news.count, most);
        merge(this.limits, news.limits, this.count, news.count, most);
        merge(this.uses, news.uses.map((one) => ({ ...one, endpoint: one.name,
            name: `${one.name}\n${one.limit}` })), this.count, news.count, most);
        this.count = Math.min(this.count + news.count, most);
        this.seconds = news.step;
        this.next = end;
        this.first = end - this.count * news.step;
        return this;
    }

    get times() {
        return Array.from({ length: this.count }, (_, i) => this.first + i * this.seconds);
    }
}

export const add = (numbers) => (numbers ?? []).reduce((a, b) => a + b, 0);

// Sums of a row over its whole time.
export function totals(row) {
    const sums = Object.fromEntries(COLUMNS.map((column) => [column, add(row[column])]));

    sums.denied = DENIED.reduce((all, column) => all + sums[column], 0);
    sums.requests = sums.allowed + sums.denied;
    sums.retry = sums.retries === 0 ? null
        : row.retries.reduce((all, n, i) => all + n * row.retry_ms[i], 0) / sums.retries;
    return sums;
}
