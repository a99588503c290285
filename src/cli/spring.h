/* spring.h -- settings of Java programs as a policy.
 *
 *   rate-limit.*        tiers with requests per minute, a burst and a daily
 *                       limit, for /api/v1/ai
 *   fluo.ratelimit.*    requests per minute of a tenant and of a user, with
 *                       quarkus.redis.* for the store
 *
 * java_limits.h has the settings of libraries.
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
    struct sl_prop *first;
    size_t count;
    struct sl_arena *arena;
    const char *const *families; /* wanted: "rate-limit"; ended by NULL. A
                                  * NULL list: all keys */
    unsigned more;               /* the line of a second document, or 0 */
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

/* Java ignores dashes, underscores and case in names. Returns the next
 * significant letter of `s` from *at on, in lower case; NUL at the end. */
char sl_properties_letter(struct sl_str s, size_t *at);

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

#endif
