/* daemon.c -- a flow against a daemon. */
#include "cli/flow/daemon.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/timestamp.h"
#include "cli/flow/flow.h"
#include "wire/json.h"
#include "wire/resp.h"

#define CHECKS_MOST  100                  /* in one array */
#define CHECKS_BYTES ((size_t)512 * 1024) /* a daemon takes 1 MiB */
#define POLICY_BYTES ((size_t)1024 * 1024)
#define SHOWN        90 /* bytes of a verdict that differs */

int sl_flow_daemon_init(struct sl_flow_daemon *remote, const char *url,
                        const char *admin, const struct sl_alloc *alloc)
{
    int err;

    *remote = (struct sl_flow_daemon){.now = 0};
    sl_buf_init(&remote->checks, 2 * CHECKS_BYTES, alloc);
    sl_buf_init(&remote->wants, SL_DAEMON_CLIENT_BYTES, alloc);
    sl_buf_init(&remote->verdicts, SL_DAEMON_CLIENT_BYTES, alloc);
    /* Both, so that both can be given back. */
    err = sl_daemon_client_init(&remote->admin, admin, alloc, &remote->why);
    if (sl_daemon_client_init(&remote->door, url, alloc, &remote->why))
        err = SLUICE_ECONF;
    return err;
}

void sl_flow_daemon_done(struct sl_flow_daemon *remote)
{
    sl_daemon_client_done(&remote->door);
    sl_daemon_client_done(&remote->admin);
    sl_buf_done(&remote->checks);
    sl_buf_done(&remote->wants);
    sl_buf_done(&remote->verdicts);
}

static void drop(struct sl_flow_daemon *remote)
{
    sl_buf_clear(&remote->checks);
    sl_buf_clear(&remote->wants);
    remote->count = 0;
}

static int no_memory(struct sl_flow_daemon *remote)
{
    return sl_diag_error(&remote->why, SLUICE_ENOMEM, "out of memory");
}

/* ---- the admin listener ---- */

static int tell(struct sl_flow_daemon *remote, const char *method,
                const char *path, struct sl_str body)
{
    struct sl_str answer;
    int status, err;

    err = sl_daemon_client_ask(&remote->admin, method, path, body, &status,
                               &answer, &remote->why);
    if (err || status == 200)
        return err;
    return sl_diag_error(&remote->why, SLUICE_ECONF,
                         "the daemon answered %s %s with status %d: %.*s",
                         method, path, status, sl_str_int(answer.len),
                         answer.at);
}

static int set_clock(struct sl_flow_daemon *remote, const char *path)
{
    char text[64];
    struct sl_str body = {text, 0};
    int err;

    body.len = (size_t)snprintf(text, sizeof(text), "{\"now\":%" PRId64 "}",
                                remote->now);
    err = tell(remote, "POST", path, body);
    if (!err)
        remote->told = remote->now;
    return err;
}

int sl_flow_daemon_policy(struct sl_flow_daemon *remote, const char *path)
{
    struct sl_buf text;
    int err = sl_flow_daemon_flush(remote);

    sl_buf_init(&text, POLICY_BYTES + 4096, &sl_alloc_libc);
    if (!err)
        err = sl_file_read(path, POLICY_BYTES, &text, &remote->why);
    if (!err)
        err = tell(remote, "POST", "/v1/policy", sl_buf_str(&text));
    sl_buf_done(&text);
    return err;
}

int sl_flow_daemon_begin(struct sl_flow_daemon *remote, const char *policy)
{
    int err;

    /* What is left of a flow that failed. */
    sl_daemon_client_close(&remote->door);
    sl_daemon_client_close(&remote->admin);
    drop(remote);
    remote->now = 0;
    err = set_clock(remote, "/v1/clock?forget=true");
    return err ? err : sl_flow_daemon_policy(remote, policy);
}

int sl_flow_daemon_clock(struct sl_flow_daemon *remote, sl_ns now)
{
    int err = now == remote->now ? 0 : sl_flow_daemon_flush(remote);

    remote->now = now;
    return err;
}

