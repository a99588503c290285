/* webhooks.c -- the queue of webhooks: what is claimed, and what becomes of it
 * when an allocation fails. The invariants are those of webhook_db.h. With
 * SQLite each of its allocations fails in turn, too; with PostgreSQL a database
 * of an earlier version is upgraded.
 */
#include <inttypes.h>

#include "fail.h"
#include "filed.h"
#include "registry/webhook_db.h"

#define LEASE (60 * SL_S)
#define MOST  512

/* What was claimed: the numbers of deliveries, their messages and leases. */
struct claimed {
    unsigned count;
    sl_ns next;
    struct sl_webhook_claimed rows[MOST];
    char messages[MOST][SL_WEBHOOK_ID], endpoints[MOST][SL_WEBHOOK_ID];
};

static struct claimed claimed, was;
static struct sl_webhook_result results[MOST];

static int run_job(struct world *w, const struct sl_alloc *alloc,
                   struct sl_job *job, struct sl_webhook_job *webhook)
{
    sl_job_init(job, SL_JOB_WEBHOOK, alloc);
    job->webhook = webhook;
    ask(w, job);
    CHECK(job->err == 0 || job->err == SLUICE_ENOMEM ||
          job->err == SLUICE_ESTORE);
    return job->err;
}

/* ---- endpoints and messages ---- */

static int put_endpoint(struct world *w, const char *id, const char *org)
{
    struct sl_webhook_job webhook = {
        .op = SL_WEBHOOK_PUT_ENDPOINT,
        .endpoint = {.id = sl_str_c(id),
                     .org = sl_str_c(org),
                     .url = S("https://example.com/"),
                     .events = S("[\"*\"]"),
                     .metadata = S("{}"),
                     .secret = S("whsec_x")},
    };
    struct sl_job job;
    int err = run_job(w, &sl_alloc_libc, &job, &webhook);

    sl_job_clear(&job);
    return err;
}

static int put_message(struct world *w, const char *id, const char *org)
{
    struct sl_webhook_job webhook = {.op = SL_WEBHOOK_PUT_MESSAGE,
                                     .id = sl_str_c(id),
                                     .org = sl_str_c(org),
                                     .type = S("a"),
                                     .payload = S("{\"n\":1}"),
                                     .key = sl_str_c(id),
                                     .fingerprint = S("f")};
    struct sl_job job;
    int err = run_job(w, &sl_alloc_libc, &job, &webhook);

    CHECK(err != 0 || webhook.deliveries > 0);
    sl_job_clear(&job);
    return err;
}

static uint64_t waiting(struct world *w)
{
    struct sl_webhook_job webhook = {.op = SL_WEBHOOK_COUNT};
    struct sl_job job;

    CHECK_EQ(run_job(w, &sl_alloc_libc, &job, &webhook), 0);
    sl_job_clear(&job);
    return webhook.counts.waiting;
}

/* ---- claims and results ---- */

static void copy(char out[SL_WEBHOOK_ID], const char *at, uint64_t len)
{
    snprintf(out, SL_WEBHOOK_ID, "%.*s", (int)len, at);
}

static void read_claimed(struct sl_str rows)
{
    const char *at = rows.at, *end = rows.at + rows.len;

    claimed.count = 0;
    while (at < end && CHECK(claimed.count < MOST)) {
        unsigned i = claimed.count++;
        struct sl_webhook_claimed *row = &claimed.rows[i];

        memcpy(row, at, sizeof(*row));
        at += sizeof(*row);
        for (unsigned k = 0; k < SL_CLAIMED_TEXTS; k++) {
            if (k == SL_CLAIMED_MESSAGE)
                copy(claimed.messages[i], at, row->lens[k]);
            if (k == SL_CLAIMED_ENDPOINT)
                copy(claimed.endpoints[i], at, row->lens[k]);
            at += row->lens[k];
        }
    }
    CHECK(at == end);
}

/* Leaves `claimed`. */
static int claim(struct world *w, const struct sl_alloc *alloc)
{
    struct sl_webhook_job webhook = {.op = SL_WEBHOOK_CLAIM,
                                     .unlimited = true,
                                     .lease = LEASE,
                                     .endpoints = 64,
                                     .bytes = (size_t)1 << 20};
    struct sl_job job;
    int err = run_job(w, alloc, &job, &webhook);

    claimed.count = 0;
    if (!err)
        read_claimed(sl_buf_str(&job.text));
    claimed.next = webhook.next;
    CHECK(err || webhook.claimed == claimed.count);
    sl_job_clear(&job);
    return err;
}

