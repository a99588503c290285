/* http1_body.c -- reading the body of an HTTP/1.1 request.
 *
 * A body of known length stays where it is. One that comes in chunks is put
 * together behind the head, over the framing that has been read:
 *
 *     | head | body so far | framing, done with | from ...  at ... | to come
 *            ^ body_at     ^ body_at + body.len   ^ a size, a trailer
 *
 * Before the reader asks for more, the bytes from `from` on are moved down to
 * the body, so that framing takes no room: a body in chunks of one byte is
 * six times as long on the wire, and may be as long as any other.
 *
 * Chunk extensions are refused. RFC 9112, 7.1.1 wants them ignored; but nobody
 * sends them, and where an extension ends is what readers have disagreed on
 * most. Leading zeros of a size are fine: to everyone it is hexadecimal.
 */
#include "base/digits.h"
#include "wire/http1_scan.h"

/* More would not fit in 64 bits. */
#define SIZE_DIGITS 16

static enum sl_http1_result bad(struct sl_http1 *p, const char *why)
{
    return sl_http1_refuse(p, 400, why);
}

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

/* The digits of a size are read; at `at` stands something else. */
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
        return sl_http1_refuse(p, 413, "the body is too long");
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

/* As strict as with fields, then dropped: a trailer cannot say anything about
 * a request that has been judged. `left` is how long they may still be. */
static enum sl_http1_result read_trailers(struct sl_http1 *p,
                                          const struct sl_buf *in)
{
    for (;;) {
        size_t most = p->from + (size_t)p->left;
        enum sl_http1_result r =
            sl_http1_read_field(p, in->bytes, in->len < most ? in->len : most);

        if (r == SL_HTTP1_MORE && in->len >= most)
            return sl_http1_refuse(p, 431, "the trailers are too long");
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

/* Move what is not yet done with down to the body. */
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

enum sl_http1_result sl_http1_read_body(struct sl_http1 *p, struct sl_buf *in)
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
