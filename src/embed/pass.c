/* pass.c -- let sluiced decide: requests to its http listener, and its answers.
 */
#include "embed/pass.h"

#include <string.h>

#include "base/parse.h"
#include "wire/json.h"

#define BODY_MAX    ((size_t)64 << 10) /* sluiced's for a check */
#define HEADERS_MAX 100                /* of a check */
#define DEPTH       32                 /* of a body in a verdict */
#define ROOM        512                /* for a head, and for most checks */

/* ---- requests ---- */

bool sl_pass_header(struct sl_str name)
{
    static const char *const names[] = {
        "authorization",   "cookie", "user-agent",
        "idempotency-key", "origin", "access-control-request-method",
        "content-length",  "accept", "x-request-id"};

    for (size_t i = 0; i < SL_LEN(names); i++)
        if (sl_str_eq_nocase(name, sl_str_c(names[i])))
            return true;
    return false;
}

/* The head goes before a body whose length is known. */
static int write_request(struct sl_str path, struct sl_str verb,
                         struct sl_str token, const struct sl_buf *body,
                         struct sl_buf *out)
{
    struct sl_writer w = {.out = out};
    char length[SL_DIGITS];

    w.err = sl_buf_reserve(out, body->len + ROOM);
    sl_writer_add(&w, SL_STR("POST "));
    sl_writer_add(&w, path);
    sl_writer_add(&w, verb);
    sl_writer_add(&w, SL_STR(" HTTP/1.1\r\nHost: localhost\r\n"));
    if (token.len > 0) {
        sl_writer_add(&w, SL_STR("X-Sluice-Token: "));
        sl_writer_add(&w, token);
        sl_writer_add(&w, SL_STR("\r\n"));
    }
    sl_writer_add(&w, SL_STR("Content-Length: "));
    sl_writer_add(&w, (struct sl_str){length, sl_digits(body->len, length)});
    sl_writer_add(&w, SL_STR("\r\n\r\n"));
    sl_writer_add(&w, sl_buf_str(body));
    return w.err;
}

static void write_costs(struct sl_writer *w, bool has_cost, uint64_t cost,
                        const struct sl_cost *costs, unsigned count)
{
    if (!has_cost && count == 0)
        return;
    sl_json_key(w, SL_STR("cost"));
    if (count == 0) {
        sl_json_uint(w, cost);
        return;
    }
    sl_json_open(w, '{');
    for (unsigned i = 0; i < count; i++) {
        sl_json_key(w, costs[i].limit);
        sl_json_uint(w, costs[i].cost);
    }
    sl_json_close(w, '}');
}

static void write_if(struct sl_writer *w, const char *name, struct sl_str text)
{
    if (text.len > 0)
        sl_json_member_str(w, name, text);
}

/* Of headers with one name the first is sent: a JSON object has each once. */
static void write_headers(struct sl_writer *w, const struct sl_request *request)
{
    unsigned sent = 0;

    sl_json_key(w, SL_STR("headers"));
    sl_json_open(w, '{');
    for (unsigned i = 0; i < request->header_count && sent < HEADERS_MAX; i++) {
        const struct sl_header *h = &request->headers[i];
        bool again = false;

        for (unsigned k = 0; k < i && !again; k++)
            again = sl_str_eq_nocase(request->headers[k].name, h->name);
        if (again || !sl_pass_header(h->name))
            continue;
        sl_json_key(w, h->name);
        sl_json_str(w, h->value);
        sent++;
    }
    sl_json_close(w, '}');
}

/* A verdict that waits in sluiced comes after the timeout of the proxy, which
 * may let the request pass then. So sluiced answers at once, whatever the route
 * says. */
int sl_pass_write_check(const struct sl_request *request, struct sl_str token,
                        struct sl_buf *out)
{
    struct sl_buf body;
    struct sl_writer w = {.out = &body};
    int err;

    sl_buf_init(&body, BODY_MAX, &sl_alloc_libc);
    w.err = sl_buf_reserve(&body, ROOM); /* not in steps */
    sl_json_open(&w, '{');
    sl_json_member_str(&w, "method", request->method);
    sl_json_member_str(&w, "path", request->path);
    write_if(&w, "user", request->user);
    write_if(&w, "org", request->org);
    write_if(&w, "plan", request->plan);
    write_if(&w, "role", request->role);
    write_if(&w, "ip", request->ip);
    write_if(&w, "request_id", request->request_id);
    write_costs(&w, request->has_cost, request->cost, request->costs,
                request->cost_count);
    sl_json_member_str(&w, "wait", SL_STR("0s"));
    if (request->hold > 0) {
        sl_json_key(&w, SL_STR("hold"));
        sl_writer_addf(&w, "\"%lldms\"", (long long)(request->hold / SL_MS));
    }
    write_headers(&w, request);
    sl_json_close(&w, '}');
    err = w.err ? w.err
                : write_request(SL_STR("/v1/check"), SL_STR(""), token, &body,
                                out);
    sl_buf_done(&body);
    return err;
}

