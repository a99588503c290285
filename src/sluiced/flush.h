/* flush.h -- an empty Redis for the next flow; test builds only. */
#ifndef SL_TEST_RESET_H
#define SL_TEST_RESET_H

#include "store/dynamo/where.h"
#include "store/redis/where.h"

/* Delete everything in the database of a Redis without a password. 0 or
 * SLUICE_ESTORE. */
SL_MUST_USE int sl_test_reset(const struct sl_redis_url *where);

/* Only of the DynamoDB of our tests: it has a word for that. */
SL_MUST_USE int sl_test_reset_dynamo(const struct sl_dynamo_url *where);

#endif
