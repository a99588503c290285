/* recorder.c -- the last requests of one thread. */
#include "server/recorder.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "engine/render.h"

#define SHIFT_MOST 24
#define FASTER     3 /* an eighth of the callers at once */

struct sl_recorder {
    const struct sl_alloc *alloc;
    struct sl_hash_key key;
    _Atomic bool keep;
    /* Of the owner's thread: */
    unsigned shift;
    uint64_t changed; /* records when the shift was changed, */
    uint64_t looked;  /* and when it was last looked whether there are few */
    sl_ns looked_at;

    pthread_mutex_t lock;
    uint64_t end; /* records so far; record n is at n % SL_RECORDER_RING */
    struct sl_recorded records[SL_RECORDER_RING];
};

int sl_recorder_open(const struct sl_alloc *alloc,
                     const struct sl_hash_key *key, struct sl_recorder **ret)
{
    struct sl_recorder *r;

    if (!alloc)
        alloc = &sl_alloc_libc;
    r = sl_alloc_new(alloc, sizeof(*r));
    if (!r)
        return SLUICE_ENOMEM;
    /* The records are written before they are read. */
    memset(r, 0, offsetof(struct sl_recorder, records));
    r->alloc = alloc;
    r->key = *key;
    pthread_mutex_init(&r->lock, NULL);
    *ret = r;
    return 0;
}

void sl_recorder_close(struct sl_recorder *r)
{
    if (!r)
        return;
    pthread_mutex_destroy(&r->lock);
    sl_alloc_free(r->alloc, r, sizeof(*r));
}

static uint64_t oldest(const struct sl_recorder *r)
{
    return r->end > SL_RECORDER_RING ? r->end - SL_RECORDER_RING : 0;
}

void sl_recorder_keep(struct sl_recorder *r, bool keep)
{
    atomic_store_explicit(&r->keep, keep, memory_order_relaxed);
    if (keep)
        return;
    pthread_mutex_lock(&r->lock);
    for (uint64_t i = oldest(r); i < r->end; i++)
        r->records[i % SL_RECORDER_RING].erased = true;
    pthread_mutex_unlock(&r->lock);
}

/* ---- recording ---- */

/* Appends a text. Returns false if there is no room. */
static bool add(struct sl_recorded *record, struct sl_str text)
{
    unsigned begin =
        record->text_count ? record->ends[record->text_count - 1] : 0;

    if (text.len > SL_RECORDER_TEXTS - begin)
        return false;
    if (text.len > 0)
        memcpy(record->texts + begin, text.at, text.len);
    record->ends[record->text_count++] = (uint16_t)(begin + text.len);
    return true;
}

/* The caller's name by the decision, which has copies: the names of the check
 * are those of a token or a subject, and end before the take. */
static struct sl_str found(const struct sl_decision *d, struct sl_str scope)
{
    for (unsigned i = 0; i < d->who_count; i++)
        if (sl_str_eq(d->who[i].scope, scope))
            return d->who[i].value;
    return SL_STR("");
}

/* The name of the caller of a scope: as it was found, or, for a limit that the
 * request names, as it was given. */
static struct sl_str name_of(const struct sl_check *check, unsigned scope,
                             struct sl_str given)
{
    const struct sl_decision *d = &check->decision;

    return check->request->limit.len > 0
               ? given
               : found(d, d->policy->identity.scope_names[scope]);
}

/* Names of the decision may be cut: such a caller is not recorded. */
static bool is_whole(const struct sl_decision *d)
{
    for (unsigned i = 0; i < d->who_count; i++)
        if (d->who[i].value.len >= SL_WHO_BYTES)
            return false;
    return true;
}

static bool add_texts(struct sl_recorded *record, const struct sl_check *check)
{
    const struct sl_request *request = check->request;
    const struct sl_decision *d = &check->decision;
    const struct sl_str texts[SL_RECORDED_LIST] = {
        [SL_RECORDED_METHOD] = request->method,
        [SL_RECORDED_PATH] = request->path,
        [SL_RECORDED_JOB] = request->job,
        [SL_RECORDED_LIMIT] = request->limit,
        [SL_RECORDED_KEY] = request->key,
        [SL_RECORDED_USER] = name_of(check, SL_SCOPE_USER, request->user),
        [SL_RECORDED_ORG] = name_of(check, SL_SCOPE_ORG, request->org),
        [SL_RECORDED_PLAN] = sl_decision_plan(d),
        [SL_RECORDED_ROLE] = found(d, SL_STR("role")),
        [SL_RECORDED_IP] = request->ip,
        [SL_RECORDED_DOMAIN] = request->domain,
        [SL_RECORDED_ENDPOINT] = d->route->endpoint,
    };

    for (unsigned i = 0; i < SL_RECORDED_LIST; i++)
        if (!add(record, texts[i]))
            return false;
    return true;
}

