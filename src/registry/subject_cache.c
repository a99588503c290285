/* subject_cache.c -- what was asked for lately.
 *
 *     find --> at hand, its stamp current, young enough? --> done, at once
 *      |                                                        ^
 *      no --> is it being loaded, under the current stamp?      |
 *              |            |                                   |
 *              no           yes --> wait with the others        |
 *              v                              |                 |
 *             load --> registry --> on_loaded +--> kept ---> done, later
 *
 * A hash with chains, and a list in the order of use: the entry that nobody
 * asked for the longest goes first. Loads are few and kept in a list of their
 * own.
 *
 * Invariants (test/prop/finder.c).
 *   (1) What is found was in the registry at some instant between the question
 *       and the answer, or since the last write that was acknowledged before
 *       the question, or, on another machine, less than `life` ago; while
 *       the registry does not answer, less than `stale` ago.
 *   (2) At most `most` entries of at most `bytes` are kept.
 *   (3) Every lookup is answered once: found, failed, or when its deadline has
 *       come.
 */
#include "registry/subject_cache.h"

#include <string.h>
#include <sys/queue.h>

#include "net/loop.h"

#define MOST    8192
#define BYTES   ((size_t)16 << 20)
#define LIFE    (5 * SL_S)
#define STALE   SL_HOUR
#define LOADING 1024
#define AGAIN   SL_S /* what is old holds, after there was no answer */
#define BUCKETS 8192 /* of chains; a power of two */

/* An entry at hand. */
struct kept {
    TAILQ_ENTRY(kept) order; /* the one used last comes first */
    struct kept *next;       /* in its chain */
    uint64_t hash;
    uint64_t stamp;
    sl_ns until;  /* steady */
    sl_ns latest; /* the same, while the registry does not answer */
    sl_ns since;  /* wall */
    struct sl_subject_record *entry;
    bool is_org;
    size_t id_len; /* the name it was asked for by: an id or an alias */
    char id[];
};

/* A question to the registry. */
struct load {
    TAILQ_ENTRY(load) order;
    struct sl_subject_cache *finder;
    struct sl_job job;
    uint64_t hash;
    uint64_t stamp; /* when it was asked */
    bool is_org;
    struct sl_lookup *waiting; /* the last first */
    char id[SL_SUBJECT_RECORD_ID];
};

struct sl_subject_cache {
    struct sl_subjects subjects; /* first */
    struct sl_registry *registry;
    struct sl_loop *loop;
    struct sl_subject_cache_options options;
    struct sl_timer *timer;           /* for the next deadline */
    sl_ns wakes;                      /* steady; 0: it does not run */
    struct sl_subject_record *nobody; /* for names that nobody can have */
    TAILQ_HEAD(order, kept) order;
    TAILQ_HEAD(loads, load) loads;
    unsigned loading;
    struct sl_subject_cache_counts counts;
    struct kept *chains[BUCKETS];
};

static uint64_t get(const _Atomic uint64_t *count)
{
    return atomic_load_explicit(count, memory_order_relaxed);
}

static void add(_Atomic uint64_t *count, uint64_t n)
{
    /* One thread writes: a load and a store are enough. */
    atomic_store_explicit(count, get(count) + n, memory_order_relaxed);
}

static bool is_org(struct sl_str scope)
{
    return sl_str_eq(scope, SL_STR("org"));
}

static uint64_t hash_of(const struct sl_subject_cache *f, struct sl_str scope,
                        struct sl_str id)
{
    struct sl_hash_key key = *sl_registry_secret(f->registry);

    key.k1 ^= is_org(scope);
    return sl_hash64(&key, id);
}

static uint64_t stamp_now(const struct sl_subject_cache *f, struct sl_str scope,
                          struct sl_str id)
{
    return atomic_load_explicit(sl_registry_version(f->registry, scope, id),
                                memory_order_acquire);
}

/* ---- what is at hand ---- */

static size_t size_of(const struct kept *kept)
{
    return sizeof(*kept) + kept->id_len + kept->entry->size;
}

static struct kept **find_kept(struct sl_subject_cache *f, uint64_t hash,
                               bool org, struct sl_str id)
{
    struct kept **at = &f->chains[hash % BUCKETS];

    while (*at && ((*at)->hash != hash || (*at)->is_org != org ||
                   !sl_str_eq((struct sl_str){(*at)->id, (*at)->id_len}, id)))
        at = &(*at)->next;
    return at;
}

