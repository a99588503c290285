/* deny.c -- GET /v1/deny: a denial made of what a denial said before.
 *
 * nginx throws the body of a denied sub-request away, and keeps headers in
 * variables; its error page hands them in here as X-Sluice-... and gets a
 * proper answer for the client. Nothing is asked or spent. What does not look
 * as we would have written it is left out.
 */
#include <stdio.h>
#include <string.h>

#include "base/parse.h"
#include "doors/http/api/api.h"
#include "wire/json.h"

#define VALUE_MAX 1024 /* bytes of a field that is handed on */

/* ---- what is handed in ---- */

static bool is_number(struct sl_str value)
{
    uint64_t number;

    return value.len <= 15 && !sl_parse_number(value, &number, NULL);
}

static bool is_line(struct sl_str value)
{
    for (size_t i = 0; i < value.len; i++)
        if (value.at[i] < ' ' || value.at[i] > '~')
            return false;
    return value.len > 0 && value.len <= VALUE_MAX;
}

static bool is_id(struct sl_str value)
{
    for (size_t i = 0; i < value.len; i++)
        if (strchr(" \"\\<>", value.at[i]))
            return false;
    return value.len <= SL_REQUEST_ID && is_line(value);
}

/* As a policy may have it. */
static bool is_code(struct sl_str value)
{
    for (size_t i = 0; i < value.len; i++) {
        char c = value.at[i], small = (char)(c | 0x20);

        if ((small < 'a' || small > 'z') && (c < '0' || c > '9') && c != '_' &&
            c != '.' && c != '-')
            return false;
    }
    return value.len > 0 && value.len <= 64;
}

static const struct told {
    const char *name; /* of the request's field */
    struct sl_str as; /* of the answer's */
    bool (*is_good)(struct sl_str value);
} told[] = {
    {"x-sluice-ratelimit-policy", {"RateLimit-Policy", 16},      is_line  },
    {"x-sluice-ratelimit",        {"RateLimit", 9},              is_line  },
    {"x-sluice-limit",            {"X-RateLimit-Limit", 17},     is_number},
    {"x-sluice-remaining",        {"X-RateLimit-Remaining", 21}, is_number},
    {"x-sluice-reset",            {"X-RateLimit-Reset", 17},     is_number},
    {"x-sluice-quota-remaining",  {"X-Org-Quota-Remaining", 21}, is_number},
    {"x-sluice-retry-after",      {"Retry-After", 11},           is_number},
    {"x-sluice-request-id",       {"X-Request-Id", 12},          is_id    },
};

static struct sl_str ask(const struct sl_http_call *call, const char *name,
                         bool (*is_good)(struct sl_str value))
{
    unsigned count = 0;
    struct sl_str value = sl_http1_field(call->request, sl_str_c(name), &count);

    return count == 1 && is_good(value) ? value : (struct sl_str){NULL, 0};
}

/* A denial is 4xx or 5xx. */
static int ask_status(const struct sl_http_call *call)
{
    struct sl_str value = ask(call, "x-sluice-status", is_number);
    uint64_t status = 429;

    if (value.len != 3 || sl_parse_number(value, &status, NULL) ||
        status < 400 || status > 599 || !*sl_http1_reason((int)status))
        return 429;
    return (int)status;
}

/* ---- the answer ---- */

#define TYPES "https://iana.org/assignments/http-problem-types"

static const struct words {
    int status;
    const char *code, *title, *sentence;
} all_words[] = {
    {429, "RATE_LIMITED",        "Too many requests",   "Too many requests."  },
    {401, "UNAUTHORIZED",        "Unauthorized",        "Please sign in."     },
    {402, "PLAN_LIMIT_EXCEEDED", "Plan limit reached",
     "The limit of the plan is reached."                                      },
    {403, "FORBIDDEN",           "Forbidden",           "This is not allowed."},
    {503, "SERVICE_UNAVAILABLE", "Service unavailable",
     "The service is not available."                                          },
};

static struct words words_of(int status)
{
    for (size_t i = 0; i < SL_LEN(all_words); i++)
        if (all_words[i].status == status)
            return all_words[i];
    return (struct words){status, "DENIED", sl_http1_reason(status) + 4,
                          "The request was denied."};
}

/* As the engine's own bodies have it. */
static const char *type_of(int status)
{
    if (status == 503)
        return TYPES "#temporary-reduced-capacity";
    return status == 429 || status == 402 ? TYPES "#quota-exceeded"
                                          : "about:blank";
}

static int write_body(struct sl_buf *out, const struct words *words,
                      struct sl_str code, struct sl_str retry, struct sl_str id)
{
    int err = sl_buf_addf(out,
                          "{\"type\":\"%s\",\"title\":\"%s\","
                          "\"status\":%d,\"detail\":\"%s",
                          type_of(words->status), words->title, words->status,
                          words->sentence);

    if (!err && retry.len > 0)
        err = sl_buf_addf(out, " Please try again in %.*s second%s.",
                          SL_STR_ARG(retry),
                          sl_str_eq(retry, SL_STR("1")) ? "" : "s");
    if (!err)
        err = sl_buf_addf(out, "\",\"code\":\"%.*s\"", SL_STR_ARG(code));
    if (!err && retry.len > 0)
        err = sl_buf_addf(out, ",\"retry_after\":%.*s", SL_STR_ARG(retry));
    if (!err && id.len > 0)
        err = sl_buf_add(out, SL_STR(",\"request_id\":"));
    if (!err && id.len > 0)
        err = sl_json_string(out, id);
    return err ? err : sl_buf_add(out, SL_STR("}"));
}

/* Browsers hide from scripts what is not named here. */
static void add_exposed(struct sl_http_call *call, unsigned count)
{
    char *list = sl_arena_take(&call->arena, 256);
    size_t len = 0;

    if (!list || count == 0)
        return;
    for (unsigned i = 0; i < count; i++)
        len +=
            (size_t)snprintf(list + len, 256 - len, "%s%.*s", i > 0 ? ", " : "",
                             SL_STR_ARG(call->fields[i].name));
    sl_http_field(call, SL_STR("Access-Control-Expose-Headers"),
                  (struct sl_str){list, len});
}

static void add_fields(struct sl_http_call *call)
{
    unsigned count;

    for (size_t i = 0; i < SL_LEN(told); i++) {
        struct sl_str value = ask(call, told[i].name, told[i].is_good);

        if (value.len > 0)
            sl_http_field(call, told[i].as, value);
    }
    count = call->field_count;
    sl_http_field(call, SL_STR("Cache-Control"), SL_STR("no-store"));
    add_exposed(call, count);
}

void sl_http_deny(struct sl_http_call *call)
{
    int status = ask_status(call);
    struct words words = words_of(status);
    struct sl_str code = ask(call, "x-sluice-code", is_code);
    struct sl_buf *out = &call->text;

    if (!call->trusted) {
        sl_http_refuse(call, 403, "UNTRUSTED_PEER",
                       "/v1/deny answers trusted proxies only; add your proxy "
                       "to identity: trusted_proxies in the policy");
        return;
    }
    if (code.len == 0)
        code = sl_str_c(words.code);
    if (write_body(out, &words, code,
                   ask(call, "x-sluice-retry-after", is_number),
                   ask(call, "x-sluice-request-id", is_id))) {
        sl_http_no_memory(call);
        return;
    }
    add_fields(call);
    sl_http_answer(call, status, SL_STR("application/problem+json"),
                   sl_buf_str(out));
}
