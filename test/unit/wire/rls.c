/* rls.c -- Envoy's messages; test/clients/rls_cross.py asks protobuf too. */
#include "wire/rls.h"

#include "check.h"

static struct sl_rls_request request;
static struct sl_rls_response response;
static char bytes[1 << 17];

static struct sl_str written(struct sl_pb_out *out)
{
    CHECK(!out->full);
    return (struct sl_str){out->bytes, out->len};
}

static int read_request(struct sl_str text, const char **why)
{
    static struct sl_diag diag;
    int err;

    memset(&diag, 0, sizeof(diag));
    err = sl_rls_request_read(text, &request, &diag);
    *why = diag.sentence;
    return err;
}

/* The bytes of an answer that another implementation has read. */
TEST(fixture)
{
    static const unsigned char want[] = {
        0x08, 0x02, 0x12, 0x0f, 0x08, 0x02, 0x12, 0x07, 0x08, 0x05, 0x10,
        0x02, 0x1a, 0x01, 0x70, 0x22, 0x02, 0x08, 0x0c, 0x1a, 0x11, 0x0a,
        0x0b, 0x72, 0x65, 0x74, 0x72, 0x79, 0x2d, 0x61, 0x66, 0x74, 0x65,
        0x72, 0x12, 0x02, 0x31, 0x32, 0x2a, 0x02, 0x7b, 0x7d};
    /* The same with a remaining of 0 that was written, behind the reset. */
    static const unsigned char other[] = {
        0x08, 0x02, 0x12, 0x11, 0x08, 0x02, 0x12, 0x07, 0x08, 0x05, 0x10,
        0x02, 0x1a, 0x01, 0x70, 0x22, 0x02, 0x08, 0x0c, 0x18, 0x00, 0x1a,
        0x11, 0x0a, 0x0b, 0x72, 0x65, 0x74, 0x72, 0x79, 0x2d, 0x61, 0x66,
        0x74, 0x65, 0x72, 0x12, 0x02, 0x31, 0x32, 0x2a, 0x02, 0x7b, 0x7d};
    struct sl_pb_out out = {.bytes = bytes, .size = sizeof(bytes)};

    CASE("an answer as others write it");
    CHECK_EQ(
        sl_rls_response_read(
            (struct sl_str){(const char *)other, sizeof(other)}, &response),
        0);
    CHECK_EQ(response.code, SL_RLS_OVER_LIMIT);
    CHECK_EQ(response.count, 1);
    CHECK_EQ(response.statuses[0].requests_per_unit, 5);
    CHECK_EQ(response.statuses[0].unit, SL_RLS_MINUTE);
    CHECK_EQ(response.statuses[0].reset_in, 12 * SL_S);
    CHECK(sl_str_eq(response.statuses[0].name, SL_STR("p")));
    CHECK_EQ(response.header_count, 1);
    CHECK(sl_str_eq(response.body, SL_STR("{}")));
    sl_rls_response_write(&response, &out);
    CHECK(out.len <= sl_rls_response_size(&response));
    CHECK(sl_str_eq(written(&out),
                    (struct sl_str){(const char *)want, sizeof(want)}));
}

TEST(merging)
{
    /* The limit comes as {requests 7} and then as {unit 2}; hits as {5} and
     * then as {}; the domain twice. */
    static const char text[] = "\x0a\x01"
                               "a"
                               "\x12\x13"
                               "\x0a\x06\x0a\x01k\x12\x01v"
                               "\x12\x02\x08\x07"
                               "\x1a\x02\x08\x05"
                               "\x12\x02\x10\x02"
                               "\x1a"; /* and its length of 0 */
    char message[64];
    const char *why;

    CASE("submessages that come twice are merged; the last scalar counts");
    memcpy(message, text, sizeof(text));
    message[4] = 0x16;
    message[sizeof(text) - 1] = 0;
    memcpy(message + sizeof(text), "\x0a\x01z", 3);
    CHECK_EQ(read_request((struct sl_str){message, sizeof(text) + 3}, &why), 0);
    CHECK(sl_str_eq(request.domain, SL_STR("z")));
    CHECK_EQ(request.descriptors[0].requests_per_unit, 7);
    CHECK_EQ(request.descriptors[0].unit, 2);
    CHECK(request.descriptors[0].has_hits);
    CHECK_EQ(request.descriptors[0].hits, 5);
}

static void refuses(const char *what, struct sl_str text, const char *sentence)
{
    const char *why;

    CASE(what);
    CHECK_EQ(read_request(text, &why), SLUICE_EINVAL);
    CHECK_STR(why, sentence);
}

TEST(refusals)
{
    refuses("no domain", SL_STR("\x12\x08\x0a\x06\x0a\x01k\x12\x01v"),
            "rate limit domain must not be empty");
    refuses("no descriptor",
            SL_STR("\x0a\x01"
                   "d"),
            "rate limit descriptor list must not be empty");
    refuses("no key",
            SL_STR("\x0a\x01"
                   "d\x12\x05\x0a\x03\x12\x01v"),
            "an entry has no key");
    refuses("a broken message",
            SL_STR("\x0a\x05"
                   "d"),
            "not a RateLimitRequest: a field is longer than the "
            "message");
    refuses("a broken descriptor",
            SL_STR("\x0a\x01"
                   "d\x12\x01\x0c"),
            "not a RateLimitRequest: a group ends that did not begin");
    refuses("a key that is no text",
            SL_STR("\x0a\x01"
                   "d\x12\x05\x0a\x03\x0a\x01\xff"),
            "the key of an entry is not valid UTF-8");
}

