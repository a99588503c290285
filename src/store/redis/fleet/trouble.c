/* trouble.c -- what Redis says when it does not do what it was asked. */
#include "store/redis/fleet/trouble.h"

#include <string.h>

#include "wire/resp.h"

/* That an error begins with. In the order of enum sl_redis_error. */
static const char *const words[SL_REDIS_ERRORS] = {
    NULL,          "NOSCRIPT", "MOVED",      "ASK",    "TRYAGAIN",
    "CLUSTERDOWN", "READONLY", "CROSSSLOT",  "OOM",    "LOADING",
    "BUSY",        "MISCONF",  "NOREPLICAS", "NOAUTH", "WRONGPASS",
    "NOPERM",      NULL,
};

static const char *const sentences[SL_REDIS_ERRORS] = {
    "nothing is wrong",
    "Redis does not know the script; it is told again",
    "this Redis is a node of a cluster; write redis+cluster://",
    ("this Redis is a node of a cluster, and a slot is moving; write "
     "redis+cluster://"),
    "the keys of a set are on their way to another node",
    "the cluster is down: some slots have no master",
    ("this Redis is a replica, which takes no writes; name its master, or use "
     "redis+sentinel://"),
    "the keys of a set lie in several slots; give them one hash tag",
    "Redis has reached its maxmemory; give it more",
    "Redis is still loading its data",
    "Redis is busy with somebody's script that does not end",
    "Redis can't save its data and takes no writes; see its log",
    "Redis has fewer replicas than its min-replicas-to-write",
    "Redis wants a password; write it as redis://:PASSWORD@HOST",
    "Redis does not know this user and password",
    ("this user of Redis may not do that; it needs +eval +evalsha +get +set "
     "+del +time, and all keys of the policy"),
    "Redis says what is not understood",
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

const char *sl_redis_error_sentence(enum sl_redis_error trouble)
{
    return sentences[trouble];
}
