/* rls.c -- the messages of Envoy's rate limit service. */
#include "wire/rls.h"

#include <string.h>

enum {
    REQUEST_DOMAIN = 1,
    REQUEST_DESCRIPTORS = 2,
    REQUEST_HITS = 3,

    DESCRIPTOR_ENTRIES = 1,
    DESCRIPTOR_LIMIT = 2,
    DESCRIPTOR_HITS = 3, /* google.protobuf.UInt64Value */
    DESCRIPTOR_NEGATIVE = 4,

    ENTRY_KEY = 1,
    ENTRY_VALUE = 2,

    OVERRIDE_REQUESTS = 1,
    OVERRIDE_UNIT = 2,

    WRAPPED_VALUE = 1,

    RESPONSE_CODE = 1,
    RESPONSE_STATUSES = 2,
    RESPONSE_HEADERS = 3,
    RESPONSE_BODY = 5,

    STATUS_CODE = 1,
    STATUS_LIMIT = 2,
    STATUS_REMAINING = 3,
    STATUS_RESET = 4, /* google.protobuf.Duration */

    LIMIT_REQUESTS = 1,
    LIMIT_UNIT = 2,
    LIMIT_NAME = 3,

    DURATION_SECONDS = 1,
    DURATION_NANOS = 2,

    HEADER_KEY = 1,
    HEADER_VALUE = 2,
};

/* ---- the request ---- */

static const sl_ns units[] = {
    [SL_RLS_UNKNOWN] = 0,         [SL_RLS_SECOND] = SL_S,
    [SL_RLS_MINUTE] = SL_MIN,     [SL_RLS_HOUR] = SL_HOUR,
    [SL_RLS_DAY] = SL_DAY,        [SL_RLS_MONTH] = 30 * SL_DAY,
    [SL_RLS_YEAR] = 365 * SL_DAY, [SL_RLS_WEEK] = SL_WEEK,
};

sl_ns sl_rls_unit_length(uint32_t unit)
{
    return unit < SL_LEN(units) ? units[unit] : 0;
}

enum sl_rls_unit sl_rls_unit_of(sl_ns length)
{
    for (unsigned i = 1; i < SL_LEN(units); i++)
        if (units[i] == length)
            return (enum sl_rls_unit)i;
    return SL_RLS_UNKNOWN;
}

/* ---- the request: reading ---- */

static int refuse_message(const struct sl_pb *pb, struct sl_diag *diag)
{
    return sl_diag_error(diag, SLUICE_EINVAL, "not a RateLimitRequest: %s",
                         pb->why);
}

/* Read a text; false unless it is UTF-8. */
static int take_text(const struct sl_pb_field *field, const char *what,
                     struct sl_str *ret, struct sl_diag *diag)
{
    if (!sl_pb_is_utf8(field->bytes))
        return sl_diag_error(diag, SLUICE_EINVAL, "%s is not valid UTF-8",
                             what);
    *ret = field->bytes;
    return 0;
}

static int read_entry(struct sl_str bytes, struct sl_rls_entry *ret,
                      struct sl_diag *diag)
{
    struct sl_pb_field field;
    struct sl_pb pb;
    int err = 0;

    *ret = (struct sl_rls_entry){
        {"", 0},
        {"", 0}
    };
    sl_pb_begin(&pb, bytes);
    while (!err && sl_pb_next(&pb, &field)) {
        if (sl_pb_is(&field, ENTRY_KEY, SL_PB_BYTES))
            err = take_text(&field, "the key of an entry", &ret->key, diag);
        else if (sl_pb_is(&field, ENTRY_VALUE, SL_PB_BYTES))
            err = take_text(&field, "the value of an entry", &ret->value, diag);
    }
    if (!err && pb.bad)
        err = refuse_message(&pb, diag);
    if (!err && ret->key.len == 0)
        err = sl_diag_error(diag, SLUICE_EINVAL, "an entry has no key");
    return err;
}

/* Earlier fields stay: repeated submessages are merged. */
static int read_limit(struct sl_str bytes, struct sl_rls_descriptor *d,
                      struct sl_diag *diag)
{
    struct sl_pb_field field;
    struct sl_pb pb;

    d->has_limit = true;
    sl_pb_begin(&pb, bytes);
    while (sl_pb_next(&pb, &field)) {
        if (sl_pb_is(&field, OVERRIDE_REQUESTS, SL_PB_VARINT))
            d->requests_per_unit = (uint32_t)field.value;
        else if (sl_pb_is(&field, OVERRIDE_UNIT, SL_PB_VARINT))
            d->unit = (uint32_t)field.value;
    }
    return pb.bad ? refuse_message(&pb, diag) : 0;
}

static int read_hits(struct sl_str bytes, struct sl_rls_descriptor *d,
                     struct sl_diag *diag)
{
    struct sl_pb_field field;
    struct sl_pb pb;

    d->has_hits = true;
    sl_pb_begin(&pb, bytes);
    while (sl_pb_next(&pb, &field))
        if (sl_pb_is(&field, WRAPPED_VALUE, SL_PB_VARINT))
            d->hits = field.value;
    return pb.bad ? refuse_message(&pb, diag) : 0;
}

static int add_entry(struct sl_rls_request *r, struct sl_rls_descriptor *d,
                     struct sl_str bytes, struct sl_diag *diag)
{
    int err;

    if (d->entry_count == SL_RLS_ENTRIES)
        return sl_diag_error(diag, SLUICE_EFULL,
                             "a descriptor has more than %d entries",
                             SL_RLS_ENTRIES);
    if (r->entry_count == SL_RLS_ALL)
        return sl_diag_error(
            diag, SLUICE_EFULL,
            "the descriptors have more than %d entries together", SL_RLS_ALL);
    err = read_entry(bytes, &r->entries[r->entry_count], diag);
    if (!err) {
        d->entry_count++;
        r->entry_count++;
    }
    return err;
}

