// index.js -- client-side retry; see docs/guide/client.md.

export { Backoff, BackoffError, isRetried, sleep, toldWait, withBackoff }
    from "./backoff.js";
export { fetchWithBackoff, newIdempotencyKey } from "./fetch.js";
export { RateLimitError, rateLimit, setHeaders } from "./ratelimit.js";
export { UploadError, upload } from "./upload.js";
