/* denials.c -- the tables of the denial history. The numbers are those of the
 * invariants in src/registry/denials.c. */
#include "filed.h"
#include "registry/registry.h"

#define AT(second) ((second)*SL_S)
#define PAGE       2

/* A denial of ann in acme. */
static struct sl_denial_record denial(uint64_t number, sl_ns at)
{
    return (struct sl_denial_record){
        .number = number,
        .at = at,
        .status = 429,
        .node = S("one"),
        .request_id = S("r1"),
        .code = S("RATE_LIMITED"),
        .reason = S("limit"),
        .limit = S("minute"),
        .scope = S("user"),
        .retry_in = SL_NS_NONE,
        .names = {{S("user"), S("ann")}, {S("org"), S("acme")}},
        .name_count = 2
    };
}

static void put(struct world *w, const struct sl_denial_record *records,
                unsigned count, bool hashed)
{
    struct sl_denial_job denials = {
        .records = records, .count = count, .hashed = hashed};
    struct sl_job job;

    sl_job_init(&job, SL_JOB_PUT_DENIALS, &sl_alloc_libc);
    job.denials = &denials;
    ask(w, &job);
    CHECK_EQ(job.err, 0);
    sl_job_clear(&job);
}

static struct sl_denial_query all(void)
{
    return (struct sl_denial_query){.to = INT64_MAX,
                                    .before = INT64_MAX,
                                    .before_number = INT64_MAX,
                                    .most = SL_DENIALS_MOST};
}

/* Returns the lines that are found, in `room`. */
static const char *find(struct world *w, struct sl_denial_query query,
                        char room[8192])
{
    struct sl_denial_job denials = {.query = query};
    struct sl_job job;

    sl_job_init(&job, SL_JOB_DENIALS, &sl_alloc_libc);
    job.denials = &denials;
    ask(w, &job);
    CHECK_EQ(job.err, 0);
    snprintf(room, 8192, "%.*s", SL_STR_ARG(sl_buf_str(&job.text)));
    sl_job_clear(&job);
    return room;
}

static unsigned count_lines(const char *text)
{
    unsigned count = 0;

    for (; (text = strchr(text, '\n')); text++)
        count++;
    return count;
}

static unsigned count_of(struct world *w, struct sl_denial_query query)
{
    char room[8192];

    return count_lines(find(w, query, room));
}

static struct sl_denial_query of(const char *scope, const char *id)
{
    struct sl_denial_query query = all();

    query.scope = sl_str_c(scope);
    query.id = sl_str_c(id);
    return query;
}

TEST(once)
{
    struct world world, *w = &world;
    struct sl_denial_record r = denial(7, AT(10));
    struct sl_denial_query query = all();

    world_open(w);
    CASE("(1) a record of a repeated job is there once");
    put(w, &r, 1, false);
    put(w, &r, 1, false);
    CHECK_EQ(count_of(w, all()), 1);
    CHECK_EQ(count_of(w, of("user", "ann")), 1);
    query.request_id = S("r1");
    CHECK_EQ(count_of(w, query), 1);
    query.request_id = S("r2");
    CHECK_EQ(count_of(w, query), 0);
    world_close(w);
}

TEST(hashed)
{
    struct world world, *w = &world;
    struct sl_denial_record r[] = {denial(1, AT(10)), denial(2, AT(20))};
    struct sl_diag diag = {0};
    char room[8192];

    world_open(w);
    CASE("(2) a hashed record is found by its names, and has none");
    put(w, &r[0], 1, true);
    CHECK_EQ(count_lines(find(w, of("user", "ann"), room)), 1);
    CHECK(!strstr(room, "ann") && !strstr(room, "acme"));
    CHECK_EQ(count_of(w, of("org", "acme")), 1);
    CHECK_EQ(count_of(w, of("org", "ann")), 0);
    CHECK_EQ(count_of(w, of("user", "bob")), 0);
    CASE("(2) also beside a record with names, and after a restart");
    put(w, &r[1], 1, false);
    CHECK_EQ(count_of(w, of("user", "ann")), 2);
    world_stop(w);
    CHECK_EQ(world_start(w, &diag), 0);
    CHECK_EQ(count_lines(find(w, of("user", "ann"), room)), 2);
    CHECK(strstr(room, "\"user\":\"ann\""));
    world_close(w);
}

