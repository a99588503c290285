/* units.c -- the units in which usage is counted: recorded, compared when the
 * database is opened and when a new policy is used. */
#include "books.h"
#include "registry/usage_journal.h"

struct policy {
    const char *limit;
    uint64_t scale;
    const char *counted;
};

static struct policy active[4];

static int fill(struct sl_unit_list *list, const struct policy *policy)
{
    int err = 0;

    for (unsigned i = 0; i < 4 && policy[i].limit && !err; i++)
        err = sl_unit_list_add(list, sl_str_c(policy[i].limit), policy[i].scale,
                               sl_str_c(policy[i].counted));
    return err;
}

static int list_units(void *ctx, struct sl_unit_list *ret)
{
    (void)ctx;
    return fill(ret, active);
}

static struct sl_usage_journal *journal; /* or NULL */

static int begin(struct world *w, const char *limit, uint64_t scale,
                 const char *counted, struct sl_diag *diag)
{
    struct sl_registry_options options = {.driver = BACKED_BY,
                                          .path = w->path,
                                          .on_fault = on_fault,
                                          .list_units = list_units,
                                          .journal = journal,
                                          .ctx = w};

    *diag = (struct sl_diag){.sentence = ""};
    active[0] = (struct policy){limit, scale, counted};
    active[1] = (struct policy){"other", 1, ""};
    world_stop(w);
    return sl_registry_open(&options, &w->registry, diag);
}

static int use(struct world *w, const char *limit, uint64_t scale,
               const char *counted, struct sl_diag *diag)
{
    const struct policy policy[4] = {
        {"other", 1,     ""     },
        {limit,   scale, counted}
    };
    struct sl_unit_list list;

    *diag = (struct sl_diag){.sentence = ""};
    sl_unit_list_init(&list, &sl_alloc_libc);
    CHECK_EQ(fill(&list, policy), 0);
    return sl_registry_use_units(w->registry, &list, diag);
}

#define REFUSED(old, new)                                                      \
    "Limit \"minutes\" is counted in " old                                     \
    " in the usage database, and in " new " in the new policy. Write `unit` "  \
                                          "as before, or give the limit "      \
                                          "another "                           \
                                          "name and import its usage"

TEST(without_usage)
{
    struct world world, *w = &world;
    struct sl_diag diag;

    world_open(w);
    CASE("the unit of a limit without usage can change");
    CHECK_EQ(begin(w, "minutes", 60, "seconds", &diag), 0);
    CHECK_EQ(begin(w, "minutes", 1, "", &diag), 0);
    CHECK_EQ(begin(w, "minutes", 3600, "seconds", &diag), 0);
    CHECK_EQ(use(w, "minutes", 60, "seconds", &diag), 0);
    CHECK_EQ(use(w, "minutes", 60, "seconds", &diag), 0);
    CHECK_EQ(use(w, "minutes", 1, "", &diag), 0);
    CHECK_EQ(use(w, "minutes", 60, "seconds", &diag), 0);
    world_close(w);
}

TEST(with_usage)
{
    struct world world, *w = &world;
    struct sl_diag diag;

    world_open(w);
    CHECK_EQ(begin(w, "minutes", 60, "seconds", &diag), 0);
    put_one(w, report("acme", 90, ""), SL_USAGE_RECORDED, 90, 0);

    CASE("with usage it stays, over a restart");
    CHECK_EQ(begin(w, "minutes", 3600, "seconds", &diag), SLUICE_ECONF);
    CHECK_STR(diag.sentence,
              REFUSED("units of 60 seconds", "units of 3600 seconds"));
    CHECK_EQ(begin(w, "minutes", 60, "frames", &diag), SLUICE_ECONF);
    CHECK_EQ(begin(w, "minutes", 1, "", &diag), SLUICE_ECONF);
    CHECK_STR(diag.sentence, REFUSED("units of 60 seconds", "plain units"));
    CHECK_EQ(begin(w, "minutes", 60, "seconds", &diag), 0);

    CASE("and over a reload");
    CHECK_EQ(use(w, "minutes", 3600, "seconds", &diag), SLUICE_ECONF);
    CHECK_STR(diag.sentence,
              REFUSED("units of 60 seconds", "units of 3600 seconds"));
    CHECK_EQ(use(w, "minutes", 1, "", &diag), SLUICE_ECONF);
    CHECK_EQ(use(w, "minutes", 60, "seconds", &diag), 0);

    CASE("another limit is free, and a refused policy changes nothing");
    CHECK_EQ(use(w, "hours", 3600, "seconds", &diag), 0);
    CHECK_EQ(use(w, "other", 60, "seconds", &diag), 0);
    CHECK_EQ(begin(w, "minutes", 60, "seconds", &diag), 0);
    world_close(w);
}

