// frameworks.js -- the same small application in each framework: it sets
// headers, asks Sluice, and answers "made" with 201, or what `handler` does.

import { once } from "node:events";
import { createServer } from "node:http";
import { createRequire } from "node:module";

import * as forExpress from "../../clients/js/express.js";
import forFastify from "../../clients/js/fastify.js";
import * as forHono from "../../clients/js/hono.js";
import * as forNext from "../../clients/js/next.js";

const root = new URL("../..", import.meta.url).pathname;
export const modules =
    process.env.SLUICE_NODE_MODULES ?? `${root}build/node_modules`;

export const load = createRequire(`${modules}/`);

const asker = (port) => (path, init) =>
    fetch(`http://127.0.0.1:${port}${path}`, init);

async function listen(t, server) {
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    t.after(() => {
        server.closeAllConnections?.();
        server.close();
    });
    return asker(server.address().port);
}

// A framework with Request and Response behind node:http.
export function bridge(handle) {
    return createServer(async (incoming, outgoing) => {
        const gone = new AbortController();
        const chunks = [];

        outgoing.once("close", () => gone.abort());

        for await (const chunk of incoming)
            chunks.push(chunk);

        const request = new Request(`http://127.0.0.1${incoming.url}`, {
            method: incoming.method, headers: incoming.headers, signal: gone.signal,
            body: chunks.length > 0 ? Buffer.concat(chunks) : undefined });
        const response = await handle(request).catch((error) =>
            new Response(error.message, { status: 500 }));

        if (gone.signal.aborted)
            return;
        outgoing.writeHead(response.status, Object.fromEntries(response.headers));
        outgoing.flushHeaders();
        if (response.body && incoming.method !== "HEAD") {
            const reader = response.body.getReader();

            gone.signal.addEventListener("abort", () =>
                reader.cancel().catch(() => {}));
            for (let got; !(got = await reader.read()).done;)
                outgoing.write(got.value);
        }
        outgoing.end();
    });
}

const nodeHandler = (request, response) => {
    response.statusCode = 201;
    response.end("made");
};


export const frameworks = [{
    name: "node:http", setsBefore: true,
    async start(t, options, headers, handler = nodeHandler) {
        const gate = forExpress.sluice(options);

        return listen(t, createServer((request, response) => {
            for (const [name, value] of Object.entries(headers))
                response.setHeader(name, value);
            gate(request, response, (error) => {
                if (error)
                    response.writeHead(500).end(error.message);
                else
                    handler(request, response);
            });
        }));
    },
}, {
    name: "express", setsBefore: true,
    async start(t, options, headers, handler = nodeHandler) {
        const app = load("express")();

        app.use((request, response, next) => {
            response.set(headers);
            next();
        });
        app.use(forExpress.sluice(options));
        app.use(handler);
        app.use((error, request, response, next) => {
            response.status(500).send(error.message);
            void next;
        });
        return listen(t, createServer(app));
    },
}, {
    name: "express, headers set later",
    async start(t, options, headers) {
        const app = load("express")();

        app.use(forExpress.sluice(options));
        app.use((request, response) => {
            response.writeHead(201, headers);
            response.end("made");
        });
        return listen(t, createServer(app));
    },
}, {
    name: "fastify", setsBefore: true,
    async start(t, options, headers, handler) {
        const app = load("fastify")({ forceCloseConnections: true });

        app.addHook("onRequest", async (request, reply) => {
            reply.headers(headers);
        });
        await app.register(forFastify, options);
        app.all("/*", handler ?? ((request, reply) => {
            reply.code(201).send("made");
        }));
        await app.listen({ port: 0, host: "127.0.0.1" });
        t.after(() => app.close());
        return asker(app.server.address().port);
    },
}, {
    name: "hono", setsBefore: true,
    async start(t, options, headers, handler) {
        const { Hono } = load("hono");
        const app = new Hono();

        app.use(async (c, next) => {
            for (const [name, value] of Object.entries(headers))
                c.header(name, value);
            await next();
        });
        app.use(forHono.sluice(options));
        app.all("/*", handler ?? ((c) => c.body("made", 201)));
        return listen(t, bridge(async (request) => app.fetch(request)));
    },
}, {
    name: "next",
    async start(t, options, headers, handler) {
        const { NextRequest, NextResponse } = load("next/server");
        const route = forNext.withSluice(options, handler ?? (() =>
            new NextResponse("made", { status: 201, headers })));

        return listen(t, bridge((request) => route(new NextRequest(request), {})));
    },
}];

