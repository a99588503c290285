/* conflict.c -- what is done by one at a time: `guard` of a route.
 *
 * Rules. (test/unit/engine/conflict.c checks each by number.)
 *   (1) One runs; others are refused until it ends or its time is over.
 *   (2) Different values make different keys; the same key is the same, by
 *       whatever route.
 *   (3) Who lacks a value is refused, or passes unguarded where the route says
 *       so.
 *   (4) A guard and the limits are taken all or none: who is refused by either
 *       has used neither.
 *   (5) Cost 0, and whoever reports what was used, asks nothing of a guard.
 */
#include "engine/conflict.h"

#include <string.h>

#define TEXT_MOST ((size_t)16 << 10)

/* When to come back if there is no room: nobody knows who ends his. */
#define ROOM_RETRY SL_S

/* ---- the key ---- */

static struct sl_str find_value(struct sl_decision *d,
                                struct sl_check_step *asking,
                                const struct sl_guard_piece *piece)
{
    struct sl_str value;

    if (piece->header)
        value = sl_request_single(asking->facts, piece->header->header);
    else if (piece->scope == SL_SCOPE_IP)
        value = sl_caller_ip(&asking->caller, d->policy, asking->facts);
    else
        value = asking->caller.values[piece->scope];
    return sl_str_trim(value);
}

/* (3) */
static void refuse_missing(struct sl_decision *d,
                           const struct sl_guard_piece *piece)
{
    if (!piece->header) {
        d->missing_scope = d->policy->identity.scope_names[piece->scope];
        sl_decision_refuse(d, SL_REASON_MISSING);
        return;
    }
    sl_decision_refuse(d, SL_REASON_REQUIRE);
    d->require = piece->header;
    d->want = SL_WANT_HEADER;
}

/* False if a value is missing. */
static bool has_values(struct sl_decision *d, struct sl_check_step *asking,
                       const struct sl_guard *guard)
{
    for (unsigned i = 0; i < guard->count; i++) {
        const struct sl_guard_piece *piece = &guard->pieces[i];

        if (piece->literal.len > 0 || find_value(d, asking, piece).len > 0)
            continue;
        if (!guard->skip)
            refuse_missing(d, piece);
        return false;
    }
    return true;
}

static int write_text(struct sl_decision *d, struct sl_check_step *asking,
                      const struct sl_guard *guard, struct sl_buf *out)
{
    int err = 0;

    for (unsigned i = 0; i < guard->count && !err; i++) {
        const struct sl_guard_piece *piece = &guard->pieces[i];

        err = piece->literal.len > 0
                  ? sl_buf_add(out, piece->literal)
                  : sl_key_add_value(out, find_value(d, asking, piece));
    }
    return err;
}

static int keep(struct sl_decision *d, struct sl_str text, struct sl_str *ret)
{
    const char *copy = sl_arena_copy(&d->arena, text);

    if (!copy)
        return SLUICE_ENOMEM;
    *ret = (struct sl_str){copy, text.len};
    return 0;
}

static const struct sl_rule *rule_of(const struct sl_decision *d)
{
    return &d->policy->rules[d->policy->rule_count];
}

/* In a shared store: what the rule's names begin with, and the text. */
static int make_name(struct sl_decision *d, struct sl_guard_key *running)
{
    const struct sl_key_context context = {.env = d->policy->env};
    struct sl_buf name;
    int err;

    sl_buf_init(&name, 2 * TEXT_MOST, d->arena.alloc);
    err = sl_key_name(&rule_of(d)->key, &context, NULL, 0, &name);
    if (!err)
        err = sl_buf_add(&name, running->text);
    if (!err)
        err = keep(d, sl_buf_str(&name), &running->name);
    sl_buf_done(&name);
    return err;
}

/* (2) */
static int make_keys(struct sl_decision *d, struct sl_check_step *asking,
                     const struct sl_guard *guard, struct sl_guard_key *ret)
{
    struct sl_key_value value = {.scope = SL_STR("guard")};
    char bytes[SL_KEY_MAX];
    struct sl_buf text;
    int err;

    sl_buf_init(&text, TEXT_MOST, d->arena.alloc);
    err = write_text(d, asking, guard, &text);
    if (!err)
        err = keep(d, sl_buf_str(&text), &ret->text);
    sl_buf_done(&text);
    if (err)
        return err;
    value.value = ret->text;
    err = keep(
        d,
        (struct sl_str){bytes, sl_key_bytes(&value, 1, asking->secret, bytes)},
        &ret->key);
    return !err && asking->live->wants_names ? make_name(d, ret) : err;
}

/* ---- claiming ---- */

static bool is_asked(const struct sl_decision *d,
                     const struct sl_check_step *asking)
{
    return !asking->preflight && !d->charge && !d->give_back &&
           d->policy->mode == SL_MODE_ENFORCE;
}

/* A path that is read in several ways may come to the same twice. */
static bool is_known(const struct sl_decision *d,
                     const struct sl_guard_key *one)
{
    for (unsigned i = 0; i < d->running_count; i++)
        if (sl_str_eq(d->running[i].text, one->text))
            return true;
    return false;
}

void sl_guard_claim(struct sl_decision *d, struct sl_check_step *asking,
                    const struct sl_guard *guard)
{
    const struct sl_request *facts = asking->facts;
    struct sl_guard_key one = {
        .hold = guard->hold,
        .cost = facts->has_cost && facts->cost == 0 ? 0 : 1, /* (5) */
    };

    if (!is_asked(d, asking) || !has_values(d, asking, guard))
        return;
    if (make_keys(d, asking, guard, &one)) {
        asking->no_memory = true;
        return;
    }
    if (is_known(d, &one))
        return;
    if (d->running_count == SL_RUNNING) {
        sl_decision_refuse(d, SL_REASON_PATH);
        return;
    }
    d->running[d->running_count++] = one;
}

/* ---- asking and answering ---- */

void sl_guard_show(struct sl_decision *d)
{
    for (unsigned i = 0; i < d->running_count; i++) {
        const struct sl_guard_key *running = &d->running[i];
        struct sl_limit_view *shown = &d->shown[d->shown_count + i];

        memset(shown, 0, offsetof(struct sl_limit_view, values));
        shown->rule = rule_of(d);
        shown->form = SL_RATE_PLAIN;
        shown->numbers = &shown->rule->strictest;
        shown->key = running->key;
        shown->name = running->name;
        shown->cost = running->cost;
        shown->allowed = true;
        shown->next_in = SL_NS_NONE;
    }
}

void sl_guard_conclude(struct sl_decision *d)
{
    for (unsigned i = 0; i < d->running_count; i++) {
        const struct sl_limit_view *shown = &d->shown[d->shown_count + i];

        if (shown->allowed)
            continue;
        if (shown->untracked) {
            sl_decision_refuse(d, SL_REASON_HOLDS);
            d->retry_in = ROOM_RETRY;
        } else {
            sl_decision_refuse(d, SL_REASON_CONFLICT);
            d->retry_in = shown->answer.retry_in; /* (1) */
        }
        return;
    }
}
