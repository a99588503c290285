/* webhooks.c -- sends webhooks: claims deliveries, sends them, records results.
 *
 * All of it runs on the first worker's loop. The queue is in the database
 * (registry/webhook_db.h); memory has only what is being sent.
 *
 *     wake, timer --> CLAIM --> start() --> on_answer() --> RECORD --> wake
 *                                 |
 *                                 +--> the next first attempt of the endpoint
 *
 * First attempts of an endpoint are sent one after the other, in the order of
 * the messages; retries beside them. After a failure the next waits until the
 * failure is recorded: it may have disabled the endpoint. When an endpoint
 * becomes slow or was changed, or the lease is nearly over, what was not sent
 * yet is returned to the queue.
 *
 * There is one CLAIM and one RECORD at a time; results that come meanwhile are
 * recorded together, and a CLAIM is sent with them. A RECORD that fails is
 * tried again until it succeeds: the registry knows whether a lost COMMIT was
 * done.
 *
 * The time of the next claim is exact: it is when a delivery is due or the pace
 * of its destination allows it. A look now and then finds what a notification
 * of another process has missed.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/random.h>

#include "engine/check.h"
#include "net/http_fetch.h"
#include "sluiced/daemon.h"
#include "webhook/pace.h"
#include "webhook/sign.h"
#include "webhook/url_guard.h"
#include "wire/json.h"

#define TIMEOUT (15 * SL_S)
#define LEASE   (60 * SL_S)
#define START_MOST                                                             \
    (30 * SL_S)          /* after the claim; LEASE - TIMEOUT, and less         \
                          */
#define HELD_MOST    512 /* deliveries in memory */
#define LANES_MOST   64  /* endpoints of one claim */
#define BATCH        512 /* results of one RECORD */
#define BATCH_SHARED 64  /* ...which locks rows that other daemons need */
#define GATHER       (25 * SL_MS) /* ...that wait for others so long */
#define CLAIM_BYTES  ((size_t)4 << 20)
#define LOOK         (5 * SL_S)    /* for what was missed */
#define AGAIN        (250 * SL_MS) /* after an error of the database */
#define LEAST        (50 * SL_MS)  /* after a claim that found nothing */
#define COUNT_EACH   (10 * SL_S)

enum stage { WAITING, CHECKING, SENDING, DONE };

struct delivery {
    TAILQ_ENTRY(delivery) all;
    struct sl_webhooks *s;
    struct sl_webhook_claimed row;
    struct sl_str texts[SL_CLAIMED_TEXTS]; /* behind the struct; each ends in
                                            * NUL */
    enum stage stage;
    struct delivery *after; /* the next first attempt of the endpoint */
    bool is_behind;         /* it is `after` another one */
    bool is_old;            /* its endpoint was changed after the claim */
    bool is_stale;          /* its connection was, so that it begins again */
    sl_ns claimed;          /* monotonic */
    sl_ns began, mono;      /* the attempt */
    sl_ns asked;            /* its request, behind DNS, connection and TLS */
    struct sl_http_fetch fetch;
    struct sl_buf signature;
    char id[SL_WEBHOOK_ID + 16], timestamp[48];
    const char *headers[5];
    struct sl_check *check;    /* of a held message, or NULL */
    struct sl_request request; /* for it */
    struct sl_webhook_result result;
    size_t size; /* of its memory */
};

struct sl_webhooks {
    struct sl_daemon *daemon;
    struct sl_loop *loop;
    struct sl_http_fetcher *fetcher;
    struct sl_webhook_secrets *secrets;
    struct sl_timer *timer;
    struct sl_timer *gather; /* of results */
    bool gathering;
    TAILQ_HEAD(, delivery) held;
    unsigned held_count, done_count; /* done: not recorded yet */
    bool closed;

    struct sl_job claim_job;
    struct sl_webhook_job claim;
    bool claiming, claim_again;
    sl_ns claimed; /* when the claim was sent; monotonic. Its leases begin
                    * then or later. */

    struct sl_job record_job;
    struct sl_webhook_job record;
    struct sl_webhook_result results[BATCH];
    struct delivery *recorded[BATCH];
    bool recording, failed; /* failed: the last RECORD, to be sent again */

