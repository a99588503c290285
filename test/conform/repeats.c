/* repeats.c -- the memory of repeats conforms, wherever it is: random histories
 * of two daemons, against a model. The invariants are those of store/repeats.h,
 * by number.
 *
 *   repeats SOCKET | PORT | cache | file | sqlite | postgres
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check.h"
#include "engine/engine_int.h"
#include "far.h"
#include "registry/pg.h"
#include "registry/registry.h"
#include "rng.h"

#define DAY_0  (20000 * SL_DAY)
#define KEYS   5
#define CLAIMS 12 /* that were made, and may be completed or dropped yet */

/* ---- the model ---- */

struct entry {
    bool there, done;
    struct sl_repeat_claim claim;
    uint64_t left;
    char memo[64];
};

struct model {
    struct entry entries[KEYS];
    bool endless; /* claims do not end by themselves: of one process */
};

static bool lives(const struct model *m, const struct entry *e, sl_ns now)
{
    if (!e->there)
        return false;
    if (!e->done)
        return m->endless || e->claim.pending > now; /* (4) */
    return e->claim.until > now && e->left > 0;      /* (3) */
}

static void model_call(struct model *m, unsigned key,
                       const struct sl_repeat_call *call,
                       enum sl_repeat_found *found, char memo[64])
{
    struct entry *e = &m->entries[key];
    bool own = e->there && e->claim.owner == call->claim.owner;

    *found = SL_REPEAT_FIRST;
    memo[0] = '\0';
    switch (call->op) {
    case SL_REPEAT_BEGIN:
    case SL_REPEAT_LOOK:
        if (lives(m, e, call->now)) {
            *found =
                !sl_hash128_eq(e->claim.fingerprint, call->claim.fingerprint)
                    ? SL_REPEAT_OTHER /* (2) */
                : e->done ? SL_REPEAT_AGAIN
                          : SL_REPEAT_RUNNING; /* (1) */
            if (*found == SL_REPEAT_AGAIN) {
                memcpy(memo, e->memo, sizeof(e->memo));
                e->left -= call->op == SL_REPEAT_BEGIN;
            }
        } else if (call->op == SL_REPEAT_BEGIN) {
            *e = (struct entry){.there = true, .claim = call->claim};
        }
        break;
    case SL_REPEAT_FINISH:
    case SL_REPEAT_PUT:
        if (call->op == SL_REPEAT_FINISH && e->there && !own) {
            *found = SL_REPEAT_OTHER; /* (4) */
            break;
        }
        *e = (struct entry){.there = true,
                            .done = true,
                            .claim = call->claim,
                            .left = call->claim.repeats};
        snprintf(e->memo, sizeof(e->memo), "%.*s", (int)call->len, call->memo);
        break;
    case SL_REPEAT_DROP:
        if (own && !e->done)
            e->there = false;
        break;
    }
}

/* ---- the memories ---- */

struct world {
    struct model model;
    struct sl_loop *loop;
    struct far far;
    struct sl_store *stores[2];
    struct sl_registry *registries[2];
    struct sl_replay_cache *cache;
    struct sl_replay_file *file;
    bool answered;
    struct rng rng;
    sl_ns now;
    uint64_t owners;
    struct {
        struct sl_repeat_claim claim;
        unsigned key;
    } open[CLAIMS];
};

static void on_called(struct sl_repeat_call *call)
{
    struct world *w = call->ctx;

    w->answered = true;
    if (w->loop)
        sl_loop_stop(w->loop);
}

static void on_job(struct sl_job *job)
{
    sl_loop_stop(job->loop);
}

static void call_registry(struct world *w, unsigned at,
                          struct sl_repeat_call *call)
{
    struct sl_job_repeat r = {
        .op = (enum sl_job_repeat_op)call->op,
        .now = call->now,
        .until = call->claim.until,
        .pending = call->claim.pending,
        .repeats = call->claim.repeats,
        .memo = {call->memo, call->len}
    };
    struct sl_job job;