/* Records what was claimed, as answered with `status`. */
static int record(struct world *w, const struct sl_alloc *alloc, int status)
{
    struct sl_webhook_job webhook = {.op = SL_WEBHOOK_RECORD,
                                     .unlimited = true,
                                     .results = results,
                                     .count = claimed.count};
    struct sl_job job;
    int err;

    for (unsigned i = 0; i < claimed.count; i++)
        results[i] = (struct sl_webhook_result){
            .number = claimed.rows[i].number,
            .tries = (unsigned)claimed.rows[i].tries,
            .lease = claimed.rows[i].lease,
            .updated = claimed.rows[i].updated,
            .has_next =
                i + 1 < claimed.count &&
                strcmp(claimed.endpoints[i], claimed.endpoints[i + 1]) == 0,
            .message = sl_str_c(claimed.messages[i]),
            .endpoint = sl_str_c(claimed.endpoints[i]),
            .org = S("acme"),
            .url = S("https://example.com/"),
            .attempt = {.status = status, .retry_after = SL_NS_NONE},
            .at = w->now,
            .took = SL_MS,
        };
    err = run_job(w, alloc, &job, &webhook);
    sl_job_clear(&job);
    return err;
}

static void put_messages(struct world *w, const char *org, unsigned first,
                         unsigned count)
{
    char id[SL_WEBHOOK_ID];

    for (unsigned i = first; i < first + count; i++) {
        snprintf(id, sizeof(id), "%s%04u", org, i);
        CHECK_EQ(put_message(w, id, org), 0);
    }
}

/* ---- the invariants ---- */

static void test_order(struct world *w)
{
    sl_ns begin = w->now;

    CASE("(4) at most 8 of an endpoint are leased, (3) in order");
    CHECK_EQ(put_endpoint(w, "ep1", "acme"), 0);
    put_messages(w, "acme", 0, 20);
    CHECK_EQ(claim(w, &sl_alloc_libc), 0);
    CHECK_EQ(claimed.count, SL_WEBHOOK_LEASED);
    CHECK_STR(claimed.messages[0], "acme0000");
    CHECK_STR(claimed.messages[7], "acme0007");
    CASE("(2) (3) and no more to another sender, until the lease ends");
    w->now += LEASE - 1;
    CHECK_EQ(claim(w, &sl_alloc_libc), 0);
    CHECK_EQ(claimed.count, 0);
    CHECK_EQ(claimed.next, begin + LEASE);
    w->now += 1;
    CHECK_EQ(claim(w, &sl_alloc_libc), 0);
    CHECK_EQ(claimed.count, SL_WEBHOOK_LEASED);
    CHECK_STR(claimed.messages[0], "acme0000");
    CASE("(3) a retry is leased beside them, but no other first attempt");
    claimed.count = 1;
    CHECK_EQ(record(w, &sl_alloc_libc, 500), 0);
    CHECK(results[0].known);
    was = claimed;
    w->now += 7 * SL_S;
    CHECK_EQ(claim(w, &sl_alloc_libc), 0);
    CHECK_EQ(claimed.count, 1);
    CHECK_STR(claimed.messages[0], "acme0000");
    CHECK_EQ(claimed.rows[0].tries, 1);
    CASE("(2) what was delivered is not claimed again");
    CHECK_EQ(record(w, &sl_alloc_libc, 200), 0);
    CHECK(results[0].known);
    CHECK_EQ(claim(w, &sl_alloc_libc), 0);
    CHECK_EQ(claimed.count, 0);
    claimed = was;
    claimed.count = 8;
    CHECK_EQ(record(w, &sl_alloc_libc, 200), 0);
    CHECK(!results[0].known && results[1].known);
    CHECK_EQ(waiting(w), 12);
    CHECK_EQ(claim(w, &sl_alloc_libc), 0);
    CHECK_STR(claimed.messages[0], "acme0008");
    CHECK_EQ(record(w, &sl_alloc_libc, 200), 0);
    CASE("a result that comes twice changes nothing");
    CHECK_EQ(record(w, &sl_alloc_libc, 200), 0);
    CHECK(!results[0].known);
    CHECK_EQ(waiting(w), 4);
    CHECK_EQ(claim(w, &sl_alloc_libc), 0);
    CHECK_EQ(claimed.count, 4);
    CHECK_EQ(record(w, &sl_alloc_libc, 200), 0);
    CHECK_EQ(waiting(w), 0);
}

