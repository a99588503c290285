// app.js -- a public search on Hono: visitors are counted by address, and get an
// answer in the style of the application when they are denied.

import { serve } from "@hono/node-server";
import { Hono } from "hono";
import { sluice } from "sluice-client/hono";

const app = new Hono();

app.use("/api/*", sluice({
    cost: (c) => c.req.query("deep") ? 5 : 1,
    deny: (result, c) => c.json({
        error: "slow down", seconds: Math.ceil((result.retryMs ?? 0) / 1000),
    }, result.status),
}));
app.get("/api/search", (c) => c.json({ found: [] }));
serve({ fetch: app.fetch, port: process.env.PORT ?? 3000 });
