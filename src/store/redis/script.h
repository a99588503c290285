/* script.h -- a take as the words of a command, and its reply as answers.
 *
 * Pure: no connection is known here. The script itself is kinds.lua and
 * take.lua.
 */
#ifndef SL_SCRIPT_H
#define SL_SCRIPT_H

#include "base/buf.h"
#include "store/caches.h"

/* The text of both, and its SHA-1 in hex, by which Redis knows it. */
extern const char sl_script_text[];
extern const size_t sl_script_len;
extern const char sl_script_sha[41];

/* Numbers of a reply: three of the set, five of each part, and three of what is
 * leased of it. */
#define SL_SCRIPT_NUMBERS (3 + 8 * SL_PARTS)

/* How a take is asked for. */
struct sl_script_options {
    bool whole;   /* EVAL with the text; otherwise EVALSHA */
    bool own_now; /* `near` is the time: test builds. Otherwise it is the
                   * server's own */
    sl_ns near;   /* the server's time, as far as we know: which periods of a
                   * calendar are meant, and when this was taken if it is to
                   * be given back */
    struct sl_str record; /* of a hold: what it is called in Redis */
    bool undo; /* of a release: what was taken with it and not held as well */
    const struct sl_lease_request *leases; /* of each part; NULL: none. No two
                                            * parts have the same name then */
};

/* Append the command to `out`. Parts of the same name are one: their costs add
 * up. SLUICE_ENOMEM. */
SL_MUST_USE int sl_script_write(const struct sl_take *take,
                                const struct sl_script_options *how,
                                struct sl_buf *out);

/* Words of a command. */
SL_MUST_USE int sl_script_put(struct sl_buf *out, struct sl_str word);
SL_MUST_USE int sl_script_put_number(struct sl_buf *out, uint64_t number);

/* A command up to its KEYS: so many of these, and so many words behind them. */
SL_MUST_USE int sl_script_call(struct sl_buf *out,
                               const struct sl_script_options *how,
                               unsigned keys, unsigned words);

/* The time itself, or what it may be. */
SL_MUST_USE int sl_script_put_now(struct sl_buf *out,
                                  const struct sl_script_options *how);

/* The period of a calendar that `now` lies in, as the script knows it: its
 * start and end, the end of the next, the start of the one before. */
#define SL_SCRIPT_PERIOD 4
void sl_script_period(const struct sl_limit *limit, sl_ns now,
                      uint64_t ret[SL_SCRIPT_PERIOD]);

/* Make of a command that takes one that gives back the same, or one with the
 * whole text, in place of its own bytes. `from` is what sl_script_write() has
 * appended. */
SL_MUST_USE int sl_script_give_back(struct sl_str from, struct sl_buf *out);
SL_MUST_USE int sl_script_eval(struct sl_str from, struct sl_buf *out);

/* What a reply says beside the answers. */
struct sl_script_reply {
    sl_ns now;        /* the server's time */
    uint64_t strange; /* values that were none of ours, and are replaced */
    bool passing;     /* refused, and a hold expires within a second */
};

/* Fill in take->allowed and the answers. False if that is no reply of the
 * script to this take. */
SL_MUST_USE bool sl_script_read(struct sl_take *take, const int64_t *numbers,
                                unsigned count, struct sl_script_reply *ret);

/* What is leased of part `i` of `parts`, and what its answer was. False if that
 * is no reply to leases. */
struct sl_script_leased {
    uint64_t has;
    sl_ns till; /* the server's time */
    bool known; /* the lease that has ended was still there */
    uint64_t remaining;
    sl_ns reset_in;
};
SL_MUST_USE bool sl_script_read_lease(const int64_t *numbers, unsigned count,
                                      unsigned parts, unsigned i,
                                      struct sl_script_leased *ret);

/* Append the name of a part and its numbers, at a cost of 0, as
 * sl_script_end_lease() wants them back. */
SL_MUST_USE int sl_script_keep(const struct sl_store_part *part, sl_ns near,
                               struct sl_buf *out, size_t *ret_name_len);

/* Append the command that ends a lease and does nothing else. */
SL_MUST_USE int sl_script_end_lease(struct sl_str name, struct sl_str numbers,
                                    const struct sl_script_options *how,
                                    const struct sl_lease_request *lease,
                                    struct sl_buf *out);

#endif
