/* rls_answer.c -- the answer of Envoy's rate limit service.
 *
 * It is written as other implementations do: fields in the order of their
 * numbers, zeros left out.
 */
#include <string.h>

#include "wire/rls.c"
#include "wire/rls.h"

/* Tags, lengths and numbers of a status are less than this, its name apart;
 * those of a header and of the whole too. */
#define STATUS_BYTES 96
#define HEADER_BYTES 32

size_t sl_rls_response_size(const struct sl_rls_response *r)
{
    size_t size = HEADER_BYTES + r->body.len;

    for (unsigned i = 0; i < r->count; i++)
        size += STATUS_BYTES + r->statuses[i].name.len;
    for (unsigned i = 0; i < r->header_count; i++)
        size += HEADER_BYTES + r->headers[i].key.len + r->headers[i].value.len;
    return size;
}

/* ---- writing ---- */

static void write_limit(const struct sl_rls_status *s, struct sl_pb_out *out)
{
    size_t mark = sl_pb_open(out, STATUS_LIMIT);

    sl_pb_varint_if(out, LIMIT_REQUESTS, s->requests_per_unit);
    sl_pb_varint_if(out, LIMIT_UNIT, s->unit);
    sl_pb_bytes_if(out, LIMIT_NAME, s->name);
    sl_pb_close(out, mark);
}

static void write_status(const struct sl_rls_status *s, struct sl_pb_out *out)
{
    size_t mark;

    sl_pb_varint_if(out, STATUS_CODE, s->code);
    if (s->has_limit)
        write_limit(s, out);
    sl_pb_varint_if(out, STATUS_REMAINING, s->remaining);
    if (s->reset_in < 0)
        return;
    mark = sl_pb_open(out, STATUS_RESET);
    sl_pb_varint_if(out, DURATION_SECONDS, (uint64_t)(s->reset_in / SL_S));
    sl_pb_varint_if(out, DURATION_NANOS, (uint64_t)(s->reset_in % SL_S));
    sl_pb_close(out, mark);
}

/* Eight letters at once: bytes from 'A' to 'Z' get their bit 5. */
static uint64_t lower_eight(uint64_t x)
{
    const uint64_t ones = UINT64_C(0x0101010101010101);
    uint64_t low = x & (ones * 0x7f);
    uint64_t above = low + ones * (0x7f - 'Z');
    uint64_t from = low + ones * (0x80 - 'A');

    return x | (~x & (ones * 0x80) & (from ^ above)) >> 2;
}

static void lower(char *at)
{
    uint64_t word;

    memcpy(&word, at, sizeof(word));
    word = lower_eight(word);
    memcpy(at, &word, sizeof(word));
}

static char lower_one(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c + ('a' - 'A')) : c;
}

/* Envoy compares names of headers without case; others may not. The last eight
 * letters may be some that were lowered already, which does no harm. */
static void write_lower(uint32_t number, struct sl_str name,
                        struct sl_pb_out *out)
{
    char *at;

    sl_pb_bytes_if(out, number, name);
    if (out->full)
        return;
    at = out->bytes + out->len - name.len;
    if (name.len < 8) {
        for (size_t i = 0; i < name.len; i++)
            at[i] = lower_one(at[i]);
        return;
    }
    for (size_t i = 0; i + 8 < name.len; i += 8)
        lower(at + i);
    lower(at + name.len - 8);
}

void sl_rls_response_write(const struct sl_rls_response *r,
                           struct sl_pb_out *out)
{
    size_t mark;

    sl_pb_varint_if(out, RESPONSE_CODE, r->code);
    for (unsigned i = 0; i < r->count; i++) {
        mark = sl_pb_open(out, RESPONSE_STATUSES);
        write_status(&r->statuses[i], out);
        sl_pb_close(out, mark);
    }
    for (unsigned i = 0; i < r->header_count; i++) {
        mark = sl_pb_open(out, RESPONSE_HEADERS);
        write_lower(HEADER_KEY, r->headers[i].key, out);
        sl_pb_bytes_if(out, HEADER_VALUE, r->headers[i].value);
        sl_pb_close(out, mark);
    }
    sl_pb_bytes_if(out, RESPONSE_BODY, r->body);
}

/* ---- reading ---- */

