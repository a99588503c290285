/* flush.h -- an empty Redis for the next flow; test builds only. */
#ifndef SL_FLUSH_H
#define SL_FLUSH_H

#include "store/redis/where.h"

/* Delete everything in the database of a Redis without a password. 0 or
 * SLUICE_ESTORE. */
SL_MUST_USE int sl_flush(const struct sl_redis_where *where);

#endif
