/* resp.c -- the Redis protocol: replies, commands, and writing replies.
 *
 * A reply is read in two steps. First its end is found, without recursion: a
 * value closes all arrays of which it is the last. Then the caller walks over
 * the values. All lengths are valid by then, so the walk cannot fail.
 *
 * Only what Redis sends is accepted: numbers without plus signs and leading
 * zeros, lines without CR or LF inside. Strings of unknown length ($?) are in
 * the specification of version 3, but no server sends them.
 */
#include "wire/resp.h"

#include <stddef.h>
#include <string.h>

#include "base/str.h"

/* The shortest value, "_\r\n". An array needs this many bytes per value. */
#define VALUE_BYTES_MIN 3

static enum sl_resp_result refuse_reply(struct sl_resp_reply *r,
                                        const char *why)
{
    r->why = why;
    return SL_RESP_REFUSED;
}

/* ---- replies: lines ---- */

static bool all_digits(struct sl_str s)
{
    for (size_t i = 0; i < s.len; i++)
        if (s.at[i] < '0' || s.at[i] > '9')
            return false;
    return s.len > 0;
}

/* Digits without a leading zero, of at most 19 digits. */
static bool read_digits(struct sl_str s, uint64_t *ret)
{
    uint64_t n = 0;

    if (!all_digits(s) || s.len > 19 || (s.len > 1 && s.at[0] == '0'))
        return false;
    for (size_t i = 0; i < s.len; i++)
        n = n * 10 + (uint64_t)(s.at[i] - '0');
    *ret = n;
    return true;
}

static bool read_integer(struct sl_str s, int64_t *ret)
{
    bool minus = s.len > 0 && s.at[0] == '-';
    uint64_t n;

    if (!read_digits(sl_str_from(s, minus), &n) || (minus && n == 0) ||
        n > (uint64_t)INT64_MAX + minus)
        return false;
    *ret = minus ? (int64_t)(0 - n) : (int64_t)n;
    return true;
}

static bool is_big_number(struct sl_str s)
{
    return all_digits(sl_str_from(s, s.len > 0 && s.at[0] == '-'));
}

static size_t skip_digits(struct sl_str s, size_t at)
{
    while (at < s.len && s.at[at] >= '0' && s.at[at] <= '9')
        at++;
    return at;
}

/* [-]DIGITS[.DIGITS][e[+-]DIGITS], inf, -inf, nan */
static bool is_double(struct sl_str s)
{
    size_t at = s.len > 0 && (s.at[0] == '-' || s.at[0] == '+'), from = at;

    if (sl_str_eq(sl_str_from(s, at), SL_STR("inf")) ||
        sl_str_eq(s, SL_STR("nan")))
        return true;
    at = skip_digits(s, from);
    if (at == from)
        return false;
    if (at < s.len && s.at[at] == '.') {
        from = at + 1;
        at = skip_digits(s, from);
        if (at == from)
            return false;
    }
    if (at < s.len && (s.at[at] == 'e' || s.at[at] == 'E')) {
        at++;
        from = at + (at < s.len && (s.at[at] == '-' || s.at[at] == '+'));
        at = skip_digits(s, from);
        if (at == from)
            return false;
    }
    return at == s.len;
}

/* ---- replies: values ---- */

static bool type_of(char byte, enum sl_resp_type *ret)
{
    static const char bytes[] = "+-:$_,#(!=*%~>|";
    const char *at = byte ? strchr(bytes, byte) : NULL;

    if (at)
        *ret = (enum sl_resp_type)(at - bytes);
    return at != NULL;
}

static bool is_bulk(enum sl_resp_type type)
{
    return type == SL_RESP_STRING || type == SL_RESP_BULK_ERROR ||
           type == SL_RESP_VERBATIM;
}

static bool is_container(enum sl_resp_type type)
{
    return type >= SL_RESP_ARRAY;
}

static bool has_pairs(enum sl_resp_type type)
{
    return type == SL_RESP_MAP || type == SL_RESP_ATTRIBUTE;
}

/* Read the first line of a value. For a bulk, `integer` is its length; for a
 * container, `count` is the number of values. */
