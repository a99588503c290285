/* fuzz_region.c -- files that hold a state.
 *
 * A good state is made once: limits of every kind, buckets so full that keys
 * live in their second and third, holds that are held and that have ended, and
 * changes that were left half done at each step by a process that was killed.
 * The input is a list of patches to it and then a list of things to do:
 *
 *   byte         patches (low 4 bits), every other limit is forgotten (bit 5),
 *                look at all of it afterwards (bit 6), truncated (bit 7)
 *   patches      13 bytes each: where and what, a number, a value
 *   deeds        4 bytes each: what, whose, which key
 *
 *   (1) The state is admitted, or refused with a sentence.
 *   (2) What was admitted can be used: everything ends, inside its bounds.
 *   (3) The statistics count what is there.
 *   (4) What was used can be admitted again.
 */
#include "fuzz.h"

#include <setjmp.h>
#include <sys/random.h>

#include "core/algorithm.h"
#include "table/hold.h"
#include "table/region.h"
#include "table/slot.h"

#define SIZE   SL_REGION_MIN
#define NOW    (INT64_C(1800000000) * SL_S)
#define LIMITS SL_LEN(rates)
#define MANY   9000 /* keys of the last limit */

int LLVMFuzzerInitialize(int *argc, char ***argv);

static const struct {
    const char *rate;
    enum sl_kind kind;
} rates[] = {
    {"5/min burst 8",    SL_BUCKET  },
    {"5/min",            SL_INTERVAL},
    {"5/10s queue 5",    SL_LEAKY   },
    {"100/hour",         SL_FIXED   },
    {"10/10s",           SL_SLIDING },
    {"120/month",        SL_QUOTA   },
    {"100000000/12h",    SL_QUOTA   },
    {"2",                SL_PERMITS },
    {"9007199254740992", SL_LEVEL   },
};

static struct sl_limit_binding limits[LIMITS];
static char *good, *bytes; /* as it was made; as it is tried */

/* The same secret in every run, or else no finding could be repeated. */
ssize_t getrandom(void *buf, size_t len, unsigned flags)
{
    (void)flags;
    memset(buf, 0x5a, len);
    return (ssize_t)len;
}

/* ---- the good state ---- */

static jmp_buf killed;
static enum sl_step deadly;

static void on_step(enum sl_step step)
{
    if (step == deadly)
        longjmp(killed, 1);
}

static struct sl_part part_of(unsigned limit, unsigned key, char text[16])
{
    int len = snprintf(text, 16, "%u", key);

    return (struct sl_part){
        .binding = &limits[limit],
        .limit = &limits[limit].strictest,
        .key = {text, (size_t)len},
        .cost = 1,
        .taken_at = NOW
    };
}

/* Every limit is known, or every other: then the rest belongs to an earlier
 * policy, and its cells are judged by what the state says of them. */
static void know_limits(struct sl_table *table, unsigned step)
{
    for (size_t i = 0; i < LIMITS; i += step)
        MUST(sl_table_add_limit(table, &limits[i]) == 0);
}

static void read_limits(void)
{
    static char names[LIMITS][8];

    for (size_t i = 0; i < LIMITS; i++) {
        struct sl_rate rate;

        snprintf(names[i], sizeof(names[i]), "%zu", i);
        limits[i].name = names[i];
        limits[i].equal_parts = LIMITS;
        MUST(sl_parse_rate(sl_str_c(rates[i].rate), &rate, NULL) == 0);
        MUST(sl_limit_init(&limits[i].strictest, rates[i].kind, &rate, NULL,
                           NULL) == 0);
    }
}

/* Leave one record free, so that every run has the same. */
static void sit_on(struct sl_table *table, uint64_t index)
{
    for (uint64_t i = 0; i < SL_ACTORS; i++)
        atomic_store(&sl_region_actor(&table->region, i)->owner,
                     i == index ? 0 : table->actors.self);
}

/* Be killed at `step` of a set with two keys that are there and two that are
 * new. */
static void die_at(struct sl_table *table, enum sl_step step)
{
    struct sl_part parts[4];
    char texts[4][16];

    for (unsigned i = 0; i < 4; i++)
        parts[i] = part_of(i, (i < 2 ? 0 : 500) + (unsigned)step, texts[i]);
    sit_on(table, (uint64_t)step);
    deadly = step;
    sl_step_hook = on_step;
    if (setjmp(killed) == 0)
        (void)!sl_table_decide(table, parts, 4, NOW, true);
    sl_step_hook = NULL;
}

/* ---- holds ---- */

#define HOLDS 60

static struct sl_hold_id id_of(unsigned number)
{
    return (struct sl_hold_id){
        {(number + 1) * UINT64_C(0x9e3779b97f4a7c15),
         (number + 1) * UINT64_C(0xbf58476d1ce4e5b9)}
    };
}

