/* rules.h -- what settings must keep, one by one and together. */
#ifndef SL_SETTINGS_RULES_H
#define SL_SETTINGS_RULES_H

#include "sluiced/settings.h"

/* Nothing is asked for that this version does not have. */
SL_MUST_USE int sl_rules_version(struct sl_settings *settings,
                                 struct sl_diag *diag);

/* Once all are read: do they go together? */
SL_MUST_USE int sl_rules_together(struct sl_settings *settings,
                                  struct sl_diag *diag);

/* A store in a Redis: settings->shared and settings->redis. redis.c */
SL_MUST_USE int sl_settings_redis(struct sl_settings *settings,
                                  struct sl_diag *diag);

/* A store or subjects in DynamoDB: settings->shared, ->dynamo and ->subjects.
 * dynamo.c */
SL_MUST_USE int sl_settings_dynamo(struct sl_settings *settings,
                                   struct sl_diag *diag);

/* Read where the registry is, if that is in a PostgreSQL. postgres.c */
SL_MUST_USE int sl_settings_postgres(struct sl_settings *settings,
                                     struct sl_diag *diag);

/* Is that a time for a store elsewhere? redis.c */
SL_MUST_USE int sl_settings_deadline(const struct sl_settings *settings,
                                     struct sl_diag *diag);

/* `prefix` and the path behind it, as the daemon can open it; NULL if it is too
 * long. settings.c */
const char *sl_settings_path(struct sl_settings *settings,
                             enum sl_origin origin, const char *prefix,
                             const char *path);

#define SL_USAGE_IN_MEMORY                                                     \
    "sqlite::memory:" /* a registry that ends with us                          \
                       */

/* Where subjects are kept if it is said where state is, and no more: whoever
 * says it of one says it of both. */
const char *sl_rules_usage(const struct sl_setting_source *given);

#endif
