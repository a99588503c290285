/* webhook_db.c -- endpoints and messages of webhooks, and what is read of them.
 * The queue is in webhook_queue.c.
 */
#include "registry/webhook_db.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "base/hash.h"
#include "core/algorithm.h"
#include "registry/registry_int.h"
#include "wire/json.h"

/* ---- event types ---- */

/* "order.*" matches "order.paid"; a * stands at the end only. */
static bool matches(struct sl_str pattern, struct sl_str type)
{
    if (pattern.len == 0 || pattern.at[pattern.len - 1] != '*')
        return sl_str_eq(pattern, type);
    pattern.len--;
    return sl_str_begins(type, pattern);
}

/* Types have no escapes: see the check of an endpoint. */
bool sl_webhook_matches(struct sl_str events, struct sl_str type)
{
    struct sl_json_reader json;
    struct sl_str pattern;

    sl_json_begin(&json, events, NULL);
    if (!sl_json_enter(&json, '['))
        return false;
    while (sl_json_item(&json) && sl_json_text(&json, &pattern))
        if (matches(pattern, type))
            return true;
    return false;
}

/* ---- endpoints ---- */

static int refuse(struct sl_job *job, enum sl_job_result result)
{
    job->result = result;
    return 0;
}

static int put_endpoint(struct sl_database *db, struct sl_job *job)
{
    const struct sl_webhook_endpoint *e = &job->webhook->endpoint;
    int64_t count = 0;
    int found =
        sl_query_one(db, SL_QUERY_COUNT_ENDPOINTS, "t n", e->org, &count);

    if (found < 0)
        return found;
    if (count >= SL_WEBHOOK_ENDPOINTS) {
        sl_diag_error(&job->diag, SLUICE_EFULL,
                      "the organisation has %d endpoints; delete one first",
                      SL_WEBHOOK_ENDPOINTS);
        return refuse(job, SL_JOB_CONFLICT);
    }
    return sl_query_run(db, SL_QUERY_PUT_ENDPOINT, "ttttttinn", e->id, e->org,
                        e->url, e->events, e->metadata, e->secret,
                        (int)e->contact, INT64_MAX, job->now);
}

/* The row of an endpoint. */
struct row {
    struct sl_str org, url, events, metadata, secret, old_secret, reason;
    int64_t old_until, enabled, contact, failures, not_before;
};

static int load(struct sl_database *db, struct sl_str id, struct row *ret)
{
    return sl_query_one(db, SL_QUERY_ENDPOINT, "t ttttttnnntnn", id, &ret->org,
                        &ret->url, &ret->events, &ret->metadata, &ret->secret,
                        &ret->old_secret, &ret->old_until, &ret->enabled,
                        &ret->contact, &ret->reason, &ret->failures,
                        &ret->not_before);
}

static void apply(struct row *row, const struct sl_webhook_job *w)
{
    const struct sl_webhook_endpoint *e = &w->endpoint;

    if (w->has & SL_WEBHOOK_HAS_URL)
        row->url = e->url;
    if (w->has & SL_WEBHOOK_HAS_EVENTS)
        row->events = e->events;
    if (w->has & SL_WEBHOOK_HAS_METADATA)
        row->metadata = e->metadata;
    if (w->has & SL_WEBHOOK_HAS_CONTACT)
        row->contact = e->contact;
    if (w->has & SL_WEBHOOK_HAS_SECRET) {
        row->old_secret = e->old_until > 0 ? row->secret : SL_STR("");
        row->old_until = e->old_until;
        row->secret = e->secret;
    }
    if (!(w->has & SL_WEBHOOK_HAS_ENABLED))
        return;
    row->reason = e->enabled ? SL_STR("") : e->reason;
    if (e->enabled && !row->enabled)
        row->failures = row->not_before = 0;
    row->enabled = e->enabled;
}

static int change_endpoint(struct sl_database *db, struct sl_job *job)
{
    const struct sl_webhook_job *w = job->webhook;
    struct row row;
    int found = load(db, w->id, &row);
    int err;

    if (found <= 0)
        return found < 0 ? found : refuse(job, SL_JOB_NOT_FOUND);
    apply(&row, w);
    err = sl_query_run(db, SL_QUERY_CHANGE_ENDPOINT, "tntttttnnntnn", w->id,
                       job->now, row.url, row.events, row.metadata, row.secret,
                       row.old_secret, row.old_until, row.enabled, row.contact,
                       row.reason, row.failures, row.not_before);
    if (!err && (w->has & SL_WEBHOOK_HAS_DROP))
        err = sl_query_run(db, SL_QUERY_DROP_WAITING, "t", w->id);
    return err ? err : sl_webhook_schedule(db, row.org, w->id, job->now);
}

