/* sharing.c -- locks, lost commits and notifications of daemons that share a
 * database, with a driver that the test plays. */
#include <string.h>

#include "check.h"
#include "registry/registry_int.h"

#define S(text) ((struct sl_str){(text), sizeof(text) - 1})
#define WORDS   (SL_SHARE_SLOTS / 64)

/* ---- the driver ---- */

static uint64_t locked[WORDS], busy[WORDS]; /* busy: of other sessions */
static unsigned waited_ms, status_calls;
static int commit_result, status_result;
static sl_notified_f *heard;
static void *heard_ctx;

static uint64_t lost_commit; /* 0: none */

static int fake_run(struct sl_database *db, enum sl_query query)
{
    if (query == SL_QUERY_COMMIT && lost_commit)
        db->uncertain_txn = lost_commit;
    return query == SL_QUERY_COMMIT ? commit_result : 0;
}

static void fake_bind(struct sl_database *db, enum sl_query query, int at,
                      const struct sl_str *text, int64_t number)
{
    (void)db;
    (void)query;
    (void)at;
    (void)text;
    (void)number;
}

static int fake_step(struct sl_database *db, enum sl_query query)
{
    (void)db;
    (void)query;
    return 0;
}

static void fake_rollback(struct sl_database *db)
{
    (void)db;
}

static void fake_reset(struct sl_database *db, enum sl_query query)
{
    (void)db;
    (void)query;
}

static int fake_lock(struct sl_database *db, const uint64_t *slots)
{
    (void)db;
    memcpy(locked, slots, sizeof(locked));
    return 0;
}

static int fake_try_lock(struct sl_database *db, const uint64_t *slots,
                         uint64_t *ret)
{
    (void)db;
    for (unsigned i = 0; i < WORDS; i++)
        locked[i] = ret[i] = slots[i] & ~busy[i];
    return 0;
}

static int fake_patience(struct sl_database *db, unsigned ms)
{
    (void)db;
    waited_ms = ms;
    return 0;
}

static int fake_status(struct sl_database *db, uint64_t txn)
{
    (void)db;
    CHECK(txn > 0);
    status_calls++;
    return status_result;
}

static int fake_listen(struct sl_database *db, sl_notified_f *f, void *ctx,
                       struct sl_diag *diag)
{
    (void)db;
    (void)diag;
    heard = f;
    heard_ctx = ctx;
    return 0;
}

static const struct sl_driver fake = {
    .run = fake_run,
    .bind = fake_bind,
    .step = fake_step,
    .reset = fake_reset,
    .rollback = fake_rollback,
    .lock = fake_lock,
    .try_lock = fake_try_lock,
    .patience = fake_patience,
    .commit_status = fake_status,
    .listen = fake_listen,
};

static struct sl_registry registry = {.db.driver = &fake};

/* ---- locks ---- */

static unsigned count_bits(const uint64_t *slots)
{
    unsigned count = 0;

    for (unsigned i = 0; i < WORDS; i++)
        count += (unsigned)__builtin_popcountll(slots[i]);
    return count;
}

static bool has_all(const uint64_t *slots, const uint64_t *of)
{
    for (unsigned i = 0; i < WORDS; i++)
        if (of[i] & ~slots[i])
            return false;
    return true;
}

static struct sl_job usage_job(struct sl_usage_entry *usage, unsigned count)
{
    return (struct sl_job){
        .kind = SL_JOB_USAGE, .usage = usage, .change_count = count};
}

static void test_slots(void)
{
    uint64_t acme[WORDS] = {0}, other[WORDS] = {0}, own[WORDS] = {0};
    struct sl_usage_entry usage[2] = {
        {.scope = S("org"), .id = S("acme") },
        {.scope = S("org"), .id = S("other")},
    };
    struct sl_job both = usage_job(usage, 2), second = usage_job(usage + 1, 1);
    struct sl_job subject = {.kind = SL_JOB_WRITE};
    struct sl_job erase = {.kind = SL_JOB_ERASE};
    bool again;

    CASE("a subject has one slot, which is not that of subjects and switches");
    sl_slot_take(acme, S("org"), S("acme"));
    sl_slot_take(other, S("org"), S("other"));
    CHECK_EQ(count_bits(acme), 1);
    CHECK_EQ(count_bits(other), 1);
    CHECK(memcmp(acme, other, sizeof(acme)) != 0);
    CHECK(!(acme[0] & 1) && !(other[0] & 1));
    CHECK(sl_job_slot(&subject, own) && own[0] == 1);
    CASE("a transaction locks the slots of all its subjects");
    CHECK_EQ(sl_sharing_lock(&registry, &both, false, &again), 0);
    CHECK(has_all(locked, acme) && has_all(locked, other) && !again);
    CHECK_EQ(count_bits(locked), 2);
    CHECK_EQ(sl_sharing_lock(&registry, &erase, false, &again), 0);
    CHECK_EQ(count_bits(locked), SL_SHARE_SLOTS);
    CASE("with little patience, a job is blocked whose slots are not free");
    memcpy(busy, acme, sizeof(busy));
    both.next = &second;
    CHECK_EQ(sl_sharing_lock(&registry, &both, true, &again), 0);
    CHECK(both.is_blocked && !second.is_blocked);
    CHECK_EQ(waited_ms, 2);
    CHECK(!has_all(locked, acme) && has_all(locked, other));
    memset(busy, 0, sizeof(busy));
}

/* ---- commits ---- */