static bool read_limit(struct sl_str bytes, struct sl_rls_status *s)
{
    struct sl_pb_field field;
    struct sl_pb pb;

    s->has_limit = true;
    sl_pb_begin(&pb, bytes);
    while (sl_pb_next(&pb, &field)) {
        if (sl_pb_is(&field, LIMIT_REQUESTS, SL_PB_VARINT))
            s->requests_per_unit = (uint32_t)field.value;
        else if (sl_pb_is(&field, LIMIT_UNIT, SL_PB_VARINT))
            s->unit = (enum sl_rls_unit)field.value;
        else if (sl_pb_is(&field, LIMIT_NAME, SL_PB_BYTES))
            s->name = field.bytes;
    }
    return !pb.bad;
}

/* Spans that do not fit are as long as can be. */
static bool read_reset(struct sl_str bytes, struct sl_rls_status *s)
{
    uint64_t seconds = s->reset_in < 0 ? 0 : (uint64_t)(s->reset_in / SL_S);
    uint64_t nanos = s->reset_in < 0 ? 0 : (uint64_t)(s->reset_in % SL_S);
    struct sl_pb_field field;
    struct sl_pb pb;

    sl_pb_begin(&pb, bytes);
    while (sl_pb_next(&pb, &field)) {
        if (sl_pb_is(&field, DURATION_SECONDS, SL_PB_VARINT))
            seconds = field.value;
        else if (sl_pb_is(&field, DURATION_NANOS, SL_PB_VARINT))
            nanos = field.value;
    }
    s->reset_in = SL_NS_MAX;
    if (seconds < (uint64_t)(SL_NS_MAX / SL_S) && nanos < (uint64_t)SL_S)
        s->reset_in = (sl_ns)seconds * SL_S + (sl_ns)nanos;
    return !pb.bad;
}

static bool read_status(struct sl_str bytes, struct sl_rls_status *s)
{
    struct sl_pb_field field;
    struct sl_pb pb;
    bool good = true;

    *s = (struct sl_rls_status){.reset_in = SL_NS_NONE};
    sl_pb_begin(&pb, bytes);
    while (good && sl_pb_next(&pb, &field)) {
        if (sl_pb_is(&field, STATUS_CODE, SL_PB_VARINT))
            s->code = (enum sl_rls_code)field.value;
        else if (sl_pb_is(&field, STATUS_LIMIT, SL_PB_BYTES))
            good = read_limit(field.bytes, s);
        else if (sl_pb_is(&field, STATUS_REMAINING, SL_PB_VARINT))
            s->remaining = (uint32_t)field.value;
        else if (sl_pb_is(&field, STATUS_RESET, SL_PB_BYTES))
            good = read_reset(field.bytes, s);
    }
    return good && !pb.bad;
}

static bool read_header(struct sl_str bytes, struct sl_rls_header *h)
{
    struct sl_pb_field field;
    struct sl_pb pb;

    *h = (struct sl_rls_header){
        {"", 0},
        {"", 0}
    };
    sl_pb_begin(&pb, bytes);
    while (sl_pb_next(&pb, &field)) {
        if (sl_pb_is(&field, HEADER_KEY, SL_PB_BYTES))
            h->key = field.bytes;
        else if (sl_pb_is(&field, HEADER_VALUE, SL_PB_BYTES))
            h->value = field.bytes;
    }
    return !pb.bad;
}

static int read_field(const struct sl_pb_field *field,
                      struct sl_rls_response *r)
{
    bool good = true;

    if (sl_pb_is(field, RESPONSE_CODE, SL_PB_VARINT)) {
        r->code = (enum sl_rls_code)field->value;
    } else if (sl_pb_is(field, RESPONSE_BODY, SL_PB_BYTES)) {
        r->body = field->bytes;
    } else if (sl_pb_is(field, RESPONSE_STATUSES, SL_PB_BYTES)) {
        if (r->count == SL_RLS_DESCRIPTORS)
            return SLUICE_EFULL;
        good = read_status(field->bytes, &r->statuses[r->count++]);
    } else if (sl_pb_is(field, RESPONSE_HEADERS, SL_PB_BYTES)) {
        if (r->header_count == SL_RLS_HEADERS)
            return SLUICE_EFULL;
        good = read_header(field->bytes, &r->headers[r->header_count++]);
    }
    return good ? 0 : SLUICE_EINVAL;
}

int sl_rls_response_read(struct sl_str bytes, struct sl_rls_response *ret)
{
    struct sl_pb_field field;
    struct sl_pb pb;
    int err = 0;

    ret->code = (enum sl_rls_code)0;
    ret->count = ret->header_count = 0;
    ret->body = (struct sl_str){"", 0};
    sl_pb_begin(&pb, bytes);
    while (!err && sl_pb_next(&pb, &field))
        err = read_field(&field, ret);
    return !err && pb.bad ? SLUICE_EINVAL : err;
}
