/* guard.c -- the sentence of a request that a guard refused. */
#include "engine/render/message.h"

static void write_header(struct sl_str header, struct sl_writer *ink)
{
    sl_writer_text(ink, SL_STR("\""));
    sl_writer_text(ink, header);
    sl_writer_text(ink, SL_STR("\""));
}

/* `"x-parts" must be at most 10000.` What was sent is not repeated. */
static void write_require(const struct sl_decision *d, struct sl_writer *ink)
{
    const struct sl_require *require = d->require;

    sl_writer_text(ink, SL_STR("The header "));
    write_header(require->header, ink);
    switch (d->want) {
    case SL_WANT_NUMBER:
        sl_writer_text(ink, SL_STR(" must be a whole number"));
        break;
    case SL_WANT_LESS:
        sl_writer_text(ink, SL_STR(" must be at most "));
        sl_writer_number(ink, require->max);
        break;
    case SL_WANT_MORE:
        sl_writer_text(ink, SL_STR(" must be at least "));
        sl_writer_number(ink, require->min);
        break;
    case SL_WANT_EQUAL:
        sl_writer_text(ink, SL_STR(" must say the same as "));
        write_header(require->equals, ink);
        break;
    default:
        sl_writer_text(ink, SL_STR(" must be there, once"));
        break;
    }
    sl_writer_text(ink, SL_STR("."));
}

static void write_webhook(const struct sl_decision *d, struct sl_writer *ink)
{
    sl_writer_text(ink, d->reason == SL_REASON_WEBHOOK
                            ? SL_STR("The webhook is not believed: ")
                            : SL_STR("The webhook can't be taken now: "));
    sl_writer_text(ink, sl_str_c(sl_webhook_fault_sentence(d->webhook_fault)));
    sl_writer_text(ink, SL_STR("."));
}

void sl_precheck_message(const struct sl_decision *d, struct sl_writer *ink)
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
        sl_writer_text(ink, SL_STR("Too much work is waiting already."));
        break;
    case SL_REASON_RUNNING:
        sl_writer_text(ink, SL_STR("The same request is being answered."));
        break;
    case SL_REASON_CONFLICT:
        sl_writer_text(ink, SL_STR("Another one is running already."));
        break;
    default:
        sl_writer_text(ink,
                       SL_STR("The key of this request came with another "
                              "one before; a new request needs a new key."));
        break;
    }
}
