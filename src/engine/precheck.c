/* guard.c -- what is asked of a request before its limits.
 *
 * A webhook that is believed is remembered for as long as its time is good, so
 * that the very same one does not pass again. It is claimed when it is
 * verified and kept when the request has passed: who is refused by a limit may
 * come again.
 */
#include "engine/guard.h"

#include <string.h>

#include "base/parse.h"
#include "engine/conflict.h"
#include "engine/inside.h"

#define RETRY SL_S /* where nobody knows a better time */

struct sl_hash128 sl_fingerprint_add(const struct sl_hash_key *secret,
                                     struct sl_hash128 before,
                                     struct sl_str text)
{
    const struct sl_hash_key key = {secret->k0 ^ before.lo,
                                    secret->k1 ^ before.hi};

    return sl_hash128(&key, text);
}

/* ---- verify ---- */

/* The header of that name, and only one. */
static enum sl_webhook_fault find_header(const struct sl_request *facts,
                                         struct sl_str name, struct sl_str *ret)
{
    unsigned count = 0;

    if (name.len == 0)
        return SL_WEBHOOK_GOOD;
    for (unsigned i = 0; i < facts->header_count; i++)
        if (sl_str_eq_nocase(facts->headers[i].name, name)) {
            *ret = sl_str_trim(facts->headers[i].value);
            count++;
        }
    if (count > 1)
        return SL_WEBHOOK_TWICE;
    return count == 1 ? SL_WEBHOOK_GOOD : SL_WEBHOOK_NO_HEADER;
}

static enum sl_webhook_fault read_message(const struct sl_request *facts,
                                          const struct sl_verify *verify,
                                          struct sl_webhook *ret)
{
    struct sl_str *places[] = {&ret->id, &ret->timestamp, &ret->signature};
    enum sl_webhook_fault fault = SL_WEBHOOK_GOOD;

    for (size_t i = 0; !fault && i < SL_LEN(places); i++)
        fault = find_header(facts, verify->names[i], places[i]);
    if (!fault && !facts->has_body)
        fault = SL_WEBHOOK_NO_BODY;
    ret->body = facts->body;
    return fault;
}

/* Not by its signature: while secrets change, a message has several. */
static struct sl_hash128 print_message(const struct sl_check_step *asking,
                                       const struct sl_route *route,
                                       const struct sl_webhook *message,
                                       struct sl_str seconds)
{
    const struct sl_str texts[] = {route->text, message->id, seconds,
                                   message->body};
    struct sl_hash128 print = {0, 0};

    for (size_t i = 0; i < SL_LEN(texts); i++)
        print = sl_fingerprint_add(asking->secret, print, texts[i]);
    return print;
}

/* Has the very same come before? */
static enum sl_webhook_fault remember(struct sl_decision *d,
                                      const struct sl_check_step *asking,
                                      const struct sl_replay_cache_claim *claim)
{
    struct sl_engine *engine = asking->live->engine;
    size_t len;

    if (!engine || !engine->replays)
        return SL_WEBHOOK_GOOD;
    if (d->webhook_kept && sl_claims_same(&d->kept_webhook, claim)) {
        d->webhook = *claim;
        d->webhook_claimed = true;
        d->webhook_kept = false;
        return SL_WEBHOOK_GOOD;
    }
    switch (sl_replay_cache_begin(engine->replays, claim, d->now, !d->spend,
                                  NULL, 0, &len)) {
    case SL_REPLAY_CACHE_FIRST:
        d->webhook = *claim;
        d->webhook_claimed = d->spend;
        return SL_WEBHOOK_GOOD;
    case SL_REPLAY_CACHE_FULL:
        return SL_WEBHOOK_TOO_MANY;
    default:
        return SL_WEBHOOK_REPLAYED;
    }
}

static enum sl_webhook_fault verify_route(struct sl_decision *d,
                                          const struct sl_check_step *asking,
                                          const struct sl_route *route)
{
    const struct sl_verify *verify = &route->guards->verify;
    struct sl_webhook message = {
        .id = {"", 0}
    };
    struct sl_webhook_seen seen;
    struct sl_replay_cache_claim claim = {.repeats = UINT32_MAX};
    enum sl_webhook_fault fault = read_message(asking->facts, verify, &message);

    if (!fault && !asking->known->webhook)
        fault = SL_WEBHOOK_NOT_HERE;
    if (!fault)
        fault = asking->known->webhook(&verify->rules, &message, d->now, &seen);
    if (fault)
        return fault;
    claim.key = print_message(asking, route, &message, seen.seconds);
    claim.until = seen.until;
    return d->webhook_claimed ? SL_WEBHOOK_GOOD : remember(d, asking, &claim);
}