static void drop(struct sl_subject_cache *f, struct kept **at)
{
    struct kept *kept = *at;

    SL_HOLDS(kept);
    *at = kept->next;
    TAILQ_REMOVE(&f->order, kept, order);
    add(&f->counts.entries, (uint64_t)-1);
    add(&f->counts.bytes, (uint64_t)0 - size_of(kept));
    sl_subject_unref(&kept->entry->subject);
    sl_alloc_free(f->options.alloc, kept, sizeof(*kept) + kept->id_len);
}

static void drop_last(struct sl_subject_cache *f)
{
    struct kept *last = TAILQ_LAST(&f->order, order);

    drop(f, find_kept(f, last->hash, last->is_org,
                      (struct sl_str){last->id, last->id_len}));
}

/* Keep what was loaded, if there is memory. One reference of it is taken. */
static void keep(struct sl_subject_cache *f, const struct load *load)
{
    struct sl_str id = load->job.id;
    struct kept **at = find_kept(f, load->hash, load->is_org, id);
    struct kept *kept = sl_alloc_new(f->options.alloc, sizeof(*kept) + id.len);
    sl_ns now = sl_loop_mono(f->loop);

    if (*at)
        drop(f, at);
    if (!kept)
        return;
    *kept = (struct kept){
        .next = f->chains[load->hash % BUCKETS],
        .hash = load->hash,
        .stamp = load->job.stamp,
        .until = now + f->options.life,
        .latest = now + f->options.stale,
        .since = sl_loop_now(f->loop),
        .entry = load->job.entries,
        .is_org = load->is_org,
        .id_len = id.len,
    };
    memcpy(kept->id, id.at, id.len);
    sl_subject_ref(&kept->entry->subject);
    f->chains[load->hash % BUCKETS] = kept;
    TAILQ_INSERT_HEAD(&f->order, kept, order);
    add(&f->counts.entries, 1);
    add(&f->counts.bytes, size_of(kept));
    while (get(&f->counts.entries) > f->options.most ||
           get(&f->counts.bytes) > f->options.bytes)
        drop_last(f);
}

/* What the registry said last, if no write came since; or NULL. */
static struct sl_subject_record *
find_stale(struct sl_subject_cache *f, struct sl_str scope, struct sl_str id)
{
    struct kept *kept = *find_kept(f, hash_of(f, scope, id), is_org(scope), id);
    sl_ns now = sl_loop_mono(f->loop);

    if (!kept || f->options.ask || now >= kept->latest ||
        kept->stamp != stamp_now(f, scope, id))
        return NULL;
    kept->until = now + AGAIN < kept->latest ? now + AGAIN : kept->latest;
    return kept->entry;
}

/* ---- answers ---- */

static void answer(struct sl_lookup *lookup, struct sl_subject_record *entry,
                   int err)
{
    lookup->err = err;
    lookup->found = entry ? sl_subject_ref(&entry->subject) : NULL;
    lookup->done(lookup);
}

/* A load is over: whoever asks from now on, perhaps in his answer to it, begins
 * another. */
static void end_load(struct sl_subject_cache *f, struct load *load)
{
    TAILQ_REMOVE(&f->loads, load, order);
    f->loading--;
}

/* Forget one that is over; nobody waits for it. */
static void free_load(struct sl_subject_cache *f, struct load *load)
{
    sl_job_clear(&load->job);
    sl_alloc_free(f->options.alloc, load, sizeof(*load));
}

static void answer_all(struct load *load, struct sl_subject_record *entry,
                       int err)
{
    struct sl_lookup *waiting = load->waiting;

    load->waiting = NULL;
    for (struct sl_lookup *next; waiting; waiting = next) {
        next = waiting->next;
        answer(waiting, entry, err);
    }
}

static void on_loaded(struct sl_job *job)
{
    struct load *load = job->ctx;
    struct sl_subject_cache *f = load->finder;
    struct sl_subject_record *entry = job->entries;

    if (job->err) {
        add(&f->counts.faults, 1);
        entry = find_stale(f, job->scope, job->id);
    } else {
        add(&f->counts.unknown, !entry->subject.known);
        keep(f, load);
    }
    end_load(f, load);
    answer_all(load, entry, entry ? 0 : job->err);
    free_load(f, load);
}