static int drop_endpoint(struct sl_database *db, struct sl_job *job)
{
    struct sl_str org;
    int found =
        sl_query_one(db, SL_QUERY_DROP_ENDPOINT, "t t", job->webhook->id, &org);

    if (found <= 0)
        return found < 0 ? found : refuse(job, SL_JOB_NOT_FOUND);
    return sl_query_run(db, SL_QUERY_DROP_WAITING, "t", job->webhook->id);
}

static void write_endpoint(struct sl_writer *w, const struct row *row,
                           struct sl_str id, int64_t next, sl_ns created,
                           sl_ns updated)
{
    sl_json_open(w, '{');
    sl_json_member_str(w, "id", id);
    sl_json_member_str(w, "org", row->org);
    sl_json_member_str(w, "url", row->url);
    sl_json_key(w, SL_STR("events"));
    sl_json_raw(w, row->events);
    sl_json_key(w, SL_STR("metadata"));
    sl_json_raw(w, row->metadata);
    sl_json_key(w, SL_STR("enabled"));
    sl_json_flag(w, row->enabled != 0);
    if (!row->enabled)
        sl_json_member_str(w, "reason", row->reason);
    sl_json_key(w, SL_STR("contact"));
    sl_json_flag(w, row->contact != 0);
    sl_json_key(w, SL_STR("failures"));
    sl_json_int(w, row->failures);
    if (row->old_until > 0)
        sl_json_member_time(w, "old_secret_until", row->old_until);
    sl_json_member_time(w, "next",
                        next == INT64_MAX || !row->enabled ? SL_NS_NONE : next);
    sl_json_member_time(w, "created", created);
    sl_json_member_time(w, "updated", updated);
    sl_json_close(w, '}');
}

/* Appends endpoints, without their secrets. */
static int list_endpoints(struct sl_database *db, struct sl_job *job)
{
    const struct sl_webhook_job *w = job->webhook;
    enum sl_query q = SL_QUERY_ENDPOINTS_ALL;
    struct sl_writer out = {.out = &job->text};
    struct sl_str id;
    struct row row = {.enabled = 0};
    int64_t next;
    sl_ns created, updated;
    unsigned count = 0;
    int found;

    if (w->id.len > 0)
        q = SL_QUERY_ENDPOINT_ONE;
    else if (w->org.len > 0)
        q = SL_QUERY_ENDPOINTS_OF;
    if (q == SL_QUERY_ENDPOINT_ONE)
        sl_query_bind(db, q, "t", w->id);
    else
        sl_query_bind(db, q, "ti", w->org, w->most);
    while ((found = sl_query_next(db, q, NULL, "tttttnnntnnnn", &id, &row.org,
                                  &row.url, &row.events, &row.metadata,
                                  &row.old_until, &row.enabled, &row.contact,
                                  &row.reason, &row.failures, &next, &created,
                                  &updated)) == 1) {
        write_endpoint(&out, &row, id, next, created, updated);
        count++;
    }
    sl_query_reset(db, q);
    if (!found && count == 0 && q == SL_QUERY_ENDPOINT_ONE)
        return refuse(job, SL_JOB_NOT_FOUND);
    return found < 0 ? found : out.err;
}

/* ---- messages ---- */

struct targets {
    struct sl_str ids[SL_WEBHOOK_ENDPOINTS];
    unsigned count;
};

/* Notes go to contacts, and nothing else does. */
static int find_targets(struct sl_database *db, const struct sl_webhook_job *w,
                        bool is_note, struct targets *ret)
{
    const enum sl_query q = SL_QUERY_TARGETS;
    struct sl_str id, events;
    int64_t enabled, contact;
    int found, err = 0;

    ret->count = 0;
    sl_query_bind(db, q, "t", w->org);
    while (!err && (found = sl_query_next(db, q, NULL, "ttnn", &id, &events,
                                          &enabled, &contact)) == 1)
        if (enabled && (contact != 0) == is_note &&
            sl_webhook_matches(events, w->type) &&
            ret->count < SL_WEBHOOK_ENDPOINTS)
            err = sl_database_copy(db, &db->arena, id, &ret->ids[ret->count++]);
    sl_query_reset(db, q);
    return err ? err : found;
}

