/* http1.c -- HTTP/1.1: requests are read.
 *
 * Each byte is read once, however the request arrives. `step` is the state of
 * the reader, `from` the start of the current line, and all bytes before `at`
 * are valid:
 *
 *     START ---> METHOD ---> TARGET ---> VERSION ---> FIELD_LINES (n times)
 *     read_start read_method read_target read_version read_fields
 *                                                          |
 *              +-------------------------------------------+ interpret_head
 *              v                                           v
 *            BODY ---------> COMPLETE <--- TRAILERS <---- SIZE <------+
 *                                                          |          |
 *                                                         DATA -> DATA_END
 *
 * The head is not changed. A refusal leads to BROKEN, which only
 * sl_http1_begin() leaves.
 *
 * Invariants (tested by test/unit/wire and test/fuzz/fuzz_http1.c).
 *   (1) The result depends on the bytes, not on how they arrive: a decision is
 *       made at the first byte that allows it, or at a position that earlier
 *       bytes define (the end of a line or of the head).
 *   (2) No byte at or after in->len is read.
 *   (3) Limits are positions: a line or head that needs the byte at the limit
 *       is too long, whether or not that byte has arrived.
 */
#include "wire/http1.h"

#include "base/str.h"
#include "wire/wire_int.h"

#define METHOD_MOST 32

#define LINE_END "a line ends with a bare LF or CR; end each line with CR LF"

/* The state of the reader. */
enum sl_http1_step {
    SL_HTTP1_START,
    SL_HTTP1_METHOD,
    SL_HTTP1_TARGET,
    SL_HTTP1_VERSION,
    SL_HTTP1_FIELD_LINES,
    SL_HTTP1_BODY,     /* of Content-Length bytes */
    SL_HTTP1_SIZE,     /* of a chunk */
    SL_HTTP1_DATA,     /* of a chunk */
    SL_HTTP1_DATA_END, /* the CRLF after it */
    SL_HTTP1_TRAILERS,
    SL_HTTP1_COMPLETE,
    SL_HTTP1_BROKEN,
};

enum {
    T = SL_HTTP1_TOKEN,
    U = SL_HTTP1_URI,
    H = SL_HTTP1_HOST,
};

/* Tokens as in RFC 9110, 5.6.2. A target has visible characters except '#',
 * because fragments are never sent; routing checks paths. A host has the
 * characters of RFC 3986 except the comma, which may result from two joined
 * Hosts. */
const uint8_t sl_http1_classes[256] = {
    ['a' ... 'z'] = T | U | H,
    ['A' ... 'Z'] = T | U | H,
    ['0' ... '9'] = T | U | H,
    ['!'] = T | U | H,
    ['$' ... '\''] = T | U | H,
    ['*' ... '+'] = T | U | H,
    ['-' ... '.'] = T | U | H,
    ['_'] = T | U | H,
    ['~'] = T | U | H,
    ['('] = U | H,
    [')'] = U | H,
    [';'] = U | H,
    ['='] = U | H,
    ['^'] = T | U,
    ['`'] = T | U,
    ['|'] = T | U,
    ['#'] = T,
    ['"'] = U,
    [','] = U,
    ['/'] = U,
    [':'] = U,
    ['<'] = U,
    ['>' ... '@'] = U,
    ['[' ... ']'] = U,
    ['{'] = U,
    ['}'] = U,
};

static struct sl_str trim(const char *bytes, size_t from, size_t end)
{
    while (from < end && (bytes[from] == ' ' || bytes[from] == '\t'))
        from++;
    while (from < end && (bytes[end - 1] == ' ' || bytes[end - 1] == '\t'))
        end--;
    return (struct sl_str){bytes + from, end - from};
}

