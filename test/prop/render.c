/* render.c -- whatever names, ids and numbers a decision has, what is rendered
 * is read back as the same.
 *
 *   (1)  headers are visible ASCII and blanks, none at the ends; no name twice
 *   (2)  headers read by a strict client give the decision's numbers, and no
 *        number has more than 15 digits
 *   (3)  bodies are one line of JSON that is read back as the same values
 *   (4)  so is the verdict, headers and body included
 *   (5)  texts that were made once per limit and plan change no byte
 */
#include <jansson.h>

#include "fields.h"
#include "hostile.h"
#include "prop.h"

#define SF_MAX   UINT64_C(999999999999999)
#define JSON_TOP UINT64_C(9007199254740991)

/* ---- (1), (2): headers ---- */

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t up(sl_ns span, sl_ns unit)
{
    return (uint64_t)(span / unit) + (span % unit != 0);
}

static const struct sl_out_header *find(const char *name)
{
    for (unsigned i = 0; i < s.out.header_count; i++)
        if (sl_str_eq_nocase(s.out.headers[i].name, sl_str_c(name)))
            return &s.out.headers[i];
    return NULL;
}

static void check_bytes(const struct sl_out_header *header)
{
    struct sl_str v = header->value;

    HOLDS("(1)", v.len == 0 || (v.at[0] != ' ' && v.at[v.len - 1] != ' '));
    for (size_t i = 0; i < v.len; i++)
        HOLDS("(1)", v.at[i] >= 0x20 && v.at[i] <= 0x7e);
    for (const struct sl_out_header *h = s.out.headers; h < header; h++)
        HOLDS("(1)", !sl_str_eq_nocase(h->name, header->name));
}

/* If the header is there, it is this number. */
static void check_number(const char *name, uint64_t want)
{
    const struct sl_out_header *header = find(name);
    struct sl_str rest;
    uint64_t got;

    if (!header)
        return;
    rest = header->value;
    HOLDS("(2)", fields_integer(&rest, &got) && rest.len == 0);
    HOLDS("(2)", got == least(want, SF_MAX));
}

static const struct sl_limit_view *reported(void)
{
    const struct sl_limit_view *shown =
        s.d.report >= 0 ? &s.d.shown[s.d.report] : NULL;

    return shown && shown->form != SL_RATE_UNLIMITED ? shown : NULL;
}

static void check_numbers(const struct sl_limit_view *shown)
{
    sl_ns in = shown->answer.reset_in;
    sl_ns at;

    if (in >= 0 && s.route.reset == SL_RESET_NEXT)
        in = shown->next_in;
    if (__builtin_add_overflow(s.d.now, in, &at))
        at = SL_NS_MAX;
    check_number("x-ratelimit-limit", shown->answer.limit);
    check_number("x-ratelimit-remaining", shown->answer.remaining);
    check_number("ratelimit-limit", shown->answer.limit);
    check_number("ratelimit-remaining", shown->answer.remaining);
    HOLDS("(2)", in >= 0 || !find("x-ratelimit-reset"));
    HOLDS("(2)", in >= 0 || !find("ratelimit-reset"));
    if (in >= 0) {
        check_number("x-ratelimit-reset", up(at, SL_S));
        check_number("ratelimit-reset", up(in, SL_S));
    }
}

static void check_item(struct sl_str *rest, const struct sl_limit_view *shown,
                       bool policy)
{
    struct item item;
    const struct parameter *p;

    HOLDS("(2)", fields_item(rest, &item));
    if (good) {
        struct sl_str name = {item.name, item.len};

        HOLDS("(2)", fields_means(name, shown->rule->name, ' '));
        p = fields_get(&item, policy ? "q" : "r");
        HOLDS("(2)", p && p->number == least(policy ? shown->answer.limit
                                                    : shown->answer.remaining,
                                             SF_MAX));
        p = fields_get(&item, "sluice-burst");
        HOLDS("(2)", (p != NULL) == (policy && shown->answer.capacity !=
                                                   shown->answer.limit));
        p = fields_get(&item, "qu");
        HOLDS("(2)",
              (p != NULL) == (policy && shown->rule->kind == SL_PERMITS));
    }
    free(item.name);
}