    struct sl_job count_job;
    struct sl_webhook_job count;
    bool counting;
    sl_ns counted; /* wall clock, which a test moves */
    struct sl_metrics_webhooks numbers;
};

static void claim(struct sl_webhooks *s);
static void record(struct sl_webhooks *s);
static void record_soon(struct sl_webhooks *s);
static void start(struct delivery *d);

static bool is_draining(const struct sl_webhooks *s)
{
    return s->closed || s->daemon->draining;
}

static void send_job(struct sl_webhooks *s, struct sl_job *job,
                     struct sl_webhook_job *w, void (*done)(struct sl_job *job))
{
    uint64_t uncertain = job->uncertain_txn;

    sl_job_init(job, SL_JOB_WEBHOOK, &sl_alloc_libc);
    job->uncertain_txn = uncertain;
    job->loop = s->loop;
    job->now = sl_loop_now(s->loop);
    job->done = done;
    job->ctx = s;
    job->webhook = w;
    sl_registry_ask(s->daemon->registry, job);
}

/* ---- one delivery ---- */

static void free_delivery(struct delivery *d)
{
    struct sl_webhooks *s = d->s;

    TAILQ_REMOVE(&s->held, d, all);
    s->held_count--;
    s->done_count -= d->stage == DONE;
    if (d->fetch.body.alloc) /* it does not run any more */
        sl_buf_done(&d->fetch.body);
    sl_buf_done(&d->signature);
    if (d->check) {
        sl_check_done(d->check);
        sl_alloc_free(&sl_alloc_libc, d->check, sizeof(*d->check));
    }
    sl_alloc_free(&sl_alloc_libc, d, d->size);
}

/* When the pace has counted it. */
static sl_ns taken_at(const struct delivery *d)
{
    return d->row.lease - LEASE;
}

/* The result is complete. */
static void end(struct delivery *d)
{
    d->stage = DONE;
    d->s->done_count++;
    d->result.has_next = d->after != NULL;
    d->result.number = d->row.number;
    d->result.tries = (unsigned)d->row.tries;
    d->result.lease = d->row.lease;
    d->result.updated = d->row.updated;
    d->result.taken = taken_at(d);
    d->result.message = d->texts[SL_CLAIMED_MESSAGE];
    d->result.endpoint = d->texts[SL_CLAIMED_ENDPOINT];
    d->result.org = d->texts[SL_CLAIMED_ORG];
    d->result.url = d->texts[SL_CLAIMED_URL];
}

/* Ends it: the next of its endpoint may be sent. After a failure on_recorded()
 * sends it. If the endpoint is slow, or this one is not done, all that come
 * after it are returned. */
static void finish(struct delivery *d)
{
    struct delivery *next = d->after, *behind;
    const struct sl_attempt *a = &d->result.attempt;
    bool slow = !d->result.returned &&
                (a->timed_out || a->status == 429 || a->status == 502 ||
                 a->status == 504 || a->status == 410);

    end(d);
    if (next && !slow && !d->result.returned && a->status / 100 != 2) {
        record_soon(d->s);
        return;
    }
    d->after = NULL;
    for (; next && (slow || d->is_stale); next = behind) {
        next->result.returned = true;
        end(next);
        behind = next->after;
        next->after = NULL;
    }
    if (next)
        start(next);
    record_soon(d->s);
}

/* Returns it to the queue. */
static void give_up(struct delivery *d, sl_ns not_before)
{
    d->result.returned = true;
    d->result.not_before = not_before;
    finish(d);
}

static void count(struct sl_webhooks *s, const struct sl_attempt *attempt)
{
    const char *class = sl_attempt_class(attempt);

    for (unsigned i = 0; i < SL_ATTEMPT_CLASSES; i++)
        s->numbers.attempts[i] += strcmp(class, sl_attempt_words[i]) == 0;
}

/* May the log show the answer? Not if `allow` alone has opened the address: it
 * would show customers what inner services say. */
static bool is_public(const struct sl_http_fetch *fetch)
{
    return fetch->has_peer && sl_url_guard_is_public(&fetch->peer);
}

/* When it has reached the destination, at the latest. */
static sl_ns arrived_at(const struct delivery *d, sl_ns now)
{
    sl_ns at = d->asked + SL_PACE_ARRIVE;

    return !d->fetch.sent ? 0 : at < now ? at : now;
}