void sl_http1_begin(struct sl_http1 *parser,
                    const struct sl_http1_limits *limits)
{
    static const struct sl_str none = {NULL, 0};

    /* `fields` is 3 KiB and not cleared: field_count bounds it. */
    parser->limits = *limits;
    parser->method = parser->target = parser->host = parser->body = none;
    parser->minor = 0;
    parser->field_count = 0;
    parser->keep_alive = false;
    parser->expect_continue = false;
    parser->is_head_request = false;
    parser->used = parser->at = parser->from = parser->mark = 0;
    parser->base = NULL;
    parser->step = SL_HTTP1_START;
    parser->left = 0;
    parser->body_at = 0;
    parser->chunked = false;
    parser->status = 0;
    parser->why = NULL;
}

static enum sl_http1_result refuse(struct sl_http1 *parser, int status,
                                   const char *why)
{
    parser->status = status;
    parser->why = why;
    parser->step = SL_HTTP1_BROKEN;
    parser->keep_alive = false;
    parser->expect_continue = false;
    return SL_HTTP1_REFUSED;
}

static enum sl_http1_result bad(struct sl_http1 *p, const char *why)
{
    return refuse(p, 400, why);
}

/* ---- hosts ---- */

/* The end of "[::1]" at the start of `text`, or 0. Does not check the
 * address. */
static size_t skip_literal(struct sl_str text)
{
    size_t i = 1;

    while (i < text.len && (sl_hex_value(text.at[i]) >= 0 ||
                            text.at[i] == ':' || text.at[i] == '.'))
        i++;
    return i > 2 && i < text.len && text.at[i] == ']' ? i + 1 : 0;
}

/* The end of a name or an IPv4 address, or 0. */
static size_t skip_name(struct sl_str text)
{
    size_t i;

    for (i = 0; i < text.len && sl_http1_is_class(text.at[i], SL_HTTP1_HOST);
         i++)
        if (text.at[i] == '%' &&
            (text.len - i < 3 || sl_hex_value(text.at[i + 1]) < 0 ||
             sl_hex_value(text.at[i + 2]) < 0))
            return 0;
    return i;
}

/* Is the text `host[:port]`? "" is not. */
static bool is_host(struct sl_str text)
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

/* ---- the request line ---- */

/* RFC 9112, 2.2: one empty line before a request is accepted, because some old
 * browsers send it after a body. */
static enum sl_http1_result read_start(struct sl_http1 *p, const char *bytes,
                                       size_t end)
{
    if (end == 0)
        return SL_HTTP1_MORE;
    if (bytes[0] == '\r') {
        if (end == 1)
            return SL_HTTP1_MORE;
        if (bytes[1] != '\n')
            return bad(p, LINE_END);
        p->at = p->from = 2;
    }
    p->step = SL_HTTP1_METHOD;
    return SL_HTTP1_DONE;
}

static enum sl_http1_result read_method(struct sl_http1 *p, const char *bytes,
                                        size_t end)
{
    size_t most = p->from + METHOD_MOST + 1;

    p->at =
        sl_http1_skip(bytes, p->at, end < most ? end : most, SL_HTTP1_TOKEN);
    if (p->at == most)
        return refuse(p, 501, "the method is longer than 32 bytes");
    if (p->at == end)
        return SL_HTTP1_MORE;
    if (bytes[p->at] != ' ' || p->at == p->from)
        return bad(p, "the method is not a token followed by one space");
    p->method = (struct sl_str){bytes + p->from, p->at - p->from};
    p->mark = ++p->at;
    p->step = SL_HTTP1_TARGET;
    return SL_HTTP1_DONE;
}

static enum sl_http1_result read_target(struct sl_http1 *p, const char *bytes,
                                        size_t end)
{
    p->at = sl_http1_skip(bytes, p->at, end, SL_HTTP1_URI);
    if (p->at == end)
        return SL_HTTP1_MORE;
    if (bytes[p->at] == '#')
        return bad(p, "the target has a fragment; leave it out");
    if (bytes[p->at] != ' ' || p->at == p->mark)
        return bad(p, "the target is not a URL followed by one space and "
                      "HTTP/1.1; encode other bytes as %XX");
    p->target = (struct sl_str){bytes + p->mark, p->at - p->mark};
    p->mark = ++p->at;
    p->step = SL_HTTP1_VERSION;
    return SL_HTTP1_DONE;
}

