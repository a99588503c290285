/* webhook.h -- is a webhook from whom it says, and is it from now?
 *
 * Any of a route's secrets will do, so that one can take another's place while
 * both are in use. What is compared is compared in constant time.
 */
#ifndef SL_IDENTITY_WEBHOOK_H
#define SL_IDENTITY_WEBHOOK_H

#include "wire/webhook.h"

/* A message that was believed: the time that it names, as written, and how
 * long the same one would be believed. */
struct sl_webhook_seen {
    struct sl_str seconds; /* "": it names none */
    sl_ns until;
};

typedef enum sl_webhook_fault sl_webhook_f(const struct sl_webhook_rules *rules,
                                           const struct sl_webhook *message,
                                           sl_ns now,
                                           struct sl_webhook_seen *ret);

/* Believe it? The signature is looked at first, so that who has no secret
 * learns nothing of our clock. REPLAYED and TOO_MANY are for the caller. */
sl_webhook_f sl_webhook_verify;

/* The signature that `message` (id, timestamp and body) must have by the first
 * secret. SLUICE_ENOMEM if the library of ciphers fails. */
SL_MUST_USE int sl_webhook_sign(const struct sl_webhook_rules *rules,
                                const struct sl_webhook *message,
                                struct sl_webhook_sign *ret);

#endif