static bool add_entry(struct sl_recorded *record, struct sl_str key,
                      struct sl_str value)
{
    return record->entry_count++ < SL_RECORDER_LISTS && add(record, key) &&
           add(record, value);
}

/* Names of scopes that a request has no member for are entries, too. */
static bool add_entries(struct sl_recorded *record,
                        const struct sl_check *check)
{
    const struct sl_request *request = check->request;
    const struct sl_identity *identity = &check->decision.policy->identity;
    struct sl_str name;

    for (unsigned i = 0; i < request->entry_count; i++)
        if (!add_entry(record, request->entries[i].key,
                       request->entries[i].value))
            return false;
    if (request->entry_count > 0 || request->limit.len > 0)
        return true;
    for (unsigned s = 0; s < identity->scope_count; s++) {
        if (s == SL_SCOPE_USER || s == SL_SCOPE_ORG || s == SL_SCOPE_IP)
            continue;
        name = found(&check->decision, identity->scope_names[s]);
        if (name.len > 0 && !add_entry(record, identity->scope_names[s], name))
            return false;
    }
    return true;
}

/* Costs that were read from a header or body are those of the limits. */
static bool add_costs(struct sl_recorded *record, const struct sl_check *check)
{
    const struct sl_decision *d = &check->decision;

    record->has_cost = check->request->has_cost;
    record->cost = check->request->cost;
    for (unsigned i = 0; i < d->shown_count; i++) {
        const struct sl_limit_view *shown = &d->shown[i];

        if (shown->cost == 1 || shown->pays_for || shown->skipped ||
            (record->has_cost && shown->cost == record->cost))
            continue;
        if (record->cost_count == SL_RECORDER_LISTS ||
            !add(record, shown->rule->name))
            return false;
        record->costs[record->cost_count++] = shown->cost + shown->credited;
    }
    return true;
}

static bool fill(struct sl_recorded *record, const struct sl_check *check)
{
    const struct sl_request *request = check->request;
    bool fits = is_whole(&check->decision);

    record->allowed = check->decision.allowed;
    record->text_count = record->entry_count = record->cost_count = 0;
    record->key_count = (uint8_t)request->key_count;
    fits = fits && request->key_count <= SL_RECORDER_LISTS &&
           add_texts(record, check);
    for (unsigned i = 0; i < request->key_count && fits; i++)
        fits = add(record, request->keys[i]);
    fits = fits && add_entries(record, check) && add_costs(record, check);
    if (fits) /* else the slot keeps its age, for adapt() */
        record->at = check->decision.now;
    return fits;
}

/* Of whom all requests are recorded, or none. This runs for each request, so
 * that names are compared by where they are: see sl_decision_who(). */
static struct sl_str caller_of(const struct sl_check *check)
{
    const struct sl_request *request = check->request;
    const struct sl_decision *d = &check->decision;
    const struct sl_str *names = d->policy->identity.scope_names;
    struct sl_str user = request->ip;

    if (request->limit.len > 0) {
        if (request->org.len > 0 || request->user.len > 0)
            return request->org.len > 0 ? request->org : request->user;
        return request->key_count > 0 ? request->keys[0] : request->key;
    }
    for (unsigned i = 0; i < d->who_count; i++) {
        if (d->who[i].scope.at == names[SL_SCOPE_ORG].at)
            return d->who[i].value;
        if (d->who[i].scope.at == names[SL_SCOPE_USER].at)
            user = d->who[i].value;
    }
    return user;
}

/* It only decides who is recorded, so it need not resist chosen names as the
 * fingerprints of the table do, and is cheaper. */
static uint64_t hash_of(const struct sl_recorder *r, struct sl_str name)
{
    uint64_t odd = (r->key.k1 ^ UINT64_C(0x9e3779b97f4a7c15)) | 1;
    uint64_t h = r->key.k0 ^ name.len, word;

    for (; name.len >= sizeof(word); name = sl_str_from(name, sizeof(word))) {
        memcpy(&word, name.at, sizeof(word));
        h = (h ^ word) * odd;
        h ^= h >> 32;
    }
    word = 0;
    for (size_t i = 0; i < name.len; i++)
        word = word << 8 | (uint8_t)name.at[i];
    h = (h ^ word) * odd;
    h ^= h >> 32;
    h *= odd;
    return h ^ h >> 32;
}

/* The next record overwrites one. Fewer callers, if that is too young, and all
 * that are there are of the present share; more, if there were few records for
 * a while. A record from before a clock step backwards has no age. */
