/* spring.h -- settings of two Java programs as a policy.
 *
 *   rate-limit.*        tiers with requests per minute, a burst and a daily
 *                       limit, for /api/v1/ai
 *   fluo.ratelimit.*    requests per minute of a tenant and of a user, with
 *                       quarkus.redis.* for the store
 */
#ifndef SL_SPRING_H
#define SL_SPRING_H

#include "base/buf.h"
#include "cli/spring/props.h"

#define SL_SPRING_TIERS 32

/* What is told about a setting: `line` is 0 where none is meant. */
typedef void sl_spring_f(void *ctx, unsigned line, const char *sentence);

struct sl_spring {
    const struct sl_properties *props;
    sl_spring_f *tell; /* warnings and errors */
    void *ctx;
    unsigned errors; /* told so far */
};

/* Whose settings are read, for sl_properties.families; all others can stay as
 * they are. */
extern const char *const sl_spring_families[];

/* Write the policy to `out`. SLUICE_ECONF if something makes that impossible,
 * and then it was told; SLUICE_ENOENT if there is no such setting at all. */
SL_MUST_USE int sl_spring_write(struct sl_spring *spring, struct sl_buf *out);

/* For the parts of this: say something about `line`. */
void sl_spring_warn(struct sl_spring *spring, unsigned line, const char *fmt,
                    ...) SL_PRINTF(3, 4);
void sl_spring_error(struct sl_spring *spring, unsigned line, const char *fmt,
                     ...) SL_PRINTF(3, 4);

/* Java binds names loosely: requestsPerMinute, requests_per_minute and
 * requests-per-minute are one. */
bool sl_spring_same(struct sl_str a, struct sl_str b);

/* A count from 1 on; tells what is wrong otherwise. */
bool sl_spring_count(struct sl_spring *spring, const struct sl_prop *prop,
                     uint64_t *ret);

/* true or false, as Java would read it. */
bool sl_spring_switch(struct sl_spring *spring, const struct sl_prop *prop,
                      bool *ret);

/* The value of ${NAME:default} is its default, which is told; others are
 * themselves. */
struct sl_str sl_spring_value(struct sl_spring *spring,
                              const struct sl_prop *prop);

/* One for each family of settings; `there` says whether there are any. */
struct sl_tier {
    char name[32];
    const struct sl_prop *rpm, *burst, *daily;
    uint64_t rpm_count, burst_count, daily_count;
};

struct sl_spring_tiers {
    bool there, enabled;
    struct sl_tier list[SL_SPRING_TIERS];
    unsigned count;
};

struct sl_spring_fluo {
    bool there;
    uint64_t tenant, user;
    struct sl_str store;
    sl_ns deadline; /* 0: not written */
};

void sl_spring_tiers_read(struct sl_spring *spring,
                          struct sl_spring_tiers *ret);
void sl_spring_fluo_read(struct sl_spring *spring, struct sl_spring_fluo *ret);

/* What was read, as a policy. SLUICE_ENOMEM or SLUICE_EFULL. */
SL_MUST_USE int sl_spring_policy(const struct sl_spring_tiers *tiers,
                                 const struct sl_spring_fluo *fluo,
                                 struct sl_buf *out);

#endif
