/* idempotency.c -- a repeated request is answered as before and takes nothing.
 *
 * The key of a request is its own, or in the header or body that its route
 * names, or it is a verified webhook. The answers of the store are remembered,
 * with their time; the verdict is made from them again, so that it is the same
 * in every protocol.
 *
 * The memory is shared by all daemons if they share a store or a database
 * (store/repeats.h), else it is a cache of this process. A key is claimed
 * before the take, and completed with the answer before that is returned. So a
 * request is charged a second time only if the first was never answered: its
 * daemon died, and SL_REPEAT_PENDING is over.
 *
 * Rules. (test/unit/engine/guard.c and test/flow/g02-repeats.flow check each by
 * number.)
 *   (1) Only allowed requests are remembered. Denied ones may be repeated.
 *   (2) A key counts for one caller.
 *   (3) The same key with another fingerprint is refused, and so is a key whose
 *       request is running.
 *   (4) A repeat takes from no limit.
 *   (5) A client chooses the key in a header or body, so one take answers only
 *       as many repeats as the route says.
 *   (6) While the memory does not answer, `on_store_failure: deny` refuses; any
 *       other decides without the key, and the verdict says `degraded`.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "engine/engine_int.h"

#define LIFE  SL_DAY /* of keys of requests */
#define RETRY SL_S

/* ---- memos ---- */

#define VERSION 2
#define HEAD    200 /* bytes of the part before the items at most */
#define ITEM    300 /* and of an item */

_Static_assert(HEAD + SL_PARTS * ITEM <= SL_REPEAT_MEMO,
               "the memo of a full set fits");

size_t sl_repeat_memo_write(const struct sl_repeat_memo *memo, char *out)
{
    int len =
        snprintf(out, HEAD, "%d %" PRId64 " %d %d %" PRId64 " %s %u", VERSION,
                 memo->now, memo->degraded, memo->no_numbers, memo->hold_for,
                 memo->hold[0] ? memo->hold : "-", memo->count);

    for (unsigned i = 0; i < memo->count; i++) {
        const struct sl_repeat_memo_item *m = &memo->items[i];
        const struct sl_answer *a = &m->answer;

        len += snprintf(out + len, ITEM,
                        " %" PRIu64 " %d %" PRIu64 " %" PRIu64 " %" PRIu64
                        " %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64
                        " %" PRIu64 " %" PRIu64 " %d %d %d %d %d",
                        m->rule, (int)a->outcome, a->limit, a->capacity,
                        a->remaining, a->retry_in, a->reset_in, a->wait,
                        m->next_in, m->overage_units, m->credited, m->allowed,
                        m->overage, m->untracked, m->uncapped, m->skipped);
    }
    return (size_t)len;
}

/* Reading: the first error is kept. */
struct memo_reader {
    struct sl_str text;
    bool bad;
};

static struct sl_str next_word(struct memo_reader *r)
{
    size_t len = 0;
    struct sl_str word;

    while (len < r->text.len && r->text.at[len] != ' ')
        len++;
    word = (struct sl_str){r->text.at, len};
    r->bad |= len == 0;
    r->text = sl_str_from(r->text, len < r->text.len ? len + 1 : len);
    return word;
}

static uint64_t next_number(struct memo_reader *r, uint64_t most)
{
    struct sl_str word = next_word(r);
    uint64_t number = 0;

    for (size_t i = 0; i < word.len; i++) {
        uint64_t digit = (uint64_t)(unsigned char)word.at[i] - '0';

        if (digit > 9 || number > (most - digit) / 10) {
            r->bad = true;
            return 0;
        }
        number = number * 10 + digit;
    }
    return number;
}

/* -1 is SL_NS_NONE. */
static sl_ns next_time(struct memo_reader *r)
{
    if (r->text.len >= 2 && memcmp(r->text.at, "-1", 2) == 0) {
        r->bad |= next_word(r).len != 2;
        return SL_NS_NONE;
    }
    return (sl_ns)next_number(r, INT64_MAX);
}

static bool next_flag(struct memo_reader *r)
{
    return next_number(r, 1) == 1;
}

