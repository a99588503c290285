/* blocks.c -- the table `blocks`: users, organisations, addresses and networks
 * that an operator has blocked.
 *
 * A block does not depend on the record of the subject: a subject that is not
 * registered can be blocked, and writes of the record leave the block alone. A
 * block that has ended has no effect; the next write of a block deletes it.
 *
 * Blocked addresses and networks have the scope "ip". They are loaded as one
 * record: a new address needs no query, and a network is found by any address
 * that it has.
 */
#include <stdlib.h>
#include <string.h>

#include "base/timestamp.h"
#include "registry/registry_int.h"
#include "wire/json.h"

int sl_block_load(struct sl_database *db, struct sl_str scope, struct sl_str id,
                  struct sl_block *ret)
{
    sl_ns at;
    int found = sl_query_one(db, SL_QUERY_BLOCK, "tt wttn", scope, id,
                             &ret->until, &ret->by, &ret->note, &at);

    ret->is_set = found == 1;
    return found < 0 ? found : 0;
}

/* ---- addresses and networks ---- */

#define IPS_MOST  10000
#define IPS_BYTES ((size_t)64 << 20)
#define LENGTHS   129 /* of networks: 0 to 128 bits */

struct blocked_ip {
    struct sl_subject subject; /* first; its references keep `all` */
    struct sl_net net;
    struct sl_subject_record *all;
    struct blocked_ip *next; /* while they are read */
};

struct blocked_ips {
    struct sl_subject_record record; /* first */
    struct sl_arena arena;
    struct blocked_ip **list; /* by length, then by address */
    size_t count;
    uint8_t lengths[LENGTHS]; /* those that are in use */
    unsigned length_count;
};

static void free_all(struct sl_subject *subject)
{
    struct blocked_ips *all = (struct blocked_ips *)subject;

    sl_arena_done(&all->arena);
    sl_alloc_free(all->record.alloc, all, sizeof(*all));
}

static void free_one(struct sl_subject *subject)
{
    sl_subject_unref(&((struct blocked_ip *)subject)->all->subject);
}

static int compare_nets(const struct sl_net *a, const struct sl_net *b)
{
    return a->bits != b->bits ? (a->bits < b->bits ? -1 : 1)
                              : memcmp(&a->ip, &b->ip, sizeof(a->ip));
}

static int compare(const void *a, const void *b)
{
    return compare_nets(&(*(struct blocked_ip *const *)a)->net,
                        &(*(struct blocked_ip *const *)b)->net);
}

static int compare_key(const void *net, const void *one)
{
    return compare_nets(net, &(*(struct blocked_ip *const *)one)->net);
}

/* Reads the rows into a list. */
static int read_ips(struct sl_database *db, struct blocked_ips *all, sl_ns now,
                    struct blocked_ip **first)
{
    const enum sl_query q = SL_QUERY_BLOCKED_IPS;
    int found;

    sl_query_bind(db, q, "n", now);
    for (;;) {
        struct blocked_ip *one = sl_arena_take(&all->arena, sizeof(*one));

        if (!one) {
            found = SLUICE_ENOMEM;
            break;
        }
        *one = (struct blocked_ip){
            .subject = {.free = free_one,
                        .expires = SL_NS_NONE,
                        .block.is_set = true},
            .all = &all->record,
            .next = *first
        };
        found = sl_query_next(db, q, &all->arena, "twtt", &one->subject.id,
                              &one->subject.block.until, &one->subject.block.by,
                              &one->subject.block.note);
        if (found != 1)
            break;
        if (!sl_net_parse(one->subject.id, &one->net))
            continue; /* not ours */
        *first = one;
        all->count++;
    }
    sl_query_reset(db, q);
    return found;
}

/* Sorts them, and lists their lengths. */
static int sort_ips(struct blocked_ips *all, struct blocked_ip *first)
{
    struct blocked_ip **at =
        sl_arena_take(&all->arena, all->count * sizeof(void *));

    if (!at)
        return SLUICE_ENOMEM;
    all->list = at;
    for (; first; first = first->next)
        *at++ = first;
    if (all->count > 0)
        qsort(all->list, all->count, sizeof(void *), compare);
    for (size_t i = 0; i < all->count; i++)
        if (i == 0 || all->list[i]->net.bits != all->list[i - 1]->net.bits)
            all->lengths[all->length_count++] = (uint8_t)all->list[i]->net.bits;
    return 0;
}

int sl_blocked_ips_load(struct sl_registry *r, sl_ns now,
                        struct sl_subject_record **ret)
{
    struct blocked_ips *all = sl_alloc_new(r->alloc, sizeof(*all));
    struct blocked_ip *first = NULL;
    int err;