static int read_descriptor(struct sl_rls_request *r, struct sl_str bytes,
                           struct sl_diag *diag)
{
    struct sl_rls_descriptor *d = &r->descriptors[r->count];
    struct sl_pb_field field;
    struct sl_pb pb;
    int err = 0;

    *d = (struct sl_rls_descriptor){.entries = r->entries + r->entry_count};
    sl_pb_begin(&pb, bytes);
    while (!err && sl_pb_next(&pb, &field)) {
        if (sl_pb_is(&field, DESCRIPTOR_ENTRIES, SL_PB_BYTES))
            err = add_entry(r, d, field.bytes, diag);
        else if (sl_pb_is(&field, DESCRIPTOR_LIMIT, SL_PB_BYTES))
            err = read_limit(field.bytes, d, diag);
        else if (sl_pb_is(&field, DESCRIPTOR_HITS, SL_PB_BYTES))
            err = read_hits(field.bytes, d, diag);
        else if (sl_pb_is(&field, DESCRIPTOR_NEGATIVE, SL_PB_VARINT))
            d->negative = field.value != 0;
    }
    if (!err && pb.bad)
        err = refuse_message(&pb, diag);
    r->count++;
    return err;
}

static int add_descriptor(struct sl_rls_request *r, struct sl_str bytes,
                          struct sl_diag *diag)
{
    if (r->count == SL_RLS_DESCRIPTORS)
        return sl_diag_error(diag, SLUICE_EFULL,
                             "the request has more than %d descriptors",
                             SL_RLS_DESCRIPTORS);
    return read_descriptor(r, bytes, diag);
}

static int check(const struct sl_rls_request *r, struct sl_diag *diag)
{
    if (r->domain.len == 0)
        return sl_diag_error(diag, SLUICE_EINVAL,
                             "rate limit domain must not be empty");
    if (r->count == 0)
        return sl_diag_error(diag, SLUICE_EINVAL,
                             "rate limit descriptor list must not be empty");
    return 0;
}

int sl_rls_request_read(struct sl_str bytes, struct sl_rls_request *ret,
                        struct sl_diag *diag)
{
    struct sl_pb_field field;
    struct sl_pb pb;
    int err = 0;

    ret->domain = (struct sl_str){"", 0};
    ret->count = ret->entry_count = 0;
    ret->hits = 0;
    sl_pb_begin(&pb, bytes);
    while (!err && sl_pb_next(&pb, &field)) {
        if (sl_pb_is(&field, REQUEST_DOMAIN, SL_PB_BYTES))
            err = take_text(&field, "the domain", &ret->domain, diag);
        else if (sl_pb_is(&field, REQUEST_DESCRIPTORS, SL_PB_BYTES))
            err = add_descriptor(ret, field.bytes, diag);
        else if (sl_pb_is(&field, REQUEST_HITS, SL_PB_VARINT))
            ret->hits = (uint32_t)field.value;
    }
    if (!err && pb.bad)
        err = refuse_message(&pb, diag);
    return err ? err : check(ret, diag);
}

/* ---- the request: writing ---- */

static void write_descriptor(const struct sl_rls_descriptor *d,
                             struct sl_pb_out *out)
{
    size_t mark;

    for (unsigned i = 0; i < d->entry_count; i++) {
        mark = sl_pb_open(out, DESCRIPTOR_ENTRIES);
        sl_pb_bytes_if(out, ENTRY_KEY, d->entries[i].key);
        sl_pb_bytes_if(out, ENTRY_VALUE, d->entries[i].value);
        sl_pb_close(out, mark);
    }
    if (d->has_limit) {
        mark = sl_pb_open(out, DESCRIPTOR_LIMIT);
        sl_pb_varint_if(out, OVERRIDE_REQUESTS, d->requests_per_unit);
        sl_pb_varint_if(out, OVERRIDE_UNIT, d->unit);
        sl_pb_close(out, mark);
    }
    if (d->has_hits) {
        mark = sl_pb_open(out, DESCRIPTOR_HITS);
        sl_pb_varint_if(out, WRAPPED_VALUE, d->hits);
        sl_pb_close(out, mark);
    }
    sl_pb_varint_if(out, DESCRIPTOR_NEGATIVE, d->negative);
}

void sl_rls_request_write(const struct sl_rls_request *request,
                          struct sl_pb_out *out)
{
    sl_pb_bytes_if(out, REQUEST_DOMAIN, request->domain);
    for (unsigned i = 0; i < request->count; i++) {
        size_t mark = sl_pb_open(out, REQUEST_DESCRIPTORS);

        write_descriptor(&request->descriptors[i], out);
        sl_pb_close(out, mark);
    }
    sl_pb_varint_if(out, REQUEST_HITS, request->hits);
}

/* ---- the answer ----
 *
 * It is written as other implementations do: fields in the order of their
 * numbers, zeros left out.
 */

/* The tags, lengths and numbers of a status need less than this, without its
 * name; likewise for a header and for the whole. */
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

/* ---- the answer: writing ---- */

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

/* Convert eight letters at once: bytes from 'A' to 'Z' get bit 5. */
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

/* Envoy compares header names without case; other proxies may not. The last
 * eight letters may include converted ones, which is harmless. */
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

/* ---- the answer: reading ---- */

static bool answer_read_limit(struct sl_str bytes, struct sl_rls_status *s)
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

/* A duration that does not fit becomes the maximum. */
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
            good = answer_read_limit(field.bytes, s);
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