static void on_answer(struct sl_http_fetch *fetch)
{
    struct delivery *d = fetch->ctx;
    struct sl_webhook_result *r = &d->result;
    sl_ns now = sl_loop_now(d->s->loop);

    if (fetch->result == SL_HTTP_FETCH_NO_MEMORY && !fetch->sent) {
        give_up(d, now + SL_S); /* the lack is here, not at the destination */
        return;
    }
    r->arrived = arrived_at(d, now);
    if (fetch->stale) { /* on its way again, but for the pace */
        d->is_stale = true;
        give_up(d, 0);
        return;
    }
    r->at = d->began;
    r->took = sl_loop_mono(d->s->loop) - d->mono;
    r->attempt = (struct sl_attempt){
        .status = fetch->result == SL_HTTP_FETCH_GOOD ? fetch->status : 0,
        .timed_out = fetch->timed_out,
        .retry_after = sl_retry_after_read(sl_str_c(fetch->retry_after), now),
    };
    if (r->attempt.status / 100 != 2) /* for the delay */
        (void)!getrandom(&r->attempt.random, sizeof(r->attempt.random), 0);
    if (fetch->body.len > 0 && is_public(fetch))
        r->answer = sl_buf_str(&fetch->body);
    r->error = sl_str_c(fetch->why);
    count(d->s, &r->attempt);
    finish(d);
}

/* What the policy that is active now allows. */
static struct sl_url_rules rules_of(const struct sl_webhooks *s)
{
    return sl_url_rules_of(&s->daemon->policy_source.policy->webhooks);
}

/* The address of a connection, before it is opened and before the request. On a
 * busy machine the request may be much later than its turn of the loop began.
 */
static bool guard(struct sl_http_fetch *fetch, const struct sl_ip *ip,
                  unsigned port, char *why, size_t size)
{
    struct delivery *d = fetch->ctx;
    struct sl_url_rules rules = rules_of(d->s);
    struct sl_diag diag = {0};

    d->asked = sl_loop_instant(d->s->loop);
    if (!sl_url_guard_address(ip, port, &rules, &diag))
        return true;
    snprintf(why, size, "%s", diag.sentence);
    return false;
}

static int sign(struct delivery *d)
{
    struct sl_str secrets[2] = {d->texts[SL_CLAIMED_SECRET],
                                d->texts[SL_CLAIMED_OLD_SECRET]};
    char seconds[24];
    struct sl_webhook message = {
        .id = d->texts[SL_CLAIMED_MESSAGE],
        .timestamp = {seconds, 0},
        .body = d->texts[SL_CLAIMED_PAYLOAD]
    };
    int err;

    message.timestamp.len =
        (size_t)snprintf(seconds, sizeof(seconds), "%" PRId64, d->began / SL_S);
    snprintf(d->id, sizeof(d->id), "webhook-id: %s",
             d->texts[SL_CLAIMED_MESSAGE].at);
    snprintf(d->timestamp, sizeof(d->timestamp), "webhook-timestamp: %s",
             seconds);
    sl_buf_clear(&d->signature);
    err = sl_buf_add(&d->signature, SL_STR("webhook-signature: "));
    if (!err)
        err = sl_webhook_signatures(d->s->secrets, &message, secrets,
                                    secrets[1].len > 0 ? 2 : 1, &d->signature);
    return err ? err : sl_buf_add(&d->signature, (struct sl_str){"", 1});
}

/* A URL that was allowed when it was stored may be refused now: by its scheme,
 * its port or its address. guard() sees the address, not the URL. */
static bool is_refused(struct delivery *d)
{
    struct sl_url_rules rules = rules_of(d->s);
    struct sl_webhook_url parts;
    struct sl_diag diag = {0};

    if (!sl_url_guard_read(d->texts[SL_CLAIMED_URL], &rules, &parts, &diag))
        return false;
    snprintf(d->fetch.why, sizeof(d->fetch.why), "%s", diag.sentence);
    return true;
}

/* An attempt that fails without a connection. */
static void fail(struct delivery *d)
{
    struct sl_webhook_result *r = &d->result;

    r->at = d->began;
    r->attempt = (struct sl_attempt){.retry_after = SL_NS_NONE};
    (void)!getrandom(&r->attempt.random, sizeof(r->attempt.random), 0);
    r->error = sl_str_c(d->fetch.why);
    count(d->s, &r->attempt);
    finish(d);
}

