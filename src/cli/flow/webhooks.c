/* webhooks.c -- webhooks of a flow: the queue of a daemon, on the flow's clock.
 *
 *     webhook --> quota --> WAITING --> pace --> attempt --> DELIVERED
 *                   |          ^         |          |        DEAD
 *                   deny       +---------+-- retry -+
 *
 * What decides is what decides in a daemon: webhook/pace.h, webhook/retry.h,
 * webhook/url_guard.h and the quota of the policy. The queue is a list in
 * memory instead of tables. Nothing is sent: a destination answers at once, by
 * the status that the flow gives it. Delays have no jitter.
 *
 * Lists are searched in O(n): WAITING_MOST bounds the longest.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "libpolicy/libpolicy.h"
#include "webhook/pace.h"
#include "webhook/retry.h"
#include "webhook/url_guard.h"

#define WAITING_MOST 10000
#define NEVER        INT64_MAX

struct destination {
    struct sl_str url;
    struct sl_cell cell; /* the pace */
    int status;          /* what it answers */
    struct destination *next;
};

struct endpoint {
    const char *org;
    struct destination *destination;
    unsigned failures; /* in a row */
    sl_ns not_before;
    bool disabled;
    struct endpoint *next;
};

enum state { WAITING, DELIVERED, DEAD, SKIPPED };

struct sl_flow_message {
    struct endpoint *endpoint;
    const char *name; /* as=NAME, or NULL: it is reused when it has ended */
    enum state state;
    bool held; /* beyond the quota, which has not counted it */
    unsigned tries;
    sl_ns due;
    struct sl_flow_message *next;       /* waiting, by acceptance; or spare */
    struct sl_flow_message *next_named; /* the latest first */
};

static int no_memory(struct sl_flow_webhooks *w)
{
    return sl_diag_error(&w->why, SLUICE_ENOMEM, "out of memory");
}

static const struct sl_webhooks_conf *conf_of(const struct sl_flow_webhooks *w)
{
    return &w->policy->policy->webhooks;
}

/* ---- endpoints and destinations ---- */

/* Appends the one spelling of a URL, if the policy allows it. */
static int read_url(struct sl_flow_webhooks *w, struct sl_str url,
                    struct sl_buf *out)
{
    struct sl_url_rules rules = sl_url_rules_of(conf_of(w));
    struct sl_webhook_url parts;
    int err = sl_url_guard_read(url, &rules, &parts, &w->why);

    if (err)
        return err;
    return sl_url_canonical(url, &parts, out) ? no_memory(w) : 0;
}

static int find_destination(struct sl_flow_webhooks *w, struct sl_str url,
                            struct destination **ret)
{
    struct destination *d = w->destinations;
    const char *copy;

    while (d && !sl_str_eq(d->url, url))
        d = d->next;
    *ret = d;
    if (d)
        return 0;
    copy = sl_arena_copy(w->arena, url);
    d = sl_arena_take(w->arena, sizeof(*d));
    if (!copy || !d)
        return no_memory(w);
    *d = (struct destination){
        .url = {copy, url.len},
          .status = 200, .next = w->destinations
    };
    *ret = w->destinations = d;
    return 0;
}

/* The destination of a URL, which is added if there is none. */
static int need_destination(struct sl_flow_webhooks *w, const char *url,
                            struct destination **ret)
{
    struct sl_buf text;
    int err;

    sl_buf_init(&text, (size_t)2 * SL_WEBHOOK_URL, &sl_alloc_libc);
    err = read_url(w, sl_str_c(url), &text);
    if (!err)
        err = find_destination(w, sl_buf_str(&text), ret);
    sl_buf_done(&text);
    return err;
}

static int need_endpoint(struct sl_flow_webhooks *w, const char *org,
                         const char *url, struct endpoint **ret)
{
    struct destination *d;
    struct endpoint *e;
    int err = need_destination(w, url, &d);

    if (err)
        return err;
    for (e = w->endpoints;
         e && (e->destination != d || strcmp(e->org, org) != 0);)
        e = e->next;
    *ret = e;
    if (e)
        return 0;
    e = sl_arena_take(w->arena, sizeof(*e));
    if (!e)
        return no_memory(w);
    *e = (struct endpoint){.org = org, .destination = d, .next = w->endpoints};
    *ret = w->endpoints = e;
    return 0;
}