    snprintf(r.key, sizeof(r.key), "%016" PRIx64 "%016" PRIx64,
             call->claim.key.hi, call->claim.key.lo);
    snprintf(r.fingerprint, sizeof(r.fingerprint), "%016" PRIx64 "%016" PRIx64,
             call->claim.fingerprint.hi, call->claim.fingerprint.lo);
    snprintf(r.owner, sizeof(r.owner), "%016" PRIx64, call->claim.owner);
    sl_job_init(&job, SL_JOB_REPEAT, &sl_alloc_libc);
    job.repeat = &r;
    job.loop = w->loop;
    job.done = on_job;
    sl_registry_ask(w->registries[at], &job);
    sl_loop_run(w->loop);
    call->err = job.err;
    call->found = (enum sl_repeat_found)r.found;
    call->len = job.text.len;
    if (call->len > 0)
        memcpy(call->memo, job.text.bytes, call->len);
    sl_job_clear(&job);
}

/* Two daemons take turns. */
static void call(struct world *w, struct sl_repeat_call *call)
{
    unsigned at = (unsigned)rng_below(&w->rng, 2);
    struct sl_repeats *repeats;

    call->done = on_called;
    call->ctx = w;
    call->loop = w->loop;
    call->err = 0;
    w->answered = false;
    if (w->cache) {
        sl_idempotency_cache(w->cache, call);
    } else if (w->registries[0]) {
        call_registry(w, at, call);
    } else {
        repeats = sl_remote_store_repeats(w->stores[at]);
        repeats->call(repeats, call);
        while (!w->answered && call->op != SL_REPEAT_DROP)
            sl_loop_run(w->loop);
    }
}

/* A DROP is not answered: the next call of the same daemon comes after it, that
 * of another may not. */
static void settle(struct world *w, unsigned key)
{
    struct sl_repeats *repeats;
    char memo[SL_REPEAT_MEMO];

    for (unsigned at = 0; at < 2 && w->stores[0]; at++) {
        struct sl_repeat_call look = {.op = SL_REPEAT_LOOK,
                                      .claim = {.key = {key, 99}},
                                      .now = w->now,
                                      .memo = memo,
                                      .loop = w->loop,
                                      .done = on_called,
                                      .ctx = w};

        w->answered = false;
        repeats = sl_remote_store_repeats(w->stores[at]);
        repeats->call(repeats, &look);
        while (!w->answered)
            sl_loop_run(w->loop);
    }
}

/* ---- histories ---- */

static struct sl_repeat_claim make_claim(struct world *w, unsigned key)
{
    return (struct sl_repeat_claim){
        .key = {key + 1, 7},
        .fingerprint = { 1 + rng_below(&w->rng, 4) / 3, 3},
        .until = w->now + (sl_ns)(1 + rng_below(&w->rng, 60)) * SL_S,
        .pending = w->now + (sl_ns)(1 + rng_below(&w->rng, 20)) * SL_S,
        .repeats = (uint32_t)(1 + rng_below(&w->rng, 3)),
        .owner = ++w->owners,
    };
}

/* Fills in a random call; returns its key. */
static unsigned next_call(struct world *w, struct sl_repeat_call *ret,
                          unsigned *slot)
{
    unsigned kind = (unsigned)rng_below(&w->rng, 20);
    unsigned key = (unsigned)rng_below(&w->rng, KEYS);

    *slot = (unsigned)rng_below(&w->rng, CLAIMS);
    ret->op = kind < 9    ? SL_REPEAT_BEGIN
              : kind < 12 ? SL_REPEAT_LOOK
              : kind < 17 ? SL_REPEAT_FINISH
              : kind < 19 ? SL_REPEAT_DROP
                          : SL_REPEAT_PUT;
    ret->claim = make_claim(w, key);
    if (ret->op == SL_REPEAT_FINISH || ret->op == SL_REPEAT_DROP) {
        key = w->open[*slot].key;
        ret->claim = w->open[*slot].claim;
    }
    return key;
}

/* A process ends only its own claims. */
static bool is_own(const struct world *w, unsigned key,
                   const struct sl_repeat_call *c)
{
    const struct entry *e = &w->model.entries[key];

    return e->there && !e->done && e->claim.owner == c->claim.owner;
}

