/* guard.c -- the sentence of a request that a guard refused. */
#include "engine/render/message.h"

static void write_header(struct sl_str header, struct sl_ink *ink)
{
    sl_ink_text(ink, SL_STR("\""));
    sl_ink_text(ink, header);
    sl_ink_text(ink, SL_STR("\""));
}

/* `"x-parts" must be at most 10000.` What was sent is not repeated. */
static void write_require(const struct sl_decision *d, struct sl_ink *ink)
{
    const struct sl_require *require = d->require;

    sl_ink_text(ink, SL_STR("The header "));
    write_header(require->header, ink);
    switch (d->want) {
    case SL_WANT_NUMBER:
        sl_ink_text(ink, SL_STR(" must be a whole number"));
        break;
    case SL_WANT_LESS:
        sl_ink_text(ink, SL_STR(" must be at most "));
        sl_ink_number(ink, require->max);
        break;
    case SL_WANT_MORE:
        sl_ink_text(ink, SL_STR(" must be at least "));
        sl_ink_number(ink, require->min);
        break;
    case SL_WANT_EQUAL:
        sl_ink_text(ink, SL_STR(" must be equal to "));
        write_header(require->equals, ink);
        break;
    default:
        sl_ink_text(ink, SL_STR(" must be present exactly once"));
        break;
    }
    sl_ink_text(ink, SL_STR("."));
}

static void write_webhook(const struct sl_decision *d, struct sl_ink *ink)
{
    sl_ink_text(ink, d->reason == SL_REASON_WEBHOOK
                         ? SL_STR("The webhook is not valid: ")
                         : SL_STR("The webhook cannot be accepted now: "));
    sl_ink_text(ink, sl_str_c(sl_webhook_fault_sentence(d->webhook_fault)));
    sl_ink_text(ink, SL_STR("."));
}

void sl_guard_message(const struct sl_decision *d, struct sl_ink *ink)
{
    switch (d->reason) {
    case SL_REASON_WEBHOOK:
    case SL_REASON_WEBHOOKS_FULL:
        write_webhook(d, ink);
        break;
    case SL_REASON_REQUIRE:
        write_require(d, ink);
        break;
    case SL_REASON_BACKLOG:
        sl_ink_text(ink, SL_STR("Too many jobs are waiting."));
        break;
    case SL_REASON_RUNNING:
        sl_ink_text(ink,
                    SL_STR("The same request is already being processed."));
        break;
    case SL_REASON_CONFLICT:
        sl_ink_text(ink,
                    SL_STR("Another request with the same key is running."));
        break;
    default:
        sl_ink_text(ink, SL_STR("The idempotency key was used for another "
                                "request; a new request needs a new key."));
        break;
    }
}
