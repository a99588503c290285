/* Who is refused most, by decisions of an engine; the bounds of the numbers
 * are test/prop/sketch.c's. */
#include "server/top_keys.h"

#include "asking.h"
#include "fail.h"

static const char policy[] =
    "sluice: 1\n"
    "limits:\n"
    "  tenant: { kind: fixed-window, per: org, rate: 10/day }\n"
    "  member: { kind: fixed-window, per: [org, user], rate: 4/day }\n"
    "  shadow: { kind: fixed-window, per: user, mode: shadow, rate: 1/day }\n"
    "  all: { kind: fixed-window, per: [], rate: 1k/day }\n"
    "routes:\n"
    "  - { match: /rules, endpoint: rules, limits: [tenant, member] }\n"
    "  - { match: /spans, endpoint: spans, limits: [tenant] }\n"
    "  - { match: /shadow, endpoint: shadow, limits: [shadow] }\n"
    "default: [all]\n";

static const struct sl_hash_key secret = {7, 8};
static struct rig rig;
static struct sl_top_keys *tops[2];
static struct sl_arena arena;
static struct sl_top_keys_answer answer;

static void begin(void)
{
    rig_open(&rig, policy);
    rig.now = 1000 * SL_S;
    for (unsigned i = 0; i < SL_LEN(tops); i++)
        CHECK_EQ(sl_top_keys_open(NULL, &secret, rig.now, &tops[i]), 0);
    sl_arena_init(&arena, 1 << 20, &sl_alloc_libc);
}

static void end(void)
{
    for (unsigned i = 0; i < SL_LEN(tops); i++)
        sl_top_keys_close(tops[i]);
    sl_arena_done(&arena);
    rig_close(&rig);
}

static void check(unsigned thread, struct sl_request request, unsigned times)
{
    for (unsigned i = 0; i < times; i++)
        sl_top_keys_decision(tops[thread], rig_ask(&rig, request));
}

static void look(struct sl_top_keys_query query)
{
    sl_arena_reset(&arena);
    query.now = rig.now;
    if (query.most == 0)
        query.most = 20;
    CHECK_EQ(sl_top_keys_read(tops, SL_LEN(tops), &query, &arena, &answer), 0);
}

/* "limit scope key denied/allowed/cost" of a row. */
static const char *row(unsigned i)
{
    static char text[256];
    const struct sl_top_keys_row *r = &answer.rows[i];

    if (i >= answer.count)
        return "none";
    snprintf(text, sizeof(text),
             "%.*s %.*s %.*s %" PRIu64 "/%" PRIu64 "/%" PRIu64,
             SL_STR_ARG(r->limit), SL_STR_ARG(r->scope), SL_STR_ARG(r->key),
             r->count[SL_DENIED], r->count[SL_ALLOWED], r->count[SL_COST]);
    return text;
}

/* All else is in test/server/admin/top.talk, on one thread. */
static void check_threads(void)
{
    CASE("threads and endpoints are added up");
    begin();
    check(0, GET("/spans", ORG("acme")), 4);
    check(1, GET("/spans", ORG("acme"), COST(3)), 1);
    check(1, GET("/rules", ORG("acme"), USER("ann")), 9); /* 3 pass */
    check(0, GET("/spans", ORG("beta")), 12);
    look((struct sl_top_keys_query){.by = SL_DENIED});
    CHECK_EQ(answer.count, 2);
    CHECK_STR(row(0), "tenant org acme 6/8/10");
    CHECK_STR(row(1), "tenant org beta 2/10/10");
    CHECK_EQ(answer.total[SL_DENIED], 8);
    end();
}

/* A decision of a limit and an endpoint that no policy has. */
static void made_up(struct sl_decision *d, unsigned index)
{
    static char limit[100], endpoint[100];
    static struct sl_rule rule;
    static struct sl_route route;

    rule.index = route.index = index;
    rule.name = (struct sl_str){
        limit, (size_t)snprintf(limit, sizeof(limit), "%070u", index)};
    route.endpoint = (struct sl_str){
        endpoint, (size_t)snprintf(endpoint, sizeof(endpoint), "e%u", index)};
    d->route = &route;
    d->allowed = true;
    d->shown_count = 1;
    d->shown[0] = (struct sl_limit_view){.rule = &rule,
                                         .form = SL_RATE_PER,
                                         .allowed = true,
                                         .cost = 1,
                                         .id = (char *)"ann",
                                         .scope = SL_STR("user"),
                                         .key = SL_STR("ann")};
}

