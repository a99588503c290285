/* fuzz_script.c -- what a Redis answers to our script, of any bytes.
 *
 *   (1) What is read of a take, a lease or a hold is in range, or refused.
 *   (2) A hold has no more parts than a set may have, and each names a limit
 *       that is there or none.
 */
#include "fuzz.h"

#include "store/redis/redis_int.h"
#include "wire/resp.h"

static const struct sl_limit_binding limits[] = {{.name = "a"}, {.name = "bb"}};

static void on_key(void *ctx, struct sl_str key)
{
    (void)ctx;
    MUST(key.len == 0 || key.at);
}

static void must_be_answer(const struct sl_answer *a)
{
    MUST(a->outcome >= SL_ALLOW && a->outcome <= SL_NEVER); /* (1) */
    MUST(a->retry_in >= 0 || a->retry_in == SL_NS_NONE);
    MUST(a->reset_in >= 0 || a->reset_in == SL_NS_NONE);
}

static void try_hold(struct sl_str reply)
{
    struct sl_hold_call call = {
        .op = SL_HOLD_LOOK, .limits = limits, .limits_count = SL_LEN(limits)};

    if (!sl_script_hold_read(&call, reply, on_key, NULL))
        return;
    MUST(call.state >= SL_HOLD_UNKNOWN && call.state <= SL_HOLD_EXPIRED);
    MUST(call.count <= SL_PARTS); /* (2) */
    for (unsigned i = 0; i < call.count; i++) {
        const struct sl_limit_binding *of = call.parts[i].binding;

        MUST(!of || of == &limits[0] || of == &limits[1]);
        must_be_answer(&call.parts[i].answer);
    }
}

static void try_take(const int64_t *numbers, unsigned count, unsigned parts)
{
    struct sl_limit limit = {.kind = SL_FIXED, .count = 1, .capacity = 1};
    struct sl_part list[2] = {
        {.limit = &limit, .name = SL_STR("x")},
        {.limit = &limit, .name = SL_STR("y")},
    };
    struct sl_take take = {.parts = list, .count = parts};
    struct sl_script_leased leased;
    struct sl_script_reply said;

    if (sl_script_read(&take, numbers, count, &said))
        for (unsigned i = 0; i < parts; i++)
            must_be_answer(&list[i].answer);
    for (unsigned i = 0; i < parts; i++)
        if (sl_script_read_lease(numbers, count, parts, i, &leased))
            MUST(leased.till >= 0 && leased.reset_in >= 0);
}

void fuzz_script(struct sl_str text)
{
    struct sl_str rest;
    int64_t numbers[SL_SCRIPT_NUMBERS] = {0};
    struct sl_resp_reply reader;
    struct sl_resp_value array;

    sl_resp_reply_begin(&reader, SL_RESP_REPLY);
    if (sl_resp_reply_read(&reader, text) != SL_RESP_DONE)
        return;
    text.len = reader.used;
    try_hold(text);
    rest = text;
    array = sl_resp_next(&rest);
    if (array.type != SL_RESP_ARRAY || array.count > SL_SCRIPT_NUMBERS)
        return;
    for (size_t i = 0; i < array.count; i++) {
        struct sl_resp_value value = sl_resp_next(&rest);

        if (value.type != SL_RESP_INTEGER)
            return;
        numbers[i] = value.integer;
    }
    try_take(numbers, (unsigned)array.count, 1);
    try_take(numbers, (unsigned)array.count, 2);
}