int sl_flow_daemon_feature(struct sl_flow_daemon *remote, const char *name,
                           bool on)
{
    char path[300];
    int err = sl_flow_daemon_flush(remote);

    if (err)
        return err;
    snprintf(path, sizeof(path), "/v1/features/%.256s", name);
    return tell(remote, "PUT", path,
                on ? SL_STR("{\"enabled\":true}")
                   : SL_STR("{\"enabled\":false}"));
}

int sl_flow_daemon_backlog(struct sl_flow_daemon *remote, const char *name,
                           uint64_t depth)
{
    char path[300], text[64];
    struct sl_str body = {text, 0};
    int err = sl_flow_daemon_flush(remote);

    if (!err && remote->told != remote->now)
        err = set_clock(remote, "/v1/clock");
    if (err)
        return err;
    snprintf(path, sizeof(path), "/v1/backlog/%.64s", name);
    body.len =
        (size_t)snprintf(text, sizeof(text), "{\"depth\":%" PRIu64 "}", depth);
    return tell(remote, "PUT", path, body);
}

/* ---- the registry ---- */

static int add_overrides(struct sl_buf *out,
                         const struct sl_flow_subject_args *record)
{
    int err = sl_buf_addf(out, ",\"overrides\":{");

    for (size_t i = 0; i < record->override_count && !err; i++) {
        err = sl_buf_addf(out, "%s", i > 0 ? "," : "");
        if (!err)
            err = sl_json_string(out, sl_str_c(record->overrides[i].limit));
        if (!err)
            err = sl_buf_add(out, SL_STR(":"));
        if (!err)
            err = sl_json_string(out, sl_str_c(record->overrides[i].rate));
    }
    return err ? err : sl_buf_add(out, SL_STR("}"));
}

static int add_record(struct sl_buf *out,
                      const struct sl_flow_subject_args *record, int64_t end)
{
    char at[SL_TIMESTAMP_TEXT];
    int err = sl_buf_addf(out, "{\"by\":\"flow\"");

    if (!err && record->plan) {
        err = sl_buf_addf(out, ",\"plan\":");
        if (!err)
            err = sl_json_string(out, sl_str_c(record->plan));
    }
    if (!err && end >= 0) {
        sl_timestamp_print(end, true, at);
        err = sl_buf_addf(out, "%s%s%s,\"until\":\"%s\"",
                          record->plan ? ",\"expires\":\"" : "",
                          record->plan ? at : "", record->plan ? "\"" : "", at);
    }
    if (!err)
        err = add_overrides(out, record);
    return err ? err : sl_buf_add(out, SL_STR("}"));
}

/* A name as a part of a path. */
static int add_part(struct sl_buf *out, const char *name)
{
    int err = 0;

    for (const char *at = name; *at && !err; at++) {
        bool plain = (*at >= 'a' && *at <= 'z') || (*at >= 'A' && *at <= 'Z') ||
                     (*at >= '0' && *at <= '9') || strchr("-_.", *at);

        err = plain ? sl_buf_addf(out, "%c", *at)
                    : sl_buf_addf(out, "%%%02X", (unsigned char)*at);
    }
    return err;
}

int sl_flow_daemon_subject(struct sl_flow_daemon *remote,
                           const struct sl_flow_act *act, sl_ns now)
{
    struct sl_buf body, path;
    int err = sl_flow_daemon_flush(remote);

    if (err)
        return err;
    sl_buf_init(&body, 1 << 20, &sl_alloc_libc);
    sl_buf_init(&path, 1 << 16, &sl_alloc_libc);
    if (sl_buf_addf(&path, "/v1/subjects/%s/", act->names[0]) ||
        add_part(&path, act->names[1]) ||
        sl_buf_addf(&path, "?force=true%c", '\0') ||
        add_record(&body, act->record, sl_flow_record_end(act->record, now)))
        err = no_memory(remote);
    if (!err)
        err = tell(remote, "PUT", path.bytes, sl_buf_str(&body));
    sl_buf_done(&body);
    sl_buf_done(&path);
    return err;
}

