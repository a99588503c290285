/* idempotency.c -- the same request again: answered as before, and pays
 * nothing.
 *
 * A request has a key in one of two ways: whoever asks us gives it one, or its
 * route says which header holds it. What is remembered is what the store
 * answered, and when; the verdict is made from that anew, so that a repeat is
 * told what the first was told, whatever door it comes by.
 *
 * Rules. (test/unit/engine/guard.c and
 * test/flow/g02-repeats.flow check each by number.)
 *   (1) Only what was allowed is remembered: who was refused has paid nothing
 *       and may come again.
 *   (2) A key counts for one caller; nobody is answered by another's.
 *   (3) The same key with another fingerprint is refused, and so is one that
 *       is being answered.
 *   (4) A repeat is not asked of any limit.
 *   (5) A key from a header is the client's own choice: one payment answers as
 *       many repeats as the route says and no more.
 */
#include <string.h>

#include "engine/engine_int.h"

#define LIFE  SL_DAY /* of keys that came with the question */
#define RETRY SL_S

/* What is remembered of one limit. */
struct item {
    uint64_t rule; /* a fingerprint of its name */
    struct sl_answer answer;
    sl_ns next_in;
    uint64_t overage_units;
    bool allowed, overage, untracked, uncapped;
};

/* And of a decision; the items follow. */
struct memo {
    sl_ns now;
    uint32_t count;
    bool degraded, no_numbers;
    sl_ns hold_for;
    char hold[SL_HOLD_TEXT];
};

_Static_assert(sizeof(struct memo) + SL_PARTS * sizeof(struct item) <=
                   SL_REPLAY_CACHE_MEMO,
               "the memo of a full set fits");

/* ---- keys ---- */

static struct sl_hash128 add_number(const struct sl_check *c,
                                    struct sl_hash128 fingerprint,
                                    uint64_t number)
{
    return sl_fingerprint_add(
        c->secret, fingerprint,
        (struct sl_str){(const char *)&number, sizeof(number)});
}

static struct sl_hash128 add_text(const struct sl_check *c,
                                  struct sl_hash128 fingerprint,
                                  struct sl_str text)
{
    return sl_fingerprint_add(c->secret, fingerprint, text);
}

/* "key" of structured fields (RFC 9651) is the same as a bare key. */
static struct sl_str unquote(struct sl_str text)
{
    text = sl_str_trim(text);
    if (text.len > 2 && text.at[0] == '"' && text.at[text.len - 1] == '"')
        return (struct sl_str){text.at + 1, text.len - 2};
    return text;
}

/* (2) Who has no name is told apart as limits do it, unless his signature has
 * told who it is: senders of webhooks have many addresses. */
static struct sl_hash128 print_caller(struct sl_check *c,
                                      struct sl_hash128 fingerprint)
{
    const struct sl_decision *d = &c->decision;
    struct sl_caller *caller = &c->caller;
    struct sl_str nobody = {"", 0};

    if (caller->anonymous && !d->webhook_verified && c->request->limit.len == 0)
        nobody =
            sl_caller_anonymous(caller, d->policy, c->request, c->secret).value;
    fingerprint = add_text(c, fingerprint, nobody);
    fingerprint = add_text(c, fingerprint, c->request->key); /* of one limit */
    for (unsigned s = 0; s < SL_SCOPES; s++)
        if (s != SL_SCOPE_IP && s != SL_SCOPE_ANON)
            fingerprint = add_text(c, fingerprint, caller->values[s]);
    return fingerprint;
}

/* ---- fingerprints ---- */

static struct sl_hash128 print_cost(const struct sl_check *c,
                                    struct sl_hash128 fingerprint)
{
    const struct sl_request *request = c->request;

    fingerprint =
        add_number(c, fingerprint, request->has_cost ? request->cost + 1 : 0);
    fingerprint = add_number(c, fingerprint, request->cost_count);
    for (unsigned i = 0; i < request->cost_count; i++) {
        fingerprint = add_text(c, fingerprint, request->costs[i].limit);
        fingerprint = add_number(c, fingerprint, request->costs[i].cost);
    }
    return fingerprint;
}

static struct sl_hash128 print_path(const struct sl_check *c,
                                    struct sl_hash128 fingerprint)
{
    const struct sl_request *request = c->request;

    fingerprint = add_text(c, fingerprint, request->job);
    return add_text(c, fingerprint, request->path);
}

static struct sl_hash128 print_body(const struct sl_check *c,
                                    struct sl_hash128 fingerprint)
{
    fingerprint = add_number(c, fingerprint, c->request->has_body);
    return add_text(c, fingerprint, c->request->body);
}

