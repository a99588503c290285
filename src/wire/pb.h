/* pb.h -- protocol buffers, read and written a field at a time.
 *
 * A message is a row of fields, and who reads it says which of them he knows:
 *
 *     sl_pb_begin() --> sl_pb_next() --> a field --> ... --> false: the end,
 *                                                      or trouble (`bad`)
 *
 * A submessage is the bytes of a field, read by another reader over them. As
 * the specification has it: fields come in any order, the last of several
 * values of a scalar counts (the caller overwrites), a submessage that comes
 * twice is merged (the caller reads both into one), and what is not known is
 * skipped, groups too. Nothing is allocated and nothing is copied; slices
 * point into the text.
 *
 * Bounds. A message is at most SL_PB_MOST long, and groups, the only thing
 * that nests without a length, at most SL_PB_DEPTH deep.
 *
 * Writing goes into memory that the caller has; what finds no room there sets
 * `full`, and from then on nothing is written. A submessage is opened, written
 * and closed: its length comes in front of it when it is known.
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
    SL_PB_GROUP = 3, /* begins; never handed out */
    SL_PB_GROUP_END = 4,
    SL_PB_FIXED32 = 5,
};

struct sl_pb {
    const char *at, *end;
    const char *why; /* of `bad`: a short English sentence */
    bool bad;
};

struct sl_pb_field {
    uint32_t number;
    enum sl_pb_wire wire;
    uint64_t value;      /* VARINT, FIXED32, FIXED64 */
    struct sl_str bytes; /* BYTES */
};

void sl_pb_begin(struct sl_pb *pb, struct sl_str text);

/* The next field. False at the end, and in trouble: then `bad` is set. */
SL_MUST_USE bool sl_pb_next(struct sl_pb *pb, struct sl_pb_field *ret);

/* Is the field number `number`, of that type? One of another type is as
 * unknown as one of another number. */
static inline bool sl_pb_is(const struct sl_pb_field *field, uint32_t number,
                            enum sl_pb_wire wire)
{
    return field->number == number && field->wire == wire;
}

/* Is the text UTF-8, as that of a `string` must be? */
bool sl_pb_is_utf8(struct sl_str text);

struct sl_pb_out {
    char *bytes;
    size_t len, size;
    bool full;
};

void sl_pb_varint(struct sl_pb_out *out, uint32_t number, uint64_t value);
void sl_pb_bytes(struct sl_pb_out *out, uint32_t number, struct sl_str bytes);

/* The same, left out when it is 0 or empty, as proto3 does. */
void sl_pb_varint_if(struct sl_pb_out *out, uint32_t number, uint64_t value);
void sl_pb_bytes_if(struct sl_pb_out *out, uint32_t number,
                    struct sl_str bytes);

/* Open a submessage; what is written until it is closed is its inside. The
 * mark is for sl_pb_close(). */
SL_MUST_USE size_t sl_pb_open(struct sl_pb_out *out, uint32_t number);
void sl_pb_close(struct sl_pb_out *out, size_t mark);

#endif