/* Looks for a message with the same key. Returns 1 if there is one, with its id
 * in w->found, 0 or an error. */
static int find_key(struct sl_database *db, struct sl_job *job)
{
    struct sl_webhook_job *w = job->webhook;
    struct sl_str message, fingerprint;
    int found;

    w->found[0] = '\0';
    found = sl_query_one(db, SL_QUERY_WEBHOOK_KEY, "tt tt", w->org, w->key,
                         &message, &fingerprint);
    if (found != 1)
        return found;
    snprintf(w->found, sizeof(w->found), "%.*s", SL_STR_ARG(message));
    if (!sl_str_eq(fingerprint, w->fingerprint))
        job->result = SL_JOB_CONFLICT;
    return 1;
}

/* Claims the key. Returns 1 if an earlier message has it, 0 or an error. */
static int put_key(struct sl_database *db, struct sl_job *job)
{
    const struct sl_webhook_job *w = job->webhook;
    struct sl_str message;
    int found;

    if (w->key.len == 0)
        return 0;
    found = sl_query_one(db, SL_QUERY_PUT_WEBHOOK_KEY, "ttttn t", w->org,
                         w->key, w->id, w->fingerprint, job->now, &message);
    if (found < 0)
        return found;
    return found == 1 ? 0 : find_key(db, job);
}

static int put_delivery(struct sl_database *db, struct sl_str message,
                        struct sl_str endpoint, struct sl_str org, sl_ns due)
{
    int err = sl_query_run(db, SL_QUERY_PUT_DELIVERY, "tttn", message, endpoint,
                           org, due);

    return err ? err
               : sl_query_run(db, SL_QUERY_WAKE_ENDPOINT, "tn", endpoint, due);
}

/* A message for one endpoint belongs to its organisation. */
static int find_only(struct sl_database *db, struct sl_job *job,
                     struct targets *ret)
{
    struct sl_webhook_job *w = job->webhook;
    struct row row;
    int found = load(db, w->only, &row);

    ret->count = found == 1;
    ret->ids[0] = w->only;
    if (found != 1)
        return found;
    w->org = row.org;
    if (row.enabled)
        return 0;
    sl_diag_error(&job->diag, SLUICE_EINVAL,
                  "the endpoint is disabled (%.*s), so that nothing is sent; "
                  "enable it first",
                  SL_STR_ARG(row.reason));
    return refuse(job, SL_JOB_CONFLICT);
}

/* May a message without a target be accepted? Returns 1, 0 or an error: the
 * organisation must have endpoints, or be registered. */
static int is_known(struct sl_database *db, const struct sl_webhook_job *w)
{
    struct sl_subject_draft draft;
    int64_t count = 0;
    int found;

    if (w->only.len > 0)
        return 0;
    found = sl_query_one(db, SL_QUERY_COUNT_ENDPOINTS, "t n", w->org, &count);
    if (found < 0 || count > 0)
        return found;
    return sl_job_load(db, SL_STR("org"), w->org, &draft);
}

static int put_all(struct sl_registry *r, struct sl_job *job,
                   const struct targets *targets)
{
    struct sl_database *db = &r->db;
    const struct sl_webhook_job *w = job->webhook;
    sl_ns due = w->hold > job->now ? w->hold : job->now;
    int err = sl_query_run(db, SL_QUERY_PUT_MESSAGE, "ttttni", w->id, w->org,
                           w->type, w->payload, job->now, w->hold > 0);

    for (unsigned i = 0; i < targets->count && !err; i++)
        err = put_delivery(db, w->id, targets->ids[i], w->org, due); /* (1) */
    if (!err && targets->count > 0)
        sl_job_notify(r, "w:");
    return err;
}

