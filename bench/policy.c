/* policy.c -- the rows of policies: what a whole decision costs.
 *
 * From facts to rendered headers, on a state that fits the cache, against the
 * bare take of one limit in it; what headers and verdict add to the decision;
 * with a thousand routes against ten; by routes with a cost and conditions
 * against routes without; and denials, a million in a second, that the denial
 * ring or the recorder sees, against those that neither does.
 *
 * `bench-policy plain N` makes N decisions and measures nothing, to count
 * instructions; so do `bare`, `verdict`, `conditions`, `denials`, `ring` and
 * `recorder`.
 */
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "engine/check.h"
#include "engine/render.h"
#include "pair.h"
#include "server/denial_ring.h"
#include "server/recorder.h"

#define KEYS 1000 /* users; all in cache */

struct bench {
    struct sl_engine *engine;
    struct sl_table *table;
    struct sl_check check;
    struct sl_arena arena, texts;
    unsigned routes;
    unsigned first, count; /* routes that are asked for */
    struct sl_str paths[1000], users[KEYS];
    uint64_t at;
    uint64_t cost; /* 0: none is given */
    sl_ns now;
    bool bare;                   /* nothing is rendered */
    struct sl_buf *verdict;      /* or NULL: no JSON is written */
    struct sl_denial_ring *ring; /* or NULL */
    struct sl_recorder *recorder;
};

static void die(const char *why)
{
    fprintf(stderr, "bench: %s\n", why);
    exit(1);
}

static const char conditions[] = "    cost: 2\n"
                                 "    when:\n"
                                 "      - plan: pro\n"
                                 "      - header.user-agent: \"curl*\"\n";

/* A policy of `routes` routes with one limit; every tenth has a wildcard. From
 * `plain` on they have a cost and two conditions that hold. */
static void write_policy(struct sl_buf *out, unsigned routes, unsigned plain)
{
    int err = sl_buf_addf(out, "sluice: 1\n"
                               "plans: { default: free, free: {}, pro: {} }\n"
                               "limits:\n"
                               "  per-user:\n"
                               "    kind: token-bucket\n"
                               "    per: user\n"
                               "    rate: { free: 1000k/s, pro: 2000k/s }\n"
                               "default: [per-user]\n"
                               "routes:\n");

    for (unsigned i = 0; !err && i < routes; i++)
        err = sl_buf_addf(out,
                          "  - match: GET /api/v%u/things%u/%s\n"
                          "    limits: [per-user]\n%s",
                          i % 7, i, i % 10 ? "list" : ":id/parts",
                          i < plain ? "" : conditions);
    if (err)
        die("there is no memory");
}

/* Requests are made up beforehand: that is none of the engine's work. */
static void make_requests(struct bench *b)
{
    char text[64];

    for (unsigned i = 0; i < b->routes; i++) {
        snprintf(text, sizeof(text), "/api/v%u/things%u/%s", i % 7, i,
                 i % 10 ? "list" : "42/parts");
        b->paths[i] = sl_str_c(sl_arena_copy(&b->texts, sl_str_c(text)));
    }
    for (unsigned i = 0; i < KEYS; i++) {
        snprintf(text, sizeof(text), "user-%u", i);
        b->users[i] = sl_str_c(sl_arena_copy(&b->texts, sl_str_c(text)));
    }
}