static void check_edges(void)
{
    static struct sl_decision d;

    CASE("more limits than there is room for are others");
    begin();
    for (unsigned i = 0; i < SL_TOP_KEYS_LABELS + 10; i++) {
        made_up(&d, i);
        sl_top_keys_decision(tops[0], &d);
    }
    look(
        (struct sl_top_keys_query){.by = SL_ALLOWED, .limit = SL_STR("other")});
    CHECK_EQ(answer.count, 1);
    CHECK_STR(row(0), "other other ann 0/11/11");

    CASE("names too long to be kept are not taken for each other");
    look((struct sl_top_keys_query){
        .by = SL_ALLOWED, .most = SL_TOP_KEYS_MOST, .endpoint = SL_STR("e3")});
    CHECK_EQ(answer.count, 1);
    CHECK_EQ(answer.rows[0].count[SL_ALLOWED], 1);
    end();
}

/* A new policy may have other names at the same addresses and indices. */
static void check_generations(void)
{
    static struct sl_decision d;

    CASE("the same place in memory is another name in another policy");
    begin();
    made_up(&d, 1);
    for (d.generation = 1; d.generation < 4; d.generation++) {
        ((char *)d.route->endpoint.at)[1] = (char)('0' + d.generation);
        for (unsigned i = 0; i < d.generation; i++)
            sl_top_keys_decision(tops[0], &d);
    }
    for (unsigned i = 1; i < 4; i++) {
        char endpoint[4];

        snprintf(endpoint, sizeof(endpoint), "e%u", i);
        look((struct sl_top_keys_query){.by = SL_ALLOWED,
                                        .endpoint = sl_str_c(endpoint)});
        CHECK_EQ(answer.count, 1);
        CHECK_EQ(answer.rows[0].count[SL_ALLOWED], i);
    }
    end();
}

static void pass(unsigned thread, unsigned key, const char *endpoint)
{
    static struct sl_decision d;
    char name[16];

    made_up(&d, 0);
    ((struct sl_route *)d.route)->endpoint = sl_str_c(endpoint);
    snprintf(name, sizeof(name), "%u", key);
    d.shown[0].id = name;
    d.shown[0].key = sl_str_c(name);
    sl_top_keys_decision(tops[thread], &d);
}

/* Many keys at three endpoints and in two threads, the small ones often. */
static void check_bounds(void)
{
    static uint64_t is[6000];
    static const char *const endpoints[] = {"a", "b", "c"};
    uint64_t wrong = 0, uncertain = 0;

    CASE("sums over endpoints and threads lie within their bounds");
    begin();
    for (unsigned i = 0; i < 120000; i++) {
        unsigned key = i % 5 ? (i * 7919u) % 6000 : i % 50;

        pass(i % 2, key, endpoints[i / 7 % 3]);
        is[key]++;
    }
    look(
        (struct sl_top_keys_query){.by = SL_ALLOWED, .most = SL_TOP_KEYS_MOST});
    for (unsigned i = 0; i < answer.count; i++) {
        const struct sl_top_keys_row *r = &answer.rows[i];
        uint64_t true_count = is[strtoul(r->key.at, NULL, 10)];

        wrong += r->count[SL_ALLOWED] < true_count ||
                 r->count[SL_ALLOWED] - r->error[SL_ALLOWED] > true_count;
        uncertain += r->error[SL_ALLOWED] > 0;
    }
    CHECK_EQ(wrong, 0);
    CHECK(uncertain > 0 && answer.count >= 10);
    end();

    CASE("what gave way at one endpoint may have been there");
    begin();
    for (unsigned i = 0; i < 101; i++)
        pass(0, 7, i ? "a" : "b");
    for (unsigned i = 0; i < 20000; i++)
        pass(0, 100 + i / 3, "c");
    look((struct sl_top_keys_query){.by = SL_ALLOWED, .most = 1});
    CHECK(answer.count == 1 && answer.rows[0].count[SL_ALLOWED] >= 101);
    CHECK(answer.rows[0].count[SL_ALLOWED] - answer.rows[0].error[SL_ALLOWED] <=
          101);
    end();
}

static void check_memory(void)
{
    struct fail f = {.nth = 1};
    struct sl_alloc alloc = fail_alloc(&f);
    struct sl_top_keys *top = NULL;
    struct sl_top_keys_query query = {.by = SL_ALLOWED, .most = 5};

    CASE("without memory nothing is opened");
    CHECK_EQ(sl_top_keys_open(&alloc, &secret, 0, &top), SLUICE_ENOMEM);
    CHECK(!top);
    sl_top_keys_close(top);

    CASE("without memory a query fails, and counting goes on");
    begin();
    check(0, GET("/spans", ORG("acme")), 2);
    for (unsigned nth = 1, err = 1; err && nth < 20; nth++) {
        struct sl_arena poor;

        f = (struct fail){.nth = nth};
        sl_arena_init(&poor, 1 << 20, &alloc);
        err = sl_top_keys_read(tops, 2, &query, &poor, &answer) != 0;
        CHECK(err || (nth > 2 && answer.count == 1));
        sl_arena_done(&poor);
        fail_check(&f);
    }
    end();
}

int main(void)
{
    check_threads();
    check_edges();
    check_generations();
    check_bounds();
    check_memory();
    return CHECK_DONE();
}