/* The text at `mark` is not a known version. */
static enum sl_http1_result refuse_version(struct sl_http1 *p,
                                           const char *bytes, size_t end)
{
    static const char shape[] = "HTTP/0.0\r\n"; /* any digit for 0 */

    for (size_t i = 0; shape[i]; i++) {
        char c;

        if (p->mark + i == end)
            return SL_HTTP1_MORE;
        c = bytes[p->mark + i];
        if (shape[i] == '0' ? c >= '0' && c <= '9' : c == shape[i])
            continue;
        return bad(p,
                   i >= 8 && (c == '\n' || i == 9)
                       ? LINE_END
                       : "the target is not followed by HTTP/1.1 or HTTP/1.0");
    }
    return refuse(p, 505,
                  "the version is not HTTP/1.1 or HTTP/1.0; for HTTP/2 use the "
                  "grpc listener");
}

/* Split "http://host/path", which RFC 9112, 3.2.2 requires servers to
 * accept. */
static enum sl_http1_result split_target(struct sl_http1 *p)
{
    struct sl_str t = p->target;
    size_t host = 0, end;

    if (t.len > 7 &&
        sl_str_eq_nocase((struct sl_str){t.at, 7}, SL_STR("http://")))
        host = 7;
    else if (t.len > 8 &&
             sl_str_eq_nocase((struct sl_str){t.at, 8}, SL_STR("https://")))
        host = 8;
    if (host == 0)
        return bad(p, "the target does not begin with \"/\" or \"http://\"");
    for (end = host; end < t.len && t.at[end] != '/' && t.at[end] != '?';)
        end++;
    p->host = (struct sl_str){t.at + host, end - host};
    if (!is_host(p->host))
        return bad(p, "the host in the target is not a name or an address");
    if (end == t.len) /* the path is "/"; use the one before the host */
        p->target = (struct sl_str){t.at + host - 1, 1};
    else if (t.at[end] == '?')
        return bad(p, "the target has no path; write \"/\" before the \"?\"");
    else
        p->target = sl_str_from(t, end);
    return SL_HTTP1_DONE;
}

static enum sl_http1_result check_target(struct sl_http1 *p)
{
    if (sl_str_eq(p->method, SL_STR("CONNECT")))
        return refuse(p, 501, "CONNECT is only for proxies");
    if (p->target.at[0] == '/')
        return SL_HTTP1_DONE;
    if (sl_str_eq(p->target, SL_STR("*"))) {
        if (sl_str_eq(p->method, SL_STR("OPTIONS")))
            return SL_HTTP1_DONE;
        return bad(p, "the target \"*\" is only for OPTIONS");
    }
    return split_target(p);
}

static enum sl_http1_result read_version(struct sl_http1 *p, const char *bytes,
                                         size_t end)
{
    const char *version = bytes + p->mark;

    if (end - p->mark >= 10 && memcmp(version, "HTTP/1.1\r\n", 10) == 0)
        p->minor = 1;
    else if (end - p->mark < 10 || memcmp(version, "HTTP/1.0\r\n", 10) != 0)
        return refuse_version(p, bytes, end);
    p->from = p->at = p->mark + 10;
    p->mark = 0;
    p->step = SL_HTTP1_FIELD_LINES;
    p->is_head_request = sl_str_eq(p->method, SL_STR("HEAD"));
    return check_target(p);
}