static void open_bench(struct bench *b, unsigned routes, unsigned plain)
{
    static const struct sl_engine_ctx at_once;
    struct sl_policy_options options = {0};
    struct sl_memory_options memory = {.size = 8 << 20};
    struct sl_engine_options engine = {0};
    struct sl_policy *policy;
    struct sl_report report;
    struct sl_diag diag = {0};
    struct sl_buf text;

    memset(b, 0, sizeof(*b));
    sl_buf_init(&text, 1 << 20, &sl_alloc_libc);
    write_policy(&text, routes, plain);
    sl_report_init(&report, "bench.yaml", sl_buf_str(&text), &sl_alloc_libc);
    if (sl_policy_read(&report, &options, &policy))
        die(report.kept ? report.problems[0].diag.sentence : "no policy");
    if (sl_memory_open(&memory, &engine.store, &diag) ||
        sl_engine_open(&engine, policy, &b->engine, &diag))
        die(diag.sentence);
    b->table = sl_memory_table(engine.store);
    b->routes = b->count = routes;
    b->now = INT64_C(1790000000) * SL_S;
    sl_check_init(&b->check, b->engine, &at_once, &sl_alloc_libc);
    sl_check_ref_policy(&b->check);
    sl_arena_init(&b->arena, 1 << 20, &sl_alloc_libc);
    sl_arena_init(&b->texts, 1 << 20, &sl_alloc_libc);
    make_requests(b);
}

static const struct sl_header headers[] = {
    {{"host", 4},        {"api.example.com", 15}},
    {{"user-agent", 10}, {"curl/7.88.1", 11}    },
    {{"accept", 6},      {"*/*", 3}             },
};

/* Headers, and the verdict if it is wanted. */
static uint64_t render(struct bench *b)
{
    const struct sl_decision *decision = &b->check.decision;
    struct sl_rendered out;

    sl_arena_reset(&b->arena);
    if (sl_render(decision, &b->arena, &out))
        die("could not render");
    if (!b->verdict)
        return out.header_count;
    sl_buf_clear(b->verdict);
    if (sl_render_verdict(decision, &out, false, b->verdict))
        die("could not write a verdict");
    return b->verdict->len;
}

static uint64_t whole_decision(void *ctx, uint64_t rounds)
{
    struct bench *b = ctx;
    uint64_t sum = 0;

    for (uint64_t i = 0; i < rounds; i++) {
        struct sl_request request = {
            .method = SL_STR("GET"),
            .path = b->paths[b->first + b->at++ % b->count],
            .user = b->users[b->at * 7919 % KEYS],
            .plan = SL_STR("PRO"),
            .ip = SL_STR("203.0.113.5"),
            .headers = headers,
            .header_count = SL_LEN(headers),
            .has_cost = b->cost > 0,
            .cost = b->cost,
            .now = b->now += 1000,
        };

        sl_check_start(&b->check, &request, 1, true);
        if (b->check.err)
            die("could not decide");
        sum += b->check.decision.allowed;
        if (!b->bare)
            sum += render(b);
        if (b->ring)
            sl_denial_ring_decision(b->ring, &b->check.decision);
        if (b->recorder)
            sl_recorder_check(b->recorder, &b->check);
    }
    return sum;
}

static uint64_t bare_decision(void *ctx, uint64_t rounds)
{
    struct bench *b = ctx;
    uint64_t sum;

    b->bare = true;
    sum = whole_decision(b, rounds);
    b->bare = false;
    return sum;
}

static uint64_t with_verdict(void *ctx, uint64_t rounds)
{
    static struct sl_buf text;
    struct bench *b = ctx;
    uint64_t sum;

    if (!text.alloc)
        sl_buf_init(&text, 1 << 20, &sl_alloc_libc);
    b->verdict = &text;
    sum = whole_decision(b, rounds);
    b->verdict = NULL;
    return sum;
}

static uint64_t bare_take(void *ctx, uint64_t rounds)
{
    struct bench *b = ctx;
    const struct sl_plan_limit *plan =
        &b->check.active->policy->rules[0].plans[1];
    uint64_t sum = 0;

    for (uint64_t i = 0; i < rounds; i++) {
        uint64_t key = b->at++ * 7919 % KEYS;
        struct sl_part part = {
            .binding = &b->check.active->stored[0],
            .limit = &plan->numbers,
            .key = {(const char *)&key, sizeof(key)},
            .cost = 1,
        };

        (void)!sl_table_decide(b->table, &part, 1, b->now += 1000, true);
        sum += part.answer.remaining;
    }
    return sum;
}

