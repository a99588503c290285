/* subject_cache.c -- the subjects that one thread has looked up lately.
 *
 *     find --> cached, same version, young enough? --> done, at once
 *      |                                                  ^
 *      no --> is it being loaded, under this version?     |
 *              |            |                             |
 *              no           yes --> wait for that load    |
 *              v                              |           |
 *             load --> source --> on_loaded --+--> cached + done, later
 *
 * Invariants (test/prop/subject_cache.c).
 *   (1) The result was in the registry at some instant between the lookup and
 *       its answer, or since the last write acknowledged before the lookup, or,
 *       for writes of other programs, less than `life` ago; while the registry
 *       does not answer, or too many loads are open, less than `stale` ago.
 *   (2) At most `most` records of at most `bytes` are cached.
 *   (3) Every lookup is answered once: found, failed, or at its deadline.
 */
#include "registry/subject_cache.h"

#include <string.h>
#include <sys/queue.h>

#include "base/map.h"
#include "net/loop.h"

#define MOST       8192
#define BYTES      ((size_t)16 << 20)
#define LIFE       (5 * SL_S)
#define STALE      SL_HOUR
#define MOST_LOADS 1024
#define RETRY      SL_S /* how long a stale record is used before a new load */

/* By the name that was looked up: an id or an alias. */
struct key {
    char scope; /* its first letter */
    struct sl_str id;
};

struct entry {
    struct sl_map_entry map; /* first */
    uint64_t version;
    sl_ns until;       /* monotonic */
    sl_ns stale_until; /* the same, while the registry does not answer */
    sl_ns since;       /* wall clock */
    struct sl_subject_record *record;
    char scope;
    bool is_partial; /* see sl_job */
    size_t id_len;
    char id[];
};

struct load {
    TAILQ_ENTRY(load) order;
    struct sl_subject_cache *cache;
    struct sl_job job;
    uint64_t hash;
    uint64_t version; /* when it began */
    char scope;
    struct sl_lookup *waiting; /* newest first */
    char id[];
};

struct sl_subject_cache {
    struct sl_subjects subjects; /* first */
    struct sl_registry *registry;
    struct sl_loop *loop;
    struct sl_subject_cache_options options;
    struct sl_hash_key secret;
    struct sl_timer *timer;            /* for the next deadline */
    sl_ns timer_at;                    /* monotonic; 0: not running */
    struct sl_subject_record *unknown; /* for ids that cannot exist */
    struct sl_map map;
    TAILQ_HEAD(loads, load) loads;
    unsigned load_count;
    struct sl_subject_cache_counts counts;
};

static void set(_Atomic uint64_t *count, uint64_t n)
{
    atomic_store_explicit(count, n, memory_order_relaxed);
}

/* One thread writes: a load and a store are enough. */
static void add(_Atomic uint64_t *count, uint64_t n)
{
    set(count, atomic_load_explicit(count, memory_order_relaxed) + n);
}

static bool is_ip(char scope)
{
    return scope == 'i';
}

static struct sl_str scope_of(char scope)
{
    return is_ip(scope)   ? SL_IP_SCOPE
           : scope == 'o' ? SL_STR("org")
                          : SL_STR("user");
}

static uint64_t hash_of(const struct sl_subject_cache *c, struct sl_str scope,
                        struct sl_str id)
{
    struct sl_hash_key key = c->secret;

    key.k1 ^= (unsigned char)scope.at[0];
    return sl_hash64(&key, id);
}

static uint64_t version_of(const struct sl_subject_cache *c,
                           struct sl_str scope, struct sl_str id)
{
    return c->registry ? atomic_load_explicit(
                             sl_registry_version(c->registry, scope, id),
                             memory_order_acquire)
                       : 0;
}

/* ---- cached records ---- */

static size_t size_of(const struct entry *entry)
{
    return sizeof(*entry) + entry->id_len;
}

static bool equals(const struct sl_map_entry *map_entry, const void *key)
{
    const struct entry *entry = (const struct entry *)map_entry;
    const struct key *k = key;

    return entry->scope == k->scope &&
           sl_str_eq((struct sl_str){entry->id, entry->id_len}, k->id);
}

static void free_entry(void *alloc, struct sl_map_entry *map_entry)
{
    struct entry *entry = (struct entry *)map_entry;

    sl_subject_unref(&entry->record->subject);
    sl_alloc_free(alloc, entry, size_of(entry));
}

static struct entry *find_entry(struct sl_subject_cache *c, struct sl_str scope,
                                struct sl_str id)
{
    struct key key = {scope.at[0], id};

    return (struct entry *)sl_map_find(&c->map, hash_of(c, scope, id), &key,
                                       sl_loop_mono(c->loop));
}

