/* webhook.h -- the headers of signed webhooks.
 *
 * The sender signs webhooks with a shared secret. Three schemes are supported:
 *
 *   standard-webhooks   webhook-id, webhook-timestamp, and webhook-signature:
 *                       "v1,BASE64 v1a,BASE64", of "ID.TIMESTAMP.BODY"
 *   stripe              stripe-signature: "t=TIMESTAMP,v1=HEX,v1=HEX", of
 *                       "TIMESTAMP.BODY"
 *   hmac-sha256         one header: HEX, "sha256=HEX" or BASE64, of the body
 *
 * All are HMAC-SHA256, except v1a, which is ed25519: it is verified by a public
 * key, whpk_BASE64. Signatures of unknown versions are ignored. Verification
 * is in identity/webhook.h.
 */
#ifndef SL_WIRE_WEBHOOK_H
#define SL_WIRE_WEBHOOK_H

#include "base/str.h"

#define SL_WEBHOOK_MAC     32 /* bytes of HMAC-SHA256 */
#define SL_WEBHOOK_SECRETS 8  /* per route; rotation needs two */
#define SL_WEBHOOK_SIGNS   16 /* signatures of one message that are checked */
#define SL_WEBHOOK_KEYED   4  /* likewise, of ed25519 */
#define SL_WEBHOOK_ED_SIGN 64 /* bytes of one */
#define SL_WEBHOOK_ED_KEY  32 /* bytes of a key */

enum sl_webhook_scheme {
    SL_WEBHOOK_STANDARD,
    SL_WEBHOOK_STRIPE,
    SL_WEBHOOK_HMAC,
    SL_WEBHOOK_SCHEMES
};

/* The name of each scheme in a policy. */
extern const char *const sl_webhook_words[SL_WEBHOOK_SCHEMES];

/* The webhook settings of a route. */
struct sl_webhook_rules {
    enum sl_webhook_scheme scheme;
    const struct sl_str *secrets; /* keys; any of them may match */
    unsigned secret_count;
    sl_ns tolerance; /* maximum difference of clocks */
};

/* A message as received. */
struct sl_webhook {
    struct sl_str id, timestamp; /* standard-webhooks only */
    struct sl_str signature;     /* the header with the signatures */
    struct sl_str body;
};

/* Why a message is refused. Each has a word for metrics and a message. */
enum sl_webhook_fault {
    SL_WEBHOOK_GOOD,
    SL_WEBHOOK_NO_BODY,      /* the body was not sent */
    SL_WEBHOOK_NO_HEADER,    /* a required header */
    SL_WEBHOOK_TWICE,        /* a required header is given twice */
    SL_WEBHOOK_MALFORMED,    /* a header is invalid */
    SL_WEBHOOK_NO_SIGNATURE, /* none of a known version */
    SL_WEBHOOK_SIGNATURE,    /* none matches */
    SL_WEBHOOK_TOO_OLD,
    SL_WEBHOOK_TOO_NEW,
    SL_WEBHOOK_REPLAYED,  /* the same message was received before */
    SL_WEBHOOK_TOO_MANY,  /* too many to remember: see engine/decision.h */
    SL_WEBHOOK_NOT_HERE,  /* there is no verifier */
    SL_WEBHOOK_NO_MEMORY, /* or the crypto library failed */
    SL_WEBHOOK_FAULTS
};

const char *sl_webhook_fault_word(enum sl_webhook_fault fault);
const char *sl_webhook_fault_sentence(enum sl_webhook_fault fault);

/* One signature, as bytes. */
struct sl_webhook_sign {
    uint8_t bytes[SL_WEBHOOK_MAC];
};

struct sl_webhook_said {
    bool timed;            /* has a timestamp */
    struct sl_str seconds; /* as written, because it is signed */
    sl_ns at;
    struct sl_webhook_sign signs[SL_WEBHOOK_SIGNS];
    unsigned count;
    uint8_t keyed[SL_WEBHOOK_KEYED][SL_WEBHOOK_ED_SIGN]; /* v1a */
    unsigned keyed_count; /* count + keyed_count >= 1 if GOOD */
};

/* Read the headers. GOOD, MALFORMED or NO_SIGNATURE. */
enum sl_webhook_fault sl_webhook_read(enum sl_webhook_scheme scheme,
                                      const struct sl_webhook *message,
                                      struct sl_webhook_said *ret);

/* The bytes of a secret: "whsec_" and base64, or base64 alone, for standard-
 * webhooks; the text itself for the others. A public key keeps its prefix:
 * "whpk_" and its bytes. `room` has text.len bytes. False for invalid base64 or
 * a key of another length. */
SL_MUST_USE bool sl_webhook_secret(enum sl_webhook_scheme scheme,
                                   struct sl_str text, uint8_t *room,
                                   struct sl_str *ret);

/* Is it a public key? *ret: its bytes. */
bool sl_webhook_is_public(struct sl_str secret, const uint8_t **ret);

/* The value of the header with one signature, ended by NUL: at most
 * SL_WEBHOOK_TEXT bytes. `seconds` is for stripe. */
#define SL_WEBHOOK_TEXT 128
void sl_webhook_write(enum sl_webhook_scheme scheme,
                      const struct sl_webhook_sign *sign, struct sl_str seconds,
                      char out[SL_WEBHOOK_TEXT]);

#endif
