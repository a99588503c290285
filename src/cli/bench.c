/* bench.c -- sluice bench: how fast, and is it exact?
 *
 * Speed is measured on random keys with the clock running. Exactness is shown
 * on one key with the clock standing still: however many threads ask at once,
 * the limits admit what they hold, not one more and not one less.
 */
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "base/parse.h"
#include "cli/bench/load.h"
#include "cli/errand.h"
#include "cli/out.h"

#define DEFAULT_KEYS     100000
#define KEYS_MAX         100000000
#define DEFAULT_DURATION (2 * SL_S)
#define DURATION_MAX     (10 * SL_MIN)
#define HOT_MAX          5000000 /* what can be emptied in a few seconds */
#define HOT_MORE         1000    /* and so many are turned away */

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

struct bench {
    struct sl_load load;
    struct sl_load_result result;
    bool verified; /* could exactness be tried? */
    uint64_t admitted;
};

/* A number between `least` and `most`, or what is there if the flag is not. */
static int read_number(struct sl_call *call, const char *flag, uint64_t least,
                       uint64_t most, uint64_t *value)
{
    const char *text = sl_call_flag(call, flag);
    struct sl_diag diag = {.line = 0};
    uint64_t n = 0;

    if (!text)
        return 0;
    if (sl_parse_count(sl_str_c(text), &n, &diag))
        return sl_complain(call, SL_EXIT_USAGE, "--%s: %s", flag,
                           diag.sentence);
    if (n < least || n > most)
        return sl_complain(call, SL_EXIT_USAGE,
                           "--%s must lie between %" PRIu64 " and %" PRIu64
                           ", not %s",
                           flag, least, most, text);
    *value = n;
    return 0;
}

static int read_duration(struct sl_call *call, sl_ns *value)
{
    const char *text = sl_call_flag(call, "duration");
    struct sl_diag diag = {.line = 0};
    sl_ns span = 0;

    if (!text)
        return 0;
    if (sl_parse_duration(sl_str_c(text), &span, &diag))
        return sl_complain(call, SL_EXIT_USAGE, "--duration: %s",
                           diag.sentence);
    if (span < SL_MS || span > DURATION_MAX)
        return sl_complain(call, SL_EXIT_USAGE,
                           "--duration must lie between 1ms and 10m, not %s",
                           text);
    *value = span;
    return 0;
}

static int read_flags(struct sl_call *call, struct sl_load *load)
{
    long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    uint64_t threads = cpus > 0 && cpus <= SL_LOAD_THREADS ? (uint64_t)cpus : 1;
    int status;

    if (sl_call_flag(call, "url"))
        return sl_complain(call, SL_EXIT_USAGE,
                           "--url is not supported in this version");
    load->keys = DEFAULT_KEYS;
    load->duration = DEFAULT_DURATION;
    status = read_number(call, "threads", 1, SL_LOAD_THREADS, &threads);
    if (!status)
        status = read_number(call, "keys", 1, KEYS_MAX, &load->keys);
    if (!status)
        status = read_duration(call, &load->duration);
    load->threads = (unsigned)threads;
    return status;
}

static int open_policy(struct sl_call *call, struct sl_load *load)
{
    if (call->word_count > 0)
        return sl_need_policy(call, call->words[0], &load->policy);
    if (sluice_policy_parse("built-in", built_in, strlen(built_in), NULL,
                            &load->policy, NULL))
        return sl_complain(call, SL_EXIT_STORE, "%s", sluice_why());
    return 0;
}

static int measure(struct sl_call *call, struct bench *b)
{
    uint64_t capacity;
    int err = sl_load_aim(&b->load);

    if (err == SLUICE_ENOENT)
        return sl_complain(call, SL_EXIT_NO,
                           "no route of the policy has a limit per user or "
                           "org; there is nothing to measure");
    if (!err)
        err = sl_load_drive(&b->load, &b->result);
    capacity = b->load.target.capacity;
    if (!err && capacity <= HOT_MAX) {
        err = sl_load_hot(&b->load, capacity + HOT_MORE, &b->admitted);
        /* A plan with overage is never refused. */
        b->verified =
            call->word_count == 0 || b->admitted < capacity + HOT_MORE;
    }
    /* What a thread was told stays with that thread. */
    if (err)
        return sl_complain(call, SL_EXIT_STORE, "%s",
                           sluice_why()[0] ? sluice_why()
                                           : "a decision failed");
    return 0;
}

static bool is_exact(const struct bench *b)
{
    return b->admitted == b->load.target.capacity;
}