static struct sl_hash128 print_trait(const struct sl_check *c,
                                     struct sl_hash128 fingerprint,
                                     const struct sl_dedupe_field *trait)
{
    switch (trait->kind) {
    case SL_DEDUPE_FIELD_METHOD:
        return add_text(c, fingerprint, c->request->method);
    case SL_DEDUPE_FIELD_PATH:
        return print_path(c, fingerprint);
    case SL_DEDUPE_FIELD_COST:
        return print_cost(c, fingerprint);
    case SL_DEDUPE_FIELD_BODY:
        return print_body(c, fingerprint);
    default:
        return add_text(c, fingerprint,
                        sl_request_header(c->request, trait->header));
    }
}

/* Everything that the question says. */
static struct sl_hash128 print_question(const struct sl_check *c)
{
    const struct sl_request *request = c->request;
    struct sl_hash128 fingerprint = {0, 0};

    fingerprint = add_text(c, fingerprint, request->method);
    fingerprint = print_path(c, fingerprint);
    fingerprint = add_text(c, fingerprint, request->limit);
    fingerprint = print_cost(c, fingerprint);
    fingerprint = add_number(c, fingerprint, (uint64_t)request->hold);
    return print_body(c, fingerprint);
}

/* ---- claiming ---- */

static void claim_given(struct sl_check *c)
{
    struct sl_decision *d = &c->decision;
    const struct sl_request *request = c->request;
    struct sl_hash128 key = {1, 0};

    key = print_caller(c, key);
    key = add_text(c, key, unquote(request->idempotency_key));
    d->repeat = (struct sl_replay_cache_claim){
        .key = add_number(c, key, request->idempotency_index),
        .fingerprint = print_question(c),
        .until = d->now + LIFE,
        .repeats = UINT32_MAX,
    };
    d->repeat_wanted = true;
}

static void claim_header(struct sl_check *c, const struct sl_dedupe *dedupe)
{
    struct sl_decision *d = &c->decision;
    struct sl_str value =
        unquote(sl_request_single(c->request, dedupe->header));
    struct sl_hash128 key = {2, 0}, fingerprint = {0, 0};

    if (value.len == 0)
        return;
    key = print_caller(c, key);
    key = add_text(c, key, d->route->text);
    for (unsigned i = 0; i < dedupe->trait_count; i++)
        fingerprint = print_trait(c, fingerprint, &dedupe->traits[i]);
    d->repeat = (struct sl_replay_cache_claim){
        .key = add_text(c, key, value),
        .fingerprint = fingerprint,
        .until = d->now + dedupe->life,
        .repeats = dedupe->repeats, /* (5) */
    };
    d->repeat_wanted = true;
}

void sl_idempotency_claim(struct sl_check *c, const struct sl_prechecks *guards)
{
    struct sl_decision *d = &c->decision;

    if (d->repeat_wanted || d->side_count != 1)
        return;
    if (c->request->idempotency_key.len > 0)
        claim_given(c);
    else if (guards && guards->dedupe.written)
        claim_header(c, &guards->dedupe);
}

/* ---- again ---- */

static uint64_t rule_print(const struct sl_decision *d,
                           const struct sl_limit_view *shown)
{
    static const struct sl_hash_key plain = {1, 2};

    (void)d;
    return sl_hash64(&plain, shown->rule->name);
}

static bool fits(const struct sl_decision *d, const struct memo *memo,
                 const struct item *items)
{
    if (memo->count != d->shown_count)
        return false;
    for (unsigned i = 0; i < memo->count; i++)
        if (items[i].rule != rule_print(d, &d->shown[i]))
            return false;
    return true;
}

/* (4) Another policy may be in force by now: then it passes without numbers. */
static void answer_again(struct sl_decision *d, const unsigned char *bytes)
{
    struct item items[SL_PARTS];
    struct memo memo;

    memcpy(&memo, bytes, sizeof(memo));
    memcpy(items, bytes + sizeof(memo), memo.count * sizeof(items[0]));
    d->replayed = true;
    d->now = memo.now;
    d->degraded = memo.degraded;
    d->hold_for = memo.hold_for;
    memcpy(d->hold, memo.hold, sizeof(d->hold));
    d->no_numbers = memo.no_numbers || !fits(d, &memo, items);
    for (unsigned i = 0; i < d->shown_count && !d->no_numbers; i++) {
        struct sl_limit_view *shown = &d->shown[i];

        shown->answer = items[i].answer;
        shown->next_in = items[i].next_in;
        shown->overage_units = items[i].overage_units;
        shown->allowed = items[i].allowed;
        shown->overage = items[i].overage;
        shown->untracked = items[i].untracked;
        shown->uncapped = items[i].uncapped;
        shown->has_candidate = false;
    }
    sl_decision_conclude(d);
}

