/* daemon.c -- a flow against a daemon. */
#include "cli/cli.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/timestamp.h"
#include "wire/json.h"
#include "wire/resp.h"

#define CHECKS_MAX   100                  /* in one array */
#define CHECKS_BYTES ((size_t)512 * 1024) /* a daemon accepts 1 MiB */
#define POLICY_BYTES ((size_t)1024 * 1024)
#define BODY_BYTES   ((size_t)1 << 20)
#define SHOWN_BYTES  90 /* of a verdict that differs */

int sl_flow_daemon_init(struct sl_flow_daemon *daemon, const char *url,
                        const char *admin, const struct sl_alloc *alloc)
{
    int err;

    *daemon = (struct sl_flow_daemon){.now = 0};
    sl_buf_init(&daemon->checks, 2 * CHECKS_BYTES, alloc);
    sl_buf_init(&daemon->wants, SL_DAEMON_CLIENT_BYTES, alloc);
    sl_buf_init(&daemon->verdicts, SL_DAEMON_CLIENT_BYTES, alloc);
    /* Both are initialised, so that both can be freed. */
    err = sl_daemon_client_init(&daemon->admin, admin, alloc, &daemon->why);
    if (sl_daemon_client_init(&daemon->client, url, alloc, &daemon->why))
        err = SLUICE_ECONF;
    return err;
}

void sl_flow_daemon_done(struct sl_flow_daemon *daemon)
{
    sl_daemon_client_done(&daemon->client);
    sl_daemon_client_done(&daemon->admin);
    sl_buf_done(&daemon->checks);
    sl_buf_done(&daemon->wants);
    sl_buf_done(&daemon->verdicts);
}

static void drop_checks(struct sl_flow_daemon *daemon)
{
    sl_buf_clear(&daemon->checks);
    sl_buf_clear(&daemon->wants);
    daemon->count = 0;
}

static int no_memory(struct sl_flow_daemon *daemon)
{
    return sl_diag_error(&daemon->why, SLUICE_ENOMEM, "out of memory");
}

/* ---- the admin listener ---- */

/* Send a request; SLUICE_ECONF unless the status is 200. 404 is accepted if
 * `unknown` is not NULL, and *ret is `unknown` then. */
static int ask(struct sl_flow_daemon *daemon, struct sl_daemon_client *client,
               const char *method, const char *path, struct sl_str body,
               const char *unknown, struct sl_str *ret)
{
    int status, err;

    err = sl_daemon_client_ask(client, method, path, body, &status, ret);
    if (err || status == 200)
        return err;
    if (unknown && status == 404) {
        *ret = sl_str_c(unknown);
        return 0;
    }
    return sl_diag_error(&daemon->why, SLUICE_ECONF,
                         "the daemon answered %s %s with status %d: %.*s",
                         method, path, status, SL_STR_ARG(*ret));
}

static int send_admin(struct sl_flow_daemon *daemon, const char *method,
                      const char *path, struct sl_str body)
{
    struct sl_str answer;

    return ask(daemon, &daemon->admin, method, path, body, NULL, &answer);
}

static int set_clock(struct sl_flow_daemon *daemon, const char *path)
{
    char body[64];
    int err;

    snprintf(body, sizeof(body), "{\"now\":%" PRId64 "}", daemon->now);
    err = send_admin(daemon, "POST", path, sl_str_c(body));
    if (!err)
        daemon->set = daemon->now;
    return err;
}

static int sync_clock(struct sl_flow_daemon *daemon)
{
    return daemon->set == daemon->now ? 0 : set_clock(daemon, "/v1/clock");
}

/* Send the collected checks and set the clock. */
static int flush_and_sync(struct sl_flow_daemon *daemon)
{
    int err = sl_flow_daemon_flush(daemon);

    return err ? err : sync_clock(daemon);
}