static enum sl_http1_result read_line(struct sl_http1 *p, const char *bytes,
                                      size_t end)
{
    enum sl_http1_result r = SL_HTTP1_DONE;

    if (p->step == SL_HTTP1_START)
        r = read_start(p, bytes, end);
    if (p->step == SL_HTTP1_METHOD)
        r = read_method(p, bytes, end);
    if (p->step == SL_HTTP1_TARGET)
        r = read_target(p, bytes, end);
    if (p->step == SL_HTTP1_VERSION)
        r = read_version(p, bytes, end);
    return r;
}

/* ---- fields ---- */

/* The byte at `at` is neither part of a name nor a colon after one. */
static enum sl_http1_result end_name(struct sl_http1 *p, const char *bytes,
                                     size_t end)
{
    char c = bytes[p->at];
    bool first = p->at == p->from;

    if (first && c == '\r') {
        if (p->at + 1 == end)
            return SL_HTTP1_MORE;
        if (bytes[p->at + 1] != '\n')
            return bad(p, LINE_END);
        p->at += 2;
        return SL_HTTP1_DONE;
    }
    if (c == ' ' || c == '\t')
        return bad(p, first ? "folded header lines are not supported; write "
                              "each field on one line"
                            : "there is a space in the name of a field or "
                              "before its colon; remove it");
    if (first && c == '\n')
        return bad(p, LINE_END);
    if (c == '\r' || c == '\n')
        return bad(p, "a field has no colon");
    return bad(p, first && c == ':' ? "a field has no name"
                                    : "the name of a field is not a token");
}

/* The byte at `at` is not allowed in a value. */
static enum sl_http1_result end_value(struct sl_http1 *p, const char *bytes,
                                      size_t end)
{
    char c = bytes[p->at];

    if (c == '\r' && p->at + 1 == end)
        return SL_HTTP1_MORE;
    if (c == '\r' && bytes[p->at + 1] == '\n') {
        p->at += 2;
        return SL_HTTP1_DONE;
    }
    if (c == '\r' || c == '\n')
        return bad(p, LINE_END);
    return bad(p, c == '\0' ? "the value of a field has a NUL byte"
                            : "the value of a field has a control byte");
}

static enum sl_http1_result read_field(struct sl_http1 *p, const char *bytes,
                                       size_t end)
{
    if (p->mark == 0) {
        p->at = sl_http1_skip(bytes, p->at, end, SL_HTTP1_TOKEN);
        if (p->at == end)
            return SL_HTTP1_MORE;
        if (bytes[p->at] != ':' || p->at == p->from)
            return end_name(p, bytes, end);
        p->mark = p->at++;
    }
    p->at = sl_http1_skip_text(bytes, p->at, end);
    if (p->at == end)
        return SL_HTTP1_MORE;
    return end_value(p, bytes, end);
}

static enum sl_http1_result read_fields(struct sl_http1 *p, const char *bytes,
                                        size_t end)
{
    for (;;) {
        struct sl_http1_field *field = &p->fields[p->field_count];
        enum sl_http1_result r;

        if (p->field_count == SL_HTTP1_FIELDS && p->at < end &&
            bytes[p->at] != '\r')
            return refuse(p, 431, "there are more than 100 fields");
        r = read_field(p, bytes, end);
        if (r != SL_HTTP1_DONE)
            return r;
        if (p->mark == 0)
            return SL_HTTP1_DONE;
        field->name = (struct sl_str){bytes + p->from, p->mark - p->from};
        field->value = trim(bytes, p->mark + 1, p->at - 2);
        p->field_count++;
        p->from = p->at;
        p->mark = 0;
    }
}

/* ---- the meaning of fields ----
 *
 * Five fields matter: Host, Content-Length, Transfer-Encoding, Connection and
 * Expect. The second and third define the end of a request. Request smuggling
 * works where two readers interpret them differently, so there is one spelling
 * of each, at most one of them, and at most once (RFC 9112, 6.3, strictly).
 */

/* The values of the fields. */
struct meaning {
    unsigned hosts, lengths, codings;
    bool close, keep_alive, expects;
    uint64_t length;
};

