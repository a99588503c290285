/* http1_write.c -- writing HTTP/1.1 answers.
 *
 * The most an answer can take is added up first and reserved once; then it is
 * written without looking back. What the reader would refuse in a field is not
 * written in one, so that no name or value from a policy or a request can
 * become a line of its own.
 */
#include "base/str.h"
#include "wire/http1_scan.h"

#define FIRST_STATUS 100
#define LAST_STATUS  511

#define REASON(status, words)                                                  \
    [(status)-FIRST_STATUS] = {#status " " words, sizeof(#status " " words) - 1}

/* RFC 9110, 15, and those of RFC 6585 and 8297 and WebDAV that are about. */
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

/* The first line, the fields that are ours with their names, and the last
 * line, when each is as long as can be. */
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

static char *put(char *to, struct sl_str text)
{
    if (text.len > 0)
        memcpy(to, text.at, text.len);
    return to + text.len;
}

static bool is_text(struct sl_str value)
{
    return sl_http1_skip_text(value.at, 0, value.len) == value.len;
}

/* A field of ours: its value is left out if it is empty or breaks the line. */
static char *put_own(char *to, struct sl_str name, struct sl_str value)
{
    if (value.len == 0 || !is_text(value))
        return to;
    to = put(to, name);
    to = put(to, value);
    return put(to, SL_STR("\r\n"));
}

/* May the caller send this field? What frames an answer is ours to say. */
static bool is_fit(const struct sl_http1_field *field)
{
    struct sl_str name = field->name;

    return name.len > 0 &&
           sl_http1_skip(name.at, 0, name.len, SL_HTTP1_TOKEN) == name.len &&
           is_text(field->value) &&
           !sl_http1_named(name, SL_STR("connection")) &&
           !sl_http1_named(name, SL_STR("content-length")) &&
           !sl_http1_named(name, SL_STR("transfer-encoding"));
}

static char *put_fields(char *to, const struct sl_http1_answer *answer)
{
    for (unsigned i = 0; i < answer->field_count; i++) {
        const struct sl_http1_field *field = &answer->fields[i];

        if (!is_fit(field))
            continue;
        to = put(to, field->name);
        to = put(to, SL_STR(": "));
        to = put(to, field->value);
        to = put(to, SL_STR("\r\n"));
    }
    return to;
}

/* RFC 9110, 6.2: the version is the highest that we speak, not the client's.
 * A status that nobody knows has no words. */
static char *put_status(char *to, int status)
{
    struct sl_str reason = find_reason(status);

    to = put(to, SL_STR("HTTP/1.1 "));
    if (reason.len > 0) {
        to = put(to, reason);
    } else {
        to += sl_digits((uint64_t)status, to);
        *to++ = ' ';
    }
    return put(to, SL_STR("\r\n"));
}

static char *put_length(char *to, size_t len)
{
    to = put(to, SL_STR("Content-Length: "));
    to += sl_digits(len, to);
    return put(to, SL_STR("\r\n"));
}

/* An answer before the answer says nothing about the connection. */
static char *put_connection(char *to, const struct sl_http1_answer *answer)
{
    if (answer->status < 200)
        return to;
    if (!answer->keep_alive)
        return put(to, SL_STR("Connection: close\r\n"));
    if (answer->minor == 0)
        return put(to, SL_STR("Connection: keep-alive\r\n"));
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
    to = put_connection(to, answer);
    to = put(to, SL_STR("\r\n"));
    to = put(to, (struct sl_str){answer->body.at, body});
    out->len = (size_t)(to - out->bytes);
    return 0;
}
