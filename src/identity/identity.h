/* identity.h -- a verified token, as those see it who decide.
 *
 * Whoever verifies tokens (tokens.h, on OpenSSL and jansson) hands out this
 * plain struct; the engine reads it and depends on neither.
 */
#ifndef SL_IDENTITY_IDENTITY_H
#define SL_IDENTITY_IDENTITY_H

#include "base/clock.h"
#include "base/hash.h"
#include "base/ip.h"
#include "base/str.h"
#include "core/limit.h"

#define SL_CLAIMS 64 /* of a token that can be asked for */

/* One claim that is a text, a whole number or true or false, as text. Members
 * of objects are called by their path: "realm.role". A list of texts is one
 * text, its items joined by a space. */
struct sl_claim {
    struct sl_str path;
    struct sl_str value;
};

struct sl_token {
    struct sl_claim claims[SL_CLAIMS]; /* in the token's order */
    unsigned claim_count;
    sl_ns expires; /* SL_NS_NONE if it never does */
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

/* Why a token is not believed. Each has a word for metrics and a sentence for
 * people in fault.c. */
enum sl_token_error {
    SL_TOKEN_GOOD,
    SL_TOKEN_MALFORMED, /* not three parts of strict base64url and JSON */
    SL_TOKEN_TOO_LARGE, /* or too deep, or too many claims */
    SL_TOKEN_ALGORITHM, /* none, unknown, or not allowed */
    SL_TOKEN_HEADER,    /* crit, zip, b64, jku, x5u, x5c, jwk */
    SL_TOKEN_NO_KEY,    /* no key of that id, or none that fits */
    SL_TOKEN_SIGNATURE, /* does not match */
    SL_TOKEN_EXPIRED,   /* exp is over */
    SL_TOKEN_NOT_YET,   /* nbf or iat lie ahead */
    SL_TOKEN_NO_EXPIRY, /* has no exp, and must */
    SL_TOKEN_ISSUER,    /* another issuer */
    SL_TOKEN_AUDIENCE,  /* for somebody else */
    SL_TOKEN_HELD_BACK, /* too many bad ones from this address lately */
    SL_TOKEN_NO_KEYS,   /* the keys have not been fetched yet */
    SL_TOKEN_NO_MEMORY,
    SL_TOKEN_ERRORS
};

/* "expired" for metrics; "the token has expired" for people (fault.c, which
 * stands on nothing). */
const char *sl_token_error_word(enum sl_token_error fault);
const char *sl_token_error_sentence(enum sl_token_error fault);

/* Who verifies tokens on one thread. */
struct sl_tokens;

struct sl_tokens_calls {
    /* The token that `text` is, until the next call on this thread; NULL and
     * `why` if it is not believed. `from` (NULL: not known) is held to account
     * for bad ones. Never waits. */
    const struct sl_token *(*verify)(struct sl_tokens *tokens,
                                     struct sl_str text,
                                     const struct sl_ip *from, sl_ns now,
                                     enum sl_token_error *why);
};

struct sl_tokens {
    const struct sl_tokens_calls *calls;
};

/* ---- a subject of the registry, as those see it who decide.
 *
 * A subject is a user or an organisation of whom the registry knows a plan,
 * roles, or rates of his own. Whoever keeps the registry (registry.h, on
 * SQLite) hands out this plain struct; the engine reads it and depends on no
 * database.
 */

/* A rate for one limit instead of the plan's, for a time. */
struct sl_subject_override {
    struct sl_str limit;
    struct sl_str rate;     /* as a policy writes it: "10/min burst 20" */
    sl_ns until;            /* SL_NS_NONE: for good */
    struct sl_str by, note; /* who gave it, and why; for explanations */
};

/* Units that he was given beside what his plan has of a limit. */
struct sl_credit {
    struct sl_str limit;
    uint64_t units;
    sl_ns start;   /* used in the period that began then; SL_NS_NONE: unused */
    sl_ns expires; /* SL_NS_NONE: never */
};

struct sl_subject {
    unsigned refs; /* of one thread: see below */
    void (*free)(struct sl_subject *subject);