/* Is it so late that another sender may have taken from the pace? */
static bool is_late(const struct delivery *d)
{
    const struct sl_webhooks_conf *conf =
        &d->s->daemon->policy_source.policy->webhooks;

    return !conf->unlimited && sl_pace_is_even(&conf->pace) &&
           (d->mono - d->claimed > SL_PACE_START ||
            d->began - taken_at(d) > SL_PACE_START);
}

static void send_it(struct delivery *d)
{
    struct sl_webhooks *s = d->s;

    d->stage = SENDING;
    d->began = d->asked = sl_loop_now(s->loop);
    d->mono = sl_loop_mono(s->loop);
    if (is_late(d)) {
        give_up(d, 0);
        return;
    }
    if (is_refused(d)) {
        fail(d);
        return;
    }
    if (sign(d)) {
        give_up(d, d->began + SL_S);
        return;
    }
    d->headers[0] = "content-type: application/json";
    d->headers[1] = d->id;
    d->headers[2] = d->timestamp;
    d->headers[3] = d->signature.bytes;
    d->fetch = (struct sl_http_fetch){
        .url = d->texts[SL_CLAIMED_URL].at,
        .headers = d->headers,
        .send = d->texts[SL_CLAIMED_PAYLOAD],
        .most = SL_WEBHOOK_ANSWER,
        .timeout = TIMEOUT,
        .connect_timeout = SL_PACE_CONNECT,
        .any_status = true,
        .once = true,
        .guard = guard,
        .done = on_answer,
        .ctx = d,
    };
    if (sl_http_fetch_begin(s->fetcher, &d->fetch))
        give_up(d, d->began + SL_S);
}

/* ---- messages beyond the quota: it counts them when they are sent ---- */

/* A message counts once, however many endpoints it goes to. Returns a delivery
 * of the same message that the quota has counted (result.held) or that is being
 * counted, or NULL. */
static const struct delivery *find_counted(const struct delivery *d)
{
    const struct delivery *other;

    TAILQ_FOREACH (other, &d->s->held, all) {
        if (other != d && (other->result.held || other->stage == CHECKING) &&
            sl_str_eq(other->texts[SL_CLAIMED_MESSAGE],
                      d->texts[SL_CLAIMED_MESSAGE]))
            return other;
    }
    return NULL;
}

/* not_before: 0 if the quota has counted it. */
static void settle(struct delivery *d, sl_ns not_before)
{
    d->result.held = not_before == 0;
    if (d->result.held)
        send_it(d);
    else
        give_up(d, not_before);
}

static void on_quota(struct sl_check *check)
{
    struct delivery *d = check->ctx, *other;
    sl_ns retry_in = SL_MIN, not_before = 0;

    if (d->s->closed)
        return;
    if (!check->err && sl_decision_retry_in(&check->decision) > 0)
        retry_in = sl_decision_retry_in(&check->decision);
    if (check->err || !check->decision.allowed)
        not_before = sl_loop_now(d->s->loop) + retry_in;
    settle(d, not_before);
    TAILQ_FOREACH (other, &d->s->held, all) {
        if (other->stage == CHECKING && !other->check &&
            sl_str_eq(other->texts[SL_CLAIMED_MESSAGE],
                      d->texts[SL_CLAIMED_MESSAGE]))
            settle(other, not_before);
    }
}

static void take_quota(struct delivery *d, const struct sl_rule *rule)
{
    struct sl_worker *worker = &d->s->daemon->workers[0];

    d->check = sl_alloc_new(&sl_alloc_libc, sizeof(*d->check));
    if (!d->check) {
        give_up(d, sl_loop_now(d->s->loop) + SL_S);
        return;
    }
    memset(d->check, 0, sizeof(*d->check));
    sl_check_init(d->check, d->s->daemon->engine, &worker->engine_ctx,
                  &sl_alloc_libc);
    d->check->done = on_quota;
    d->check->ctx = d;
    d->request = (struct sl_request){.limit = rule->name,
                                     .keys = &d->texts[SL_CLAIMED_ORG],
                                     .key_count = 1,
                                     .org = d->texts[SL_CLAIMED_ORG],
                                     .has_cost = true,
                                     .cost = 1,
                                     .trusted = true,
                                     .wait = SL_NS_NONE,
                                     .now = sl_loop_now(d->s->loop)};
    d->stage = CHECKING;
    sl_check_start(d->check, &d->request, 1, true);
}