int sl_flow_daemon_policy(struct sl_flow_daemon *daemon, const char *path)
{
    struct sl_buf text;
    int err = sl_flow_daemon_flush(daemon);

    sl_buf_init(&text, POLICY_BYTES + 4096, &sl_alloc_libc);
    if (!err)
        err = sl_file_read(path, POLICY_BYTES, &text, &daemon->why);
    if (!err)
        err = send_admin(daemon, "POST", "/v1/policy", sl_buf_str(&text));
    sl_buf_done(&text);
    return err;
}

int sl_flow_daemon_begin(struct sl_flow_daemon *daemon, const char *policy)
{
    int err;

    /* An earlier flow may have failed in the middle. */
    sl_daemon_client_close(&daemon->client);
    sl_daemon_client_close(&daemon->admin);
    drop_checks(daemon);
    daemon->now = 0;
    err = set_clock(daemon, "/v1/clock?forget=true");
    return err ? err : sl_flow_daemon_policy(daemon, policy);
}

int sl_flow_daemon_clock(struct sl_flow_daemon *daemon, sl_ns now)
{
    int err = now == daemon->now ? 0 : sl_flow_daemon_flush(daemon);

    daemon->now = now;
    return err;
}

int sl_flow_daemon_feature(struct sl_flow_daemon *daemon, const char *name,
                           bool on)
{
    char path[300];
    int err = sl_flow_daemon_flush(daemon);

    if (err)
        return err;
    snprintf(path, sizeof(path), "/v1/features/%.256s", name);
    return send_admin(daemon, "PUT", path,
                      on ? SL_STR("{\"enabled\":true}")
                         : SL_STR("{\"enabled\":false}"));
}

int sl_flow_daemon_backlog(struct sl_flow_daemon *daemon, const char *name,
                           uint64_t depth)
{
    char path[300], body[64];
    int err = flush_and_sync(daemon);

    if (err)
        return err;
    snprintf(path, sizeof(path), "/v1/backlog/%.64s", name);
    snprintf(body, sizeof(body), "{\"depth\":%" PRIu64 "}", depth);
    return send_admin(daemon, "PUT", path, sl_str_c(body));
}

/* ---- the registry ---- */

static void write_subject(struct sl_writer *w,
                          const struct sl_flow_subject_args *subject,
                          int64_t end)
{
    char until[SL_TIMESTAMP_TEXT];

    sl_json_open(w, '{');
    sl_json_member_text(w, "by", "flow");
    sl_json_member_text(w, "plan", subject->plan);
    if (subject->anchor)
        sl_json_member_text(w, "anchor", subject->anchor);
    if (subject->zone)
        sl_json_member_text(w, "zone", subject->zone);
    if (end >= 0) {
        sl_timestamp_print(end, true, until);
        sl_json_member_text(w, "expires", subject->plan ? until : NULL);
        if (subject->override_count > 0)
            sl_json_member_text(w, "until", until);
    }
    sl_json_key(w, SL_STR("overrides"));
    sl_json_open(w, '{');
    for (size_t i = 0; i < subject->override_count; i++)
        sl_json_member_text(w, subject->overrides[i].limit,
                            subject->overrides[i].rate);
    sl_json_close(w, '}');
    sl_json_close(w, '}');
}

int sl_flow_daemon_subject(struct sl_flow_daemon *daemon,
                           const struct sl_flow_act *act, int64_t end)
{
    struct sl_buf body, path;
    struct sl_writer body_writer = {.out = &body};
    struct sl_writer path_writer = {.out = &path};
    int err = sl_flow_daemon_flush(daemon);

    if (err)
        return err;
    sl_buf_init(&body, BODY_BYTES, &sl_alloc_libc);
    sl_buf_init(&path, 1 << 16, &sl_alloc_libc);
    sl_writer_addf(&path_writer, "/v1/subjects/%s/", act->names[0]);
    sl_url_encode(&path_writer, sl_str_c(act->names[1]));
    sl_writer_addf(&path_writer, "?force=true%c", '\0');
    write_subject(&body_writer, act->record, end);
    if (path_writer.err || body_writer.err)
        err = no_memory(daemon);
    else
        err = send_admin(daemon, "PUT", path.bytes, sl_buf_str(&body));
    sl_buf_done(&body);
    sl_buf_done(&path);
    return err;
}