/* ---- checks ---- */

/* ,"name":"text" */
static int add_text(struct sl_buf *out, const char *name, const char *text)
{
    int err;

    if (!text)
        return 0;
    err = sl_buf_addf(out, ",\"%s\":", name);
    return err ? err : sl_json_string(out, sl_str_c(text));
}

static int add_headers(struct sl_buf *out, const struct sluice_request *request)
{
    int err = 0;

    if (request->header_count == 0)
        return 0;
    err = sl_buf_addf(out, ",\"headers\":{");
    for (size_t i = 0; i < request->header_count && !err; i++) {
        err = sl_buf_addf(out, "%s", i > 0 ? "," : "");
        if (!err)
            err = sl_json_string(out, sl_str_c(request->headers[i].name));
        if (!err)
            err = sl_buf_add(out, SL_STR(":"));
        if (!err)
            err = sl_json_string(out, sl_str_c(request->headers[i].value));
    }
    return err ? err : sl_buf_add(out, SL_STR("}"));
}

static int add_costs(struct sl_buf *out, const struct sluice_request *request)
{
    int err = 0;

    if (request->cost_count == 0)
        return request->has_cost
                   ? sl_buf_addf(out, ",\"cost\":%" PRIu64, request->cost)
                   : 0;
    err = sl_buf_addf(out, ",\"cost\":{");
    for (size_t i = 0; i < request->cost_count && !err; i++) {
        err = sl_buf_addf(out, "%s", i > 0 ? "," : "");
        if (!err)
            err = sl_json_string(out, sl_str_c(request->costs[i].limit));
        if (!err)
            err = sl_buf_addf(out, ":%" PRIu64, request->costs[i].cost);
    }
    return err ? err : sl_buf_add(out, SL_STR("}"));
}

/* The id that the verdict has, as JSON: the daemon is told the same one. Only
 * the member itself can look like this, for inside of texts quotes are
 * escaped. */
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

int sl_flow_check_write(struct sl_buf *out,
                        const struct sluice_request *request, struct sl_str id)
{
    const struct {
        const char *name, *text;
    } texts[] = {
        {"method",          request->method         },
        {"path",            request->path           },
        {"job",             request->job            },
        {"limit",           request->limit          },
        {"key",             request->key            },
        {"user",            request->user           },
        {"org",             request->org            },
        {"plan",            request->plan           },
        {"role",            request->role           },
        {"ip",              request->ip             },
        {"body",            request->body           },
        {"idempotency_key", request->idempotency_key},
    };
    /* Whoever asks here waits for nothing but the answer. */
    int err = sl_buf_addf(out, "{\"wait\":\"0s\",\"request_id\":");

    if (!err)
        err = sl_buf_add(out, id);
    for (size_t i = 0; i < SL_LEN(texts) && !err; i++)
        err = add_text(out, texts[i].name, texts[i].text);
    if (!err)
        err = add_headers(out, request);
    if (!err)
        err = add_costs(out, request);
    if (!err && request->hold_ns > 0)
        err = sl_buf_addf(out, ",\"hold\":\"%" PRId64 "ns\"", request->hold_ns);
    return err ? err : sl_buf_add(out, SL_STR("}"));
}

/* A cost for every limit and others for some are two forms of one member. */
static int refuse_both(struct sl_flow_daemon *remote)
{
    return sl_diag_error(
        &remote->why, SLUICE_ECONF,
        "a check over HTTP accepts cost= or cost.LIMIT=, not both");
}

static int refuse_long(struct sl_flow_daemon *remote)
{
    return sl_diag_error(
        &remote->why, SLUICE_ECONF,
        "the check has too many arguments for the Redis protocol");
}

/* One more of an array. */
static int add_check(struct sl_flow_daemon *remote,
                     const struct sluice_request *request, const char *verdict)
{
    struct sl_str before = remote->count > 0 ? SL_STR(",") : SL_STR("[");
    int err = sl_buf_add(&remote->checks, before);

    if (!err)
        err = sl_buf_add(&remote->wants, before);
    return err ? err
               : sl_flow_check_write(&remote->checks, request,
                                     request_id(verdict));
}

