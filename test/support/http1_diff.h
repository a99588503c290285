/* http1_diff.h -- what we take, http-parser 2.9 must take in the same way.
 *
 * http-parser (Debian's libhttp-parser-dev; for tests only) is the parser that
 * Node.js and Envoy used for years: laxer than ours, but of the same mind about
 * what a good request is. So there is one direction: whatever our reader calls
 * complete must have the same method, target, version, fields, body, end and
 * keep-alive for it. What it takes and we refuse is in refused.def.
 *
 * `allowed` below lists the requests on which it is not asked, with reasons.
 */
#ifndef SL_HTTP1_DIFF_H
#define SL_HTTP1_DIFF_H

#include <http_parser.h>
#include <strings.h>

#include "http1_run.h"

/* What http-parser made of a text. */
struct other {
    http_parser parser;
    struct sl_str url;
    struct sl_http1_field fields[SL_HTTP1_FIELDS + 1];
    unsigned count;
    bool in_name;  /* the last it told us was a name */
    bool head;     /* the head is read; what comes are trailers */
    bool complete; /* the message is */
    bool keep_alive;
    char *body;
    size_t body_len;
    size_t end; /* bytes of the text it took */
};

static inline struct other *other_of(http_parser *parser)
{
    return parser->data;
}

/* Pieces of one thing follow each other in the text. */
static inline void other_add(struct sl_str *slice, const char *at, size_t len)
{
    if (!slice->at)
        slice->at = at;
    slice->len += len;
}

static inline int on_url(http_parser *parser, const char *at, size_t len)
{
    other_add(&other_of(parser)->url, at, len);
    return 0;
}

static inline int on_name(http_parser *parser, const char *at, size_t len)
{
    struct other *o = other_of(parser);

    if (o->head)
        return 0;
    if (!o->in_name && ++o->count > SL_HTTP1_FIELDS)
        return 1;
    o->in_name = true;
    other_add(&o->fields[o->count - 1].name, at, len);
    return 0;
}

static inline int on_value(http_parser *parser, const char *at, size_t len)
{
    struct other *o = other_of(parser);

    if (o->head)
        return 0;
    o->in_name = false;
    other_add(&o->fields[o->count - 1].value, at, len);
    return 0;
}

static inline int on_head(http_parser *parser)
{
    other_of(parser)->head = true;
    return 0;
}

static inline int on_body(http_parser *parser, const char *at, size_t len)
{
    struct other *o = other_of(parser);

    memcpy(o->body + o->body_len, at, len);
    o->body_len += len;
    return 0;
}

static inline int on_complete(http_parser *parser)
{
    struct other *o = other_of(parser);

    o->complete = true;
    o->keep_alive = http_should_keep_alive(parser);
    http_parser_pause(parser, 1);
    return 0;
}

static inline void other_read(struct other *o, struct sl_str text)
{
    static const http_parser_settings calls = {
        .on_url = on_url,
        .on_header_field = on_name,
        .on_header_value = on_value,
        .on_headers_complete = on_head,
        .on_body = on_body,
        .on_message_complete = on_complete,
    };

    memset(o, 0, sizeof(*o));
    o->body = malloc(text.len + 1);
    if (!o->body)
        abort();
    http_parser_init(&o->parser, HTTP_REQUEST);
    o->parser.data = o;
    o->end = http_parser_execute(&o->parser, &calls, text.at, text.len);
}

/* ---- what is allowed to differ ---- */

static inline bool contains(struct sl_str text, struct sl_str word)
{
    for (; text.len >= word.len; text = sl_str_from(text, 1))
        if (sl_str_eq_nocase((struct sl_str){text.at, word.len}, word))
            return true;
    return false;
}

static inline bool has_odd_method(const struct run *run, struct sl_str text)
{
    static const char *const known[] = {
#define NAME(number, name, string) #string,
        HTTP_METHOD_MAP(NAME)
#undef NAME
    };

    (void)text;
    for (size_t i = 0; i < SL_LEN(known); i++)
        if (sl_str_eq(run->http1.method, sl_str_c(known[i])))
            return false;
    return true;
}

static inline bool has_telling_trailers(const struct run *run,
                                        struct sl_str text)
{
    const char *head_end = memmem(text.at, text.len, "\r\n\r\n", 4);
    struct sl_str rest = {head_end, 0};

    if (!run->http1.chunked)
        return false;
    rest.len = (size_t)(text.at + run->taken - head_end);
    return contains(rest, SL_STR("content-length:")) ||
           contains(rest, SL_STR("transfer-encoding:")) ||
           contains(rest, SL_STR("connection:")) ||
           contains(rest, SL_STR("upgrade:"));
}

static inline bool has_proxy_connection(const struct run *run,
                                        struct sl_str text)
{
    (void)text;
    return sl_http1_field(&run->http1, SL_STR("proxy-connection"), NULL).at;
}

static inline bool has_longer_name(const struct run *run, struct sl_str text)
{
    static const char coding[] = "transfer-encoding";

    (void)text;
    for (unsigned i = 0; i < run->http1.field_count; i++) {
        struct sl_str name = run->http1.fields[i].name;

        if (name.len > strlen(coding) &&
            strncasecmp(name.at, coding, strlen(coding)) == 0)
            return true;
    }
    return false;
}

