/* standing.c -- who is counted, and by what. */
#include "doors/standing.h"

#include "engine/forwarded.h"

/* Whoever speaks for many is not counted by his address. */
static bool speaks_for_many(struct sl_engine *engine,
                            const struct sl_peer *peer)
{
    struct sl_active_policy *live;
    bool trusted;

    if (!engine)
        return false;
    live = sl_engine_hold(engine, NULL);
    trusted = sl_peer_trusted(&live->policy->identity, peer);
    sl_active_policy_release(live);
    return trusted;
}

const char *sl_conn_count_take(struct sl_conn_count *place,
                               struct sl_conn_limit *crowd,
                               struct sl_engine *engine,
                               const struct sl_address *peer)
{
    struct sl_peer who = {.is_unix = !peer || sl_address_is_unix(peer)};
    enum sl_conn_limit_answer answer;

    *place = (struct sl_conn_count){.crowd = NULL};
    if (!crowd)
        return NULL;
    who.has_ip = peer && sl_address_ip(peer, &who.ip);
    place->ip = who.ip;
    place->by_address = who.has_ip && !speaks_for_many(engine, &who);
    answer = sl_conn_limit_enter(crowd, place->by_address ? &place->ip : NULL);
    if (answer == SL_CONN_LIMIT_IN) {
        place->crowd = crowd;
        return NULL;
    }
    return answer == SL_CONN_LIMIT_FULL ? "too_many" : "too_many_of_address";
}

void sl_conn_count_leave(const struct sl_conn_count *place)
{
    if (place->crowd)
        sl_conn_limit_leave(place->crowd,
                            place->by_address ? &place->ip : NULL);
}