int sl_flow_webhooks_answer(struct sl_flow_webhooks *w, const char *url,
                            int status)
{
    struct destination *d;
    int err = need_destination(w, url, &d);

    if (!err)
        d->status = status;
    return err;
}

/* ---- the quota ---- */

/* Counts one message. *ret_wait is how long until the quota has room: 0 if it
 * has; SL_NS_NONE: never. */
static int take_quota(struct sl_flow_webhooks *w, const char *org,
                      struct sluice_decision *decision, sl_ns *ret_wait)
{
    const struct sl_rule *rule = conf_of(w)->quota_rule;
    struct sluice_request request = {
        .key = org, .org = org, .has_cost = 1, .cost = 1, .trusted = 1};

    *ret_wait = 0;
    if (!rule)
        return 0;
    request.limit = rule->name.at;
    if (sluice_decide(w->engine, &request, decision))
        return sl_diag_error(&w->why, SLUICE_ESYS, "%s", sluice_why());
    if (sluice_decision_allowed(decision))
        return 0;
    *ret_wait = sluice_decision_retry_in_ns(decision);
    if (*ret_wait <= 0)
        *ret_wait = SL_NS_NONE;
    return 0;
}

/* ---- attempts ---- */

static void unlink_waiting(struct sl_flow_webhooks *w,
                           struct sl_flow_message *m)
{
    struct sl_flow_message **at = &w->waiting;

    while (*at != m)
        at = &(*at)->next;
    *at = m->next;
    w->waiting_count--;
    m->next = NULL;
    if (!m->name) {
        m->next = w->spare;
        w->spare = m;
    }
}

/* When it is tried next, or NEVER. */
static sl_ns due_at(const struct sl_flow_message *m)
{
    const struct endpoint *e = m->endpoint;

    if (e->disabled)
        return NEVER;
    return m->due > e->not_before ? m->due : e->not_before;
}

/* Sends it at `now`. A Retry-After of 0 is the delay without jitter. */
static void attempt(struct sl_flow_webhooks *w, struct sl_flow_message *m,
                    sl_ns now)
{
    struct endpoint *e = m->endpoint;
    struct sl_attempt a = {.status = e->destination->status,
                           .retry_after = 0,
                           .before = m->tries,
                           .failures = e->failures};
    struct sl_retry retry;

    sl_retry_judge(&a, &retry);
    m->tries++;
    e->failures = retry.failures;
    if (retry.slow > 0 && now + retry.slow > e->not_before)
        e->not_before = now + retry.slow;
    if (retry.disable)
        e->disabled = true;
    m->due = now + retry.retry_in;
    if (retry.result == SL_ATTEMPT_RETRY)
        return;
    m->state = retry.result == SL_ATTEMPT_DEAD ? DEAD : DELIVERED;
    unlink_waiting(w, m);
}

/* It is due: the pace, the quota if that has not counted it, and an attempt. */
static int send_due(struct sl_flow_webhooks *w, struct sl_flow_message *m,
                    sl_ns now)
{
    const struct sl_webhooks_conf *conf = conf_of(w);
    struct endpoint *e = m->endpoint;
    sl_ns wait = 0;
    int err;

    if (!conf->unlimited)
        wait = sl_pace_take(&conf->pace, &e->destination->cell, now);
    if (wait > 0) {
        e->not_before = now + wait;
        return 0;
    }
    if (!conf->unlimited) /* it arrives at once */
        (void)!sl_pace_move(&conf->pace, &e->destination->cell, now, now);
    if (m->held) {
        err = take_quota(w, e->org, w->held, &wait);
        if (err)
            return err;
        if (wait != 0) {
            m->due = now + (wait > 0 ? wait : SL_MIN);
            return 0;
        }
        m->held = false;
    }
    attempt(w, m, now);
    return 0;
}