static void check_webhook(struct sl_decision *d,
                          const struct sl_check_step *asking,
                          const struct sl_route *route)
{
    enum sl_webhook_fault fault = verify_route(d, asking, route);

    d->webhook_verified = !fault;
    d->webhook_fault = fault;
    if (!fault)
        return;
    if (fault == SL_WEBHOOK_TOO_MANY || fault == SL_WEBHOOK_NO_MEMORY) {
        sl_decision_refuse(d, SL_REASON_WEBHOOKS_FULL);
        d->retry_in = d->allowed ? d->retry_in : RETRY;
    } else {
        sl_decision_refuse(d, SL_REASON_WEBHOOK);
    }
}

/* ---- require ---- */

static unsigned count_headers(const struct sl_request *facts,
                              struct sl_str name)
{
    unsigned count = 0;

    for (unsigned i = 0; i < facts->header_count; i++)
        count += sl_str_eq_nocase(facts->headers[i].name, name);
    return count;
}

static enum sl_want judge(const struct sl_request *facts,
                          const struct sl_require *require)
{
    struct sl_str value = sl_request_single(facts, require->header);
    unsigned count = count_headers(facts, require->header);
    uint64_t number = 0;

    if (value.len == 0)
        return require->optional && count == 0 ? SL_WANT_NOTHING
                                               : SL_WANT_HEADER;
    if (require->equals.len > 0 &&
        !sl_str_eq(value, sl_request_single(facts, require->equals)))
        return SL_WANT_EQUAL;
    if (!require->has_min && !require->has_max)
        return SL_WANT_NOTHING;
    if (sl_parse_number(value, &number, NULL))
        return SL_WANT_NUMBER;
    if (require->has_max && number > require->max)
        return SL_WANT_LESS;
    return require->has_min && number < require->min ? SL_WANT_MORE
                                                     : SL_WANT_NOTHING;
}

static void check_requires(struct sl_decision *d,
                           const struct sl_check_step *asking,
                           const struct sl_prechecks *guards)
{
    for (unsigned i = 0; i < guards->require_count; i++) {
        const struct sl_require *require = &guards->requires[i];
        enum sl_want want = judge(asking->facts, require);

        if (want == SL_WANT_NOTHING || d->reason != SL_REASON_NONE)
            continue;
        sl_decision_refuse(d, SL_REASON_REQUIRE);
        if (d->reason != SL_REASON_REQUIRE)
            continue; /* a policy in shadow */
        d->require = require;
        d->want = want;
        d->status = require->status;
        d->code = require->code;
    }
}

/* ---- backlog ---- */

static void check_backlog(struct sl_decision *d,
                          const struct sl_active_policy *live,
                          const struct sl_backlog *backlog)
{
    const struct sl_depth *depth;
    sl_ns at;

    if (!backlog->written || !live->depths)
        return;
    depth = &live->depths[backlog->index];
    at = atomic_load_explicit(&depth->at, memory_order_acquire);
    if (at == SL_NS_NONE || d->now - at > backlog->stale ||
        atomic_load_explicit(&depth->depth, memory_order_relaxed) <=
            backlog->max)
        return;
    sl_decision_refuse(d, SL_REASON_BACKLOG);
    if (d->reason == SL_REASON_BACKLOG)
        d->retry_in = backlog->retry_after;
}

/* ---- all of them ---- */

bool sl_precheck_run(struct sl_decision *d, struct sl_check_step *asking,
                     const struct sl_route *route)
{
    const struct sl_prechecks *guards = route->guards;

    if (!guards)
        return true;
    if (guards->verify.written)
        check_webhook(d, asking, route);
    if (d->reason == SL_REASON_NONE)
        check_requires(d, asking, guards);
    if (d->reason == SL_REASON_NONE)
        check_backlog(d, asking->live, &guards->backlog);
    if (d->reason == SL_REASON_NONE && guards->guard.written)
        sl_guard_claim(d, asking, &guards->guard);
    return d->reason == SL_REASON_NONE;
}
