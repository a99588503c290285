/* webhook.h -- verifies and signs webhooks.
 *
 * Any secret of a route is accepted, so that secrets can be rotated.
 * Comparisons take constant time.
 */
#ifndef SL_IDENTITY_WEBHOOK_H
#define SL_IDENTITY_WEBHOOK_H

#include "wire/webhook.h"

/* An accepted message: its timestamp as written, and how long it would be
 * accepted again. */
struct sl_webhook_seen {
    struct sl_str seconds; /* "": none */
    sl_ns until;
};

typedef enum sl_webhook_fault sl_webhook_f(const struct sl_webhook_rules *rules,
                                           const struct sl_webhook *message,
                                           sl_ns now,
                                           struct sl_webhook_seen *ret);

/* Verifies a message. The signature is checked first, so that senders without a
 * secret learn nothing about our clock. REPLAYED and TOO_MANY are set by the
 * caller. */
sl_webhook_f sl_webhook_verify;

/* Signs `message` (id, timestamp and body) with the first secret. Returns 0 or
 * SLUICE_ENOMEM. */
SL_MUST_USE int sl_webhook_sign(const struct sl_webhook_rules *rules,
                                const struct sl_webhook *message,
                                struct sl_webhook_sign *ret);

/* A secret that is prepared once for many signatures by the Standard scheme,
 * on one thread at a time. NULL: no memory. */
struct sl_webhook_signer *sl_webhook_signer_new(struct sl_str secret);
void sl_webhook_signer_free(struct sl_webhook_signer *signer);
SL_MUST_USE int sl_webhook_signer_sign(struct sl_webhook_signer *signer,
                                       const struct sl_webhook *message,
                                       struct sl_webhook_sign *ret);

#endif
