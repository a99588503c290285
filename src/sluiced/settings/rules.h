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

#endif