int sl_flow_daemon_check(struct sl_flow_daemon *remote,
                         const struct sluice_request *request,
                         const char *verdict)
{
    int err;

    if (!remote->door.redis && request->has_cost && request->cost_count > 0)
        return refuse_both(remote);
    err = remote->door.redis ? sl_flow_command_write(&remote->checks, request,
                                                     request_id(verdict))
                             : add_check(remote, request, verdict);
    if (err == SLUICE_EINVAL)
        return refuse_long(remote);
    if (!err)
        err = sl_buf_add(&remote->wants, sl_str_c(verdict));
    if (err)
        return no_memory(remote);
    remote->count++;
    if (remote->count < CHECKS_MOST && remote->checks.len < CHECKS_BYTES)
        return 0;
    return sl_flow_daemon_flush(remote);
}

/* Where two verdicts part: the beginning of the member. */
static size_t parting(struct sl_str a, struct sl_str b)
{
    size_t at = 0;

    while (at < a.len && at < b.len && a.at[at] == b.at[at])
        at++;
    while (at > 0 && (at >= a.len || a.at[at] != '"' || a.at[at - 1] != ','))
        at--;
    return at;
}

static int judge(struct sl_flow_daemon *remote, struct sl_str want,
                 struct sl_str got)
{
    size_t at;

    if (sl_str_eq(want, got))
        return 0;
    at = parting(want, got);
    want = sl_str_from(want, at);
    got = sl_str_from(got, at);
    return sl_diag_error(&remote->why, SLUICE_ENOENT,
                         "over %s: want %.*s..., got %.*s...",
                         remote->door.redis ? "RESP" : "HTTP",
                         want.len < SHOWN ? (int)want.len : SHOWN, want.at,
                         got.len < SHOWN ? (int)got.len : SHOWN, got.at);
}

int sl_flow_daemon_judge(struct sl_flow_daemon *remote, struct sl_str want,
                         struct sl_str got)
{
    struct sl_buf mine, yours;
    int err;

    sl_flow_daemon_note(remote, got);
    if (sl_str_eq(want, got))
        return 0;
    sl_buf_init(&mine, SL_DAEMON_CLIENT_BYTES, &sl_alloc_libc);
    sl_buf_init(&yours, SL_DAEMON_CLIENT_BYTES, &sl_alloc_libc);
    if (sl_buf_add(&mine, want) || sl_buf_add(&yours, got)) {
        err = no_memory(remote);
    } else {
        sl_flow_daemon_mask(&mine);
        sl_flow_daemon_mask(&yours);
        err = judge(remote, sl_buf_str(&mine), sl_buf_str(&yours));
    }
    sl_buf_done(&mine);
    sl_buf_done(&yours);
    return err;
}

/* What was collected: an array, or the one that it has. */
static struct sl_str collected(const struct sl_buf *buf, unsigned count)
{
    return sl_str_from(sl_buf_str(buf), count == 1);
}

static int exchange(struct sl_flow_daemon *remote, unsigned count)
{
    struct sl_str answer;
    int status, err;

    if (remote->door.redis) {
        err = sl_flow_daemon_pipeline(remote, &answer);
        return err ? err
                   : sl_flow_daemon_judge(remote, sl_buf_str(&remote->wants),
                                          answer);
    }
    if (count > 1 && (sl_buf_add(&remote->checks, SL_STR("]")) ||
                      sl_buf_add(&remote->wants, SL_STR("]"))))
        return no_memory(remote);
    err = sl_daemon_client_ask(&remote->door, "POST", "/v1/check",
                               collected(&remote->checks, count), &status,
                               &answer, &remote->why);
    if (err)
        return err;
    if (status != 200)
        return sl_diag_error(&remote->why, SLUICE_ECONF,
                             "the daemon rejected a check with status %d: %.*s",
                             status, sl_str_int(answer.len), answer.at);
    return sl_flow_daemon_judge(remote, collected(&remote->wants, count),
                                answer);
}