static void write_block(struct sl_writer *w, const char *note, int64_t end)
{
    char until[SL_TIMESTAMP_TEXT];

    sl_json_open(w, '{');
    sl_json_member_text(w, "by", "flow");
    sl_json_member_text(w, "note", note);
    if (end >= 0) {
        sl_timestamp_print(end, true, until);
        sl_json_member_text(w, "until", until);
    }
    sl_json_close(w, '}');
}

int sl_flow_daemon_block(struct sl_flow_daemon *daemon,
                         const struct sl_flow_act *act, int64_t end)
{
    bool on = act->kind == SL_FLOW_ACT_BLOCK;
    struct sl_buf body, path;
    struct sl_writer body_writer = {.out = &body};
    struct sl_writer path_writer = {.out = &path};
    int err = flush_and_sync(daemon);

    if (err)
        return err;
    sl_buf_init(&body, BODY_BYTES, &sl_alloc_libc);
    sl_buf_init(&path, 1 << 16, &sl_alloc_libc);
    sl_writer_addf(&path_writer, "/v1/blocks/%s/", act->names[0]);
    sl_url_encode(&path_writer, sl_str_c(act->names[1]));
    sl_writer_addf(&path_writer, "%c", '\0');
    if (on)
        write_block(&body_writer, act->record->note, end);
    if (path_writer.err || body_writer.err)
        err = no_memory(daemon);
    else
        err = send_admin(daemon, on ? "POST" : "DELETE", path.bytes,
                         sl_buf_str(&body));
    sl_buf_done(&body);
    sl_buf_done(&path);
    return err;
}

/* ---- checks as JSON ---- */

/* Not sl_json_uint(): the daemon must see a number that is too large. */
static void write_number(struct sl_writer *w, uint64_t n)
{
    sl_writer_addf(w, "%" PRIu64, n);
}

static void write_costs(struct sl_writer *w, const struct sluice_request *r)
{
    if (!r->has_cost && r->cost_count == 0)
        return;
    sl_json_key(w, SL_STR("cost"));
    if (r->cost_count == 0) {
        write_number(w, r->cost);
        return;
    }
    sl_json_open(w, '{');
    for (size_t i = 0; i < r->cost_count; i++) {
        sl_json_key(w, sl_str_c(r->costs[i].limit));
        write_number(w, r->costs[i].cost);
    }
    sl_json_close(w, '}');
}

static void write_hold(struct sl_writer *w, int64_t span)
{
    char text[32];

    snprintf(text, sizeof(text), "%" PRId64 "ns", span);
    sl_json_member_text(w, "hold", span > 0 ? text : NULL);
}

void sl_flow_check_write(struct sl_writer *w,
                         const struct sluice_request *request, struct sl_str id)
{
    sl_json_open(w, '{');
    sl_json_member_text(w, "wait", "0s"); /* do not wait for capacity */
    sl_json_key(w, SL_STR("request_id"));
    sl_json_raw(w, id);
    sl_json_member_text(w, "method", request->method);
    sl_json_member_text(w, "path", request->path);
    sl_json_member_text(w, "job", request->job);
    sl_json_member_text(w, "limit", request->limit);
    sl_json_member_text(w, "key", request->key);
    for (const struct sl_input_field *f = sl_input_fields; f->name; f++)
        if (sl_input_in_request(f))
            sl_json_member_text(w, f->name, *sl_request_text(request, f));
    if (request->header_count > 0) {
        sl_json_key(w, SL_STR("headers"));
        sl_json_open(w, '{');
        for (size_t i = 0; i < request->header_count; i++)
            sl_json_member_text(w, request->headers[i].name,
                                request->headers[i].value);
        sl_json_close(w, '}');
    }
    write_costs(w, request);
    write_hold(w, request->hold_ns);
    sl_json_close(w, '}');
}

/* ---- checks as commands of the Redis protocol ---- */

#define WORD_BYTES 300 /* "header." and a name */

/* The words of a command, and the texts of words that are composed here. */
struct command {
    struct sl_str words[SL_RESP_ARGS];
    unsigned count;
    char texts[SL_RESP_ARGS][WORD_BYTES];
    bool full;
};

