/* lending.h -- quotas leased from books that other daemons use, too. */
#ifndef SL_QUOTA_NODE_H
#define SL_QUOTA_NODE_H

#include "store/quota_lease.h"

struct sl_daemon;
struct sl_timer;

struct sl_quota_node {
    struct sl_quota_lessor lender; /* first: the two are cast into each other */
    struct sl_store *store; /* the engine's; NULL: quotas are not leased */
    struct sl_daemon *daemon;
    char node[24];          /* who we are, for as long as the state lives */
    struct sl_timer *timer; /* on the first worker's loop */
    _Atomic bool over;      /* nothing more is asked */
    _Atomic bool lost;      /* another has our name */
};

#endif
