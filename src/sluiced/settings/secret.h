/* secret.h -- the tokens of the doors. */
#ifndef SL_SETTINGS_SECRET_H
#define SL_SETTINGS_SECRET_H

#include "sluiced/settings.h"

/* Read the token that was chosen: a text of the policy, or a file. */
SL_MUST_USE int sl_settings_token(struct sl_settings *settings,
                                  enum sl_setting id, struct sl_str *ret,
                                  struct sl_diag *diag);

#endif
