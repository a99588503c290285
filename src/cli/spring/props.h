/* props.h -- the settings of a Java program, from application.properties or
 * from application.yml.
 *
 * Both become a list of dotted keys with their values and lines. Of YAML only
 * what such files are made of is read: nested keys with plain or quoted
 * values, and lists. Anything else is refused at its place, as a setting that
 * was misread would become a limit that nobody meant. But what is of no family
 * that is asked for is passed over, however it is written.
 */
#ifndef SL_PROPERTIES_H
#define SL_PROPERTIES_H

#include "base/arena.h"
#include "base/diag.h"

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

#endif