/* ---- deadlines ---- */

static void wake_at(struct sl_subject_cache *f, sl_ns deadline)
{
    sl_ns now = sl_loop_mono(f->loop);

    if (deadline == 0 || (f->wakes > 0 && f->wakes <= deadline))
        return;
    f->wakes = deadline;
    sl_timer_start(f->timer, deadline > now ? deadline - now : 0);
}

/* Take those out of a load's list whose time has come, with their answers. */
static struct sl_lookup *take_late(struct sl_subject_cache *f,
                                   struct load *load, sl_ns now,
                                   struct sl_lookup *late)
{
    struct sl_lookup **at = &load->waiting;

    while (*at) {
        struct sl_lookup *lookup = *at;
        struct sl_subject_record *stale;

        if (lookup->deadline == 0 || lookup->deadline > now) {
            wake_at(f, lookup->deadline);
            at = &lookup->next;
            continue;
        }
        *at = lookup->next;
        stale = find_stale(f, load->job.scope, load->job.id);
        lookup->found = stale ? sl_subject_ref(&stale->subject) : NULL;
        lookup->err = stale ? 0 : SLUICE_ESTORE;
        lookup->next = late;
        late = lookup;
    }
    return late;
}

/* The load goes on: whoever asks next finds what it brings. */
static void on_time(void *ctx)
{
    struct sl_subject_cache *f = ctx;
    struct sl_lookup *late = NULL, *next;
    struct load *load;

    f->wakes = 0;
    TAILQ_FOREACH(load, &f->loads, order)
    late = take_late(f, load, sl_loop_mono(f->loop), late);
    for (; late; late = next) {
        next = late->next;
        add(&f->counts.late, 1);
        late->done(late);
    }
}

/* ---- questions ---- */

static void wait_for(struct sl_subject_cache *f, struct load *load,
                     struct sl_lookup *lookup)
{
    if (lookup->deadline == 0 && f->options.patience > 0)
        sl_lookup_wait(lookup, sl_loop_mono(f->loop), f->options.patience);
    lookup->next = load->waiting;
    load->waiting = lookup;
    wake_at(f, lookup->deadline);
}

/* One under way that has seen all that was acknowledged. */
static struct load *find_load(struct sl_subject_cache *f, uint64_t hash,
                              bool org, struct sl_str id, uint64_t stamp)
{
    struct load *load;

    TAILQ_FOREACH(load, &f->loads, order)
    if (load->hash == hash && load->is_org == org && load->stamp == stamp &&
        sl_str_eq(load->job.id, id))
        return load;
    return NULL;
}

static void begin_load(struct sl_subject_cache *f, struct sl_lookup *lookup,
                       uint64_t hash, uint64_t stamp)
{
    struct load *load = NULL;

    if (f->loading < f->options.loading)
        load = sl_alloc_new(f->options.alloc, sizeof(*load));
    if (!load) {
        add(&f->counts.busy, 1);
        answer(lookup, NULL,
               f->loading < f->options.loading ? SLUICE_ENOMEM : SLUICE_ESTORE);
        return;
    }
    memset(load, 0, sizeof(*load));
    load->finder = f;
    load->hash = hash;
    load->stamp = stamp;
    load->is_org = is_org(lookup->scope);
    memcpy(load->id, lookup->id.at, lookup->id.len);
    sl_job_init(&load->job, SL_JOB_FIND, f->options.alloc);
    load->job.loop = f->loop;
    load->job.done = on_loaded;
    load->job.ctx = load;
    load->job.now = sl_loop_now(f->loop);
    load->job.scope = load->is_org ? SL_STR("org") : SL_STR("user");
    load->job.id = (struct sl_str){load->id, lookup->id.len};
    TAILQ_INSERT_TAIL(&f->loads, load, order);
    f->loading++;
    add(&f->counts.loads, 1);
    wait_for(f, load, lookup);
    if (f->options.ask)
        f->options.ask(f->options.ctx, &load->job);
    else
        sl_registry_ask(f->registry, &load->job);
}

/* Nobody tells us what others write; nor does a clock that was set back. */
static bool is_old(const struct sl_subject_cache *f, const struct kept *kept)
{
    sl_ns now = sl_loop_now(f->loop);

    return sl_loop_mono(f->loop) >= kept->until ||
           (f->options.ask &&
            (now < kept->since || now - kept->since >= f->options.life));
}