static int put_message(struct sl_registry *r, struct sl_job *job)
{
    struct sl_database *db = &r->db;
    struct sl_webhook_job *w = job->webhook;
    struct targets targets;
    int err;

    w->found[0] = '\0';
    w->deliveries = 0;
    err = put_key(db, job);
    if (err) /* 1: it is there already */
        return err < 0 ? err : 0;
    err = w->only.len > 0 ? find_only(db, job, &targets)
                          : find_targets(db, w, false, &targets);
    if (!err && job->result != SL_JOB_DONE)
        return 0;
    if (!err && targets.count == 0) {
        err = is_known(db, w);
        if (err <= 0)
            return err < 0 ? err : refuse(job, SL_JOB_NOT_FOUND);
        err = 0;
    }
    w->deliveries = targets.count;
    return err ? err : put_all(r, job, &targets);
}

/* ---- notes ---- */

void sl_webhook_make_id(char ret[SL_WEBHOOK_ID], const char *prefix, sl_ns now,
                        const uint64_t random[2])
{
    snprintf(ret, SL_WEBHOOK_ID, "%s_%011" PRIx64 "%016" PRIx64 "%04" PRIx64,
             prefix, (uint64_t)(now / SL_MS), random[0], random[1] & 0xffff);
}

static void hash_words(struct sl_str a, struct sl_str b, char ret[33])
{
    static const struct sl_hash_key fixed = {UINT64_C(0x6e6f746573), 1};
    struct sl_hash_key key = {fixed.k0 ^ sl_hash64(&fixed, a), fixed.k1};
    struct sl_hash128 h = sl_hash128(&key, b);

    snprintf(ret, 33, "%016" PRIx64 "%016" PRIx64, h.hi, h.lo);
}

/* Takes one of the rate of notes. Returns 1, 0 (there are too many) or an
 * error. */
static int take_note(struct sl_database *db, const struct sl_job *job,
                     const char *written)
{
    const struct sl_webhook_job *w = job->webhook;
    struct sl_diag diag = {0};
    struct sl_rate rate;
    struct sl_limit limit;
    struct sl_take_result t;
    char cell[40] = "note:";
    int64_t w0 = 0, w1 = 0;
    int err;

    if (sl_parse_rate(sl_str_c(written), &rate, &diag) ||
        sl_limit_init(&limit, SL_BUCKET, &rate, NULL, &diag))
        return 1; /* cannot happen */
    hash_words(w->org, w->type, cell + strlen(cell));
    err = sl_query_one(db, SL_QUERY_DESTINATION, "tn nn", sl_str_c(cell),
                       job->now, &w0, &w1);
    if (err < 0)
        return err;
    t = sl_take(&limit, sl_cell_of((uint64_t)w0, (uint64_t)w1), 1, job->now);
    if (t.answer.outcome != SL_ALLOW)
        return 0;
    err = sl_query_run(db, SL_QUERY_PUT_DESTINATION, "tnn", sl_str_c(cell),
                       (int64_t)t.next.w[0], (int64_t)t.next.w[1]);
    return err ? err : 1;
}

/* Without contacts nothing is written. */
static int put_note_to(struct sl_registry *r, struct sl_job *job,
                       struct sl_str org, const char *rate)
{
    struct sl_webhook_job *w = job->webhook;
    struct targets targets;
    int err;

    w->org = org;
    err = find_targets(&r->db, w, true, &targets);
    if (err || targets.count == 0)
        return err;
    err = put_key(&r->db, job);
    if (err) { /* 1: another daemon has told it */
        job->result = SL_JOB_DONE;
        return err < 0 ? err : 0;
    }
    err = take_note(&r->db, job, rate);
    w->omitted += err == 0;
    if (err <= 0)
        return err;
    w->deliveries += targets.count;
    return put_all(r, job, &targets);
}

/* w->id is that of the first one. */
static int put_note(struct sl_registry *r, struct sl_job *job)
{
    struct sl_webhook_job *w = job->webhook;
    struct sl_str org = w->org, id = w->id, to = w->operator_org;
    char other[SL_WEBHOOK_ID];
    int err = org.len > 0 ? put_note_to(r, job, org, SL_WEBHOOK_NOTES) : 0;

    if (!err && to.len > 0 && !sl_str_eq(org, to)) {
        snprintf(other, sizeof(other), "%.*so", SL_STR_ARG(id));
        w->id = sl_str_c(other);
        err = put_note_to(r, job, to, SL_WEBHOOK_OPERATOR_NOTES);
    }
    w->org = org;
    w->id = id;
    return err;
}

/* ---- overrides that have ended ---- */

