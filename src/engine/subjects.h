/* subjects.h -- what the registry says of a caller, and whose word goes first.
 *
 * The user goes before his organisation, whatever it is about: a plan, roles,
 * a rate of his own. What has ended is as if it had never been, but for a plan:
 * whoever had one that ended has the default, whatever a token or a header
 * still says.
 */
#ifndef SL_ENGINE_SUBJECTS_H
#define SL_ENGINE_SUBJECTS_H

#include "engine/known.h"

/* The plan that the registry gives; "" if there is none. *ret_ended if there
 * was one, and it has ended. */
struct sl_str sl_auth_info_plan(const struct sl_auth_info *known, sl_ns now,
                                bool *ret_ended);

/* His roles; NULL if the registry has none. */
const struct sl_str *sl_auth_info_roles(const struct sl_auth_info *known,
                                        unsigned *ret_count);

/* The rate of his own for a limit, or NULL; *ret_of says of whom it is: "user"
 * or "org". */
const struct sl_subject_override *
sl_auth_info_rate(const struct sl_auth_info *known, struct sl_str limit,
                  sl_ns now, const char **ret_of);

/* Has he any credits? */
bool sl_auth_info_credits(const struct sl_auth_info *known);

/* How many units beside those of a plan the caller was given of a limit that is
 * kept per `scope`, in the period that began at `start`. */
uint64_t sl_auth_info_credit(const struct sl_auth_info *known, unsigned scope,
                             struct sl_str limit, sl_ns start, sl_ns now);

/* Does the registry know one of those who are named? */
bool sl_auth_info_has_subject(const struct sl_auth_info *known);

#endif