/* What a sender has of an endpoint is old once the endpoint was changed. */
static void test_changed(struct world *w)
{
    struct sl_webhook_job change = {.op = SL_WEBHOOK_CHANGE_ENDPOINT,
                                    .id = S("ep1"),
                                    .has = SL_WEBHOOK_HAS_METADATA,
                                    .endpoint.metadata = S("{}")};
    struct sl_job job;

    CASE("a result tells whether the endpoint is as it was claimed");
    put_messages(w, "acme", 20, 4);
    CHECK_EQ(claim(w, &sl_alloc_libc), 0);
    was = claimed;
    claimed.count = 2;
    CHECK_EQ(record(w, &sl_alloc_libc, 200), 0);
    CHECK(!results[0].is_old && !results[1].is_old);
    w->now += SL_MS;
    CHECK_EQ(run_job(w, &sl_alloc_libc, &job, &change), 0);
    sl_job_clear(&job);
    CASE("also after a success, if the sender has another one of it");
    memmove(was.rows, was.rows + 2, 2 * sizeof(was.rows[0]));
    memmove(was.messages, was.messages + 2, 2 * sizeof(was.messages[0]));
    claimed = was;
    claimed.count = 2;
    CHECK_EQ(record(w, &sl_alloc_libc, 200), 0);
    CHECK(results[0].is_old && results[0].known && !results[1].is_old);
    CASE("and after a failure");
    put_messages(w, "acme", 24, 2);
    CHECK_EQ(claim(w, &sl_alloc_libc), 0);
    CHECK_EQ(claimed.count, 2);
    CHECK_EQ(record(w, &sl_alloc_libc, 500), 0);
    CHECK(!results[0].is_old);
    w->now += SL_MIN;
    CHECK_EQ(claim(w, &sl_alloc_libc), 0);
    CHECK_EQ(claimed.count, 2);
    CHECK_EQ(run_job(w, &sl_alloc_libc, &job, &change), 0);
    sl_job_clear(&job);
    CHECK_EQ(record(w, &sl_alloc_libc, 500), 0);
    CHECK(results[0].is_old && results[0].known);
    w->now += SL_HOUR;
    CHECK_EQ(claim(w, &sl_alloc_libc), 0);
    CHECK_EQ(claimed.count, 2);
    CHECK_EQ(record(w, &sl_alloc_libc, 200), 0);
    CHECK_EQ(waiting(w), 0);
}

static void test_org(struct world *w)
{
    char id[SL_WEBHOOK_ID];
    unsigned all = 0;

    CASE("(4) at most 64 of an organisation are leased");
    for (unsigned i = 2; i <= 10; i++) {
        snprintf(id, sizeof(id), "ep%u", i);
        CHECK_EQ(put_endpoint(w, id, "acme"), 0);
    }
    put_messages(w, "acme", 100, 7); /* 70 deliveries */
    CHECK_EQ(claim(w, &sl_alloc_libc), 0);
    CHECK_EQ(claimed.count, SL_WEBHOOK_LEASED_ORG);
    CASE("another one is not kept waiting by it");
    CHECK_EQ(put_endpoint(w, "other", "beta"), 0);
    put_messages(w, "beta", 0, 3);
    was = claimed;
    CHECK_EQ(claim(w, &sl_alloc_libc), 0);
    CHECK_EQ(claimed.count, 3);
    CHECK_EQ(record(w, &sl_alloc_libc, 200), 0);
    CASE("the others are claimed when there is room");
    claimed = was;
    for (unsigned i = 0; i < 10 && claimed.count > 0; i++) {
        all += claimed.count;
        CHECK_EQ(record(w, &sl_alloc_libc, 200), 0);
        w->now += SL_S;
        CHECK_EQ(claim(w, &sl_alloc_libc), 0);
    }
    CHECK_EQ(all, 70);
    CHECK_EQ(waiting(w), 0);
}

