/* sign.h -- secrets and signatures of webhooks that go out, as Standard
 * Webhooks defines them.
 *
 *   webhook-id: msg_2mG...            the same for every attempt
 *   webhook-timestamp: 1794739796     of this attempt
 *   webhook-signature: v1,BASE64 v1,BASE64 v1a,BASE64
 *
 * One signature for each secret, separated by blanks: while a secret is
 * rotated, both the old and the new one are valid.
 *
 *   whsec_BASE64   v1: HMAC-SHA256 of ID.TIMESTAMP.BODY
 *   whsk_BASE64    v1a: ed25519; the seed, or the seed and the public key. The
 *                  receiver has whpk_BASE64
 */
#ifndef SL_WEBHOOK_SIGN_H
#define SL_WEBHOOK_SIGN_H

#include "base/buf.h"
#include "wire/webhook.h"

#define SL_WEBHOOK_SECRET_TEXT 112 /* bytes of a secret at most */

/* Makes a secret of 32 random bytes: "whsec_...", or "whsk_..." if
 * `asymmetric`. Returns 0, or SLUICE_ESYS without random bytes. */
SL_MUST_USE int sl_webhook_secret_make(bool asymmetric,
                                       char out[SL_WEBHOOK_SECRET_TEXT]);

/* Is it a secret that can sign? 24 to 64 bytes for whsec_, 32 or 64 for whsk_.
 */
SL_MUST_USE bool sl_webhook_secret_ok(struct sl_str secret);

/* Prints what the receiver verifies with: the secret itself, or "whpk_..." for
 * a private key. Returns false if it is no secret. */
SL_MUST_USE bool sl_webhook_secret_show(struct sl_str secret,
                                        char out[SL_WEBHOOK_SECRET_TEXT]);

/* The secrets that have signed lately, prepared: to prepare a secret costs more
 * than to sign with it. On one thread. */
struct sl_webhook_secrets *sl_webhook_secrets_new(const struct sl_alloc *alloc);
void sl_webhook_secrets_free(struct sl_webhook_secrets *known);

/* Appends the value of webhook-signature: one signature for each secret.
 * `known` may be NULL. Returns 0, SLUICE_ECONF if a text is no secret, or
 * SLUICE_ENOMEM. */
SL_MUST_USE int sl_webhook_signatures(struct sl_webhook_secrets *known,
                                      const struct sl_webhook *message,
                                      const struct sl_str *secrets,
                                      unsigned count, struct sl_buf *out);

#endif
