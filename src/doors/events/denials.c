/* denials.c -- refusals of one thread, gathered until they are told. */
#include "doors/events/denials.h"

#include <inttypes.h>
#include <pthread.h>
#include <string.h>

#include "base/hash.h"
#include "wire/json_old.h"

struct sl_denial_batch {
    const struct sl_alloc *alloc;
    const struct sl_events *events;
    struct sl_hash_key secret; /* keys are chosen by others */
    pthread_mutex_t lock;
    uint64_t others;
    unsigned count;
    struct sl_denial rows[SL_DENIALS];
};

int sl_denial_batch_open(const struct sl_alloc *alloc,
                         const struct sl_events *events,
                         struct sl_denial_batch **ret)
{
    struct sl_denial_batch *denials;

    if (!alloc)
        alloc = &sl_alloc_libc;
    denials = sl_alloc_new(alloc, sizeof(*denials));
    if (!denials)
        return SLUICE_ENOMEM;
    memset(denials, 0, sizeof(*denials));
    if (sl_hash_key_make(&denials->secret)) {
        sl_alloc_free(alloc, denials, sizeof(*denials));
        return SLUICE_ESYS;
    }
    denials->alloc = alloc;
    denials->events = events;
    pthread_mutex_init(&denials->lock, NULL);
    *ret = denials;
    return 0;
}

void sl_denial_batch_close(struct sl_denial_batch *denials)
{
    if (!denials)
        return;
    pthread_mutex_destroy(&denials->lock);
    sl_alloc_free(denials->alloc, denials, sizeof(*denials));
}

/* ---- gathering ---- */

static void keep(char to[SL_DENIAL_TEXT], const char *text, size_t len)
{
    len = len < SL_DENIAL_TEXT - 1 ? len : SL_DENIAL_TEXT - 1;
    if (len > 0)
        memcpy(to, text, len);
    to[len] = '\0';
}

static uint64_t print_of(const struct sl_denial_batch *denials,
                         const struct sl_limit_view *shown)
{
    return sl_hash64(&denials->secret, shown->key) * 3 +
           sl_hash64(&denials->secret, shown->rule->name);
}

static void begin_row(struct sl_denial *row, const struct sl_decision *d,
                      const struct sl_limit_view *shown)
{
    row->count = 0;
    keep(row->limit, shown->rule->name.at, shown->rule->name.len);
    keep(row->scope, shown->scope.at, shown->scope.len);
    keep(row->key, shown->id, strnlen(shown->id, SL_DENIAL_TEXT));
    keep(row->endpoint, d->route->endpoint.at, d->route->endpoint.len);
    keep(row->request_id, d->request_id, strlen(d->request_id));
}

static struct sl_denial *find_row(struct sl_denial_batch *denials,
                                  uint64_t print)
{
    for (unsigned i = 0; i < denials->count; i++)
        if (denials->rows[i].print == print)
            return &denials->rows[i];
    return NULL;
}

static void count(struct sl_denial_batch *denials, const struct sl_decision *d)
{
    const struct sl_limit_view *shown = &d->shown[d->by];
    uint64_t print = print_of(denials, shown);
    struct sl_denial *row = find_row(denials, print);

    if (!row && denials->count == SL_DENIALS) {
        denials->others++;
        return;
    }
    if (!row) {
        row = &denials->rows[denials->count++];
        row->print = print;
        begin_row(row, d, shown);
    }
    row->count++;
    row->status = d->status;
    row->retry_in = d->retry_in;
}

void sl_denial_batch_decision(struct sl_denial_batch *denials,
                              const struct sl_decision *d)
{
    if (d->allowed || d->by < 0 || !sl_events_wanted(denials->events))
        return;
    pthread_mutex_lock(&denials->lock);
    count(denials, d);
    pthread_mutex_unlock(&denials->lock);
}

/* ---- telling ---- */

unsigned sl_denial_batch_take(struct sl_denial_batch *denials,
                              struct sl_denial rows[SL_DENIALS],
                              uint64_t *others)
{
    unsigned taken;

    pthread_mutex_lock(&denials->lock);
    taken = denials->count;
    memcpy(rows, denials->rows, taken * sizeof(rows[0]));
    *others = denials->others;
    denials->count = 0;
    denials->others = 0;
    pthread_mutex_unlock(&denials->lock);
    return taken;
}

static int write_text(struct sl_buf *out, const char *name, const char *text)
{
    int err = sl_buf_addf(out, "%s", name);

    return err ? err : sl_json_string(out, sl_str_c(text));
}

int sl_denial_write(const struct sl_denial *denial, struct sl_buf *out)
{
    int err = write_text(out, "\"limit\":", denial->limit);

    if (!err)
        err = write_text(out, ",\"scope\":", denial->scope);
    if (!err)
        err = write_text(out, ",\"key\":", denial->key);
    if (!err)
        err = write_text(out, ",\"endpoint\":", denial->endpoint);
    if (!err)
        err = sl_buf_addf(out, ",\"status\":%d,\"count\":%" PRIu64,
                          denial->status, denial->count);
    if (!err && denial->retry_in >= 0)
        err = sl_buf_addf(out, ",\"retry_after_ms\":%" PRId64,
                          denial->retry_in / SL_MS +
                              (denial->retry_in % SL_MS > 0));
    if (!err)
        err = write_text(out, ",\"request_id\":", denial->request_id);
    return err;
}