typedef enum sl_http1_result meaning_f(struct sl_http1 *p, struct meaning *m,
                                       const struct sl_http1_field *field);

static enum sl_http1_result on_host(struct sl_http1 *p, struct meaning *m,
                                    const struct sl_http1_field *field)
{
    struct sl_str value = field->value;

    if (m->hosts++)
        return bad(p, "there are two Host fields");
    if (value.len > 0 && !is_host(value))
        return bad(p, "Host is not a name or an address");
    if (p->host.len == 0)
        p->host = value;
    else if (!sl_str_eq_nocase(p->host, value))
        return bad(p, "Host and the target name different hosts");
    return SL_HTTP1_DONE;
}

/* ---- the end of the request ---- */

/* RFC 9110, 5.6.3 allows a tab as white space. Some readers do not remove it
 * and see another value; no client sends one here. */
static bool has_tab(const struct sl_http1_field *field)
{
    const char *at = field->name.at + field->name.len;

    while (*at != '\r' && *at != '\t')
        at++;
    return *at == '\t';
}

/* Leading zeros are refused although RFC 9110 allows them: some readers take
 * them for octal. 19 digits always fit. */
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

/* Only one spelling, also in case: all clients use it. */
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
        return refuse(p, 501, "Transfer-Encoding is not exactly \"chunked\"");
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
        word = trim(value.at, from, i);
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
        return refuse(p, 417, "Expect is not \"100-continue\"");
    m->expects = true;
    return SL_HTTP1_DONE;
}

/* ---- the whole head ---- */

/* The slot for the field of this name, or NULL. The five names have five
 * different lengths. */
static meaning_f *find_meaning(struct sl_str name)
{
    switch (name.len) {
    case 4:
        return sl_http1_is_named(name, SL_STR("host")) ? on_host : NULL;
    case 6:
        return sl_http1_is_named(name, SL_STR("expect")) ? on_expect : NULL;
    case 10:
        return sl_http1_is_named(name, SL_STR("connection")) ? on_connection
                                                             : NULL;
    case 14:
        return sl_http1_is_named(name, SL_STR("content-length")) ? on_length
                                                                 : NULL;
    case 17:
        return sl_http1_is_named(name, SL_STR("transfer-encoding")) ? on_coding
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
        return refuse(p, 413, "the body is too long");
    p->chunked = m->codings > 0;
    p->left = m->length;
    p->body_at = p->from = p->at;
    p->step = p->chunked ? SL_HTTP1_SIZE : SL_HTTP1_BODY;
    return SL_HTTP1_DONE;
}

static enum sl_http1_result interpret_head(struct sl_http1 *p)
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
    /* RFC 9110, 10.1.1: there is no 100 in HTTP/1.0. */
    p->expect_continue =
        m.expects && p->minor > 0 && (p->chunked || p->left > 0);
    return SL_HTTP1_DONE;
}

/* ---- the body ----
 *
 * A body with a Content-Length stays where it is. A chunked body is joined
 * after the head, over framing that has been read:
 *
 *     | head | body so far | old framing | from ...  at ... | to come
 *            ^ body_at     ^ body_at + body.len   ^ a size, a trailer
 *
 * Before the reader needs more bytes, the bytes from `from` on are moved down
 * to the body, so that framing needs no memory. A body in chunks of one byte
 * is six times as long on the wire.
 *
 * Chunk extensions are refused. RFC 9112, 7.1.1 says to ignore them, but no
 * client sends them, and readers disagree on where they end. Leading zeros of
 * a size are accepted: it is always hexadecimal.
 */

/* More digits do not fit in 64 bits. */
#define SIZE_DIGITS 16

static enum sl_http1_result complete(struct sl_http1 *p, const char *bytes)
{
    p->body.at = bytes + p->body_at;
    p->used = p->at;
    p->step = SL_HTTP1_COMPLETE;
    return SL_HTTP1_DONE;
}

