/* blame.c -- who sent bad tokens lately. */
#include "identity/tokens/blame.h"

#include <string.h>

#define SETS 512 /* a power of two */
#define WAYS 4
#define SIZE (SETS * WAYS * sizeof(struct sl_bad_token_place))

int sl_bad_token_init(struct sl_bad_token *blame, unsigned per_minute,
                      const struct sl_alloc *alloc)
{
    sl_ns step = SL_MIN / per_minute;
    unsigned burst = per_minute < 3 ? 1 : per_minute / 3;
    int err = sl_hash_key_make(&blame->secret);

    if (err)
        return err;
    blame->places = sl_alloc_new(alloc, SIZE);
    if (!blame->places)
        return SLUICE_ENOMEM;
    memset(blame->places, 0, SIZE);
    blame->alloc = alloc;
    blame->step = step;
    blame->most = burst * step;
    return 0;
}

void sl_bad_token_done(struct sl_bad_token *blame)
{
    if (blame->places)
        sl_alloc_free(blame->alloc, blame->places, SIZE);
    blame->places = NULL;
}

static uint64_t fingerprint(const struct sl_bad_token *blame,
                            const struct sl_ip *ip)
{
    struct sl_ip net = sl_ip_prefix(ip, 64);
    struct sl_str bytes = {(const char *)net.bytes, sizeof(net.bytes)};
    uint64_t who = sl_hash64(&blame->secret, bytes);

    return who ? who : 1;
}

static struct sl_bad_token_place *set_of(const struct sl_bad_token *blame,
                                         uint64_t who)
{
    return &blame->places[who % SETS * WAYS];
}

/* What is owed. A time left behind by a faster clock is pulled back, or whoever
 * it is would wait until the clock is there again. */
static sl_ns owed(const struct sl_bad_token *blame,
                  struct sl_bad_token_place *place, sl_ns now)
{
    if (place->over > now + blame->most)
        place->over = now + blame->most;
    return place->over > now ? place->over - now : 0;
}

bool sl_bad_token_holds(struct sl_bad_token *blame, const struct sl_ip *ip,
                        sl_ns now)
{
    uint64_t who = fingerprint(blame, ip);
    struct sl_bad_token_place *set = set_of(blame, who);

    for (unsigned i = 0; i < WAYS; i++)
        if (set[i].who == who)
            return owed(blame, &set[i], now) > blame->most - blame->step;
    return false;
}

void sl_bad_token_note(struct sl_bad_token *blame, const struct sl_ip *ip,
                       sl_ns now)
{
    uint64_t who = fingerprint(blame, ip);
    struct sl_bad_token_place *set = set_of(blame, who), *place = &set[0];
    sl_ns owes;

    for (unsigned i = 0; i < WAYS; i++) {
        if (set[i].who == who) {
            place = &set[i];
            break;
        }
        if (owed(blame, &set[i], now) < owed(blame, place, now))
            place = &set[i];
    }
    owes = place->who == who ? owed(blame, place, now) : 0;
    owes += blame->step;
    place->who = who;
    place->over = now + (owes < blame->most ? owes : blame->most);
}
