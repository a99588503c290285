/* bench.c -- `sluice bench`: measure speed and check exactness.
 *
 * Speed is measured on random keys with a running clock. Exactness is checked
 * on one key: any number of threads must be admitted exactly as often as the
 * limits allow. In this process the clock stands still meanwhile. The clock of
 * a server runs; bench_url.c says what is expected then.
 */
#include "cli/bench.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/parse.h"

#define DEFAULT_KEYS     100000
#define KEYS_MAX         100000000
#define DEFAULT_DURATION (2 * SL_S)
#define DURATION_MAX     (10 * SL_MIN)

/* One key: admissions that take a few seconds at most, and the denials to
 * provoke after them; of a server, too. */
#define HOT_MAX  5000000
#define HOT_MORE 1000
#define URL_MAX  50000
#define URL_MORE 100

static const char built_in[] = "sluice: 1\n"
                               "limits:\n"
                               "  bench:\n"
                               "    kind: token-bucket\n"
                               "    per: user\n"
                               "    rate: 10k/s burst 10k\n"
                               "routes:\n"
                               "  - match: GET /bench\n"
                               "    limits: [bench]\n"
                               "default: [bench]\n";

#define THREADS_MAX 128

struct bench {
    struct sluice_policy *policy;
    const struct sl_daemon_client *server; /* NULL: in this process */
    char prefix[24];                       /* of the names of callers */
    struct sl_bench_target target;
    unsigned threads;
    uint64_t keys;
    sl_ns duration;

    uint64_t decisions, allowed; /* with random keys */
    sl_ns elapsed;
    struct sl_histogram latency;

    bool verified;     /* false: exactness cannot be checked */
    uint64_t admitted; /* with one key */
    uint64_t most;     /* that may be; the capacity if the clock stands still */
    struct sl_diag diag; /* why a server did not answer */
};

/* ---- choosing a request: the first route that limits a plain caller ----
 *
 * The number of admissions of one key follows from what the limits show before
 * anything is taken: the smallest of remaining divided by cost.
 */

#define STATE_BYTES ((size_t)1 << 20)

/* A path that matches the pattern: each star and each named segment becomes
 * x. */
static void fill_path(const char *pattern, char *out, size_t size)
{
    size_t len = 0;

    while (*pattern && len + 2 < size) {
        bool hole = *pattern == '*' ||
                    (*pattern == ':' && len > 0 && out[len - 1] == '/');

        out[len++] = hole ? 'x' : *pattern;
        if (hole)
            pattern += strcspn(pattern, "/");
        else
            pattern++;
    }
    out[len] = '\0';
}

/* Make a request of "GET,POST /api/x", "/api/x" or "job transcribe". */
static void aim_at_route(struct sl_bench_target *t, const char *route)
{
    const char *blank = strchr(route, ' ');
    size_t len = blank ? strcspn(route, ", ") : 0;

    snprintf(t->text, sizeof(t->text), "%s", route);
    if (strncmp(route, "job ", 4) == 0) {
        snprintf(t->path, sizeof(t->path), "%s", route + 4);
        t->request = (struct sluice_request){.job = t->path};
        return;
    }
    snprintf(t->method, sizeof(t->method), "%.*s", (int)len, route);
    if (len == 0 || strcmp(t->method, "*") == 0)
        snprintf(t->method, sizeof(t->method), "GET");
    fill_path(blank ? blank + 1 : route, t->path, sizeof(t->path));
    t->request = (struct sluice_request){.method = t->method, .path = t->path};
    snprintf(t->text, sizeof(t->text), "%.64s %.256s", t->method, t->path);
}

/* The smallest of remaining divided by cost, over all limits. */
static uint64_t least(const struct sluice_decision *now, const uint64_t *costs,
                      size_t count)
{
    uint64_t capacity = UINT64_MAX;

    for (size_t i = 0; i < count && i < sluice_decision_limits(now); i++) {
        struct sluice_shown s = sluice_decision_limit(now, i);
        uint64_t left = sluice_decision_exact(now, i).remaining;

        if (!s.limited || costs[i] == 0 || strcmp(s.mode, "enforce") != 0)
            continue;
        if (left / costs[i] < capacity)
            capacity = left / costs[i];
    }
    return capacity;
}

static int target_measure(struct sluice_engine *engine,
                          struct sluice_decision *decision,
                          struct sl_bench_target *t)
{
    struct sluice_request request = t->request;
    uint64_t costs[SLUICE_PARTS_MAX];
    size_t count;
    int err;