    if (!all)
        return SLUICE_ENOMEM;
    memset(all, 0, sizeof(*all));
    all->record.subject.refs = 1;
    all->record.subject.free = free_all;
    all->record.alloc = r->alloc;
    sl_arena_init(&all->arena, IPS_BYTES, r->alloc);
    err = read_ips(&r->db, all, now, &first);
    if (!err)
        err = sort_ips(all, first);
    if (err) {
        free_all(&all->record.subject);
        return err;
    }
    all->record.size = sizeof(*all) + all->arena.held;
    *ret = &all->record;
    return all->count > 0;
}

struct sl_subject *sl_blocked_ip_find(struct sl_subject_record *record,
                                      const struct sl_ip *ip, sl_ns now)
{
    struct blocked_ips *all = (struct blocked_ips *)record;
    struct blocked_ip *last = NULL;

    for (unsigned i = 0; i < all->length_count; i++) {
        struct sl_net net = sl_net_of(ip, all->lengths[i]);
        struct blocked_ip **found =
            bsearch(&net, all->list, all->count, sizeof(void *), compare_key);

        if (found && sl_net_has(&net, ip) &&
            sl_block_is_on(&(*found)->subject.block, now) &&
            (!last || sl_block_ends_later(&(*found)->subject.block,
                                          &last->subject.block)))
            last = *found;
    }
    if (!last)
        return NULL;
    if (last->subject.refs == 0)
        sl_subject_ref(&all->record.subject);
    return sl_subject_ref(&last->subject);
}

/* ---- writing ---- */

static int check_count(struct sl_database *db, struct sl_job *job)
{
    int64_t count = 0;
    int found = sl_query_one(db, SL_QUERY_COUNT_IPS, "t n", job->id, &count);

    if (found < 0 || count < IPS_MOST)
        return found < 0 ? found : 0;
    sl_diag_error(&job->diag, SLUICE_ECONF,
                  "%d addresses and networks are blocked; unblock some, or "
                  "block a network that has several of them",
                  IPS_MOST);
    job->result = SL_JOB_CONFLICT;
    return 0;
}

/* Marks the subject and its aliases as changed, so that caches look them up
 * again. */
static void touch(struct sl_registry *r, struct sl_str scope, struct sl_str id,
                  const struct sl_subject_draft *draft)
{
    sl_job_touch(r, scope, sl_str_eq(scope, SL_IP_SCOPE) ? SL_IP_ALL : id);
    for (unsigned i = 0; draft && i < draft->alias_count; i++)
        sl_job_touch(r, scope, draft->aliases[i]);
}

int sl_block_write(struct sl_registry *r, struct sl_job *job)
{
    struct sl_database *db = &r->db;
    struct sl_subject_draft draft;
    struct sl_block old = {.is_set = false};
    struct sl_str id = job->id;
    int err, found;

    sl_arena_reset(&db->arena);
    found = sl_job_load(db, job->scope, job->id, &draft);
    if (found < 0)
        return found;
    if (found)
        id = draft.id;
    err = sl_query_run(db, SL_QUERY_DROP_ENDED_BLOCKS, "n", job->now);
    if (!err)
        err = sl_block_load(db, job->scope, id, &old);
    if (!err && !job->on && !old.is_set) { /* blocked before it was an alias */
        id = job->id;
        err = sl_block_load(db, job->scope, id, &old);
    }
    if (!err && !job->on && !old.is_set)
        job->result = SL_JOB_NOT_FOUND;
    if (!err && job->on && sl_str_eq(job->scope, SL_IP_SCOPE))
        err = check_count(db, job);
    if (err || job->result != SL_JOB_DONE)
        return err;
    touch(r, job->scope, id, found ? &draft : NULL);
    return job->on
               ? sl_query_run(db, SL_QUERY_PUT_BLOCK, "ttwttn", job->scope, id,
                              job->since, job->by, job->note, job->now)
               : sl_query_run(db, SL_QUERY_DROP_BLOCK, "tt", job->scope, id);
}

int sl_block_list(struct sl_database *db, struct sl_job *job)
{
    const enum sl_query q = SL_QUERY_BLOCKS;
    struct sl_writer w = {.out = &job->text};
    struct sl_str scope, id;
    struct sl_block block;
    unsigned count = 0;
    sl_ns at;
    int found = 0;

    sl_query_bind(db, q, "ni", job->now, job->most + 1);
    while (!w.err &&
           (found = sl_query_next(db, q, NULL, "ttwttn", &scope, &id,
                                  &block.until, &block.by, &block.note, &at)) ==
               1 &&
           !(job->cut = count++ == job->most)) {
        sl_json_open(&w, '{');
        sl_json_member_str(&w, "scope", scope);
        sl_json_member_str(&w, "id", id);
        sl_json_member_time(&w, "until", block.until);
        sl_json_member_str(&w, "by", block.by);
        sl_json_member_str(&w, "note", block.note);
        sl_json_member_time(&w, "at", at);
        sl_json_close(&w, '}');
    }
    sl_query_reset(db, q);
    return w.err ? w.err : found < 0 ? found : 0;
}