/* What is at hand, if it still holds. */
static struct kept *look(struct sl_subject_cache *f,
                         const struct sl_lookup *lookup, uint64_t hash,
                         uint64_t stamp)
{
    struct kept **at = find_kept(f, hash, is_org(lookup->scope), lookup->id);
    struct kept *kept = *at;

    if (!kept)
        return NULL;
    if (kept->stamp != stamp) {
        drop(f, at);
        return NULL;
    }
    if (is_old(f, kept))
        return NULL; /* it stays until there is a better one */
    if (kept != TAILQ_FIRST(&f->order)) {
        TAILQ_REMOVE(&f->order, kept, order);
        TAILQ_INSERT_HEAD(&f->order, kept, order);
    }
    return kept;
}

static void find(struct sl_subjects *subjects, struct sl_lookup *lookup)
{
    struct sl_subject_cache *f = (struct sl_subject_cache *)subjects;
    struct load *load;
    struct kept *kept;
    uint64_t hash, stamp;

    if (!f->options.ask && !sl_registry_has_any(f->registry)) {
        answer(lookup, NULL, 0);
        return;
    }
    if (lookup->id.len == 0 || lookup->id.len > SL_SUBJECT_RECORD_ID) {
        answer(lookup, f->nobody, 0);
        return;
    }
    hash = hash_of(f, lookup->scope, lookup->id);
    stamp = stamp_now(f, lookup->scope, lookup->id);
    kept = look(f, lookup, hash, stamp);
    if (kept) {
        add(&f->counts.hits, 1);
        answer(lookup, kept->entry, 0);
        return;
    }
    load = find_load(f, hash, is_org(lookup->scope), lookup->id, stamp);
    if (load)
        wait_for(f, load, lookup);
    else
        begin_load(f, lookup, hash, stamp);
}

static const struct sl_subjects_calls calls = {find};

/* ---- opening ---- */

static void fill_in(struct sl_subject_cache_options *o)
{
    o->alloc = o->alloc ? o->alloc : &sl_alloc_libc;
    o->most = o->most ? o->most : MOST;
    o->bytes = o->bytes ? o->bytes : BYTES;
    o->life = o->life ? o->life : LIFE;
    o->stale = o->stale ? o->stale : STALE;
    o->loading = o->loading ? o->loading : LOADING;
}

int sl_subject_cache_open(struct sl_registry *registry, struct sl_loop *loop,
                          const struct sl_subject_cache_options *options,
                          struct sl_subject_cache **ret, struct sl_diag *diag)
{
    static const struct sl_subject_draft nobody = {.expires = SL_NS_NONE};
    struct sl_subject_cache_options o = *options;
    struct sl_subject_cache *f;
    int err;

    fill_in(&o);
    f = sl_alloc_new(o.alloc, sizeof(*f));
    if (!f)
        return sl_diag_error(diag, SLUICE_ENOMEM, "out of memory");
    memset(f, 0, sizeof(*f));
    f->subjects.calls = &calls;
    f->registry = registry;
    f->loop = loop;
    f->options = o;
    TAILQ_INIT(&f->order);
    TAILQ_INIT(&f->loads);
    f->nobody = sl_subject_record_new(&nobody, false, o.alloc);
    err = f->nobody ? sl_timer_new(loop, on_time, f, &f->timer) : SLUICE_ENOMEM;
    if (err) {
        sl_subject_cache_close(f);
        return sl_diag_error(diag, err, "out of memory");
    }
    *ret = f;
    return 0;
}

void sl_subject_cache_close(struct sl_subject_cache *f)
{
    struct load *load;

    if (!f)
        return;
    while ((load = TAILQ_FIRST(&f->loads))) {
        end_load(f, load);
        answer_all(load, NULL, SLUICE_ESTORE);
        free_load(f, load);
    }
    while (!TAILQ_EMPTY(&f->order))
        drop_last(f);
    sl_subject_records_free(f->nobody);
    sl_timer_free(f->timer);
    sl_alloc_free(f->options.alloc, f, sizeof(*f));
}

struct sl_subjects *sl_subject_cache_subjects(struct sl_subject_cache *finder)
{
    return &finder->subjects;
}

const struct sl_subject_cache_counts *
sl_subject_cache_counts(const struct sl_subject_cache *finder)
{
    return &finder->counts;
}