#ifdef ON_POSTGRES
#define DELIVERIES "sluice.webhook_deliveries"
#else
#define DELIVERIES "webhook_deliveries"
#endif

static unsigned replay(struct world *w, const char *id)
{
    struct sl_webhook_job webhook = {.op = SL_WEBHOOK_REPLAY,
                                     .id = sl_str_c(id)};
    struct sl_job job;

    CHECK_EQ(run_job(w, &sl_alloc_libc, &job, &webhook), 0);
    sl_job_clear(&job);
    return webhook.deliveries;
}

/* Deletes old rows; returns how many. */
static uint64_t retain(struct world *w)
{
    struct sl_job job;

    sl_job_init(&job, SL_JOB_RETAIN, &sl_alloc_libc);
    ask(w, &job);
    CHECK_EQ(job.err, 0);
    sl_job_clear(&job);
    return job.units;
}

/* What waited for a deleted endpoint would wait forever. */
static void test_gone(struct world *w)
{
    struct sl_webhook_job drop = {.op = SL_WEBHOOK_DROP_ENDPOINT,
                                  .id = S("gone")};
    struct sl_job job;

    CASE("a message is sent again to the endpoints that are left");
    CHECK_EQ(put_endpoint(w, "gone", "gamma"), 0);
    CHECK_EQ(put_endpoint(w, "left", "gamma"), 0);
    put_messages(w, "gamma", 0, 2);
    CHECK_EQ(claim(w, &sl_alloc_libc), 0);
    CHECK_EQ(claimed.count, 4);
    CHECK_EQ(record(w, &sl_alloc_libc, 200), 0);
    CHECK_EQ(replay(w, "gamma0000"), 2);
    CHECK_EQ(waiting(w), 2);
    CHECK_EQ(run_job(w, &sl_alloc_libc, &job, &drop), 0);
    sl_job_clear(&job);
    CHECK_EQ(waiting(w), 1);
    CHECK_EQ(replay(w, "gamma0000"), 1);
    CHECK_EQ(replay(w, "gamma0001"), 1);
    CHECK_EQ(waiting(w), 2);
    CHECK_EQ(claim(w, &sl_alloc_libc), 0);
    CHECK_EQ(claimed.count, 2);
    CHECK_EQ(record(w, &sl_alloc_libc, 200), 0);
    CASE("what was queued for one just when it was deleted expires");
    world_stop(w);
    CHECK(backed_fill(w->path, "UPDATE " DELIVERIES
                               " SET state = 0 WHERE message = 'gamma0001' AND"
                               " endpoint = 'gone'"));
    CHECK_EQ(world_start(w, &(struct sl_diag){0}), 0);
    CHECK_EQ(waiting(w), 1);
    w->now += 31 * SL_DAY;
    CHECK(retain(w) > 0);
    CHECK_EQ(waiting(w), 0);
}

/* ---- the nth allocation ---- */

/* Claims and records with memory that fails, ours and that of the job, and then
 * without: nothing is lost, and what failed was not half done. */
static bool fail_at(struct world *w, struct fail *f,
                    const struct sl_alloc *alloc, unsigned nth)
{
    bool failed;
    int err;

    f->calls = 0;
    f->nth = nth;
    err = claim(w, alloc);
    failed = err != 0;
    if (err)
        CHECK_EQ(claim(w, &sl_alloc_libc), 0);
    CHECK_EQ(claimed.count, 5); /* a claim that failed has leased nothing */
    err = record(w, alloc, 200);
    failed |= err != 0;
    if (err)
        CHECK_EQ(record(w, &sl_alloc_libc, 200), 0);
    for (unsigned i = 0; i < claimed.count; i++)
        CHECK(results[i].known);
    f->nth = 0;
    CHECK_EQ(waiting(w), 0);
    return failed;
}