static void check_ietf(void)
{
    const struct sl_out_header *header = find("RateLimit-Policy");
    struct sl_str rest;
    bool first = true;

    if (!header || !(s.route.dialects & SL_DIALECT_IETF))
        return;
    rest = header->value;
    for (unsigned i = 0; i < s.d.shown_count && good; i++) {
        const struct sl_limit_view *shown = &s.d.shown[i];

        if (shown->form == SL_RATE_UNLIMITED ||
            (shown->mode != SL_MODE_ENFORCE && (int)i != s.d.report))
            continue;
        HOLDS("(2)",
              first || (fields_pass(&rest, ',') && fields_pass(&rest, ' ')));
        check_item(&rest, shown, true);
        first = false;
    }
    HOLDS("(2)", rest.len == 0);
    header = find("RateLimit");
    HOLDS("(2)", header != NULL);
    rest = header ? header->value : rest;
    check_item(&rest, reported(), false);
    HOLDS("(2)", rest.len == 0);
}

/* The list of exposed headers names all of them but Cache-Control and
 * itself. */
static void check_exposed(void)
{
    const struct sl_out_header *last = &s.out.headers[s.out.header_count - 1];
    char want[4096];
    size_t len = 0;

    for (unsigned i = 0; i + 1 < s.out.header_count; i++)
        if (!sl_str_eq(s.out.headers[i].name, SL_STR("Cache-Control")))
            len += (size_t)snprintf(want + len, sizeof(want) - len, "%s%.*s",
                                    len ? ", " : "",
                                    SL_STR_ARG(s.out.headers[i].name));
    if (len == 0)
        return;
    HOLDS("(1)",
          sl_str_eq(last->name, SL_STR("Access-Control-Expose-Headers")));
    HOLDS("(1)", sl_str_eq(last->value, (struct sl_str){want, len}));
}

static void check_headers(void)
{
    const struct sl_out_header *header;

    for (unsigned i = 0; i < s.out.header_count; i++)
        check_bytes(&s.out.headers[i]);
    if (reported())
        check_numbers(reported());
    check_ietf();
    header = find("x-ratelimit-resource");
    HOLDS("(2)",
          !header || fields_means(header->value, reported()->rule->name, '!'));
    header = find("X-Request-Id");
    HOLDS("(2)", (header != NULL) == (request_id.raw_len > 0));
    HOLDS("(2)", !header || fields_means(header->value, raw(&request_id), '!'));
    if (s.d.retry_in >= 0 && !s.d.never)
        check_number("Retry-After",
                     s.d.retry_in > 0 ? up(s.d.retry_in, SL_S) : 1);
    HOLDS("(2)", (find("Retry-After") != NULL) ==
                     (!s.d.allowed && s.d.retry_in >= 0 && !s.d.never));
    if (s.out.header_count > 0)
        check_exposed();
}

/* ---- (3), (4): JSON ---- */

static bool is_text(const json_t *value, const struct hostile *want)
{
    return json_is_string(value) &&
           sl_str_eq((struct sl_str){json_string_value(value),
                                     json_string_length(value)},
                     (struct sl_str){want->want, want->want_len});
}

static bool is_number(const json_t *value, uint64_t want)
{
    return json_is_integer(value) &&
           (uint64_t)json_integer_value(value) == least(want, JSON_TOP);
}

/* A number of milliseconds or seconds, or null where there is no such time. */
static bool is_span(const json_t *value, sl_ns span, sl_ns unit)
{
    return span < 0 ? json_is_null(value) : is_number(value, up(span, unit));
}

static json_t *load(struct sl_str text)
{
    for (size_t i = 0; i < text.len; i++)
        HOLDS("(3)", (unsigned char)text.at[i] >= 0x20);
    return json_loadb(text.at, text.len, JSON_REJECT_DUPLICATES, NULL);
}

static sl_ns retry_in(void)
{
    return s.d.allowed || s.d.never ? SL_NS_NONE : s.d.retry_in;
}

static void check_problem(const json_t *body)
{
    sl_ns in = retry_in();

    HOLDS("(3)", is_text(json_object_get(body, "code"), &code));
    HOLDS("(3)", is_text(json_object_get(body, "request_id"), &request_id));
    HOLDS("(3)",
          is_number(json_object_get(body, "status"), (uint64_t)s.d.status));
    HOLDS("(3)",
          (json_object_get(body, "retry_after_ms") != NULL) == (in >= 0));
    HOLDS("(3)", in < 0 || is_span(json_object_get(body, "retry_after_ms"), in,
                                   SL_MS));
    HOLDS("(3)", json_is_string(json_object_get(body, "detail")));
    if (s.d.by >= 0)
        HOLDS("(3)", is_text(json_array_get(
                                 json_object_get(body, "violated-policies"), 0),
                             &names[s.d.by]));
}

