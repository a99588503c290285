/* guards.h -- what a route asks of a request before its limits.
 *
 *   verify    is the webhook from whom it says?            401
 *   require   are its headers within bounds?               400, or as written
 *   backlog   is there too much work waiting already?      503
 *   dedupe    has the same been answered before?           as then; 409, 422
 *   guard     is another one running?                      409
 *
 * In this order, and each only where a route has it: most routes have none.
 * A guard is taken together with the limits, all or none.
 */
#ifndef SL_GUARDS_H
#define SL_GUARDS_H

#include "policy/template.h"
#include "wire/webhook.h"

#define SL_REQUIRES_MAX      16 /* of one route */
#define SL_DEDUPE_FIELDS_MAX 16 /* of a fingerprint */
#define SL_GUARD_VALUES      4  /* of one guard's key */

/* In the names of guards' keys, and in no other's. */
#define SL_GUARD_NAME "#guard"

/* Which webhooks are believed. */
struct sl_verify {
    bool written; /* false: none of it, and all else is empty */
    struct sl_webhook_rules rules;
    struct sl_str header;   /* as written, in lower case, or the usual one */
    struct sl_str names[3]; /* its headers: id, timestamp, signature */
};

/* What must be the same in a request that is called a repeat. */
enum sl_dedupe_field_kind {
    SL_DEDUPE_FIELD_METHOD,
    SL_DEDUPE_FIELD_PATH, /* or the job */
    SL_DEDUPE_FIELD_COST,
    SL_DEDUPE_FIELD_BODY, /* if there is one */
    SL_DEDUPE_FIELD_HEADER,
};

struct sl_dedupe_field {
    enum sl_dedupe_field_kind kind;
    struct sl_str header;
};

extern const char *const sl_dedupe_field_words[4]; /* all but headers */

/* Which requests are one. */
struct sl_dedupe {
    bool written;
    struct sl_str header; /* the key comes in it */
    sl_ns life;           /* how long an answer is remembered */
    unsigned repeats;     /* that are answered by one */
    const struct sl_dedupe_field *traits;
    unsigned trait_count;
};

/* What a header must be. */
struct sl_require {
    struct sl_str header;
    bool has_min, has_max;
    uint64_t min, max;
    struct sl_str equals; /* another header; "": none */
    bool optional;        /* it may be missing */
    int status;
    struct sl_str code;
    struct sl_template message; /* no pieces: our own */
};

/* How much work may wait. */
struct sl_backlog {
    bool written;
    unsigned index; /* into the policy's backlogs */
    uint64_t max;
    sl_ns retry_after;
    sl_ns stale; /* an older report says nothing */
};

/* A piece of a guard's key: a literal, a header, or a scope. */
struct sl_guard_piece {
    struct sl_str literal;           /* "": it is a value */
    const struct sl_require *header; /* NULL: it is none */
    unsigned scope;                  /* then: enum sl_scope */
};

/* What is done by one at a time. Routes whose keys come out alike guard the
 * same thing. */
struct sl_guard {
    bool written;
    struct sl_str text; /* the key, as written */
    const struct sl_guard_piece *pieces;
    unsigned count;
    sl_ns hold; /* how long, if nobody says or ends it; > 0 */
    bool skip;  /* who lacks a value of the key is not guarded */
};

struct sl_prechecks {
    const struct sl_prechecks *next; /* of the policy's: any order */
    struct sl_verify verify;
    struct sl_dedupe dedupe;
    struct sl_backlog backlog;
    const struct sl_require *requires;
    unsigned require_count;
    struct sl_guard guard;
};

/* Do both ask the same? NULL asks nothing. Secrets count. */
bool sl_prechecks_same(const struct sl_prechecks *a,
                       const struct sl_prechecks *b);

/* Is the header one of those that a guard looks at? */
bool sl_prechecks_read(const struct sl_prechecks *guards, struct sl_str header);

#endif
