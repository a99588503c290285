/* pb.c -- protocol buffers, read and written a field at a time. */
#include "wire/pb.h"

#include <string.h>

#include "wire/json.h"

#define VARINT_BYTES 10
#define NUMBER_MAX   ((UINT32_C(1) << 29) - 1)

/* ---- reading ---- */

static bool refuse(struct sl_pb *pb, const char *why)
{
    pb->bad = true;
    pb->why = why;
    return false;
}

void sl_pb_begin(struct sl_pb *pb, struct sl_str text)
{
    *pb = (struct sl_pb){.at = text.at, .end = text.at};
    if (text.len > SL_PB_MOST)
        (void)refuse(pb, "the message is too long");
    else if (text.len > 0)
        pb->end += text.len;
}

/* Bits above the 64th are dropped, as other readers do. */
static bool read_varint(struct sl_pb *pb, uint64_t *ret)
{
    uint64_t value = 0;

    for (unsigned i = 0; i < VARINT_BYTES; i++) {
        uint64_t byte;

        if (pb->at == pb->end)
            return refuse(pb, "the message ends inside a number");
        byte = (unsigned char)*pb->at++;
        value |= (byte & 0x7f) << (7 * i);
        if (byte < 0x80) {
            *ret = value;
            return true;
        }
    }
    return refuse(pb, "a number has more than ten bytes");
}

static bool read_fixed(struct sl_pb *pb, unsigned size, uint64_t *ret)
{
    uint64_t value = 0;

    if ((size_t)(pb->end - pb->at) < size)
        return refuse(pb, "the message ends inside a number");
    for (unsigned i = 0; i < size; i++)
        value |= (uint64_t)(unsigned char)pb->at[i] << (8 * i);
    pb->at += size;
    *ret = value;
    return true;
}

static bool read_bytes(struct sl_pb *pb, struct sl_str *ret)
{
    uint64_t len;

    if (!read_varint(pb, &len))
        return false;
    if (len > (uint64_t)(pb->end - pb->at))
        return refuse(pb, "a field is longer than the message");
    *ret = (struct sl_str){pb->at, (size_t)len};
    pb->at += len;
    return true;
}

/* A tag has 32 bits. Longer tags are refused, because readers differ on
 * them. */
static bool read_tag(struct sl_pb *pb, struct sl_pb_field *ret)
{
    uint64_t tag;

    if (!read_varint(pb, &tag))
        return false;
    if (tag > UINT32_MAX || tag >> 3 == 0 || tag >> 3 > NUMBER_MAX)
        return refuse(pb, "a field has an invalid number");
    ret->number = (uint32_t)(tag >> 3);
    ret->wire = (enum sl_pb_wire)(tag & 7);
    return true;
}

static bool read_value(struct sl_pb *pb, struct sl_pb_field *ret)
{
    ret->value = 0;
    ret->bytes = (struct sl_str){NULL, 0};
    switch (ret->wire) {
    case SL_PB_VARINT:
        return read_varint(pb, &ret->value);
    case SL_PB_FIXED64:
        return read_fixed(pb, 8, &ret->value);
    case SL_PB_FIXED32:
        return read_fixed(pb, 4, &ret->value);
    case SL_PB_BYTES:
        return read_bytes(pb, &ret->bytes);
    case SL_PB_GROUP:
    case SL_PB_GROUP_END:
        break;
    }
    return refuse(pb, "a field has an invalid wire type");
}

/* Skip to the end of the open group, including nested groups. */
static bool skip_group(struct sl_pb *pb, uint32_t number)
{
    uint32_t open[SL_PB_DEPTH];
    unsigned depth = 0;
    struct sl_pb_field field;

    open[depth++] = number;
    while (depth > 0) {
        if (pb->at == pb->end)
            return refuse(pb, "the message ends inside a group");
        if (!read_tag(pb, &field))
            return false;
        if (field.wire == SL_PB_GROUP) {
            if (depth == SL_PB_DEPTH)
                return refuse(pb, "groups are nested too deeply");
            open[depth++] = field.number;
        } else if (field.wire == SL_PB_GROUP_END) {
            if (open[--depth] != field.number)
                return refuse(pb, "a group ends that did not begin");
        } else if (!read_value(pb, &field)) {
            return false;
        }
    }
    return true;
}