static void read_item(struct memo_reader *r, struct sl_repeat_memo_item *m)
{
    m->rule = next_number(r, UINT64_MAX);
    m->answer.outcome = (enum sl_outcome)next_number(r, SL_NEVER);
    m->answer.limit = next_number(r, UINT64_MAX);
    m->answer.capacity = next_number(r, UINT64_MAX);
    m->answer.remaining = next_number(r, UINT64_MAX);
    m->answer.retry_in = next_time(r);
    m->answer.reset_in = next_time(r);
    m->answer.wait = next_time(r);
    m->next_in = next_time(r);
    m->overage_units = next_number(r, UINT64_MAX);
    m->credited = next_number(r, UINT64_MAX);
    m->allowed = next_flag(r);
    m->overage = next_flag(r);
    m->untracked = next_flag(r);
    m->uncapped = next_flag(r);
    m->skipped = next_flag(r);
}

bool sl_repeat_memo_read(struct sl_str text, struct sl_repeat_memo *ret)
{
    struct memo_reader r = {.text = text};
    struct sl_str hold;

    if (next_number(&r, VERSION) != VERSION)
        return false;
    ret->now = next_time(&r);
    ret->degraded = next_flag(&r);
    ret->no_numbers = next_flag(&r);
    ret->hold_for = next_time(&r);
    hold = next_word(&r);
    if (r.bad || hold.len >= sizeof(ret->hold) ||
        memchr(hold.at, '\0', hold.len))
        return false;
    memset(ret->hold, 0, sizeof(ret->hold));
    if (!sl_str_eq(hold, SL_STR("-")))
        memcpy(ret->hold, hold.at, hold.len);
    ret->count = (unsigned)next_number(&r, SL_PARTS);
    for (unsigned i = 0; i < ret->count && !r.bad; i++)
        read_item(&r, &ret->items[i]);
    return !r.bad && r.text.len == 0;
}

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