static bool parse_line(struct sl_resp_value *v, struct sl_str line)
{
    uint64_t n = 0;

    switch (v->type) {
    case SL_RESP_SIMPLE:
    case SL_RESP_ERROR:
        v->text = line;
        return true;
    case SL_RESP_INTEGER:
        return read_integer(line, &v->integer);
    case SL_RESP_NIL:
        return line.len == 0;
    case SL_RESP_DOUBLE:
        v->text = line;
        return is_double(line);
    case SL_RESP_BIG_NUMBER:
        v->text = line;
        return is_big_number(line);
    case SL_RESP_BOOLEAN:
        v->integer = line.len == 1 && line.at[0] == 't';
        return line.len == 1 && (line.at[0] == 't' || line.at[0] == 'f');
    default:
        break;
    }
    if ((v->type == SL_RESP_STRING || v->type == SL_RESP_ARRAY) &&
        sl_str_eq(line, SL_STR("-1"))) {
        v->type = SL_RESP_NIL;
        return true;
    }
    if (!read_digits(line, &n) || n > INT64_MAX / 2)
        return false;
    v->integer = (int64_t)n;
    v->count = is_container(v->type) ? (size_t)n << has_pairs(v->type) : 0;
    return true;
}

/* Read a complete integer of up to 18 digits, the common case. False for
 * anything else, valid or not. */
static bool read_short_integer(struct sl_str s, struct sl_resp_value *v,
                               size_t *used)
{
    bool minus = s.len > 1 && s.at[1] == '-';
    size_t from = 1 + (size_t)minus, at = from;
    int64_t n = 0;

    for (; at < s.len && at - from < 18 && s.at[at] >= '0' && s.at[at] <= '9';
         at++)
        n = n * 10 + (s.at[at] - '0');
    if (at == from || s.len - at < 2 || s.at[at] != '\r' ||
        s.at[at + 1] != '\n' || (s.at[from] == '0' && (minus || at > from + 1)))
        return false;
    v->type = SL_RESP_INTEGER;
    v->integer = minus ? -n : n;
    *used = at + 2;
    return true;
}

/* Read the first value of `s`, of at most `most` bytes. *used is its length,
 * without the values of a container. */
static enum sl_resp_result read_value(struct sl_str s, size_t most,
                                      struct sl_resp_value *v, size_t *used)
{
    const char *end;
    size_t len;

    *v = (struct sl_resp_value){.type = SL_RESP_NIL};
    if (s.len == 0)
        return most > 0 ? SL_RESP_MORE : SL_RESP_REFUSED;
    if (s.at[0] == ':' && read_short_integer(s, v, used) && *used <= most)
        return SL_RESP_DONE;
    if (!type_of(s.at[0], &v->type))
        return SL_RESP_REFUSED;
    end = memchr(s.at, '\n', s.len < most ? s.len : most);
    len = end ? (size_t)(end - s.at) : s.len;
    /* CR is only allowed directly before LF. */
    if (memchr(s.at, '\r', len - (end || s.at[len - 1] == '\r')) ||
        (end && s.at[len - 1] != '\r'))
        return SL_RESP_REFUSED;
    if (!end)
        return s.len < most ? SL_RESP_MORE : SL_RESP_REFUSED;
    if (!parse_line(v, (struct sl_str){s.at + 1, len - 2}))
        return SL_RESP_REFUSED;
    *used = len + 1;
    if (is_container(v->type) && v->count > (most - *used) / VALUE_BYTES_MIN)
        return SL_RESP_REFUSED;
    return SL_RESP_DONE;
}

/* Read the bytes of a bulk after its line. */
static enum sl_resp_result read_bulk(struct sl_str s, size_t most,
                                     struct sl_resp_value *v, size_t *used)
{
    size_t len = (size_t)v->integer, end = *used + len;

