/* cluster_parse.c -- a cluster's slots, and what its nodes say about them. */
#include <pthread.h>
#include <string.h>

#include "base/str.h"
#include "store/redis/redis_int.h"
#include "wire/resp.h"

/* CRC16 of XMODEM: x^16 + x^12 + x^5 + 1, the highest bit first. Eight bits at
 * once, by the polynomial's own shape: a table would be 512 bytes. */
static uint16_t crc16(struct sl_str bytes)
{
    uint16_t crc = 0;

    for (size_t i = 0; i < bytes.len; i++) {
        unsigned x = (unsigned)(crc >> 8) ^ (unsigned char)bytes.at[i];

        x ^= x >> 4;
        crc = (uint16_t)((unsigned)(crc << 8) ^ x << 12 ^ x << 5 ^ x);
    }
    return crc;
}

unsigned sl_cluster_slot_of(struct sl_str key)
{
    const char *open = key.len > 0 ? memchr(key.at, '{', key.len) : NULL;
    struct sl_str rest, tag = key;

    if (open) {
        rest = sl_str_from(key, (size_t)(open - key.at) + 1);
        const char *close =
            rest.len > 0 ? memchr(rest.at, '}', rest.len) : NULL;

        if (close && close > rest.at)
            tag = (struct sl_str){rest.at, (size_t)(close - rest.at)};
    }
    return crc16(tag) % SL_CLUSTER_SLOTS;
}

/* The least number of each slot. They are looked for once, in some
 * milliseconds; no slot has to wait for more than the 300,000th. */
static uint32_t tags[SL_CLUSTER_SLOTS];

static void find_tags(void)
{
    unsigned left = SL_CLUSTER_SLOTS;
    char digits[SL_DIGITS];

    for (uint32_t n = 1; left > 0; n++) {
        size_t len = sl_digits(n, digits);
        unsigned slot = crc16((struct sl_str){digits, len}) % SL_CLUSTER_SLOTS;

        left -= tags[slot] == 0;
        tags[slot] = tags[slot] ? tags[slot] : n;
    }
}

unsigned sl_cluster_slot_tag(unsigned slot)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, find_tags);
    return tags[slot % SL_CLUSTER_SLOTS];
}

/* ---- redirects ---- */

static bool read_number(struct sl_str text, unsigned most, unsigned *ret)
{
    unsigned n = 0;

    if (text.len == 0 || text.len > 5)
        return false;
    for (size_t i = 0; i < text.len; i++) {
        if (text.at[i] < '0' || text.at[i] > '9')
            return false;
        n = n * 10 + (unsigned)(text.at[i] - '0');
    }
    *ret = n;
    return n <= most;
}

/* A name that can be looked up and shown. "?" is one that it does not know. */
static bool read_name(struct sl_str text, char ret[SL_HOST])
{
    if (text.len >= SL_HOST)
        return false;
    if (sl_str_eq(text, SL_STR("?")))
        text.len = 0;
    for (size_t i = 0; i < text.len; i++)
        if (text.at[i] <= ' ' || text.at[i] >= 0x7f)
            return false;
    if (text.len > 0)
        memcpy(ret, text.at, text.len);
    ret[text.len] = '\0';
    return true;
}

/* HOST:PORT; an IPv6 address has colons of its own. */
static bool read_place(struct sl_str text, struct sl_redis_addr *ret)
{
    size_t at = text.len;

    while (at > 0 && text.at[at - 1] != ':')
        at--;
    return at > 0 && read_name((struct sl_str){text.at, at - 1}, ret->name) &&
           read_number(sl_str_from(text, at), 65535, &ret->port) &&
           ret->port > 0;
}

static struct sl_str cut_word(struct sl_str *rest)
{
    struct sl_str word = {rest->at, 0};

    while (word.len < rest->len && rest->at[word.len] != ' ')
        word.len++;
    *rest = sl_str_from(*rest, word.len + 1);
    return word;
}

bool sl_redis_redirect_read(struct sl_str error, struct sl_redis_redirect *ret)
{
    struct sl_str kind = cut_word(&error);
    struct sl_str slot = cut_word(&error);

    ret->is_ask = sl_str_eq(kind, SL_STR("ASK"));
    return (ret->is_ask || sl_str_eq(kind, SL_STR("MOVED"))) &&
           read_number(slot, SL_CLUSTER_SLOTS - 1, &ret->slot) &&
           read_place(cut_word(&error), &ret->to);
}

/* ---- maps ---- */

static bool read_port(int64_t integer, unsigned *ret)
{
    *ret = (unsigned)integer;
    return integer > 0 && integer <= 65535;
}

/* [name, port, id, ...]; the name may be nil. */
static bool read_node(struct sl_str *rest, struct sl_redis_addr *ret)
{
    struct sl_str whole = *rest, name = {"", 0};
    struct sl_resp_value array, first, second;

    sl_resp_skip(rest);
    array = sl_resp_next(&whole);
    if (array.type != SL_RESP_ARRAY || array.count < 2)
        return false;
    first = sl_resp_next(&whole);
    second = sl_resp_next(&whole);
    if (first.type == SL_RESP_STRING)
        name = first.text;
    return (first.type == SL_RESP_STRING || first.type == SL_RESP_NIL) &&
           second.type == SL_RESP_INTEGER && read_name(name, ret->name) &&
           read_port(second.integer, &ret->port);
}

