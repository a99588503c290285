/* jwks.h -- fetches and refreshes the keys of tokens.
 *
 * Keys come with the policy (a secret), from a file that is watched, or from a
 * URL. No thread ever waits for a URL: until its first response there are no
 * keys, and afterwards the old keys are used until new ones have come.
 *
 *     next       by Cache-Control, between life_least and life_most; life_usual
 *                without it; a little earlier at random, so that daemons do
 *                not fetch at the same time
 *     requested  a token had an unknown key: one fetch per cool_down
 *     failed     again after retry_least, twice that, ... up to retry_most, at
 *                random; requests wait for it, too
 *     stale      keys that could not be fetched for so long are dropped
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

/* A policy and its keys. */
struct sl_jwks_source {
    struct sl_policy *policy; /* a reference; NULL before the first */
    struct sl_keyset *set;    /* NULL: none (yet) */
    char *file;               /* its path, or NULL */
    size_t file_size;
    char *url; /* with a NUL, or NULL */
    size_t url_size;
};

/* Instants are monotonic. Fields are read by tests; others use the functions
 * below. */
struct sl_jwks {
    struct sl_jwks_options options; /* without zeros */
    struct sl_jwks_current *keys;   /* for verifiers */
    struct sl_jwks_source active;
    struct sl_jitter jitter;
    sl_ns read_at;   /* SL_NS_NONE: no keys */
    bool had_keys;   /* under this policy */
    bool has_failed; /* the last fetch, and that was logged */
    uint64_t results[SL_JWKS_RESULTS];

    /* For a URL. */
    struct sl_http_fetcher *fetcher;
    struct sl_timer *timer; /* every options.look */
    struct sl_http_fetch fetch;
    struct sl_buf text; /* the response with the active keys */
    sl_ns begun_at;     /* the last fetch */
    sl_ns next_at;      /* when to fetch again in any case */
    unsigned failures;  /* in a row */
};

SL_MUST_USE int sl_jwks_open(const struct sl_jwks_options *options,
                             struct sl_jwks **ret, struct sl_diag *diag);
void sl_jwks_close(struct sl_jwks *jwks); /* NULL is allowed */

/* Reads the keys of the policy and forgets them. Returns 0, or SLUICE_ECONF
 * with a sentence: they are missing or wrong. Keys behind a URL are not
 * fetched. */
SL_MUST_USE int sl_jwks_check(const struct sl_policy *policy, const char *path,
                              struct sl_diag *diag);

/* Reads the keys of `policy` and activates them. `path` is the path of the
 * policy (NULL: none); a file is relative to its folder. A missing file is
 * refused, unless the keys are `optional`: then no token is accepted. Returns
 * 0, SLUICE_ECONF or SLUICE_ENOMEM with a sentence; then nothing changes. */
SL_MUST_USE int sl_jwks_use(struct sl_jwks *jwks, struct sl_policy *policy,
                            const char *path, bool optional,
                            struct sl_diag *diag);

/* Reads the file with the keys again, if there is one. */
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

#endif