    if (len > most || end + 2 > most)
        return SL_RESP_REFUSED;
    if (v->type == SL_RESP_VERBATIM &&
        (len < 4 || (s.len > *used + 3 && s.at[*used + 3] != ':')))
        return SL_RESP_REFUSED;
    if ((s.len > end && s.at[end] != '\r') ||
        (s.len > end + 1 && s.at[end + 1] != '\n'))
        return SL_RESP_REFUSED;
    if (s.len < end + 2)
        return SL_RESP_MORE;
    v->text = (struct sl_str){s.at + *used, len};
    v->integer = 0;
    if (v->type == SL_RESP_VERBATIM) {
        v->format = (struct sl_str){v->text.at, 3};
        v->text = sl_str_from(v->text, 4);
    }
    *used = end + 2;
    return SL_RESP_DONE;
}

static enum sl_resp_result read_all(struct sl_str s, size_t most,
                                    struct sl_resp_value *v, size_t *used)
{
    enum sl_resp_result result = read_value(s, most, v, used);

    if (result == SL_RESP_DONE && is_bulk(v->type))
        result = read_bulk(s, most, v, used);
    return result;
}

/* ---- replies: the whole ---- */

/* The reply is the only value of the outermost level. */
void sl_resp_reply_begin(struct sl_resp_reply *reply, size_t most)
{
    reply->most = most;
    reply->used = reply->at = 0;
    reply->why = NULL;
    reply->depth = 1;
    reply->open[0].left = 1;
    reply->open[0].attribute = false;
}

/* A value is complete; close the containers that it completes. An attribute is
 * not a value: the value it describes follows. */
static void close_value(struct sl_resp_reply *r)
{
    while (r->depth > 0 && --r->open[r->depth - 1].left == 0)
        if (r->open[--r->depth].attribute)
            return;
}

static bool open_value(struct sl_resp_reply *r, const struct sl_resp_value *v)
{
    if (r->depth > SL_RESP_DEPTH)
        return false;
    r->open[r->depth].left = v->count;
    r->open[r->depth].attribute = v->type == SL_RESP_ATTRIBUTE;
    r->depth++;
    return true;
}

enum sl_resp_result sl_resp_reply_read(struct sl_resp_reply *reply,
                                       struct sl_str bytes)
{
    struct sl_resp_value v;
    size_t used = 0;

    if (reply->why)
        return SL_RESP_REFUSED;
    while (reply->depth > 0) {
        enum sl_resp_result result = read_all(
            sl_str_from(bytes, reply->at), reply->most - reply->at, &v, &used);

        if (result == SL_RESP_MORE)
            return result;
        if (result == SL_RESP_REFUSED)
            return refuse_reply(reply, "the reply is malformed, or too long");
        reply->at += used;
        if (v.count == 0 && v.type != SL_RESP_ATTRIBUTE)
            close_value(reply);
        else if (v.count > 0 && !open_value(reply, &v))
            return refuse_reply(reply, "the reply is nested too deeply");
    }
    reply->used = reply->at;
    return SL_RESP_DONE;
}

struct sl_resp_value sl_resp_next(struct sl_str *rest)
{
    struct sl_resp_value v;
    size_t used = 0;

    if (read_all(*rest, rest->len, &v, &used) != SL_RESP_DONE) {
        v = (struct sl_resp_value){.type = SL_RESP_NIL};
        used = rest->len;
    }
    *rest = sl_str_from(*rest, used);
    return v;
}

void sl_resp_skip(struct sl_str *rest)
{
    size_t left = 1;

    while (left > 0 && rest->len > 0) {
        struct sl_resp_value v = sl_resp_next(rest);

        left += v.count;
        left -= v.type != SL_RESP_ATTRIBUTE;
    }
}

/* ---- commands ----
 *
 *     *3\r\n $3\r\nSET\r\n $1\r\na\r\n $1\r\nb\r\n        an array
 *     SET a "b"\r\n                                       a line
 *
 * Programs send arrays. Reading one costs a short number per argument and
 * nothing per byte. Lines are for people with telnet, and for HTTP clients that
 * connect to the wrong port.
 */

static enum sl_resp_result refuse_command(struct sl_resp_command *c,
                                          const char *why)
{
    c->why = why;
    return SL_RESP_REFUSED;
}

/* ---- commands: arrays ---- */