static void count_entries(struct sl_subject_cache *c)
{
    set(&c->counts.entries, c->map.count);
    set(&c->counts.bytes, c->map.bytes);
}

/* Caches a loaded record, if there is memory. */
static void keep(struct sl_subject_cache *c, const struct load *load)
{
    struct sl_str id = load->job.id;
    struct entry *entry = find_entry(c, load->job.scope, id);
    sl_ns now = sl_loop_mono(c->loop);

    if (entry)
        sl_map_remove(&c->map, &entry->map);
    entry = c->options.life < 0
                ? NULL
                : sl_alloc_new(c->options.alloc, sizeof(*entry) + id.len);
    if (entry) {
        *entry = (struct entry){
            .map = {.hash = load->hash, .expires = SL_NS_MAX},
            .version = load->job.version,
            .until = now + c->options.life,
            .stale_until = now + c->options.stale,
            .since = sl_loop_now(c->loop),
            .record = load->job.entries,
            .scope = load->scope,
            .is_partial = load->job.is_partial,
            .id_len = id.len,
        };
        memcpy(entry->id, id.at, id.len);
        entry->map.size = size_of(entry) + entry->record->size;
        sl_subject_ref(&entry->record->subject);
        sl_map_add(&c->map, &entry->map);
    }
    count_entries(c);
}

static bool is_blocked(const struct sl_subject_cache *c,
                       const struct entry *entry)
{
    return sl_block_is_on(&entry->record->subject.block, sl_loop_now(c->loop));
}

/* Returns the last record if no write came since, or NULL. A record of a source
 * counts only for its block: a caller who is blocked stays blocked. Addresses
 * are not in a source. */
static struct sl_subject_record *
find_stale(struct sl_subject_cache *c, struct sl_str scope, struct sl_str id)
{
    struct entry *entry = find_entry(c, scope, id);
    sl_ns now = sl_loop_mono(c->loop);

    if (!entry || now >= entry->stale_until ||
        entry->version != version_of(c, scope, id) ||
        (c->options.source.ask && !is_ip(entry->scope) &&
         !is_blocked(c, entry)))
        return NULL;
    entry->until =
        now + RETRY < entry->stale_until ? now + RETRY : entry->stale_until;
    return entry->record;
}

/* Other programs may write without notice. The wall clock may be set back. */
static bool is_old(const struct sl_subject_cache *c, const struct entry *entry)
{
    sl_ns now = sl_loop_now(c->loop);

    return sl_loop_mono(c->loop) >= entry->until ||
           (entry->is_partial && !is_blocked(c, entry)) ||
           (c->options.source.ask &&
            (now < entry->since || now - entry->since >= c->options.life));
}

/* Returns the cached record if it is valid. An old one stays until a load
 * replaces it. */
static struct sl_subject_record *find_valid(struct sl_subject_cache *c,
                                            const struct sl_lookup *lookup,
                                            uint64_t version)
{
    struct entry *entry = find_entry(c, lookup->scope, lookup->id);

    if (entry && entry->version != version) {
        sl_map_remove(&c->map, &entry->map);
        count_entries(c);
        entry = NULL;
    }
    return entry && !is_old(c, entry) ? entry->record : NULL;
}

/* ---- answers ---- */

/* The subjects of a source are always there. */
static void fill_in_answer(const struct sl_subject_cache *c,
                           struct sl_lookup *lookup,
                           struct sl_subject_record *record, int err)
{
    lookup->err = err;
    lookup->found = NULL;
    if (record && is_ip(lookup->scope.at[0]))
        lookup->found =
            sl_blocked_ip_find(record, &lookup->ip, sl_loop_now(c->loop));
    else if (record)
        lookup->found = sl_subject_ref(&record->subject);
    lookup->has_registered =
        record &&
        (c->options.source.ask || sl_registry_has_registered(c->registry));
}

static void answer(const struct sl_subject_cache *c, struct sl_lookup *lookup,
                   struct sl_subject_record *record, int err)
{
    fill_in_answer(c, lookup, record, err);
    lookup->done(lookup);
}

/* Answers all lookups of a load and frees it. A lookup made by one of their
 * done() begins another load. */
static void end_load(struct load *load, struct sl_subject_record *record,
                     int err)
{
    struct sl_subject_cache *c = load->cache;
    struct sl_lookup *waiting = load->waiting;
    size_t size = sizeof(*load) + load->job.id.len;

    TAILQ_REMOVE(&c->loads, load, order);
    c->load_count--;
    for (struct sl_lookup *next; waiting; waiting = next) {
        next = waiting->next;
        answer(c, waiting, record, err);
    }
    sl_job_clear(&load->job);
    sl_alloc_free(c->options.alloc, load, size);
}