/* Of a key whose entry is another's and over, nothing is promised: it may have
 * been removed. */
static bool is_open(const struct world *w, unsigned key,
                    const struct sl_repeat_call *c)
{
    const struct entry *e = &w->model.entries[key];

    return e->there && e->claim.owner != c->claim.owner &&
           !lives(&w->model, e, w->now);
}

static bool step(struct world *w)
{
    char memo[SL_REPEAT_MEMO] = "", want_memo[64];
    struct sl_repeat_call c = {.memo = memo, .now = w->now};
    enum sl_repeat_found want;
    unsigned slot, key = next_call(w, &c, &slot);

    if ((c.op == SL_REPEAT_FINISH || c.op == SL_REPEAT_DROP) &&
        (c.claim.owner == 0 || is_open(w, key, &c) ||
         (w->model.endless && !is_own(w, key, &c))))
        return true;
    if (c.op == SL_REPEAT_FINISH || c.op == SL_REPEAT_PUT)
        c.len = (size_t)snprintf(memo, 64, "1 %" PRIu64 " x",
                                 rng_next(&w->rng) % 1000);
    model_call(&w->model, key, &c, &want, want_memo);
    call(w, &c);
    if (c.op == SL_REPEAT_DROP) {
        settle(w, key);
        return true;
    }
    if (c.err)
        return printf("# the memory failed\n") < 0;
    if (c.op == SL_REPEAT_PUT)
        return true;
    if (want == SL_REPEAT_FIRST && c.op == SL_REPEAT_BEGIN) {
        w->open[slot].claim = c.claim;
        w->open[slot].key = key;
    }
    if (want == c.found &&
        (want != SL_REPEAT_AGAIN ||
         (c.len == strlen(want_memo) && memcmp(memo, want_memo, c.len) == 0)))
        return true;
    return printf("# key %u: want %d %s, got %d %.*s\n", key, (int)want,
                  want_memo, (int)c.found, (int)c.len, memo) < 0;
}

static bool history(struct world *w, uint64_t seed, unsigned steps)
{
    w->rng.state = seed;
    memset(&w->model.entries, 0, sizeof(w->model.entries));
    memset(w->open, 0, sizeof(w->open));
    w->now += 30 * SL_DAY; /* all that was there is over */
    if (w->cache && w->model.endless)
        sl_replay_cache_forget(w->cache);
    for (unsigned i = 0; i < steps; i++) {
        if (rng_below(&w->rng, 3) == 0)
            w->now += (sl_ns)rng_below(&w->rng, 8) * SL_S;
        if (!step(w)) {
            printf("# seed %" PRIu64 ", step %u\n", seed, i);
            return false;
        }
    }
    for (unsigned i = 0; i < KEYS; i++) { /* none is left running */
        const struct entry *e = &w->model.entries[i];
        struct sl_repeat_call c = {
            .op = SL_REPEAT_DROP, .claim = e->claim, .now = w->now};

        if (e->there && !e->done)
            call(w, &c);
    }
    settle(w, 0);
    return true;
}

/* The entries of the file, in another cache: the same answers. */
static void check_file(struct world *w, const char *path)
{
    struct sl_replay_cache *again = NULL;
    struct sl_replay_file *file = NULL;
    struct sl_diag diag;

    CHECK_EQ(sl_replay_file_open(path, 1 << 16, &sl_alloc_libc, &file, &diag),
             0);
    CHECK_EQ(sl_replay_cache_open(1 << 20, false, &sl_alloc_libc, &again), 0);
    sl_replay_cache_load(again, file, SL_CLAIM_REPEAT, w->now);
    for (unsigned key = 0; key < KEYS; key++) {
        const struct entry *e = &w->model.entries[key];
        char memo[SL_REPEAT_MEMO];
        size_t len = 0;
        enum sl_repeat_found found;

        if (!e->there || !e->done || e->claim.until <= w->now || e->left == 0)
            continue;
        found = sl_replay_cache_begin(again, &e->claim, w->now, true, memo,
                                      sizeof(memo), &len);
        CHECK_EQ(found, SL_REPEAT_AGAIN);
        CHECK(len == strlen(e->memo) && memcmp(memo, e->memo, len) == 0);
    }
    sl_replay_cache_close(again);
    sl_replay_file_close(file);
}