/* Of one to eight limits. */
static enum sl_set_result hold(struct sl_table *table, unsigned number,
                               unsigned key, unsigned step, sl_ns now)
{
    struct sl_part parts[8];
    char texts[8][16];
    unsigned count = 1 + number % 8;

    for (unsigned i = 0; i < count; i++) {
        unsigned l = (number + i) % LIMITS;

        parts[i] = part_of(l - l % step, key, texts[i]);
        parts[i].cost = number % 3;
    }
    return sl_table_hold(table, parts, count, id_of(number),
                         SL_S * (1 + number % 50), now, true);
}

static const struct sl_limit *numbers(void *ctx, uint32_t id, uint64_t held,
                                      uint64_t *cost)
{
    unsigned step = *(unsigned *)ctx;

    *cost = id % 3 ? held / 2 : held + id;
    for (size_t i = 0; i < LIMITS; i += step)
        if (limits[i].id == id)
            return &limits[i].strictest;
    return NULL;
}

static void end_hold(struct sl_table *table, unsigned number, unsigned how,
                     unsigned step, sl_ns now)
{
    struct sl_hold_result deed = {.op = (enum sl_hold_action)(how % 3),
                                  .id = id_of(number),
                                  .release = how & 4,
                                  .life = SL_S * (1 + number),
                                  .numbers = numbers,
                                  .ctx = &step};

    MUST(sl_table_end(table, &deed, now, true) == SL_SET_ALLOW);
    for (unsigned i = 0; i < deed.count; i++)
        MUST(!deed.parts[i].known ||
             deed.parts[i].answer.remaining <= deed.parts[i].answer.capacity);
}

/* Be killed at `step` of a hold, and at `step` of its end. */
static void die_holding(struct sl_table *table, enum sl_step step)
{
    unsigned number = HOLDS + 2 * (unsigned)step;

    sit_on(table, SL_JOURNAL + 1 + (uint64_t)step);
    (void)!hold(table, number + 1, number, 1, NOW);
    deadly = step;
    sl_step_hook = on_step;
    if (setjmp(killed) == 0)
        (void)!hold(table, number, number, 1, NOW);
    sl_step_hook = NULL;
    sit_on(table, 2 * SL_JOURNAL + 2 + (uint64_t)step);
    sl_step_hook = on_step;
    if (setjmp(killed) == 0)
        end_hold(table, number + 1, SL_HOLD_SETTLE, 1, NOW);
    sl_step_hook = NULL;
}

static void make_holds(struct sl_table *table)
{
    sit_on(table, SL_JOURNAL);
    for (unsigned i = 0; i < HOLDS; i++)
        (void)!hold(table, i, i / 4, 1, NOW);
    for (unsigned i = 0; i < HOLDS; i += 3)
        end_hold(table, i, i, 1, NOW);
    for (unsigned step = 0; step < SL_JOURNAL; step++)
        die_holding(table, (enum sl_step)step);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    static struct sl_table table;
    struct sl_region r;
    char text[16];

    (void)argc, (void)argv;
    read_limits();
    good = aligned_alloc(64, SIZE);
    bytes = aligned_alloc(64, SIZE);
    MUST(good && bytes);
    memset(good, 0, SIZE);
    MUST(sl_region_open_memory(&r, good, SIZE, NULL) == 0);
    sl_table_init(&table, &r, SL_FULL_ALLOW);
    know_limits(&table, 1);
    sit_on(&table, SL_JOURNAL);
    for (unsigned key = 0; key < MANY; key++)
        for (unsigned l = key < 100 ? 0 : LIMITS - 1; l < LIMITS; l++) {
            struct sl_part part = part_of(l, key, text);

            (void)!sl_table_decide(&table, &part, 1, NOW, true);
        }
    for (unsigned step = 0; step <= SL_STEP_FINISH; step++)
        die_at(&table, (enum sl_step)step);
    make_holds(&table);
    return 0;
}

/* ---- patches ---- */

struct input {
    const uint8_t *at;
    size_t left;
};

static uint64_t next(struct input *in, size_t len)
{
    uint64_t value = 0;

    if (len > in->left)
        len = in->left;
    memcpy(&value, in->at, len);
    in->at += len;
    in->left -= len;
    return value;
}

static uint64_t place(unsigned mode, uint64_t number)
{
    const struct sl_region_head *head = (const void *)good;
    uint64_t buckets = head->buckets * sizeof(struct sl_bucket);

    switch (mode) {
    case 0:
        return number * 8 % SIZE;
    case 1:
        return number * 8 % 256; /* the head */
    case 2:
        return head->limits_at + number * 8 % (LIMITS * 128);
    case 3: /* an actor that was killed */
        return head->actors_at + number * 8 % (16 * sizeof(struct sl_actor));
    case 5: /* holds, and what was given back */
        return head->holds_at +
               number * 8 % (head->buckets_at - head->holds_at);
    default:
        return head->buckets_at + number * 8 % buckets;
    }
}

