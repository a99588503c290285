/* resp_command.c -- reading and writing commands of the Redis protocol.
 *
 *     *3\r\n $3\r\nSET\r\n $1\r\na\r\n $1\r\nb\r\n        an array
 *     SET a "b"\r\n                                       a line
 *
 * The array is what programs send, and what is fast here: each argument costs
 * the reading of a short number and nothing for its bytes. The line is for
 * people with telnet, and for strangers who speak HTTP.
 */
#include <stddef.h>
#include <string.h>

#include "base/digits.h"
#include "wire/resp.h"
#include "wire/resp_put.h"

static enum sl_resp_result refuse(struct sl_resp_command *c, const char *why)
{
    c->why = why;
    return SL_RESP_REFUSED;
}

/* ---- arrays ---- */

/* Read "DIGITS CR LF" behind the byte at c->at, no more than `most`. */
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

/* The length of the next argument. */
static enum sl_resp_result read_head(struct sl_resp_command *c,
                                     const char *bytes, size_t len)
{
    enum sl_resp_result result;
    size_t bulk;

    if (c->at == len)
        return SL_RESP_MORE;
    if (bytes[c->at] != '$')
        return refuse(c, "Protocol error: expected '$'");
    result = read_length(c, bytes, len, SL_RESP_BULK, &bulk);
    if (result == SL_RESP_REFUSED)
        return refuse(c, "Protocol error: invalid bulk length");
    if (result == SL_RESP_DONE) {
        if (c->at + bulk + 2 > SL_RESP_COMMAND)
            return refuse(c, "Protocol error: too big command");
        c->bulk = bulk + 1;
    }
    return result;
}

/* Arguments with lengths of one digit or two that are all there: most commands
 * have no others. What is none of them is left to those who look closer, and so
 * are the last bytes that a command may have. */
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
        if (from[-2] != '\r' || from[-1] != '\n' ||
            end - from < (ptrdiff_t)bulk + 2 || from[bulk] != '\r' ||
            from[bulk + 1] != '\n')
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
    if (len - c->at > bulk && bytes[c->at + bulk] != '\r')
        return refuse(c,
                      "Protocol error: a bulk string does not end with CR LF");
    if (len - c->at < bulk + 2)
        return SL_RESP_MORE;
    if (bytes[c->at + bulk + 1] != '\n')
        return refuse(c,
                      "Protocol error: a bulk string does not end with CR LF");
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
            return refuse(c, "Protocol error: invalid multibulk length");
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

/* ---- lines ---- */

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\v' || c == '\f';
}

/* The byte of an escape at `from`, which begins with a backslash. */
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

/* What stands in quotes that open at *from, to *to. False if they stay open,
 * or are followed by something else than a blank. */
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

/* The word at *from; what is unpacked is never longer than what was packed. */
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
        return refuse(c, "Protocol error: NUL byte in an inline command");
    for (;;) {
        while (from < end && is_blank(*from))
            from++;
        if (from == end)
            return SL_RESP_DONE;
        if (c->count == SL_RESP_ARGS)
            return refuse(
                c, "Protocol error: too many words in an inline command");
        if (!read_word(c, &from, end))
            return refuse(c, "Protocol error: unbalanced quotes in request");
    }
}

static enum sl_resp_result read_line(struct sl_resp_command *c, char *bytes,
                                     size_t len)
{
    size_t most = len < SL_RESP_INLINE ? len : SL_RESP_INLINE;
    char *end = memchr(bytes + c->at, '\n', most - c->at);

    c->is_inline = true;
    if (!end && len >= SL_RESP_INLINE)
        return refuse(c, "Protocol error: too big inline request");
    if (!end) {
        c->at = len;
        return SL_RESP_MORE;
    }
    c->used = (size_t)(end - bytes) + 1;
    return split_line(c, bytes, end);
}

/* ---- both ---- */

/* The bytes have moved: so have the slices. */
static void follow(struct sl_resp_command *c, const char *bytes)
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
        follow(command, bytes);
    return bytes[0] == '*' ? read_array(command, bytes, len)
                           : read_line(command, bytes, len);
}

/* ---- writing ---- */

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