int sl_flow_daemon_tell_time(struct sl_flow_daemon *remote)
{
    return remote->told == remote->now ? 0 : set_clock(remote, "/v1/clock");
}

int sl_flow_daemon_flush(struct sl_flow_daemon *remote)
{
    int err = 0;

    if (remote->count == 0)
        return 0;
    err = sl_flow_daemon_tell_time(remote);
    if (!err)
        err = exchange(remote, remote->count);
    drop(remote);
    return err;
}

int sl_flow_daemon_ready(struct sl_flow_daemon *remote)
{
    int err = sl_flow_daemon_flush(remote);

    return err || remote->told == remote->now ? err
                                              : set_clock(remote, "/v1/clock");
}

/* ---- what can't be done ---- */

const char *sl_flow_daemon_cannot(const struct sl_flow_daemon *remote,
                                  const struct sl_flow *flow)
{
    for (const struct sl_flow_act *act = flow->acts; act; act = act->next) {
        if (act->kind == SL_FLOW_ACT_USAGE && remote->door.redis)
            return "usage cannot be reported over RESP";
        if (act->kind == SL_FLOW_ACT_STORE)
            return "the store of a daemon cannot be made to fail";
    }
    return NULL;
}

/* ---- the holds of a flow, at a daemon.
 *
 * Both sides hold under names that nobody can guess, so names are not
 * compared, and the daemon's are told to it again.
 */

#define BODY_BYTES ((size_t)64 << 10)

static const char *const marks[] = {"\"hold\":\"", "\"X-Sluice-Hold\":\""};

/* The next name of a hold from `from` on, or NULL at the end. */
static char *next_name(char *from, char *end)
{
    char *first = NULL;

    for (size_t i = 0; i < SL_LEN(marks); i++) {
        size_t len = strlen(marks[i]);
        char *at = memmem(from, (size_t)(end - from), marks[i], len);

        if (at && (!first || at + len < first))
            first = at + len;
    }
    return first;
}

void sl_flow_daemon_mask(struct sl_buf *text)
{
    char *end = text->bytes + text->len;
    char *to = text->bytes, *from = text->bytes, *at;

    if (text->len == 0)
        return;
    while ((at = next_name(from, end)) != NULL) {
        memmove(to, from, (size_t)(at - from));
        to += at - from;
        from = memchr(at, '"', (size_t)(end - at));
        if (!from)
            from = end;
    }
    memmove(to, from, (size_t)(end - from));
    text->len = (size_t)(to - text->bytes) + (size_t)(end - from);
}

void sl_flow_daemon_note(struct sl_flow_daemon *remote, struct sl_str verdict)
{
    const char *mark = marks[0];
    char *at = verdict.len == 0
                   ? NULL
                   : memmem(verdict.at, verdict.len, mark, strlen(mark));
    size_t len = 0;

    remote->hold[0] = '\0';
    if (!at)
        return;
    at += strlen(mark);
    while (len + 1 < sizeof(remote->hold) &&
           at + len < verdict.at + verdict.len && at[len] != '"')
        len++;
    memcpy(remote->hold, at, len);
    remote->hold[len] = '\0';
}

/* ---- over HTTP ---- */

static const char *verb_of(const struct sl_flow_act *act)
{
    return act->kind == SL_FLOW_ACT_SETTLE    ? "settle"
           : act->kind == SL_FLOW_ACT_RELEASE ? "release"
                                              : "extend";
}

static int hold_add_costs(struct sl_buf *out, const struct sl_inputs *in)
{
    int err;

    if (in->cost_count == 0)
        return in->has_cost ? sl_buf_addf(out, "\"cost\":%" PRIu64, in->cost)
                            : 0;
    err = sl_buf_addf(out, "\"cost\":{");
    for (size_t i = 0; i < in->cost_count && !err; i++) {
        err = sl_buf_addf(out, "%s", i > 0 ? "," : "");
        if (!err)
            err = sl_json_string(out, sl_str_c(in->costs[i].limit));
        if (!err)
            err = sl_buf_addf(out, ":%" PRIu64, in->costs[i].cost);
    }
    return err ? err : sl_buf_add(out, SL_STR("}"));
}

