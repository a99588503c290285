/* webhook.h -- the headers of signed webhooks.
 *
 * Whoever sends webhooks signs them by a secret that both sides have. Three
 * ways of writing that down are known here:
 *
 *   standard-webhooks   webhook-id, webhook-timestamp, and webhook-signature:
 *                       "v1,BASE64 v1,BASE64", of "ID.TIMESTAMP.BODY"
 *   stripe              stripe-signature: "t=TIMESTAMP,v1=HEX,v1=HEX", of
 *                       "TIMESTAMP.BODY"
 *   hmac-sha256         one header: HEX, "sha256=HEX" or BASE64, of the body
 *
 * All are HMAC-SHA256. Signatures of versions that are not known count as not
 * there. Who verifies is in identity/webhook.h.
 */
#ifndef SL_WIRE_WEBHOOK_H
#define SL_WIRE_WEBHOOK_H

#include "base/str.h"

#define SL_WEBHOOK_MAC     32 /* bytes of HMAC-SHA256 */
#define SL_WEBHOOK_SECRETS 8  /* of one route: rotation needs two */
#define SL_WEBHOOK_SIGNS   16 /* signatures of one message that are looked at */

enum sl_webhook_scheme {
    SL_WEBHOOK_STANDARD,
    SL_WEBHOOK_STRIPE,
    SL_WEBHOOK_HMAC,
    SL_WEBHOOK_SCHEMES
};

/* How each is written in a policy. */
extern const char *const sl_webhook_words[SL_WEBHOOK_SCHEMES];

/* What a route says of its webhooks. */
struct sl_webhook_rules {
    enum sl_webhook_scheme scheme;
    const struct sl_str *secrets; /* bytes to sign by; any of them will do */
    unsigned secret_count;
    sl_ns tolerance; /* how far its time may lie from ours */
};

/* A message, as it came. */
struct sl_webhook {
    struct sl_str id, timestamp; /* standard-webhooks only */
    struct sl_str signature;     /* the header with the signatures */
    struct sl_str body;
};

/* Why one is not believed. Each has a word for metrics and a sentence for
 * people in webhook_fault.c. */
enum sl_webhook_fault {
    SL_WEBHOOK_GOOD,
    SL_WEBHOOK_NO_BODY,      /* nobody sent it along */
    SL_WEBHOOK_NO_HEADER,    /* one of those that it needs */
    SL_WEBHOOK_TWICE,        /* one of those is there twice */
    SL_WEBHOOK_MALFORMED,    /* a header can't be read */
    SL_WEBHOOK_NO_SIGNATURE, /* none of a version that is known */
    SL_WEBHOOK_SIGNATURE,    /* none of them matches */
    SL_WEBHOOK_TOO_OLD,
    SL_WEBHOOK_TOO_NEW,
    SL_WEBHOOK_REPLAYED,  /* the very same has come before */
    SL_WEBHOOK_TOO_MANY,  /* more than are remembered: see engine/decision.h */
    SL_WEBHOOK_NOT_HERE,  /* nobody here can verify */
    SL_WEBHOOK_NO_MEMORY, /* or the library of ciphers failed */
    SL_WEBHOOK_FAULTS
};

const char *sl_webhook_fault_word(enum sl_webhook_fault fault);
const char *sl_webhook_fault_sentence(enum sl_webhook_fault fault);

/* One signature, as bytes. */
struct sl_webhook_sign {
    uint8_t bytes[SL_WEBHOOK_MAC];
};

struct sl_webhook_said {
    bool timed;            /* it names a time */
    struct sl_str seconds; /* as written: it is signed so */
    sl_ns at;
    struct sl_webhook_sign signs[SL_WEBHOOK_SIGNS];
    unsigned count; /* >= 1 when good */
};

/* GOOD, MALFORMED or NO_SIGNATURE. */
enum sl_webhook_fault sl_webhook_read(enum sl_webhook_scheme scheme,
                                      const struct sl_webhook *message,
                                      struct sl_webhook_said *ret);

/* The bytes of a secret as it is handed out: "whsec_" and base64, or base64
 * alone, for standard-webhooks; the text itself for the others. `room` has as
 * many bytes as `text`. False if it is not that. */
SL_MUST_USE bool sl_webhook_secret(enum sl_webhook_scheme scheme,
                                   struct sl_str text, uint8_t *room,
                                   struct sl_str *ret);

/* The value of the header with one signature, as the scheme writes it, with a
 * NUL behind it: at most SL_WEBHOOK_TEXT bytes. `seconds` is for stripe. */
#define SL_WEBHOOK_TEXT 128
void sl_webhook_write(enum sl_webhook_scheme scheme,
                      const struct sl_webhook_sign *sign, struct sl_str seconds,
                      char out[SL_WEBHOOK_TEXT]);

#endif