    request.user = request.org = "k0";
    if (request.limit)
        request.key = "k0";
    err = sluice_explain(engine, &request, decision);
    t->capacity = UINT64_MAX;
    if (err || !sluice_decision_allowed(decision))
        return err;
    count = sluice_decision_limits(decision);
    if (count > SLUICE_PARTS_MAX)
        count = SLUICE_PARTS_MAX;
    for (size_t i = 0; i < count; i++)
        costs[i] = sluice_decision_limit(decision, i).cost;
    request.has_cost = 1; /* cost 0 shows what remains */
    err = sluice_explain(engine, &request, decision);
    if (!err)
        t->capacity = least(decision, costs, count);
    return err;
}

/* Try routes first, then limits by name. */
static int choose(struct bench *load, struct sluice_engine *engine,
                  struct sluice_decision *decision)
{
    size_t routes = sluice_policy_routes(load->policy);
    size_t limits = sluice_policy_limits(load->policy);
    struct sl_bench_target *t = &load->target;
    int err = 0;

    for (size_t i = 0; i < routes + limits && !err; i++) {
        if (i < routes) {
            aim_at_route(t, sluice_policy_route_text(load->policy, i));
        } else {
            snprintf(t->path, sizeof(t->path), "%s",
                     sluice_policy_limit_name(load->policy, i - routes));
            snprintf(t->text, sizeof(t->text), "take %.500s", t->path);
            t->request = (struct sluice_request){.limit = t->path};
        }
        err = target_measure(engine, decision, t);
        if (!err && t->capacity < UINT64_MAX && t->capacity > 0)
            return 0;
    }
    return err ? err : SLUICE_ENOENT;
}

static int choose_target(struct bench *load)
{
    struct sluice_engine_options options = {.size = STATE_BYTES};
    struct sluice_decision *decision = sluice_decision_new();
    struct sluice_engine *engine = NULL;
    int err = decision ? 0 : SLUICE_ENOMEM;

    if (!err)
        err = sluice_engine_open(load->policy, &options, &engine);
    if (!err)
        err = choose(load, engine, decision);
    sluice_engine_close(engine);
    sluice_decision_free(decision);
    return err;
}

/* ---- histogram with steps that grow with the value ---- */

#define FINE 4 /* bits of a value that are kept below its highest bit */

static unsigned step_of(uint64_t value)
{
    unsigned top;

    if (value < (1u << FINE))
        return (unsigned)value;
    top = 63 - (unsigned)__builtin_clzll(value);
    return ((top - FINE + 1) << FINE) +
           (unsigned)(value >> (top - FINE) & ((1u << FINE) - 1));
}

/* The largest value of a step. */
static uint64_t value_of(unsigned step)
{
    unsigned shift = step >> FINE;
    uint64_t low = step & ((1u << FINE) - 1);

    if (shift == 0)
        return low;
    shift--;
    return (((low | 1u << FINE) + 1) << shift) - 1;
}

void sl_histogram_add(struct sl_histogram *h, uint64_t value)
{
    h->count[step_of(value)]++;
    h->total++;
}

void sl_histogram_merge(struct sl_histogram *into,
                        const struct sl_histogram *from)
{
    for (unsigned i = 0; i < SL_HISTOGRAM_STEPS; i++)
        into->count[i] += from->count[i];
    into->total += from->total;
}

uint64_t sl_histogram_at(const struct sl_histogram *h, unsigned permille)
{
    /* Rounded up, so that enough values are at or below the result. */
    uint64_t rank =
        h->total / 1000 * permille + (h->total % 1000 * permille + 999) / 1000;
    uint64_t seen = 0;

    for (unsigned i = 0; i < SL_HISTOGRAM_STEPS; i++) {
        seen += h->count[i];
        if (h->count[i] > 0 && seen >= rank)
            return value_of(i);
    }
    return 0;
}

/* ---- threads that call an engine or a server ----
 *
 * A thread reads the clock once per decision. The end of one is the start of
 * the next, so latencies include the reading.
 */

struct shared {
    const struct bench *load;
    struct sluice_engine *engine;
    sl_ns now;              /* hot: the stopped clock */
    uint64_t attempts;      /* hot */
    _Atomic uint64_t asked; /* hot */
    atomic_bool stop;       /* a thread failed */
};

