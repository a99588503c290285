/* http1_run.h -- give a request to the reader in pieces, and compare runs.
 *
 * Each piece comes in a fresh copy of the buffer that is not a byte longer
 * than its contents: so slices must follow it, and a sanitizer sees a read
 * beyond.
 */
#ifndef SL_HTTP1_RUN_H
#define SL_HTTP1_RUN_H

#include <stdlib.h>
#include <string.h>

#include "wire/http1.h"

struct run {
    struct sl_http1 http1;
    struct sl_buf in;
    enum sl_http1_result result;
    size_t fed;   /* bytes of the text that the reader has been given */
    size_t taken; /* DONE: bytes of the text that were the request */
};

static const struct sl_http1_limits run_limits = {
    .line = 8 << 10, .head = 16 << 10, .body = 1 << 20};

/* A fresh copy, with `more` behind it. */
static inline void run_feed(struct run *run, struct sl_str more)
{
    size_t len = run->in.len + more.len;
    char *bytes = malloc(len ? len : 1);

    if (!bytes)
        abort();
    if (run->in.len > 0)
        memcpy(bytes, run->in.bytes, run->in.len);
    if (more.len > 0)
        memcpy(bytes + run->in.len, more.at, more.len);
    free(run->in.bytes);
    run->in.bytes = bytes;
    run->in.len = run->in.size = run->in.ceiling = len;
    run->fed += more.len;
    run->result = sl_http1_read(&run->http1, &run->in);
}

/* Read `text` in pieces as long as `cuts` says, over and over again; with no
 * cuts it comes at once. Stops when the request is complete or refused. */
static inline void run_cut(struct run *run, struct sl_str text,
                           const struct sl_http1_limits *limits,
                           const uint8_t *cuts, size_t count)
{
    *run = (struct run){.result = SL_HTTP1_MORE};
    sl_http1_begin(&run->http1, limits);
    for (size_t i = 0; run->result == SL_HTTP1_MORE && run->fed < text.len;
         i++) {
        struct sl_str piece = sl_str_from(text, run->fed);

        if (count > 0 && piece.len > cuts[i % count])
            piece.len = cuts[i % count] ? cuts[i % count] : 1;
        run_feed(run, piece);
    }
    run->taken = run->fed - (run->in.len - run->http1.used);
}

static inline void run_whole(struct run *run, struct sl_str text)
{
    run_cut(run, text, &run_limits, NULL, 0);
}

static inline void run_done(struct run *run)
{
    free(run->in.bytes);
    run->in.bytes = NULL;
}

static inline bool run_same_fields(const struct run *a, const struct run *b)
{
    if (a->http1.field_count != b->http1.field_count)
        return false;
    for (unsigned i = 0; i < a->http1.field_count; i++) {
        const struct sl_http1_field *f = &a->http1.fields[i];
        const struct sl_http1_field *g = &b->http1.fields[i];

        if (!sl_str_eq(f->name, g->name) || !sl_str_eq(f->value, g->value))
            return false;
    }
    return true;
}

/* What two runs of the same text differ in, or NULL. */
static inline const char *run_differ(const struct run *a, const struct run *b)
{
    const struct sl_http1 *p = &a->http1, *q = &b->http1;

    if (a->result != b->result)
        return "the result";
    if (p->status != q->status || p->why != q->why)
        return "the reason";
    if (p->expect_continue != q->expect_continue)
        return "expect_continue";
    if (a->result != SL_HTTP1_DONE)
        return NULL;
    if (a->taken != b->taken)
        return "the end";
    if (!sl_str_eq(p->method, q->method) || !sl_str_eq(p->target, q->target) ||
        !sl_str_eq(p->host, q->host) || p->minor != q->minor)
        return "the request line";
    if (!run_same_fields(a, b))
        return "the fields";
    if (!sl_str_eq(p->body, q->body))
        return "the body";
    if (p->keep_alive != q->keep_alive ||
        p->is_head_request != q->is_head_request)
        return "keep_alive";
    return NULL;
}

/* Is what follows the request as it was sent, as far as it has come? */
static inline bool run_rest_is(const struct run *run, struct sl_str text)
{
    struct sl_str rest = {run->in.bytes + run->http1.used,
                          run->in.len - run->http1.used};

    return run->taken + rest.len == run->fed &&
           sl_str_eq(rest, (struct sl_str){text.at + run->taken, rest.len});
}

#endif
