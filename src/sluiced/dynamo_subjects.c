/* dynamo_subjects.c -- subjects whose plan is written in a table of DynamoDB.
 *
 *     find --> at hand --------------------------> told
 *       |
 *       +--> a question is open: wait with it
 *       +--> a new question --> answer --> kept --> all who wait are told
 */
#include <stdatomic.h>
#include <string.h>
#include <sys/queue.h>

#include "base/timestamp.h"
#include "sluiced/daemon.h"

#define MOST      4096
#define LOADING   256
#define NAME_MOST 2048
#define TIER_MOST 128
#define AGAIN     (10 * SL_S) /* the same fault is told */

#define ADD(counter)                                                           \
    atomic_fetch_add_explicit(&(counter), 1, memory_order_relaxed)

/* A subject and its texts, in one piece. */
struct profile {
    struct sl_subject subject; /* first */
    const struct sl_alloc *alloc;
    size_t size;
    char text[];
};

struct kept {
    struct sl_hash128 hash;
    struct sl_subject *subject; /* NULL: none */
    sl_ns until;                /* steady */
};

struct question {
    struct sl_dynamo_call call; /* first */
    TAILQ_ENTRY(question) links;
    struct sl_dynamo_subjects *profiles;
    struct sl_hash128 hash;
    struct sl_buf name; /* the partition key; the id is its end */
    size_t prefix;
    struct sl_lookup *waiting; /* by next */
};

struct sl_dynamo_subjects {
    struct sl_subjects subjects; /* first */
    struct sl_dynamo_subjects_options options;
    struct sl_dynamo_http *client;
    struct sl_hash_key key;
    TAILQ_HEAD(, question) open;
    unsigned open_count;
    sl_ns told_at; /* of a fault, steady */
    struct sl_dynamo_subjects_counts counts;
    unsigned most;
    struct kept kept[];
};

/* ---- subjects ---- */

static void free_profile(struct sl_subject *subject)
{
    struct profile *p = (struct profile *)subject;

    sl_alloc_free(p->alloc, p, p->size);
}

/* NULL without memory. */
static struct sl_subject *make(const struct sl_alloc *alloc, struct sl_str id,
                               const char *tier, const char *expiry, bool known)
{
    size_t len = strlen(tier), size = sizeof(struct profile) + id.len + len;
    struct profile *p = sl_alloc_new(alloc, size);
    sl_ns expires = 0; /* has ended */

    if (!p)
        return NULL;
    if (sl_timestamp_parse(sl_str_c(expiry), &expires, NULL))
        expires = 0;
    *p = (struct profile){.alloc = alloc, .size = size};
    if (id.len > 0)
        memcpy(p->text, id.at, id.len);
    memcpy(p->text + id.len, tier, len);
    p->subject = (struct sl_subject){
        .refs = 1,
        .free = free_profile,
        .known = known,
        .id = {p->text,          id.len},
        .plan = {p->text + id.len, len   },
        .expires = expires,
    };
    return &p->subject;
}

/* ---- answers at hand ---- */

static struct kept *place_of(struct sl_dynamo_subjects *p,
                             struct sl_hash128 hash)
{
    return &p->kept[hash.lo % p->most];
}

static void keep(struct sl_dynamo_subjects *p, struct sl_hash128 hash,
                 struct sl_subject *subject)
{
    struct kept *k = place_of(p, hash);

    if (p->options.life == 0)
        return;
    sl_subject_unref(k->subject);
    *k = (struct kept){hash, sl_subject_ref(subject),
                       sl_loop_mono(p->options.loop) + p->options.life};
}

/* ---- questions ---- */

static void free_question(struct question *q)
{
    struct sl_dynamo_subjects *p = q->profiles;

    TAILQ_REMOVE(&p->open, q, links);
    p->open_count--;
    sl_dynamo_call_done(&q->call);
    sl_buf_done(&q->name);
    sl_alloc_free(p->options.alloc, q, sizeof(*q));
}

/* Each gets a reference of his own; done() may ask again. */
static void tell_all(struct sl_lookup *first, struct sl_subject *subject,
                     int err)
{
    while (first) {
        struct sl_lookup *next = first->next;

        first->found = subject ? sl_subject_ref(subject) : NULL;
        first->err = err;
        first->done(first);
        first = next;
    }
}