#define ENDED_MOST 64 /* in one job */

struct ended {
    struct sl_str scope, id, limit, rate;
    sl_ns until;
};

static int find_ended(struct sl_database *db, const struct sl_webhook_job *w,
                      struct ended *list, unsigned *ret_count)
{
    const enum sl_query q = SL_QUERY_OVERRIDES_ENDED;
    unsigned count = 0;
    int found;

    sl_query_bind(db, q, "nnin", w->from, w->to, ENDED_MOST, (int64_t)w->skip);
    while (
        (found = sl_query_next(db, q, &db->arena, "ttttn", &list[count].scope,
                               &list[count].id, &list[count].limit,
                               &list[count].rate, &list[count].until)) == 1 &&
        count + 1 < ENDED_MOST)
        count++;
    count += found == 1;
    sl_query_reset(db, q);
    *ret_count = count;
    return found < 0 ? found : 0;
}

/* The key keeps daemons from telling it twice. */
static int put_ended(struct sl_registry *r, struct sl_job *job,
                     const struct ended *e, struct sl_buf *text)
{
    struct sl_webhook_job *w = job->webhook;
    struct sl_writer out = {.out = text};
    bool is_org = sl_str_eq(e->scope, SL_STR("org"));
    char key[64], hash[33], id[SL_WEBHOOK_ID];
    uint64_t random[2] = {0};

    sl_buf_clear(text);
    sl_json_open(&out, '{');
    sl_json_member_text(&out, "type", "override.ended");
    sl_json_member_time(&out, "timestamp", job->now);
    sl_json_key(&out, SL_STR("data"));
    sl_json_open(&out, '{');
    if (is_org)
        sl_json_member_str(&out, "org", e->id);
    sl_json_member_str(&out, "scope", e->scope);
    sl_json_member_str(&out, "id", e->id);
    sl_json_member_str(&out, "limit", e->limit);
    sl_json_member_str(&out, "rate", e->rate);
    sl_json_member_time(&out, "until", e->until);
    sl_json_close(&out, '}');
    sl_json_close(&out, '}');
    if (out.err)
        return out.err;
    hash_words(e->id, e->limit, hash);
    snprintf(key, sizeof(key), "%c%s%" PRId64, is_org ? 'o' : 'u', hash,
             e->until / SL_MS);
    (void)!getrandom(random, sizeof(random), 0);
    sl_webhook_make_id(id, "msg", job->now, random);
    w->id = sl_str_c(id);
    w->key = sl_str_c(key);
    w->fingerprint = SL_STR("override");
    w->org = is_org ? e->id : SL_STR("");
    w->type = SL_STR("override.ended");
    w->payload = sl_buf_str(text);
    return put_note(r, job);
}

static int end_overrides(struct sl_registry *r, struct sl_job *job)
{
    struct sl_webhook_job *w = job->webhook;
    struct ended list[ENDED_MOST];
    struct sl_buf text;
    unsigned count = 0;
    int err = find_ended(&r->db, w, list, &count);
    bool cut = !err && count == ENDED_MOST;

    w->deliveries = w->omitted = 0;
    sl_buf_init(&text, (size_t)64 << 10, &sl_alloc_libc);
    for (unsigned i = 0; i < count && !err; i++)
        err = put_ended(r, job, &list[i], &text);
    sl_buf_done(&text);
    w->id = w->key = w->org = w->payload = SL_STR("");
    w->next = cut ? w->from : w->to; /* many may end at once: by number */
    w->skip = cut ? w->skip + count : 0;
    return err;
}

/* ---- the log ---- */

static const char *const results[] = {"delivered", "retry", "dead"};

/* Appends attempts of a query as items of a JSON array. */
static int write_attempts(struct sl_database *db, enum sl_query q,
                          struct sl_writer *w)
{
    struct sl_str message, endpoint, org, error, answer;
    int64_t number, tries, status, took, result;
    sl_ns at, retry_at;
    int found;