static void refuse(struct sl_decision *d, enum sl_reason reason, sl_ns retry)
{
    sl_decision_refuse(d, reason);
    if (d->reason == reason)
        d->retry_in = retry;
}

bool sl_idempotency_begin(struct sl_check *c)
{
    struct sl_decision *d = &c->decision;
    struct sl_replay_cache *once =
        c->active->engine ? c->active->engine->repeats : NULL;
    unsigned char bytes[SL_REPLAY_CACHE_MEMO];
    size_t len;

    if (d->repeat_kept && sl_claims_same(&d->kept_repeat, &d->repeat)) {
        d->repeat_claimed = true;
        d->repeat_kept = false;
        return false;
    }
    switch (sl_replay_cache_begin(once, &d->repeat, d->now, !d->spend, bytes,
                                  sizeof(bytes), &len)) {
    case SL_REPLAY_CACHE_FIRST:
        d->repeat_claimed = d->spend;
        break;
    case SL_REPLAY_CACHE_RUNNING:
        refuse(d, SL_REASON_RUNNING, RETRY);
        break;
    case SL_REPLAY_CACHE_OTHER:
        refuse(d, SL_REASON_REUSED, SL_NS_NONE);
        break;
    case SL_REPLAY_CACHE_AGAIN:
        answer_again(d, bytes);
        return true;
    case SL_REPLAY_CACHE_FULL:
        break; /* all of it is running: decide, and pay */
    }
    return d->reason != SL_REASON_NONE;
}

/* ---- afterwards ---- */

static void keep(struct sl_decision *d, struct sl_replay_cache *once)
{
    unsigned char bytes[SL_REPLAY_CACHE_MEMO];
    struct memo memo = {.now = d->now,
                        .count = d->shown_count,
                        .degraded = d->degraded,
                        .no_numbers = d->no_numbers,
                        .hold_for = d->hold_for};

    memcpy(memo.hold, d->hold, sizeof(memo.hold));
    memcpy(bytes, &memo, sizeof(memo));
    for (unsigned i = 0; i < d->shown_count; i++) {
        const struct sl_limit_view *shown = &d->shown[i];
        struct item item = {.rule = rule_print(d, shown),
                            .answer = shown->answer,
                            .next_in = shown->next_in,
                            .overage_units = shown->overage_units,
                            .allowed = shown->allowed,
                            .overage = shown->overage,
                            .untracked = shown->untracked,
                            .uncapped = shown->uncapped};

        memcpy(bytes + sizeof(memo) + i * sizeof(item), &item, sizeof(item));
    }
    sl_replay_cache_finish(once, &d->repeat, bytes,
                           sizeof(memo) + d->shown_count * sizeof(struct item));
}

void sl_precheck_retry(struct sl_decision *d, bool keep)
{
    static const struct sl_replay_cache_claim none;

    if (keep) {
        if (!d->webhook_kept)
            d->kept_webhook = d->webhook_claimed ? d->webhook : none;
        if (!d->repeat_kept)
            d->kept_repeat = d->repeat_claimed ? d->repeat : none;
        return;
    }
    d->webhook_kept = !sl_claims_same(&d->kept_webhook, &none);
    d->repeat_kept = !sl_claims_same(&d->kept_repeat, &none);
}

/* What another policy has no use for. */
static void drop_kept(struct sl_check *c)
{
    struct sl_decision *d = &c->decision;

    if (d->repeat_kept)
        sl_replay_cache_drop(c->active->engine->repeats, &d->kept_repeat);
    if (d->webhook_kept)
        sl_replay_cache_drop(c->active->engine->replays, &d->kept_webhook);
    d->repeat_kept = d->webhook_kept = false;
}

void sl_precheck_commit(struct sl_check *c, int err)
{
    struct sl_decision *d = &c->decision;
    bool passed = !err && d->allowed;

    if (d->repeat_claimed && passed)
        keep(d, c->active->engine->repeats);
    else if (d->repeat_claimed)
        sl_replay_cache_drop(c->active->engine->repeats, &d->repeat); /* (1) */
    if (d->webhook_claimed && passed)
        sl_replay_cache_finish(c->active->engine->replays, &d->webhook, NULL,
                               0);
    else if (d->webhook_claimed)
        sl_replay_cache_drop(c->active->engine->replays, &d->webhook);
    d->repeat_claimed = d->webhook_claimed = false;
    drop_kept(c);
}