int sl_flow_webhooks_move(struct sl_flow_webhooks *w, sl_ns to)
{
    int err = 0;

    if (*w->now > to) /* it goes back: nothing is due */
        *w->now = to;
    while (!err) {
        struct sl_flow_message *first = NULL;
        sl_ns at = NEVER;

        for (struct sl_flow_message *m = w->waiting; m; m = m->next)
            if (due_at(m) < at) {
                first = m;
                at = due_at(m);
            }
        if (!first || at > to)
            break;
        if (*w->now < at)
            *w->now = at;
        err = send_due(w, first, *w->now);
    }
    if (!err)
        *w->now = to;
    return err;
}

/* ---- messages ---- */

static struct sl_flow_message *new_message(struct sl_flow_webhooks *w,
                                           const char *name)
{
    struct sl_flow_message *m = w->spare;

    if (m)
        w->spare = m->next;
    else
        m = sl_arena_take(w->arena, sizeof(*m));
    if (!m)
        return NULL;
    *m = (struct sl_flow_message){.name = name};
    if (name) {
        m->next_named = w->named;
        w->named = m;
    }
    return m;
}

/* Appends it: first attempts are in the order of the messages. */
static int queue(struct sl_flow_webhooks *w, struct sl_flow_message *m)
{
    struct sl_flow_message **end = &w->waiting;

    if (w->waiting_count == WAITING_MOST)
        return sl_diag_error(&w->why, SLUICE_ECONF,
                             "more than %d webhooks would wait; let time pass "
                             "before",
                             WAITING_MOST);
    while (*end)
        end = &(*end)->next;
    *end = m;
    w->waiting_count++;
    return 0;
}

int sl_flow_webhooks_send(struct sl_flow_webhooks *w, const char *org,
                          const char *url, const char *name,
                          struct sluice_decision *decision,
                          const struct sl_flow_message **ret)
{
    struct endpoint *e;
    struct sl_flow_message *m;
    sl_ns wait = 0;
    int err = need_endpoint(w, org, url, &e);

    if (!err)
        err = take_quota(w, org, decision, &wait);
    *ret = NULL;
    if (err || wait < 0 || (wait > 0 && conf_of(w)->at_cap == SL_AT_CAP_REFUSE))
        return err;
    m = new_message(w, name);
    if (!m)
        return no_memory(w);
    m->endpoint = e;
    m->held = wait > 0;
    m->due = *w->now + wait;
    *ret = m;
    if (e->disabled) { /* it gets no new messages */
        m->state = SKIPPED;
        return 0;
    }
    err = queue(w, m);
    return err ? err : sl_flow_webhooks_move(w, *w->now);
}

const struct sl_flow_message *
sl_flow_webhooks_find(const struct sl_flow_webhooks *w, const char *name)
{
    const struct sl_flow_message *m = w->named;

    while (m && strcmp(m->name, name) != 0)
        m = m->next_named;
    return m;
}

struct sl_flow_delivery sl_flow_webhooks_state(const struct sl_flow_webhooks *w,
                                               const struct sl_flow_message *m)
{
    struct sl_flow_delivery ret = {.tries = m->tries, .retry_in = SL_NS_NONE};

    if (m->state == DELIVERED) {
        ret.state = "delivered";
    } else if (m->state == DEAD) {
        ret.state = "dead";
    } else if (m->endpoint->disabled) {
        ret.state = "disabled";
    } else {
        ret.state = m->held ? "held" : m->tries > 0 ? "retrying" : "paced";
        ret.retry_in = due_at(m) > *w->now ? due_at(m) - *w->now : 0;
    }
    return ret;
}

int sl_flow_webhooks_open(struct sl_flow_webhooks *w, struct sl_arena *arena,
                          struct sluice_engine *engine, sl_ns *now)
{
    *w =
        (struct sl_flow_webhooks){.arena = arena, .engine = engine, .now = now};
    w->held = sluice_decision_new();
    return w->held ? 0 : no_memory(w);
}

void sl_flow_webhooks_close(struct sl_flow_webhooks *w)
{
    sluice_decision_free(w->held);
    w->held = NULL;
}