static void on_loaded(struct sl_job *job)
{
    struct load *load = job->ctx;
    struct sl_subject_cache *c = load->cache;
    struct sl_subject_record *record = job->entries;

    if (job->err) {
        add(&c->counts.faults, 1);
        record = find_stale(c, job->scope, job->id);
    } else {
        add(&c->counts.faults, job->is_partial);
        add(&c->counts.unknown, !is_ip(load->scope) && !record->subject.known);
        keep(c, load);
    }
    end_load(load, record, record ? 0 : job->err);
}

/* ---- deadlines ---- */

static void wake_at(struct sl_subject_cache *c, sl_ns deadline)
{
    sl_ns now = sl_loop_mono(c->loop);

    if (deadline == 0 || (c->timer_at > 0 && c->timer_at <= deadline))
        return;
    c->timer_at = deadline;
    sl_timer_start(c->timer, deadline > now ? deadline - now : 0);
}

/* Moves the lookups of a load whose deadline has passed to `late`, with their
 * answers. */
static struct sl_lookup *take_late(struct sl_subject_cache *c,
                                   struct load *load, sl_ns now,
                                   struct sl_lookup *late)
{
    struct sl_lookup **at = &load->waiting;

    while (*at) {
        struct sl_lookup *lookup = *at;
        struct sl_subject_record *stale;

        if (lookup->deadline == 0 || lookup->deadline > now) {
            wake_at(c, lookup->deadline);
            at = &lookup->next;
            continue;
        }
        *at = lookup->next;
        stale = find_stale(c, load->job.scope, load->job.id);
        fill_in_answer(c, lookup, stale, stale ? 0 : SLUICE_ESTORE);
        lookup->next = late;
        late = lookup;
    }
    return late;
}

/* The loads go on; later lookups use their results. */
static void on_time(void *ctx)
{
    struct sl_subject_cache *c = ctx;
    struct sl_lookup *late = NULL, *next;
    struct load *load;

    c->timer_at = 0;
    TAILQ_FOREACH (load, &c->loads, order)
        late = take_late(c, load, sl_loop_mono(c->loop), late);
    for (; late; late = next) {
        next = late->next;
        add(&c->counts.late, 1);
        late->done(late);
    }
}

/* ---- lookups ---- */

static void wait_for(struct sl_subject_cache *c, struct load *load,
                     struct sl_lookup *lookup)
{
    if (lookup->deadline == 0 && c->options.timeout > 0)
        sl_lookup_wait(lookup, sl_loop_mono(c->loop), c->options.timeout);
    lookup->next = load->waiting;
    load->waiting = lookup;
    wake_at(c, lookup->deadline);
}

/* Returns an open load that began after the last acknowledged write. */
static struct load *find_load(struct sl_subject_cache *c, uint64_t hash,
                              const struct sl_lookup *lookup, uint64_t version)
{
    struct load *load;

    TAILQ_FOREACH (load, &c->loads, order)
        if (load->hash == hash && load->scope == lookup->scope.at[0] &&
            load->version == version && sl_str_eq(load->job.id, lookup->id))
            return load;
    return NULL;
}

/* Answers without a load. */
static void answer_busy(struct sl_subject_cache *c, struct sl_lookup *lookup,
                        int err)
{
    struct sl_subject_record *stale = find_stale(c, lookup->scope, lookup->id);

    add(&c->counts.busy, 1);
    answer(c, lookup, stale, stale ? 0 : err);
}

static void begin_load(struct sl_subject_cache *c, struct sl_lookup *lookup,
                       uint64_t hash, uint64_t version)
{
    const struct sl_subject_source *source = &c->options.source;
    bool full = c->load_count >= c->options.most_loads;
    struct load *load = NULL;

    if (!full)
        load = sl_alloc_new(c->options.alloc, sizeof(*load) + lookup->id.len);
    if (!load) {
        answer_busy(c, lookup, full ? SLUICE_ESTORE : SLUICE_ENOMEM);
        return;
    }
    memset(load, 0, sizeof(*load));
    load->cache = c;
    load->hash = hash;
    load->version = version;
    load->scope = lookup->scope.at[0];
    memcpy(load->id, lookup->id.at, lookup->id.len);
    sl_job_init(&load->job, SL_JOB_FIND, c->options.alloc);
    load->job.loop = c->loop;
    load->job.done = on_loaded;
    load->job.ctx = load;
    load->job.now = sl_loop_now(c->loop);
    load->job.scope = scope_of(load->scope);
    load->job.id = (struct sl_str){load->id, lookup->id.len};
    TAILQ_INSERT_TAIL(&c->loads, load, order);
    c->load_count++;
    add(&c->counts.loads, 1);
    wait_for(c, load, lookup);
    if (source->ask && !is_ip(load->scope))
        source->ask(source->ctx, &load->job);
    else
        sl_registry_ask(c->registry, &load->job);
}