static void test_memory(struct world *w)
{
    struct fail f = {.nth = 0};
    struct sl_alloc alloc = fail_alloc(&f);
    struct sl_registry_options options = {
        .driver = BACKED_BY, .path = w->path, .alloc = &alloc};
    unsigned nth = 0, failures = 0;
    struct sl_diag diag;

    CASE("our nth allocation fails: nothing is leased or lost");
    world_stop(w);
    CHECK_EQ(sl_registry_open(&options, &w->registry, &diag), 0);
    do {
        nth++;
        put_messages(w, "beta", 1000 + 10 * nth, 5);
        failures += fail_at(w, &f, &alloc, nth);
        w->now += SL_S;
    } while (f.calls >= nth && nth < 500);
    printf("# %u allocations, %u failures\n", nth - 1, failures);
    CHECK(failures > 0 && nth < 500);
    world_stop(w);
    fail_check(&f);
    CHECK_EQ(world_start(w, &diag), 0);
}

#ifdef ON_POSTGRES
/* ---- the upgrade ---- */

static int64_t ask_number(const char *sql)
{
    PGconn *conn = PQconnectdb(backed_url());
    PGresult *found;
    int64_t number = -1;

    PQclear(PQexec(conn, "SET search_path TO sluice"));
    found = PQexec(conn, sql);
    if (CHECK(PQresultStatus(found) == PGRES_TUPLES_OK &&
              PQntuples(found) == 1))
        number = strtoll(PQgetvalue(found, 0, 0), NULL, 10);
    PQclear(found);
    PQfinish(conn);
    return number;
}

/* The tables before INDEXES_OF_WAITING, with rows as in file.c, which has this
 * test for SQLite. */
static const char before_waiting[] =
    "SET search_path TO sluice;"
    "DROP INDEX webhook_deliveries_firsts;"
    "DROP INDEX webhook_deliveries_retries;"
    "DROP INDEX webhook_deliveries_state;"
    "CREATE INDEX webhook_deliveries_due ON webhook_deliveries(endpoint, state,"
    " due, number);"
    "CREATE INDEX webhook_deliveries_state ON webhook_deliveries(state,"
    " number);"
    "CREATE INDEX webhook_deliveries_retries ON webhook_deliveries(endpoint,"
    " due, number) WHERE state = 0 AND tries > 0;"
    "CREATE INDEX webhook_attempts_at ON webhook_attempts(at);"
    "DELETE FROM webhook_deliveries; DELETE FROM webhook_messages;"
    "DELETE FROM webhook_attempts; DELETE FROM webhook_keys;"
    "INSERT INTO webhook_messages(id, org, type, payload, at, held)"
    " VALUES('m', 'beta', 'a', '1', 1, 0);"
    "INSERT INTO webhook_deliveries(message, endpoint, org, state, tries, due,"
    " lease) VALUES('m', 'other', 'beta', 0, 0, 1, 0), ('m', 'other', 'beta',"
    " 0, 2, 1, 0), ('m', 'other', 'beta', 2, 6, 1, 0), ('m', 'other', 'beta',"
    " 1, 1, 1, 0);"
    "INSERT INTO webhook_attempts(message, endpoint, org, at, tries, status,"
    " took, error, answer, result) VALUES('m', 'other', 'beta', 1, 0, 500, 1,"
    " '', '', 1), ('gone', 'other', 'beta', 1, 0, 500, 1, '', '', 1);"
    "UPDATE webhook_endpoints SET next = 1 WHERE id = 'other';"
    "DROP TABLE usage_erased;"
    "DELETE FROM tables_version WHERE number >= (SELECT max(number) - 1 FROM"
    " tables_version);";

static void test_upgrade(struct world *w)
{
    struct sl_diag diag = {0};
    int64_t version = ask_number("SELECT max(number) FROM tables_version");

    CASE("webhooks of an earlier version: all that wait are still there");
    world_stop(w);
    backed_run(before_waiting);
    CHECK_EQ(world_start(w, &diag), 0);
    CHECK_EQ(ask_number("SELECT max(number) FROM tables_version"), version);
    CHECK_EQ(ask_number("SELECT count(*) FROM webhook_deliveries"), 4);
    CHECK_EQ(ask_number("SELECT count(*) FROM webhook_attempts"), 1);
    CHECK_EQ(ask_number("SELECT count(*) FROM pg_indexes WHERE schemaname ="
                        " 'sluice' AND indexname IN"
                        " ('webhook_deliveries_firsts',"
                        " 'webhook_deliveries_retries')"),
             2);
    CHECK_EQ(ask_number("SELECT count(*) FROM pg_indexes WHERE schemaname ="
                        " 'sluice' AND indexname IN ('webhook_deliveries_due',"
                        " 'webhook_attempts_at')"),
             0);
    CHECK_EQ(waiting(w), 2);
    CASE("and are sent");
    CHECK_EQ(claim(w, &sl_alloc_libc), 0);
    CHECK_EQ(claimed.count, 2);
    CHECK_EQ(record(w, &sl_alloc_libc, 200), 0);
    CHECK_EQ(waiting(w), 0);
    CHECK_EQ(ask_number("SELECT count(*) FROM webhook_attempts"), 3);
}
#else
/* ---- SQLite's nth allocation ---- */

