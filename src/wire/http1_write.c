/* http1_write.c -- HTTP/1.1: answers are written.
 *
 * The maximum size is reserved once; writing then needs no checks. Fields that
 * the reader would refuse are left out, so that no name or value from a policy
 * or a request can become a line.
 */
#include "wire/http1.h"
#include "wire/wire_int.h"

#define FIRST_STATUS 100
#define LAST_STATUS  511

#define REASON(status, words)                                                  \
    [(status)-FIRST_STATUS] = {#status " " words, sizeof(#status " " words) - 1}

/* RFC 9110, 15, and the common ones of RFC 6585, RFC 8297 and WebDAV. */
static const struct sl_str reasons[LAST_STATUS - FIRST_STATUS + 1] = {
    REASON(100, "Continue"),
    REASON(101, "Switching Protocols"),
    REASON(102, "Processing"),
    REASON(103, "Early Hints"),
    REASON(200, "OK"),
    REASON(201, "Created"),
    REASON(202, "Accepted"),
    REASON(203, "Non-Authoritative Information"),
    REASON(204, "No Content"),
    REASON(205, "Reset Content"),
    REASON(206, "Partial Content"),
    REASON(207, "Multi-Status"),
    REASON(208, "Already Reported"),
    REASON(226, "IM Used"),
    REASON(300, "Multiple Choices"),
    REASON(301, "Moved Permanently"),
    REASON(302, "Found"),
    REASON(303, "See Other"),
    REASON(304, "Not Modified"),
    REASON(305, "Use Proxy"),
    REASON(307, "Temporary Redirect"),
    REASON(308, "Permanent Redirect"),
    REASON(400, "Bad Request"),
    REASON(401, "Unauthorized"),
    REASON(402, "Payment Required"),
    REASON(403, "Forbidden"),
    REASON(404, "Not Found"),
    REASON(405, "Method Not Allowed"),
    REASON(406, "Not Acceptable"),
    REASON(407, "Proxy Authentication Required"),
    REASON(408, "Request Timeout"),
    REASON(409, "Conflict"),
    REASON(410, "Gone"),
    REASON(411, "Length Required"),
    REASON(412, "Precondition Failed"),
    REASON(413, "Content Too Large"),
    REASON(414, "URI Too Long"),
    REASON(415, "Unsupported Media Type"),
    REASON(416, "Range Not Satisfiable"),
    REASON(417, "Expectation Failed"),
    REASON(421, "Misdirected Request"),
    REASON(422, "Unprocessable Content"),
    REASON(423, "Locked"),
    REASON(424, "Failed Dependency"),
    REASON(425, "Too Early"),
    REASON(426, "Upgrade Required"),
    REASON(428, "Precondition Required"),
    REASON(429, "Too Many Requests"),
    REASON(431, "Request Header Fields Too Large"),
    REASON(451, "Unavailable For Legal Reasons"),
    REASON(500, "Internal Server Error"),
    REASON(501, "Not Implemented"),
    REASON(502, "Bad Gateway"),
    REASON(503, "Service Unavailable"),
    REASON(504, "Gateway Timeout"),
    REASON(505, "HTTP Version Not Supported"),
    REASON(506, "Variant Also Negotiates"),
    REASON(507, "Insufficient Storage"),
    REASON(508, "Loop Detected"),
    REASON(510, "Not Extended"),
    REASON(511, "Network Authentication Required"),
};

/* The maximum of the first line, the names of the fixed fields and the last
 * line. */
#define FIXED_MOST 160

static struct sl_str find_reason(int status)
{
    if (status < FIRST_STATUS || status > LAST_STATUS)
        return (struct sl_str){NULL, 0};
    return reasons[status - FIRST_STATUS];
}

const char *sl_http1_reason(int status)
{
    struct sl_str reason = find_reason(status);

    return reason.at ? reason.at : "";
}

static bool has_no_body(int status)
{
    return status < 200 || status == 204 || status == 304;
}

static size_t most_head(const struct sl_http1_answer *answer)
{
    size_t most = FIXED_MOST + answer->date.len + answer->content_type.len;

    for (unsigned i = 0; i < answer->field_count; i++)
        most += answer->fields[i].name.len + answer->fields[i].value.len + 4;
    return most;
}

static inline sl_sixteen find_unusual(const char *bytes, bool token)
{
    sl_sixteen v = sl_sixteen_load(bytes);

    return token ? sl_http1_unusual(v, SL_HTTP1_TOKEN) : sl_http1_control(v);
}

/* Are all bytes usual ones of a token, or of a value? They nearly always are;
 * otherwise each byte is looked at. */
static inline bool is_usual(struct sl_str text, bool token)
{
    sl_sixteen v, found = {0};

    if (text.len < 16) { /* NULs follow; they are unusual */
        v = sl_sixteen_load_few(text.at, text.len);
        v = token ? sl_http1_unusual(v, SL_HTTP1_TOKEN) : sl_http1_control(v);
        return sl_sixteen_first(v) == text.len;
    }
    for (size_t at = 0; at + 16 < text.len; at += 16)
        found |= find_unusual(text.at + at, token);
    found |= find_unusual(text.at + text.len - 16, token);
    return sl_sixteen_first(found) == 16;
}

static bool is_value(struct sl_str value)
{
    return is_usual(value, false) ||
           sl_http1_skip_text(value.at, 0, value.len) == value.len;
}

/* A fixed field. It is left out if the value is empty or invalid. */
static char *put_own(char *to, struct sl_str name, struct sl_str value)
{
    if (value.len == 0 || !is_value(value))
        return to;
    to = sl_str_put(to, name);
    to = sl_str_put(to, value);
    return SL_PUT(to, "\r\n");
}

/* Does the name frame an answer? */
static bool is_framing(struct sl_str name)
{
    switch (name.len) {
    case 10:
        return sl_http1_is_named(name, SL_STR("connection"));
    case 14:
        return sl_http1_is_named(name, SL_STR("content-length"));
    case 17:
        return sl_http1_is_named(name, SL_STR("transfer-encoding"));
    default:
        return false;
    }
}

static bool is_name(struct sl_str name)
{
    return name.len > 0 &&
           (is_usual(name, true) ||
            sl_http1_skip(name.at, 0, name.len, SL_HTTP1_TOKEN) == name.len);
}

static char *put_fields(char *to, const struct sl_http1_answer *answer)
{
    for (unsigned i = 0; i < answer->field_count; i++) {
        const struct sl_http1_field *field = &answer->fields[i];

        if (!is_name(field->name) || !is_value(field->value) ||
            is_framing(field->name))
            continue;
        to = SL_PUT(sl_str_put(to, field->name), ": ");
        to = SL_PUT(sl_str_put(to, field->value), "\r\n");
    }
    return to;
}

/* RFC 9110, 6.2: the version is the highest supported one, not the client's. An
 * unknown status has no reason. */
static char *put_status(char *to, int status)
{
    struct sl_str reason = find_reason(status);

    to = SL_PUT(to, "HTTP/1.1 ");
    if (reason.len > 0) {
        to = sl_str_put(to, reason);
    } else {
        to += sl_digits((uint64_t)status, to);
        *to++ = ' ';
    }
    return SL_PUT(to, "\r\n");
}

static char *put_length(char *to, size_t len)
{
    to = SL_PUT(to, "Content-Length: ");
    to += sl_digits(len, to);
    return SL_PUT(to, "\r\n");
}

/* An interim answer does not mention the connection. */
static char *put_connection(char *to, const struct sl_http1_answer *answer)
{
    if (answer->status < 200)
        return to;
    if (!answer->keep_alive)
        return SL_PUT(to, "Connection: close\r\n");
    if (answer->minor == 0)
        return SL_PUT(to, "Connection: keep-alive\r\n");
    return to;
}

int sl_http1_write(struct sl_buf *out, const struct sl_http1_answer *answer)
{
    bool bodyless = has_no_body(answer->status);
    size_t body = bodyless || answer->head ? 0 : answer->body.len;
    char *to;
    int err;

    if (answer->status < 100 || answer->status > 999)
        return SLUICE_EINVAL;
    err = sl_buf_reserve(out, most_head(answer) + body);
    if (err)
        return err;
    to = put_status(out->bytes + out->len, answer->status);
    to = put_own(to, SL_STR("Date: "), answer->date);
    to = put_own(to, SL_STR("Content-Type: "), answer->content_type);
    to = put_fields(to, answer);
    if (!bodyless && !answer->endless)
        to = put_length(to, answer->body.len);
    else if (answer->endless && answer->chunked && answer->minor > 0)
        to = SL_PUT(to, "Transfer-Encoding: chunked\r\n");
    to = put_connection(to, answer);
    to = SL_PUT(to, "\r\n");
    to = sl_str_put(to, (struct sl_str){answer->body.at, body});
    out->len = (size_t)(to - out->bytes);
    return 0;
}

int sl_http1_write_chunk(struct sl_buf *out, struct sl_str part)
{
    int err = sl_buf_addf(out, "%zx\r\n", part.len);

    if (!err)
        err = sl_buf_add(out, part);
    return err ? err : sl_buf_add(out, SL_STR("\r\n"));
}
