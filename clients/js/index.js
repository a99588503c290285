// index.js -- checks against a daemon, and retries of a denied client; see
// docs/guide/clients/javascript.md and docs/guide/client.md.

export { Backoff, BackoffError, isRetried, sleep, toldWait, withBackoff }
    from "./backoff.js";
export { Sluice } from "./client.js";
export { fetchWithBackoff, newIdempotencyKey } from "./fetch.js";
export { setHeaders } from "./headers.js";
export { RateLimitError, rateLimit } from "./ratelimit.js";
export { SluiceError } from "./transport.js";
export { UploadError, upload } from "./upload.js";
export { WebhookError, verifyWebhook } from "./webhook.js";