/* Reads a page behind the record (`at`, `number`) and returns the second and
 * the number of its last record, or 0 at the end. */
static unsigned next_page(struct world *w, struct sl_denial_query query,
                          unsigned *second, unsigned *number)
{
    char room[8192], *last;
    long long at;
    unsigned count;

    if (*number > 0) {
        query.before = AT(*second);
        query.before_number = *number;
    }
    query.most = PAGE;
    count = count_lines(find(w, query, room));
    if (count == 0)
        return 0;
    room[strlen(room) - 1] = '\0';
    last = strrchr(room, '\n');
    last = last ? last + 1 : room;
    CHECK_EQ(sscanf(last, "{\"cursor\":\"%lld-%u", &at, number), 2);
    *second = (unsigned)(at / SL_S);
    return count;
}

TEST(pages)
{
    struct world world, *w = &world;
    struct sl_denial_record r[] = {denial(1, AT(10)), denial(2, AT(20)),
                                   denial(3, AT(20)), denial(4, AT(20)),
                                   denial(5, AT(30))};
    struct sl_denial_record newer = denial(6, AT(40));
    unsigned second = 0, number = 0;
    struct sl_job job;

    world_open(w);
    put(w, r, SL_LEN(r), false);
    CASE("(3) the newest first; those of one instant by their numbers");
    CHECK_EQ(next_page(w, of("user", "ann"), &second, &number), 2);
    CHECK_EQ(number, 4);
    CASE("(3) a page goes on there, also if records were added");
    put(w, &newer, 1, false);
    CHECK_EQ(next_page(w, of("user", "ann"), &second, &number), 2);
    CHECK_EQ(number, 2);
    CASE("(3) or the records behind it were deleted");
    sl_job_init(&job, SL_JOB_RETAIN, &sl_alloc_libc);
    w->now = AT(100);
    job.denial_age = AT(85);
    ask(w, &job);
    CHECK_EQ(job.err, 0);
    sl_job_clear(&job);
    CHECK_EQ(count_of(w, all()), 5);
    CHECK_EQ(next_page(w, of("user", "ann"), &second, &number), 0);
    CASE("(3) likewise of all records");
    second = number = 0;
    CHECK_EQ(next_page(w, all(), &second, &number), 2);
    CHECK_EQ(number, 5);
    CHECK_EQ(next_page(w, all(), &second, &number), 2);
    CHECK_EQ(number, 3);
    CHECK_EQ(next_page(w, all(), &second, &number), 1);
    CHECK_EQ(number, 2);
    world_close(w);
}

TEST(erased)
{
    struct world world, *w = &world;
    struct sl_denial_record r[] = {denial(1, AT(10)), denial(2, AT(20))};
    struct sl_job job;

    world_open(w);
    r[1].names[0].id = S("bob");
    put(w, r, 1, true);
    put(w, &r[1], 1, false);
    CASE("an erasure of a user takes their records, hashed or not");
    sl_job_init(&job, SL_JOB_ERASE, &sl_alloc_libc);
    job.scope = S("user");
    job.id = S("ann");
    job.by = S("test");
    ask(w, &job);
    CHECK_EQ(job.err, 0);
    sl_job_clear(&job);
    CHECK_EQ(count_of(w, all()), 1);
    CHECK_EQ(count_of(w, of("user", "ann")), 0);
    CHECK_EQ(count_of(w, of("org", "acme")), 1);
    CHECK_EQ(count_of(w, of("user", "bob")), 1);
    world_close(w);
}

int main(void)
{
    RUN_TESTS();
    return CHECK_DONE();
}
