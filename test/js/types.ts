// types.ts -- how the module is used with types. Compiled, not run: what is
// marked as an error must be one.

import {
    Backoff, BackoffError, RateLimitResult, Result, Sluice, SluiceError,
    UploadState, fetchWithBackoff, isRetried, newIdempotencyKey, rateLimit,
    setHeaders, sleep, toldWait, upload, verifyWebhook, withBackoff,
} from "sluice-client";
import { forwardedFor, sluice as forExpress } from "sluice-client/express";
import forFastify from "sluice-client/fastify";
import { sluice as forHono } from "sluice-client/hono";
import { gate, withSluice } from "sluice-client/next";

export async function checks(): Promise<number | null> {
    const client = new Sluice({ url: "unix:/run/sluice", onFailure: "local",
                                local: { limit: 60, windowMs: 60_000 } });
    const result: Result = await client.check({ path: "/", user: "ann" });

    // @ts-expect-error: no such member
    await client.check({ path: "/", usr: "ann" });
    // @ts-expect-error: one of three words
    new Sluice({ onFailure: "throw" });
    setHeaders(new Headers(), result);
    try {
        const { hold } = await client.hold({ job: "j", cost: { t: 5 } }, "30s");

        if (hold)
            await client.settle(hold, { t: 3 }, { status: 200 });
    } catch (error) {
        if (error instanceof SluiceError && error.failure === "timeout")
            return error.status;
    }
    await verifyWebhook({ headers: new Headers(), body: "{}", secret: "whsec_A" });
    return result.retryMs;
}

export const middleware = [
    forExpress({ user: (request) => request.user?.id, ip: forwardedFor(1),
                 deny: (result, request, response) => response.end(result.code) }),
    forHono({ user: async () => "ann", hold: "30s",
              settle: ({ status, aborted }) => aborted ? 0 : status }),
    withSluice({ ip: forwardedFor() }, () => new Response("ok")),
    withSluice(gate({ user: "ann" }), (request: Request, context, passage) => {
        passage?.setCost(5);
        return Response.json(request.url);
    }),
    // @ts-expect-error: a cost is a number, or a map of them
    forExpress({ cost: "5" }),
    forFastify,
];

export async function calls(signal: AbortSignal): Promise<Response> {
    await fetchWithBackoff("/a");
    await fetchWithBackoff(new URL("http://a/"), { method: "POST", signal },
                           { attempts: 3, idempotencyKey: "k" });
    // @ts-expect-error: the signal belongs to fetch()'s own options
    await fetchWithBackoff("/a", {}, { signal });
    // @ts-expect-error: no such option
    await fetchWithBackoff("/a", {}, { retries: 3 });
    return withBackoff((attempt: number) => fetch(`/a?${attempt}`),
                       { once: "it is a stream", onWait: (w) => w.waitMs });
}

export async function waits(response: Response): Promise<number> {
    const backoff = new Backoff({ capMs: 10 });
    const told: number | null = toldWait(response.headers, Date.now());

    try {
        if (isRetried(response.status))
            await sleep(backoff.next(response));
    } catch (error) {
        if (error instanceof BackoffError)
            return error.retryAt ?? error.response.status;
    }
    return told ?? (await newIdempotencyKey()).length;
}

export async function limits(): Promise<number | null> {
    const result: RateLimitResult = await rateLimit(
        { key: "rl:prod:search:user:ann", limit: 20, windowSec: 10 });
    // @ts-expect-error: a key is a text
    await rateLimit({ key: 7 });
    // @ts-expect-error: one of three words
    await rateLimit({ key: "ann", limit: "search" }, { onFailure: "pass" });
    setHeaders(new Headers(), result);
    // @ts-expect-error: no headers
    setHeaders({}, result);
    return result.ok ? result.remaining : result.resetAt;
}

export async function uploads(file: File, resume?: UploadState):
    Promise<string> {
    const sent = await upload(file, {
        start: () => 7, urlOf: ({ id, index }) => `/${id}/${index}`, resume,
    });
    const done = await upload(file, {
        start: async ({ count }) => `${count}`,
        urlOf: async ({ attempt }) => new URL(`http://a/${attempt}`),
        finish: async ({ parts }) => parts.length,
        onProgress: (state) => localStorage.setItem("u", JSON.stringify(state)),
    });
    const count: number = done;

    // @ts-expect-error: parts are retried six times, whatever you say
    await upload(file, { start: () => 7, urlOf: () => "/", attempts: 2 });
    return `${sent.id} ${count}`;
}
