/* ink.h -- writing into a buffer, once as text and once inside of JSON.
 *
 * A message is plain text in the library's answer and the inside of a string
 * in a body. Both are written by the same code into an ink that escapes or
 * does not. The first failure stays in `err` and makes everything after it do
 * nothing, so that it is asked for once, at the end.
 */
#ifndef SL_ENGINE_INK_H
#define SL_ENGINE_INK_H

#include <string.h>

#include "wire/json_old.h"

struct sl_writer {
    struct sl_buf *out;
    bool json; /* texts are escaped */
    int err;
};

/* Bytes as they are: JSON of our own making. Mostly there is room, and then a
 * literal is a few moves. */
static inline void sl_writer_raw(struct sl_writer *ink, struct sl_str bytes)
{
    struct sl_buf *out = ink->out;

    if (ink->err || bytes.len == 0)
        return;
    if (bytes.len > out->size - out->len) {
        ink->err = sl_buf_add(out, bytes);
        return;
    }
    memcpy(out->bytes + out->len, bytes.at, bytes.len);
    out->len += bytes.len;
}

/* Text; anybody's. */
static inline void sl_writer_text(struct sl_writer *ink, struct sl_str text)
{
    if (!ink->err)
        ink->err = ink->json ? sl_json_inside(ink->out, text)
                             : sl_buf_add(ink->out, text);
}

/* A JSON string, quotes included. */
static inline void sl_writer_string(struct sl_writer *ink, struct sl_str text)
{
    if (!ink->err)
        ink->err = sl_json_string(ink->out, text);
}

static inline void sl_writer_number(struct sl_writer *ink, uint64_t number)
{
    if (!ink->err)
        ink->err = sl_json_number(ink->out, number);
}

#endif
