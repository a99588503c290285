// app.js -- an API behind tokens: the daemon verifies the token of each request
// and counts its user by the plan in it.

import express from "express";
import { sluice } from "sluice-client/express";

const app = express();

// The application's own request ids stay.
app.use((request, response, next) => {
    response.set("X-Request-Id", crypto.randomUUID());
    next();
});
app.use(sluice({
    headers: ["authorization"],
    onFailure: "local",
    local: { limit: 10, windowMs: 10_000 },
    onError: (error) => console.error(`sluice: ${error.message}`),
}));
app.get("/orders", (request, response) => {
    response.json({ orders: [], remaining: request.sluice.result.remaining });
});
app.listen(process.env.PORT ?? 3000);