/* The policy's message, where it is used, is its words and three values. */
static void check_message(const json_t *message)
{
    struct sl_str got = {json_string_value(message),
                         json_string_length(message)};
    const struct hostile *parts[] = {&words, &names[0], &id, &request_id};

    if (s.d.by < 0 || s.rules[s.d.by].deny.message.count == 0)
        return;
    parts[1] = &names[s.d.by];
    for (size_t i = 0; i < SL_LEN(parts); i++) {
        struct sl_str want = {parts[i]->want, parts[i]->want_len};

        HOLDS("(3)", i == 0 || fields_pass(&got, '|'));
        HOLDS("(3)", got.len >= want.len &&
                         sl_str_eq((struct sl_str){got.at, want.len}, want));
        got = sl_str_from(got, want.len);
    }
    HOLDS("(3)", got.len == 0);
}

/* The same decision by a body of the policy. */
static void check_template(void)
{
    static const char *const members[][2] = {
        {"m",  "{message}"       },
        {"id", "{id}"            },
        {"ms", "{retry_after_ms}"},
        {"l",  "{limit}"         },
        {"s",  "x{request_id}y"  },
        {"p",  "{plan}"          },
    };
    struct sl_yaml_node nodes[SL_LEN(members)], root = {.kind = SL_NODE_MAP};
    struct hostile around = {.want = "x"};
    struct sl_rendered out;
    struct sl_report report;
    json_t *body;

    memset(nodes, 0, sizeof(nodes));
    for (size_t i = 0; i < SL_LEN(members); i++) {
        nodes[i].kind = SL_NODE_SCALAR;
        nodes[i].quoted = true;
        nodes[i].key = sl_str_c(members[i][0]);
        nodes[i].text = sl_str_c(members[i][1]);
        nodes[i].next = i + 1 < SL_LEN(members) ? &nodes[i + 1] : NULL;
    }
    root.child = nodes;
    root.count = SL_LEN(members);
    sl_report_init(&report, "test.yaml", SL_STR(""), &sl_alloc_libc);
    for (int e = 0; e < SL_ERRORS; e++) {
        s.policy.errors[e].has_body = true;
        HOLDS("setup",
              sl_template_read_body(&root, &s.texts, &s.policy.errors[e].body,
                                    &report) == 0);
    }
    sl_report_done(&report);
    HOLDS("(3)", sl_render(&s.d, &s.arena, &out) == 0);
    body = load(out.body);
    HOLDS("(3)", body != NULL);
    check_message(json_object_get(body, "m"));
    HOLDS("(3)", is_span(json_object_get(body, "ms"), retry_in(), SL_MS));
    HOLDS("(3)", is_text(json_object_get(body, "p"), &plan));
    HOLDS("(3)", s.d.by < 0 || is_text(json_object_get(body, "id"), &id));
    HOLDS("(3)", s.d.by < 0 || is_number(json_object_get(body, "l"),
                                         s.d.shown[s.d.by].answer.limit));
    memcpy(around.want + 1, request_id.want, request_id.want_len);
    around.want_len = request_id.want_len + 2;
    around.want[around.want_len - 1] = 'y';
    HOLDS("(3)", is_text(json_object_get(body, "s"), &around));
    json_decref(body);
}

static void check_limit(const json_t *limit, unsigned i)
{
    const struct sl_limit_view *shown = &s.d.shown[i];
    bool numbers = shown->form != SL_RATE_UNLIMITED;
    const json_t *remaining = json_object_get(limit, "remaining");

    HOLDS("(4)", is_text(json_object_get(limit, "name"), &names[i]));
    HOLDS("(4)", is_text(json_object_get(limit, "plan"), &plan));
    HOLDS("(4)", is_text(json_object_get(limit, "scope"), &scope));
    HOLDS("(4)", numbers ? is_number(remaining, shown->answer.remaining)
                         : json_is_null(remaining));
    HOLDS("(4)", is_span(json_object_get(limit, "reset_ms"),
                         numbers ? shown->answer.reset_in : -1, SL_MS));
}

