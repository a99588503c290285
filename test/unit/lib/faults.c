/* faults.c -- the nth allocation fails, n = 1, 2, ... until there is no nth:
 * an error with a sentence, nothing kept, nothing changed. */
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gate.h"

/* Hands out memory that is aligned to 16 bytes and no more, and counts. */
struct purse {
    unsigned nth, calls; /* the nth fails; 0 = none */
    size_t pieces, bytes;
    bool lied; /* an old size was wrong */
};

union label {
    size_t size;
    char pad[16];
};

static void *resize(void *ctx, void *old, size_t old_size, size_t new_size)
{
    struct purse *purse = ctx;
    union label *label = old ? (union label *)old - 1 : NULL;

    purse->lied |= (label ? label->size : 0) != old_size;
    if (new_size > 0 && ++purse->calls == purse->nth)
        return NULL;
    purse->pieces -= label != NULL;
    purse->bytes -= old_size;
    if (new_size == 0) {
        free(label);
        return NULL;
    }
    label = realloc(label, sizeof(*label) + new_size);
    if (!label)
        abort();
    label->size = new_size;
    purse->pieces++;
    purse->bytes += new_size;
    return label + 1;
}

static const char *const plans[] = {"50/day", "500/day", NULL};
static struct sluice_limit limits[] = {
    {.name = "bucket", .kind = SLUICE_TOKEN_BUCKET, .rate = "5/min"  },
    {.name = "berlin", .kind = SLUICE_QUOTA,        .rate = "5/day"  },
    {.name = "york",   .kind = SLUICE_QUOTA,        .rate = "5/month"},
    {.name = "jobs",   .kind = SLUICE_CONCURRENCY,  .rate = "5"      },
};

static struct hands hands = {.now = START};
static _Alignas(64) char shared[1 << 20];
static char path[64];

static struct sluice_options options_on(struct purse *purse)
{
    return (struct sluice_options){.limits = limits,
                                   .limit_count = COUNT(limits),
                                   .size = 1 << 20,
                                   .now = read_hands,
                                   .now_ctx = &hands,
                                   .resize = resize,
                                   .resize_ctx = purse};
}

static bool untouched(void)
{
    static const char zeros[4096];
    struct stat st;

    return memcmp(shared, zeros, sizeof(zeros)) == 0 &&
           stat(path, &st) == -1; /* the file was not created */
}

/* Returns the gate that opens at last. */
static struct sluice *open_at_last(struct sluice_options *o)
{
    struct sluice *const mark = (struct sluice *)(void *)shared;
    struct purse *purse = o->resize_ctx;
    struct sluice *gate = mark;
    unsigned failures = 0;

    for (purse->nth = 1;; purse->nth++) {
        int err;

        purse->calls = 0;
        err = sluice_open(o, &gate);
        if (err == 0)
            break;
        failures++;
        CHECK_EQ(err, SLUICE_ENOMEM);
        CHECK(strstr(sluice_why(), "memory"));
        CHECK(gate == mark);
        CHECK(untouched());
        CHECK_EQ(purse->pieces, 0);
        CHECK_EQ(purse->bytes, 0);
        if (failures > 1000)
            exit(check_done());
    }
    CHECK_EQ(failures, purse->calls);
    CHECK(failures > 8);
    return gate;
}

static int count_key(void *ctx, unsigned limit, uint64_t fingerprint,
                     const struct sluice_answer *answer)
{
    (void)limit, (void)fingerprint, (void)answer;
    ++*(unsigned *)ctx;
    return 0;
}

/* After it was opened a gate allocates nothing, whatever is asked of it. */
static void use(struct sluice *gate, struct purse *purse)
{
    struct sluice_part parts[4];
    struct sluice_stats stats;
    unsigned keys = 0;

    purse->nth = purse->calls + 1;
    for (unsigned l = 0; l < 4; l++)
        parts[l] = part_of(l, "ann", 2);
    CHECK_EQ(sluice_take(gate, parts, 4, NULL), 0);
    CHECK_EQ(sluice_look(gate, parts, 4, NULL), 0);
    CHECK_EQ(sluice_take_batch(gate, parts, 4), 0);
    CHECK_EQ(sluice_give_back(gate, parts, 4), 0);
    CHECK_EQ(sluice_charge(gate, parts, 4), 0);
    CHECK_EQ(left(gate, 3, "ann"), 1);
    CHECK_EQ(sluice_each(gate, count_key, &keys), 0);
    CHECK_EQ(keys, 4);
    CHECK_EQ(sluice_stats(gate, &stats), 0);
    CHECK_EQ(sluice_reset(gate, 3, "ann", 3), 0);
    CHECK_EQ(purse->calls + 1, purse->nth);
}

/* The numbers of docs/guide/library.md. */
static void test_size(void)
{
    struct purse purse = {0};
    struct sluice_options o = options_on(&purse);
    struct sluice *gate = NULL;
    size_t one;

    CASE("a gate is as large as the guide says");
    o.limit_count = 1;
    CHECK_EQ(sluice_open(&o, &gate), 0);
    one = purse.bytes;
    CHECK(one > 80 << 10 && one < 84 << 10);
    sluice_close(gate);
    o.limit_count = 2;
    CHECK_EQ(sluice_open(&o, &gate), 0);
    CHECK(purse.bytes - one > 4 << 10 && purse.bytes - one < 8 << 10);
    sluice_close(gate);
}

static void test(const char *name, const char *file, void *memory)
{
    struct purse purse = {0};
    struct sluice_options o = options_on(&purse);
    struct sluice *gate;

    CASE(name);
    o.path = file;
    o.memory = memory;
    gate = open_at_last(&o);
    use(gate, &purse);
    sluice_close(gate);
    CHECK_EQ(purse.pieces, 0);
    CHECK_EQ(purse.bytes, 0);
    CHECK(!purse.lied);
}

/* What is refused for another reason keeps nothing either. */
static void test_refusals(void)
{
    struct purse purse = {0};
    struct sluice_options o = options_on(&purse);
    struct sluice_limit bad[COUNT(limits)];
    struct sluice *gate = NULL;

    CASE("a refused opening gives everything back");
    memcpy(bad, limits, sizeof(limits));
    o.limits = bad;
    for (size_t i = 0; i < COUNT(bad); i++) {
        bad[i].rate = "many";
        CHECK_EQ(sluice_open(&o, &gate), SLUICE_ECONF);
        CHECK_EQ(purse.pieces, 0);
        bad[i] = limits[i];
        bad[i].zone = "Europe/Atlantis";
        CHECK_EQ(sluice_open(&o, &gate), SLUICE_ECONF);
        CHECK_EQ(purse.pieces, 0);
        bad[i] = limits[i];
    }
    o.path = "/nowhere/state";
    CHECK_EQ(sluice_open(&o, &gate), SLUICE_ESYS);
    o.memory = shared;
    CHECK_EQ(sluice_open(&o, &gate), SLUICE_EINVAL);
    CHECK_EQ(purse.pieces, 0);
    CHECK(!purse.lied);
    CHECK(gate == NULL);
}

int main(void)
{
    snprintf(path, sizeof(path), "lib-faults-%ld.state", (long)getpid());
    unlink(path);
    limits[0].share = 9;
    limits[1].plans = plans;
    limits[1].zone = "Europe/Berlin";
    limits[2].zone = "America/New_York";
    limits[2].anchor = 31;
    test_refusals();
    test_size();
    test("on the heap", NULL, NULL);
    test("in a file", path, NULL);
    unlink(path);
    test("in memory that was handed in", NULL, shared);
    return CHECK_DONE();
}
