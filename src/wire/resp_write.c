/* resp_write.c -- writing replies of the Redis protocol.
 *
 * Each value reserves the most that it can take and is then written without
 * looking back.
 */
#include <string.h>

#include "wire/resp.h"
#include "wire/resp_put.h"

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
    out->len = (size_t)(SL_RESP_PUT(to, "\r\n") - out->bytes);
    return 0;
}

/* `before` and `text` as one bulk. */
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
    out->len = (size_t)(SL_RESP_PUT(to + len, "\r\n") - out->bytes);
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
