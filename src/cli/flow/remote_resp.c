/* remote_resp.c -- a flow against a daemon over the Redis protocol. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cli/flow/remote.h"
#include "wire/resp.h"

#define NAME_MOST 300 /* "header." and what is behind it */

/* The words of a command, and the texts of those that are made up here. */
struct words {
    struct sl_str list[SL_RESP_ARGS];
    unsigned count;
    char names[SL_RESP_ARGS][NAME_MOST];
    bool full;
};

static void add(struct words *w, struct sl_str word)
{
    if (w->count < SL_RESP_ARGS)
        w->list[w->count++] = word;
    else
        w->full = true;
}

static void add_text(struct words *w, const char *name, const char *text)
{
    if (!text)
        return;
    add(w, sl_str_c(name));
    add(w, sl_str_c(text));
}

/* "cost.LIMIT" or "header.NAME". */
static void add_name(struct words *w, const char *kind, const char *name)
{
    char *to = w->names[w->count < SL_RESP_ARGS ? w->count : 0];

    if (snprintf(to, NAME_MOST, "%s.%s", kind, name) >= NAME_MOST)
        w->full = true;
    add(w, sl_str_c(to));
}

static void add_number(struct words *w, uint64_t n)
{
    char *to = w->names[w->count < SL_RESP_ARGS ? w->count : 0];

    snprintf(to, NAME_MOST, "%" PRIu64, n);
    add(w, sl_str_c(to));
}

static void add_subject(struct words *w, const struct sluice_request *r)
{
    if (r->job) {
        add_text(w, "JOB", r->job);
    } else if (r->limit) {
        add_text(w, "LIMIT", r->limit);
        add(w, sl_str_c(r->key));
    } else {
        add(w, sl_str_c(r->method ? r->method : "GET"));
        add(w, sl_str_c(r->path));
    }
}

static void add_costs(struct words *w, const struct sluice_request *r)
{
    if (r->has_cost) {
        add(w, SL_STR("cost"));
        add_number(w, r->cost);
    }
    for (size_t i = 0; i < r->cost_count; i++) {
        add_name(w, "cost", r->costs[i].limit);
        add_number(w, r->costs[i].cost);
    }
}

static void add_hold(struct words *w, int64_t span)
{
    char *to;

    if (span <= 0)
        return;
    add(w, SL_STR("hold"));
    to = w->names[w->count < SL_RESP_ARGS ? w->count : 0];
    snprintf(to, NAME_MOST, "%" PRId64 "ns", span);
    add(w, sl_str_c(to));
}

int sl_command_write(struct sl_buf *out, const struct sluice_request *request,
                     struct sl_str id)
{
    struct words w = {.count = 0};

    add(&w, SL_STR("SLUICE.CHECK"));
    add_subject(&w, request);
    add_text(&w, "user", request->user);
    add_text(&w, "org", request->org);
    add_text(&w, "plan", request->plan);
    add_text(&w, "role", request->role);
    add_text(&w, "ip", request->ip);
    for (size_t i = 0; i < request->header_count; i++) {
        add_name(&w, "header", request->headers[i].name);
        add(&w, sl_str_c(request->headers[i].value));
    }
    add_costs(&w, request);
    add_text(&w, "body", request->body);
    add_text(&w, "idempotency_key", request->idempotency_key);
    add_hold(&w, request->hold_ns);
    if (id.len > 2 && id.at[0] == '"') {
        add(&w, SL_STR("id"));
        add(&w, (struct sl_str){id.at + 1, id.len - 2});
    }
    add_text(&w, "wait", "0s");
    add_text(&w, "as", "json");
    return w.full ? SLUICE_EINVAL : sl_resp_command_write(out, w.list, w.count);
}

int sl_remote_pipeline(struct sl_remote *remote, struct sl_str *ret)
{
    struct sl_str replies;
    int err = sl_client_pipeline(&remote->door, sl_buf_str(&remote->checks),
                                 remote->count, &replies, &remote->why);

    sl_buf_clear(&remote->verdicts);
    while (!err && replies.len > 0) {
        struct sl_resp_value v = sl_resp_next(&replies);

        if (v.type != SL_RESP_STRING)
            return sl_refuse(&remote->why, SLUICE_ECONF,
                             "the daemon rejected a check: %.*s",
                             SL_STR_ARG(v.text));
        if (sl_buf_add(&remote->verdicts, v.text))
            err = sl_refuse(&remote->why, SLUICE_ENOMEM, "out of memory");
    }
    if (!err)
        *ret = sl_buf_str(&remote->verdicts);
    return err;
}