    bool known;       /* false: the registry has nobody of that name */
    struct sl_str id; /* his own, where he was found by an alias */
    struct sl_str plan;
    sl_ns expires; /* of the plan; SL_NS_NONE: never */
    const struct sl_str *roles;
    unsigned role_count;
    const struct sl_subject_override *rates;
    unsigned rate_count;
    const struct sl_credit *credits; /* also of one that is not known */
    unsigned credit_count;
};

/* A subject belongs to the thread that found it: counting is not atomic. */
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

/* One question to the registry. It belongs to whoever asks; the registry
 * borrows it until done(). */
struct sl_lookup {
    struct sl_str scope;      /* "user" or "org" */
    struct sl_str id;         /* only until find() returns: copied if need be */
    sl_ns deadline;           /* steady; 0: as long as it takes */
    sl_ns over;               /* out: see sl_lookup_wait(); 0: not said */
    struct sl_subject *found; /* out: one reference, the asker's; NULL when it
                               * failed, or the registry has nobody at all */
    int err;                  /* out: 0 or SLUICE_ESTORE, SLUICE_ENOMEM */
    void (*done)(struct sl_lookup *lookup);
    void *ctx;              /* the asker's */
    struct sl_lookup *next; /* the registry's */
};

/* Who answers it has `patience` for the whole question: a quarter is left to
 * the store, so that what is known already is not refused because a registry
 * that is not needed does not answer. */
static inline void sl_lookup_wait(struct sl_lookup *lookup, sl_ns now,
                                  sl_ns patience)
{
    lookup->over = now + patience;
    lookup->deadline = lookup->over - patience / 4;
}

/* The registry as one thread sees it. */
struct sl_subjects;

struct sl_subjects_calls {
    /* Never waits: done() is called once, before this returns (what was asked
     * for lately is at hand) or later on this thread's loop. */
    void (*find)(struct sl_subjects *subjects, struct sl_lookup *lookup);
};

struct sl_subjects {
    const struct sl_subjects_calls *calls;
};

/* ---- what was used, as those see it who decide.
 *
 * Whoever keeps the books of usage (ledger/, on a database) is told of every
 * decision that took from a quota or a level; the engine reads this plain
 * struct and depends on no database.
 */

/* What became of the units of one limit. */
enum sl_usage_act {
    SL_USAGE_ACT_TAKE,        /* they are used */
    SL_USAGE_ACT_HOLD,        /* they are held, until... */
    SL_USAGE_ACT_HOLD_END,    /* ...it is known how many were used. Nobody says
                                 whose */
    SL_USAGE_ACT_HOLD_EXTEND, /* they are held for longer */
    SL_USAGE_ACT_REFUNDED, /* what a report gave back has been given back to the
                              table */
};

/* Units of one limit. All of it is borrowed. */
struct sl_usage_delta {
    enum sl_usage_act act;
    uint64_t hold[2]; /* HOLD, END, EXTEND: its id */
    sl_ns until;      /* HOLD, EXTEND: its expiry */

    struct sl_hash128 print; /* of limit, scope and values together, if somebody
                              * has made it; zeros: nobody has */
    struct sl_str limit;
    struct sl_str scope;         /* "org"; "org:user"; "all" */
    const struct sl_str *values; /* one for each scope; none for "all" */
    unsigned value_count;
    sl_ns start;    /* of the period that they count in; 0: it has none */
    sl_ns at;       /* when */
    int64_t amount; /* less than 0: given back */
    uint64_t over;  /* how much of it lies beyond the limit */
    uint64_t cap;   /* the limit; UINT64_MAX: none */
    bool level;     /* it has no period, ever */
    bool reset;     /* somebody said that nothing was used */
    struct sl_thresholds marks;
};

struct sl_usage_sink;

struct sl_usage_sink_calls {
    /* Never waits and never fails. */
    void (*spent)(struct sl_usage_sink *meter,
                  const struct sl_usage_delta *spent);
};

/* The books as one thread sees them. */
struct sl_usage_sink {
    const struct sl_usage_sink_calls *calls;
};

#endif
