/* errand.c -- a call that waits for the registry, and where it leads.
 *
 * The answer comes on the same loop, some turns later. Whatever the registry
 * could not do is 503: the file, not the question, is at fault.
 */
#include <string.h>

#include "doors/http/subjects/subjects.h"

static struct sl_registry *registry_of(struct sl_http_call *call)
{
    return sl_admin_of(call)->registry;
}

/* A transaction whose end nobody has heard of may have been carried out. */
static void refuse_failed(struct sl_http_call *call, const struct sl_job *job)
{
    sl_http_field(call, SL_STR("Retry-After"), SL_STR("1"));
    if (job->doubt == 0)
        sl_http_refuse(call, 503,
                       job->err == SLUICE_ENOMEM ? "NO_MEMORY" : "REGISTRY",
                       "nothing was changed: %s", job->diag.sentence);
    else
        sl_http_refuse(call, 503, "REGISTRY_UNKNOWN",
                       "it is not known whether the change was made; check "
                       "before you retry: %s",
                       job->diag.sentence);
}

static void on_done(struct sl_job *job)
{
    struct sl_errand_call *errand = job->ctx;
    struct sl_http_call *call = errand->call;

    if (job->err) {
        refuse_failed(call, job);
    } else {
        errand->answer(errand);
    }
    sl_job_clear(job);
    sl_http_finish(call);
}

struct sl_errand_call *
sl_errand_new(struct sl_http_call *call, enum sl_job_kind kind,
              void (*answer)(struct sl_errand_call *errand))
{
    struct sl_errand_call *errand;

    if (!registry_of(call)) {
        sl_http_refuse(
            call, 501, "NO_REGISTRY",
            "this daemon has no registry (subjects and usage); start it "
            "with --usage sqlite:PATH");
        return NULL;
    }
    errand = sl_arena_take(&call->arena, sizeof(*errand));
    if (!errand) {
        sl_http_refuse(call, 503, "NO_MEMORY", "out of memory");
        return NULL;
    }
    memset(errand, 0, sizeof(*errand));
    sl_job_init(&errand->job, kind, call->worker->alloc);
    errand->call = call;
    errand->answer = answer;
    errand->job.loop = call->worker->loop;
    errand->job.now = sl_http_now(call);
    errand->job.done = on_done;
    errand->job.ctx = errand;
    return errand;
}

void sl_errand_send(struct sl_errand_call *errand)
{
    sl_http_later(errand->call);
    sl_registry_ask(registry_of(errand->call), &errand->job);
}

/* ---- names ---- */

static int hex(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 32;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Undo %41, and '+' in a query. False if a '%' leads nowhere, without memory,
 * or if there is a NUL. */
static bool decode(struct sl_http_call *call, struct sl_str text, bool form,
                   struct sl_str *ret)
{
    char *out = sl_arena_take(&call->arena, text.len + 1);
    size_t len = 0;

    if (!out)
        return false;
    for (size_t i = 0; i < text.len; i++) {
        char c = text.at[i];

        if (form && c == '+') {
            c = ' ';
        } else if (c == '%') {
            int high = i + 2 < text.len ? hex(text.at[i + 1]) : -1;
            int low = i + 2 < text.len ? hex(text.at[i + 2]) : -1;

            if (high < 0 || low < 0)
                return false;
            c = (char)(high * 16 + low);
            i += 2;
        }
        if (!c)
            return false;
        out[len++] = c;
    }
    *ret = (struct sl_str){out, len};
    return true;
}

struct sl_str sl_query_value(struct sl_http_call *call, const char *name)
{
    struct sl_str rest = call->query, value = {"", 0};

    while (rest.len > 0) {
        const char *end = memchr(rest.at, '&', rest.len);
        size_t len = end ? (size_t)(end - rest.at) : rest.len;
        struct sl_str pair = {rest.at, len};
        const char *equals = memchr(pair.at, '=', pair.len);
        size_t name_len = equals ? (size_t)(equals - pair.at) : pair.len;

        if (sl_str_eq((struct sl_str){pair.at, name_len}, sl_str_c(name)) &&
            decode(call, sl_str_from(pair, name_len + 1), true, &value))
            return value;
        rest = sl_str_from(rest, len + 1);
    }
    return (struct sl_str){"", 0};
}

static struct sl_str cut(struct sl_str *rest, bool *slash)
{
    const char *at = rest->len ? memchr(rest->at, '/', rest->len) : NULL;
    struct sl_str part = {rest->at, at ? (size_t)(at - rest->at) : rest->len};

    *slash = at != NULL;
    *rest = sl_str_from(*rest, part.len + 1);
    return part;
}

bool sl_subject_path(struct sl_http_call *call, struct sl_str *scope,
                     struct sl_str *id, struct sl_str *tail)
{
    struct sl_reading reading = {.arena = &call->arena};
    struct sl_str rest = call->rest, raw;
    bool slash;

    *scope = cut(&rest, &slash);
    raw = cut(&rest, &slash);
    *tail = rest;
    if (!sl_str_eq(*scope, SL_STR("user")) &&
        !sl_str_eq(*scope, SL_STR("org"))) {
        sl_http_refuse(call, 404, "NOT_FOUND",
                       "unknown scope \"%.*s\"; write /v1/subjects/user/ID or "
                       "/v1/subjects/org/ID",
                       SL_STR_ARG(*scope));
        return false;
    }
    if (!decode(call, raw, false, id) || id->len == 0 ||
        !sl_reading_text(&reading, "id", *id, SL_ENTRY_ID)) {
        sl_http_refuse(
            call, 400, "BAD_REQUEST",
            "\"%.*s\" is not a valid id; an id has up to %d bytes of UTF-8; "
            "write characters other than letters, digits, - . _ and @ as %%XX",
            SL_STR_ARG(raw), SL_ENTRY_ID);
        return false;
    }
    return true;
}

struct sl_str sl_subject_by(struct sl_http_call *call, struct sl_str said)
{
    struct sl_reading reading = {.arena = &call->arena};
    unsigned count = 0;
    struct sl_str by =
        sl_http1_field(call->request, SL_STR("x-sluice-by"), &count);

    by = sl_str_trim(by);
    if (count == 1 && by.len > 0 &&
        sl_reading_text(&reading, "X-Sluice-By", by, SL_ENTRY_BY))
        return by;
    return said.len > 0 ? said : SL_STR("admin");
}
