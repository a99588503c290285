/* java_limits.h -- the limits of Java libraries as limits and routes.
 *
 *   bucket4j.filters[]                    bucket4j-spring-boot-starter
 *   spring.cloud.gateway.routes[]         RequestRateLimiter of Spring Cloud
 *                                         Gateway
 *   resilience4j.ratelimiter.instances    Resilience4j
 *
 * What a setting cannot say in a policy is reported. A setting that would
 * become a wrong limit fails the import.
 */
#ifndef SL_CLI_JAVA_LIMITS_H
#define SL_CLI_JAVA_LIMITS_H

#include "base/buf.h"
#include "base/clock.h"
#include "cli/spring_read.h"

#define SL_JAVA_MAX    64 /* limits: a set of them is a word */
#define SL_JAVA_ROUTES 256

struct sl_java_limit {
    char name[48];
    char per[48]; /* "user", "ip", "[]" or a scope */
    char rate[80];
    const char *kind;
    const char *missing; /* or NULL */
    const char *from;    /* the key of the setting */
    bool interval;       /* refill: interval */
    bool alone;          /* not for routes that its route covers */
    uint64_t status;     /* 0: 429 */
    uint64_t cost;       /* 0: 1 */
};

struct sl_java_route {
    char match[256]; /* "GET /api/x", or the name of a job */
    bool job;
    bool first;      /* takes all requests of `match` from later ones */
    uint64_t limits; /* a bit for each */
    uint64_t wide;   /* those also of the routes that it covers */
};

/* A scope whose value is a header of the request. */
struct sl_java_scope {
    char name[48], header[48];
};

struct sl_java {
    bool found, disabled;
    struct sl_java_limit limits[SL_JAVA_MAX];
    unsigned limit_count;
    struct sl_java_route routes[SL_JAVA_ROUTES];
    unsigned route_count;
    struct sl_java_scope scopes[SL_JAVA_MAX];
    unsigned scope_count;
};

/* Read all three. Errors are counted in spring->errors. */
void sl_java_read(struct sl_spring *spring, struct sl_java *ret);

/* The parts of a policy; nothing if there is none. */
void sl_java_put_scopes(struct sl_writer *w, const struct sl_java *java);
void sl_java_put_limits(struct sl_writer *w, const struct sl_java *java);
void sl_java_put_routes(struct sl_writer *w, const struct sl_java *java);

/* ---- for the readers ---- */

void sl_bucket4j_read(struct sl_spring *spring, struct sl_java *ret);
void sl_gateway_read(struct sl_spring *spring, struct sl_java *ret);
void sl_resilience4j_read(struct sl_spring *spring, struct sl_java *ret);

/* A new limit with the rate `count` per `period` and a burst (0: none); NULL,
 * with a message about `prop`, if there are too many or the rate cannot be
 * written. */
struct sl_java_limit *sl_java_add(struct sl_spring *spring,
                                  struct sl_java *java,
                                  const struct sl_prop *prop, uint64_t count,
                                  sl_ns period, uint64_t burst);

/* Add a limit, or none (NULL), to the route of this text. Returns the route, or
 * NULL, with a message about `prop`. */
struct sl_java_route *sl_java_route(struct sl_spring *spring,
                                    struct sl_java *java,
                                    const struct sl_prop *prop,
                                    const char *match, bool job,
                                    const struct sl_java_limit *limit);

/* The route that takes all requests of this text first, or NULL. */
const struct sl_java_route *sl_java_taker(const struct sl_java *java,
                                          const char *match);

/* What a limit is per, by an expression that names whose bucket it is. */
void sl_java_per(struct sl_spring *spring, struct sl_java *java,
                 const struct sl_prop *prop, struct sl_java_limit *limit);

/* The status of denials; 0 if `prop` is NULL. */
uint64_t sl_java_status(struct sl_spring *spring, const struct sl_prop *prop);

#endif
