/* http1_meaning.c -- what the fields of a head mean for its request.
 *
 * Five fields matter here: Host, Content-Length, Transfer-Encoding, Connection
 * and Expect. Where a request ends is said by the second and third, and all
 * smuggling of requests lives from two readers who understand them
 * differently. So there is one spelling of each, at most one of the two, and
 * at most once (RFC 9112, 6.3, at its strictest).
 */
#include "wire/http1_scan.h"

/* What the fields said. */
struct meaning {
    unsigned hosts, lengths, codings;
    bool close, keep_alive, expects;
    uint64_t length;
};

typedef enum sl_http1_result meaning_f(struct sl_http1 *p, struct meaning *m,
                                       const struct sl_http1_field *field);

static enum sl_http1_result bad(struct sl_http1 *p, const char *why)
{
    return sl_http1_refuse(p, 400, why);
}

/* ---- Host ---- */

static bool is_hex(char c)
{
    return (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'f');
}

/* The end of "[::1]" at the start of `text`; 0 if that is none. Whether it is
 * an address is for those who use it. */
static size_t skip_literal(struct sl_str text)
{
    size_t i = 1;

    while (i < text.len &&
           (is_hex(text.at[i]) || text.at[i] == ':' || text.at[i] == '.'))
        i++;
    return i > 2 && i < text.len && text.at[i] == ']' ? i + 1 : 0;
}

/* The same for a name or an IPv4 address. */
static size_t skip_name(struct sl_str text)
{
    size_t i;

    for (i = 0; i < text.len && sl_http1_is(text.at[i], SL_HTTP1_HOST); i++)
        if (text.at[i] == '%' && (text.len - i < 3 || !is_hex(text.at[i + 1]) ||
                                  !is_hex(text.at[i + 2])))
            return 0;
    return i;
}

bool sl_http1_is_host(struct sl_str text)
{
    unsigned port = 0;
    size_t i = 0;

    if (text.len > 0)
        i = text.at[0] == '[' ? skip_literal(text) : skip_name(text);
    if (i == 0)
        return false;
    if (i == text.len)
        return true;
    if (text.at[i++] != ':' || text.len - i > 5)
        return false;
    for (; i < text.len; i++) {
        if (text.at[i] < '0' || text.at[i] > '9')
            return false;
        port = port * 10 + (unsigned)(text.at[i] - '0');
    }
    return port <= 65535;
}

static enum sl_http1_result on_host(struct sl_http1 *p, struct meaning *m,
                                    const struct sl_http1_field *field)
{
    struct sl_str value = field->value;

    if (m->hosts++)
        return bad(p, "there are two Host fields");
    if (value.len > 0 && !sl_http1_is_host(value))
        return bad(p, "Host is not a name or an address");
    if (p->host.len == 0)
        p->host = value;
    else if (!sl_str_eq_nocase(p->host, value))
        return bad(p, "Host and the target name different hosts");
    return SL_HTTP1_DONE;
}

/* ---- where the request ends ---- */

/* To RFC 9110, 5.6.3 a tab is as good as a blank. But there are readers who do
 * not take it off, and so see another value; and no client writes one here. */
static bool has_tab(const struct sl_http1_field *field)
{
    const char *at = field->name.at + field->name.len;

    while (*at != '\r' && *at != '\t')
        at++;
    return *at == '\t';
}

/* Leading zeros are refused although RFC 9110 has them: there are readers to
 * whom they mean octal. 19 digits always fit. */
static enum sl_http1_result on_length(struct sl_http1 *p, struct meaning *m,
                                      const struct sl_http1_field *field)
{
    struct sl_str value = field->value;

    if (m->lengths++)
        return bad(p, "there are two Content-Length fields");
    if (has_tab(field))
        return bad(p, "there is a tab in Content-Length; remove it");
    if (value.len == 0 || value.len > 19 ||
        (value.at[0] == '0' && value.len > 1))
        return bad(p, "Content-Length is not a number of 1 to 19 digits "
                      "without leading zeros");
    for (size_t i = 0; i < value.len; i++) {
        if (value.at[i] < '0' || value.at[i] > '9')
            return bad(p,
                       "Content-Length contains something other than digits");
        m->length = m->length * 10 + (uint64_t)(value.at[i] - '0');
    }
    return SL_HTTP1_DONE;
}

