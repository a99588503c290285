/* identity.h -- tokens, subjects and usage, as the engine sees them.
 *
 * Plain structs. The code behind them uses OpenSSL, jansson and databases; the
 * engine depends on none of these.
 */
#ifndef SL_IDENTITY_IDENTITY_H
#define SL_IDENTITY_IDENTITY_H

#include "base/clock.h"
#include "base/hash.h"
#include "base/ip.h"
#include "base/str.h"
#include "core/anchor.h"
#include "core/limit.h"

#define SL_CLAIMS 64 /* claims of a token */

/* One claim as text: a text, a whole number, true or false. Members of objects
 * are named by their path: "realm.role". A list of texts is one text, its items
 * joined by a space. */
struct sl_claim {
    struct sl_str path;
    struct sl_str value;
};

struct sl_token {
    struct sl_claim claims[SL_CLAIMS]; /* in the token's order */
    unsigned claim_count;
    sl_ns expires; /* SL_NS_NONE: never */
    sl_ns begins;  /* nbf or iat, the later one; 0 without either */
};

/* The value of a claim, or an empty slice. */
static inline struct sl_str sl_token_claim(const struct sl_token *token,
                                           struct sl_str path)
{
    for (unsigned i = 0; i < token->claim_count; i++)
        if (sl_str_eq(token->claims[i].path, path))
            return token->claims[i].value;
    return (struct sl_str){NULL, 0};
}

/* Why a token is rejected. token_error.c has a word for metrics and a sentence
 * for each. */
enum sl_token_error {
    SL_TOKEN_GOOD,
    SL_TOKEN_MALFORMED, /* not three parts of strict base64url and JSON */
    SL_TOKEN_TOO_LARGE, /* or too deep, or too many claims */
    SL_TOKEN_ALGORITHM, /* none, unknown, or not allowed */
    SL_TOKEN_HEADER,    /* crit, zip, b64, jku, x5u, x5c, jwk */
    SL_TOKEN_NO_KEY,    /* no key of that id, or none that fits */
    SL_TOKEN_SIGNATURE, /* does not match */
    SL_TOKEN_EXPIRED,   /* exp has passed */
    SL_TOKEN_NOT_YET,   /* nbf or iat is in the future */
    SL_TOKEN_NO_EXPIRY, /* has no exp, which is required */
    SL_TOKEN_ISSUER,    /* another issuer */
    SL_TOKEN_AUDIENCE,  /* another audience */
    SL_TOKEN_HELD_BACK, /* too many bad tokens from this address */
    SL_TOKEN_NO_KEYS,   /* the keys are not fetched yet */
    SL_TOKEN_NO_MEMORY,
    SL_TOKEN_ERRORS
};

/* "expired" for metrics; "the token has expired" for people. */
const char *sl_token_error_word(enum sl_token_error fault);
const char *sl_token_error_sentence(enum sl_token_error fault);

/* Verifies tokens on one thread. */
struct sl_tokens;

struct sl_tokens_calls {
    /* Returns the token, valid until the next call on this thread, or NULL and
     * `why`. `from` (NULL: unknown) is charged for bad tokens. Never blocks. */
    const struct sl_token *(*verify)(struct sl_tokens *tokens,
                                     struct sl_str text,
                                     const struct sl_ip *from, sl_ns now,
                                     enum sl_token_error *why);
};

struct sl_tokens {
    const struct sl_tokens_calls *calls;
};

/* ---- subjects.
 *
 * A subject is a user or an organisation with a plan, roles or overrides.
 */

/* A rate for one limit instead of the plan's. */
struct sl_subject_override {
    struct sl_str limit;
    struct sl_str rate;     /* as a policy writes it: "10/min burst 20" */
    sl_ns until;            /* SL_NS_NONE: no end */
    struct sl_str by, note; /* author and reason; for explanations */
};

/* Units granted in addition to a limit of the plan. */
struct sl_credit {
    struct sl_str limit;
    uint64_t units;
    sl_ns start;   /* start of the period in which they were used; SL_NS_NONE:
                    * unused */
    sl_ns expires; /* SL_NS_NONE: never */
    uint64_t used; /* with a start: all units used in that period */
};

/* A block by an operator: no request of the subject passes. */
struct sl_block {
    bool is_set;
    sl_ns until;            /* SL_NS_NONE: no end */
    struct sl_str by, note; /* author and reason; for explanations */
};

static inline bool sl_block_is_on(const struct sl_block *block, sl_ns now)
{
    return block->is_set && (block->until == SL_NS_NONE || now < block->until);
}

static inline bool sl_block_ends_later(const struct sl_block *block,
                                       const struct sl_block *than)
{
    return than->until != SL_NS_NONE &&
           (block->until == SL_NS_NONE || block->until > than->until);
}

struct sl_subject {
    unsigned refs; /* not atomic: see below */
    void (*free)(struct sl_subject *subject);

