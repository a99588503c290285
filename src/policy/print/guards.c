/* guards.c -- what a route asks before its limits, as text again.
 *
 * A secret is never shown. What stands in for it is read back as one.
 */
#include <stdio.h>

#include "policy/print/printer.h"

/* "(a secret, which is not shown)" in base64, for all schemes alike. */
#define SECRET "whsec_KGEgc2VjcmV0LCB3aGljaCBpcyBub3Qgc2hvd24p"

static struct sl_str secret_of(const void *ctx, unsigned i,
                               char room[SL_PRINT_ITEM])
{
    (void)ctx;
    (void)i;
    (void)room;
    return SL_STR(SECRET);
}

static void print_verify(struct sl_printer *p, const struct sl_verify *verify)
{
    static const struct sl_external_value secret = {
        .written = {SECRET, sizeof(SECRET) - 1}
    };
    const struct sl_webhook_rules *rules = &verify->rules;
    struct sl_print_list list = {.item = secret_of,
                                 .count = rules->secret_count};

    if (!verify->written)
        return;
    sl_print_open(p, SL_STR("verify"));
    sl_print_word(p, "scheme", sl_webhook_words[rules->scheme]);
    if (list.count == 1)
        sl_print_from(p, SL_STR("secret"), &secret);
    else
        sl_print_list(p, "secret", &list);
    sl_print_duration(p, "tolerance", rules->tolerance);
    sl_print_text(p, "header", verify->header);
    sl_print_close(p);
}

static struct sl_str header_of(struct sl_str name, char room[SL_PRINT_ITEM])
{
    int len = snprintf(room, SL_PRINT_ITEM, "header.%.*s", SL_STR_ARG(name));

    return (struct sl_str){room, (size_t)len};
}

static struct sl_str trait_of(const void *ctx, unsigned i,
                              char room[SL_PRINT_ITEM])
{
    const struct sl_dedupe_field *trait =
        &((const struct sl_dedupe *)ctx)->traits[i];

    return trait->kind == SL_DEDUPE_FIELD_HEADER
               ? header_of(trait->header, room)
               : sl_str_c(sl_dedupe_field_words[trait->kind]);
}

static void print_dedupe(struct sl_printer *p, const struct sl_dedupe *dedupe)
{
    struct sl_print_list list = {
        .item = trait_of, .ctx = dedupe, .count = dedupe->trait_count};
    char room[SL_PRINT_ITEM];

    if (!dedupe->written)
        return;
    sl_print_open(p, SL_STR("dedupe"));
    sl_print_text(p, "key", header_of(dedupe->header, room));
    sl_print_duration(p, "life", dedupe->life);
    sl_print_number(p, "repeats", dedupe->repeats);
    sl_print_list(p, "fingerprint", &list);
    sl_print_close(p);
}

static void print_require(struct sl_printer *p,
                          const struct sl_require *require)
{
    char room[SL_PRINT_ITEM];

    sl_print_open(p, header_of(require->header, room));
    if (require->has_min)
        sl_print_number(p, "min", require->min);
    if (require->has_max)
        sl_print_number(p, "max", require->max);
    if (require->equals.len > 0)
        sl_print_text(p, "equals", header_of(require->equals, room));
    sl_print_bool(p, "required", !require->optional);
    sl_print_number(p, "status", (uint64_t)require->status);
    sl_print_text(p, "code", require->code);
    sl_print_message(p, "message", &require->message);
    sl_print_close(p);
}

static void print_backlog(struct sl_printer *p,
                          const struct sl_backlog *backlog)
{
    if (!backlog->written)
        return;
    sl_print_open(p, SL_STR("backlog"));
    sl_print_text(p, "name", p->policy->backlogs[backlog->index]);
    sl_print_number(p, "max", backlog->max);
    sl_print_duration(p, "retry_after", backlog->retry_after);
    sl_print_duration(p, "stale", backlog->stale);
    sl_print_close(p);
}

static void print_guard(struct sl_printer *p, const struct sl_guard *guard)
{
    if (!guard->written)
        return;
    sl_print_open(p, SL_STR("guard"));
    sl_print_text(p, "key", guard->text);
    sl_print_duration(p, "hold", guard->hold);
    sl_print_word(p, "missing", guard->skip ? "skip" : "deny");
    sl_print_close(p);
}

void sl_print_guards(struct sl_printer *p, const struct sl_prechecks *guards)
{
    if (!guards)
        return;
    print_verify(p, &guards->verify);
    if (guards->require_count > 0)
        sl_print_open(p, SL_STR("require"));
    for (unsigned i = 0; i < guards->require_count; i++)
        print_require(p, &guards->requires[i]);
    if (guards->require_count > 0)
        sl_print_close(p);
    print_backlog(p, &guards->backlog);
    print_dedupe(p, &guards->dedupe);
    print_guard(p, &guards->guard);
}
