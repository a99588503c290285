/* fuzz_slots.c -- what a Redis says of its cluster, of any bytes.
 *
 *   (1) Slots and ports are in range, names end and can be shown.
 *   (2) A key's slot is in range, and that of its tag alone.
 *   (3) What an error means is found without a crash.
 */
#include "fuzz.h"

#include "store/redis/redis_int.h"
#include "wire/resp.h"

static void must_be_place(const struct sl_redis_addr *place)
{
    size_t len = strnlen(place->name, SL_HOST);

    MUST(len < SL_HOST && place->port >= 1 && place->port <= 65535); /* (1) */
    for (size_t i = 0; i < len; i++)
        MUST(place->name[i] > ' ' && place->name[i] < 0x7f);
}

static bool on_range(void *ctx, unsigned from, unsigned to,
                     const struct sl_redis_addr *master)
{
    (void)ctx;
    MUST(from <= to && to < SL_CLUSTER_SLOTS);
    must_be_place(master);
    return true;
}

static void try_reply(struct sl_str text)
{
    struct sl_resp_reply reader;
    struct sl_redis_redirect to;
    struct sl_redis_addr place;
    struct sl_str error;

    sl_resp_reply_begin(&reader, SL_RESP_REPLY);
    if (sl_resp_reply_read(&reader, text) != SL_RESP_DONE)
        return;
    text.len = reader.used;
    (void)!sl_cluster_slots_read(text, on_range, NULL);
    if (sl_redis_master_read(text, &place))
        must_be_place(&place);
    MUST(sl_redis_error_of(text, &error) < SL_REDIS_ERRORS); /* (3) */
    if (sl_redis_redirect_read(error, &to)) {
        MUST(to.slot < SL_CLUSTER_SLOTS);
        must_be_place(&to.to);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct sl_str text = {(const char *)data, size};
    struct sl_redis_redirect to;

    MUST(sl_cluster_slot_of(text) < SL_CLUSTER_SLOTS); /* (2) */
    if (size > 0 && !memchr(data, '{', size) && !memchr(data, '}', size)) {
        char tagged[256];
        int len = snprintf(tagged, sizeof(tagged), "x{%.*s}y",
                           size < 200 ? (int)size : 200, (const char *)data);

        if (size < 200 && !memchr(data, 0, size))
            MUST(sl_cluster_slot_of((struct sl_str){tagged, (size_t)len}) ==
                 sl_cluster_slot_of(text));
    }
    if (sl_redis_redirect_read(text, &to))
        must_be_place(&to.to);
    try_reply(text);
    return 0;
}
