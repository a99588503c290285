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

/* ---- the settings of a Java program ----
 *
 * application.properties and application.yml become a list of dotted keys with
 * values and lines. Of YAML, only nested keys with plain or quoted values, and
 * lists, are read. Other syntax is refused, because a misread setting would
 * become a wrong limit. Keys outside the wanted families are skipped.
 */

#define SL_PROPERTIES_BYTES (1024 * 1024)
#define SL_PROPERTIES_DEPTH 16
#define SL_PROPERTIES_COUNT 10000 /* a list without an index is sufficient */

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
    const char *const *families; /* wanted: "rate-limit"; ended by NULL. A
                                  * NULL list: all keys */
};

/* Both return SLUICE_ECONF with line and column in `diag`, SLUICE_EFULL beyond
 * SL_PROPERTIES_COUNT, or SLUICE_ENOMEM. */
SL_MUST_USE int sl_properties_read(struct sl_str text,
                                   struct sl_properties *props,
                                   struct sl_diag *diag);
SL_MUST_USE int sl_properties_read_yml(struct sl_str text,
                                       struct sl_properties *props,
                                       struct sl_diag *diag);

/* Add a setting. A later value replaces an earlier one, as in Java. */
SL_MUST_USE int sl_properties_add(struct sl_properties *props,
                                  struct sl_str key, struct sl_str value,
                                  unsigned line);

/* Is the key in a wanted family, or the parent of such a key? */
bool sl_properties_wants(const struct sl_properties *props, struct sl_str key);

/* Java ignores dashes, underscores and case in names. Returns the next
 * significant letter of `s` from *at on, in lower case; NUL at the end. */
char sl_properties_letter(struct sl_str s, size_t *at);

/* The text without its byte order mark. */
struct sl_str sl_properties_bare(struct sl_str text);

/* The next line of *text, without its end; false after the last. */
bool sl_properties_line(struct sl_str *text, struct sl_str *ret);

#define SL_SPRING_TIERS 32

/* Called with a message about a setting; `line` is 0 if there is none. */
typedef void sl_spring_f(void *ctx, unsigned line, const char *sentence);

struct sl_spring {
    const struct sl_properties *props;
    sl_spring_f *tell; /* warnings and errors */
    void *ctx;
    unsigned errors; /* messages so far */
};

/* The wanted families, for sl_properties.families. */
extern const char *const sl_spring_families[];

/* Write the policy to `out`. SLUICE_ECONF, after a message, if that is
 * impossible; SLUICE_ENOENT: no setting of the families. */
SL_MUST_USE int sl_spring_write(struct sl_spring *spring, struct sl_buf *out);

/* Report a message about `line`. */
void sl_spring_warn(struct sl_spring *spring, unsigned line, const char *fmt,
                    ...) SL_PRINTF(3, 4);
void sl_spring_error(struct sl_spring *spring, unsigned line, const char *fmt,
                     ...) SL_PRINTF(3, 4);

/* Compare names as Java does: requestsPerMinute, requests_per_minute and
 * requests-per-minute are equal. */
bool sl_spring_same(struct sl_str a, struct sl_str b);

/* Read a count of at least 1, or report why not. */
bool sl_spring_count(struct sl_spring *spring, const struct sl_prop *prop,
                     uint64_t *ret);

/* Read true or false, as Java does. */
bool sl_spring_switch(struct sl_spring *spring, const struct sl_prop *prop,
                      bool *ret);

/* Replace ${NAME:default} by its default, with a message. */
struct sl_str sl_spring_value(struct sl_spring *spring,
                              const struct sl_prop *prop);

/* One function per family; *there is set if it has settings. */
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
    sl_ns deadline; /* 0: not set */
};

void sl_spring_tiers_read(struct sl_spring *spring,
                          struct sl_spring_tiers *ret);
void sl_spring_fluo_read(struct sl_spring *spring, struct sl_spring_fluo *ret);

/* Write the policy. SLUICE_ENOMEM or SLUICE_EFULL. */
SL_MUST_USE int sl_spring_policy(const struct sl_spring_tiers *tiers,
                                 const struct sl_spring_fluo *fluo,
                                 struct sl_buf *out);

#endif