static int add_body(struct sl_buf *out, const struct sl_flow_act *act)
{
    int err = sl_buf_addf(out, "{");

    if (!err && act->kind == SL_FLOW_ACT_SETTLE)
        err = hold_add_costs(out, act->in);
    if (!err && act->kind == SL_FLOW_ACT_EXTEND)
        err = sl_buf_addf(out, "\"hold\":\"%" PRId64 "ns\"", act->in->hold);
    return err ? err : sl_buf_add(out, SL_STR("}"));
}

static int ask_http(struct sl_flow_daemon *remote,
                    const struct sl_flow_act *act, const char *hold,
                    struct sl_str *ret)
{
    char path[160];
    struct sl_buf body;
    int status = 0, err;

    snprintf(path, sizeof(path), "/v1/holds/%.100s/%s", hold, verb_of(act));
    sl_buf_init(&body, BODY_BYTES, &sl_alloc_libc);
    err = add_body(&body, act);
    if (err)
        sl_diag_error(&remote->why, SLUICE_ENOMEM, "out of memory");
    else
        err =
            sl_daemon_client_ask(&remote->door, "POST", path, sl_buf_str(&body),
                                 &status, ret, &remote->why);
    sl_buf_done(&body);
    if (!err && status == 404)
        *ret = SL_STR("{}");
    else if (!err && status != 200)
        err = sl_diag_error(&remote->why, SLUICE_ECONF,
                            "the daemon answered POST %s with status %d: %.*s",
                            path, status, sl_str_int(ret->len), ret->at);
    return err;
}

/* ---- over the Redis protocol ---- */

#define WORDS_MOST 70

/* Returns how many words. */
static unsigned write_words(const struct sl_flow_act *act, const char *hold,
                            struct sl_str words[WORDS_MOST],
                            char numbers[WORDS_MOST][32])
{
    const struct sl_inputs *in = act->in;
    unsigned n = 0;

    words[n++] = act->kind == SL_FLOW_ACT_SETTLE    ? SL_STR("SLUICE.SETTLE")
                 : act->kind == SL_FLOW_ACT_RELEASE ? SL_STR("SLUICE.RELEASE")
                                                    : SL_STR("SLUICE.EXTEND");
    words[n++] = sl_str_c(hold);
    if (act->kind == SL_FLOW_ACT_EXTEND) {
        snprintf(numbers[n], sizeof(numbers[n]), "%" PRId64 "ns", in->hold);
        words[n] = sl_str_c(numbers[n]);
        n++;
    }
    if (act->kind == SL_FLOW_ACT_SETTLE && in->has_cost &&
        in->cost_count == 0) {
        snprintf(numbers[n], sizeof(numbers[n]), "%" PRIu64, in->cost);
        words[n] = sl_str_c(numbers[n]);
        n++;
    }
    for (size_t i = 0; act->kind == SL_FLOW_ACT_SETTLE && i < in->cost_count &&
                       n + 4 < WORDS_MOST;
         i++) {
        words[n++] = sl_str_c(in->costs[i].limit);
        snprintf(numbers[n], sizeof(numbers[n]), "%" PRIu64, in->costs[i].cost);
        words[n] = sl_str_c(numbers[n]);
        n++;
    }
    words[n++] = SL_STR("as");
    words[n++] = SL_STR("json");
    return n;
}

static int ask_redis(struct sl_flow_daemon *remote,
                     const struct sl_flow_act *act, const char *hold,
                     struct sl_str *ret)
{
    struct sl_str words[WORDS_MOST], replies;
    char numbers[WORDS_MOST][32];
    unsigned count = write_words(act, hold, words, numbers);
    struct sl_resp_value v;
    int err;