static bool is_keyed(const struct sl_check *c, unsigned scope)
{
    return sl_scope_is_name(scope) &&
           scope < c->decision.policy->identity.scope_count &&
           sl_request_keyed(c->decision.policy, c->request, scope).len > 0;
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
    add_text(print, c->request->key); /* of one limit: the name is in it */
    for (unsigned s = 0; s < SL_SCOPES; s++)
        if (s != SL_SCOPE_IP && s != SL_SCOPE_ANON)
            add_text(print, is_keyed(c, s) ? SL_STR("") : caller->values[s]);
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

const struct sl_hash_key *sl_idempotency_secret(const struct sl_check *c)
{
    static const struct sl_hash_key none;
    const struct sl_repeats *shared = c->engine->shared;
    const struct sl_hash_key *secret =
        shared ? shared->secret(shared) : c->secret;

    return secret ? secret : &none; /* none: the memory will fail */
}

/* Begins the key of a claim. Policies that share a store differ in `env`. */
static struct print begin_key(const struct sl_check *c, uint64_t kind)
{
    struct print key = {
        sl_idempotency_secret(c), {kind, 0}
    };

    add_text(&key, c->decision.policy->env);
    return key;
}

static void want(struct sl_check *c, const struct print *key,
                 const struct print *fingerprint, sl_ns life, uint32_t repeats)
{
    struct sl_decision_claim *claim = &c->decision.claims[SL_CLAIM_REPEAT];

    claim->claim = (struct sl_repeat_claim){
        .key = key->hash,
        .fingerprint = fingerprint->hash,
        .until = c->decision.now + life,
        .repeats = repeats,
    };
    claim->wanted = true;
}

static void claim_given(struct sl_check *c)
{
    const struct sl_request *request = c->request;
    struct print key = begin_key(c, 1);
    struct print print = {
        sl_idempotency_secret(c), {0, 0}
    };

    add_caller(&key, c);
    add_text(&key, unquote(request->idempotency_key));
    add_number(&key, request->idempotency_index);
    add_request(&print, request);
    want(c, &key, &print, LIFE, UINT32_MAX);
}

/* The value of a header, or of a member of the body; "" if there is none. */
static struct sl_str find_id(struct sl_check *c, const struct sl_dedupe *dedupe)
{
    struct sl_str id;

    if (dedupe->pointer.len == 0)
        return unquote(sl_request_single(c->request, dedupe->header));
    return sl_check_body_member(c, dedupe->pointer, &id) == SL_JSON_FIND_VALUE
               ? id
               : SL_STR("");
}

static void claim_dedupe(struct sl_check *c, const struct sl_dedupe *dedupe)
{
    struct sl_str id = find_id(c, dedupe);
    struct print key = begin_key(c, 2);
    struct print print = {
        sl_idempotency_secret(c), {0, 0}
    };

    if (id.len == 0)
        return;
    add_caller(&key, c);
    add_text(&key, c->decision.route->text);
    add_text(&key, id);
    for (unsigned i = 0; i < dedupe->trait_count; i++)
        add_field(&print, c->request, &dedupe->traits[i]);
    want(c, &key, &print, dedupe->life, dedupe->repeats); /* (5) */
}

void sl_idempotency_claim(struct sl_check *c, const struct sl_prechecks *guards)
{
    struct sl_decision *d = &c->decision;

    if (d->claims[SL_CLAIM_REPEAT].wanted || d->side_count != 1)
        return;
    if (c->request->idempotency_key.len > 0)
        claim_given(c);
    else if (guards && guards->dedupe.written)
        claim_dedupe(c, &guards->dedupe);
}

/* ---- repeats ---- */

static uint64_t rule_print(const struct sl_limit_view *shown)
{
    static const struct sl_hash_key plain = {1, 2};

    return sl_hash64(&plain, shown->rule->name);
}

static bool fits(const struct sl_decision *d, const struct sl_repeat_memo *memo)
{
    if (memo->count != d->shown_count)
        return false;
    for (unsigned i = 0; i < memo->count; i++) {
        const struct sl_repeat_memo_item *item = &memo->items[i];
        const struct sl_limit_view *shown = &d->shown[i];

        if (item->rule != rule_print(shown) ||
            (item->credited > 0 && !shown->rule->credits))
            return false;
    }
    return true;
}

static void restore(struct sl_limit_view *shown,
                    const struct sl_repeat_memo_item *item)
{
    shown->answer = item->answer;
    shown->next_in = item->next_in;
    shown->overage_units = item->overage_units;
    shown->credited = item->credited;
    shown->allowed = item->allowed;
    shown->overage = item->overage;
    shown->untracked = item->untracked;
    shown->uncapped = item->uncapped;
    shown->has_candidate = false;
    if (item->credited > 0)
        shown->cost = 0;
    if (shown->pays_for) /* others are skipped for want of a key */
        shown->skipped = item->skipped;
}

/* (4) If the policy has changed, or the memo was written by another version,
 * the repeat passes without numbers. */
static void answer_again(struct sl_decision *d, struct sl_str text)
{
    struct sl_repeat_memo memo;

    d->replayed = true;
    if (!sl_repeat_memo_read(text, &memo))
        memo = (struct sl_repeat_memo){.now = d->now, .no_numbers = true};
    d->now = memo.now;
    d->degraded = memo.degraded;
    d->hold_for = memo.hold_for;
    memcpy(d->hold, memo.hold, sizeof(d->hold));
    d->no_numbers = memo.no_numbers || !fits(d, &memo);
    for (unsigned i = 0; i < d->shown_count && !d->no_numbers; i++)
        restore(&d->shown[i], &memo.items[i]);
    sl_decision_conclude(d);
}

static size_t write_memo(const struct sl_decision *d, char *out)
{
    struct sl_repeat_memo memo = {.now = d->now,
                                  .count = d->shown_count,
                                  .degraded = d->degraded,
                                  .no_numbers = d->no_numbers,
                                  .hold_for = d->hold_for};

    memcpy(memo.hold, d->hold, sizeof(memo.hold));
    for (unsigned i = 0; i < d->shown_count; i++) {
        const struct sl_limit_view *shown = &d->shown[i];

        memo.items[i] =
            (struct sl_repeat_memo_item){.rule = rule_print(shown),
                                         .answer = shown->answer,
                                         .next_in = shown->next_in,
                                         .overage_units = shown->overage_units,
                                         .credited = shown->credited,
                                         .allowed = shown->allowed,
                                         .overage = shown->overage,
                                         .untracked = shown->untracked,
                                         .uncapped = shown->uncapped,
                                         .skipped = shown->skipped};
    }
    return sl_repeat_memo_write(&memo, out);
}

/* ---- calls to the memory ---- */

static void on_called(struct sl_repeat_call *call)
{
    struct sl_check *c = call->ctx;

    c->answered = true;
    if (!c->sending)
        sl_check_resume(c);
}

void sl_idempotency_cache(struct sl_replay_cache *cache,
                          struct sl_repeat_call *call)
{
    call->err = 0;
    switch (call->op) {
    case SL_REPEAT_BEGIN:
    case SL_REPEAT_LOOK:
        call->found = sl_replay_cache_begin(
            cache, &call->claim, call->now, call->op == SL_REPEAT_LOOK,
            call->memo, SL_REPEAT_MEMO, &call->len);
        break;
    case SL_REPEAT_FINISH:
        call->found = SL_REPEAT_FIRST;
        sl_replay_cache_finish(cache, &call->claim, call->memo, call->len);
        break;
    case SL_REPEAT_DROP:
        sl_replay_cache_drop(cache, &call->claim);
        return;
    case SL_REPEAT_PUT:
        sl_replay_cache_put(cache, &call->claim, call->memo, call->len);
        break;
    }
    call->done(call);
}

static void send(struct sl_check *c, unsigned which)
{
    struct sl_repeats *shared = c->engine->shared;

    if (!shared) {
        sl_idempotency_cache(c->engine->caches[which], &c->repeat);
    } else if (shared->secret(shared)) {
        shared->call(shared, &c->repeat);
    } else if (c->repeat.op != SL_REPEAT_DROP) {
        c->repeat.err = SLUICE_ESTORE;
        c->repeat.done(&c->repeat);
    }
}

static void fill(struct sl_check *c, unsigned which, enum sl_repeat_op op)
{
    struct sl_decision *d = &c->decision;

    c->repeat = (struct sl_repeat_call){
        .op = op,
        .claim = d->claims[which].claim,
        .now = c->request->now,
        .loop = c->engine_ctx->loop,
        .done = on_called,
        .ctx = c,
    };
}

/* Starts a call. True if it was answered at once. */
static bool start(struct sl_check *c, unsigned which, enum sl_repeat_op op)
{
    fill(c, which, op);
    c->repeat.memo = sl_arena_take(&c->decision.arena, SL_REPEAT_MEMO);
    if (!c->repeat.memo) {
        c->repeat.err = SLUICE_ENOMEM;
        return true;
    }
    if (op == SL_REPEAT_FINISH)
        c->repeat.len = write_memo(&c->decision, c->repeat.memo);
    else if (c->decision.take.deadline > 0)
        c->repeat.deadline = c->decision.take.deadline;
    c->sending = true;
    send(c, which);
    c->sending = false;
    return c->answered;
}

static void drop(struct sl_check *c, unsigned which,
                 const struct sl_repeat_claim *claim)
{
    fill(c, which, SL_REPEAT_DROP);
    c->repeat.claim = *claim;
    send(c, which);
}

static void refuse(struct sl_decision *d, enum sl_reason reason, sl_ns retry)
{
    sl_decision_refuse(d, reason);
    if (d->reason == reason)
        d->retry_in = retry;
}

/* The owner of a claim, for the shared memory. */
static uint64_t make_owner(struct sl_engine *engine)
{
    uint64_t n = atomic_fetch_add_explicit(&engine->owner_count, 1,
                                           memory_order_relaxed);

    return sl_hash64(&engine->owner_key,
                     (struct sl_str){(const char *)&n, sizeof(n)});
}

/* The claim was answered. */
static void found(struct sl_check *c, unsigned which)
{
    struct sl_decision *d = &c->decision;
    const struct sl_repeat_call *call = &c->repeat;

    switch (call->found) {
    case SL_REPEAT_FIRST:
        d->claims[which].claimed = d->spend;
        break;
    case SL_REPEAT_RUNNING:
        refuse(d, SL_REASON_RUNNING, RETRY);
        break;
    case SL_REPEAT_OTHER:
        refuse(d, SL_REASON_REUSED, SL_NS_NONE);
        break;
    case SL_REPEAT_AGAIN:
        answer_again(d, (struct sl_str){call->memo, call->len});
        break;
    case SL_REPEAT_FULL:
        if (which == SL_CLAIM_WEBHOOK) {
            d->webhook_fault = SL_WEBHOOK_TOO_MANY;
            d->webhook_verified = false;
            refuse(d, SL_REASON_WEBHOOKS_FULL, RETRY);
        }
        break; /* all entries are running: decide and take */
    }
}

/* (6) It may have been claimed nevertheless. */
static void failed(struct sl_check *c, unsigned which)
{
    if (c->decision.spend)
        drop(c, which, &c->decision.claims[which].claim);
    sl_outage_conclude_repeat(c);
}

/* Claims a key; false: not answered yet. */
static bool begin_one(struct sl_check *c, unsigned which)
{
    struct sl_decision *d = &c->decision;
    struct sl_decision_claim *own = &d->claims[which];

    if (!own->wanted)
        return true;
    if (own->kept && sl_hash128_eq(own->before.key, own->claim.key)) {
        own->claim.owner = own->before.owner;
        own->claimed = true;
        own->kept = false;
        return true;
    }
    if (!c->answered) {
        own->claim.owner = make_owner(c->engine);
        own->claim.pending =
            d->now + SL_REPEAT_PENDING + sl_wait_check_longest(c);
        if (!start(c, which, d->spend ? SL_REPEAT_BEGIN : SL_REPEAT_LOOK))
            return false;
    }
    c->answered = false;
    if (c->repeat.err)
        failed(c, which);
    else
        found(c, which);
    return true;
}

bool sl_idempotency_begin(struct sl_check *c)
{
    struct sl_decision *d = &c->decision;

    for (; c->claim_index < SL_DECISION_CLAIMS; c->claim_index++) {
        if (!begin_one(c, c->claim_index))
            return false;
        if (d->replayed || d->reason != SL_REASON_NONE)
            break;
    }
    return true;
}

/* ---- after the decision ---- */

void sl_idempotency_retry(struct sl_decision *d, bool keep)
{
    for (unsigned i = 0; i < SL_DECISION_CLAIMS; i++) {
        struct sl_decision_claim *own = &d->claims[i];

        if (keep && !own->kept) {
            own->before = own->claim;
            own->before.until = own->claimed ? own->claim.until : SL_NS_NONE;
        } else if (!keep) {
            own->kept = own->before.until != SL_NS_NONE;
        }
    }
}

/* An answer that is not remembered is not exact for repeats: `degraded`. So is
 * one that came so late that another request had claimed the key. */
bool sl_idempotency_finish(struct sl_check *c)
{
    struct sl_decision *d = &c->decision;

    for (; c->claim_index < SL_DECISION_CLAIMS; c->claim_index++) {
        struct sl_decision_claim *own = &d->claims[c->claim_index];

        if (!own->claimed || !d->allowed)
            continue; /* (1) */
        if (!c->answered && !start(c, c->claim_index, SL_REPEAT_FINISH))
            return false;
        c->answered = false;
        own->claimed = false;
        d->degraded |= c->repeat.err || c->repeat.found == SL_REPEAT_OTHER;
    }
    return true;
}

void sl_idempotency_drop(struct sl_check *c)
{
    struct sl_decision *d = &c->decision;

    for (unsigned i = 0; i < SL_DECISION_CLAIMS; i++) {
        struct sl_decision_claim *own = &d->claims[i];

        if (own->claimed)
            drop(c, i, &own->claim); /* (1) */
        if (own->kept)               /* the new policy does not use it */
            drop(c, i, &own->before);
        own->claimed = own->kept = false;
    }
}