/* Sends a held message if the quota has room, or once it was counted. */
static void start_held(struct delivery *d, const struct sl_rule *rule)
{
    const struct delivery *counted = find_counted(d);

    if (!counted)
        take_quota(d, rule);
    else if (counted->result.held)
        settle(d, 0);
    else
        d->stage = CHECKING; /* on_quota() of the other */
}

static void start(struct delivery *d)
{
    struct sl_webhooks *s = d->s;
    const struct sl_rule *rule =
        s->daemon->policy_source.policy->webhooks.quota_rule;

    if (is_draining(s) || d->is_old ||
        sl_loop_mono(s->loop) - d->claimed > START_MOST)
        give_up(d, 0);
    else if (d->row.held && rule)
        start_held(d, rule);
    else
        send_it(d);
}

/* ---- claims ---- */

/* Copies a row of a claim. Returns NULL without memory: its lease ends. */
static struct delivery *read_row(struct sl_webhooks *s, const char **at)
{
    struct sl_webhook_claimed row;
    size_t size = sizeof(struct delivery);
    struct delivery *d;
    char *text;

    memcpy(&row, *at, sizeof(row));
    *at += sizeof(row);
    for (unsigned i = 0; i < SL_CLAIMED_TEXTS; i++)
        size += row.lens[i] + 1;
    d = sl_alloc_new(&sl_alloc_libc, size);
    if (d) {
        memset(d, 0, sizeof(*d));
        *d = (struct delivery){.s = s, .row = row, .size = size};
        d->claimed = s->claimed;
        sl_buf_init(&d->signature, 1024, &sl_alloc_libc);
        TAILQ_INSERT_TAIL(&s->held, d, all);
        s->held_count++;
    }
    text = (char *)(d + 1);
    for (unsigned i = 0; i < SL_CLAIMED_TEXTS; i++, *at += row.lens[i - 1]) {
        if (!d)
            continue;
        memcpy(text, *at, row.lens[i]);
        text[row.lens[i]] = '\0';
        d->texts[i] = (struct sl_str){text, row.lens[i]};
        text += row.lens[i] + 1;
    }
    return d;
}

/* First attempts of an endpoint come one after the other. */
static void start_claimed(struct sl_webhooks *s)
{
    struct sl_str rows = sl_buf_str(&s->claim_job.text);
    const char *at = rows.at, *end = rows.at + rows.len;
    struct delivery *last = NULL, *d, *next;

    while (at < end) {
        d = read_row(s, &at);
        if (!d || d->row.tries > 0)
            continue;
        if (last && sl_str_eq(last->texts[SL_CLAIMED_ENDPOINT],
                              d->texts[SL_CLAIMED_ENDPOINT])) {
            last->after = d;
            d->is_behind = true;
        }
        last = d;
    }
    for (d = TAILQ_FIRST(&s->held); d; d = next) {
        next = TAILQ_NEXT(d, all);
        if (d->stage == WAITING && !d->is_behind)
            start(d);
    }
}

static void wait_until(struct sl_webhooks *s, sl_ns next)
{
    sl_ns now = sl_loop_now(s->loop);
    sl_ns wait = next > now ? next - now : 0;

    if (s->claim.claimed == 0 && wait < LEAST)
        wait = LEAST;
    /* A virtual clock wakes us when it moves. */
    if (wait > LOOK || (s->daemon->settings.virtual_clock && wait > 0))
        wait = LOOK;
    sl_timer_start(s->timer, wait);
}

static void on_claimed(struct sl_job *job)
{
    struct sl_webhooks *s = job->ctx;
    bool full = !job->err && s->claim.claimed > 0;

    if (s->closed) {
        s->claiming = false;
        sl_job_clear(job);
        return;
    }
    if (job->err) {
        sl_timer_start(s->timer, AGAIN);
    } else {
        s->numbers.paced += s->claim.paced;
        start_claimed(s);
        wait_until(s, s->claim.next);
    }
    sl_job_clear(job);
    s->claiming = false; /* not before: a result at once claims, too */
    if (s->claim_again || (full && s->claim.next <= sl_loop_now(s->loop)))
        claim(s);
}

