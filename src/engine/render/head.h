/* head.h -- the headers of one answer, while they are written.
 *
 * Values are written one after the other into a piece of memory that is known
 * to be large enough; should it not be, `full` says so and nothing is written
 * past its end. A name is sent once: whoever comes second is left out.
 *
 * Every answer comes by here, so what is short is inline: a literal is then
 * written by a store or two.
 */
#ifndef SL_ENGINE_HEAD_H
#define SL_ENGINE_HEAD_H

#include <string.h>

#include "base/digits.h"
#include "engine/render.h"
#include "engine/render/face.h"

/* The largest integer of structured fields (RFC 9651); no header says more. */
#define SL_HEADERS_MAX UINT64_C(999999999999999)

struct sl_header_writer {
    struct sl_out_header list[SL_HEADERS];
    unsigned count;
    uint64_t seen; /* a bit for each name; the same for some others */
    char *at, *end;
    bool full;
};

static inline void sl_headers_bytes(struct sl_header_writer *head,
                                    struct sl_str bytes)
{
    if ((size_t)(head->end - head->at) < bytes.len) {
        head->full = true;
        return;
    }
    if (bytes.len > 0)
        memcpy(head->at, bytes.at, bytes.len);
    head->at += bytes.len;
}

static inline void sl_headers_digits(struct sl_header_writer *head,
                                     uint64_t number)
{
    if (head->end - head->at < SL_DIGITS) {
        head->full = true;
        return;
    }
    head->at +=
        sl_digits(number < SL_HEADERS_MAX ? number : SL_HEADERS_MAX, head->at);
}

/* A name's bit in `seen`: the same for names that are equal but for their case,
 * and rarely for others. */
static inline uint64_t sl_headers_bit(struct sl_str name)
{
    unsigned letter = (unsigned char)name.at[name.len - 3] | 0x20U;

    return UINT64_C(1) << ((name.len + 5 * letter) & 63);
}

/* For the next one alone: is the name there? */
bool sl_headers_has(const struct sl_header_writer *head, struct sl_str name);

/* Begin a header; false if its name was sent already. `name` is borrowed, and
 * has three letters at least. */
static inline bool sl_headers_begin(struct sl_header_writer *head,
                                    struct sl_str name)
{
    uint64_t bit = sl_headers_bit(name);

    if ((head->seen & bit) && sl_headers_has(head, name))
        return false;
    if (head->count == SL_HEADERS) {
        head->full = true;
        return false;
    }
    head->seen |= bit;
    head->list[head->count].name = name;
    head->list[head->count].value.at = head->at;
    return true;
}

static inline void sl_headers_end(struct sl_header_writer *head)
{
    struct sl_str *value = &head->list[head->count++].value;

    value->len = (size_t)(head->at - value->at);
}

/* A whole one. */
static inline void sl_headers_number(struct sl_header_writer *head,
                                     struct sl_str name, uint64_t number)
{
    if (!sl_headers_begin(head, name))
        return;
    sl_headers_digits(head, number);
    sl_headers_end(head);
}

/* Anybody's text, made fit for a header. As it is if all its bytes are visible
 * ASCII; otherwise every byte that is not, and every '%', is %xx. */
void sl_headers_clean(struct sl_header_writer *head, struct sl_str text);

/* The same as a String of structured fields: in quotes, with a backslash before
 * quotes and backslashes; blanks may stay. */
void sl_headers_string(struct sl_header_writer *head, struct sl_str text);

/* All headers of a decision, without those of a body. */
void sl_headers_write(struct sl_header_writer *head,
                      const struct sl_decision *decision);

/* Bytes that the values of a decision's headers may need. */
size_t sl_headers_room(const struct sl_decision *decision);

/* The headers that tell of limits, in all dialects that are wanted; and how
 * many there are at most. */
void sl_headers_dialects(struct sl_header_writer *head,
                         const struct sl_decision *decision);
unsigned sl_dialect_fields(const struct sl_decision *decision);

#endif
