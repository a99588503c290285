/* fuzz_bearer.c -- tokens and cookies in request headers, and the Cache-Control
 * of a key set.
 *
 *   (1) A token is a piece of a value that was sent.
 *   (2) What comes twice is none: every header of the request, sent once more,
 *       leaves no token, unless there was none in the first place.
 *   (3) A cookie is found where exactly one field has it, however many fields
 *       without it are around.
 *   (4) A life is none, or between 0 and ten years.
 */
#include "fuzz.h"

#include "engine/request.h"
#include "wire/http_fields.h"

#define LINES 16

static const struct sl_source sources[] = {
    {SL_SOURCE_HEADER, {"authorization", 13}},
    {SL_SOURCE_HEADER, {"x-token", 7}       },
    {SL_SOURCE_COOKIE, {"s", 1}             },
};

static struct sl_policy policy = {
    .identity.jwt = {.written = true, .from = {sources, 3}}
};

/* "name:value" lines become headers. */
static unsigned split(struct sl_str text, struct sl_header *list)
{
    unsigned count = 0;

    while (text.len > 0 && count < LINES) {
        const char *end = memchr(text.at, '\n', text.len);
        size_t len = end ? (size_t)(end - text.at) : text.len;
        const char *colon = len ? memchr(text.at, ':', len) : NULL;
        size_t name = colon ? (size_t)(colon - text.at) : len;

        list[count].name = (struct sl_str){text.at, name};
        list[count].value = (struct sl_str){text.at + name, len - name};
        if (colon)
            list[count].value = sl_str_from(list[count].value, 1);
        count++;
        text = sl_str_from(text, len + 1);
    }
    return count;
}

static bool is_inside(const struct sl_request *request, struct sl_str piece)
{
    for (unsigned i = 0; i < request->header_count; i++) {
        struct sl_str value = request->headers[i].value;

        if (value.len >= piece.len && piece.at >= value.at &&
            piece.at + piece.len <= value.at + value.len)
            return true;
    }
    return false;
}

/* (2) */
static void check_twice(const struct sl_request *once, bool had)
{
    struct sl_header list[2 * LINES];
    struct sl_request request = {.headers = list};
    struct sl_str token;
    enum sl_token_error fault;

    for (unsigned i = 0; i < once->header_count; i++)
        list[request.header_count++] = once->headers[i];
    for (unsigned i = 0; i < once->header_count; i++)
        list[request.header_count++] = once->headers[i];
    fault = sl_request_token(&policy, &request, &token);
    MUST(token.len == 0);
    MUST(!had || fault == SL_TOKEN_MALFORMED);
}

/* (3) */
static void check_cookie(const struct sl_request *once)
{
    static const struct sl_header other = {
        {"cookie",            6 },
        {"theme=dark; ss=no", 17}
    };
    struct sl_header list[LINES + 2];
    struct sl_request request = {.headers = list};
    struct sl_str before, after;
    unsigned count, again;

    list[request.header_count++] = other;
    for (unsigned i = 0; i < once->header_count; i++)
        list[request.header_count++] = once->headers[i];
    list[request.header_count++] = other;
    before = sl_request_cookie(once, SL_STR("s"), &count);
    after = sl_request_cookie(&request, SL_STR("s"), &again);
    MUST(count == again && before.len == after.len);
    MUST(before.len == 0 || is_inside(once, before));
}

void fuzz_bearer(struct sl_str text)
{
    struct sl_str token;
    struct sl_header list[LINES];
    struct sl_request request = {.headers = list};
    enum sl_token_error fault;
    sl_ns life = sl_cache_control_life(text);

    MUST(life == SL_NS_NONE || (life >= 0 && life <= 315360000 * SL_S)); /* 4 */
    request.header_count = split(text, list);
    fault = sl_request_token(&policy, &request, &token);
    MUST(fault == SL_TOKEN_GOOD || fault == SL_TOKEN_MALFORMED);
    MUST(fault == SL_TOKEN_GOOD || token.len == 0);
    MUST(token.len == 0 || is_inside(&request, token)); /* (1) */
    check_twice(&request, token.len > 0 || fault == SL_TOKEN_MALFORMED);
    check_cookie(&request);
}