/* Read "DIGITS CR LF" after the byte at c->at, at most `most`. */
static enum sl_resp_result read_length(struct sl_resp_command *c,
                                       const char *bytes, size_t len,
                                       size_t most, size_t *ret)
{
    size_t at = c->at + 1, from = at, n = 0;

    while (at < len && bytes[at] >= '0' && bytes[at] <= '9') {
        n = n * 10 + (size_t)(bytes[at] - '0');
        if (n > most || (at > from && bytes[from] == '0'))
            return SL_RESP_REFUSED;
        at++;
    }
    if (at == len)
        return SL_RESP_MORE;
    if (at == from || bytes[at] != '\r')
        return SL_RESP_REFUSED;
    if (at + 1 == len)
        return SL_RESP_MORE;
    if (bytes[at + 1] != '\n')
        return SL_RESP_REFUSED;
    c->at = at + 2;
    *ret = n;
    return SL_RESP_DONE;
}

/* Read the length of the next argument. */
static enum sl_resp_result read_head(struct sl_resp_command *c,
                                     const char *bytes, size_t len)
{
    enum sl_resp_result result;
    size_t bulk;

    if (c->at == len)
        return SL_RESP_MORE;
    if (bytes[c->at] != '$')
        return refuse_command(c, "Protocol error: expected '$'");
    result = read_length(c, bytes, len, SL_RESP_BULK, &bulk);
    if (result == SL_RESP_REFUSED)
        return refuse_command(c, "Protocol error: invalid bulk length");
    if (result == SL_RESP_DONE) {
        if (c->at + bulk + 2 > SL_RESP_COMMAND)
            return refuse_command(c, "Protocol error: too big command");
        c->bulk = bulk + 1;
    }
    return result;
}

/* Read complete arguments with lengths of one or two digits, the common case.
 * Stops at any other argument, and before the last bytes that a command may
 * have. */
static void read_short(struct sl_resp_command *c, const char *bytes, size_t len)
{
    const char *at = bytes + c->at;
    const char *end = bytes + (len < SL_RESP_COMMAND ? len : SL_RESP_COMMAND);
    unsigned count = c->count;

    while (count < c->want && end - at >= 6 && at[0] == '$') {
        unsigned bulk = (unsigned)at[1] - '0', more = (unsigned)at[2] - '0';
        const char *from = at + 4;

        if (bulk > 9)
            break;
        if (more <= 9 && bulk > 0) {
            bulk = bulk * 10 + more;
            from++;
        }
        if (memcmp(from - 2, "\r\n", 2) != 0 ||
            end - from < (ptrdiff_t)bulk + 2 ||
            memcmp(from + bulk, "\r\n", 2) != 0)
            break;
        c->args[count++] = (struct sl_str){from, bulk};
        at = from + bulk + 2;
    }
    c->at = (size_t)(at - bytes);
    c->count = count;
}

static enum sl_resp_result read_argument(struct sl_resp_command *c,
                                         const char *bytes, size_t len)
{
    enum sl_resp_result result = SL_RESP_DONE;
    size_t bulk;

    if (c->bulk == 0)
        result = read_head(c, bytes, len);
    if (result != SL_RESP_DONE)
        return result;
    bulk = c->bulk - 1;
    if ((len - c->at > bulk && bytes[c->at + bulk] != '\r') ||
        (len - c->at > bulk + 1 && bytes[c->at + bulk + 1] != '\n'))
        return refuse_command(
            c, "Protocol error: a bulk string does not end with CR LF");
    if (len - c->at < bulk + 2)
        return SL_RESP_MORE;
    c->args[c->count++] = (struct sl_str){bytes + c->at, bulk};
    c->at += bulk + 2;
    c->bulk = 0;
    return SL_RESP_DONE;
}

static enum sl_resp_result read_array(struct sl_resp_command *c,
                                      const char *bytes, size_t len)
{
    enum sl_resp_result result;
    size_t want;

    if (c->at == 0) {
        result = read_length(c, bytes, len, SL_RESP_ARGS, &want);
        if (result == SL_RESP_REFUSED)
            return refuse_command(c,
                                  "Protocol error: invalid multibulk length");
        if (result == SL_RESP_MORE)
            return result;
        c->is_inline = false;
        c->want = (unsigned)want;
    }
    if (c->bulk == 0)
        read_short(c, bytes, len);
    while (c->count < c->want) {
        result = read_argument(c, bytes, len);
        if (result != SL_RESP_DONE)
            return result;
    }
    c->used = c->at;
    return SL_RESP_DONE;
}