static void add(struct command *c, struct sl_str word)
{
    if (c->count < SL_RESP_ARGS)
        c->words[c->count++] = word;
    else
        c->full = true;
}

static void add_composed(struct command *c, const char *fmt, ...)
    SL_PRINTF(2, 3);

static void add_composed(struct command *c, const char *fmt, ...)
{
    char *text = c->texts[c->count < SL_RESP_ARGS ? c->count : 0];
    va_list list;

    va_start(list, fmt);
    if (vsnprintf(text, WORD_BYTES, fmt, list) >= WORD_BYTES)
        c->full = true;
    va_end(list);
    add(c, sl_str_c(text));
}

static void add_pair(struct command *c, const char *name, const char *text)
{
    if (!text)
        return;
    add(c, sl_str_c(name));
    add(c, sl_str_c(text));
}

/* METHOD PATH, JOB NAME or LIMIT NAME KEY */
static void add_target(struct command *c, const struct sluice_request *r)
{
    if (r->job) {
        add_pair(c, "JOB", r->job);
    } else if (r->limit) {
        add_pair(c, "LIMIT", r->limit);
        add(c, sl_str_c(r->key));
    } else {
        add(c, sl_str_c(r->method ? r->method : "GET"));
        add(c, sl_str_c(r->path));
    }
}

/* Append the command to the collected checks. */
static int finish_command(struct sl_flow_daemon *daemon, struct command *c)
{
    if (c->full)
        return sl_diag_error(
            &daemon->why, SLUICE_ECONF,
            "the check has too many arguments for the Redis protocol");
    return sl_resp_command_write(&daemon->checks, c->words, c->count)
               ? no_memory(daemon)
               : 0;
}

static int write_command(struct sl_flow_daemon *daemon,
                         const struct sluice_request *r, struct sl_str id)
{
    struct command c = {.count = 0};

    add(&c, SL_STR("SLUICE.CHECK"));
    add_target(&c, r);
    for (const struct sl_input_field *f = sl_input_fields; f->name; f++)
        if (sl_input_in_request(f))
            add_pair(&c, f->name, *sl_request_text(r, f));
    for (size_t i = 0; i < r->header_count; i++) {
        add_composed(&c, "header.%s", r->headers[i].name);
        add(&c, sl_str_c(r->headers[i].value));
    }
    if (r->has_cost) {
        add(&c, SL_STR("cost"));
        add_composed(&c, "%" PRIu64, r->cost);
    }
    for (size_t i = 0; i < r->cost_count; i++) {
        add_composed(&c, "cost.%s", r->costs[i].limit);
        add_composed(&c, "%" PRIu64, r->costs[i].cost);
    }
    if (r->hold_ns > 0) {
        add(&c, SL_STR("hold"));
        add_composed(&c, "%" PRId64 "ns", r->hold_ns);
    }
    if (id.len > 2 && id.at[0] == '"') {
        add(&c, SL_STR("id"));
        add(&c, (struct sl_str){id.at + 1, id.len - 2});
    }
    add_pair(&c, "wait", "0s");
    add_pair(&c, "as", "json");
    return finish_command(daemon, &c);
}

/* Send the collected commands. *ret has the verdicts, one after the other. */
static int pipeline(struct sl_flow_daemon *daemon, struct sl_str *ret)
{
    struct sl_str replies;
    int err = sl_daemon_client_pipeline(
        &daemon->client, sl_buf_str(&daemon->checks), daemon->count, &replies);

    sl_buf_clear(&daemon->verdicts);
    while (!err && replies.len > 0) {
        struct sl_resp_value v = sl_resp_next(&replies);

        if (v.type != SL_RESP_STRING)
            return sl_diag_error(&daemon->why, SLUICE_ECONF,
                                 "the daemon rejected a check: %.*s",
                                 SL_STR_ARG(v.text));
        if (sl_buf_add(&daemon->verdicts, v.text))
            err = no_memory(daemon);
    }
    if (!err)
        *ret = sl_buf_str(&daemon->verdicts);
    return err;
}