static void check_header(const json_t *headers,
                         const struct sl_out_header *header)
{
    const json_t *value =
        json_object_getn(headers, header->name.at, header->name.len);
    struct sl_str got = {json_string_value(value), json_string_length(value)};

    HOLDS("(4)", json_is_string(value) && sl_str_eq(got, header->value));
}

static void check_verdict(void)
{
    const json_t *limits, *headers;
    json_t *verdict, *body;

    sl_buf_clear(&s.buf);
    HOLDS("(4)", sl_render_verdict(&s.d, &s.out, false, &s.buf) == 0);
    verdict = load(sl_buf_str(&s.buf));
    HOLDS("(4)", verdict != NULL);
    HOLDS("(4)", json_boolean_value(json_object_get(verdict, "allowed")) ==
                     s.d.allowed);
    HOLDS("(4)", s.d.by < 0
                     ? json_is_null(json_object_get(verdict, "by"))
                     : is_text(json_object_get(verdict, "by"), &names[s.d.by]));
    HOLDS("(4)", is_span(json_object_get(verdict, "retry_after_ms"), retry_in(),
                         SL_MS));
    limits = json_object_get(verdict, "limits");
    HOLDS("(4)", json_array_size(limits) == s.d.shown_count);
    for (unsigned i = 0; i < s.d.shown_count; i++)
        check_limit(json_array_get(limits, i), i);
    headers = json_object_get(verdict, "headers");
    HOLDS("(4)", json_object_size(headers) ==
                     s.out.header_count + (s.out.content_type.len > 0));
    for (unsigned i = 0; i < s.out.header_count; i++)
        check_header(headers, &s.out.headers[i]);
    body = s.out.body.len > 0 ? load(s.out.body) : json_null();
    HOLDS("(4)", json_equal(json_object_get(verdict, "body"), body));
    json_decref(body);
    json_decref(verdict);
}

/* ---- (5): the same with texts ---- */

/* Makes the texts of the limits, as an active policy has them. */
static const struct sl_limit_texts *make_texts(void)
{
    static struct sl_plan_limit plans[SL_PARTS];

    s.policy.rules = s.rules;
    s.policy.rule_count = s.d.shown_count;
    for (unsigned i = 0; i < s.d.shown_count; i++) {
        plans[i] = (struct sl_plan_limit){.form = s.d.shown[i].form,
                                          .numbers = *s.d.shown[i].numbers};
        s.rules[i].index = i;
        s.rules[i].plans = &plans[i];
        s.d.shown[i].numbers = &plans[i].numbers;
    }
    return sl_render_texts(&s.policy, &s.texts);
}

static void check_texts(void)
{
    static struct sl_rendered again;
    struct sl_buf verdict;

    s.d.texts = make_texts();
    HOLDS("setup", s.d.texts || s.d.shown_count == 0);
    HOLDS("(5)", sl_render(&s.d, &s.arena, &again) == 0);
    HOLDS("(5)", again.header_count == s.out.header_count);
    for (unsigned i = 0; i < s.out.header_count && good; i++) {
        HOLDS("(5)", sl_str_eq(again.headers[i].name, s.out.headers[i].name));
        HOLDS("(5)", sl_str_eq(again.headers[i].value, s.out.headers[i].value));
    }
    sl_buf_init(&verdict, 1 << 20, &sl_alloc_libc);
    HOLDS("(5)", sl_render_verdict(&s.d, &again, false, &verdict) == 0);
    HOLDS("(5)", sl_str_eq(sl_buf_str(&verdict), sl_buf_str(&s.buf)));
    sl_buf_done(&verdict);
    s.d.texts = NULL;
}

static bool episode(uint64_t seed, uint64_t *steps)
{
    struct rng rng = {seed};
    json_t *body;

    seed_now = seed;
    good = true;
    random_decision(&rng);
    HOLDS("(1)", sl_render(&s.d, &s.arena, &s.out) == 0);
    if (good) {
        check_headers();
        check_verdict();
        check_texts();
        HOLDS("(3)", (s.out.body.len > 0) == !s.d.allowed);
    }
    if (good && !s.d.allowed) {
        body = load(s.out.body);
        HOLDS("(3)", body != NULL);
        check_problem(body);
        check_message(json_object_get(body, "detail"));
        json_decref(body);
        check_template();
    }
    stage_close(&s);
    (*steps)++;
    return good;
}

const struct property prop_render = {
    .name = "render",
    .steps = 20000,
    .cases = {{"render (1) (2) (3) (4) (5) what is rendered is read back",
               episode}},
};
