/* request_id.c -- what a decision is called in logs and answers. */
#include <string.h>

#include "base/hash.h"
#include "engine/engine_int.h"

static bool is_clean(struct sl_str id)
{
    if (id.len == 0 || id.len > SL_REQUEST_ID)
        return false;
    for (size_t i = 0; i < id.len; i++) {
        char c = id.at[i];

        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
              (c >= '0' && c <= '9') || (c && strchr("-_.:=+/@~", c))))
            return false;
    }
    return true;
}

/* Nobody can guess the next one, and making it asks the system for nothing. */
static void make_id(struct sl_decision *d, const struct sl_hash_key *secret)
{
    static const char digits[] = "0123456789abcdefghjkmnpqrstvwxyz";
    static _Thread_local uint64_t made;
    uint64_t seed[3] = {++made, (uint64_t)d->now, (uintptr_t)&made};
    struct sl_hash128 h =
        sl_hash128(secret, (struct sl_str){(const char *)seed, sizeof(seed)});
    char *at = d->request_id;

    memcpy(at, "req_", 4);
    at += 4;
    for (int i = 0; i < 12; i++)
        *at++ = digits[h.lo >> (5 * i) & 31];
    for (int i = 0; i < 12; i++)
        *at++ = digits[h.hi >> (5 * i) & 31];
    *at = '\0';
}

void sl_decision_choose_id(struct sl_decision *d,
                           const struct sl_request *facts,
                           const struct sl_hash_key *secret)
{
    struct sl_str id = facts->request_id;

    if (id.len == 0)
        id = sl_request_header(facts, SL_STR("x-request-id"));
    if (!is_clean(id)) {
        make_id(d, secret);
        return;
    }
    memcpy(d->request_id, id.at, id.len);
    d->request_id[id.len] = '\0';
}
