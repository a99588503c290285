/* greet.c -- the first words to a Redis. */
#include "store/redis/fleet/greet.h"

#include "base/digits.h"

static int say(struct sl_buf *out, const struct sl_str *words, unsigned count,
               unsigned *replies)
{
    ++*replies;
    return sl_resp_command_write(out, words, count);
}

int sl_redis_conn_handshake(struct sl_buf *out,
                            const struct sl_redis_handshake *greeting,
                            unsigned *ret_replies)
{
    char digits[SL_DIGITS];
    struct sl_str auth[3] = {SL_STR("AUTH"), greeting->user,
                             greeting->password};
    struct sl_str plain[2] = {SL_STR("AUTH"), greeting->password};
    struct sl_str select[2] = {
        SL_STR("SELECT"), {digits, sl_digits(greeting->database, digits)}
    };
    struct sl_str ping[1] = {SL_STR("PING")};
    int err = 0;

    *ret_replies = 0;
    if (greeting->user.len > 0)
        err = say(out, auth, 3, ret_replies);
    else if (greeting->password.len > 0)
        err = say(out, plain, 2, ret_replies);
    if (!err && greeting->database > 0)
        err = say(out, select, 2, ret_replies);
    return err ? err : say(out, ping, 1, ret_replies);
}
