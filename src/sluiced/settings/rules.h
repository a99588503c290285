/* rules.h -- what settings must keep, one by one and together. */
#ifndef SL_SETTINGS_RULES_H
#define SL_SETTINGS_RULES_H

#include "sluiced/settings/settings.h"

/* Nothing is asked for that this version does not have. */
SL_MUST_USE int sl_rules_version(struct sl_settings *settings,
                                 struct sl_diag *diag);

/* Once all are read: do they go together? */
SL_MUST_USE int sl_rules_together(struct sl_settings *settings,
                                  struct sl_diag *diag);

#define SL_USAGE_IN_MEMORY                                                     \
    "sqlite::memory:" /* a registry that ends with us                          \
                       */

/* Where subjects are kept if it is said where state is, and no more: whoever
 * says it of one says it of both. */
const char *sl_rules_usage(const struct sl_given *given);

#endif
