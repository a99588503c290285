/* jwks.h -- fetches and refreshes the keys of tokens.
 *
 * Keys come with the policy (a secret), from a file that is watched, or from a
 * URL. No thread ever waits for a URL: until its first response there are no
 * keys, and afterwards the old keys are used until new ones have come.
 *
 *     next    by Cache-Control, between life_least and life_most; life_usual
 *             without it; a little earlier at random, so that daemons do not
 *             fetch at the same time
 *     wished  a token had an unknown key: one fetch per cool_down
 *     failed  again after retry_least, twice that, ... up to retry_most, at
 *             random; requests wait for it, too
 *     stale   keys that could not be fetched for so long are dropped
 *
 * A response without a usable key set is a failure and changes nothing. All of
 * it runs on one loop; verifiers read the keys through identity/jwt.h.
 */
#ifndef SL_SLUICED_JWKS_H
#define SL_SLUICED_JWKS_H

#include "base/hash.h"
#include "identity/jwt.h"
#include "net/http_fetch.h"
#include "net/loop.h"
#include "policy/policy.h"

struct sl_jwks_options {
    struct sl_loop *loop;
    const struct sl_alloc *alloc;
    /* 0: 10 s; 1 s, 5 min; 1 min, 10 min, 1 day; 10 s; 1 s */
    sl_ns cool_down;
    sl_ns retry_least, retry_most;
    sl_ns life_least, life_usual, life_most;
    sl_ns timeout; /* of one fetch */
    sl_ns look;    /* how often requests are checked */
};

enum sl_jwks_result {
    SL_JWKS_GOOD,
    SL_JWKS_UNREACHABLE, /* no response in time; the file cannot be read */
    SL_JWKS_STATUS,      /* not 200 */
    SL_JWKS_TOO_LARGE,
    SL_JWKS_REFUSED, /* no key set, or no usable key */
    SL_JWKS_RESULTS
};
extern const char *const sl_jwks_words[SL_JWKS_RESULTS];

struct sl_jwks;

SL_MUST_USE int sl_jwks_open(const struct sl_jwks_options *options,
                             struct sl_jwks **ret, struct sl_diag *diag);
void sl_jwks_close(struct sl_jwks *jwks); /* NULL is allowed */

/* For verifiers; lives as long as `jwks`. */
struct sl_jwks_current *sl_jwks_keys(struct sl_jwks *jwks);

/* Another policy: prepare everything that can fail, then swap. */
struct sl_jwks_next {
    struct sl_policy *policy; /* one reference */
    struct sl_keyset *set;    /* NULL: none (yet) */
    char *file;               /* its path, or NULL */
    size_t file_size;
};

/* Reads the keys of `policy`, or their file. `path` is the path of the policy
 * (NULL: none); the file is relative to its folder. A `guest` is a posted
 * policy: a missing file means no keys, and no token is accepted. Returns 0,
 * SLUICE_ECONF with a sentence, or SLUICE_ENOMEM. */
struct sl_jwks_from {
    const char *path;
    bool guest;
};
SL_MUST_USE int sl_jwks_prepare(struct sl_jwks *jwks, struct sl_policy *policy,
                                const struct sl_jwks_from *from,
                                struct sl_jwks_next *ret, struct sl_diag *diag);

/* Activates the keys. SLUICE_ENOMEM: nothing changes. `next` is empty
 * afterwards. */
SL_MUST_USE int sl_jwks_use(struct sl_jwks *jwks, struct sl_jwks_next *next);

/* Frees `next` if it was not used; an empty one is allowed. */
void sl_jwks_drop(struct sl_jwks *jwks, struct sl_jwks_next *next);

/* The file with the keys, or NULL; and a call for when it has changed. */
const char *sl_jwks_file(const struct sl_jwks *jwks);
void sl_jwks_read_again(struct sl_jwks *jwks);

/* Returns whether there are keys; otherwise adds a sentence to `why`. */
bool sl_jwks_ready(const struct sl_jwks *jwks, struct sl_buf *why);

struct sl_jwks_stats {
    bool on;       /* the policy accepts tokens */
    unsigned keys; /* 0: none */
    sl_ns age;     /* since they were read; SL_NS_NONE: none */
    uint64_t results[SL_JWKS_RESULTS];
};
void sl_jwks_stats(const struct sl_jwks *jwks, struct sl_jwks_stats *ret);

/* ---- keys from a URL. */

/* All instants are monotonic. */
struct sl_jwks_remote {
    struct sl_http_fetcher *fetcher;
    struct sl_timer *timer; /* looks every options.look */
    bool on;
    char *url; /* with a NUL; not NULL while `on` */
    size_t url_size;
    struct sl_http_fetch fetch;
    sl_ns begun_at;    /* the last fetch; SL_NS_NONE: none yet */
    sl_ns next_at;     /* when to fetch again in any case */
    unsigned failures; /* in a row */
};

struct sl_jwks {
    struct sl_jwks_options options; /* without zeros */
    struct sl_jwks_current *keys;
    struct sl_hash_key chance;
    uint64_t rolled;

    struct sl_policy *policy; /* active; NULL before the first */
    struct sl_keyset *set;    /* active; NULL: none */
    char *file;
    size_t file_size;
    struct sl_buf text; /* the response, of a URL */
    sl_ns read_at;      /* monotonic; SL_NS_NONE: no keys */
    bool came;          /* there were keys under this policy */
    bool unlucky;       /* the last fetch failed, and that was logged */
    uint64_t results[SL_JWKS_RESULTS];
    struct sl_jwks_remote remote;
};

/* Returns a random number in [0, below). */
uint64_t sl_jwks_roll(struct sl_jwks *jwks, uint64_t below);

/* Activates `set` (NULL: none) and takes over the reference. On failure nothing
 * changes. */
SL_MUST_USE int sl_jwks_put(struct sl_jwks *jwks, struct sl_keyset *set);

/* Counts a finished fetch, and logs it if the result is a new one. `from` is a
 * file or a URL. */
void sl_jwks_tell(struct sl_jwks *jwks, enum sl_jwks_result result,
                  const char *from, const char *why);

/* ---- remote.c ---- */

SL_MUST_USE int sl_jwks_remote_open(struct sl_jwks *jwks, struct sl_diag *diag);
void sl_jwks_remote_close(struct sl_jwks *jwks);

/* Fetches from this URL from now on; an empty one: stop. `url` must be freed.
 */
void sl_jwks_remote_begin(struct sl_jwks *jwks, char *url, size_t size);
void sl_jwks_remote_end(struct sl_jwks *jwks);

#endif