static void say_fault(struct sl_dynamo_subjects *p,
                      enum sl_dynamo_status answered, const char *why)
{
    sl_ns now = sl_loop_mono(p->options.loop);
    struct sl_diag said;

    ADD(p->counts.faults);
    if (!p->options.on_fault || (p->told_at > 0 && now - p->told_at < AGAIN))
        return;
    p->told_at = now;
    sl_diag_error(&said, 0, "%s (%s)", sl_dynamo_status_sentence(answered),
                  why);
    p->options.on_fault(p->options.ctx, said.sentence);
}

static void on_done(struct sl_dynamo_call *call)
{
    struct question *q = (struct question *)call;
    struct sl_dynamo_subjects *p = q->profiles;
    struct sl_lookup *waiting = q->waiting;
    char tier[TIER_MOST], expiry[SL_TIMESTAMP_TEXT], why[SL_REPLY_WHY];
    struct sl_dynamo_text texts[] = {
        {"subscriptionTier",   tier,   sizeof(tier),   false},
        {"subscriptionExpiry", expiry, sizeof(expiry), false},
    };
    struct sl_subject *subject = NULL;
    enum sl_dynamo_status answered = SL_UNSENT;
    bool there = false;

    if (call->status > 0)
        answered = sl_dynamo_texts(call->status, call->reply, texts,
                                   SL_LEN(texts), &there, why);
    if (answered == SL_DYNAMO_ANSWERED)
        subject =
            make(p->options.alloc, sl_str_from(sl_buf_str(&q->name), q->prefix),
                 tier, expiry, there);
    else
        say_fault(p, answered, call->status > 0 ? why : call->fetch.why);
    if (answered == SL_FORBIDDEN)
        sl_dynamo_http_doubt(p->client);
    if (subject) {
        ADD(p->counts.loads);
        keep(p, q->hash, subject);
    }
    free_question(q);
    tell_all(waiting, subject,
             subject                          ? 0
             : answered == SL_DYNAMO_ANSWERED ? SLUICE_ENOMEM
                                              : SLUICE_ESTORE);
    sl_subject_unref(subject);
}

#define ORG SL_STR("org:")

/* A user whose id begins like the items of organisations would have the plan of
 * one. Nobody is registered so. */
static bool is_disguised(const struct sl_lookup *lookup)
{
    return sl_str_eq(lookup->scope, SL_STR("user")) &&
           lookup->id.len >= ORG.len &&
           memcmp(lookup->id.at, ORG.at, ORG.len) == 0;
}

static int put_name(struct question *q, const struct sl_lookup *lookup)
{
    struct sl_str before =
        sl_str_eq(lookup->scope, SL_STR("user")) ? SL_STR("") : ORG;
    int err = sl_buf_add(&q->name, before);

    q->prefix = before.len;
    return err ? err : sl_buf_add(&q->name, lookup->id);
}

static int send_question(struct question *q)
{
    struct sl_dynamo_subjects *p = q->profiles;
    struct sl_row row = {.name = sl_buf_str(&q->name)};
    struct sl_str sort = p->options.where.profile;
    sl_ns patience = p->options.patience - p->options.patience / 4;
    int err;

    if (row.name.len == 0 || row.name.len > NAME_MOST ||
        sort.len >= sizeof(row.sort))
        return SLUICE_EINVAL;
    memcpy(row.sort, sort.at, sort.len);
    err = sl_row_put_get(&q->call.body, p->options.where.table, &row);
    return err ? err : sl_dynamo_call_send(&q->call, "GetItem", patience);
}

static struct question *ask(struct sl_dynamo_subjects *p,
                            const struct sl_lookup *lookup,
                            struct sl_hash128 hash)
{
    struct question *q = sl_alloc_new(p->options.alloc, sizeof(*q));

    if (!q)
        return NULL;
    memset(q, 0, sizeof(*q));
    q->profiles = p;
    q->hash = hash;
    sl_dynamo_call_init(&q->call, p->client);
    q->call.done = on_done;
    sl_buf_init(&q->name, 2 * NAME_MOST, p->options.alloc);
    TAILQ_INSERT_TAIL(&p->open, q, links);
    p->open_count++;
    if (!put_name(q, lookup) && !send_question(q))
        return q;
    free_question(q);
    return NULL;
}

