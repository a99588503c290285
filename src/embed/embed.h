/* embed.h -- a policy inside a worker process of another server.
 *
 * One process reads the policy; each of its workers opens it over the same
 * state: a file, or memory that they share. A decision makes no system call
 * but those for the clock, and never blocks. The nginx module is built on this.
 *
 *     sl_embed_check_policy()      once, where the policy is read
 *     sl_embed_open()              in each worker, after fork()
 *     sl_embed_decide()            for each request
 *     sl_embed_end()               when it ends, if it holds anything
 *
 * Threads: one embed belongs to one thread.
 */
#ifndef SL_EMBED_EMBED_H
#define SL_EMBED_EMBED_H

#include "engine/render.h"
#include "engine/request.h"
#include "sluice_policy.h"

struct sl_embed;

/* Can a process without a network apply this policy? SLUICE_ECONF and a
 * sentence if not: it names a remote store, keys at a URL, or something that
 * all requests of a machine must pass through one process for. */
SL_MUST_USE int sl_embed_check_policy(const struct sluice_policy *policy,
                                      struct sl_diag *diag);

/* Has the policy a limit of this name? SLUICE_ENOENT and a sentence if not. */
SL_MUST_USE int sl_embed_check_limit(const struct sluice_policy *policy,
                                     struct sl_str name, struct sl_diag *diag);

/* A sentence about settings of the policy that have no effect in a worker;
 * NULL: none. */
const char *sl_embed_policy_note(const struct sluice_policy *policy);

struct sl_embed_options {
    const char *path; /* of the state, or: */
    void *memory;     /* shared, 64-byte aligned, zeros at first; opened by one
                       * process first */
    uint64_t size;    /* of the state; 0: 64 MiB, for a file. A file that is
                       * there keeps its size. */
    int64_t (*now)(void *ctx); /* NULL: the system's clock */
    void *now_ctx;
};

/* Opens a policy over a state. The policy is referenced. SLUICE_ECONF,
 * SLUICE_ESYS, SLUICE_EDAMAGE, SLUICE_ENOMEM. */
SL_MUST_USE int sl_embed_open(const struct sluice_policy *policy,
                              const struct sl_embed_options *options,
                              struct sl_embed **ret, struct sl_diag *diag);

/* NULL is allowed. */
void sl_embed_close(struct sl_embed *embed);

/* Before sl_embed_open(), where the policy is read: lets a file that is there
 * grow to `size` bytes with all that is in it, as sl_region_grow(). 1: it has
 * grown. 0: it is no smaller, has no room for twice the keys then, or another
 * process uses it. */
SL_MUST_USE int sl_embed_grow(const char *path, uint64_t size,
                              struct sl_diag *diag);

/* A message that a damaged file was moved aside, or that a file has another
 * size than `size`; "": none. */
const char *sl_embed_notice(const struct sl_embed *embed);

/* Reads the file of token keys again if it has changed. On failure the keys in
 * use stay. 1: they were read, 0: they have not changed. */
SL_MUST_USE int sl_embed_refresh(struct sl_embed *embed, struct sl_diag *diag);

/* Does the policy have such a file? */
bool sl_embed_reads_keys(const struct sl_embed *embed);

/* The answer to a request. Texts live until the next decision. */
struct sl_embed_answer {
    bool allowed;
    bool limited;     /* false: no limit applies, and there are no headers */
    bool degraded;    /* decided without the state */
    bool has_numbers; /* of the limit that the headers show: */
    uint64_t limit, remaining;
    sl_ns wait;     /* allowed: delay it for so long, by its leaky buckets */
    sl_ns retry_in; /* denied: until it passes; SL_NS_NONE: never */
    struct sl_str by, code, plan, request_id;
    struct sl_str full; /* a limit whose key found no room in the state, so that
                         * its on_full decided; empty: none */
    struct sl_str hold; /* to be ended with sl_embed_end(); empty: none */
    sl_ns hold_for;
    const struct sl_rendered *rendered; /* status, headers, body */
};

/* Decides. `request` needs method, path and headers; `peer` is the other end
 * of the connection. The address of the client is request->ip, or that of the
 * peer, or of whom it forwards for if the policy trusts it. Trust in headers is
 * the policy's, too. */
SL_MUST_USE int sl_embed_decide(struct sl_embed *embed,
                                struct sl_request *request,
                                const struct sl_peer *peer,
                                struct sl_embed_answer *ret,
                                struct sl_diag *diag);

/* The actual costs of a hold. */
struct sl_embed_actual {
    bool has_cost; /* of all limits without a fixed cost */
    uint64_t cost;
    const struct sl_cost *costs; /* of one limit each */
    unsigned cost_count;
};

/* Ends a hold: permits come back; other limits cost what `actual` says (NULL:
 * what was held). Of a hold that has ended nothing changes. */
SL_MUST_USE int sl_embed_end(struct sl_embed *embed, struct sl_str hold,
                             const struct sl_embed_actual *actual,
                             struct sl_diag *diag);

/* The hold expires `life` from now. */
SL_MUST_USE int sl_embed_extend(struct sl_embed *embed, struct sl_str hold,
                                sl_ns life, struct sl_diag *diag);

#endif
