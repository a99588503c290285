/* standing.c -- who is counted, and by what. */
#include "doors/standing.h"

#include "engine/forwarded.h"

/* Whoever speaks for many is not counted by his address. */
static bool speaks_for_many(struct sl_engine *engine,
                            const struct sl_peer *peer)
{
    struct sl_live *live;
    bool trusted;

    if (!engine)
        return false;
    live = sl_engine_hold(engine, NULL);
    trusted = sl_peer_trusted(&live->policy->identity, peer);
    sl_live_release(live);
    return trusted;
}

const char *sl_standing_take(struct sl_standing *place, struct sl_crowd *crowd,
                             struct sl_engine *engine,
                             const struct sl_address *peer)
{
    struct sl_peer who = {.is_unix = !peer || sl_address_is_unix(peer)};
    enum sl_crowd_answer answer;

    *place = (struct sl_standing){.crowd = NULL};
    if (!crowd)
        return NULL;
    who.has_ip = peer && sl_address_ip(peer, &who.ip);
    place->ip = who.ip;
    place->by_address = who.has_ip && !speaks_for_many(engine, &who);
    answer = sl_crowd_enter(crowd, place->by_address ? &place->ip : NULL);
    if (answer == SL_CROWD_IN) {
        place->crowd = crowd;
        return NULL;
    }
    return answer == SL_CROWD_FULL ? "too_many" : "too_many_of_address";
}

void sl_standing_leave(const struct sl_standing *place)
{
    if (place->crowd)
        sl_crowd_leave(place->crowd, place->by_address ? &place->ip : NULL);
}