    while (
        (found = sl_query_next(db, q, NULL, "ntttnnnnttnw", &number, &message,
                               &endpoint, &org, &at, &tries, &status, &took,
                               &error, &answer, &result, &retry_at)) == 1) {
        sl_json_open(w, '{');
        sl_writer_addf(w, "\"number\":%" PRId64, number);
        sl_json_member_str(w, "message", message);
        sl_json_member_str(w, "endpoint", endpoint);
        sl_json_member_str(w, "org", org);
        sl_json_member_time(w, "at", at);
        sl_writer_addf(w, ",\"attempt\":%" PRId64, tries + 1);
        if (status > 0)
            sl_writer_addf(w, ",\"status\":%" PRId64, status);
        sl_json_member_text(w, "result", results[result < 3 ? result : 2]);
        sl_writer_addf(w, ",\"latency_ms\":%" PRId64, took / SL_MS);
        if (error.len > 0)
            sl_json_member_str(w, "error", error);
        sl_json_member_str(w, "answer", answer);
        sl_json_member_time(w, "next", retry_at);
        sl_json_close(w, '}');
    }
    sl_query_reset(db, q);
    return found < 0 ? found : w->err;
}

static int list_attempts(struct sl_database *db, struct sl_job *job)
{
    const struct sl_webhook_job *w = job->webhook;
    struct sl_writer out = {.out = &job->text};
    enum sl_query q = SL_QUERY_ATTEMPTS_ALL;
    struct sl_str first = w->message_id, second = w->endpoint_id;
    int64_t before = w->before > 0 ? (int64_t)w->before : INT64_MAX;

    if (w->org.len > 0) {
        q = SL_QUERY_ATTEMPTS_BY_ORG;
        first = w->org;
    } else if (w->endpoint_id.len > 0) {
        q = SL_QUERY_ATTEMPTS_TO;
        first = w->endpoint_id;
        second = w->message_id;
    }
    if (q == SL_QUERY_ATTEMPTS_BY_ORG)
        sl_query_bind(db, q, "ttnnniit", first, second, w->from, w->to, before,
                      w->outcome, w->most, w->message_id);
    else
        sl_query_bind(db, q, "ttnnnii", first, second, w->from, w->to, before,
                      w->outcome, w->most);
    return write_attempts(db, q, &out);
}

static const char *state_of(int64_t state, sl_ns due, sl_ns lease, bool enabled,
                            sl_ns now)
{
    if (state == 1)
        return "delivered";
    if (state == 2)
        return "dead";
    if (state != 0)
        return "dropped";
    if (lease > now)
        return "sending";
    if (!enabled)
        return "disabled";
    return due > now ? "waiting" : "queued";
}

static int write_deliveries(struct sl_database *db, struct sl_job *job,
                            struct sl_writer *w)
{
    const enum sl_query q = SL_QUERY_DELIVERIES_OF;
    struct sl_str endpoint, url;
    int64_t number, state, tries, enabled;
    sl_ns due, lease;
    int found;

    sl_query_bind(db, q, "t", job->webhook->id);
    while ((found =
                sl_query_next(db, q, NULL, "nttnnnnn", &number, &endpoint, &url,
                              &state, &tries, &due, &lease, &enabled)) == 1) {
        sl_json_open(w, '{');
        sl_json_member_str(w, "endpoint", endpoint);
        sl_json_member_str(w, "url", url);
        sl_json_member_text(w, "state",
                            state_of(state, due, lease, enabled, job->now));
        sl_writer_addf(w, ",\"attempts\":%" PRId64, tries);
        if (state == 0 && enabled)
            sl_json_member_time(w, "next", due);
        sl_json_close(w, '}');
    }
    sl_query_reset(db, q);
    return found;
}

/* Appends messages without their payloads, the newest first. */
static int list_messages(struct sl_database *db, struct sl_job *job)
{
    const struct sl_webhook_job *w = job->webhook;
    enum sl_query q =
        w->org.len > 0 ? SL_QUERY_MESSAGES_BY_ORG : SL_QUERY_MESSAGES_ALL;
    struct sl_writer out = {.out = &job->text};
    struct sl_str id, org, name, type = w->type;
    int64_t all, delivered, waiting, dead;
    bool is_prefix = type.len > 0 && type.at[type.len - 1] == '*';
    bool is_any = is_prefix && type.len == 1;
    sl_ns at;
    int found;

    type.len = is_any ? 0 : type.len - is_prefix;
    sl_query_bind(db, q, "ttnntii", w->org, w->message_id, w->from, w->to, type,
                  is_prefix ? (int)type.len : SL_WEBHOOK_TYPE + 1,
                  (int)w->most);
    while ((found = sl_query_next(db, q, NULL, "tttnnnnn", &id, &org, &name,
                                  &at, &all, &delivered, &waiting, &dead)) ==
           1) {
        sl_json_open(&out, '{');
        sl_json_member_str(&out, "id", id);
        sl_json_member_str(&out, "org", org);
        sl_json_member_str(&out, "type", name);
        sl_json_member_time(&out, "at", at);
        sl_writer_addf(&out,
                       ",\"deliveries\":%" PRId64 ",\"delivered\":%" PRId64
                       ",\"waiting\":%" PRId64 ",\"dead\":%" PRId64,
                       all, delivered, waiting, dead);
        sl_json_close(&out, '}');
    }
    sl_query_reset(db, q);
    return found < 0 ? found : out.err;
}

