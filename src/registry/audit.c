/* audit.c -- the table `audit`: all changes that operators made.
 *
 * A row has who, when, from where, what, the values before and after, and why.
 * A change is written in the transaction of its row, so that neither exists
 * without the other.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/timestamp.h"
#include "registry/registry_int.h"
#include "wire/json.h"

int sl_audit_put(struct sl_database *db, const struct sl_audit_note *n,
                 sl_ns now, uint64_t *ret)
{
    int found = sl_query_one(db, SL_QUERY_PUT_AUDIT, "ttnttoott c", n->scope,
                             n->id, now, n->by, n->what, n->before, n->after,
                             n->origin, n->note, ret);

    return found < 0 ? found : 0;
}

int sl_audit_put_usage(struct sl_database *db, const struct sl_audit_note *note,
                       const struct sl_usage_entry *u)
{
    char texts[2][SL_USAGE_NAME + 64];
    struct sl_audit_note own = *note;
    uint64_t number;

    if (u->change == 0)
        return 0;
    for (unsigned i = 0; i < 2; i++)
        snprintf(texts[i], sizeof(texts[i]),
                 "{\"limit\":\"%.*s\",\"used\":%" PRId64 "}",
                 SL_STR_ARG(u->limit), (int64_t)u->used - (i ? 0 : u->change));
    own.scope = u->scope;
    own.id = u->id;
    own.before = sl_str_c(texts[0]);
    own.after = sl_str_c(texts[1]);
    return sl_audit_put(db, &own, u->at, &number);
}

static void write_value(struct sl_writer *w, const char *name,
                        struct sl_str json)
{
    sl_json_key(w, sl_str_c(name));
    sl_json_raw(w, json.len ? json : SL_STR("null"));
}

int sl_audit_read(struct sl_database *db, const struct sl_job *job,
                  struct sl_buf *out)
{
    const enum sl_query q = SL_QUERY_AUDIT_ALL;
    struct sl_writer w = {.out = out};
    struct sl_audit_note n;
    char time[SL_TIMESTAMP_TEXT];
    int64_t seq;
    sl_ns at;
    int found = 0;

    sl_query_bind(db, q, "nci", job->since, job->before, job->most);
    while (!w.err &&
           (found = sl_query_next(db, q, NULL, "nntttttttt", &seq, &at, &n.by,
                                  &n.origin, &n.what, &n.scope, &n.id, &n.note,
                                  &n.before, &n.after)) == 1) {
        sl_timestamp_print(at, true, time);
        sl_json_open(&w, '{');
        sl_writer_addf(&w, "\"number\":%" PRId64 ",\"at\":\"%s\"", seq, time);
        sl_json_member_str(&w, "by", n.by);
        sl_json_member_str(&w, "origin", n.origin);
        sl_json_member_str(&w, "what", n.what);
        sl_json_member_str(&w, "scope", n.scope);
        sl_json_member_str(&w, "id", n.id);
        sl_json_member_str(&w, "note", n.note);
        write_value(&w, "before", n.before);
        write_value(&w, "after", n.after);
        sl_json_close(&w, '}');
    }
    sl_query_reset(db, q);
    return w.err ? w.err : found;
}

/* ---- without waiting ---- */

struct note_job {
    struct sl_job job;
    struct sl_audit_note note;
    const struct sl_alloc *alloc;
    size_t size;
    char texts[];
};

static void on_written(struct sl_job *job)
{
    struct note_job *n = job->ctx;

    sl_job_clear(job);
    sl_alloc_free(n->alloc, n, n->size);
}

void sl_registry_note(struct sl_registry *r, struct sl_loop *loop,
                      const struct sl_audit_note *note, sl_ns now)
{
    struct sl_audit_note own = *note;
    struct sl_str *const texts[] = {&own.what,   &own.scope,  &own.id,
                                    &own.by,     &own.origin, &own.note,
                                    &own.before, &own.after};
    struct note_job *n;
    size_t size = sizeof(*n);
    char *at;

    for (size_t i = 0; i < SL_LEN(texts); i++)
        size += texts[i]->len;
    n = sl_alloc_new(r->alloc, size);
    if (!n)
        return;
    at = n->texts;
    for (size_t i = 0; i < SL_LEN(texts); i++) {
        if (texts[i]->len > 0)
            memcpy(at, texts[i]->at, texts[i]->len);
        texts[i]->at = at;
        at += texts[i]->len;
    }
    n->note = own;
    n->alloc = r->alloc;
    n->size = size;
    sl_job_init(&n->job, SL_JOB_NOTE, r->alloc);
    n->job.loop = loop;
    n->job.now = now;
    n->job.done = on_written;
    n->job.ctx = n;
    n->job.audit = &n->note;
    sl_registry_ask(r, &n->job);
}