static void test_commits(void)
{
    struct sl_job first = {.uncertain_txn = 7}, second = {0};

    CASE("a commit without an answer is looked up");
    commit_result = SLUICE_ESTORE;
    registry.db.uncertain_txn = 7;
    status_result = 1;
    CHECK_EQ(sl_sharing_commit(&registry), 0);
    CHECK(registry.db.uncertain_txn == 0 && status_calls == 1);
    registry.db.uncertain_txn = 7;
    status_result = 0;
    CHECK_EQ(sl_sharing_commit(&registry), SLUICE_ESTORE);
    CHECK(registry.db.uncertain_txn == 0);
    CASE("as long as it is unknown, its number is kept");
    registry.db.uncertain_txn = 7;
    status_result = SLUICE_ESTORE;
    CHECK_EQ(sl_sharing_commit(&registry), SLUICE_ESTORE);
    CHECK(registry.db.uncertain_txn == 7);
    CASE("a failure that is certain is not looked up");
    registry.db.uncertain_txn = 0;
    status_calls = 0;
    CHECK_EQ(sl_sharing_commit(&registry), SLUICE_ESTORE);
    CHECK_EQ(status_calls, 0);

    CASE("a job that was committed is not run again");
    first.next = &second;
    CHECK_EQ(sl_sharing_check_commit(&registry, &first), SLUICE_ESTORE);
    CHECK(!first.already_done && first.uncertain_txn == 7);
    status_result = 1;
    CHECK_EQ(sl_sharing_check_commit(&registry, &first), 0);
    CHECK(first.already_done && first.uncertain_txn == 0);
    CHECK(!second.already_done);
    CASE("one that was not committed is");
    first.uncertain_txn = 8;
    status_result = 0;
    CHECK_EQ(sl_sharing_check_commit(&registry, &first), 0);
    CHECK(!first.already_done && first.uncertain_txn == 0);
}

static void test_left_out(void)
{
    struct sl_usage_entry usage = {.scope = S("org"), .id = S("acme")};
    struct sl_job locked_out = usage_job(&usage, 1);
    struct sl_usage_entry free_usage = {.scope = S("org"), .id = S("other")};
    struct sl_job segment = usage_job(&free_usage, 1);
    struct sl_job other = {.kind = SL_JOB_WRITE};

    segment.journal = S("0123456789abcdef");
    segment.sequence = 2;
    segment.after = 1;
    CASE("a job that was left out is not in the transaction that was lost");
    sl_slot_take(busy, S("org"), S("acme"));
    locked_out.next = &other;
    commit_result = status_result = SLUICE_ESTORE;
    lost_commit = 9;
    sl_job_run_writes(&registry, &locked_out, true);
    CHECK_EQ(other.uncertain_txn, 9);
    CHECK_EQ(locked_out.uncertain_txn, 0);
    CHECK(locked_out.err && other.err);

    CASE("nor is a segment whose predecessor was left out");
    other.uncertain_txn = 0;
    segment.next = &other;
    sl_job_run_writes(&registry, &segment, true);
    CHECK_EQ(other.uncertain_txn, 9);
    CHECK_EQ(segment.uncertain_txn, 0);
    CHECK(segment.err && other.err);
    memset(busy, 0, sizeof(busy));
    lost_commit = 0;
    registry.db.uncertain_txn = 0;
}

/* ---- notifications ---- */

static char switched[16];
static int switched_to;
static unsigned webhooks;

static void on_switch(void *ctx, struct sl_str name, int on)
{
    (void)ctx;
    snprintf(switched, sizeof(switched), "%.*s", SL_STR_ARG(name));
    switched_to = on;
}

static void on_webhook(void *ctx)
{
    (void)ctx;
    webhooks++;
}

static uint64_t sum_versions(void)
{
    uint64_t sum = 0;

    for (unsigned i = 0; i < SL_REGISTRY_VERSIONS; i++)
        sum += atomic_load(&registry.versions[i]);
    return sum;
}

static void test_notifications(void)
{
    static const struct {
        struct sl_str message;
        int on;
    } rows[] = {
        {S("f:1:exports"), 1 },
        {S("f:0:exports"), 0 },
        {S("f:-:exports"), -1},
    };
    const _Atomic uint64_t *version =
        sl_registry_version(&registry, S("org"), S("a:b"));

    registry.on_switch = on_switch;
    registry.on_webhook = on_webhook;
    CHECK_EQ(sl_sharing_listen(&registry, NULL), 0);
    CASE("a switch");
    for (unsigned i = 0; i < SL_LEN(rows); i++) {
        heard(heard_ctx, rows[i].message);
        CHECK_STR(switched, "exports");
        CHECK_EQ(switched_to, rows[i].on);
    }
    CASE("a webhook");
    heard(heard_ctx, S("w::"));
    CHECK_EQ(webhooks, 1);
    CHECK_EQ(sum_versions(), 0);
    CASE("a subject, whose id may have a colon, has a new version");
    heard(heard_ctx, S("s:org:a:b"));
    CHECK_EQ(atomic_load(version), 1);
    CHECK_EQ(sum_versions(), 1);
    CHECK(!sl_registry_is_empty(&registry));
    CASE("all subjects have one, if notifications were lost");
    heard(heard_ctx, S("*"));
    CHECK_EQ(atomic_load(version), 2);
    CHECK_EQ(sum_versions(), 1 + SL_REGISTRY_VERSIONS);
}

int main(void)
{
    test_slots();
    test_commits();
    test_left_out();
    test_notifications();
    return CHECK_DONE();
}