static uint64_t per_second(const struct bench *b)
{
    uint64_t us = (uint64_t)(b->result.elapsed / SL_US);

    return us ? b->result.decisions * 1000000 / us : 0;
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
    fputs("{\"request\":", out);
    sl_out_json(out, b->load.target.text);
    fprintf(out,
            ",\"threads\":%u,\"keys\":%" PRIu64 ",\"elapsed_ms\":%" PRId64
            ",\"decisions\":%" PRIu64 ",\"per_second\":%" PRIu64
            ",\"allowed\":%" PRIu64 ",\"denied\":%" PRIu64 ",\"latency_ns\":{",
            b->load.threads, b->load.keys, b->result.elapsed / SL_MS,
            b->result.decisions, per_second(b), b->result.allowed,
            b->result.decisions - b->result.allowed);
    for (size_t i = 0; i < SL_LEN(marks); i++)
        fprintf(out, "%s\"%s\":%" PRIu64, i ? "," : "", marks[i].name,
                sl_histogram_at(&b->result.latency, marks[i].permille));
    if (b->verified)
        fprintf(out,
                "},\"exact\":%s,\"admitted\":%" PRIu64 ",\"expected\":%" PRIu64
                "}\n",
                is_exact(b) ? "true" : "false", b->admitted,
                b->load.target.capacity);
    else
        fputs("},\"exact\":null}\n", out);
}

static void print_table(FILE *out, const struct bench *b)
{
    char span[32];

    sl_out_clean(out, b->load.target.text);
    fprintf(out, ": %u thread%s, %" PRIu64 " keys, %s\n", b->load.threads,
            b->load.threads == 1 ? "" : "s", b->load.keys,
            sl_format_duration(b->load.duration, span));
    fprintf(out, "  decisions/s  %" PRIu64 "\n", per_second(b));
    fprintf(out, "  allowed      %" PRIu64 " of %" PRIu64 "\n",
            b->result.allowed, b->result.decisions);
    for (size_t i = 0; i < SL_LEN(marks); i++)
        fprintf(out, "  %-12s %" PRIu64 " ns\n", marks[i].name,
                sl_histogram_at(&b->result.latency, marks[i].permille));
    fputs("  exact        ", out);
    if (!b->verified) {
        fputs("not tested: the limit is too large, or it never denies\n", out);
        return;
    }
    sl_out_colour(out, is_exact(b) ? SL_GREEN : SL_RED);
    fputs(is_exact(b) ? "yes" : "NO", out);
    sl_out_colour(out, SL_PLAIN);
    fprintf(out,
            ": %" PRIu64
            " admitted for one key with the clock stopped, %" PRIu64
            " expected\n",
            b->admitted, b->load.target.capacity);
}

static int run(struct sl_call *call)
{
    struct bench bench = {.verified = false};
    int status = read_flags(call, &bench.load);

    if (!status)
        status = open_policy(call, &bench.load);
    if (!status)
        status = measure(call, &bench);
    sluice_policy_release(bench.load.policy);
    if (status)
        return status;
    if (call->format == SL_FORMAT_JSON)
        print_json(call->cli->out, &bench);
    else
        print_table(call->cli->out, &bench);
    return bench.verified && !is_exact(&bench) ? SL_EXIT_NO : SL_EXIT_OK;
}

static const struct sl_flag flags[] = {
    {'\0', "duration", "TIME", "duration of the measurement (2s)"  },
    {'\0', "threads",  "N",    "number of threads (one per CPU)"   },
    {'\0', "keys",     "N",    "number of different callers (100k)"},
    {'\0', "url",      "URL",  "URL of a server (not supported)"   },
    {'\0', NULL,       NULL,   NULL                                },
};

const struct sl_errand sl_errand_bench = {
    .name = "bench",
    .usage = "[POLICY]",
    .summary = "Measure throughput and verify exactness",
    .help = "Makes decisions in this process, for the first route of the "
            "policy that has a\n"
            "limit. Without POLICY it uses a built-in policy. Then all threads "
            "take from one\n"
            "key with the clock stopped. It exits 1 unless exactly the "
            "capacity of the limits\n"
            "is admitted.\n"
            "\n"
            "  sluice bench\n"
            "  sluice bench sluice.yaml --threads 4 --duration 10s\n"
            "  sluice bench -o json | jq .per_second\n",
    .words = "file",
    .formats = "table|json",
    .flags = flags,
    .most = 1,
    .run = run,
};
