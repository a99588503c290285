/* denials.h -- the denial history: records of denied requests.
 *
 * A record says which request was denied, when, by what and how it may pass. A
 * small share of the passed requests is recorded, too. Records are found by
 * request id, or by a name of the caller and the time.
 *
 * With `hashed` the names are stored as keyed hashes. The secret is in the
 * database: who asks with a name finds its records, and no record says the
 * name.
 */
#ifndef SL_REGISTRY_DENIALS_H
#define SL_REGISTRY_DENIALS_H

#include "base/buf.h"
#include "base/hash.h"

#define SL_DENIAL_NAMES 8    /* of one record */
#define SL_DENIAL_HASH  34   /* bytes of a hashed name, with its NUL */
#define SL_DENIALS_MOST 1000 /* records of one page or one write */

struct sl_denial_name {
    struct sl_str scope, id;
};

/* Texts are borrowed. */
struct sl_denial_record {
    uint64_t number; /* unique, below 2^63 */
    sl_ns at;
    bool allowed; /* one of the passed requests */
    bool degraded;
    int status;
    struct sl_str node;       /* of the daemon */
    struct sl_str request_id; /* as the client was told */
    struct sl_str code;       /* "RATE_LIMITED" */
    struct sl_str reason;     /* "limit", "quota", "feature", "role", ... */
    struct sl_str endpoint;
    struct sl_str limit; /* "": denied by none */
    struct sl_str plan;
    struct sl_str scope; /* of the limit: "org:user" */
    uint64_t cost, capacity, remaining;
    sl_ns retry_in; /* or SL_NS_NONE */
    unsigned line;  /* of the limit or route in the policy; 0: unknown */
    struct sl_denial_name names[SL_DENIAL_NAMES]; /* of the caller */
    unsigned name_count;
};

/* What to find. The newest records come first. */
struct sl_denial_query {
    struct sl_str request_id; /* "": any */
    struct sl_str scope, id;  /* of the caller; "": any */
    sl_ns from, to;           /* both inclusive */
    sl_ns before;             /* the last record of the page before: ... */
    uint64_t before_number;   /* ... older ones follow */
    bool passed;              /* also passed requests */
    unsigned most;            /* <= SL_DENIALS_MOST */
};

/* Print a hashed name: "#" and 32 hex digits. */
void sl_denial_hash(const struct sl_hash_key *key, struct sl_denial_name name,
                    char out[SL_DENIAL_HASH]);

/* Append {"user":"ann","org":"acme"}. With a key the names are hashed. */
SL_MUST_USE int sl_denial_names_write(const struct sl_denial_record *record,
                                      const struct sl_hash_key *key,
                                      struct sl_buf *out);

/* Append a record as a JSON object and a newline. It begins with its cursor,
 * {"cursor":"AT-NUMBER". `names` is an object, too. */
SL_MUST_USE int sl_denial_record_write(const struct sl_denial_record *record,
                                       struct sl_str names, struct sl_buf *out);

#endif