static void claim(struct sl_webhooks *s)
{
    const struct sl_webhooks_conf *conf =
        &s->daemon->policy_source.policy->webhooks;
    unsigned held = s->held_count - (s->recording ? s->record.count : 0);
    unsigned room =
        held < HELD_MOST ? (HELD_MOST - held) / SL_WEBHOOK_LEASED : 0;

    if (is_draining(s))
        return;
    s->claim_again = s->claiming;
    if (s->claiming || room == 0) /* a result claims again */
        return;
    s->claiming = true;
    s->claim = (struct sl_webhook_job){
        .op = SL_WEBHOOK_CLAIM,
        .limit = conf->pace,
        .unlimited = conf->unlimited,
        .lease = LEASE,
        .endpoints = room < LANES_MOST ? room : LANES_MOST,
        .bytes = CLAIM_BYTES,
    };
    s->claimed = sl_loop_mono(s->loop);
    send_job(s, &s->claim_job, &s->claim, on_claimed);
}

/* ---- results ---- */

static void note(struct sl_webhooks *s, const struct sl_webhook_result *r,
                 const char *type, const char *member, struct sl_str value)
{
    struct sl_buf members;
    struct sl_writer w = sl_event_begin(&members);

    sl_json_member_str(&w, "org", r->org);
    sl_json_member_str(&w, "endpoint", r->endpoint);
    sl_json_member_str(&w, "url", r->url);
    sl_json_member_str(&w, member, value);
    if (!w.err)
        sl_webhooks_notify(&s->daemon->workers[0], r->org, type,
                           sl_buf_str(&members));
    sl_buf_done(&members);
}

static void tell(struct sl_webhooks *s, const struct sl_webhook_result *r,
                 const struct delivery *d)
{
    char org[128], endpoint[SL_WEBHOOK_ID], message[SL_WEBHOOK_ID];

    snprintf(org, sizeof(org), "%.*s", SL_STR_ARG(r->org));
    snprintf(endpoint, sizeof(endpoint), "%.*s", SL_STR_ARG(r->endpoint));
    snprintf(message, sizeof(message), "%.*s", SL_STR_ARG(r->message));
    if (r->disabled)
        sl_log(SL_LOG_WARN, "webhook endpoint disabled", "org", org, "endpoint",
               endpoint, "why", r->retry.disable, NULL);
    if (r->known && r->retry.result == SL_ATTEMPT_DEAD)
        sl_log(SL_LOG_WARN, "webhook dead", "org", org, "endpoint", endpoint,
               "message", message, "why", "all attempts failed", NULL);
    if (r->disabled)
        note(s, r, "webhook.endpoint_disabled", "reason",
             sl_str_c(r->retry.disable));
    /* No note about notes of this type: they would not end. */
    if (r->known && r->retry.result == SL_ATTEMPT_DEAD &&
        !sl_str_eq(d->texts[SL_CLAIMED_TYPE], SL_STR("webhook.message_dead")))
        note(s, r, "webhook.message_dead", "message", r->message);
}

/* What was claimed with `d` is sent as the endpoint is now, if it is. */
static void return_others(const struct delivery *d)
{
    struct delivery *other;

    TAILQ_FOREACH (other, &d->s->held, all)
        other->is_old |= sl_str_eq(other->texts[SL_CLAIMED_ENDPOINT],
                                   d->texts[SL_CLAIMED_ENDPOINT]) &&
                         other->row.updated == d->row.updated;
}

static void on_recorded(struct sl_job *job)
{
    struct sl_webhooks *s = job->ctx;
    unsigned count = s->record.count;

    if (job->err && !s->closed) {
        s->recording = false;
        s->failed = true;
        sl_timer_start(s->timer, AGAIN);
        sl_job_clear(job);
        return;
    }
    s->failed = false;
    job->uncertain_txn = 0;
    for (unsigned i = 0; i < count; i++) {
        const struct sl_webhook_result *r = &s->results[i];
        struct delivery *d = s->recorded[i], *next = d->after;

        if (!job->err && !r->returned && !s->closed)
            tell(s, r, d);
        s->numbers.disabled += r->disabled;
        s->numbers.dead +=
            r->known && !r->returned && r->retry.result == SL_ATTEMPT_DEAD;
        if (r->is_old)
            return_others(d);
        free_delivery(d);
        if (next && !s->closed)
            start(next);
    }
    s->recording = false; /* not before: start() may finish others */
    sl_job_clear(job);
    record_soon(s);
    claim(s);
}