/* On the same memory: the first half of the routes is plain. */
static uint64_t plain_half(void *ctx, uint64_t rounds)
{
    struct bench *b = ctx;

    b->first = 0;
    b->count = b->routes / 2;
    return whole_decision(b, rounds);
}

static uint64_t conditional_half(void *ctx, uint64_t rounds)
{
    struct bench *b = ctx;

    b->count = b->routes / 2;
    b->first = b->routes - b->count;
    return whole_decision(b, rounds);
}

/* ---- denials ---- */

static struct sl_denial_ring *ring;
static struct sl_recorder *recorder;

static void open_denials(struct bench *b)
{
    static const struct sl_hash_key key = {1, 2};

    open_bench(b, 10, 10);
    b->cost = 10000000; /* more than the limit ever has */
    if (sl_denial_ring_open(NULL, &ring) ||
        sl_recorder_open(NULL, &key, &recorder))
        die("there is no memory");
    sl_denial_ring_keep(ring, true);
    sl_recorder_keep(recorder, true);
}

static uint64_t with_ring(void *ctx, uint64_t rounds)
{
    struct bench *b = ctx;
    uint64_t sum;

    b->ring = ring;
    sum = whole_decision(b, rounds);
    b->ring = NULL;
    return sum;
}

static uint64_t with_recorder(void *ctx, uint64_t rounds)
{
    struct bench *b = ctx;
    uint64_t sum;

    b->recorder = recorder;
    sum = whole_decision(b, rounds);
    b->recorder = NULL;
    return sum;
}

/* Makes decisions for others to measure. */
static int only_decide(const char *which, const char *rounds)
{
    static const struct {
        const char *name;
        uint64_t (*decide)(void *ctx, uint64_t rounds);
    } kinds[] = {
        {"bare",       bare_decision   },
        {"verdict",    with_verdict    },
        {"conditions", conditional_half},
        {"denials",    whole_decision  },
        {"ring",       with_ring       },
        {"recorder",   with_recorder   },
    };
    static struct bench mixed, denials;
    uint64_t count = strtoull(rounds, NULL, 10);

    open_bench(&mixed, 20, 10);
    open_denials(&denials);
    for (size_t i = 0; i < SL_LEN(kinds); i++)
        if (strcmp(which, kinds[i].name) == 0)
            return kinds[i].decide(i < 3 ? &mixed : &denials, count) == 0;
    return plain_half(&mixed, count) == 0;
}

/* What headers and JSON add to a decision, in ns. */
static void verdict_row(struct bench *b)
{
    struct pair p = measure(bare_decision, b, with_verdict, b);
    double added = p.candidate - p.reference;

    printf("headers and verdict\t%.0f\t<= 250\t%s\tns beside the decision; "
           "%.1f ns against %.1f ns\n",
           added, added <= 250 ? "ok" : "short", p.candidate, p.reference);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    static struct bench ten, thousand, mixed, denials;

    if (argc == 3)
        return only_decide(argv[1], argv[2]);
    open_bench(&ten, 10, 10);
    open_bench(&thousand, 1000, 1000);
    open_bench(&mixed, 20, 10);
    open_denials(&denials);
    print_row("whole decision", measure(bare_take, &ten, whole_decision, &ten),
              10, "facts to headers, 10 routes, against the bare take");
    verdict_row(&ten);
    print_row("1,000 routes",
              measure(whole_decision, &ten, whole_decision, &thousand), 2,
              "against 10 routes");
    print_row("cost and conditions",
              measure(plain_half, &mixed, conditional_half, &mixed), 1.1,
              "a cost and two conditions on a route, against one without");
    print_row("denial ring",
              measure(whole_decision, &denials, with_ring, &denials), 1.05,
              "a denial that the ring sees, against one that it does not");
    print_row("recorder",
              measure(whole_decision, &denials, with_recorder, &denials), 1.05,
              "a denial that what-if records or leaves out, against neither");
    return 0;
}