struct worker {
    struct shared *shared;
    pthread_t thread;
    struct sluice_decision *decision; /* in this process */
    struct sl_bench_conn conn;        /* to a server */
    uint64_t seed;
    int err;
    uint64_t allowed;
    struct sl_histogram latency;
};

static int64_t on_now(void *ctx)
{
    return ((struct shared *)ctx)->now;
}

static uint64_t next_random(uint64_t *seed)
{
    uint64_t x = *seed;

    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    return *seed = x;
}

static int ask_engine(struct worker *w, const char *name, bool *ret_allowed)
{
    struct sluice_request request = w->shared->load->target.request;
    int err;

    request.user = request.org = name;
    if (request.limit)
        request.key = name;
    err = sluice_decide(w->shared->engine, &request, w->decision);
    if (!err)
        *ret_allowed = sluice_decision_allowed(w->decision) != 0;
    return err;
}

static int ask(struct worker *w, uint64_t key)
{
    const struct bench *load = w->shared->load;
    bool allowed = false;
    char name[48];
    int err;

    snprintf(name, sizeof(name), "%s%" PRIu64, load->prefix, key);
    if (load->server)
        err = sl_bench_check(&w->conn, &load->target, name, &allowed);
    else
        err = ask_engine(w, name, &allowed);
    w->allowed += !err && allowed;
    return err;
}

/* Ask with random keys for the duration of the run. */
static int ask_random(struct worker *w)
{
    const struct bench *load = w->shared->load;
    struct sl_clock clock;
    sl_ns now, before, end;
    int err = 0;

    sl_clock_init_real(&clock);
    before = sl_clock_now(&clock);
    end = before + load->duration;
    while (!err && before < end && !atomic_load(&w->shared->stop)) {
        err = ask(w, 1 + next_random(&w->seed) % load->keys);
        now = sl_clock_now(&clock);
        /* Ignore a step of the wall clock. */
        sl_histogram_add(&w->latency,
                         now > before ? (uint64_t)(now - before) : 0);
        before = now;
    }
    return err;
}

/* Ask with one key. */
static int ask_hot(struct worker *w)
{
    struct shared *s = w->shared;
    int err = 0;

    while (!err && !atomic_load(&s->stop) &&
           atomic_fetch_add(&s->asked, 1) < s->attempts)
        err = ask(w, 0);
    return err;
}

static int open_worker(struct worker *w)
{
    if (w->shared->load->server)
        sl_bench_conn_init(&w->conn, w->shared->load->server);
    else if (!(w->decision = sluice_decision_new()))
        return SLUICE_ENOMEM;
    return 0;
}

static void close_worker(struct worker *w)
{
    if (w->shared->load->server)
        sl_bench_conn_done(&w->conn);
    sluice_decision_free(w->decision);
}

static void *on_thread(void *ctx)
{
    struct worker *w = ctx;

    w->err = open_worker(w);
    if (!w->err)
        w->err = w->shared->attempts ? ask_hot(w) : ask_random(w);
    if (w->err)
        atomic_store(&w->shared->stop, true);
    close_worker(w);
    return NULL;
}

/* Start all threads and join them. */
static int run_threads(struct shared *shared, struct worker *workers,
                       unsigned count)
{
    unsigned begun = 0;
    int err = 0;

    while (begun < count) {
        struct worker *w = &workers[begun];

        *w =
            (struct worker){.shared = shared,
                            .seed = UINT64_C(0x9e3779b97f4a7c15) * (begun + 1)};
        if (pthread_create(&w->thread, NULL, on_thread, w)) {
            atomic_store(&shared->stop, true);
            err = SLUICE_ESYS;
            break;
        }
        begun++;
    }
    for (unsigned i = 0; i < begun; i++) {
        pthread_join(workers[i].thread, NULL);
        if (workers[i].err)
            err = workers[i].err;
    }
    return err;
}

/* Adds up what the threads have seen. */
static void sum_up(struct bench *b, const struct worker *workers, bool hot)
{
    uint64_t allowed = 0;

    for (unsigned i = 0; i < b->threads; i++) {
        allowed += workers[i].allowed;
        sl_histogram_merge(&b->latency, &workers[i].latency);
    }
    if (hot) {
        b->admitted += allowed;
        return;
    }
    b->allowed = allowed;
    b->decisions = b->latency.total;
}

/* Run the threads against the server or a new engine: with random keys, or if
 * `attempts` is above 0 with one key, while an engine's clock stands still. */