static int get_message(struct sl_database *db, struct sl_job *job)
{
    struct sl_writer w = {.out = &job->text};
    struct sl_str org, type, payload;
    sl_ns at;
    int err, found = sl_query_one(db, SL_QUERY_MESSAGE, "t tttn",
                                  job->webhook->id, &org, &type, &payload, &at);

    if (found <= 0)
        return found < 0 ? found : refuse(job, SL_JOB_NOT_FOUND);
    sl_json_open(&w, '{');
    sl_json_member_str(&w, "id", job->webhook->id);
    sl_json_member_str(&w, "org", org);
    sl_json_member_str(&w, "type", type);
    sl_json_member_time(&w, "at", at);
    if (!job->webhook->without_payload) {
        sl_json_key(&w, SL_STR("payload"));
        sl_json_raw(&w, payload);
    }
    sl_json_key(&w, SL_STR("deliveries"));
    sl_json_open(&w, '[');
    err = write_deliveries(db, job, &w);
    sl_json_close(&w, ']');
    sl_json_key(&w, SL_STR("attempts"));
    sl_json_open(&w, '[');
    if (!err) {
        sl_query_bind(db, SL_QUERY_ATTEMPTS_OF, "t", job->webhook->id);
        err = write_attempts(db, SL_QUERY_ATTEMPTS_OF, &w);
    }
    sl_json_close(&w, ']');
    sl_json_close(&w, '}');
    return err ? err : w.err;
}

/* ---- replay ---- */

static int replay(struct sl_registry *r, struct sl_job *job)
{
    struct sl_database *db = &r->db;
    struct sl_webhook_job *w = job->webhook;
    struct targets targets = {.count = 0};
    struct sl_str org, type, payload, id;
    sl_ns at;
    int err = 0, found = sl_query_one(db, SL_QUERY_MESSAGE, "t tttn", w->id,
                                      &org, &type, &payload, &at);

    if (found <= 0)
        return found < 0 ? found : refuse(job, SL_JOB_NOT_FOUND);
    sl_query_bind(db, SL_QUERY_REPLAY, "tn", w->id, job->now);
    while (!err &&
           (found = sl_query_next(db, SL_QUERY_REPLAY, NULL, "t", &id)) == 1)
        if (targets.count < SL_WEBHOOK_ENDPOINTS)
            err = sl_database_copy(db, &db->arena, id,
                                   &targets.ids[targets.count++]);
    sl_query_reset(db, SL_QUERY_REPLAY);
    if (!err && found < 0)
        err = found;
    for (unsigned i = 0; i < targets.count && !err; i++)
        err = sl_query_run(db, SL_QUERY_WAKE_ENDPOINT, "tn", targets.ids[i],
                           job->now);
    w->deliveries = targets.count;
    sl_job_notify(r, "w:");
    return err;
}

/* Queues a message of a range again for one endpoint, or for the first time. */
static int replay_one(struct sl_database *db, struct sl_webhook_job *w,
                      struct sl_str message, struct sl_str org, sl_ns now)
{
    int64_t number;
    int found = sl_query_one(db, SL_QUERY_REPLAY_ONE, "ttn n", message, w->id,
                             now, &number);

    if (found == 0) {
        found = sl_query_one(db, SL_QUERY_HAS_DELIVERY, "tt n", message, w->id,
                             &number);
        if (found == 1)
            return 0; /* it is in flight */
        if (found == 0)
            found = sl_query_run(db, SL_QUERY_PUT_DELIVERY, "tttn", message,
                                 w->id, org, now);
    }
    if (found >= 0)
        w->deliveries++;
    return found < 0 ? found : 0;
}

