/* spread.c -- keys that were chosen to meet do not.
 *
 * Against a hash without a secret an attacker finds keys that all fall into
 * one bucket. These collide in FNV-1a (as many tables use it) and in a
 * multiplicative hash; in this table they lie as random ones do.
 */
#include "rig.h"

#define KEYS 6000

static struct sl_table table;
static struct sl_limit_binding limit;

struct spread {
    uint64_t full;  /* buckets with no slot left */
    uint64_t empty; /* buckets with nothing in them */
    uint64_t went;  /* buckets whose keys had to go elsewhere */
};

static uint32_t fnv1a(const char *text)
{
    uint32_t hash = 2166136261U;

    for (; *text; text++)
        hash = (hash ^ (unsigned char)*text) * 16777619U;
    return hash;
}

/* The next number whose key falls into bucket 0 of a weak table. */
static unsigned next_fnv(unsigned from)
{
    char key[32];

    do
        snprintf(key, sizeof(key), "user-%u", ++from);
    while (fnv1a(key) & 0xff);
    return from;
}

static unsigned next_number(unsigned from)
{
    return from + 1;
}

/* hash = number * 2654435761 mod 2^32 has the same low bits for these. */
static unsigned next_shifted(unsigned from)
{
    return from + (1U << 19);
}

static struct spread fill(unsigned (*next)(unsigned from), uint64_t version)
{
    struct spread s = {0, 0, 0};
    const struct sl_region_head *head;
    unsigned number = 0;
    char key[32];

    open_heap(&table, MIB, SL_FULL_ALLOW);
    set_version(&table.region, version);
    add_limit(&table, &limit, "some", SL_BUCKET, "1/day", 900);
    for (unsigned i = 0; i < KEYS; i++) {
        number = next(number);
        snprintf(key, sizeof(key), "user-%u", number);
        CHECK_EQ(take(&table, &limit, key, 1), SL_SET_ALLOW);
    }
    CHECK_EQ(counted(&table, SL_STAT_FULL), 0);
    CHECK_EQ(slots_taken(&table.region), KEYS);
    head = sl_region_head(&table.region);
    for (uint64_t b = 0; b < head->buckets; b++) {
        unsigned taken = 0;

        for (unsigned i = 0; i < SL_SLOTS; i++)
            taken +=
                sl_load(&table.region,
                        sl_tag_at(&table.region, (struct sl_slot){b, i})) != 0;
        s.full += taken == SL_SLOTS;
        s.empty += taken == 0;
        s.went += (sl_load(&table.region, sl_slot_head_at(&table.region, b)) &
                   (SL_HEADERS_ONE - 1)) != 0;
    }
    printf("# full %" PRIu64 ", empty %" PRIu64 ", went on %" PRIu64
           " of %" PRIu64 "\n",
           s.full, s.empty, s.went, head->buckets);
    sl_table_done(&table);
    return s;
}

static void check_alike(struct spread a, struct spread b)
{
    CHECK(a.full < b.full * 3 / 2 + 20);
    CHECK(a.empty < b.empty * 3 / 2 + 20);
    CHECK(a.went < b.went * 3 / 2 + 20);
}

int main(void)
{
    static const uint64_t versions[] = {SL_REGION_SIPHASH, SL_REGION_AES};
    struct spread plain;

    for (unsigned i = 0; i < SL_LEN(versions); i++) {
        uint64_t version = versions[i];

        printf("# version %" PRIu64 "\n", version);
        CASE("numbered keys");
        plain = fill(next_number, version);
        CHECK(plain.full < 100);
        CASE("keys that collide in FNV-1a lie like any others");
        check_alike(fill(next_fnv, version), plain);
        CASE("keys that collide in a multiplicative hash lie like any others");
        check_alike(fill(next_shifted, version), plain);
    }
    return CHECK_DONE();
}
