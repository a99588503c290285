/* script.h -- a take as the words of a command, and its reply as answers.
 *
 * Pure: no connection is known here. The script itself is kinds.lua and
 * take.lua.
 */
#ifndef SL_SCRIPT_H
#define SL_SCRIPT_H

#include "base/buf.h"
#include "store/store.h"

/* The text of both, and its SHA-1 in hex, by which Redis knows it. */
extern const char sl_script_text[];
extern const size_t sl_script_len;
extern const char sl_script_sha[41];

/* Numbers of a reply: three of the set, five of each part. */
#define SL_SCRIPT_NUMBERS (3 + 5 * SL_PARTS)

/* How a take is asked for. */
struct sl_script_how {
    bool whole;   /* EVAL with the text; otherwise EVALSHA */
    bool own_now; /* `near` is the time: test builds. Otherwise it is the
                   * server's own */
    sl_ns near;   /* the server's time, as far as we know: which periods of a
                   * calendar are meant, and when this was taken if it is to
                   * be given back */
};

/* Append the command to `out`. Parts of the same name are one: their costs add
 * up. SLUICE_ENOMEM. */
SL_MUST_USE int sl_script_write(const struct sl_take *take,
                                const struct sl_script_how *how,
                                struct sl_buf *out);

/* Make of a command that takes one that gives back the same, or one with the
 * whole text, in place of its own bytes. `from` is what sl_script_write() has
 * appended. */
SL_MUST_USE int sl_script_give_back(struct sl_str from, struct sl_buf *out);
SL_MUST_USE int sl_script_whole(struct sl_str from, struct sl_buf *out);

/* What a reply says beside the answers. */
struct sl_script_said {
    sl_ns now;        /* the server's time */
    uint64_t strange; /* values that were none of ours, and are replaced */
};

/* Fill in take->allowed and the answers. False if that is no reply of the
 * script to this take. */
SL_MUST_USE bool sl_script_read(struct sl_take *take, const int64_t *numbers,
                                unsigned count, struct sl_script_said *ret);

#endif
