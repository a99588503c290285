/* idempotency.c -- a repeated request is answered as before and takes nothing.
 *
 * The key of a request is its own, or in the header that its route names. The
 * answers of the store are remembered, with their time; the verdict is made
 * from them again, so that it is the same in every protocol.
 *
 * Rules. (test/unit/engine/guard.c and test/flow/g02-repeats.flow check each by
 * number.)
 *   (1) Only allowed requests are remembered. Denied ones may be repeated.
 *   (2) A key counts for one caller.
 *   (3) The same key with another fingerprint is refused, and so is a key whose
 *       request is running.
 *   (4) A repeat takes from no limit.
 *   (5) A client chooses the key in a header, so one take answers only as many
 *       repeats as the route says.
 */
#include <string.h>

#include "engine/engine_int.h"

#define LIFE  SL_DAY /* of keys of requests */
#define RETRY SL_S

/* What is remembered of a limit. */
struct item {
    uint64_t rule; /* a fingerprint of its name */
    struct sl_answer answer;
    sl_ns next_in;
    uint64_t overage_units;
    bool allowed, overage, untracked, uncapped;
};

/* What is remembered of a decision; the items follow. */
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

/* The fingerprint of several values, under the secret. */
struct print {
    const struct sl_hash_key *secret;
    struct sl_hash128 hash;
};

static void add_text(struct print *print, struct sl_str text)
{
    print->hash = sl_fingerprint_add(print->secret, print->hash, text);
}

static void add_number(struct print *print, uint64_t number)
{
    add_text(print, (struct sl_str){(const char *)&number, sizeof(number)});
}

/* A String of structured fields (RFC 9651) is the same as a bare key. */
static struct sl_str unquote(struct sl_str text)
{
    text = sl_str_trim(text);
    if (text.len > 2 && text.at[0] == '"' && text.at[text.len - 1] == '"')
        return (struct sl_str){text.at + 1, text.len - 2};
    return text;
}

/* (2) Anonymous callers are told apart as limits do it, unless a signature has
 * verified the sender: webhooks come from many addresses. */
static void add_caller(struct print *print, struct sl_check *c)
{
    const struct sl_decision *d = &c->decision;
    struct sl_caller *caller = &c->caller;
    struct sl_str anonymous = {"", 0};

    if (caller->anonymous && !d->webhook_verified && c->request->limit.len == 0)
        anonymous =
            sl_caller_anonymous(caller, d->policy, c->request, c->secret).value;
    add_text(print, anonymous);
    add_text(print, c->request->key); /* of one limit */
    for (unsigned s = 0; s < SL_SCOPES; s++)
        if (s != SL_SCOPE_IP && s != SL_SCOPE_ANON)
            add_text(print, caller->values[s]);
}

/* ---- fingerprints ---- */

static void add_field(struct print *print, const struct sl_request *request,
                      const struct sl_dedupe_field *field)
{
    switch (field->kind) {
    case SL_DEDUPE_FIELD_METHOD:
        add_text(print, request->method);
        break;
    case SL_DEDUPE_FIELD_PATH:
        add_text(print, request->job);
        add_text(print, request->path);
        break;
    case SL_DEDUPE_FIELD_COST:
        add_number(print, request->has_cost ? request->cost + 1 : 0);
        add_number(print, request->cost_count);
        for (unsigned i = 0; i < request->cost_count; i++) {
            add_text(print, request->costs[i].limit);
            add_number(print, request->costs[i].cost);
        }
        break;
    case SL_DEDUPE_FIELD_BODY:
        add_number(print, request->has_body);
        add_text(print, request->body);
        break;
    default:
        add_text(print, sl_request_header(request, field->header));
        break;
    }
}

/* All members of a request. */
static void add_request(struct print *print, const struct sl_request *request)
{
    static const struct sl_dedupe_field fields[] = {
        {.kind = SL_DEDUPE_FIELD_METHOD},
        {.kind = SL_DEDUPE_FIELD_PATH},
        {.kind = SL_DEDUPE_FIELD_COST},
        {.kind = SL_DEDUPE_FIELD_BODY},
    };

    for (size_t i = 0; i < SL_LEN(fields); i++)
        add_field(print, request, &fields[i]);
    add_text(print, request->limit);
    add_number(print, (uint64_t)request->hold);
}

/* ---- claiming ---- */

static void claim_given(struct sl_check *c)
{
    struct sl_decision *d = &c->decision;
    const struct sl_request *request = c->request;
    struct print key =
                     {
                         c->secret, {1, 0}
    },
                 print = {c->secret, {0, 0}};

    add_caller(&key, c);
    add_text(&key, unquote(request->idempotency_key));
    add_number(&key, request->idempotency_index);
    add_request(&print, request);
    d->repeat = (struct sl_replay_cache_claim){
        .key = key.hash,
        .fingerprint = print.hash,
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
    struct print key =
                     {
                         c->secret, {2, 0}
    },
                 print = {c->secret, {0, 0}};

    if (value.len == 0)
        return;
    add_caller(&key, c);
    add_text(&key, d->route->text);
    add_text(&key, value);
    for (unsigned i = 0; i < dedupe->trait_count; i++)
        add_field(&print, c->request, &dedupe->traits[i]);
    d->repeat = (struct sl_replay_cache_claim){
        .key = key.hash,
        .fingerprint = print.hash,
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

/* ---- repeats ---- */

static uint64_t rule_print(const struct sl_limit_view *shown)
{
    static const struct sl_hash_key plain = {1, 2};

    return sl_hash64(&plain, shown->rule->name);
}

static bool fits(const struct sl_decision *d, const struct memo *memo,
                 const struct item *items)
{
    if (memo->count != d->shown_count)
        return false;
    for (unsigned i = 0; i < memo->count; i++)
        if (items[i].rule != rule_print(&d->shown[i]))
            return false;
    return true;
}

/* (4) If the policy has changed, the repeat passes without numbers. */
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
        break; /* all entries are running: decide and take */
    }
    return d->reason != SL_REASON_NONE;
}

/* ---- after the decision ---- */

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
        struct item item = {.rule = rule_print(shown),
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
    /* Kept claims that the new policy does not use. */
    if (d->repeat_kept)
        sl_replay_cache_drop(c->active->engine->repeats, &d->kept_repeat);
    if (d->webhook_kept)
        sl_replay_cache_drop(c->active->engine->replays, &d->kept_webhook);
    d->repeat_claimed = d->webhook_claimed = false;
    d->repeat_kept = d->webhook_kept = false;
}
