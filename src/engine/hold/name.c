/* name.c -- what a hold is called outside, as text and back. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "base/parse.h"
#include "engine/hold.h"

#define ID_DIGITS   32
#define NAME_DIGITS 40 /* id and endpoint */

void sl_hold_name_write(const struct sl_hold_name *name, char out[SL_HOLD_TEXT])
{
    int len = snprintf(out, SL_HOLD_TEXT, "%016" PRIx64 "%016" PRIx64 "%08x",
                       name->id.w[0], name->id.w[1], name->endpoint);

    if (len != NAME_DIGITS)
        out[0] = '\0';
    else if (name->local)
        memcpy(out + len, "-local", sizeof("-local"));
    else if (name->place != 0)
        snprintf(out + len, (size_t)(SL_HOLD_TEXT - len), "-%x", name->place);
}

/* Small letters only, so that a hold has one name. */
static int digit_of(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* All of `text`, at most 16 digits. */
static bool read_hex(struct sl_str text, uint64_t *ret)
{
    uint64_t n = 0;

    if (text.len == 0 || text.len > 16)
        return false;
    for (size_t i = 0; i < text.len; i++) {
        int digit = digit_of(text.at[i]);

        if (digit < 0)
            return false;
        n = n << 4 | (uint64_t)digit;
    }
    *ret = n;
    return true;
}

static bool read_place(struct sl_str text, struct sl_hold_name *name)
{
    uint64_t place = 0;

    if (sl_str_eq(text, SL_STR("-local"))) {
        name->local = true;
        return true;
    }
    if (text.len == 0)
        return true;
    text = sl_str_from(text, 1);
    if (text.at[-1] != '-' || text.len > 8 || !read_hex(text, &place) ||
        text.at[0] == '0')
        return false;
    name->place = (uint32_t)place;
    return true;
}

bool sl_hold_name_read(struct sl_str text, struct sl_hold_name *ret)
{
    struct sl_hold_name name = {.place = 0};
    uint64_t endpoint = 0;

    if (text.len < NAME_DIGITS ||
        !read_hex((struct sl_str){text.at, 16}, &name.id.w[0]) ||
        !read_hex((struct sl_str){text.at + 16, 16}, &name.id.w[1]) ||
        !read_hex((struct sl_str){text.at + ID_DIGITS, 8}, &endpoint) ||
        !read_place(sl_str_from(text, NAME_DIGITS), &name) ||
        sl_hold_id_is_none(name.id))
        return false;
    name.endpoint = (uint32_t)endpoint;
    *ret = name;
    return true;
}

int sl_hold_span(struct sl_str text, sl_ns *ret, struct sl_diag *diag)
{
    sl_ns span = 0;
    int err = sl_parse_duration(text, &span, diag);

    if (!err && span <= 0)
        err = sl_refuse(diag, SLUICE_EINVAL,
                        "the duration must be above 0; write one like 30s");
    if (!err)
        *ret = span;
    return err;
}

int sl_wait_span(struct sl_str text, sl_ns *ret, struct sl_diag *diag)
{
    sl_ns span = 0;
    int err = sl_parse_duration(text, &span, diag);

    if (!err)
        *ret = span > 0 ? span : SL_NS_NONE;
    return err;
}

/* Nothing depends on nobody finding two that meet: the names are the policy's
 * own, and the number only says what is counted. */
uint32_t sl_hold_endpoint(struct sl_str endpoint)
{
    static const struct sl_hash_key key = {0x736c75696365, 0x686f6c6473};

    return (uint32_t)sl_hash64(&key, endpoint);
}

struct sl_str sl_hold_find_endpoint(const struct sl_policy *policy,
                                    uint32_t endpoint)
{
    if (sl_hold_endpoint(policy->fallback.endpoint) == endpoint)
        return policy->fallback.endpoint;
    for (unsigned i = 0; i < policy->route_count; i++)
        if (sl_hold_endpoint(policy->routes[i].endpoint) == endpoint)
            return policy->routes[i].endpoint;
    return (struct sl_str){"", 0};
}