static inline bool is_known_word(struct sl_str word)
{
    return sl_str_eq_nocase(word, SL_STR("close")) ||
           sl_str_eq_nocase(word, SL_STR("keep-alive")) ||
           sl_str_eq_nocase(word, SL_STR("upgrade")) ||
           sl_str_eq_nocase(word, SL_STR("te"));
}

/* A list of these words. In others it goes astray: `cl,close` and `,close` are
 * no close to it. */
static inline bool is_plain_list(struct sl_str value)
{
    size_t from = 0;

    for (size_t i = 0; i <= value.len; i++) {
        if (i < value.len && value.at[i] != ',')
            continue;
        if (!is_known_word(
                sl_str_trim((struct sl_str){value.at + from, i - from})))
            return false;
        from = i + 1;
    }
    return true;
}

/* Tabs around the value were taken off by us, but not by it. */
static inline bool has_tab_around(const struct sl_http1_field *field)
{
    const char *at = field->name.at + field->name.len;

    while (*at != '\r' && *at != '\t')
        at++;
    return *at == '\t';
}

static inline bool has_odd_connection(const struct run *run, struct sl_str text)
{
    (void)text;
    for (unsigned i = 0; i < run->http1.field_count; i++) {
        const struct sl_http1_field *field = &run->http1.fields[i];

        if (sl_str_eq_nocase(field->name, SL_STR("connection")) &&
            (has_tab_around(field) || !is_plain_list(field->value)))
            return true;
    }
    return false;
}

static inline bool closes_10(const struct run *run, struct sl_str text)
{
    return run->http1.minor == 0 &&
           contains((struct sl_str){text.at, run->taken}, SL_STR("close"));
}

struct allowance {
    bool (*applies)(const struct run *run, struct sl_str text);
    bool whole; /* it is not asked at all; else keep-alive may differ */
    const char *why;
};

static const struct allowance allowed[] = {
    {has_odd_method,       true,  "it knows 34 methods; RFC 9110 all tokens"},
    {has_telling_trailers, true,  "it takes trailers for fields"            },
    {has_longer_name,      true,  "Transfer-Encodingx is one to it"         },
    {has_proxy_connection, false, "Proxy-Connection is Connection to it"    },
    {closes_10,            false, "on 1.0 keep-alive wins over close"       },
    {has_odd_connection,   false, "it gets lost in lists of other words"    },
};

/* ---- comparing ---- */

/* We split a whole URL; it does not. */
static inline bool same_target(const struct run *run, struct sl_str url)
{
    struct sl_str target = run->http1.target, host = run->http1.host;
    size_t end;

    if (sl_str_eq(target, url))
        return true;
    for (end = 0; end + 2 < url.len && memcmp(url.at + end, "://", 3) != 0;)
        end++;
    url = sl_str_from(url, end + 3);
    if (url.len < host.len ||
        !sl_str_eq((struct sl_str){url.at, host.len}, host))
        return false;
    url = sl_str_from(url, host.len);
    return url.len ? sl_str_eq(url, target) : sl_str_eq(target, SL_STR("/"));
}

static inline bool same_fields(const struct run *run, const struct other *o)
{
    if (run->http1.field_count != o->count)
        return false;
    for (unsigned i = 0; i < o->count; i++)
        if (!sl_str_eq(run->http1.fields[i].name, o->fields[i].name) ||
            !sl_str_eq(run->http1.fields[i].value,
                       sl_str_trim(o->fields[i].value)))
            return false;
    return true;
}

static inline const char *compare(const struct run *run, const struct other *o,
                                  bool keep_alive)
{
    const struct sl_http1 *p = &run->http1;

    if (!o->complete)
        return http_errno_name(HTTP_PARSER_ERRNO(&o->parser));
    if (o->end != run->taken)
        return "the end";
    if (!sl_str_eq(p->method, sl_str_c(http_method_str(o->parser.method))))
        return "the method";
    if (!same_target(run, o->url))
        return "the target";
    if (o->parser.http_major != 1 || o->parser.http_minor != p->minor)
        return "the version";
    if (!same_fields(run, o))
        return "the fields";
    if (!sl_str_eq(p->body, (struct sl_str){o->body, o->body_len}))
        return "the body";
    if (keep_alive && o->keep_alive != p->keep_alive)
        return "keep-alive";
    return NULL;
}

/* What http-parser makes otherwise of `text` than `run`, or NULL. */
static inline const char *diff(const struct run *run, struct sl_str text)
{
    bool keep_alive = true;
    const char *differs;
    struct other o;

    if (run->result != SL_HTTP1_DONE)
        return NULL;
    for (size_t i = 0; i < SL_LEN(allowed); i++) {
        if (!allowed[i].applies(run, text))
            continue;
        if (allowed[i].whole)
            return NULL;
        keep_alive = false;
    }
    other_read(&o, text);
    differs = compare(run, &o, keep_alive);
    free(o.body);
    return differs;
}

#endif
