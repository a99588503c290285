/* throttle.c -- limits whose numbers come with the question: bounds, errors.
 * That the answers are redis-cell's is shown by test/prop/throttle.c. */
#include "engine/throttle.h"

#include "asking.h"
#include "engine/engine_int.h"

static const char policy[] = "sluice: 1\n"
                             "limits:\n"
                             "  a: { kind: token-bucket, rate: 5/min }\n"
                             "default: [a]\n";

static unsigned done_calls;

static void on_done(struct sl_throttle *t)
{
    (void)t;
    done_calls++;
}

static void check_bounds(void)
{
    static const struct {
        int64_t capacity, count, period;
        const char *why; /* NULL: taken */
    } rows[] = {
        {1,          1,          1,         NULL                            },
        {4294967295, 100,        1,         NULL                            },
        {1,          1000000000, 1,         NULL                            },
        {1,          1,          72057594,  NULL                            },
        {1,          0,          1,         "Zero rates are not supported"  },
        {1,          1,          0,         "Zero rates are not supported"  },
        {1,          -1,         1,         "at least 1, not -1 and 1"      },
        {1,          1,          -1,        "at least 1, not 1 and -1"      },
        {0,          1,          1,         "the burst is out of range"     },
        {INT64_MIN,  1,          1,         "the burst is out of range"     },
        {4294967296, 1,          1,         "the burst is out of range"     },
        {1,          1000000001, 1,         "faster than one per nanosecond"},
        {1,          1,          315619201, "longer than ten years"         },
        {1,          1,          INT64_MAX, "longer than ten years"         },
        {1,          1,          72057595,  "more than 833 days"            },
        {4294967295, 1,          60,        "more than 833 days"            },
    };

    CASE("numbers have bounds, and a sentence for each");
    for (size_t i = 0; i < SL_LEN(rows); i++) {
        struct sl_throttle t = {.capacity = 77};
        struct sl_diag diag = {.sentence = ""};
        int err = sl_throttle_set(&t, rows[i].capacity, rows[i].count,
                                  rows[i].period, &diag);

        CHECK_EQ(err, rows[i].why ? SLUICE_EINVAL : 0);
        CHECK_EQ(t.capacity, rows[i].why ? 77 : rows[i].capacity);
        if (rows[i].why && !CHECK(strstr(diag.sentence, rows[i].why)))
            printf("# %s\n", diag.sentence);
    }
}

static struct sl_throttle question(const char *key, int64_t quantity)
{
    struct sl_throttle t = {
        .key = sl_str_c(key), .quantity = quantity, .done = on_done};

    CHECK_EQ(sl_throttle_set(&t, 3, 1, 1, NULL), 0);
    return t;
}

static void check_reset(void)
{
    struct sl_throttle t = question("ann", 3), *one = &t;
    struct sl_throttles all;
    struct rig rig;

    CASE("a key is forgotten, and no other");
    rig_open(&rig, policy);
    sl_throttles_init(&all, rig.engine, NULL);
    sl_throttle_take(&all, &one, 1);
    CHECK(!t.limited && t.remaining == 0);
    t.key = SL_STR("bob");
    sl_throttle_reset(&all, &t);
    CHECK_EQ(t.err, 0);
    t = question("ann", 1);
    sl_throttle_take(&all, &one, 1);
    CHECK(t.limited);
    sl_throttle_reset(&all, &t);
    t = question("ann", 1);
    sl_throttle_take(&all, &one, 1);
    CHECK(!t.limited && t.remaining == 2);

    CASE("a limit of the policy with the same key is another");
    rig_ask(&rig, (struct sl_request){.limit = SL_STR("a"), .key = t.key});
    CHECK_EQ(rig.d.shown[0].answer.remaining, 4);
    rig_close(&rig);
}

/* A store that knows as many limits as it can. */
static void check_full(void)
{
    struct sl_throttle t = question("ann", 1), *asked[] = {&t, &t, &t};
    struct sl_throttles all;
    struct rig rig;
    struct sl_store *store;

    CASE("a store that knows too many limits refuses, and says so to all");
    rig_open(&rig, policy);
    store = rig.engine->store;
    for (unsigned i = 0; i < SL_LIMITS; i++) {
        char name[16];
        struct sl_limit_binding stored = {.name = name};

        snprintf(name, sizeof(name), "limit%u", i);
        stored.strictest = t.numbers;
        stored.strictest.kind = SL_FIXED;
        stored.strictest.count = stored.strictest.capacity = 1;
        stored.strictest.period = SL_S;
        sl_limit_derive(&stored.strictest);
        if (sl_store_bind(store, &stored, 1, NULL))
            break;
    }
    sl_throttles_init(&all, rig.engine, NULL);
    done_calls = 0;
    sl_throttle_take(&all, asked, 3);
    CHECK_EQ(t.err, SLUICE_EFULL);
    CHECK_EQ(done_calls, 3);
    sl_throttle_reset(&all, &t);
    CHECK_EQ(t.err, SLUICE_EFULL);
    rig_close(&rig);
}

/* The limits of the policy are idle: their reserves are lent. */
static void check_room(void)
{
    struct sl_throttles all;
    struct rig rig;
    struct sl_table_stats stats;
    unsigned tracked = 0;
    char key[16];

    CASE("keys may use four fifths of the table beside an idle policy");
    rig_open(&rig, policy);
    sl_throttles_init(&all, rig.engine, NULL);
    sl_table_stats(sl_memory_table(rig.engine->store), &stats);
    for (unsigned i = 0; i < stats.slots; i++) {
        struct sl_throttle t, *one = &t;

        snprintf(key, sizeof(key), "%u", i);
        t = question(key, 3);
        sl_throttle_take(&all, &one, 1);
        tracked += !t.part.untracked;
    }
    printf("# %u of %" PRIu64 "\n", tracked, stats.slots);
    CHECK(tracked >= stats.slots * 8 / 10);
    rig_close(&rig);
}

int main(void)
{
    check_bounds();
    check_room();
    check_reset();
    check_full();
    return CHECK_DONE();
}