/* [from, to, master, replica...] */
static bool read_range(struct sl_str *rest, sl_cluster_slots_f *each, void *ctx)
{
    struct sl_str whole = *rest;
    struct sl_resp_value array, from, to;
    struct sl_redis_addr master;

    sl_resp_skip(rest);
    array = sl_resp_next(&whole);
    if (array.type != SL_RESP_ARRAY || array.count < 3)
        return false;
    from = sl_resp_next(&whole);
    to = sl_resp_next(&whole);
    return from.type == SL_RESP_INTEGER && to.type == SL_RESP_INTEGER &&
           from.integer >= 0 && from.integer <= to.integer &&
           to.integer < SL_CLUSTER_SLOTS && read_node(&whole, &master) &&
           each(ctx, (unsigned)from.integer, (unsigned)to.integer, &master);
}

bool sl_cluster_slots_read(struct sl_str reply, sl_cluster_slots_f *each,
                           void *ctx)
{
    struct sl_resp_value array = sl_resp_next(&reply);

    if (array.type != SL_RESP_ARRAY || array.count == 0)
        return false;
    for (size_t i = 0; i < array.count; i++)
        if (!read_range(&reply, each, ctx))
            return false;
    return true;
}

bool sl_redis_master_read(struct sl_str reply, struct sl_redis_addr *ret)
{
    struct sl_resp_value array = sl_resp_next(&reply), name, port;

    if (array.type != SL_RESP_ARRAY || array.count != 2)
        return false;
    name = sl_resp_next(&reply);
    port = sl_resp_next(&reply);
    return name.type == SL_RESP_STRING && port.type == SL_RESP_STRING &&
           read_name(name.text, ret->name) && ret->name[0] &&
           read_number(port.text, 65535, &ret->port) && ret->port > 0;
}

/* ---- what Redis says when it does not do what it was asked. */

/* That an error begins with. In the order of enum sl_redis_error. */
static const char *const words[SL_REDIS_ERRORS] = {
    NULL,          "NOSCRIPT",  "MOVED",      "ASK",    "TRYAGAIN",
    "CLUSTERDOWN", "READONLY",  "CROSSSLOT",  "OOM",    "LOADING",
    "BUSY",        "MISCONF",   "NOREPLICAS", "NOAUTH", "WRONGPASS",
    "NOPERM",      "WRONGTYPE", NULL,
};

static const char *const sentences[SL_REDIS_ERRORS] = {
    "nothing is wrong",
    "Redis does not have the script; it is sent again",
    "this Redis is a cluster node; write redis+cluster://",
    ("this Redis is a cluster node, and a slot is moving; write "
     "redis+cluster://"),
    "the keys of a take are moving to another cluster node",
    "the cluster is down: some slots have no master",
    ("this Redis is a read-only replica; use its master, or redis+sentinel://"),
    "the keys of a take are in several cluster slots; give them one hash tag",
    "Redis has reached its maxmemory; increase it",
    "Redis is still loading its data",
    "Redis is busy running a script",
    "Redis cannot save its data and refuses writes; see its log",
    "Redis has fewer replicas than its min-replicas-to-write",
    "Redis requires a password; write it as redis://:PASSWORD@HOST",
    "Redis rejected the user or the password",
    ("the Redis user lacks permissions; it needs +eval +evalsha +get +set +del "
     "+time, and all keys of the policy"),
    ("a key is of another type, so another program wrote it; its takes fail. "
     "Delete it, or give the limit another `key`"),
    "Redis sent an unknown error",
};

static bool begins(struct sl_str text, const char *word)
{
    size_t len = strlen(word);

    return text.len >= len && memcmp(text.at, word, len) == 0 &&
           (text.len == len || text.at[len] == ' ');
}

static enum sl_redis_error by_word(struct sl_str text)
{
    for (unsigned i = 0; i < SL_REDIS_ERRORS; i++)
        if (words[i] && begins(text, words[i]))
            return (enum sl_redis_error)i;
    return SL_REDIS_ERROR_OTHER;
}

/* What stands behind a '-' inside, before version 7. */
static enum sl_redis_error nested(struct sl_str text)
{
    for (size_t i = 0; i + 1 < text.len; i++) {
        struct sl_str rest = sl_str_from(text, i + 1);
        enum sl_redis_error found = by_word(rest);

        if (text.at[i] == '-' && found != SL_REDIS_ERROR_OTHER)
            return found;
    }
    return SL_REDIS_ERROR_OTHER;
}

/* Nearly every reply is none: its first byte tells. */
enum sl_redis_error sl_redis_error_of(struct sl_str reply, struct sl_str *text)
{
    struct sl_resp_value value;
    enum sl_redis_error found;

    *text = (struct sl_str){"", 0};
    if (reply.len > 0 && reply.at[0] != '-' && reply.at[0] != '!')
        return SL_REDIS_ERROR_NONE;
    value = sl_resp_next(&reply);
    if (value.type != SL_RESP_ERROR && value.type != SL_RESP_BULK_ERROR)
        return SL_REDIS_ERROR_NONE;
    *text = value.text;
    found = by_word(value.text);
    return found == SL_REDIS_ERROR_OTHER ? nested(value.text) : found;
}

const char *sl_redis_error_sentence(enum sl_redis_error error)
{
    return sentences[error];
}
