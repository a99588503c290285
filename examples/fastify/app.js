// app.js -- a chat that streams: the expected tokens are held, the actual ones
// are paid when the stream has ended.

import Fastify from "fastify";
import sluice from "sluice-client/fastify";
import { Readable } from "node:stream";

const app = Fastify();
const EXPECTED = 500;

await app.register(sluice, {
    org: (request) => request.headers["x-demo-org"], // stands for your sign-in
    skip: (request) => request.url === "/",
});
app.get("/", async () => "up");
app.post("/api/chat", {
    config: { sluice: { cost: { tokens: EXPECTED }, hold: "30s" } },
}, async (request, reply) => {
    const words = ["one", "two", "three"]; // stands for a language model
    let used = 0;

    async function* answer() {
        for (const word of words) {
            used += 100;
            request.sluice.setCost({ tokens: used });
            yield `${word}\n`;
        }
    }
    reply.type("text/plain");
    return reply.send(Readable.from(answer()));
});
await app.listen({ port: process.env.PORT ?? 3000 });
