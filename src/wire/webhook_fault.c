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
        return "the webhook is good";
    case SL_WEBHOOK_NO_BODY:
        return "its body was not sent along, so its signature can't be "
               "verified; let the proxy or the application send it";
    case SL_WEBHOOK_NO_HEADER:
        return "a header that it is verified by is missing";
    case SL_WEBHOOK_TWICE:
        return "a header that it is verified by is there twice";
    case SL_WEBHOOK_MALFORMED:
        return "a header that it is verified by can't be read";
    case SL_WEBHOOK_NO_SIGNATURE:
        return "it has no signature of a version that is known";
    case SL_WEBHOOK_SIGNATURE:
        return "its signature is wrong";
    case SL_WEBHOOK_TOO_OLD:
        return "it was sent too long ago";
    case SL_WEBHOOK_TOO_NEW:
        return "it says that it was sent in the future";
    case SL_WEBHOOK_REPLAYED:
        return "the very same one has come before";
    case SL_WEBHOOK_TOO_MANY:
        return "more of them came lately than can be remembered";
    case SL_WEBHOOK_NOT_HERE:
        return "signatures are not verified here";
    default:
        return "out of memory";
    }
}