/* Makes a lookup of an address one of the record of all blocked addresses.
 * False if none can be blocked. */
static bool needs_blocked_ips(const struct sl_subject_cache *c,
                              struct sl_lookup *lookup)
{
    struct sl_ip ip;

    if (!c->registry || !sl_registry_has_blocked_ips(c->registry) ||
        !sl_ip_parse(lookup->id, &ip))
        return false;
    lookup->ip = sl_ip_untranslated(&ip);
    lookup->id = SL_IP_ALL;
    return true;
}

static void find(struct sl_subjects *subjects, struct sl_lookup *lookup)
{
    struct sl_subject_cache *c = (struct sl_subject_cache *)subjects;
    struct sl_subject_record *record;
    struct load *load;
    uint64_t hash, version;

    if (is_ip(lookup->scope.at[0])
            ? !needs_blocked_ips(c, lookup)
            : !c->options.source.ask && sl_registry_is_empty(c->registry)) {
        answer(c, lookup, NULL, 0);
        return;
    }
    if (lookup->id.len == 0 || lookup->id.len > c->options.most_id) {
        answer(c, lookup, c->unknown, 0);
        return;
    }
    version = version_of(c, lookup->scope, lookup->id);
    record = find_valid(c, lookup, version);
    if (record) {
        add(&c->counts.hits, 1);
        answer(c, lookup, record, 0);
        return;
    }
    hash = hash_of(c, lookup->scope, lookup->id);
    load = find_load(c, hash, lookup, version);
    if (load)
        wait_for(c, load, lookup);
    else
        begin_load(c, lookup, hash, version);
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
    o->most_loads = o->most_loads ? o->most_loads : MOST_LOADS;
    o->most_id = o->most_id ? o->most_id : SL_SUBJECT_RECORD_ID;
}

static int set_up(struct sl_subject_cache *c)
{
    static const struct sl_subject_draft unknown = {.expires = SL_NS_NONE};
    const struct sl_subject_cache_options *o = &c->options;
    struct sl_map_options map = {.most = o->most,
                                 .most_bytes = o->bytes,
                                 .equals = equals,
                                 .free = free_entry,
                                 .ctx = (void *)o->alloc,
                                 .alloc = o->alloc};
    int err = 0;

    if (c->registry)
        c->secret = *sl_registry_secret(c->registry);
    else
        err = sl_hash_key_make(&c->secret);
    if (!err)
        err = sl_map_init(&c->map, &map);
    if (err)
        return err;
    c->unknown = sl_subject_record_new(&unknown, false, o->alloc);
    return c->unknown ? sl_timer_new(c->loop, on_time, c, &c->timer)
                      : SLUICE_ENOMEM;
}

int sl_subject_cache_open(struct sl_registry *registry, struct sl_loop *loop,
                          const struct sl_subject_cache_options *options,
                          struct sl_subject_cache **ret, struct sl_diag *diag)
{
    struct sl_subject_cache_options o = *options;
    struct sl_subject_cache *c;
    int err;

    fill_in(&o);
    c = sl_alloc_new(o.alloc, sizeof(*c));
    if (!c)
        return sl_diag_error(diag, SLUICE_ENOMEM, "out of memory");
    memset(c, 0, sizeof(*c));
    c->subjects.calls = &calls;
    c->registry = registry;
    c->loop = loop;
    c->options = o;
    TAILQ_INIT(&c->loads);
    err = set_up(c);
    if (err) {
        sl_subject_cache_close(c);
        return sl_diag_error(diag, err, "out of memory");
    }
    *ret = c;
    return 0;
}

void sl_subject_cache_close(struct sl_subject_cache *c)
{
    struct load *load;

    if (!c)
        return;
    while ((load = TAILQ_FIRST(&c->loads))) {
        if (c->options.source.cancel)
            c->options.source.cancel(c->options.source.ctx, &load->job);
        end_load(load, NULL, SLUICE_ESTORE);
    }
    sl_map_done(&c->map);
    sl_subject_records_free(c->unknown);
    sl_timer_free(c->timer);
    sl_alloc_free(c->options.alloc, c, sizeof(*c));
}

struct sl_subjects *sl_subject_cache_subjects(struct sl_subject_cache *cache)
{
    return &cache->subjects;
}

const struct sl_subject_cache_counts *
sl_subject_cache_counts(const struct sl_subject_cache *cache)
{
    return &cache->counts;
}
