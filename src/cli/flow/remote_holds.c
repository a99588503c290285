/* remote_holds.c -- the holds of a flow, at a daemon.
 *
 * Both sides hold under names that nobody can guess, so names are not
 * compared, and the daemon's are told to it again.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cli/flow/remote.h"
#include "wire/json.h"
#include "wire/resp.h"

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

void sl_remote_mask(struct sl_buf *text)
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

void sl_remote_note(struct sl_remote *remote, struct sl_str verdict)
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

static const char *verb_of(const struct sl_act *act)
{
    return act->kind == SL_ACT_SETTLE    ? "settle"
           : act->kind == SL_ACT_RELEASE ? "release"
                                         : "extend";
}

static int add_costs(struct sl_buf *out, const struct sl_inputs *in)
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

static int add_body(struct sl_buf *out, const struct sl_act *act)
{
    int err = sl_buf_addf(out, "{");

    if (!err && act->kind == SL_ACT_SETTLE)
        err = add_costs(out, act->in);
    if (!err && act->kind == SL_ACT_EXTEND)
        err = sl_buf_addf(out, "\"hold\":\"%" PRId64 "ns\"", act->in->hold);
    return err ? err : sl_buf_add(out, SL_STR("}"));
}

static int ask_http(struct sl_remote *remote, const struct sl_act *act,
                    const char *hold, struct sl_str *ret)
{
    char path[160];
    struct sl_buf body;
    int status = 0, err;

    snprintf(path, sizeof(path), "/v1/holds/%.100s/%s", hold, verb_of(act));
    sl_buf_init(&body, BODY_BYTES, &sl_alloc_libc);
    err = add_body(&body, act);
    if (err)
        sl_refuse(&remote->why, SLUICE_ENOMEM, "out of memory");
    else
        err = sl_client_ask(&remote->door, "POST", path, sl_buf_str(&body),
                            &status, ret, &remote->why);
    sl_buf_done(&body);
    if (!err && status == 404)
        *ret = SL_STR("{}");
    else if (!err && status != 200)
        err = sl_refuse(&remote->why, SLUICE_ECONF,
                        "the daemon answered POST %s with status %d: %.*s",
                        path, status, sl_str_int(ret->len), ret->at);
    return err;
}

/* ---- over the Redis protocol ---- */

#define WORDS_MOST 70

/* Returns how many words. */
static unsigned write_words(const struct sl_act *act, const char *hold,
                            struct sl_str words[WORDS_MOST],
                            char numbers[WORDS_MOST][32])
{
    const struct sl_inputs *in = act->in;
    unsigned n = 0;

    words[n++] = act->kind == SL_ACT_SETTLE    ? SL_STR("SLUICE.SETTLE")
                 : act->kind == SL_ACT_RELEASE ? SL_STR("SLUICE.RELEASE")
                                               : SL_STR("SLUICE.EXTEND");
    words[n++] = sl_str_c(hold);
    if (act->kind == SL_ACT_EXTEND) {
        snprintf(numbers[n], sizeof(numbers[n]), "%" PRId64 "ns", in->hold);
        words[n] = sl_str_c(numbers[n]);
        n++;
    }
    if (act->kind == SL_ACT_SETTLE && in->has_cost && in->cost_count == 0) {
        snprintf(numbers[n], sizeof(numbers[n]), "%" PRIu64, in->cost);
        words[n] = sl_str_c(numbers[n]);
        n++;
    }
    for (size_t i = 0;
         act->kind == SL_ACT_SETTLE && i < in->cost_count && n + 4 < WORDS_MOST;
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

static int ask_redis(struct sl_remote *remote, const struct sl_act *act,
                     const char *hold, struct sl_str *ret)
{
    struct sl_str words[WORDS_MOST], replies;
    char numbers[WORDS_MOST][32];
    unsigned count = write_words(act, hold, words, numbers);
    struct sl_resp_value v;
    int err;

    sl_buf_clear(&remote->checks);
    if (sl_resp_command_write(&remote->checks, words, count))
        return sl_refuse(&remote->why, SLUICE_ENOMEM, "out of memory");
    err = sl_client_pipeline(&remote->door, sl_buf_str(&remote->checks), 1,
                             &replies, &remote->why);
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
    return sl_refuse(&remote->why, SLUICE_ECONF,
                     "the daemon did not %s a hold: %.*s", verb_of(act),
                     SL_STR_ARG(v.text));
}

int sl_remote_hold(struct sl_remote *remote, const struct sl_act *act,
                   const char *hold, const char *want)
{
    struct sl_str got;
    int err = sl_remote_tell_time(remote);

    if (!err)
        err = remote->door.redis ? ask_redis(remote, act, hold, &got)
                                 : ask_http(remote, act, hold, &got);
    return err ? err : sl_remote_judge(remote, sl_str_c(want), got);
}