static struct question *open_one(struct sl_dynamo_subjects *p,
                                 struct sl_hash128 hash)
{
    struct question *q;

    TAILQ_FOREACH(q, &p->open, links)
    if (q->hash.lo == hash.lo && q->hash.hi == hash.hi)
        return q;
    return NULL;
}

static struct sl_hash128 hash_of(const struct sl_dynamo_subjects *p,
                                 const struct sl_lookup *lookup)
{
    struct sl_hash128 h = sl_hash128(&p->key, lookup->id);

    h.hi ^= sl_str_eq(lookup->scope, SL_STR("user"));
    return h;
}

static void tell_stranger(struct sl_dynamo_subjects *p,
                          struct sl_lookup *lookup)
{
    struct sl_subject *nobody =
        make(p->options.alloc, lookup->id, "", "", false);

    tell_all(lookup, nobody, nobody ? 0 : SLUICE_ENOMEM);
    sl_subject_unref(nobody);
}

static void find(struct sl_subjects *subjects, struct sl_lookup *lookup)
{
    struct sl_dynamo_subjects *p = (struct sl_dynamo_subjects *)subjects;
    struct sl_hash128 hash = hash_of(p, lookup);
    struct kept *k = place_of(p, hash);
    struct question *q;
    unsigned most = p->options.loading ? p->options.loading : LOADING;

    lookup->next = NULL;
    if (is_disguised(lookup)) {
        tell_stranger(p, lookup);
        return;
    }
    if (k->subject && k->hash.lo == hash.lo && k->hash.hi == hash.hi &&
        sl_loop_mono(p->options.loop) < k->until) {
        ADD(p->counts.hits);
        tell_all(lookup, k->subject, 0);
        return;
    }
    q = open_one(p, hash);
    if (!q && p->open_count < most)
        q = ask(p, lookup, hash);
    if (!q) {
        ADD(p->counts.busy);
        tell_all(lookup, NULL, SLUICE_ESTORE);
        return;
    }
    sl_lookup_wait(lookup, sl_loop_mono(p->options.loop), p->options.patience);
    lookup->next = q->waiting;
    q->waiting = lookup;
}

/* ---- life ---- */

static const struct sl_subjects_calls calls = {find};

static size_t size_of(unsigned most)
{
    return sizeof(struct sl_dynamo_subjects) + most * sizeof(struct kept);
}

int sl_dynamo_subjects_open(const struct sl_dynamo_subjects_options *options,
                            struct sl_dynamo_subjects **ret)
{
    unsigned most = options->most ? options->most : MOST;
    struct sl_dynamo_subjects *p = sl_alloc_new(options->alloc, size_of(most));
    struct sl_dynamo_http_options client = {
        .loop = options->loop,
        .alloc = options->alloc,
    };
    int err;

    if (!p)
        return SLUICE_ENOMEM;
    memset(p, 0, size_of(most));
    p->subjects.calls = &calls;
    p->options = *options;
    p->most = most;
    TAILQ_INIT(&p->open);
    client.where = &p->options.where;
    client.env = &p->options.env;
    err = sl_hash_key_make(&p->key);
    if (!err)
        err = sl_dynamo_http_open(&client, &p->client);
    if (err) {
        sl_dynamo_subjects_close(p);
        return err;
    }
    *ret = p;
    return 0;
}

void sl_dynamo_subjects_close(struct sl_dynamo_subjects *profiles)
{
    struct question *q;

    if (!profiles)
        return;
    while ((q = TAILQ_FIRST(&profiles->open)) != NULL) {
        struct sl_lookup *waiting = q->waiting;

        free_question(q);
        tell_all(waiting, NULL, SLUICE_ESTORE);
    }
    for (unsigned i = 0; i < profiles->most; i++)
        sl_subject_unref(profiles->kept[i].subject);
    sl_dynamo_http_close(profiles->client);
    sl_alloc_free(profiles->options.alloc, profiles, size_of(profiles->most));
}

struct sl_subjects *
sl_dynamo_subjects_subjects(struct sl_dynamo_subjects *profiles)
{
    return &profiles->subjects;
}

const struct sl_dynamo_subjects_counts *
sl_dynamo_subjects_counts(const struct sl_dynamo_subjects *profiles)
{
    return &profiles->counts;
}
