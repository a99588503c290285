/* webhook_fault.c -- why a webhook is not believed, in words. */
#include "wire/webhook.h"

const char *const sl_webhook_words[SL_WEBHOOK_SCHEMES] = {
    "standard-webhooks", "stripe", "hmac-sha256"};

static const char *const words[SL_WEBHOOK_FAULTS] = {
    [SL_WEBHOOK_GOOD] = "good",
    [SL_WEBHOOK_NO_BODY] = "no_body",
    [SL_WEBHOOK_NO_HEADER] = "no_header",
    [SL_WEBHOOK_TWICE] = "header_twice",
    [SL_WEBHOOK_MALFORMED] = "malformed",
    [SL_WEBHOOK_NO_SIGNATURE] = "no_signature",
    [SL_WEBHOOK_SIGNATURE] = "signature",
    [SL_WEBHOOK_TOO_OLD] = "too_old",
    [SL_WEBHOOK_TOO_NEW] = "too_new",
    [SL_WEBHOOK_REPLAYED] = "replayed",
    [SL_WEBHOOK_TOO_MANY] = "too_many",
    [SL_WEBHOOK_NOT_HERE] = "not_here",
    [SL_WEBHOOK_NO_MEMORY] = "no_memory",
};

const char *sl_webhook_fault_word(enum sl_webhook_fault fault)
{
    return words[fault];
}

const char *sl_webhook_fault_sentence(enum sl_webhook_fault fault)
{
    switch (fault) {
    case SL_WEBHOOK_GOOD:
        return "the webhook is valid";
    case SL_WEBHOOK_NO_BODY:
        return "its body is missing, so its signature cannot be verified; let "
               "the proxy or the application send it";
    case SL_WEBHOOK_NO_HEADER:
        return "a signature header is missing";
    case SL_WEBHOOK_TWICE:
        return "a signature header is sent twice";
    case SL_WEBHOOK_MALFORMED:
        return "a signature header is malformed";
    case SL_WEBHOOK_NO_SIGNATURE:
        return "it has no signature of a known version";
    case SL_WEBHOOK_SIGNATURE:
        return "its signature is wrong";
    case SL_WEBHOOK_TOO_OLD:
        return "it was sent too long ago";
    case SL_WEBHOOK_TOO_NEW:
        return "its timestamp is in the future";
    case SL_WEBHOOK_REPLAYED:
        return "it was received before";
    case SL_WEBHOOK_TOO_MANY:
        return "too many webhooks arrived recently to remember them all";
    case SL_WEBHOOK_NOT_HERE:
        return "this daemon does not verify signatures";
    default:
        return "out of memory";
    }
}