/* ---- commands: lines ---- */

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\v' || c == '\f';
}

/* Decode the escape at `from`, which begins with a backslash. */
static char unescape(const char *from, const char *end, size_t *len)
{
    static const char names[] = "nrtba", bytes[] = "\n\r\t\b\a";
    const char *name;

    *len = 2;
    if (end - from >= 4 && from[1] == 'x' && sl_hex_value(from[2]) >= 0 &&
        sl_hex_value(from[3]) >= 0) {
        *len = 4;
        return (char)(sl_hex_value(from[2]) << 4 | sl_hex_value(from[3]));
    }
    name = from[1] ? strchr(names, from[1]) : NULL;
    return name ? bytes[name - names] : from[1];
}

/* Decode the quoted text at *from to *to. False if the quote is not closed, or
 * if no blank follows it. */
static bool unquote(char **from, const char *end, char **to)
{
    char quote = *(*from)++;

    while (*from < end && **from != quote) {
        size_t len = 1;

        if (quote == '"' && **from == '\\' && *from + 1 < end)
            *(*to)++ = unescape(*from, end, &len);
        else if (quote == '\'' && end - *from >= 2 && **from == '\\' &&
                 (*from)[1] == '\'')
            *(*to)++ = *++*from;
        else
            *(*to)++ = **from;
        *from += len;
    }
    if (*from == end)
        return false;
    ++*from;
    return *from == end || is_blank(**from);
}

/* Read the word at *from, in place: decoding never lengthens it. */
static bool read_word(struct sl_resp_command *c, char **from, const char *end)
{
    char *word = *from, *to = word;

    while (*from < end && !is_blank(**from)) {
        if (**from != '"' && **from != '\'')
            *to++ = *(*from)++;
        else if (!unquote(from, end, &to))
            return false;
    }
    c->args[c->count++] = (struct sl_str){word, (size_t)(to - word)};
    return true;
}

static enum sl_resp_result split_line(struct sl_resp_command *c, char *from,
                                      const char *end)
{
    if (memchr(from, '\0', (size_t)(end - from)))
        return refuse_command(c,
                              "Protocol error: NUL byte in an inline command");
    for (;;) {
        while (from < end && is_blank(*from))
            from++;
        if (from == end)
            return SL_RESP_DONE;
        if (c->count == SL_RESP_ARGS)
            return refuse_command(
                c, "Protocol error: too many words in an inline command");
        if (!read_word(c, &from, end))
            return refuse_command(
                c, "Protocol error: unbalanced quotes in request");
    }
}

static enum sl_resp_result read_inline(struct sl_resp_command *c, char *bytes,
                                       size_t len)
{
    size_t most = len < SL_RESP_INLINE ? len : SL_RESP_INLINE;
    char *end = memchr(bytes + c->at, '\n', most - c->at);

    c->is_inline = true;
    if (!end && len >= SL_RESP_INLINE)
        return refuse_command(c, "Protocol error: too big inline request");
    if (!end) {
        c->at = len;
        return SL_RESP_MORE;
    }
    c->used = (size_t)(end - bytes) + 1;
    return split_line(c, bytes, end);
}

/* ---- commands: arrays or lines ---- */

/* The bytes have moved: adjust the slices. */
static void move_slices(struct sl_resp_command *c, const char *bytes)
{
    for (unsigned i = 0; c->base && i < c->count; i++)
        c->args[i].at = bytes + (c->args[i].at - c->base);
    c->base = bytes;
}

enum sl_resp_result sl_resp_command_read(struct sl_resp_command *command,
                                         char *bytes, size_t len)
{
    if (command->why)
        return SL_RESP_REFUSED;
    if (len == 0)
        return SL_RESP_MORE;
    if (command->base != bytes)
        move_slices(command, bytes);
    return bytes[0] == '*' ? read_array(command, bytes, len)
                           : read_inline(command, bytes, len);
}

/* ---- commands: writing ---- */