/* One spelling, also as to case: all who send bodies in chunks write it so. */
static enum sl_http1_result on_coding(struct sl_http1 *p, struct meaning *m,
                                      const struct sl_http1_field *field)
{
    struct sl_str value = field->value;

    if (m->codings++)
        return bad(p, "there are two Transfer-Encoding fields");
    if (has_tab(field))
        return bad(p, "there is a tab in Transfer-Encoding; remove it");
    if (value.len == 0)
        return bad(p, "Transfer-Encoding is empty");
    if (!sl_str_eq(value, SL_STR("chunked")))
        return sl_http1_refuse(p, 501,
                               "Transfer-Encoding is not exactly \"chunked\"");
    return SL_HTTP1_DONE;
}

/* ---- the connection ---- */

static enum sl_http1_result on_connection(struct sl_http1 *p, struct meaning *m,
                                          const struct sl_http1_field *field)
{
    struct sl_str value = field->value;
    size_t from = 0;

    (void)p;
    for (size_t i = 0; i <= value.len; i++) {
        struct sl_str word;

        if (i < value.len && value.at[i] != ',')
            continue;
        word = sl_http1_trim(value.at, from, i);
        m->close |= sl_str_eq_nocase(word, SL_STR("close"));
        m->keep_alive |= sl_str_eq_nocase(word, SL_STR("keep-alive"));
        from = i + 1;
    }
    return SL_HTTP1_DONE;
}

static enum sl_http1_result on_expect(struct sl_http1 *p, struct meaning *m,
                                      const struct sl_http1_field *field)
{
    if (!sl_str_eq_nocase(field->value, SL_STR("100-continue")))
        return sl_http1_refuse(p, 417, "Expect is not \"100-continue\"");
    m->expects = true;
    return SL_HTTP1_DONE;
}

/* ---- all together ---- */

/* The meaning of a field with this name, or NULL. Five names, five lengths. */
static meaning_f *find_meaning(struct sl_str name)
{
    switch (name.len) {
    case 4:
        return sl_http1_named(name, SL_STR("host")) ? on_host : NULL;
    case 6:
        return sl_http1_named(name, SL_STR("expect")) ? on_expect : NULL;
    case 10:
        return sl_http1_named(name, SL_STR("connection")) ? on_connection
                                                          : NULL;
    case 14:
        return sl_http1_named(name, SL_STR("content-length")) ? on_length
                                                              : NULL;
    case 17:
        return sl_http1_named(name, SL_STR("transfer-encoding")) ? on_coding
                                                                 : NULL;
    default:
        return NULL;
    }
}

static enum sl_http1_result judge_end(struct sl_http1 *p,
                                      const struct meaning *m)
{
    if (m->codings && m->lengths)
        return bad(p, "Content-Length and Transfer-Encoding are both present");
    if (m->codings && p->minor == 0)
        return bad(p, "Transfer-Encoding is not allowed in HTTP/1.0");
    if (m->length > p->limits.body)
        return sl_http1_refuse(p, 413, "the body is too long");
    p->chunked = m->codings > 0;
    p->left = m->length;
    p->body_at = p->from = p->at;
    p->step = p->chunked ? SL_HTTP1_SIZE : SL_HTTP1_BODY;
    return SL_HTTP1_DONE;
}

enum sl_http1_result sl_http1_judge(struct sl_http1 *p)
{
    struct meaning m = {.hosts = 0};
    enum sl_http1_result r = SL_HTTP1_DONE;

    for (unsigned i = 0; i < p->field_count; i++) {
        meaning_f *on = find_meaning(p->fields[i].name);

        if (on)
            r = on(p, &m, &p->fields[i]);
        if (r != SL_HTTP1_DONE)
            return r;
    }
    if (m.hosts == 0 && p->minor > 0)
        return bad(p, "the Host field is missing");
    r = judge_end(p, &m);
    if (r != SL_HTTP1_DONE)
        return r;
    p->keep_alive = !m.close && (p->minor > 0 || m.keep_alive);
    /* RFC 9110, 10.1.1: HTTP/1.0 knows no 100. */
    p->expect_continue =
        m.expects && p->minor > 0 && (p->chunked || p->left > 0);
    return SL_HTTP1_DONE;
}