static void adapt(struct sl_recorder *r, sl_ns now)
{
    const struct sl_recorded *last = &r->records[r->end % SL_RECORDER_RING];

    if (r->end - r->changed >= SL_RECORDER_RING) {
        sl_ns age = now - last->at;

        for (int i = 0; i < FASTER && age >= 0 && age < SL_RECORDER_SPAN; i++) {
            r->shift += r->shift < SHIFT_MOST;
            r->changed = r->end;
            age *= 2;
        }
    }
    if (now - r->looked_at <= SL_RECORDER_SPAN / 5 && now >= r->looked_at)
        return;
    if (r->shift > 0 && r->end - r->looked < SL_RECORDER_RING / 20) {
        r->shift--;
        r->changed = r->end;
    }
    r->looked_at = now;
    r->looked = r->end;
}

void sl_recorder_check(struct sl_recorder *r, const struct sl_check *check)
{
    const struct sl_request *request = check->request;
    struct sl_recorded *record;
    uint64_t hash;

    if (!atomic_load_explicit(&r->keep, memory_order_relaxed) ||
        check->request_count != 1 || request->charge || request->give_back ||
        request->failed || check->decision.replayed)
        return;
    hash = hash_of(r, caller_of(check));
    if ((hash & ((UINT64_C(1) << r->shift) - 1)) != 0)
        return;
    pthread_mutex_lock(&r->lock);
    adapt(r, check->decision.now);
    record = &r->records[r->end % SL_RECORDER_RING];
    record->hash = hash;
    record->shift = (uint8_t)r->shift;
    record->erased = false;
    if (fill(record, check))
        r->end++;
    else if (r->end >= SL_RECORDER_RING)
        record->erased = true; /* it was the oldest one */
    pthread_mutex_unlock(&r->lock);
}

/* ---- reading ---- */

unsigned sl_recorder_copy(struct sl_recorder *r, sl_ns from,
                          struct sl_recorded *ret, unsigned *ret_shift)
{
    unsigned count = 0;

    pthread_mutex_lock(&r->lock);
    for (uint64_t i = oldest(r); i < r->end; i++) {
        const struct sl_recorded *record = &r->records[i % SL_RECORDER_RING];

        if (record->erased || record->at < from)
            continue;
        if (record->shift > *ret_shift)
            *ret_shift = record->shift;
        ret[count++] = *record;
    }
    pthread_mutex_unlock(&r->lock);
    return count;
}

struct sl_str sl_recorded_text(const struct sl_recorded *record, unsigned which)
{
    unsigned begin = which ? record->ends[which - 1] : 0;

    return (struct sl_str){record->texts + begin, record->ends[which] - begin};
}

struct sl_request sl_recorded_request(const struct sl_recorded *record,
                                      struct sl_recorded_lists *lists)
{
    struct sl_str texts[SL_RECORDED_TEXTS];
    const struct sl_str *next = texts + SL_RECORDED_LIST;

    for (unsigned i = 0; i < record->text_count; i++)
        texts[i] = sl_recorded_text(record, i);
    for (unsigned i = 0; i < record->key_count; i++)
        lists->keys[i] = *next++;
    for (unsigned i = 0; i < record->entry_count; i++, next += 2)
        lists->entries[i] = (struct sl_descriptor_entry){next[0], next[1]};
    for (unsigned i = 0; i < record->cost_count; i++)
        lists->costs[i] = (struct sl_cost){*next++, record->costs[i]};
    return (struct sl_request){
        .method = texts[SL_RECORDED_METHOD],
        .path = texts[SL_RECORDED_PATH],
        .job = texts[SL_RECORDED_JOB],
        .limit = texts[SL_RECORDED_LIMIT],
        .key = texts[SL_RECORDED_KEY],
        .keys = record->key_count > 0 ? lists->keys : NULL,
        .key_count = record->key_count,
        .user = texts[SL_RECORDED_USER],
        .org = texts[SL_RECORDED_ORG],
        .plan = texts[SL_RECORDED_PLAN],
        .role = texts[SL_RECORDED_ROLE],
        .ip = texts[SL_RECORDED_IP],
        .domain = texts[SL_RECORDED_DOMAIN],
        .entries = lists->entries,
        .entry_count = record->entry_count,
        .has_cost = record->has_cost,
        .cost = record->cost,
        .costs = lists->costs,
        .cost_count = record->cost_count,
        .wait = SL_NS_NONE,
        .now = record->at,
    };
}

void sl_recorder_erase(struct sl_recorder *r, struct sl_str id)
{
    pthread_mutex_lock(&r->lock);
    for (uint64_t i = oldest(r); i < r->end; i++) {
        struct sl_recorded *record = &r->records[i % SL_RECORDER_RING];
        bool has = false;

        for (unsigned k = 0; k < record->text_count && !has; k++)
            has = sl_str_eq(sl_recorded_text(record, k), id);
        if (record->erased || !has)
            continue;
        memset(record->texts, 0, sizeof(record->texts));
        record->erased = true;
    }
    pthread_mutex_unlock(&r->lock);
}
