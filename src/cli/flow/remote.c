/* remote.c -- a flow against a daemon. */
#include "cli/flow/remote.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/instant.h"
#include "cli/flow/subjects.h"
#include "wire/json.h"

#define CHECKS_MOST  100                  /* in one array */
#define CHECKS_BYTES ((size_t)512 * 1024) /* a daemon takes 1 MiB */
#define POLICY_BYTES ((size_t)1024 * 1024)
#define SHOWN        90 /* bytes of a verdict that differs */

int sl_remote_init(struct sl_remote *remote, const char *url, const char *admin,
                   const struct sl_alloc *alloc)
{
    int err;

    *remote = (struct sl_remote){.now = 0};
    sl_buf_init(&remote->checks, 2 * CHECKS_BYTES, alloc);
    sl_buf_init(&remote->wants, SL_CLIENT_BYTES, alloc);
    sl_buf_init(&remote->verdicts, SL_CLIENT_BYTES, alloc);
    /* Both, so that both can be given back. */
    err = sl_client_init(&remote->admin, admin, alloc, &remote->why);
    if (sl_client_init(&remote->door, url, alloc, &remote->why))
        err = SLUICE_ECONF;
    return err;
}

void sl_remote_done(struct sl_remote *remote)
{
    sl_client_done(&remote->door);
    sl_client_done(&remote->admin);
    sl_buf_done(&remote->checks);
    sl_buf_done(&remote->wants);
    sl_buf_done(&remote->verdicts);
}

static void drop(struct sl_remote *remote)
{
    sl_buf_clear(&remote->checks);
    sl_buf_clear(&remote->wants);
    remote->count = 0;
}

static int no_memory(struct sl_remote *remote)
{
    return sl_refuse(&remote->why, SLUICE_ENOMEM, "out of memory");
}

/* ---- the admin listener ---- */

static int tell(struct sl_remote *remote, const char *method, const char *path,
                struct sl_str body)
{
    struct sl_str answer;
    int status, err;

    err = sl_client_ask(&remote->admin, method, path, body, &status, &answer,
                        &remote->why);
    if (err || status == 200)
        return err;
    return sl_refuse(&remote->why, SLUICE_ECONF,
                     "the daemon answered %s %s with status %d: %.*s", method,
                     path, status, sl_str_int(answer.len), answer.at);
}

static int set_clock(struct sl_remote *remote, const char *path)
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

int sl_remote_policy(struct sl_remote *remote, const char *path)
{
    struct sl_buf text;
    int err = sl_remote_flush(remote);

    sl_buf_init(&text, POLICY_BYTES + 4096, &sl_alloc_libc);
    if (!err)
        err = sl_file_read(path, POLICY_BYTES, &text, &remote->why);
    if (!err)
        err = tell(remote, "POST", "/v1/policy", sl_buf_str(&text));
    sl_buf_done(&text);
    return err;
}

int sl_remote_begin(struct sl_remote *remote, const char *policy)
{
    int err;

    /* What is left of a flow that failed. */
    sl_client_close(&remote->door);
    sl_client_close(&remote->admin);
    drop(remote);
    remote->now = 0;
    err = set_clock(remote, "/v1/clock?forget=true");
    return err ? err : sl_remote_policy(remote, policy);
}

int sl_remote_clock(struct sl_remote *remote, sl_ns now)
{
    int err = now == remote->now ? 0 : sl_remote_flush(remote);

    remote->now = now;
    return err;
}

int sl_remote_feature(struct sl_remote *remote, const char *name, bool on)
{
    char path[300];
    int err = sl_remote_flush(remote);

    if (err)
        return err;
    snprintf(path, sizeof(path), "/v1/features/%.256s", name);
    return tell(remote, "PUT", path,
                on ? SL_STR("{\"enabled\":true}")
                   : SL_STR("{\"enabled\":false}"));
}