TEST(plain_usage)
{
    struct world world, *w = &world;
    struct sl_diag diag;

    world_open(w);
    CHECK_EQ(begin(w, "minutes", 1, "", &diag), 0);
    put_one(w, report("beta", 3, ""), SL_USAGE_RECORDED, 3, 0);
    CASE("plain usage, also of earlier versions, is not read with a scale");
    CHECK_EQ(begin(w, "minutes", 60, "seconds", &diag), SLUICE_ECONF);
    CHECK_STR(diag.sentence, REFUSED("plain units", "units of 60 seconds"));
    CHECK_EQ(begin(w, "minutes", 1, "", &diag), 0);
    world_close(w);
}

/* What is checked first would be recorded first. */
TEST(refused_in_part)
{
    const struct policy policy[4] = {
        {"minutes", 3600, "seconds"},
        {"other",   60,   "seconds"}
    };
    struct world world, *w = &world;
    struct sl_usage_entry u = report("gamma", 3, "");
    struct sl_unit_list list;
    struct sl_diag diag = {.sentence = ""};

    world_open(w);
    CHECK_EQ(begin(w, "minutes", 60, "seconds", &diag), 0);
    put_one(w, report("gamma", 90, ""), SL_USAGE_RECORDED, 90, 0);
    CASE("of a policy that is refused no unit is recorded");
    sl_unit_list_init(&list, &sl_alloc_libc);
    CHECK_EQ(fill(&list, policy), 0);
    CHECK_EQ(sl_registry_use_units(w->registry, &list, &diag), SLUICE_ECONF);
    u.limit = S("other"); /* in plain units, by the policy that stays */
    put_one(w, u, SL_USAGE_RECORDED, 3, 0);
    CHECK_EQ(begin(w, "minutes", 60, "seconds", &diag), 0);
    CHECK_STR(diag.sentence, "");
    world_close(w);
}

static void leave_line(const char *path)
{
    struct sl_usage_journal_options options = {.path = path,
                                               .size = SL_JOURNAL_LEAST};
    struct sl_usage_entry u = report("delta", 4, "");
    struct sl_diag diag = {0};

    CHECK_EQ(sl_usage_journal_open(&options, &journal, &diag), 0);
    CHECK(sl_usage_segment_add(sl_usage_segment_open(journal, 1, 1, DAY_0), &u,
                               1, 0));
    sl_usage_journal_close(journal);
    CHECK_EQ(sl_usage_journal_open(&options, &journal, &diag), 0);
}

TEST(in_journal)
{
    struct world world, *w = &world;
    struct sl_diag diag;
    char path[600];

    world_open(w);
    CASE("usage that only the journal has keeps its unit, too");
    snprintf(path, sizeof(path), "%s/usage", w->folder);
    leave_line(path);
    CHECK_EQ(begin(w, "minutes", 60, "seconds", &diag), SLUICE_ECONF);
    CHECK_STR(diag.sentence, REFUSED("plain units", "units of 60 seconds"));
    CHECK_EQ(begin(w, "minutes", 1, "", &diag), 0);
    CHECK_EQ(sum(w, "delta", SL_ROW_COUNTER), 4);
    world_stop(w);
    sl_usage_journal_close(journal);
    journal = NULL;
    world_close(w);
}

int main(void)
{
    RUN_TESTS();
    return CHECK_DONE();
}