/* ---- comparing verdicts ----
 *
 * The ids of holds are random on both sides. They are not compared, and the
 * daemon's id is kept for later requests.
 */

/* Append `text` without the ids of holds. Keeps the first id in `id`, which has
 * room for `size` bytes. */
static int mask_holds(struct sl_buf *out, struct sl_str text, char *id,
                      size_t size)
{
    static const char *const members[] = {"\"hold\":\"",
                                          "\"X-Sluice-Hold\":\""};
    struct sl_writer w = {.out = out};

    id[0] = '\0';
    while (text.len > 0) {
        size_t len = text.len, end;

        for (size_t i = 0; i < SL_LEN(members); i++) {
            const char *at =
                memmem(text.at, text.len, members[i], strlen(members[i]));
            size_t behind =
                at ? (size_t)(at - text.at) + strlen(members[i]) : text.len;

            if (behind < len)
                len = behind;
        }
        sl_writer_add(&w, (struct sl_str){text.at, len});
        text = sl_str_from(text, len);
        for (end = 0; end < text.len && text.at[end] != '"';)
            end++;
        if (!id[0] && end > 0)
            snprintf(id, size, "%.*s", (int)end, text.at);
        text = sl_str_from(text, end);
    }
    return w.err;
}

/* The offset of the first member that differs. */
static size_t find_difference(struct sl_str a, struct sl_str b)
{
    size_t at = 0;

    while (at < a.len && at < b.len && a.at[at] == b.at[at])
        at++;
    while (at > 0 && (at >= a.len || a.at[at] != '"' || a.at[at - 1] != ','))
        at--;
    return at;
}

static int compare_masked(struct sl_flow_daemon *daemon, struct sl_str want,
                          struct sl_str got)
{
    size_t at;

    if (sl_str_eq(want, got))
        return 0;
    at = find_difference(want, got);
    want = sl_str_from(want, at);
    got = sl_str_from(got, at);
    return sl_diag_error(
        &daemon->why, SLUICE_ENOENT, "over %s: want %.*s..., got %.*s...",
        daemon->client.redis ? "RESP" : "HTTP",
        want.len < SHOWN_BYTES ? (int)want.len : SHOWN_BYTES, want.at,
        got.len < SHOWN_BYTES ? (int)got.len : SHOWN_BYTES, got.at);
}

/* SLUICE_ENOENT unless `got` equals `want`, except for the ids of holds. */
static int compare(struct sl_flow_daemon *daemon, struct sl_str want,
                   struct sl_str got)
{
    struct sl_buf masked_want, masked_got;
    char own[sizeof(daemon->hold)];
    int err;

    sl_buf_init(&masked_want, SL_DAEMON_CLIENT_BYTES, &sl_alloc_libc);
    sl_buf_init(&masked_got, SL_DAEMON_CLIENT_BYTES, &sl_alloc_libc);
    if (mask_holds(&masked_want, want, own, sizeof(own)) ||
        mask_holds(&masked_got, got, daemon->hold, sizeof(daemon->hold)))
        err = no_memory(daemon);
    else
        err = compare_masked(daemon, sl_buf_str(&masked_want),
                             sl_buf_str(&masked_got));
    sl_buf_done(&masked_want);
    sl_buf_done(&masked_got);
    return err;
}

/* ---- collecting and sending checks ---- */

/* The request id of a verdict, as JSON, so that the daemon uses the same. Only
 * the member itself can look like this: texts have their quotes escaped. */
static struct sl_str request_id(const char *verdict)
{
    static const char member[] = ",\"request_id\":";
    const char *at = strstr(verdict, member);
    const char *end = at ? strstr(at, ",\"degraded\":") : NULL;

    if (!end)
        return SL_STR("null");
    at += strlen(member);
    return (struct sl_str){at, (size_t)(end - at)};
}