static int replay_range(struct sl_registry *r, struct sl_job *job)
{
    struct sl_database *db = &r->db;
    struct sl_webhook_job *w = job->webhook;
    struct row row;
    struct sl_str id, type;
    int err = 0, found = load(db, w->id, &row);

    w->deliveries = 0;
    if (found <= 0)
        return found < 0 ? found : refuse(job, SL_JOB_NOT_FOUND);
    sl_query_bind(db, SL_QUERY_MESSAGES_OF, "tnni", row.org, w->from, w->to,
                  SL_WEBHOOK_REPLAY_MOST);
    while (!err && (found = sl_query_next(db, SL_QUERY_MESSAGES_OF, NULL, "tt",
                                          &id, &type)) == 1)
        if (sl_webhook_matches(row.events, type) &&
            (w->type.len == 0 || matches(w->type, type)))
            err = replay_one(db, w, id, row.org, job->now);
    sl_query_reset(db, SL_QUERY_MESSAGES_OF);
    if (!err && found < 0)
        err = found;
    if (!err)
        err = sl_query_run(db, SL_QUERY_WAKE_ENDPOINT, "tn", w->id, job->now);
    sl_job_notify(r, "w:");
    return err;
}

/* ---- jobs ---- */

static int run(struct sl_registry *r, struct sl_job *job)
{
    struct sl_database *db = &r->db;
    int found;

    switch (job->webhook->op) {
    case SL_WEBHOOK_PUT_ENDPOINT:
        return put_endpoint(db, job);
    case SL_WEBHOOK_CHANGE_ENDPOINT:
        sl_job_notify(r, "w:");
        return change_endpoint(db, job);
    case SL_WEBHOOK_DROP_ENDPOINT:
        return drop_endpoint(db, job);
    case SL_WEBHOOK_LIST_ENDPOINTS:
        return list_endpoints(db, job);
    case SL_WEBHOOK_PUT_MESSAGE:
        return put_message(r, job);
    case SL_WEBHOOK_FIND_KEY:
        found = find_key(db, job);
        return found < 0 ? found : 0;
    case SL_WEBHOOK_GET_MESSAGE:
        return get_message(db, job);
    case SL_WEBHOOK_LIST_MESSAGES:
        return list_messages(db, job);
    case SL_WEBHOOK_LIST_ATTEMPTS:
        return list_attempts(db, job);
    case SL_WEBHOOK_REPLAY:
        return replay(r, job);
    case SL_WEBHOOK_REPLAY_RANGE:
        return replay_range(r, job);
    case SL_WEBHOOK_CLAIM:
        return sl_webhook_claim(db, job);
    case SL_WEBHOOK_RECORD:
        return sl_webhook_record(db, job);
    case SL_WEBHOOK_FREE:
        found = sl_query_run(db, SL_QUERY_FREE_LEASES_OF_ALL, "");
        return found ? found : sl_query_run(db, SL_QUERY_FREE_DELIVERIES, "");
    case SL_WEBHOOK_COUNT:
        return sl_webhook_count(db, &job->webhook->counts);
    case SL_WEBHOOK_PUT_NOTE:
        job->webhook->deliveries = job->webhook->omitted = 0;
        return put_note(r, job);
    case SL_WEBHOOK_END_OVERRIDES:
        return end_overrides(r, job);
    }
    return 0;
}

/* A job of a sender is never refused, and its error ends the transaction: it
 * needs no savepoint, for which SQLite copies each page that is changed. */
static bool is_of_sender(const struct sl_job *job)
{
    return job->webhook->op == SL_WEBHOOK_CLAIM ||
           job->webhook->op == SL_WEBHOOK_RECORD;
}

/* A refused job changes nothing: what it has written is rolled back. */
int sl_webhook_run(struct sl_registry *r, struct sl_job *job)
{
    int err;

    sl_arena_reset(&r->db.arena);
    if (is_of_sender(job))
        return run(r, job);
    err = sl_query_run(&r->db, SL_QUERY_MARK, "");
    if (!err)
        err = run(r, job);
    if (!err && job->result != SL_JOB_DONE)
        err = sl_query_run(&r->db, SL_QUERY_UNDO, "");
    return err ? err : sl_query_run(&r->db, SL_QUERY_KEEP, "");
}