/* Is the database of this daemon alone? Then no other has leases. */
static bool is_alone(const struct sl_daemon *daemon)
{
    return !daemon->settings.shared_registry;
}

static unsigned most_results(const struct sl_webhooks *s)
{
    return is_alone(s->daemon) ? BATCH : BATCH_SHARED;
}

/* Each transaction has a price, so results wait for those that are on their
 * way, if there are any. */
static void record_soon(struct sl_webhooks *s)
{
    if (s->done_count >= most_results(s) || s->done_count == s->held_count) {
        record(s);
    } else if (!s->gathering && s->done_count > 0 && !s->closed) {
        s->gathering = true;
        sl_timer_start(s->gather, GATHER);
    }
}

static void on_gathered(void *ctx)
{
    struct sl_webhooks *s = ctx;

    s->gathering = false;
    record(s);
}

static void record(struct sl_webhooks *s)
{
    const struct sl_webhooks_conf *conf =
        &s->daemon->policy_source.policy->webhooks;
    struct delivery *d;
    unsigned count = 0;

    if (s->recording)
        return;
    if (!s->failed) {
        TAILQ_FOREACH (d, &s->held, all) {
            if (d->stage != DONE || count == most_results(s))
                continue;
            s->results[count] = d->result;
            s->recorded[count++] = d;
        }
        if (count == 0)
            return;
        s->record = (struct sl_webhook_job){
            .op = SL_WEBHOOK_RECORD,
            .results = s->results,
            .count = count,
            .limit = conf->pace,
            .unlimited = conf->unlimited,
        };
        s->record_job.uncertain_txn = 0;
    }
    s->recording = true;
    send_job(s, &s->record_job, &s->record, on_recorded);
    if (!s->closed)
        claim(s); /* in the same transaction, as a rule */
}

/* ---- waking ---- */

static void on_timer(void *ctx)
{
    struct sl_webhooks *s = ctx;

    if (s->failed)
        record(s);
    claim(s);
    sl_timer_start(s->timer, LOOK);
}

static void on_wake(void *ctx)
{
    struct sl_webhooks *s = ((struct sl_daemon *)ctx)->webhooks;

    if (s && s->timer)
        claim(s);
}

/* Threads of the registry wake us, also while loops are opened and closed. */
static pthread_mutex_t wake_lock = PTHREAD_MUTEX_INITIALIZER;

static void set_wake_loop(struct sl_daemon *daemon, struct sl_loop *loop)
{
    pthread_mutex_lock(&wake_lock);
    daemon->webhooks_loop = loop;
    pthread_mutex_unlock(&wake_lock);
}

void sl_webhooks_wake(struct sl_daemon *daemon)
{
    pthread_mutex_lock(&wake_lock);
    if (daemon->webhooks_loop) /* without memory the timer looks soon */
        (void)!sl_loop_post(daemon->webhooks_loop, on_wake, daemon);
    pthread_mutex_unlock(&wake_lock);
}

/* ---- numbers ---- */

static void on_counted(struct sl_job *job)
{
    struct sl_webhooks *s = job->ctx;

    s->counting = false;
    if (!job->err) {
        s->numbers.waiting = s->count.counts.waiting;
        s->numbers.dead_now = s->count.counts.dead;
        s->numbers.disabled_now = s->count.counts.disabled;
        s->numbers.oldest = s->count.counts.oldest;
    }
    sl_job_clear(job);
}

void sl_webhooks_poll(struct sl_daemon *daemon)
{
    struct sl_webhooks *s = daemon->webhooks;
    sl_ns now = sl_loop_now(daemon->workers[0].loop);

    sl_webhook_notes_poll(daemon);
    if (!s || s->counting || is_draining(s) ||
        (now >= s->counted && now - s->counted < COUNT_EACH))
        return;
    s->counting = true;
    s->counted = now;
    s->count = (struct sl_webhook_job){.op = SL_WEBHOOK_COUNT};
    send_job(s, &s->count_job, &s->count, on_counted);
}

