/* usage.c -- `usage SCOPE ID LIMIT AMOUNT`: what was used already. */
#include <inttypes.h>
#include <string.h>

#include "base/parse.h"
#include "cli/flow/remote.h"
#include "cli/flow/run.h"
#include "wire/json.h"

/* An amount of less than 0 is given back. */
int sl_usage_fill(const struct sl_act *act, struct sluice_request *ret,
                  struct sl_diag *diag)
{
    const char *scope = act->names[0], *amount = act->names[3];

    *ret = (struct sluice_request){.limit = act->names[2],
                                   .key = act->names[1],
                                   .plan = act->in->plan,
                                   .trusted = 1,
                                   .has_cost = 1,
                                   .used = amount[0] == '-' ? -1 : 1};
    if (strcmp(scope, "user") == 0)
        ret->user = ret->key;
    else if (strcmp(scope, "org") == 0)
        ret->org = ret->key;
    else
        return sl_refuse(diag, SLUICE_ECONF,
                         "usage is reported for user or org, not for \"%s\"",
                         scope);
    return sl_parse_count(sl_str_c(amount + (ret->used < 0)), &ret->cost, diag);
}

/* ---- over HTTP ---- */

/* ,"name":"text" */
static int add_text(struct sl_buf *out, const char *name, const char *text)
{
    int err;

    if (!text)
        return 0;
    err = sl_buf_addf(out, ",\"%s\":", name);
    return err ? err : sl_json_string(out, sl_str_c(text));
}

static int write_usage(struct sl_buf *out, const struct sluice_request *r)
{
    int err = sl_buf_addf(out, "{\"amount\":%" PRIu64 "%s", r->cost,
                          r->used < 0 ? ",\"release\":true" : "");

    if (!err)
        err = add_text(out, "limit", r->limit);
    if (!err)
        err = add_text(out, "user", r->user);
    if (!err)
        err = add_text(out, "org", r->org);
    if (!err)
        err = add_text(out, "plan", r->plan);
    return err ? err : sl_buf_add(out, SL_STR("}"));
}

static int post(struct sl_remote *remote, struct sl_str body)
{
    struct sl_str answer;
    int status = 0;
    int err = sl_client_ask(&remote->door, "POST", "/v1/usage", body, &status,
                            &answer, &remote->why);

    if (err || status == 200)
        return err;
    return sl_refuse(&remote->why, SLUICE_ECONF,
                     "the daemon rejected a report with status %d: %.*s",
                     status, sl_str_int(answer.len), answer.at);
}

int sl_remote_usage(struct sl_remote *remote,
                    const struct sluice_request *request)
{
    struct sl_buf body;
    int err = sl_remote_ready(remote);

    if (err)
        return err;
    sl_buf_init(&body, 1 << 16, &sl_alloc_libc);
    if (write_usage(&body, request))
        err = sl_refuse(&remote->why, SLUICE_ENOMEM, "out of memory");
    else
        err = post(remote, sl_buf_str(&body));
    sl_buf_done(&body);
    return err;
}