    sl_buf_clear(&remote->checks);
    if (sl_resp_command_write(&remote->checks, words, count))
        return sl_diag_error(&remote->why, SLUICE_ENOMEM, "out of memory");
    err = sl_daemon_client_pipeline(&remote->door, sl_buf_str(&remote->checks),
                                    1, &replies, &remote->why);
    sl_buf_clear(&remote->checks);
    if (err)
        return err;
    v = sl_resp_next(&replies);
    *ret = v.text;
    if (v.type == SL_RESP_STRING)
        return 0;
    *ret = SL_STR("{}");
    if (v.text.len > 11 && memcmp(v.text.at, "UNKNOWNHOLD", 11) == 0)
        return 0;
    return sl_diag_error(&remote->why, SLUICE_ECONF,
                         "the daemon did not %s a hold: %.*s", verb_of(act),
                         SL_STR_ARG(v.text));
}

int sl_flow_daemon_hold(struct sl_flow_daemon *remote,
                        const struct sl_flow_act *act, const char *hold,
                        const char *want)
{
    struct sl_str got;
    int err = sl_flow_daemon_tell_time(remote);

    if (!err)
        err = remote->door.redis ? ask_redis(remote, act, hold, &got)
                                 : ask_http(remote, act, hold, &got);
    return err ? err : sl_flow_daemon_judge(remote, sl_str_c(want), got);
}

/* ---- a flow against a daemon over the Redis protocol. */

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

static void resp_add_text(struct words *w, const char *name, const char *text)
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
        resp_add_text(w, "JOB", r->job);
    } else if (r->limit) {
        resp_add_text(w, "LIMIT", r->limit);
        add(w, sl_str_c(r->key));
    } else {
        add(w, sl_str_c(r->method ? r->method : "GET"));
        add(w, sl_str_c(r->path));
    }
}

static void resp_add_costs(struct words *w, const struct sluice_request *r)
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

int sl_flow_command_write(struct sl_buf *out,
                          const struct sluice_request *request,
                          struct sl_str id)
{
    struct words w = {.count = 0};

    add(&w, SL_STR("SLUICE.CHECK"));
    add_subject(&w, request);
    resp_add_text(&w, "user", request->user);
    resp_add_text(&w, "org", request->org);
    resp_add_text(&w, "plan", request->plan);
    resp_add_text(&w, "role", request->role);
    resp_add_text(&w, "ip", request->ip);
    for (size_t i = 0; i < request->header_count; i++) {
        add_name(&w, "header", request->headers[i].name);
        add(&w, sl_str_c(request->headers[i].value));
    }
    resp_add_costs(&w, request);
    resp_add_text(&w, "body", request->body);
    resp_add_text(&w, "idempotency_key", request->idempotency_key);
    add_hold(&w, request->hold_ns);
    if (id.len > 2 && id.at[0] == '"') {
        add(&w, SL_STR("id"));
        add(&w, (struct sl_str){id.at + 1, id.len - 2});
    }
    resp_add_text(&w, "wait", "0s");
    resp_add_text(&w, "as", "json");
    return w.full ? SLUICE_EINVAL : sl_resp_command_write(out, w.list, w.count);
}

int sl_flow_daemon_pipeline(struct sl_flow_daemon *remote, struct sl_str *ret)
{
    struct sl_str replies;
    int err =
        sl_daemon_client_pipeline(&remote->door, sl_buf_str(&remote->checks),
                                  remote->count, &replies, &remote->why);

    sl_buf_clear(&remote->verdicts);
    while (!err && replies.len > 0) {
        struct sl_resp_value v = sl_resp_next(&replies);

        if (v.type != SL_RESP_STRING)
            return sl_diag_error(&remote->why, SLUICE_ECONF,
                                 "the daemon rejected a check: %.*s",
                                 SL_STR_ARG(v.text));
        if (sl_buf_add(&remote->verdicts, v.text))
            err = sl_diag_error(&remote->why, SLUICE_ENOMEM, "out of memory");
    }
    if (!err)
        *ret = sl_buf_str(&remote->verdicts);
    return err;
}
