/* rls.c -- the request of Envoy's rate limit service. */
#include "wire/rls.h"

#include "wire/rls_fields.h"

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

/* ---- reading ---- */

static int refuse_message(const struct sl_pb *pb, struct sl_diag *diag)
{
    return sl_refuse(diag, SLUICE_EINVAL, "not a RateLimitRequest: %s",
                     pb->why);
}

/* A text that is to be one. */
static int take_text(const struct sl_pb_field *field, const char *what,
                     struct sl_str *ret, struct sl_diag *diag)
{
    if (!sl_pb_is_utf8(field->bytes))
        return sl_refuse(diag, SLUICE_EINVAL, "%s is not valid UTF-8", what);
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
        err = sl_refuse(diag, SLUICE_EINVAL, "an entry has no key");
    return err;
}

/* What came before stays, as a submessage that comes twice is merged. */
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
        return sl_refuse(diag, SLUICE_EFULL,
                         "a descriptor has more than %d entries",
                         SL_RLS_ENTRIES);
    if (r->entry_count == SL_RLS_ALL)
        return sl_refuse(diag, SLUICE_EFULL,
                         "the descriptors have more than %d entries together",
                         SL_RLS_ALL);
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
        return sl_refuse(diag, SLUICE_EFULL,
                         "the request has more than %d descriptors",
                         SL_RLS_DESCRIPTORS);
    return read_descriptor(r, bytes, diag);
}

static int check(const struct sl_rls_request *r, struct sl_diag *diag)
{
    if (r->domain.len == 0)
        return sl_refuse(diag, SLUICE_EINVAL,
                         "rate limit domain must not be empty");
    if (r->count == 0)
        return sl_refuse(diag, SLUICE_EINVAL,
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

/* ---- writing ---- */

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
