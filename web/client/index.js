// index.js -- the client's half of a limit; docs/guide/client.md tells it.

export { Backoff, BackoffError, isRetried, sleep, toldWait, withBackoff }
    from "./backoff.js";
export { fetchWithBackoff, newIdempotencyKey } from "./fetch.js";
export { RateLimitError, rateLimit } from "./ratelimit.js";
export { UploadError, upload } from "./upload.js";
