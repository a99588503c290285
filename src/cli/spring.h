/* spring.h -- settings of two Java programs as a policy.
 *
 *   rate-limit.*        tiers with requests per minute, a burst and a daily
 *                       limit, for /api/v1/ai
 *   fluo.ratelimit.*    requests per minute of a tenant and of a user, with
 *                       quarkus.redis.* for the store
 */
#ifndef SL_CLI_SPRING_H
#define SL_CLI_SPRING_H

#include "base/arena.h"
#include "base/buf.h"
#include "base/diag.h"

/* ---- the settings of a Java program, from application.properties or
 * from application.yml.
 *
 * Both become a list of dotted keys with their values and lines. Of YAML only
 * what such files are made of is read: nested keys with plain or quoted
 * values, and lists. Anything else is refused at its place, as a setting that
 * was misread would become a limit that nobody meant. But what is of no family
 * that is asked for is passed over, however it is written.
 */

#define SL_PROPERTIES_BYTES (1024 * 1024)
#define SL_PROPERTIES_DEPTH 16
#define SL_PROPERTIES_COUNT                                                    \
    10000 /* a list without an index is enough for these */

struct sl_prop {
    const char *key; /* "rate-limit.tiers.free.daily-limit" */
    const char *value;
    unsigned line;
    struct sl_prop *next;
};

struct sl_properties {
    struct sl_prop *first, *last;
    size_t count;
    struct sl_arena *arena;
    const char *const *families; /* "rate-limit"; NULL behind the last. NULL
                                  * itself: all are read */
};

/* Both: SLUICE_ECONF with line and column in `diag`, SLUICE_EFULL beyond
 * SL_PROPERTIES_COUNT, or SLUICE_ENOMEM. */
SL_MUST_USE int sl_properties_read(struct sl_str text,
                                   struct sl_properties *props,
                                   struct sl_diag *diag);
SL_MUST_USE int sl_properties_read_yml(struct sl_str text,
                                       struct sl_properties *props,
                                       struct sl_diag *diag);

/* Append one. A key that is there already gets the new value, as in Java. */
SL_MUST_USE int sl_properties_add(struct sl_properties *props,
                                  struct sl_str key, struct sl_str value,
                                  unsigned line);

/* Is the key of a family, or could one below it be? */
bool sl_properties_wants(const struct sl_properties *props, struct sl_str key);

/* Java binds names loosely: the next letter of `s` from *at on that counts, in
 * lower case; NUL at the end. */
char sl_properties_letter(struct sl_str s, size_t *at);

/* The text without a byte order mark. */
struct sl_str sl_properties_bare(struct sl_str text);

/* The next line of *text, without its end; false behind the last. */
bool sl_properties_line(struct sl_str *text, struct sl_str *ret);

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
