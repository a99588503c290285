// frameworks.ts -- the middleware in applications with the types of their
// frameworks, as the pages of docs/guide/clients have it. Compiled, not run.

import express from "express";
import Fastify from "fastify";
import { Hono } from "hono";
import { NextRequest, NextResponse } from "next/server.js";
import { type Result, Sluice } from "sluice-client";
import { sluice as forExpress } from "sluice-client/express";
import forFastify from "sluice-client/fastify";
import { forwardedFor, sluice as forHono } from "sluice-client/hono";
import { gate, withSluice } from "sluice-client/next";

declare const maybe: string | undefined;

export async function client(): Promise<Result> {
    const sluice = new Sluice({ url: maybe, token: maybe });

    await sluice.report({ org: "acme", limit: "minutes", amount: 3,
                          idempotency_key: maybe });
    return sluice.check({ path: "/", user: maybe });
}

export const app = express();

app.use(forExpress({ user: (request) => request.get("x-user") }));
app.get("/chat", forExpress({ cost: 500, hold: "30s", token: maybe }),
        (request, response) => {
            request.sluice?.setCost(350);
            response.send("hello");
        });
app.use(forExpress({
    settle: ({ status }) => status < 400 ? 1 : 0,
    deny: (result, request, response) => {
        response.status(result.status).json({ path: request.path });
    } }));
app.use((request, response) => {
    // @ts-expect-error: it is undefined if the request was skipped
    response.send(request.sluice.result.by);
});

export const fastify = Fastify();

await fastify.register(forFastify);
await fastify.register(forFastify, {
    hook: "preHandler", user: (request) => request.headers["x-user"],
    deny: (result, request, reply) => reply.code(418).send(result.body) });
fastify.get("/a", { config: { sluice: { cost: 5 } } },
            async (request) => request.sluice?.result.remaining);
fastify.get("/b", { config: { sluice: false } }, async () => "b");

export const hono = new Hono();

hono.use(forHono({ ip: forwardedFor(1),
                   user: (c) => c.get("jwtPayload")?.sub }));
hono.get("/chat", forHono({ cost: 500, hold: "30s" }), (c) => {
    c.get("sluice")?.setCost(350);
    return c.text("hello");
});

export const GET = withSluice(
    { ip: forwardedFor(1), cost: 500, hold: "30s" },
    async (request, context, passage) => {
        passage?.setCost(350);
        return new Response("hello");
    });
export const PUT = withSluice(
    gate({ ip: forwardedFor(1) }),
    async (request: NextRequest,
           { params }: { params: Promise<{ id: string }> }, passage) =>
        NextResponse.json({ id: (await params).id, path: request.nextUrl.pathname,
                            left: passage?.result.remaining }));
export const middleware = withSluice({ ip: forwardedFor(1) }, () =>
    NextResponse.next());
