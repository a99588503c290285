/* what_if.c -- what the last minutes would have been: see what_if.h. */
#include "server/what_if.h"

#include <stdlib.h>
#include <string.h>

#include "base/timestamp.h"
#include "store/store.h"
#include "wire/json.h"

#define STORE_BYTES ((uint64_t)16 << 20)
#define ENDPOINTS   64 /* beyond them only the total counts */

/* A policy that decides the recorded requests again. */
struct side {
    sl_ns now;
    struct sl_engine *engine;
    struct sl_engine_ctx ctx;
    struct sl_check check;
};

struct sums {
    struct sl_str name;
    uint64_t requests, denied; /* recorded */
    uint64_t by[2]; /* denied now: by the active one, the candidate */
    uint64_t newly_denied, newly_allowed;
};

struct run {
    struct side sides[2];
    struct sums total, endpoints[ENDPOINTS];
    unsigned endpoint_count;
};

static sl_ns on_now(void *ctx)
{
    return ((struct side *)ctx)->now;
}

static int open_side(struct side *side, struct sl_policy *policy,
                     const struct sl_alloc *alloc)
{
    struct sl_memory_options memory = {
        .size = STORE_BYTES, .alloc = alloc, .now = on_now, .now_ctx = side};
    struct sl_engine_options options = {
        .alloc = alloc, .now = on_now, .now_ctx = side};
    struct sl_diag diag;
    int err = sl_memory_open(&memory, &options.store, &diag);

    if (err)
        return err;
    err = sl_engine_open(&options, policy, &side->engine, &diag);
    if (err) {
        sl_store_close(options.store);
        return err;
    }
    sl_check_init(&side->check, side->engine, &side->ctx, alloc);
    side->check.no_wait = true;
    return 0;
}

static void close_side(struct side *side)
{
    if (!side->engine)
        return;
    sl_check_done(&side->check);
    sl_engine_close(side->engine);
}

/* ---- deciding ---- */

/* A request that the policy cannot decide (its limit is not there) passes. */
static bool denies(struct side *side, const struct sl_request *request)
{
    side->now = request->now;
    sl_check_start(&side->check, request, 1, true);
    return !side->check.err && !side->check.decision.allowed;
}

static struct sums *find_endpoint(struct run *run, struct sl_str name)
{
    for (unsigned i = 0; i < run->endpoint_count; i++)
        if (sl_str_eq(run->endpoints[i].name, name))
            return &run->endpoints[i];
    if (run->endpoint_count == ENDPOINTS)
        return NULL;
    run->endpoints[run->endpoint_count].name = name;
    return &run->endpoints[run->endpoint_count++];
}

static void count(struct sums *sums, bool denied, const bool by[2])
{
    sums->requests++;
    sums->denied += denied;
    for (unsigned i = 0; i < 2; i++)
        sums->by[i] += by[i];
    sums->newly_denied += by[1] && !by[0];
    sums->newly_allowed += by[0] && !by[1];
}

static void decide(struct run *run, const struct sl_recorded *record)
{
    struct sl_recorded_lists lists;
    struct sl_request request = sl_recorded_request(record, &lists);
    struct sums *endpoint =
        find_endpoint(run, sl_recorded_text(record, SL_RECORDED_ENDPOINT));
    bool by[2];

    for (unsigned i = 0; i < 2; i++)
        by[i] = denies(&run->sides[i], &request);
    count(&run->total, !record->allowed, by);
    if (endpoint)
        count(endpoint, !record->allowed, by);
}

/* ---- the answer ---- */

static void write_sums(struct sl_writer *w, const struct sums *sums)
{
    const struct {
        const char *name;
        uint64_t value;
    } members[] = {
        {"requests",      sums->requests     },
        {"denied",        sums->denied       },
        {"active",        sums->by[0]        },
        {"candidate",     sums->by[1]        },
        {"newly_denied",  sums->newly_denied },
        {"newly_allowed", sums->newly_allowed},
    };

    for (size_t i = 0; i < SL_LEN(members); i++) {
        sl_json_key(w, sl_str_c(members[i].name));
        sl_json_uint(w, members[i].value);
    }
}

static int write_run(const struct run *run, sl_ns from, unsigned shift,
                     struct sl_buf *out)
{
    struct sl_writer w = {.out = out};
    char text[SL_TIMESTAMP_TEXT];

    sl_timestamp_print(from, false, text);
    sl_json_open(&w, '{');
    sl_json_member_text(&w, "from", text);
    sl_json_key(&w, SL_STR("share"));
    sl_writer_addf(&w, "%.6g", 1.0 / (double)(UINT64_C(1) << shift));
    write_sums(&w, &run->total);
    sl_json_key(&w, SL_STR("endpoints"));
    sl_json_open(&w, '[');
    for (unsigned i = 0; i < run->endpoint_count; i++) {
        sl_json_open(&w, '{');
        sl_json_member_str(&w, "name", run->endpoints[i].name);
        write_sums(&w, &run->endpoints[i]);
        sl_json_close(&w, '}');
    }
    sl_json_close(&w, ']');
    sl_json_close(&w, '}');
    return w.err;
}

static int by_time(const void *a, const void *b)
{
    const struct sl_recorded *x = a, *y = b;

    return (x->at > y->at) - (x->at < y->at);
}

static int run_all(struct run *run, const struct sl_what_if *of,
                   struct sl_recorded *records, struct sl_buf *out)
{
    unsigned count = 0, shift = 0;
    sl_ns from = of->from;
    int err = open_side(&run->sides[0], of->active, of->alloc);

    if (!err)
        err = open_side(&run->sides[1], of->candidate, of->alloc);
    if (err)
        return err;
    for (unsigned i = 0; i < of->count; i++)
        count += sl_recorder_copy(of->recorders[i], of->from, records + count,
                                  &shift);
    qsort(records, count, sizeof(*records), by_time);
    if (count > 0 && records[0].at > from)
        from = records[0].at;
    for (unsigned i = 0; i < count; i++)
        if (sl_recorded_is_in(&records[i], shift))
            decide(run, &records[i]);
    return write_run(run, from, shift, out);
}

int sl_what_if(const struct sl_what_if *of, struct sl_buf *out)
{
    size_t size =
        (size_t)of->count * SL_RECORDER_RING * sizeof(struct sl_recorded);
    struct sl_recorded *records = sl_alloc_new(of->alloc, size);
    struct run *run = sl_alloc_new(of->alloc, sizeof(*run));
    int err = SLUICE_ENOMEM;

    if (run)
        memset(run, 0, sizeof(*run));
    if (run && records)
        err = run_all(run, of, records, out);
    for (unsigned i = 0; run && i < 2; i++)
        close_side(&run->sides[i]);
    if (run)
        sl_alloc_free(of->alloc, run, sizeof(*run));
    if (records)
        sl_alloc_free(of->alloc, records, size);
    return err;
}
