/* inner.h -- between the keys (jwks.c) and whoever fetches them (remote.c). */
#ifndef SL_JWKS_INNER_H
#define SL_JWKS_INNER_H

#include "base/hash.h"
#include "net/http_fetch.h"
#include "sluiced/jwks.h"

/* The life of keys that come from a URL. All instants are steady. */
struct sl_jwks_remote {
    struct sl_http_fetcher *fetcher;
    struct sl_timer *timer; /* looks every options.look */
    bool on;
    char *url; /* with a NUL; not NULL while `on` */
    size_t url_size;
    struct sl_http_fetch fetch;
    sl_ns begun_at;    /* the last question; SL_NS_NONE: none yet */
    sl_ns next_at;     /* when to ask again in any case */
    unsigned failures; /* in a row */
};

struct sl_jwks {
    struct sl_jwks_options options; /* without zeros */
    struct sl_jwks_current *keys;
    struct sl_hash_key chance;
    uint64_t rolled;

    struct sl_policy *policy; /* in force; NULL before the first */
    struct sl_keyset *set;    /* in force; NULL: none */
    char *file;
    size_t file_size;
    struct sl_buf text; /* the set as it came, of a URL */
    sl_ns read_at;      /* steady; SL_NS_NONE: there are no keys */
    bool came;          /* there were keys once, under this policy */
    bool unlucky;       /* the last try failed, and that was logged */
    uint64_t results[SL_JWKS_RESULTS];
    struct sl_jwks_remote remote;
};

/* A number in [0, below), not to be guessed. */
uint64_t sl_jwks_roll(struct sl_jwks *jwks, uint64_t below);

/* Put `set` (NULL: none) in force; the reference is taken over. On failure it
 * is still the caller's, and all is as before. */
SL_MUST_USE int sl_jwks_put(struct sl_jwks *jwks, struct sl_keyset *set);

/* A try has ended: count it, and log it if luck has changed. `from` is a file
 * or a URL. */
void sl_jwks_tell(struct sl_jwks *jwks, enum sl_jwks_result result,
                  const char *from, const char *why);

/* ---- remote.c ---- */

SL_MUST_USE int sl_jwks_remote_open(struct sl_jwks *jwks, struct sl_diag *diag);
void sl_jwks_remote_close(struct sl_jwks *jwks);

/* Fetch from that URL from now on; an empty one: no more. It is `url` that
 * must be given back. */
void sl_jwks_remote_begin(struct sl_jwks *jwks, char *url, size_t size);
void sl_jwks_remote_end(struct sl_jwks *jwks);

#endif