/* /v1/holds/ID/VERB */
static int write_ending(struct sl_str hold, struct sl_str verb,
                        struct sl_str token, const struct sl_buf *body,
                        struct sl_buf *out)
{
    struct sl_buf path;
    int err;

    sl_buf_init(&path, 256, &sl_alloc_libc);
    err = sl_buf_addf(&path, "/v1/holds/%.*s/", SL_STR_ARG(hold));
    if (!err)
        err = write_request(sl_buf_str(&path), verb, token, body, out);
    sl_buf_done(&path);
    return err;
}

int sl_pass_write_settle(struct sl_str hold,
                         const struct sl_embed_actual *actual,
                         struct sl_str token, struct sl_buf *out)
{
    struct sl_buf body;
    struct sl_writer w = {.out = &body};
    int err;

    sl_buf_init(&body, BODY_MAX, &sl_alloc_libc);
    sl_json_open(&w, '{');
    if (actual)
        write_costs(&w, actual->has_cost, actual->cost, actual->costs,
                    actual->cost_count);
    sl_json_close(&w, '}');
    err =
        w.err ? w.err : write_ending(hold, SL_STR("settle"), token, &body, out);
    sl_buf_done(&body);
    return err;
}

int sl_pass_write_extend(struct sl_str hold, sl_ns life, struct sl_str token,
                         struct sl_buf *out)
{
    struct sl_buf body;
    int err;

    sl_buf_init(&body, BODY_MAX, &sl_alloc_libc);
    err =
        sl_buf_addf(&body, "{\"hold\":\"%lldms\"}", (long long)(life / SL_MS));
    if (!err)
        err = write_ending(hold, SL_STR("extend"), token, &body, out);
    sl_buf_done(&body);
    return err;
}

/* ---- replies ---- */

/* Cuts the first line off a head, without its end. */
static struct sl_str cut_line(struct sl_str *head)
{
    const char *end = memchr(head->at, '\r', head->len);
    struct sl_str line = {head->at, end ? (size_t)(end - head->at) : head->len};

    *head = sl_str_from(*head, line.len + 2);
    return line;
}

static bool read_status(struct sl_str line, unsigned *ret)
{
    uint64_t status;

    if (line.len < 12 || memcmp(line.at, "HTTP/1.1 ", 9) != 0 ||
        sl_parse_number((struct sl_str){line.at + 9, 3}, &status, NULL) ||
        status < 200 || status > 599)
        return false;
    *ret = (unsigned)status;
    return true;
}

static bool read_field(struct sl_str line, struct sl_pass_reply *ret,
                       bool *has_length, uint64_t *length)
{
    const char *colon = line.len > 0 ? memchr(line.at, ':', line.len) : NULL;
    struct sl_str name, value;

    if (!colon)
        return false;
    name = (struct sl_str){line.at, (size_t)(colon - line.at)};
    value = sl_str_from(line, name.len + 1);
    while (value.len > 0 && value.at[0] == ' ')
        value = sl_str_from(value, 1);
    if (sl_str_eq_nocase(name, SL_STR("transfer-encoding")))
        return false;
    if (sl_str_eq_nocase(name, SL_STR("connection")) &&
        sl_str_eq_nocase(value, SL_STR("close")))
        ret->keep = false;
    if (!sl_str_eq_nocase(name, SL_STR("content-length")))
        return true;
    if (*has_length || sl_parse_number(value, length, NULL))
        return false;
    *has_length = true;
    return *length <= SL_PASS_REPLY;
}

/* The offset behind the empty line; 0: it is not there. */
static size_t find_body(struct sl_str text)
{
    const char *end =
        text.len > 0 ? memmem(text.at, text.len, "\r\n\r\n", 4) : NULL;

    return end ? (size_t)(end - text.at) + 4 : 0;
}

enum sl_pass_state sl_pass_read_reply(struct sl_str text,
                                      struct sl_pass_reply *ret)
{
    size_t begins = find_body(text);
    struct sl_str head = {text.at, begins > 0 ? begins - 2 : 0};
    bool has_length = false;
    uint64_t length = 0;

