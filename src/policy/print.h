/* print.h -- a checked policy as text again: what was understood.
 *
 * The text is a policy file in one canonical form: every default is written
 * out, every plan has its rate, names are in the order of the file. Who reads
 * it sees what will be done; read again, it decides alike.
 *
 * Secrets are left out. Tokens, and passwords in the addresses of stores, are
 * "(secret)". What came from the environment or from a file is shown as it was
 * written, "${ENV:NAME}", and means the same where that means the same. What
 * only follows from such a value is not written out.
 *
 * Invariants. (test/prop/policy.c checks each by number, for random policies.)
 *   (1) The print is read without problems that the policy did not have.
 *   (2) Printing what was read gives the same bytes.
 *   (3) The two policies decide alike.
 *   (4) What came from outside is shown as it was written.
 * A print can be larger than a file may be, since all is written out: then
 * only people can read it.
 */
#ifndef SL_PRINT_H
#define SL_PRINT_H

#include "base/buf.h"

struct sl_policy;

/* Append the policy. SLUICE_EFULL, SLUICE_ENOMEM: nothing was appended. */
SL_MUST_USE int sl_policy_print(const struct sl_policy *policy,
                                struct sl_buf *out);

#endif