bool sl_pb_next(struct sl_pb *pb, struct sl_pb_field *ret)
{
    while (!pb->bad && pb->at != pb->end) {
        if (!read_tag(pb, ret))
            return false;
        if (ret->wire == SL_PB_GROUP_END)
            return refuse(pb, "a group ends that did not begin");
        if (ret->wire != SL_PB_GROUP)
            return read_value(pb, ret);
        if (!skip_group(pb, ret->number))
            return false;
    }
    return false;
}

bool sl_pb_is_utf8(struct sl_str text)
{
    while (text.len > 0) {
        size_t len = (unsigned char)text.at[0] < 0x80 ? 1 : sl_json_utf8(text);

        if (len == 0)
            return false;
        text = sl_str_from(text, len);
    }
    return true;
}

/* ---- writing ---- */

static unsigned put_varint(char *to, uint64_t value)
{
    unsigned len = 0;

    while (value >= 0x80) {
        to[len++] = (char)(value | 0x80);
        value >>= 7;
    }
    to[len++] = (char)value;
    return len;
}

static void add(struct sl_pb_out *out, const char *bytes, size_t len)
{
    if (out->full || out->size - out->len < len) {
        out->full = true;
        return;
    }
    if (len > 0)
        memcpy(out->bytes + out->len, bytes, len);
    out->len += len;
}

/* The common case is below 128: tags, lengths, small numbers. */
static inline void add_varint(struct sl_pb_out *out, uint64_t value)
{
    char bytes[VARINT_BYTES];

    if (value < 0x80 && out->len < out->size && !out->full)
        out->bytes[out->len++] = (char)value;
    else
        add(out, bytes, put_varint(bytes, value));
}

static void add_tag(struct sl_pb_out *out, uint32_t number,
                    enum sl_pb_wire wire)
{
    add_varint(out, (uint64_t)number << 3 | wire);
}

void sl_pb_varint(struct sl_pb_out *out, uint32_t number, uint64_t value)
{
    add_tag(out, number, SL_PB_VARINT);
    add_varint(out, value);
}

void sl_pb_bytes(struct sl_pb_out *out, uint32_t number, struct sl_str bytes)
{
    add_tag(out, number, SL_PB_BYTES);
    add_varint(out, bytes.len);
    add(out, bytes.at, bytes.len);
}

void sl_pb_varint_if(struct sl_pb_out *out, uint32_t number, uint64_t value)
{
    if (value != 0)
        sl_pb_varint(out, number, value);
}

void sl_pb_bytes_if(struct sl_pb_out *out, uint32_t number, struct sl_str bytes)
{
    if (bytes.len > 0)
        sl_pb_bytes(out, number, bytes);
}

/* Most submessages are shorter than 128 bytes: one byte is reserved for the
 * length, and longer ones are moved. */
size_t sl_pb_open(struct sl_pb_out *out, uint32_t number)
{
    add_tag(out, number, SL_PB_BYTES);
    add(out, "", 1);
    return out->len;
}

void sl_pb_close(struct sl_pb_out *out, size_t mark)
{
    char bytes[VARINT_BYTES];
    size_t inside = out->len - mark;
    unsigned len;

    if (inside < 0x80 && !out->full) {
        out->bytes[mark - 1] = (char)inside;
        return;
    }
    len = put_varint(bytes, inside);
    if (out->full || out->size - out->len < len - 1) {
        out->full = true;
        return;
    }
    memmove(out->bytes + mark + len - 1, out->bytes + mark, inside);
    memcpy(out->bytes + mark - 1, bytes, len);
    out->len += len - 1;
}
