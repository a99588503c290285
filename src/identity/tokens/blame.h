/* blame.h -- who sent bad tokens lately.
 *
 * An address may send a burst of bad ones and then so many a minute; beyond
 * that no signature of his is checked until the time is over. IPv6 counts by
 * /64, since whoever has one address of it has all.
 *
 * The table has a fixed size. An address has four places where it may stand;
 * if all are taken, whoever owes least gives way.
 *
 * Invariant: from the next question on nobody waits longer than `most`, also
 * when the clock steps back.
 */
#ifndef SL_BAD_TOKEN_H
#define SL_BAD_TOKEN_H

#include "base/alloc.h"
#include "base/hash.h"
#include "base/ip.h"

struct sl_bad_token_place {
    uint64_t who; /* fingerprint; 0: nobody */
    sl_ns over;   /* when nothing is owed any more */
};

struct sl_bad_token {
    struct sl_hash_key secret;
    sl_ns step, most; /* owed for one; the most that is owed */
    struct sl_bad_token_place *places;
    const struct sl_alloc *alloc;
};

/* `per_minute` > 0, in bursts of a third of that. SLUICE_ENOMEM, SLUICE_ESYS.
 */
SL_MUST_USE int sl_bad_token_init(struct sl_bad_token *blame,
                                  unsigned per_minute,
                                  const struct sl_alloc *alloc);
void sl_bad_token_done(struct sl_bad_token *blame); /* one of zeros too */

/* Not const: a clock that stepped back is noticed here. */
bool sl_bad_token_holds(struct sl_bad_token *blame, const struct sl_ip *ip,
                        sl_ns now);
void sl_bad_token_note(struct sl_bad_token *blame, const struct sl_ip *ip,
                       sl_ns now);

#endif