/* `descriptors` of `entries` each. */
static int ask_with(unsigned descriptors, unsigned entries, const char **why)
{
    struct sl_pb_out out = {.bytes = bytes, .size = sizeof(bytes)};

    sl_pb_bytes(&out, 1, SL_STR("d"));
    for (unsigned d = 0; d < descriptors; d++) {
        size_t mark = sl_pb_open(&out, 2);

        for (unsigned e = 0; e < entries; e++) {
            size_t inner = sl_pb_open(&out, 1);

            sl_pb_bytes(&out, 1, SL_STR("k"));
            sl_pb_close(&out, inner);
        }
        sl_pb_close(&out, mark);
    }
    return read_request(written(&out), why);
}

TEST(ceilings)
{
    const char *why;

    CASE("as many as may be, and one more");
    CHECK_EQ(ask_with(SL_RLS_DESCRIPTORS, 1, &why), 0);
    CHECK_EQ(request.count, SL_RLS_DESCRIPTORS);
    CHECK_EQ(ask_with(SL_RLS_DESCRIPTORS + 1, 1, &why), SLUICE_EFULL);
    CHECK_STR(why, "the request has more than 64 descriptors");
    CHECK_EQ(ask_with(2, SL_RLS_ENTRIES, &why), 0);
    CHECK_EQ(request.descriptors[1].entries - request.entries, SL_RLS_ENTRIES);
    CHECK_EQ(ask_with(1, SL_RLS_ENTRIES + 1, &why), SLUICE_EFULL);
    CHECK_STR(why, "a descriptor has more than 32 entries");
    CHECK_EQ(ask_with(17, SL_RLS_ENTRIES, &why), SLUICE_EFULL);
    CHECK_STR(why, "the descriptors have more than 512 entries together");
}

/* An answer as large as it can be fits into what its size says. */
TEST(size)
{
    struct sl_pb_out out = {.bytes = bytes, .size = sizeof(bytes)};

    CASE("no answer is longer than its size says");
    memset(&response, 0xff, sizeof(response));
    response.code = SL_RLS_OVER_LIMIT;
    response.count = SL_RLS_DESCRIPTORS;
    response.header_count = SL_RLS_HEADERS;
    response.body = SL_STR("body");
    for (unsigned i = 0; i < SL_RLS_DESCRIPTORS; i++)
        response.statuses[i] = (struct sl_rls_status){
            .code = (enum sl_rls_code)INT32_MAX,
            .has_limit = true,
            .requests_per_unit = UINT32_MAX,
            .unit = (enum sl_rls_unit)INT32_MAX,
            .name = SL_STR("a name"),
            .remaining = UINT32_MAX,
            .reset_in = SL_NS_MAX,
        };
    for (unsigned i = 0; i < SL_RLS_HEADERS; i++)
        response.headers[i] =
            (struct sl_rls_header){SL_STR("key"), SL_STR("value")};
    sl_rls_response_write(&response, &out);
    CHECK(!out.full);
    CHECK(out.len <= sl_rls_response_size(&response));
}

TEST(lower)
{
    struct sl_pb_out out = {.bytes = bytes, .size = sizeof(bytes)};

    CASE("names of headers are written in lower case, and nothing else is");
    memset(&response, 0, sizeof(response));
    response.code = SL_RLS_OK;
    response.header_count = 1;
    response.headers[0] =
        (struct sl_rls_header){SL_STR("X-[AZaz@]\xc3\x89"), SL_STR("AbC")};
    sl_rls_response_write(&response, &out);
    CHECK_EQ(sl_rls_response_read(written(&out), &response), 0);
    CHECK(sl_str_eq(response.headers[0].key, SL_STR("x-[azaz@]\xc3\x89")));
    CHECK(sl_str_eq(response.headers[0].value, SL_STR("AbC")));
}

TEST(every_letter)
{
    char name[11];

    CASE("each byte at each place becomes what it is in lower case");
    for (int byte = 0; byte < 256; byte++)
        for (size_t at = 0; at < sizeof(name); at++) {
            struct sl_pb_out out = {.bytes = bytes, .size = sizeof(bytes)};
            bool upper = byte >= 'A' && byte <= 'Z';

            memset(name, 'M', sizeof(name));
            name[at] = (char)byte;
            response.headers[0].key = (struct sl_str){name, sizeof(name)};
            sl_rls_response_write(&response, &out);
            memset(name, 'm', sizeof(name));
            name[at] = (char)(upper ? byte + 32 : byte);
            CHECK(memmem(bytes, out.len, name, sizeof(name)) != NULL);
        }
}

TEST(units)
{
    CASE("units and their lengths");
    CHECK_EQ(sl_rls_unit_length(SL_RLS_MINUTE), SL_MIN);
    CHECK_EQ(sl_rls_unit_length(SL_RLS_YEAR), 365 * SL_DAY);
    CHECK_EQ(sl_rls_unit_length(8), 0);
    CHECK_EQ(sl_rls_unit_of(SL_WEEK), SL_RLS_WEEK);
    CHECK_EQ(sl_rls_unit_of(30 * SL_DAY), SL_RLS_MONTH);
    CHECK_EQ(sl_rls_unit_of(5 * SL_MIN), SL_RLS_UNKNOWN);
    CHECK_EQ(sl_rls_unit_of(0), SL_RLS_UNKNOWN);
}

CHECK_MAIN()
