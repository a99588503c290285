/* guards.c -- what a route asks of a request before its limits. */
#include "policy/guards.h"

const char *const sl_dedupe_field_words[4] = {"method", "path", "cost", "body"};

/* ---- comparing ---- */

static bool verify_same(const struct sl_verify *a, const struct sl_verify *b)
{
    if (a->written != b->written || a->rules.scheme != b->rules.scheme ||
        a->rules.secret_count != b->rules.secret_count ||
        a->rules.tolerance != b->rules.tolerance ||
        !sl_str_eq(a->header, b->header))
        return false;
    for (unsigned i = 0; i < a->rules.secret_count; i++)
        if (!sl_str_eq(a->rules.secrets[i], b->rules.secrets[i]))
            return false;
    return true;
}

static bool dedupe_same(const struct sl_dedupe *a, const struct sl_dedupe *b)
{
    if (a->written != b->written || !sl_str_eq(a->header, b->header) ||
        a->life != b->life || a->repeats != b->repeats ||
        a->trait_count != b->trait_count)
        return false;
    for (unsigned i = 0; i < a->trait_count; i++)
        if (a->traits[i].kind != b->traits[i].kind ||
            !sl_str_eq(a->traits[i].header, b->traits[i].header))
            return false;
    return true;
}

static bool message_same(const struct sl_template *a,
                         const struct sl_template *b)
{
    if (a->count != b->count)
        return false;
    for (unsigned i = 0; i < a->count; i++)
        if (a->pieces[i].kind != b->pieces[i].kind ||
            a->pieces[i].holder != b->pieces[i].holder ||
            !sl_str_eq(a->pieces[i].literal, b->pieces[i].literal))
            return false;
    return true;
}

static bool require_same(const struct sl_require *a, const struct sl_require *b)
{
    return sl_str_eq(a->header, b->header) && a->has_min == b->has_min &&
           a->has_max == b->has_max && a->min == b->min && a->max == b->max &&
           sl_str_eq(a->equals, b->equals) && a->optional == b->optional &&
           a->status == b->status && sl_str_eq(a->code, b->code) &&
           message_same(&a->message, &b->message);
}

static bool guard_same(const struct sl_guard *a, const struct sl_guard *b)
{
    return a->written == b->written && sl_str_eq(a->text, b->text) &&
           a->hold == b->hold && a->skip == b->skip;
}

/* Indices differ where other routes have changed; names are compared with the
 * routes' endpoints. */
static bool backlog_same(const struct sl_backlog *a, const struct sl_backlog *b)
{
    return a->written == b->written && a->max == b->max &&
           a->retry_after == b->retry_after && a->stale == b->stale;
}

bool sl_prechecks_same(const struct sl_prechecks *a,
                       const struct sl_prechecks *b)
{
    static const struct sl_prechecks none;

    a = a ? a : &none;
    b = b ? b : &none;
    if (!verify_same(&a->verify, &b->verify) ||
        !dedupe_same(&a->dedupe, &b->dedupe) ||
        !backlog_same(&a->backlog, &b->backlog) ||
        !guard_same(&a->guard, &b->guard) ||
        a->require_count != b->require_count)
        return false;
    for (unsigned i = 0; i < a->require_count; i++)
        if (!require_same(&a->requires[i], &b -> requires[i]))
            return false;
    return true;
}

/* ---- headers ---- */

static bool is(struct sl_str name, struct sl_str header)
{
    return name.len > 0 && sl_str_eq_nocase(name, header);
}

bool sl_prechecks_read(const struct sl_prechecks *guards, struct sl_str header)
{
    const struct sl_dedupe *dedupe = &guards->dedupe;

    for (size_t i = 0; i < SL_LEN(guards->verify.names); i++)
        if (is(guards->verify.names[i], header))
            return true;
    for (unsigned i = 0; i < guards->require_count; i++)
        if (is(guards->requires[i].header, header) ||
            is(guards->requires[i].equals, header))
            return true;
    for (unsigned i = 0; i < dedupe->trait_count; i++)
        if (is(dedupe->traits[i].header, header))
            return true;
    for (unsigned i = 0; i < guards->guard.count; i++)
        if (guards->guard.pieces[i].header &&
            is(guards->guard.pieces[i].header->header, header))
            return true;
    return is(dedupe->header, header);
}