/* Append a check to the array, and begin its verdict. */
static int add_check(struct sl_flow_daemon *daemon,
                     const struct sluice_request *request, struct sl_str id)
{
    struct sl_str before = daemon->count > 0 ? SL_STR(",") : SL_STR("[");
    struct sl_writer w = {.out = &daemon->checks};

    if (request->has_cost && request->cost_count > 0)
        return sl_diag_error(
            &daemon->why, SLUICE_ECONF,
            "a check over HTTP accepts cost= or cost.LIMIT=, not both");
    sl_writer_add(&w, before);
    sl_flow_check_write(&w, request, id);
    return w.err || sl_buf_add(&daemon->wants, before) ? no_memory(daemon) : 0;
}

int sl_flow_daemon_check(struct sl_flow_daemon *daemon,
                         const struct sluice_request *request,
                         const char *verdict)
{
    struct sl_str id = request_id(verdict);
    int err = daemon->client.redis ? write_command(daemon, request, id)
                                   : add_check(daemon, request, id);

    if (err)
        return err;
    if (sl_buf_add(&daemon->wants, sl_str_c(verdict)))
        return no_memory(daemon);
    daemon->count++;
    if (daemon->count < CHECKS_MAX && daemon->checks.len < CHECKS_BYTES)
        return 0;
    return sl_flow_daemon_flush(daemon);
}

/* The collected array, or its only item without the bracket. */
static struct sl_str collected(const struct sl_buf *buf, unsigned count)
{
    return sl_str_from(sl_buf_str(buf), count == 1);
}

static int send_checks(struct sl_flow_daemon *daemon, unsigned count)
{
    struct sl_str answer;
    int err;

    if (daemon->client.redis) {
        err = pipeline(daemon, &answer);
        return err ? err : compare(daemon, sl_buf_str(&daemon->wants), answer);
    }
    if (count > 1 && (sl_buf_add(&daemon->checks, SL_STR("]")) ||
                      sl_buf_add(&daemon->wants, SL_STR("]"))))
        return no_memory(daemon);
    err = ask(daemon, &daemon->client, "POST", "/v1/check",
              collected(&daemon->checks, count), NULL, &answer);
    return err ? err
               : compare(daemon, collected(&daemon->wants, count), answer);
}

int sl_flow_daemon_flush(struct sl_flow_daemon *daemon)
{
    int err;

    if (daemon->count == 0)
        return 0;
    err = sync_clock(daemon);
    if (!err)
        err = send_checks(daemon, daemon->count);
    drop_checks(daemon);
    return err;
}

const char *sl_flow_daemon_cannot(const struct sl_flow_daemon *daemon,
                                  const struct sl_flow *flow)
{
    for (const struct sl_flow_act *act = flow->acts; act; act = act->next) {
        if ((act->kind == SL_FLOW_ACT_USAGE ||
             act->kind == SL_FLOW_ACT_FAILED) &&
            daemon->client.redis)
            return "usage cannot be reported over RESP";
        if (act->kind == SL_FLOW_ACT_STORE)
            return "the store of a daemon cannot be made to fail";
        if (act->kind == SL_FLOW_ACT_WEBHOOK ||
            act->kind == SL_FLOW_ACT_DESTINATION)
            return "a daemon would send the webhooks of the flow";
    }
    return NULL;
}

/* ---- usage ---- */

int sl_flow_daemon_usage(struct sl_flow_daemon *daemon,
                         const struct sluice_request *r)
{
    struct sl_buf body;
    struct sl_writer w = {.out = &body};
    struct sl_str answer;
    int err = flush_and_sync(daemon);

    if (err)
        return err;
    sl_buf_init(&body, BODY_BYTES, &sl_alloc_libc);
    sl_writer_addf(&w, "{\"%s\":%" PRIu64 "%s", r->failed ? "failed" : "amount",
                   r->cost, r->used < 0 ? ",\"release\":true" : "");
    sl_json_member_text(&w, "limit", r->limit);
    sl_json_member_text(&w, "key", r->failed ? r->key : NULL);
    sl_json_member_text(&w, "user", r->user);
    sl_json_member_text(&w, "org", r->org);
    sl_json_member_text(&w, "plan", r->plan);
    sl_json_close(&w, '}');
    err = w.err ? no_memory(daemon)
                : ask(daemon, &daemon->client, "POST", "/v1/usage",
                      sl_buf_str(&body), NULL, &answer);
    sl_buf_done(&body);
    return err;
}