int sl_remote_backlog(struct sl_remote *remote, const char *name,
                      uint64_t depth)
{
    char path[300], text[64];
    struct sl_str body = {text, 0};
    int err = sl_remote_flush(remote);

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

static int add_overrides(struct sl_buf *out, const struct sl_record *record)
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

static int add_record(struct sl_buf *out, const struct sl_record *record,
                      int64_t end)
{
    char at[SL_INSTANT_TEXT];
    int err = sl_buf_addf(out, "{\"by\":\"flow\"");

    if (!err && record->plan) {
        err = sl_buf_addf(out, ",\"plan\":");
        if (!err)
            err = sl_json_string(out, sl_str_c(record->plan));
    }
    if (!err && end >= 0) {
        sl_instant_print(end, true, at);
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

int sl_remote_subject(struct sl_remote *remote, const struct sl_act *act,
                      sl_ns now)
{
    struct sl_buf body, path;
    int err = sl_remote_flush(remote);

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

int sl_check_write(struct sl_buf *out, const struct sluice_request *request,
                   struct sl_str id)
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
static int refuse_both(struct sl_remote *remote)
{
    return sl_refuse(
        &remote->why, SLUICE_ECONF,
        "a check over HTTP accepts cost= or cost.LIMIT=, not both");
}

static int refuse_long(struct sl_remote *remote)
{
    return sl_refuse(&remote->why, SLUICE_ECONF,
                     "the check has too many arguments for the Redis protocol");
}

/* One more of an array. */
static int add_check(struct sl_remote *remote,
                     const struct sluice_request *request, const char *verdict)
{
    struct sl_str before = remote->count > 0 ? SL_STR(",") : SL_STR("[");
    int err = sl_buf_add(&remote->checks, before);

    if (!err)
        err = sl_buf_add(&remote->wants, before);
    return err ? err
               : sl_check_write(&remote->checks, request, request_id(verdict));
}

int sl_remote_check(struct sl_remote *remote,
                    const struct sluice_request *request, const char *verdict)
{
    int err;

    if (!remote->door.redis && request->has_cost && request->cost_count > 0)
        return refuse_both(remote);
    err = remote->door.redis
              ? sl_command_write(&remote->checks, request, request_id(verdict))
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
    return sl_remote_flush(remote);
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

static int judge(struct sl_remote *remote, struct sl_str want,
                 struct sl_str got)
{
    size_t at;

    if (sl_str_eq(want, got))
        return 0;
    at = parting(want, got);
    want = sl_str_from(want, at);
    got = sl_str_from(got, at);
    return sl_refuse(&remote->why, SLUICE_ENOENT,
                     "over %s: want %.*s..., got %.*s...",
                     remote->door.redis ? "RESP" : "HTTP",
                     want.len < SHOWN ? (int)want.len : SHOWN, want.at,
                     got.len < SHOWN ? (int)got.len : SHOWN, got.at);
}

int sl_remote_judge(struct sl_remote *remote, struct sl_str want,
                    struct sl_str got)
{
    struct sl_buf mine, yours;
    int err;

    sl_remote_note(remote, got);
    if (sl_str_eq(want, got))
        return 0;
    sl_buf_init(&mine, SL_CLIENT_BYTES, &sl_alloc_libc);
    sl_buf_init(&yours, SL_CLIENT_BYTES, &sl_alloc_libc);
    if (sl_buf_add(&mine, want) || sl_buf_add(&yours, got)) {
        err = no_memory(remote);
    } else {
        sl_remote_mask(&mine);
        sl_remote_mask(&yours);
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

static int exchange(struct sl_remote *remote, unsigned count)
{
    struct sl_str answer;
    int status, err;

    if (remote->door.redis) {
        err = sl_remote_pipeline(remote, &answer);
        return err ? err
                   : sl_remote_judge(remote, sl_buf_str(&remote->wants),
                                     answer);
    }
    if (count > 1 && (sl_buf_add(&remote->checks, SL_STR("]")) ||
                      sl_buf_add(&remote->wants, SL_STR("]"))))
        return no_memory(remote);
    err = sl_client_ask(&remote->door, "POST", "/v1/check",
                        collected(&remote->checks, count), &status, &answer,
                        &remote->why);
    if (err)
        return err;
    if (status != 200)
        return sl_refuse(&remote->why, SLUICE_ECONF,
                         "the daemon rejected a check with status %d: %.*s",
                         status, sl_str_int(answer.len), answer.at);
    return sl_remote_judge(remote, collected(&remote->wants, count), answer);
}

int sl_remote_tell_time(struct sl_remote *remote)
{
    return remote->told == remote->now ? 0 : set_clock(remote, "/v1/clock");
}

int sl_remote_flush(struct sl_remote *remote)
{
    int err = 0;

    if (remote->count == 0)
        return 0;
    err = sl_remote_tell_time(remote);
    if (!err)
        err = exchange(remote, remote->count);
    drop(remote);
    return err;
}

int sl_remote_ready(struct sl_remote *remote)
{
    int err = sl_remote_flush(remote);

    return err || remote->told == remote->now ? err
                                              : set_clock(remote, "/v1/clock");
}

/* ---- what can't be done ---- */

const char *sl_remote_cannot(const struct sl_remote *remote,
                             const struct sl_flow *flow)
{
    for (const struct sl_act *act = flow->acts; act; act = act->next) {
        if (act->kind == SL_ACT_USAGE && remote->door.redis)
            return "usage cannot be reported over RESP";
        if (act->kind == SL_ACT_STORE)
            return "the store of a daemon cannot be made to fail";
    }
    return NULL;
}
