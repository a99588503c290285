/* bench_url.c -- `sluice bench --url`: ask a server.
 *
 * The clock of a server runs. Between the first and the last check of a key its
 * buckets refill, so the number of admissions has two bounds: what the key has
 * at first, and that plus what refills meanwhile. Both follow from three
 * answers: before the first check, after it, and after the last one. The cost
 * of a limit is what the first check takes of it.
 */
#include "cli/bench.h"

#include <inttypes.h>
#include <string.h>

#include "sluice.h"
#include "wire/json.h"

#define BODY_BYTES ((size_t)8 << 10)

void sl_bench_conn_init(struct sl_bench_conn *conn,
                        const struct sl_daemon_client *like)
{
    conn->diag = (struct sl_diag){.line = 0};
    sl_daemon_client_copy(&conn->client, like, &conn->diag);
    sl_buf_init(&conn->body, BODY_BYTES, &sl_alloc_libc);
}

void sl_bench_conn_done(struct sl_bench_conn *conn)
{
    sl_daemon_client_done(&conn->client);
    sl_buf_done(&conn->body);
}

static int write_check(struct sl_bench_conn *conn,
                       const struct sl_bench_target *target, const char *key)
{
    const struct sluice_request *r = &target->request;
    struct sl_writer w = {.out = &conn->body};

    sl_buf_clear(&conn->body);
    sl_json_open(&w, '{');
    if (r->limit) {
        sl_json_member_text(&w, "limit", r->limit);
        sl_json_member_text(&w, "key", key);
    } else if (r->job) {
        sl_json_member_text(&w, "job", r->job);
    } else {
        sl_json_member_text(&w, "method", r->method);
        sl_json_member_text(&w, "path", r->path);
    }
    sl_json_member_text(&w, "user", key);
    sl_json_member_text(&w, "org", key);
    sl_json_close(&w, '}');
    return w.err;
}

/* Sends the check to `path`; *ret is borrowed until the next request. */
static int send_check(struct sl_bench_conn *conn, const char *path,
                      const struct sl_bench_target *target, const char *key,
                      struct sl_str *ret)
{
    int status = 0;
    int err = write_check(conn, target, key);

    if (err)
        return sl_diag_error(&conn->diag, SLUICE_ENOMEM, "out of memory");
    err = sl_daemon_client_ask(&conn->client, "POST", path,
                               sl_buf_str(&conn->body), &status, ret);
    if (err)
        return err;
    if (status == 401)
        return sl_diag_error(&conn->diag, SLUICE_ESYS, SL_TOKEN_REQUIRED,
                             conn->client.where);
    if (status != 200)
        return sl_diag_error(&conn->diag, SLUICE_ESYS,
                             "%s answers %s with status %d: %.*s",
                             conn->client.where, path, status,
                             (int)(ret->len < 200 ? ret->len : 200), ret->at);
    return 0;
}

/* The first member of a verdict says whether it is allowed. */
int sl_bench_check(struct sl_bench_conn *conn,
                   const struct sl_bench_target *target, const char *key,
                   bool *ret_allowed)
{
    struct sl_str yes = SL_STR("{\"allowed\":true,");
    struct sl_str answer;
    int err = send_check(conn, "/v1/check", target, key, &answer);

    if (err)
        return err;
    *ret_allowed =
        answer.len >= yes.len && memcmp(answer.at, yes.at, yes.len) == 0;
    return 0;
}

/* ---- what an answer shows ---- */

static uint64_t number_of(json_t *limit, const char *name)
{
    json_int_t n = sl_member_int(limit, name); /* null is 0 */

    return n > 0 ? (uint64_t)n : 0;
}

static struct sl_bench_limit limit_of(json_t *limit)
{
    const char *kind = sl_member_text(limit, "kind");
    struct sl_bench_limit l = {
        .kind = SL_BENCH_OTHER,
        .enforced = strcmp(sl_member_text(limit, "mode"), "enforce") == 0 &&
                    json_is_integer(json_object_get(limit, "remaining")),
        .burst = number_of(limit, "burst"),
        .remaining = number_of(limit, "remaining"),
        .reset_ms = number_of(limit, "reset_ms"),
        .retry_ms = number_of(limit, "retry_after_ms"),
    };

