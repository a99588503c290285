// app.js FRAMEWORK -- one answer three times: /bare without a limit, /sluice
// with ours, and in Express /rival with express-rate-limit and Redis. ?u=NAME is
// the user.
//
// PORT, SLUICE_URL and REDIS_URL say where everything is.

import { createServer } from "node:http";
import { createRequire } from "node:module";

import * as forExpress from "../../clients/js/express.js";
import forFastify from "../../clients/js/fastify.js";
import * as forHono from "../../clients/js/hono.js";
import * as forNext from "../../clients/js/next.js";

const root = new URL("../..", import.meta.url).pathname;
const load = createRequire(`${root}build/node_modules/`);
const port = Number(process.env.PORT);
const host = "127.0.0.1";
const MANY = 1_000_000_000;

async function rival() {
    const { rateLimit } = load("express-rate-limit");
    const { RedisStore } = load("rate-limit-redis");
    const client = load("redis").createClient({ url: process.env.REDIS_URL });

    await client.connect();
    return rateLimit({
        windowMs: 60_000, limit: MANY, standardHeaders: true,
        legacyHeaders: false, keyGenerator: (request) => request.query.u,
        store: new RedisStore({ sendCommand: (...words) =>
            client.sendCommand(words) }) });
}

const apps = {
    async express() {
        const app = load("express")();
        const answer = (request, response) => response.json({ found: [] });
        const limit = forExpress.sluice({
            user: (request) => request.query.u });

        app.get("/bare", answer);
        app.get("/sluice", limit, answer);
        app.get("/rival", await rival(), answer);
        app.listen(port, host);
    },

    async fastify() {
        const app = load("fastify")();

        await app.register(forFastify, {
            user: (request) => request.query.u });
        app.get("/bare", { config: { sluice: false } },
                async () => ({ found: [] }));
        app.get("/sluice", async () => ({ found: [] }));
        await app.listen({ port, host });
    },

    async hono() {
        const { Hono } = load("hono");
        const { serve } = load("@hono/node-server");
        const app = new Hono();
        const answer = (c) => c.json({ found: [] });

        app.get("/bare", answer);
        app.get("/sluice", forHono.sluice({
            user: (c) => c.req.query("u") }), answer);
        serve({ fetch: app.fetch, port, hostname: host });
    },

    // Route handlers, behind the smallest server that can call them.
    async next() {
        const { NextRequest } = load("next/server");
        const bare = async () => Response.json({ found: [] });
        const limited = forNext.withSluice({
            user: (request) => request.nextUrl.searchParams.get("u") }, bare);

        createServer(async (incoming, outgoing) => {
            const request = new NextRequest(`http://${host}${incoming.url}`, {
                headers: incoming.headers });
            const handler = incoming.url.startsWith("/bare?") ? bare : limited;
            const response = await handler(request, {});

            outgoing.writeHead(response.status,
                               Object.fromEntries(response.headers));
            outgoing.end(await response.text());
        }).listen(port, host);
    },
};

await apps[process.argv[2]]();