static int drive(struct bench *b, uint64_t attempts)
{
    size_t size = b->threads * sizeof(struct worker);
    struct worker *workers = sl_alloc_new(&sl_alloc_libc, size);
    struct shared shared = {
        .load = b, .now = sl_clock_wall(), .attempts = attempts};
    struct sluice_engine_options options = {.now = on_now, .now_ctx = &shared};
    struct sl_clock clock;
    sl_ns begun;
    int err = 0;

    if (!workers)
        return SLUICE_ENOMEM;
    sl_clock_init_real(&clock);
    begun = sl_clock_now(&clock);
    if (!b->server)
        err = sluice_engine_open(b->policy, attempts ? &options : NULL,
                                 &shared.engine);
    if (!err)
        err = run_threads(&shared, workers, b->threads);
    sluice_engine_close(shared.engine);
    if (!err)
        sum_up(b, workers, attempts > 0);
    for (unsigned i = 0; err && b->server && i < b->threads; i++)
        if (workers[i].err)
            b->diag = workers[i].conn.diag;
    if (!attempts)
        b->elapsed = sl_clock_now(&clock) - begun;
    sl_alloc_free(&sl_alloc_libc, workers, size);
    return err;
}

/* ---- the command ---- */

/* Read a flag between `least` and `most`; keep the value if it is not given. */
static int read_number(struct sl_cli_args *args, const char *flag,
                       uint64_t least, uint64_t most, uint64_t *value)
{
    const char *text = sl_cli_flag(args, flag);
    struct sl_diag diag = {.line = 0};
    uint64_t n = 0;

    if (!text)
        return 0;
    if (sl_parse_count(sl_str_c(text), &n, &diag))
        return sl_cli_misuse(args, "--%s: %s", flag, diag.sentence);
    if (n < least || n > most)
        return sl_cli_misuse(
            args, "--%s must lie between %" PRIu64 " and %" PRIu64 ", not %s",
            flag, least, most, text);
    *value = n;
    return 0;
}

static int read_flags(struct sl_cli_args *args, struct bench *b)
{
    long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    uint64_t threads = cpus > 0 && cpus <= THREADS_MAX ? (uint64_t)cpus : 1;
    int status;

    b->keys = DEFAULT_KEYS;
    b->duration = DEFAULT_DURATION;
    status = read_number(args, "threads", 1, THREADS_MAX, &threads);
    if (!status)
        status = read_number(args, "keys", 1, KEYS_MAX, &b->keys);
    if (!status)
        status = sl_flag_duration(args, "duration", &b->duration);
    if (!status && (b->duration < SL_MS || b->duration > DURATION_MAX))
        return sl_cli_misuse(args,
                             "--duration must lie between 1ms and 10m, not %s",
                             sl_cli_flag(args, "duration"));
    b->threads = (unsigned)threads;
    return status;
}

static int open_policy(struct sl_cli_args *args, struct bench *b)
{
    if (args->word_count > 0)
        return sl_need_policy(args, args->words[0], &b->policy);
    if (sluice_policy_parse("built-in", built_in, strlen(built_in), NULL,
                            &b->policy, NULL))
        return sl_cli_error(args, SL_EXIT_STORE, "%s", sluice_why());
    return 0;
}

/* sluice_why() is per thread and may be empty here. */
static int failed(struct sl_cli_args *args, const struct bench *b)
{
    if (b->diag.sentence[0])
        return sl_cli_error(args, SL_EXIT_UNREACHABLE, "%s", b->diag.sentence);
    return sl_cli_error(args, SL_EXIT_STORE, "%s",
                        sluice_why()[0] ? sluice_why() : "a decision failed");
}

static int no_target(struct sl_cli_args *args)
{
    return sl_cli_fail(args,
                       "no route of the policy has a limit per user or org; "
                       "there is nothing to measure");
}

static int measure_engine(struct sl_cli_args *args, struct bench *b)
{
    uint64_t capacity;
    int err = choose_target(b);

    if (err == SLUICE_ENOENT)
        return no_target(args);
    if (!err)
        err = drive(b, 0);
    capacity = b->most = b->target.capacity;
    if (!err && capacity <= HOT_MAX) {
        err = drive(b, capacity + HOT_MORE);
        /* A plan with overage never denies. */
        b->verified =
            args->word_count == 0 || b->admitted < capacity + HOT_MORE;
    }
    return err ? failed(args, b) : 0;
}

