/* resp_reply.c -- reading replies of the Redis protocol.
 *
 * First the end of the reply is found, without recursion: a value closes all
 * arrays of which it was the last. Only then is it looked at, by whoever asked,
 * one value after the other; by then every length in it is known to be true,
 * so that the walk can't fail.
 *
 * Redis' own replies and nothing more is taken: numbers without plus signs and
 * leading zeros, lines without CR or LF inside. Strings of unknown length
 * ($?) are in the specification of version 3, and no server sends them.
 */
#include <string.h>

#include "wire/resp.h"

/* The shortest value there is, "_\r\n": so many bytes an array promises with
 * each of its values. */
#define VALUE_LEAST 3

static enum sl_resp_result refuse(struct sl_resp_reply *r, const char *why)
{
    r->why = why;
    return SL_RESP_REFUSED;
}

/* ---- lines ---- */

static bool all_digits(struct sl_str s)
{
    for (size_t i = 0; i < s.len; i++)
        if (s.at[i] < '0' || s.at[i] > '9')
            return false;
    return s.len > 0;
}

/* Digits without a leading zero, at most 2^63 and a bit. */
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

/* ---- one value ---- */

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

/* What a line says of a value. Of a bulk it is the length, left in `integer`,
 * of a container how many values follow. */
static bool read_line(struct sl_resp_value *v, struct sl_str line)
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

/* An integer of up to 18 digits, as nearly all are, in one go. False if it is
 * not one of those, or not all there, or wrong: others tell which. */
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

/* The first value of `s`: *used is what it takes, without what a container
 * has. `most` bytes of `s` may be used. */
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
    /* A CR is the last byte before the LF and nowhere else. */
    if (memchr(s.at, '\r', len - (end || s.at[len - 1] == '\r')) ||
        (end && s.at[len - 1] != '\r'))
        return SL_RESP_REFUSED;
    if (!end)
        return s.len < most ? SL_RESP_MORE : SL_RESP_REFUSED;
    if (!read_line(v, (struct sl_str){s.at + 1, len - 2}))
        return SL_RESP_REFUSED;
    *used = len + 1;
    if (is_container(v->type) && v->count > (most - *used) / VALUE_LEAST)
        return SL_RESP_REFUSED;
    return SL_RESP_DONE;
}

/* The bytes of a bulk, behind its line. */
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

static enum sl_resp_result read_whole(struct sl_str s, size_t most,
                                      struct sl_resp_value *v, size_t *used)
{
    enum sl_resp_result result = read_value(s, most, v, used);

    if (result == SL_RESP_DONE && is_bulk(v->type))
        result = read_bulk(s, most, v, used);
    return result;
}

/* ---- all of it ---- */

/* The reply itself is the only value of the outermost. */
void sl_resp_reply_begin(struct sl_resp_reply *reply, size_t most)
{
    reply->most = most;
    reply->used = reply->at = 0;
    reply->why = NULL;
    reply->depth = 1;
    reply->open[0].left = 1;
    reply->open[0].attribute = false;
}

/* A value has come, perhaps the last of several at once. An attribute is none:
 * when it is over, what it is about is still to come. */
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
        enum sl_resp_result result = read_whole(
            sl_str_from(bytes, reply->at), reply->most - reply->at, &v, &used);

        if (result == SL_RESP_MORE)
            return result;
        if (result == SL_RESP_REFUSED)
            return refuse(reply, "the reply is malformed, or too long");
        reply->at += used;
        if (v.count == 0 && v.type != SL_RESP_ATTRIBUTE)
            close_value(reply);
        else if (v.count > 0 && !open_value(reply, &v))
            return refuse(reply, "the reply is nested too deeply");
    }
    reply->used = reply->at;
    return SL_RESP_DONE;
}

struct sl_resp_value sl_resp_next(struct sl_str *rest)
{
    struct sl_resp_value v;
    size_t used = 0;

    if (read_whole(*rest, rest->len, &v, &used) != SL_RESP_DONE) {
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
