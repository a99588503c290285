/* pb.h -- protocol buffers, read and written one field at a time.
 *
 *     sl_pb_begin() --> sl_pb_next() --> a field --> ... --> false: the end,
 *                                                      or an error (`bad`)
 *
 * A submessage is the bytes of a field; another reader reads it. As specified:
 * fields come in any order, the last of several scalars counts (the caller
 * overwrites), repeated submessages are merged (the caller reads both into
 * one), and unknown fields are skipped, groups too. Nothing is allocated or
 * copied; slices point into the text.
 *
 * A message has at most SL_PB_MOST bytes. Groups, which nest without a length,
 * have at most SL_PB_DEPTH levels.
 *
 * Writing needs memory of the caller. If it is too small, `full` is set and
 * nothing more is written. A submessage is opened, written and closed; its
 * length is inserted before it.
 */
#ifndef SL_WIRE_PB_H
#define SL_WIRE_PB_H

#include "base/str.h"

#define SL_PB_MOST  ((size_t)1 << 26)
#define SL_PB_DEPTH 32

enum sl_pb_wire {
    SL_PB_VARINT = 0,
    SL_PB_FIXED64 = 1,
    SL_PB_BYTES = 2,
    SL_PB_GROUP = 3, /* start of a group; never returned */
    SL_PB_GROUP_END = 4,
    SL_PB_FIXED32 = 5,
};

struct sl_pb {
    const char *at, *end;
    const char *why; /* the error in English */
    bool bad;
};

struct sl_pb_field {
    uint32_t number;
    enum sl_pb_wire wire;
    uint64_t value;      /* VARINT, FIXED32, FIXED64 */
    struct sl_str bytes; /* BYTES */
};

void sl_pb_begin(struct sl_pb *pb, struct sl_str text);

/* The next field. False at the end and on error; `bad` is set then. */
SL_MUST_USE bool sl_pb_next(struct sl_pb *pb, struct sl_pb_field *ret);

/* Has the field this number and this type? A field of another type is
 * unknown. */
static inline bool sl_pb_is(const struct sl_pb_field *field, uint32_t number,
                            enum sl_pb_wire wire)
{
    return field->number == number && field->wire == wire;
}

/* Is the text valid UTF-8, as a `string` must be? */
bool sl_pb_is_utf8(struct sl_str text);

struct sl_pb_out {
    char *bytes;
    size_t len, size;
    bool full;
};

void sl_pb_varint(struct sl_pb_out *out, uint32_t number, uint64_t value);
void sl_pb_bytes(struct sl_pb_out *out, uint32_t number, struct sl_str bytes);

/* Write a field unless it is 0 or empty, as in proto3. */
void sl_pb_varint_if(struct sl_pb_out *out, uint32_t number, uint64_t value);
void sl_pb_bytes_if(struct sl_pb_out *out, uint32_t number,
                    struct sl_str bytes);

/* Open a submessage. Fields until sl_pb_close() belong to it. Returns the mark
 * for sl_pb_close(). */
SL_MUST_USE size_t sl_pb_open(struct sl_pb_out *out, uint32_t number);
void sl_pb_close(struct sl_pb_out *out, size_t mark);

#endif