/* ---- measuring a server ---- */

/* Asks with one new key until it is denied. The first check has shown what it
 * costs. */
static int verify_server(struct bench *b, struct sl_bench_conn *conn)
{
    const struct sl_bench_target *t = &b->target;
    struct sl_bench_answer before, after, last;
    struct sl_clock clock;
    char key[32];
    sl_ns begun;
    int err;

    snprintf(key, sizeof(key), "%s0", b->prefix);
    sl_clock_init_real(&clock);
    begun = sl_clock_now(&clock);
    err = sl_bench_ask(conn, "/v1/explain", t, key, &before);
    if (!err)
        err = sl_bench_ask(conn, "/v1/check", t, key, &after);
    if (err)
        return err;
    b->target.capacity = sl_bench_capacity(&before, &after);
    if (b->target.capacity == 0 || b->target.capacity > URL_MAX)
        return 0;
    b->admitted = 1;
    err = drive(b, b->target.capacity + URL_MORE);
    if (!err)
        err = sl_bench_ask(conn, "/v1/explain", t, key, &last);
    if (err)
        return err;
    b->most =
        sl_bench_most(&before, &after, &last, sl_clock_now(&clock) - begun);
    b->verified = b->most > 0 && b->admitted <= b->target.capacity + URL_MORE;
    return 0;
}

/* A server has the policy of POLICY, or limits what no route matches. */
static int aim_at_server(struct sl_cli_args *args, struct bench *b)
{
    int err = args->word_count > 0 ? choose_target(b) : 0;

    if (args->word_count == 0)
        aim_at_route(&b->target, "GET /bench");
    if (err == SLUICE_ENOENT)
        return no_target(args);
    return err ? failed(args, b) : 0;
}

/* Callers of an earlier run have used up their limits: names are new. */
static int measure_server(struct sl_cli_args *args, struct bench *b)
{
    struct sl_bench_conn conn;
    struct sl_bench_answer first;
    int status = aim_at_server(args, b), err;

    if (status)
        return status;
    snprintf(b->prefix, sizeof(b->prefix), "bench-%" PRIx64 "-",
             (uint64_t)sl_clock_wall() / (uint64_t)SL_US);
    sl_bench_conn_init(&conn, b->server);
    err = sl_bench_ask(&conn, "/v1/explain", &b->target, b->prefix, &first);
    if (!err && first.count == 0)
        status = sl_cli_fail(args,
                             "%s does not limit %s; name the policy that it "
                             "runs: sluice bench --url URL sluice.yaml",
                             conn.client.where, b->target.text);
    if (!err && !status)
        err = drive(b, 0);
    if (!err && !status)
        err = verify_server(b, &conn);
    if (err && !b->diag.sentence[0])
        b->diag = conn.diag;
    sl_bench_conn_done(&conn);
    if (status)
        return status;
    return err ? failed(args, b) : 0;
}

static int measure(struct sl_cli_args *args, struct bench *b)
{
    return b->server ? measure_server(args, b) : measure_engine(args, b);
}

static bool is_exact(const struct bench *b)
{
    return b->admitted >= b->target.capacity && b->admitted <= b->most;
}

static uint64_t per_second(const struct bench *b)
{
    uint64_t us = (uint64_t)(b->elapsed / SL_US);

    return us ? b->decisions * 1000000 / us : 0;
}

static const struct {
    const char *name;
    unsigned permille;
} marks[] = {
    {"p50",   500},
    {"p90",   900},
    {"p99",   990},
    {"p99.9", 999},
};

static void print_json(FILE *out, const struct bench *b)
{
    sl_out_json(out, "{\"request\":", b->target.text);
    fprintf(out,
            ",\"threads\":%u,\"keys\":%" PRIu64 ",\"elapsed_ms\":%" PRId64
            ",\"decisions\":%" PRIu64 ",\"per_second\":%" PRIu64
            ",\"allowed\":%" PRIu64 ",\"denied\":%" PRIu64 ",\"latency_ns\":{",
            b->threads, b->keys, b->elapsed / SL_MS, b->decisions,
            per_second(b), b->allowed, b->decisions - b->allowed);
    for (size_t i = 0; i < SL_LEN(marks); i++)
        fprintf(out, "%s\"%s\":%" PRIu64, i ? "," : "", marks[i].name,
                sl_histogram_at(&b->latency, marks[i].permille));
    if (!b->verified) {
        fputs("},\"exact\":null}\n", out);
        return;
    }
    fprintf(out,
            "},\"exact\":%s,\"admitted\":%" PRIu64 ",\"expected\":%" PRIu64,
            is_exact(b) ? "true" : "false", b->admitted, b->target.capacity);
    if (b->server)
        fprintf(out, ",\"expected_most\":%" PRIu64, b->most);
    fputs("}\n", out);
}