    if (strcmp(kind, "token-bucket") == 0 || strcmp(kind, "leaky-bucket") == 0)
        l.kind = SL_BENCH_BUCKET;
    else if (strstr(kind, "window") || strcmp(kind, "quota") == 0)
        l.kind = SL_BENCH_WINDOW;
    return l;
}

int sl_bench_ask(struct sl_bench_conn *conn, const char *path,
                 const struct sl_bench_target *target, const char *key,
                 struct sl_bench_answer *ret)
{
    struct sl_str text;
    int err = send_check(conn, path, target, key, &text);
    json_t *answer, *limit;
    size_t i;

    if (err)
        return err;
    answer = json_loadb(text.at, text.len, 0, NULL);
    if (!answer)
        return sl_diag_error(&conn->diag, SLUICE_ESYS,
                             "the answer of %s to %s is not JSON",
                             conn->client.where, path);
    *ret =
        (struct sl_bench_answer){.allowed = sl_member_true(answer, "allowed")};
    json_array_foreach(json_object_get(answer, "limits"), i,
                       limit) if (ret->count < SLUICE_PARTS_MAX)
        ret->limits[ret->count++] = limit_of(limit);
    json_decref(answer);
    return 0;
}

/* ---- what is expected ---- */

/* What the first check has taken of limit `i`; 0: nothing, or it does not
 * deny. */
static uint64_t cost_of(const struct sl_bench_answer *before,
                        const struct sl_bench_answer *after, size_t i)
{
    uint64_t had = before->limits[i].remaining;
    uint64_t has = after->limits[i].remaining;

    if (!before->limits[i].enforced || had <= has)
        return 0;
    return had - has;
}

uint64_t sl_bench_capacity(const struct sl_bench_answer *before,
                           const struct sl_bench_answer *after)
{
    uint64_t least = UINT64_MAX;

    if (!after->allowed || before->count != after->count)
        return 0;
    for (size_t i = 0; i < after->count; i++) {
        uint64_t cost = cost_of(before, after, i);

        if (cost > 0 && after->limits[i].remaining / cost < least)
            least = after->limits[i].remaining / cost;
    }
    return least < UINT64_MAX ? least + 1 : 0;
}

/* The units that a bucket gets within `ms`; UINT64_MAX: cannot be told.
 * Rounded up: it was empty up to one unit, and its times up to 1 ms.
 *
 * A drained bucket that refills continuously has the cost after a share
 * cost / burst of the time until it is full. One that refills by the period
 * takes longer. */
static uint64_t refill_of(const struct sl_bench_limit *last, uint64_t cost,
                          uint64_t ms)
{
    uint64_t owed = last->burst - last->remaining, units;

    if (last->burst <= last->remaining || last->reset_ms < 2)
        return UINT64_MAX;
    if (last->retry_ms > 1 && cost < last->burst &&
        (last->retry_ms - 1) * last->burst > 2 * last->reset_ms * cost)
        return UINT64_MAX;
    if (__builtin_mul_overflow(ms, owed, &units))
        return UINT64_MAX;
    return units / (last->reset_ms - 1) + 1;
}

uint64_t sl_bench_most(const struct sl_bench_answer *before,
                       const struct sl_bench_answer *after,
                       const struct sl_bench_answer *last, sl_ns elapsed)
{
    uint64_t ms = (uint64_t)(elapsed / SL_MS) + 1, least = UINT64_MAX;

    if (last->count != before->count)
        return 0;
    for (size_t i = 0; i < before->count; i++) {
        uint64_t cost = cost_of(before, after, i), refill = 0;

        if (cost == 0)
            continue;
        if (after->limits[i].kind == SL_BENCH_OTHER ||
            (after->limits[i].kind == SL_BENCH_WINDOW &&
             after->limits[i].reset_ms <= ms))
            return 0;
        if (after->limits[i].kind == SL_BENCH_BUCKET)
            refill = refill_of(&last->limits[i], cost, ms);
        if (refill < UINT64_MAX &&
            (after->limits[i].remaining + refill) / cost < least)
            least = (after->limits[i].remaining + refill) / cost;
    }
    return least < UINT64_MAX ? least + 1 : 0;
}