static enum sl_http1_result read_plain(struct sl_http1 *p,
                                       const struct sl_buf *in)
{
    if (in->len - p->body_at < p->left)
        return SL_HTTP1_MORE;
    p->body.len = (size_t)p->left;
    p->at = p->body_at + p->body.len;
    return complete(p, in->bytes);
}

/* After the digits of a size. */
static enum sl_http1_result end_size(struct sl_http1 *p,
                                     const struct sl_buf *in)
{
    char c = in->bytes[p->at];

    if (p->at == p->from || c != '\r')
        return bad(p, c == ';' ? "chunk extensions are not supported; remove it"
                               : "the size of a chunk is not a hexadecimal "
                                 "number followed by CR LF");
    if (p->at + 1 == in->len)
        return SL_HTTP1_MORE;
    if (in->bytes[p->at + 1] != '\n')
        return bad(p, "the size of a chunk ends with a bare CR");
    if (p->left > p->limits.body - p->body.len)
        return refuse(p, 413, "the body is too long");
    p->at += 2;
    p->from = p->at;
    p->step = SL_HTTP1_DATA;
    if (p->left == 0) {
        p->step = SL_HTTP1_TRAILERS;
        p->left = p->limits.head;
        p->mark = 0;
    }
    return SL_HTTP1_DONE;
}

static enum sl_http1_result read_size(struct sl_http1 *p,
                                      const struct sl_buf *in)
{
    for (; p->at < in->len; p->at++) {
        int digit = sl_hex_value(in->bytes[p->at]);

        if (digit < 0)
            return end_size(p, in);
        if (p->at - p->from == SIZE_DIGITS)
            return bad(p, "the size of a chunk has more than 16 digits");
        p->left = p->left << 4 | (uint64_t)digit;
    }
    return SL_HTTP1_MORE;
}

static enum sl_http1_result read_data(struct sl_http1 *p, struct sl_buf *in)
{
    size_t n = in->len - p->at;

    if (n > p->left)
        n = (size_t)p->left;
    memmove(in->bytes + p->body_at + p->body.len, in->bytes + p->at, n);
    p->body.len += n;
    p->at += n;
    p->from = p->at;
    p->left -= n;
    if (p->left > 0)
        return SL_HTTP1_MORE;
    p->step = SL_HTTP1_DATA_END;
    return SL_HTTP1_DONE;
}

static enum sl_http1_result read_data_end(struct sl_http1 *p,
                                          const struct sl_buf *in)
{
    for (; p->at < p->from + 2; p->at++) {
        if (p->at == in->len)
            return SL_HTTP1_MORE;
        if (in->bytes[p->at] != "\r\n"[p->at - p->from])
            return bad(p, "the bytes of a chunk are not followed by CR LF");
    }
    p->from = p->at;
    p->step = SL_HTTP1_SIZE;
    return SL_HTTP1_DONE;
}

/* Trailers follow the rules of fields and are dropped, because the request is
 * already interpreted. `left` is their remaining maximum length. */
static enum sl_http1_result read_trailers(struct sl_http1 *p,
                                          const struct sl_buf *in)
{
    for (;;) {
        size_t most = p->from + (size_t)p->left;
        enum sl_http1_result r =
            read_field(p, in->bytes, in->len < most ? in->len : most);

        if (r == SL_HTTP1_MORE && in->len >= most)
            return refuse(p, 431, "the trailers are too long");
        if (r != SL_HTTP1_DONE)
            return r;
        if (p->mark == 0)
            return complete(p, in->bytes);
        p->left -= p->at - p->from;
        p->from = p->at;
        p->mark = 0;
    }
}

static enum sl_http1_result read_chunks(struct sl_http1 *p, struct sl_buf *in)
{
    enum sl_http1_result r = SL_HTTP1_DONE;