/* ---- holds ---- */

static const struct action {
    const char *name;
    struct sl_str command;
} actions[] = {
    [SL_FLOW_ACT_SETTLE] = {"settle",  {"SLUICE.SETTLE", 13} },
    [SL_FLOW_ACT_RELEASE] = {"release", {"SLUICE.RELEASE", 14}},
    [SL_FLOW_ACT_EXTEND] = {"extend",  {"SLUICE.EXTEND", 13} },
};

static int end_over_http(struct sl_flow_daemon *daemon,
                         const struct sl_flow_act *act, const char *hold,
                         struct sl_str *ret)
{
    char path[160];
    struct sl_buf body;
    struct sl_writer w = {.out = &body};
    int err;

    snprintf(path, sizeof(path), "/v1/holds/%.100s/%s", hold,
             actions[act->kind].name);
    sl_buf_init(&body, BODY_BYTES, &sl_alloc_libc);
    sl_json_open(&w, '{');
    if (act->kind == SL_FLOW_ACT_SETTLE)
        write_costs(&w, &act->in->request);
    if (act->kind == SL_FLOW_ACT_EXTEND)
        write_hold(&w, act->in->request.hold_ns);
    sl_json_close(&w, '}');
    err = w.err ? no_memory(daemon)
                : ask(daemon, &daemon->client, "POST", path, sl_buf_str(&body),
                      "{}", ret);
    sl_buf_done(&body);
    return err;
}

static void write_end(struct command *c, const struct sl_flow_act *act,
                      const char *hold)
{
    const struct sluice_request *r = &act->in->request;

    add(c, actions[act->kind].command);
    add(c, sl_str_c(hold));
    if (act->kind == SL_FLOW_ACT_EXTEND)
        add_composed(c, "%" PRId64 "ns", r->hold_ns);
    if (act->kind == SL_FLOW_ACT_SETTLE && r->has_cost && r->cost_count == 0)
        add_composed(c, "%" PRIu64, r->cost);
    for (size_t i = 0; act->kind == SL_FLOW_ACT_SETTLE && i < r->cost_count;
         i++) {
        add(c, sl_str_c(r->costs[i].limit));
        add_composed(c, "%" PRIu64, r->costs[i].cost);
    }
    add_pair(c, "as", "json");
}

static int end_over_resp(struct sl_flow_daemon *daemon,
                         const struct sl_flow_act *act, const char *hold,
                         struct sl_str *ret)
{
    struct command c = {.count = 0};
    struct sl_str replies;
    struct sl_resp_value v;
    int err;

    write_end(&c, act, hold);
    sl_buf_clear(&daemon->checks);
    err = finish_command(daemon, &c);
    if (!err)
        err = sl_daemon_client_pipeline(
            &daemon->client, sl_buf_str(&daemon->checks), 1, &replies);
    sl_buf_clear(&daemon->checks);
    if (err)
        return err;
    v = sl_resp_next(&replies);
    *ret = v.text;
    if (v.type == SL_RESP_STRING)
        return 0;
    *ret = SL_STR("{}");
    if (v.text.len > 11 && memcmp(v.text.at, "UNKNOWNHOLD", 11) == 0)
        return 0;
    return sl_diag_error(&daemon->why, SLUICE_ECONF,
                         "the daemon did not %s a hold: %.*s",
                         actions[act->kind].name, SL_STR_ARG(v.text));
}

int sl_flow_daemon_hold(struct sl_flow_daemon *daemon,
                        const struct sl_flow_act *act, const char *hold,
                        const char *want)
{
    struct sl_str got;
    int err = sync_clock(daemon);

    if (!err)
        err = daemon->client.redis ? end_over_resp(daemon, act, hold, &got)
                                   : end_over_http(daemon, act, hold, &got);
    return err ? err : compare(daemon, sl_str_c(want), got);
}