#include "sqlite_fail.h"

/* Opens, queues two messages, claims, records and closes, with whatever fails
 * on the way. Returns how many messages were acknowledged; *ret_done: what was
 * claimed was recorded. */
static unsigned live(struct world *w, unsigned n, bool *ret_done)
{
    char id[SL_WEBHOOK_ID];
    unsigned good = 0;

    *ret_done = false;
    if (world_start(w, &(struct sl_diag){0}))
        return 0;
    for (unsigned i = 0; i < 2; i++) {
        snprintf(id, sizeof(id), "live%u-%u", n, i);
        good += put_message(w, id, "beta") == 0;
    }
    if (claim(w, &sl_alloc_libc)) { /* it has leased nothing */
        atomic_store(&sqlite_nth, 0);
        CHECK_EQ(claim(w, &sl_alloc_libc), 0);
        CHECK_EQ(claimed.count, waiting(w));
    }
    if (claimed.count > 0)
        *ret_done = record(w, &sl_alloc_libc, n % 2 ? 200 : 500) == 0;
    world_stop(w);
    return good;
}

/* Sends what is left, when the leases have ended. Each message is claimed:
 * those of `n` that were acknowledged, unless they were delivered. */
static void check_after(struct world *w, unsigned n, unsigned good, bool done)
{
    unsigned sent = done ? claimed.count : 0, found = 0;
    char own[24];

    CHECK_EQ(world_start(w, NULL), 0);
    w->now += LEASE + SL_MIN;
    snprintf(own, sizeof(own), "live%u-", n);
    while (!claim(w, &sl_alloc_libc) && claimed.count > 0) {
        for (unsigned i = 0; i < claimed.count; i++)
            found += strncmp(claimed.messages[i], own, strlen(own)) == 0;
        CHECK_EQ(record(w, &sl_alloc_libc, 200), 0);
        for (unsigned i = 0; i < claimed.count; i++)
            CHECK(results[i].known); /* (2): none is there twice */
    }
    if (done && n % 2) /* delivered: not again */
        CHECK_EQ(found, good > sent ? good - sent : 0);
    else
        CHECK(found >= good && found <= 2);
    CHECK_EQ(waiting(w), 0);
    world_stop(w);
}

static void test_sqlite_memory(struct world *w)
{
    unsigned n, failures = 0;

    CASE("SQLite's nth allocation fails: nothing is lost, or half done");
    world_stop(w);
    for (n = 1; n < 30000; n += 1 + n / 40) {
        bool done;
        unsigned good, calls;

        atomic_store(&sqlite_calls, 0);
        atomic_store(&sqlite_nth, n);
        good = live(w, n, &done);
        calls = atomic_load(&sqlite_calls);
        atomic_store(&sqlite_nth, 0);
        failures += good < 2 || !done;
        check_after(w, n, good, done);
        if (calls < n)
            break;
    }
    printf("# up to %u allocations, %u failures\n", n, failures);
    CHECK(failures > 20 && n < 30000);
    CHECK_EQ(world_start(w, NULL), 0);
}
#endif

int main(void)
{
    struct world w;

#ifndef ON_POSTGRES
    take_over();
#endif
    world_open(&w);
    test_order(&w);
    test_changed(&w);
    test_org(&w);
    test_gone(&w);
    test_memory(&w);
#ifdef ON_POSTGRES
    test_upgrade(&w);
#else
    test_sqlite_memory(&w);
#endif
    world_close(&w);
    return CHECK_DONE();
}