    while (r == SL_HTTP1_DONE && p->step != SL_HTTP1_COMPLETE) {
        if (p->step == SL_HTTP1_SIZE)
            r = read_size(p, in);
        else if (p->step == SL_HTTP1_DATA)
            r = read_data(p, in);
        else if (p->step == SL_HTTP1_DATA_END)
            r = read_data_end(p, in);
        else
            r = read_trailers(p, in);
    }
    return r;
}

/* Move the unread bytes down to the body. */
static void close_gap(struct sl_http1 *p, struct sl_buf *in)
{
    size_t end = p->body_at + p->body.len;
    size_t gap = p->from - end;

    if (gap == 0)
        return;
    memmove(in->bytes + end, in->bytes + p->from, in->len - p->from);
    in->len -= gap;
    p->from -= gap;
    p->at -= gap;
    if (p->mark > 0)
        p->mark -= gap;
}

static enum sl_http1_result read_body(struct sl_http1 *p, struct sl_buf *in)
{
    enum sl_http1_result r;

    if (p->step == SL_HTTP1_COMPLETE)
        return SL_HTTP1_DONE;
    if (in->len > p->body_at)
        p->expect_continue = false;
    if (!p->chunked)
        return read_plain(p, in);
    r = read_chunks(p, in);
    if (r == SL_HTTP1_MORE)
        close_gap(p, in);
    return r;
}

/* ---- the whole request ---- */

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

static enum sl_http1_result read_head(struct sl_http1 *p,
                                      const struct sl_buf *in)
{
    size_t most = least(p->limits.line, p->limits.head);
    enum sl_http1_result r;

    if (p->step != SL_HTTP1_FIELD_LINES) {
        r = read_line(p, in->bytes, least(in->len, most));
        if (r == SL_HTTP1_MORE && in->len >= most) /* (3) */
            return refuse(p, 414, "the request line is too long");
        if (r != SL_HTTP1_DONE)
            return r;
    }
    most = p->limits.head;
    r = read_fields(p, in->bytes, least(in->len, most));
    if (r == SL_HTTP1_MORE && in->len >= most) /* (3) */
        return refuse(p, 431, "the header fields are too long together");
    return r == SL_HTTP1_DONE ? interpret_head(p) : r;
}

static void move(struct sl_str *slice, const char *from, const char *to)
{
    /* As numbers: `from` may point to freed memory. */
    if (slice->at)
        slice->at = to + ((uintptr_t)slice->at - (uintptr_t)from);
}

/* The buffer may have moved: adjust the slices. */
static void follow(struct sl_http1 *p, const char *bytes)
{
    const char *old = p->base;

    p->base = bytes;
    if (!old || old == bytes)
        return;
    move(&p->method, old, bytes);
    move(&p->target, old, bytes);
    move(&p->host, old, bytes);
    move(&p->body, old, bytes);
    for (unsigned i = 0; i < p->field_count; i++) {
        move(&p->fields[i].name, old, bytes);
        move(&p->fields[i].value, old, bytes);
    }
}

enum sl_http1_result sl_http1_read(struct sl_http1 *parser, struct sl_buf *in)
{
    enum sl_http1_result r;

    if (parser->step == SL_HTTP1_BROKEN)
        return SL_HTTP1_REFUSED;
    follow(parser, in->bytes);
    if (parser->step <= SL_HTTP1_FIELD_LINES) {
        r = read_head(parser, in);
        if (r != SL_HTTP1_DONE)
            return r;
    }
    return read_body(parser, in);
}

struct sl_str sl_http1_field(const struct sl_http1 *parser, struct sl_str name,
                             unsigned *count)
{
    struct sl_str value = {NULL, 0};
    unsigned found = 0;

    for (unsigned i = 0; i < parser->field_count; i++) {
        const struct sl_http1_field *field = &parser->fields[i];

        if (field->name.len != name.len || !sl_str_eq_nocase(field->name, name))
            continue;
        if (found++ == 0)
            value = field->value;
    }
    if (count)
        *count = found;
    return value;
}