    *ret = (struct sl_pass_reply){.keep = true};
    if (begins == 0)
        return text.len > SL_PASS_REPLY ? SL_PASS_BAD : SL_PASS_MORE;
    if (!read_status(cut_line(&head), &ret->status))
        return SL_PASS_BAD;
    while (head.len > 0)
        if (!read_field(cut_line(&head), ret, &has_length, &length))
            return SL_PASS_BAD;
    if (!has_length && ret->status != 204)
        return SL_PASS_BAD;
    if (text.len - begins < length)
        return SL_PASS_MORE;
    ret->body = (struct sl_str){text.at + begins, (size_t)length};
    ret->len = begins + (size_t)length;
    return SL_PASS_WHOLE;
}

/* ---- verdicts ---- */

/* Skips a value. */
static bool skip(struct sl_json_reader *r, unsigned depth)
{
    struct sl_str text;
    enum sl_json_kind kind = sl_json_peek(r);
    bool flag;

    if (depth > DEPTH)
        return false;
    switch (kind) {
    case SL_JSON_NULL:
        return sl_json_null(r);
    case SL_JSON_BOOL:
        return sl_json_bool(r, &flag);
    case SL_JSON_STRING:
        return sl_json_text(r, &text);
    case SL_JSON_ARRAY:
        if (!sl_json_enter(r, '['))
            return false;
        while (sl_json_item(r))
            if (!skip(r, depth + 1))
                return false;
        return !r->why;
    case SL_JSON_OBJECT:
        if (!sl_json_enter(r, '{'))
            return false;
        while (sl_json_member(r, &text))
            if (!skip(r, depth + 1))
                return false;
        return !r->why;
    case SL_JSON_NUMBER: /* any number: a policy's body may have fractions */
        while (r->at < r->text.len &&
               strchr("+-.eE0123456789", r->text.at[r->at]) &&
               r->text.at[r->at])
            r->at++;
        r->first = false;
        return true;
    case SL_JSON_BAD:
        break;
    }
    return false;
}

static bool read_text(struct sl_json_reader *r, struct sl_str *ret)
{
    return sl_json_peek(r) == SL_JSON_NULL ? sl_json_null(r)
                                           : sl_json_text(r, ret);
}

/* Milliseconds or null. */
static bool read_ms(struct sl_json_reader *r, sl_ns *ret)
{
    uint64_t ms;

    if (sl_json_peek(r) == SL_JSON_NULL)
        return sl_json_null(r);
    if (!sl_json_whole(r, &ms) || ms > (uint64_t)(INT64_MAX / SL_MS))
        return false;
    *ret = (sl_ns)ms * SL_MS;
    return true;
}

/* One limit of the verdict. */
struct limit {
    struct sl_str name, plan, mode;
    bool allowed, has_limit, has_remaining;
    uint64_t limit, remaining;
    sl_ns wait;
};

static bool read_number(struct sl_json_reader *r, bool *has, uint64_t *ret)
{
    if (sl_json_peek(r) == SL_JSON_NULL)
        return sl_json_null(r);
    *has = true;
    return sl_json_whole(r, ret);
}

static bool read_limit(struct sl_json_reader *r, struct limit *ret)
{
    struct sl_str name;

    if (!sl_json_enter(r, '{'))
        return false;
    while (sl_json_member(r, &name)) {
        bool good;

        if (sl_str_eq(name, SL_STR("name")))
            good = sl_json_text(r, &ret->name);
        else if (sl_str_eq(name, SL_STR("plan")))
            good = read_text(r, &ret->plan);
        else if (sl_str_eq(name, SL_STR("mode")))
            good = sl_json_text(r, &ret->mode);
        else if (sl_str_eq(name, SL_STR("limit")))
            good = read_number(r, &ret->has_limit, &ret->limit);
        else if (sl_str_eq(name, SL_STR("remaining")))
            good = read_number(r, &ret->has_remaining, &ret->remaining);
        else if (sl_str_eq(name, SL_STR("allowed")))
            good = sl_json_bool(r, &ret->allowed);
        else if (sl_str_eq(name, SL_STR("wait_ms")))
            good = read_ms(r, &ret->wait);
        else
            good = skip(r, 0);
        if (!good)
            return false;
    }
    return !r->why;
}

/* Of several limits the first that denies is shown, else the one with the
 * least left. */