static void print_table(FILE *out, const struct bench *b)
{
    char span[32];

    sl_out_print(out, "%s: %u thread%s, %" PRIu64 " keys, %s\n", b->target.text,
                 b->threads, b->threads == 1 ? "" : "s", b->keys,
                 sl_format_duration(b->duration, span));
    fprintf(out, "  decisions/s  %" PRIu64 "\n", per_second(b));
    fprintf(out, "  allowed      %" PRIu64 " of %" PRIu64 "\n", b->allowed,
            b->decisions);
    for (size_t i = 0; i < SL_LEN(marks); i++)
        fprintf(out, "  %-12s %" PRIu64 " ns\n", marks[i].name,
                sl_histogram_at(&b->latency, marks[i].permille));
    fputs("  exact        ", out);
    if (!b->verified) {
        fputs(b->server ? "not tested: the limit is too large, its window "
                          "ended meanwhile, or it never denies\n"
                        : "not tested: the limit is too large, or it never "
                          "denies\n",
              out);
        return;
    }
    sl_out_coloured(out, is_exact(b) ? SL_GREEN : SL_RED,
                    is_exact(b) ? "yes" : "NO");
    fprintf(out, ": %" PRIu64 " admitted for one key%s, %" PRIu64, b->admitted,
            b->server ? "" : " with the clock stopped", b->target.capacity);
    if (b->most > b->target.capacity)
        fprintf(out, " to %" PRIu64, b->most);
    fputs(" expected\n", out);
}

static int run_bench(struct sl_cli_args *args,
                     const struct sl_daemon_client *server)
{
    struct bench bench = {.verified = false, .prefix = "k", .server = server};
    int status = read_flags(args, &bench);

    if (!status)
        status = open_policy(args, &bench);
    if (!status)
        status = measure(args, &bench);
    sluice_policy_release(bench.policy);
    if (status)
        return status;
    if (args->format == SL_FORMAT_JSON)
        print_json(args->cli->out, &bench);
    else
        print_table(args->cli->out, &bench);
    return bench.verified && !is_exact(&bench) ? SL_EXIT_FAILED : SL_EXIT_OK;
}

static int run_with_server(struct sl_cli_request *r)
{
    if (r->client.redis)
        return sl_cli_misuse(r->args, "--url must be http:// or unix:");
    return run_bench(r->args, &r->client);
}

static int run(struct sl_cli_args *args)
{
    if (sl_cli_flag(args, "url"))
        return sl_cli_request_run(args, run_with_server);
    return run_bench(args, NULL);
}

static const struct sl_flag flags[] = {
    {'\0', "duration", "TIME", "duration of the measurement (2s)"  },
    {'\0', "threads",  "N",    "number of threads (one per CPU)"   },
    {'\0', "keys",     "N",    "number of different callers (100k)"},
    {'\0', NULL,       NULL,   NULL                                },
};

const struct sl_command sl_command_bench = {
    .name = "bench",
    .usage = "[POLICY]",
    .summary = "Measure throughput and verify exactness",
    .help = "Makes decisions in this process, for the first route of the\n"
            "policy that has a limit. Without POLICY it uses a built-in\n"
            "policy. Then all threads take from one key with the clock\n"
            "stopped. It exits 1 unless exactly the capacity of the limits\n"
            "is admitted.\n"
            "\n"
            "With --url it asks a server, one connection per thread. POLICY\n"
            "is the policy of the server; without it, the limits of what no\n"
            "route matches are asked. Callers have new names in each run.\n"
            "The clock of the server runs, so what its buckets refill\n"
            "meanwhile may be admitted, too.\n"
            "\n"
            "  sluice bench\n"
            "  sluice bench sluice.yaml --threads 4 --duration 10s\n"
            "  sluice bench sluice.yaml --url http://127.0.0.1:8080\n"
            "  sluice bench -o json | jq .per_second\n",
    .words = "file",
    .formats = "table|json",
    .flags = flags,
    .listener = SL_LISTENER_HTTP,
    .most = 1,
    .run = run,
};
