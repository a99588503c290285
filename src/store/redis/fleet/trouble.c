/* trouble.c -- what Redis says when it does not do what it was asked. */
#include "store/redis/fleet/trouble.h"

#include <string.h>

#include "wire/resp.h"

/* That an error begins with. In the order of enum sl_trouble. */
static const char *const words[SL_TROUBLES] = {
    NULL,          "NOSCRIPT", "MOVED",      "ASK",    "TRYAGAIN",
    "CLUSTERDOWN", "READONLY", "CROSSSLOT",  "OOM",    "LOADING",
    "BUSY",        "MISCONF",  "NOREPLICAS", "NOAUTH", "WRONGPASS",
    "NOPERM",      NULL,
};

static const char *const sentences[SL_TROUBLES] = {
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
    "Redis sent an unknown error",
};

static bool begins(struct sl_str text, const char *word)
{
    size_t len = strlen(word);

    return text.len >= len && memcmp(text.at, word, len) == 0 &&
           (text.len == len || text.at[len] == ' ');
}

static enum sl_trouble by_word(struct sl_str text)
{
    for (unsigned i = 0; i < SL_TROUBLES; i++)
        if (words[i] && begins(text, words[i]))
            return (enum sl_trouble)i;
    return SL_TROUBLE_OTHER;
}

/* What stands behind a '-' inside, before version 7. */
static enum sl_trouble nested(struct sl_str text)
{
    for (size_t i = 0; i + 1 < text.len; i++) {
        struct sl_str rest = sl_str_from(text, i + 1);
        enum sl_trouble found = by_word(rest);

        if (text.at[i] == '-' && found != SL_TROUBLE_OTHER)
            return found;
    }
    return SL_TROUBLE_OTHER;
}

/* Nearly every reply is none: its first byte tells. */
enum sl_trouble sl_trouble_of(struct sl_str reply, struct sl_str *text)
{
    struct sl_resp_value value;
    enum sl_trouble found;

    *text = (struct sl_str){"", 0};
    if (reply.len > 0 && reply.at[0] != '-' && reply.at[0] != '!')
        return SL_TROUBLE_NONE;
    value = sl_resp_next(&reply);
    if (value.type != SL_RESP_ERROR && value.type != SL_RESP_BULK_ERROR)
        return SL_TROUBLE_NONE;
    *text = value.text;
    found = by_word(value.text);
    return found == SL_TROUBLE_OTHER ? nested(value.text) : found;
}

const char *sl_trouble_sentence(enum sl_trouble trouble)
{
    return sentences[trouble];
}