    bool known;       /* false: the registry has no such subject */
    struct sl_str id; /* its own, if it was found by an alias */
    struct sl_str plan;
    sl_ns expires; /* of the plan; SL_NS_NONE: never */
    const struct sl_str *roles;
    unsigned role_count;
    const struct sl_subject_override *rates;
    unsigned rate_count;
    struct sl_own_calendars own;     /* of its quotas */
    const struct sl_credit *credits; /* also of an unknown subject */
    unsigned credit_count;
    struct sl_block block; /* likewise */
};

/* A subject belongs to one thread: the count is not atomic. */
static inline struct sl_subject *sl_subject_ref(struct sl_subject *subject)
{
    subject->refs++;
    return subject;
}

static inline void sl_subject_unref(struct sl_subject *subject)
{
    if (subject && --subject->refs == 0)
        subject->free(subject);
}

/* One lookup. The caller owns it; the registry borrows it until done(). */
struct sl_lookup {
    struct sl_str scope;      /* "user", "org" or "ip" */
    struct sl_str id;         /* valid until find() returns; of "ip" an address,
                               * as the request has it */
    sl_ns deadline;           /* monotonic; 0: none */
    sl_ns over;               /* out: see sl_lookup_wait(); 0: not set */
    struct sl_subject *found; /* out: a reference for the caller; NULL if it
                               * failed, or the registry is empty. Of "ip" the
                               * blocked address or network that has it; NULL
                               * without one */
    bool has_registered;      /* out: with `found`: the registry has subjects,
                               * not only credits and blocks */
    int err;                  /* out: 0 or SLUICE_ESTORE, SLUICE_ENOMEM */
    void (*done)(struct sl_lookup *lookup);
    void *ctx;              /* of the caller */
    struct sl_lookup *next; /* of the registry */
    struct sl_ip ip;        /* likewise, of scope "ip" */
};

/* Sets the deadlines of a lookup that has `patience` for the whole check. A
 * quarter is left for the store, so that a registry that does not answer leaves
 * time for the rest of the check. */
static inline void sl_lookup_wait(struct sl_lookup *lookup, sl_ns now,
                                  sl_ns patience)
{
    lookup->over = now + patience;
    lookup->deadline = lookup->over - patience / 4;
}

/* The subjects, for one thread. */
struct sl_subjects;

struct sl_subjects_calls {
    /* Never blocks. done() is called once, before this returns or later on this
     * thread's loop. */
    void (*find)(struct sl_subjects *subjects, struct sl_lookup *lookup);
};

struct sl_subjects {
    const struct sl_subjects_calls *calls;
};

/* ---- usage.
 *
 * The usage sink receives every amount that a decision took from a quota or a
 * level.
 */

/* What happened to the units of one limit. */
enum sl_usage_act {
    SL_USAGE_ACT_TAKE,        /* used */
    SL_USAGE_ACT_HOLD,        /* held until HOLD_END */
    SL_USAGE_ACT_HOLD_END,    /* the used part of a hold is known; the owner is
                               * not given */
    SL_USAGE_ACT_HOLD_EXTEND, /* held for longer */
    SL_USAGE_ACT_REFUNDED,    /* the table has applied the refund of a report */
};

/* A record whose plan is not known: the cap of the counter's last record, or of
 * its next one. */
#define SL_USAGE_CAP_KEPT (UINT64_MAX - 1)

/* Units of one limit. All texts are borrowed. */
struct sl_usage_delta {
    enum sl_usage_act act;
    uint64_t hold[2]; /* HOLD, HOLD_END, HOLD_EXTEND: its id */
    sl_ns until;      /* HOLD, HOLD_EXTEND: its expiry */

    struct sl_hash128
        fingerprint; /* of limit, scope and values; zeros: not computed
                      */
    struct sl_str limit;
    struct sl_str scope;         /* "org"; "org:user"; "all" */
    const struct sl_str *values; /* one for each scope; none for "all" */
    unsigned value_count;
    sl_ns start;                    /* of its period; 0: none */
    sl_ns end;                      /* of a stored period; 0: not known */
    sl_ns at;                       /* when */
    int64_t amount;                 /* < 0: refund */
    uint64_t cap;                   /* the limit; UINT64_MAX: none; or
                                     * SL_USAGE_CAP_KEPT */
    struct sl_str plan, zone;       /* "": not known */
    const struct sl_limit *numbers; /* for the end of the period */
    bool level;                     /* it has no period */
    bool reset;                     /* set the usage to 0 */
    bool elsewhere; /* TAKE, HOLD_END: of units that this node has not leased */
    struct sl_thresholds thresholds;
};

struct sl_usage_sink;

struct sl_usage_sink_calls {
    /* Never blocks and never fails. */
    void (*spent)(struct sl_usage_sink *sink,
                  const struct sl_usage_delta *spent);
};

/* The usage database, for one thread. */
struct sl_usage_sink {
    const struct sl_usage_sink_calls *calls;
    bool full; /* amounts can no longer be kept: `on_store_failure` decides */
    bool no_room; /* nor can the ends of holds: they fail */
};

#endif