/* A file of something else is not changed. */
static void check_foreign(const char *folder)
{
    struct sl_replay_file *file = NULL;
    struct sl_diag diag = {.sentence = ""};
    char path[128], text[32] = "";
    FILE *f;

    snprintf(path, sizeof(path), "%s/notes", folder);
    f = fopen(path, "w+");
    CHECK(f && fputs("not ours", f) >= 0 && fflush(f) == 0);
    CHECK_EQ(sl_replay_file_open(path, 1 << 16, &sl_alloc_libc, &file, &diag),
             SLUICE_ESYS);
    CHECK(strstr(diag.sentence, "is not a file of saved answers") != NULL);
    rewind(f);
    CHECK(fgets(text, sizeof(text), f) != NULL);
    CHECK_STR(text, "not ours");
    fclose(f);
}

static void open_registries(struct world *w, const char *path, bool postgres)
{
    struct sl_registry_options options = {.path = path};
    struct sl_diag diag = {.sentence = ""};

    if (postgres)
        options.driver = &sl_driver_postgres;
    CHECK_EQ(sl_loop_open(NULL, &w->loop, &diag), 0);
    for (int i = 0; i < 2; i++)
        if (sl_registry_open(&options, &w->registries[i], &diag)) {
            printf("Bail out! %s\n", diag.sentence);
            exit(1);
        }
}

int main(int argc, char **argv)
{
    const char *on = argc > 1 ? argv[1] : "cache";
    char folder[] = "/tmp/sluice-repeats-XXXXXX", path[128], command[64];
    static struct world w;
    bool is_file = strcmp(on, "file") == 0;
    struct sl_diag diag;

    CHECK(mkdtemp(folder) != NULL);
    w.now = DAY_0;
    if (strcmp(on, "sqlite") == 0) {
        snprintf(path, sizeof(path), "%s/repeats.db?shared", folder);
        open_registries(&w, path, false);
    } else if (strcmp(on, "postgres") == 0) {
        open_registries(&w, argc > 2 ? argv[2] : getenv("SLUICE_TEST_POSTGRES"),
                        true);
    } else if (strcmp(on, "cache") == 0 || is_file) {
        w.model.endless = true;
        CHECK_EQ(sl_replay_cache_open(1 << 20, false, &sl_alloc_libc, &w.cache),
                 0);
        snprintf(path, sizeof(path), "%s/state.repeats", folder);
        if (is_file) {
            CHECK_EQ(sl_replay_file_open(path, 1 << 16, &sl_alloc_libc, &w.file,
                                         &diag),
                     0);
            sl_replay_cache_load(w.cache, w.file, SL_CLAIM_REPEAT, w.now);
        }
    } else {
        far_init(&w.far, on);
        w.loop = w.far.loop;
        w.stores[0] = far_open(&w.far);
        w.stores[1] = far_open(&w.far);
    }
    for (uint64_t seed = 1; seed <= 10; seed++) {
        CASE("two daemons and the model answer alike");
        CHECK(history(&w, seed, w.cache ? 2000 : 400));
        if (is_file)
            check_file(&w, path);
    }
    if (is_file)
        check_foreign(folder);
    for (int i = 0; i < 2; i++) {
        if (w.stores[i])
            far_close(&w.far, w.stores[i]);
        sl_registry_close(w.registries[i]);
    }
    sl_replay_cache_close(w.cache);
    sl_replay_file_close(w.file);
    if (w.stores[0])
        far_done(&w.far);
    else if (w.loop)
        sl_loop_close(w.loop);
    snprintf(command, sizeof(command), "rm -rf %s", folder);
    CHECK_EQ(system(command), 0);
    return CHECK_DONE();
}
