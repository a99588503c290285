// servers.js -- what the tests of clients/js share: a clock that only sleep
// moves, and servers that answer from a list.

export const NOW = Date.UTC(2026, 10, 15);

// A clock, a sleep that moves it, and chance that is not random.
export function virtual({ chance = 0, now = NOW } = {}) {
    const waits = [];
    const world = {
        waits,
        now: () => now,
        random: () => chance,
        sleep: async (ms, signal) => {
            signal?.throwIfAborted();
            waits.push(ms);
            now += ms;
        },
    };

    return world;
}

export function answer(status, headers = {}, body = null) {
    return new Response(body, { status, headers });
}

// A fetch that hands over one answer after the other, and the last for ever.
// Keeps what it was asked.
export function server(...answers) {
    const asked = [];
    const fetch = async (input, init = {}) => {
        const headers = Object.fromEntries(new Headers(init.headers));

        asked.push({ input, ...init, headers });

        const next = answers[Math.min(asked.length, answers.length) - 1];

        return typeof next === "function" ? next(asked.at(-1)) : next;
    };

    return { fetch, asked };
}