static void use_limit(struct sl_embed_answer *a, const struct limit *l)
{
    bool enforced = sl_str_eq(l->mode, SL_STR("enforce"));

    a->limited = true;
    if (a->plan.len == 0)
        a->plan = l->plan;
    if (enforced && l->wait > a->wait)
        a->wait = l->wait;
    if (!enforced || !l->has_limit || !l->has_remaining)
        return;
    if (a->has_numbers && l->remaining >= a->remaining)
        return;
    a->has_numbers = true;
    a->limit = l->limit;
    a->remaining = l->remaining;
}

static bool read_limits(struct sl_json_reader *r, struct sl_embed_answer *a)
{
    if (!sl_json_enter(r, '['))
        return false;
    while (sl_json_item(r)) {
        struct limit limit = {.wait = 0};

        if (!read_limit(r, &limit))
            return false;
        use_limit(a, &limit);
    }
    return !r->why;
}

/* A header that would end its line is refused. */
static bool is_clean(struct sl_str text)
{
    for (size_t i = 0; i < text.len; i++)
        if ((unsigned char)text.at[i] < ' ' || text.at[i] == 0x7f)
            return false;
    return true;
}

static bool read_headers(struct sl_json_reader *r, struct sl_rendered *ret)
{
    struct sl_out_header h;

    if (!sl_json_enter(r, '{'))
        return false;
    while (sl_json_member(r, &h.name)) {
        if (!sl_json_text(r, &h.value) || h.name.len == 0 ||
            !is_clean(h.name) || !is_clean(h.value))
            return false;
        if (sl_str_eq_nocase(h.name, SL_STR("content-type")))
            ret->content_type = h.value;
        else if (ret->header_count < SL_HEADERS)
            ret->headers[ret->header_count++] = h;
    }
    return !r->why;
}

/* The body is sent as it is written. */
static bool read_body(struct sl_json_reader *r, struct sl_rendered *ret)
{
    size_t begins;

    if (sl_json_peek(r) == SL_JSON_NULL)
        return sl_json_null(r);
    begins = r->at;
    if (!skip(r, 0))
        return false;
    ret->body = (struct sl_str){r->text.at + begins, r->at - begins};
    return true;
}

static bool read_member(struct sl_json_reader *r, struct sl_str name,
                        struct sl_embed_answer *a, struct sl_rendered *ret)
{
    uint64_t status;

    if (sl_str_eq(name, SL_STR("allowed")))
        return sl_json_bool(r, &a->allowed);
    if (sl_str_eq(name, SL_STR("degraded")))
        return sl_json_bool(r, &a->degraded);
    if (sl_str_eq(name, SL_STR("code")))
        return read_text(r, &a->code);
    if (sl_str_eq(name, SL_STR("by")))
        return read_text(r, &a->by);
    if (sl_str_eq(name, SL_STR("request_id")))
        return read_text(r, &a->request_id);
    if (sl_str_eq(name, SL_STR("hold")))
        return read_text(r, &a->hold);
    if (sl_str_eq(name, SL_STR("hold_expires_ms")))
        return read_ms(r, &a->hold_for);
    if (sl_str_eq(name, SL_STR("retry_after_ms")))
        return read_ms(r, &a->retry_in);
    if (sl_str_eq(name, SL_STR("limits")))
        return read_limits(r, a);
    if (sl_str_eq(name, SL_STR("headers")))
        return read_headers(r, ret);
    if (sl_str_eq(name, SL_STR("body")))
        return read_body(r, ret);
    if (!sl_str_eq(name, SL_STR("status")))
        return skip(r, 0);
    if (!sl_json_whole(r, &status) || status < 200 || status > 599)
        return false;
    ret->status = (int)status;
    return true;
}

int sl_pass_read_verdict(struct sl_str body, struct sl_arena *arena,
                         struct sl_embed_answer *answer,
                         struct sl_rendered *rendered)
{
    struct sl_json_reader r;
    struct sl_str name;
    bool good;

    *answer =
        (struct sl_embed_answer){.retry_in = SL_NS_NONE, .rendered = rendered};
    *rendered = (struct sl_rendered){.status = 0};
    sl_json_begin(&r, body, arena);
    good = sl_json_enter(&r, '{');
    while (good && sl_json_member(&r, &name))
        good = read_member(&r, name, answer, rendered);
    if (good && !r.why && sl_json_end(&r) && rendered->status > 0 &&
        answer->hold.len < 64 && is_clean(answer->hold))
        return 0;
    return r.no_memory ? SLUICE_ENOMEM : SLUICE_EINVAL;
}
