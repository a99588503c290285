/* repeats.c -- the memory of repeats in Redis (store/repeats.h); pure: commands
 * and their replies.
 *
 * A key is one text, which expires with it:
 *
 *     fingerprint  owner  pending  until  repeats  memo
 *     32 hex       16 hex 16       16     10 digits
 *
 * `pending` and `until` are in milliseconds; pending 0: the claim is complete.
 * A short script compares and writes, so that a key has one owner at a time. It
 * is sent as a text: Redis keeps it after the first time.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "store/redis/redis_int.h"

/* After a virtual clock has set the time, keys live a day longer. */
#define MARGIN SL_DAY

/* KEYS  the key
 * ARGV  op, now, fingerprint, owner, pending, until, repeats, life, memo
 * Returns { found } or { found, memo }; found is enum sl_repeat_found. */
static const char script[] =
    "local op, now, head = ARGV[1], ARGV[2] + 0, ARGV[3] .. ARGV[4]\n"
    "local v = redis.call('GET', KEYS[1])\n"
    "local function put(pending)\n"
    "  redis.call('SET', KEYS[1], head .. pending .. ARGV[6] .. ARGV[7]\n"
    "    .. (ARGV[9] or ''), 'PX', ARGV[8])\n"
    "end\n"
    "if op == 'put' then put('0000000000000000') return { 0 } end\n"
    "if v and #v < 90 then v = false end\n"
    "local pending = v and string.sub(v, 49, 64) + 0 or 0\n"
    "if op == 'drop' then\n"
    "  if v and pending > 0 and string.sub(v, 33, 48) == ARGV[4] then\n"
    "    redis.call('DEL', KEYS[1])\n"
    "  end\n"
    "  return { 0 }\n"
    "end\n"
    "if op == 'finish' then\n"
    "  if v and string.sub(v, 33, 48) ~= ARGV[4] then return { 2 } end\n"
    "  put('0000000000000000')\n"
    "  return { 0 }\n"
    "end\n"
    "local left = v and string.sub(v, 81, 90) + 0 or 0\n"
    "if v and (pending > now or pending == 0 and left > 0\n"
    "    and string.sub(v, 65, 80) + 0 > now) then\n"
    "  if string.sub(v, 1, 32) ~= ARGV[3] then return { 2 } end\n"
    "  if pending > 0 then return { 1 } end\n"
    "  if op == 'begin' then\n"
    "    redis.call('SETRANGE', KEYS[1], 80, string.format('%010.0f', left - "
    "1))\n"
    "  end\n"
    "  return { 3, string.sub(v, 91) }\n"
    "end\n"
    "if op == 'begin' then put(ARGV[5]) end\n"
    "return { 0 }\n";

void sl_redis_repeat_name(const struct sl_repeat_claim *claim,
                          char out[SL_REDIS_REPEAT_NAME])
{
    snprintf(out, SL_REDIS_REPEAT_NAME,
             "sluice:repeat:%016" PRIx64 "%016" PRIx64, claim->key.hi,
             claim->key.lo);
}

/* Milliseconds, rounded up: nothing ends early. */
static int64_t ms_of(sl_ns ns)
{
    return ns > 0 ? ns / SL_MS + (ns % SL_MS != 0) : 0;
}

int sl_redis_repeat_write(const struct sl_repeat_call *call, sl_ns near,
                          bool own_now, struct sl_buf *out)
{
    static const char *const ops[] = {"begin", "look", "finish", "drop", "put"};
    const struct sl_repeat_claim *claim = &call->claim;
    int64_t now = near / SL_MS;
    int64_t until = now + ms_of(claim->until - call->now);
    int64_t pending = now + ms_of(claim->pending - call->now);
    int64_t life = call->op == SL_REPEAT_BEGIN ? pending - now : until - now;
    char name[SL_REDIS_REPEAT_NAME], numbers[7][40];
    struct sl_str words[13] = {
        SL_STR("EVAL"), {script, sizeof(script) - 1},
         SL_STR("1")
    };
    unsigned count = 3;

    sl_redis_repeat_name(claim, name);
    words[count++] = sl_str_c(name);
    words[count++] = sl_str_c(ops[call->op]);
    snprintf(numbers[0], 40, "%" PRId64, now);
    snprintf(numbers[1], 40, "%016" PRIx64 "%016" PRIx64, claim->fingerprint.hi,
             claim->fingerprint.lo);
    snprintf(numbers[2], 40, "%016" PRIx64, claim->owner);
    snprintf(numbers[3], 40, "%016" PRId64, pending);
    snprintf(numbers[4], 40, "%016" PRId64, until);
    snprintf(numbers[5], 40, "%010" PRIu32, claim->repeats);
    snprintf(numbers[6], 40, "%" PRId64,
             (life > 0 ? life : 1) + (own_now ? MARGIN / SL_MS : 0));
    for (unsigned i = 0; i < SL_LEN(numbers); i++)
        words[count++] = sl_str_c(numbers[i]);
    if (call->op == SL_REPEAT_FINISH || call->op == SL_REPEAT_PUT)
        words[count++] = (struct sl_str){call->memo, call->len};
    return sl_resp_command_write(out, words, count);
}

bool sl_redis_repeat_read(struct sl_repeat_call *call, struct sl_str reply)
{
    struct sl_resp_value array = sl_resp_next(&reply), value;

    if (array.type != SL_RESP_ARRAY || array.count < 1 || array.count > 2)
        return false;
    value = sl_resp_next(&reply);
    if (value.type != SL_RESP_INTEGER || value.integer < SL_REPEAT_FIRST ||
        value.integer > SL_REPEAT_AGAIN)
        return false;
    call->found = (enum sl_repeat_found)value.integer;
    if (call->found != SL_REPEAT_AGAIN)
        return array.count == 1;
    value = sl_resp_next(&reply);
    if (array.count != 2 || value.type != SL_RESP_STRING ||
        value.text.len > SL_REPEAT_MEMO)
        return false;
    call->len = value.text.len;
    if (call->memo && call->len > 0)
        memcpy(call->memo, value.text.at, call->len);
    return true;
}
