/* fuzz_pb.c -- messages of any bytes, as Envoy's and as such.
 *
 *   (1) Slices lie inside the message, in order, and every field of it is read
 *       or it is bad.
 *   (2) A request that was read is written and read again as the same one.
 *   (3) So is an answer, and it is no longer than its size says.
 *   (4) A refusal says why.
 */
#include "fuzz.h"

#include "wire/rls.h"

static struct sl_rls_request request, request_again;
static struct sl_rls_response response, response_again;
static char bytes[1 << 20];

static void check_fields(struct sl_str text)
{
    struct sl_pb_field field;
    struct sl_pb pb;
    const char *last = text.at;

    sl_pb_begin(&pb, text);
    while (sl_pb_next(&pb, &field)) {
        MUST(field.number > 0 && field.wire != SL_PB_GROUP);
        MUST(pb.at > last && pb.at <= text.at + text.len); /* (1) */
        if (field.wire == SL_PB_BYTES)
            MUST(field.bytes.at >= last &&
                 field.bytes.at + field.bytes.len == pb.at);
        last = pb.at;
    }
    MUST(pb.bad || pb.at == pb.end);
    MUST(!pb.bad || pb.why);
}

static struct sl_str written(const struct sl_pb_out *out)
{
    MUST(!out->full);
    return (struct sl_str){out->bytes, out->len};
}

static void check_same(const struct sl_rls_descriptor *a,
                       const struct sl_rls_descriptor *b)
{
    MUST(a->entry_count == b->entry_count && a->has_limit == b->has_limit &&
         a->requests_per_unit == b->requests_per_unit && a->unit == b->unit &&
         a->has_hits == b->has_hits && a->hits == b->hits &&
         a->negative == b->negative);
    for (unsigned i = 0; i < a->entry_count; i++)
        MUST(sl_str_eq(a->entries[i].key, b->entries[i].key) &&
             sl_str_eq(a->entries[i].value, b->entries[i].value));
}

static void check_request(struct sl_str text)
{
    struct sl_pb_out out = {.bytes = bytes, .size = sizeof(bytes)};
    struct sl_diag diag = {.sentence = ""};
    int err = sl_rls_request_read(text, &request, &diag);

    if (err) {
        MUST(err == SLUICE_EINVAL || err == SLUICE_EFULL);
        must_explain(&diag, text.len); /* (4) */
        return;
    }
    sl_rls_request_write(&request, &out);
    MUST(sl_rls_request_read(written(&out), &request_again, NULL) == 0);
    MUST(sl_str_eq(request.domain, request_again.domain) &&
         request.count == request_again.count &&
         request.hits == request_again.hits); /* (2) */
    for (unsigned i = 0; i < request.count; i++)
        check_same(&request.descriptors[i], &request_again.descriptors[i]);
}

static void check_response(struct sl_str text)
{
    struct sl_pb_out out = {.bytes = bytes, .size = sizeof(bytes)};
    struct sl_str first;

    if (sl_rls_response_read(text, &response))
        return;
    sl_rls_response_write(&response, &out);
    first = written(&out);
    MUST(first.len <= sl_rls_response_size(&response)); /* (3) */
    MUST(sl_rls_response_read(first, &response_again) == 0);
    out = (struct sl_pb_out){.bytes = bytes + first.len,
                             .size = sizeof(bytes) - first.len};
    sl_rls_response_write(&response_again, &out);
    MUST(sl_str_eq(first, written(&out)));
}

void fuzz_pb(struct sl_str text)
{
    check_fields(text);
    check_request(text);
    check_response(text);
}
