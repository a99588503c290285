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

void fuzz_slots(struct sl_str text)
{
    struct sl_redis_redirect to;

    MUST(sl_cluster_slot_of(text) < SL_CLUSTER_SLOTS); /* (2) */
    if (text.len > 0 && !memchr(text.at, '{', text.len) &&
        !memchr(text.at, '}', text.len)) {
        char tagged[256];
        int len = snprintf(tagged, sizeof(tagged), "x{%.*s}y",
                           text.len < 200 ? (int)text.len : 200, text.at);

        if (text.len < 200 && !memchr(text.at, 0, text.len))
            MUST(sl_cluster_slot_of((struct sl_str){tagged, (size_t)len}) ==
                 sl_cluster_slot_of(text));
    }
    if (sl_redis_redirect_read(text, &to))
        must_be_place(&to.to);
    try_reply(text);
}