int sl_resp_command_write(struct sl_buf *out, const struct sl_str *args,
                          unsigned count)
{
    size_t most = SL_RESP_HEAD;
    char *to;
    int err;

    for (unsigned i = 0; i < count; i++)
        most += SL_RESP_HEAD + 2 + args[i].len;
    err = sl_buf_reserve(out, most);
    if (err)
        return err;
    to = sl_resp_put_number(out->bytes + out->len, '*', count);
    for (unsigned i = 0; i < count; i++)
        to = sl_resp_put_string(to, args[i]);
    out->len = (size_t)(to - out->bytes);
    return 0;
}

/* ---- writing replies ----
 *
 * Each value reserves its maximum size; writing then needs no checks.
 */

static int write_number(struct sl_buf *out, char type, int64_t n)
{
    int err = sl_buf_reserve(out, SL_RESP_HEAD);

    if (!err)
        out->len = (size_t)(sl_resp_put_number(out->bytes + out->len, type, n) -
                            out->bytes);
    return err;
}

static int write_line(struct sl_buf *out, char type, struct sl_str text)
{
    int err = sl_buf_reserve(out, text.len + 3);
    char *to;

    if (err)
        return err;
    to = out->bytes + out->len;
    *to++ = type;
    for (size_t i = 0; i < text.len; i++)
        *to++ = text.at[i] == '\r' || text.at[i] == '\n' ? ' ' : text.at[i];
    out->len = (size_t)(SL_PUT(to, "\r\n") - out->bytes);
    return 0;
}

/* Write `before` and `text` as one bulk. */
static int write_bulk(struct sl_buf *out, char type, struct sl_str before,
                      struct sl_str text)
{
    size_t len = before.len + text.len;
    int err = sl_buf_reserve(out, SL_RESP_HEAD + len + 2);
    char *to;

    if (err)
        return err;
    to = sl_resp_put_number(out->bytes + out->len, type, (int64_t)len);
    if (before.len > 0)
        memcpy(to, before.at, before.len);
    if (text.len > 0)
        memcpy(to + before.len, text.at, text.len);
    out->len = (size_t)(SL_PUT(to + len, "\r\n") - out->bytes);
    return 0;
}

int sl_resp_write_simple(struct sl_buf *out, struct sl_str text)
{
    return write_line(out, '+', text);
}

int sl_resp_write_error(struct sl_buf *out, struct sl_str text)
{
    return write_line(out, '-', text);
}

int sl_resp_write_integer(struct sl_buf *out, int64_t n)
{
    return write_number(out, ':', n);
}

int sl_resp_write_string(struct sl_buf *out, struct sl_str text)
{
    return write_bulk(out, '$', (struct sl_str){NULL, 0}, text);
}

int sl_resp_write_nil(struct sl_buf *out, unsigned version)
{
    return sl_buf_add(out, version >= 3 ? SL_STR("_\r\n") : SL_STR("$-1\r\n"));
}

int sl_resp_write_verbatim(struct sl_buf *out, unsigned version,
                           const char format[3], struct sl_str text)
{
    char before[4] = {format[0], format[1], format[2], ':'};

    if (version < 3)
        return sl_resp_write_string(out, text);
    return write_bulk(out, '=', (struct sl_str){before, sizeof(before)}, text);
}

int sl_resp_write_array(struct sl_buf *out, size_t count)
{
    return write_number(out, '*', (int64_t)count);
}

int sl_resp_write_map(struct sl_buf *out, unsigned version, size_t count)
{
    if (version < 3)
        return sl_resp_write_array(out, 2 * count);
    return write_number(out, '%', (int64_t)count);
}

int sl_resp_write_integers(struct sl_buf *out, const int64_t *integers,
                           size_t count)
{
    int err = sl_buf_reserve(out, SL_RESP_HEAD * (count + 1));
    char *to;

    if (err)
        return err;
    to = sl_resp_put_number(out->bytes + out->len, '*', (int64_t)count);
    for (size_t i = 0; i < count; i++)
        to = sl_resp_put_number(to, ':', integers[i]);
    out->len = (size_t)(to - out->bytes);
    return 0;
}
