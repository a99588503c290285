/* script_hold.h -- a hold's end as the words of a command, and its reply.
 *
 * Pure, as script.h. The script's part is holds.lua.
 */
#ifndef SL_SCRIPT_HOLD_H
#define SL_SCRIPT_HOLD_H

#include "store/redis/script.h"

#define SL_HOLD_DIGITS 32 /* of an id, in hex */
#define SL_HOLD_NAME   64 /* bytes of a record's name, with its NUL */

void sl_script_hold_digits(struct sl_hold_id id, char out[SL_HOLD_DIGITS + 1]);

/* What the record of a hold is called: "sluice:hold:ID", or in a cluster
 * "sluice:hold:{TAG}:ID", which lies in `slot`. */
void sl_script_hold_name(struct sl_hold_id id, bool in_slots, unsigned slot,
                         char out[SL_HOLD_NAME]);

/* Append the command to `out`; how->record is the record's name. */
SL_MUST_USE int sl_script_hold_write(const struct sl_hold_call *call,
                                     const struct sl_script_options *how,
                                     struct sl_buf *out);

/* Fill in what was found. False if that is no reply of the script. `on_key` is
 * told each key of the hold. */
typedef void sl_script_key_f(void *ctx, struct sl_str key);
SL_MUST_USE bool sl_script_hold_read(struct sl_hold_call *call,
                                     struct sl_str reply,
                                     sl_script_key_f *on_key, void *ctx);

#endif
