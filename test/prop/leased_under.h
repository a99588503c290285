/* leased_under.h -- tables that outlive the stores before them. */
#ifndef SL_PROP_LEASED_UNDER_H
#define SL_PROP_LEASED_UNDER_H

#include "store/quota_lease.h"

struct under {
    struct sl_store store; /* first */
    struct sl_store *table;
};

static struct sl_store *table_of(struct sl_store *store)
{
    return ((struct under *)store)->table;
}

static int bind(struct sl_store *s, struct sl_limit_binding *limits,
                unsigned count, struct sl_diag *diag)
{
    return sl_store_bind(table_of(s), limits, count, diag);
}

static void take_under(struct sl_store *s, struct sl_take *take)
{
    sl_store_take(table_of(s), take);
}

static void close_nothing(struct sl_store *s)
{
    (void)s;
}

static const struct sl_store_calls under_calls = {
    .bind = bind, .take = take_under, .close = close_nothing};

#endif
