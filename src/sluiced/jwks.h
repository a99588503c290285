/* jwks.h -- the keys that tokens are verified with, and who keeps them fresh.
 *
 * Keys come with the policy (a secret), from a file that is read again when it
 * changes, or from a URL. Nobody ever waits for a URL: until its first answer
 * there are no keys, and afterwards those there are serve until better ones
 * have come.
 *
 *     next    what the provider allows (Cache-Control), between life_least and
 *             life_most; life_usual if it says nothing; a little earlier by
 *             chance, so that daemons do not ask in step
 *     wished  somebody showed a token of a key that is not there: one question
 *             per cool_down, however many they are
 *     failed  again after retry_least, twice that, ... up to retry_most, by
 *             chance; wishes wait for it, too
 *     stale   keys that could not be fetched anew for so long are dropped
 *
 * An answer that is no set of keys, or has none that serves, is a failure, and
 * changes nothing. All of it happens on one loop; those who verify see the
 * keys through identity/jwt.h on any thread.
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
    sl_ns timeout; /* of one question */
    sl_ns look;    /* how often it is looked whether somebody wishes */
};

enum sl_jwks_result {
    SL_JWKS_GOOD,
    SL_JWKS_UNREACHABLE, /* no answer, or none in time; a file can't be read */
    SL_JWKS_STATUS,      /* another one than 200 */
    SL_JWKS_TOO_LARGE,
    SL_JWKS_REFUSED, /* no set of keys, or none that serves */
    SL_JWKS_RESULTS
};
extern const char *const sl_jwks_words[SL_JWKS_RESULTS];

struct sl_jwks;

SL_MUST_USE int sl_jwks_open(const struct sl_jwks_options *options,
                             struct sl_jwks **ret, struct sl_diag *diag);
void sl_jwks_close(struct sl_jwks *jwks); /* NULL is allowed */

/* For those who verify; it lives as long as `jwks`. */
struct sl_jwks_current *sl_jwks_keys(struct sl_jwks *jwks);

/* Another policy: first everything that can go wrong, then the swap. */
struct sl_jwks_next {
    struct sl_policy *policy; /* one reference */
    struct sl_keyset *set;    /* NULL: none (yet) */
    char *file;               /* its path, or NULL */
    size_t file_size;
};

/* Read the keys that `policy` has with it or in a file; `path` is the policy's
 * own (NULL: none), to whose folder that of the keys is relative.
 * A `guest` comes from elsewhere, perhaps without his keys: a file that is not
 * there is none, and no token is believed. SLUICE_ECONF with a sentence,
 * SLUICE_ENOMEM. */
struct sl_jwks_from {
    const char *path;
    bool guest;
};
SL_MUST_USE int sl_jwks_prepare(struct sl_jwks *jwks, struct sl_policy *policy,
                                const struct sl_jwks_from *from,
                                struct sl_jwks_next *ret, struct sl_diag *diag);

/* Put them in force. SLUICE_ENOMEM: everything is as before. `next` is empty
 * afterwards. */
SL_MUST_USE int sl_jwks_use(struct sl_jwks *jwks, struct sl_jwks_next *next);

/* Give back what was not used; an empty one is allowed. */
void sl_jwks_drop(struct sl_jwks *jwks, struct sl_jwks_next *next);

/* The file with the keys, or NULL; and: it has changed. */
const char *sl_jwks_file(const struct sl_jwks *jwks);
void sl_jwks_read_again(struct sl_jwks *jwks);

/* Have the keys come? If not, `why` gets a sentence. */
bool sl_jwks_ready(const struct sl_jwks *jwks, struct sl_buf *why);

struct sl_jwks_stats {
    bool on;       /* the policy believes tokens at all */
    unsigned keys; /* 0: none */
    sl_ns age;     /* since they were read; SL_NS_NONE: there are none */
    uint64_t results[SL_JWKS_RESULTS];
};
void sl_jwks_stats(const struct sl_jwks *jwks, struct sl_jwks_stats *ret);

/* ---- between the keys (jwks.c) and whoever fetches them (remote.c). */

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