void sl_webhooks_count(struct sl_daemon *daemon,
                       struct sl_metrics_webhooks *ret)
{
    if (!daemon->webhooks)
        return;
    *ret = daemon->webhooks->numbers;
    ret->on = true;
    ret->omitted = daemon->notes.omitted;
    ret->sending = daemon->webhooks->held_count;
    /* What a claim takes is sent by the clock after it. A test that moves the
     * clock waits for it. */
    if (daemon->settings.virtual_clock && daemon->webhooks->claiming)
        ret->sending++;
}

bool sl_webhooks_is_busy(const struct sl_daemon *daemon)
{
    return daemon->webhooks && daemon->webhooks->held_count > 0;
}

/* ---- life ---- */

static void on_freed(struct sl_job *job)
{
    struct sl_webhooks *s = job->ctx;

    sl_job_clear(job);
    s->claiming = false;
    if (!s->closed)
        claim(s);
}

/* Its end is after that of the registry. */
int sl_webhooks_open(struct sl_daemon *daemon)
{
    daemon->webhooks = NULL;
    return 0;
}

int sl_webhooks_begin(struct sl_daemon *daemon)
{
    struct sl_webhooks *s;

    if (!daemon->registry || daemon->settings.only == SL_ONLY_DECISIONS)
        return 0;
    s = sl_alloc_new(&sl_alloc_libc, sizeof(*s));
    if (!s)
        return sl_daemon_no_memory(daemon);
    memset(s, 0, sizeof(*s));
    s->daemon = daemon;
    s->loop = daemon->workers[0].loop;
    TAILQ_INIT(&s->held);
    daemon->webhooks = s;
    if (sl_http_fetcher_open(s->loop, &sl_alloc_libc, &s->fetcher,
                             &daemon->why))
        return SL_EXIT_FAILED;
    s->secrets = sl_webhook_secrets_new(&sl_alloc_libc);
    if (!s->secrets || sl_timer_new(s->loop, on_timer, s, &s->timer) ||
        sl_timer_new(s->loop, on_gathered, s, &s->gather))
        return sl_daemon_no_memory(daemon);
    sl_timer_start(s->timer, 0);
    set_wake_loop(daemon, s->loop);
    if (is_alone(daemon)) {
        s->claiming = true;
        s->claim = (struct sl_webhook_job){.op = SL_WEBHOOK_FREE};
        send_job(s, &s->claim_job, &s->claim, on_freed);
    }
    return 0;
}

/* No loop runs: what is in flight is returned to the queue. */
void sl_webhooks_end(struct sl_daemon *daemon)
{
    struct sl_webhooks *s = daemon->webhooks;
    struct delivery *d;

    set_wake_loop(daemon, NULL);
    if (!s)
        return;
    s->closed = true;
    TAILQ_FOREACH (d, &s->held, all) {
        if (d->stage == DONE || (d->check && d->check->busy))
            continue;              /* the lease of a busy one ends */
        if (d->stage == SENDING) { /* it may have arrived */
            d->result.arrived = sl_loop_now(s->loop);
            sl_http_fetch_forget(s->fetcher, &d->fetch);
        }
        d->after = NULL;
        d->stage = DONE;
        s->done_count++;
        d->result.returned = true;
        d->result.number = d->row.number;
        d->result.lease = d->row.lease;
        d->result.taken = taken_at(d);
        d->result.org = d->texts[SL_CLAIMED_ORG];
        d->result.endpoint = d->texts[SL_CLAIMED_ENDPOINT];
        d->result.message = d->texts[SL_CLAIMED_MESSAGE];
        d->result.url = d->texts[SL_CLAIMED_URL];
    }
    record(s);
    sl_timer_free(s->timer);
    sl_timer_free(s->gather);
    s->timer = s->gather = NULL;
    sl_http_fetcher_close(s->fetcher);
    s->fetcher = NULL;
}

/* The registry has stopped. */
void sl_webhooks_close(struct sl_daemon *daemon)
{
    struct sl_webhooks *s = daemon->webhooks;

    if (!s)
        return;
    while (!TAILQ_EMPTY(&s->held))
        free_delivery(TAILQ_FIRST(&s->held));
    sl_webhook_secrets_free(s->secrets);
    sl_alloc_free(&sl_alloc_libc, s, sizeof(*s));
    daemon->webhooks = NULL;
}