static uint64_t value_of(unsigned mode, uint64_t at, uint64_t v)
{
    uint64_t old;

    memcpy(&old, bytes + at, sizeof(old));
    switch (mode) {
    case 0:
        return v;
    case 1:
        return old ^ UINT64_C(1) << (v & 63);
    case 2:
        return old + v;
    case 3: /* a lock: actor and number */
        return SL_LOCKED | (v & 255) << 55 | ((v >> 8) & 0xffff);
    case 4: /* a tag */
        return (v & 15) << SL_TAG_BITS | (v >> 8 & 0xffffff);
    case 5:
        return place(4, v); /* a place in a bucket */
    case 6:
        return v & 63;
    default:
        memcpy(&old, bytes + place(0, v), sizeof(old));
        return old;
    }
}

static void patch(struct input *in)
{
    unsigned mode = (unsigned)next(in, 1);
    uint64_t at = place(mode & 7, next(in, 4));
    uint64_t value = value_of(mode >> 3 & 7, at, next(in, 8));

    memcpy(bytes + at, &value, sizeof(value));
}

/* ---- deeds ---- */

static bool count_slot(void *ctx, uint32_t limit_id, uint64_t fingerprint,
                       struct sl_cell cell)
{
    MUST(limit_id < SL_LIMITS);
    (void)fingerprint, (void)cell;
    ++*(uint64_t *)ctx;
    return true;
}

/* One set, or one batch, of up to 16 neighbouring keys. */
static void decide(struct sl_table *table, unsigned what, unsigned limit,
                   unsigned step, unsigned key, sl_ns now)
{
    enum sl_set_result verdicts[SL_PARTS];
    static const enum sl_take_op ops[4][2] = {
        {SL_TAKE_OP_TAKE,   SL_TAKE_OP_TAKE  },
        {SL_TAKE_OP_PEEK,   SL_TAKE_OP_PEEK  },
        {SL_TAKE_OP_REFUND, SL_TAKE_OP_CHARGE},
        {SL_TAKE_OP_RESET,  SL_TAKE_OP_RESET },
    };
    struct sl_part parts[SL_PARTS], *pointers[SL_PARTS];
    char texts[SL_PARTS][16];
    unsigned count = 1 + (what >> 4);

    for (unsigned i = 0; i < count; i++) {
        unsigned l = (limit + i) % LIMITS;

        parts[i] = part_of(l - l % step, key + i / 4, texts[i]);
        parts[i].op = ops[what & 3][i % 2];
        parts[i].cost = 1 + (limit >> 4);
        pointers[i] = &parts[i];
    }
    if (what & 8)
        sl_table_batch(table, pointers, verdicts, count, now, true);
    else
        (void)!sl_table_decide(table, parts, count, now, true);
    for (unsigned i = 0; i < count; i++)
        MUST(parts[i].answer.remaining <= parts[i].answer.capacity);
}

static void use(struct sl_region *r, struct input *in, unsigned step, bool look)
{
    static struct sl_table table;
    struct sl_table_stats stats;
    uint64_t slots = 0;
    sl_ns now = NOW;

    if (!table.region.base) /* once: it asks the kernel, which takes long */
        sl_table_init(&table, r, SL_FULL_ALLOW);
    know_limits(&table, step);
    sit_on(&table, 0);
    while (in->left > 0) {
        unsigned what = (unsigned)next(in, 1), limit = (unsigned)next(in, 1);
        unsigned key = (unsigned)next(in, 2) % (MANY + 1000);

        if (what & 4)
            now = (sl_ns)key << 46; /* into the past, or the future */
        if (key % 4 == 1)
            (void)!hold(&table, limit, key, step, now);
        else if (key % 4 == 2)
            end_hold(&table, limit, what, step, now);
        else
            decide(&table, what, limit, step, key, now);
    }
    if (!look)
        return;
    sl_table_visit(&table, count_slot, &slots);
    sl_table_stats(&table, &stats);
    MUST(stats.occupied == slots);                /* (3) */
    MUST(sl_region_validate(r, true, NULL) == 0); /* (4) */
}

void fuzz_region(struct sl_str text)
{
    struct sl_region r = {.base = bytes, .size = SIZE, .fd = -1, .opener = -1};
    struct sl_diag diag = {.line = 0};
    struct input in = {(const uint8_t *)text.at, text.len};
    unsigned first = (unsigned)next(&in, 1);
    int err;

    memcpy(bytes, good, SIZE);
    for (unsigned i = 0; i < (first & 15) && in.left > 0; i++)
        patch(&in);
    if (first & 128)
        r.size -= 8;
    err = sl_region_validate(&r, true, &diag);
    MUST(err == 0 || err == SLUICE_EDAMAGE);
    if (err) {
        must_explain(&diag, 0); /* (1) */
        return;
    }
    MUST(!(first & 128));
    use(&r, &in, first & 32 ? 2 : 1, first & 64);
}
