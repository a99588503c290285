/* descriptor.h -- which route a descriptor takes: the first that matches.
 *
 * Envoy describes a request by a domain and a list of entries, key and value.
 * A pattern is a domain and as many parts:
 *
 *     key=value      the key with exactly this value
 *     key=va*ue      a value like this; * is any number of characters
 *     key~va*ue      the same, and all such values are one
 *     key            any value
 *     (2 stars)      whatever follows, as the last part only
 *
 * A limit that is kept `per: descriptor` is kept by the values that a pattern
 * leaves open: those of `key` and of `key=va*ue`.
 */
#ifndef SL_DESCRIPTOR_H
#define SL_DESCRIPTOR_H

#include "base/arena.h"
#include "base/diag.h"

#define SL_DESCRIPTOR_PARTS 32

enum sl_part_kind {
    SL_PART_EXACT,
    SL_PART_LIKE, /* a value with stars in it */
    SL_PART_ANY,
    SL_PART_REST,
};

struct sl_descriptor_part {
    enum sl_part_kind kind;
    bool shared; /* `~`: the value is not told apart */
    struct sl_str key, value;
};

struct sl_descriptor {
    struct sl_str domain;
    const struct sl_descriptor_part *parts;
    unsigned count;
};

/* An entry as it comes. */
struct sl_descriptor_entry {
    struct sl_str key, value;
};

/* Read one part. Refuses what has no key. The slices point into `text`. */
SL_MUST_USE int sl_descriptor_part_read(struct sl_str text,
                                        struct sl_descriptor_part *ret,
                                        struct sl_diag *diag);

bool sl_descriptor_matches(const struct sl_descriptor *pattern,
                           struct sl_str domain,
                           const struct sl_descriptor_entry *entries,
                           unsigned count);

/* Does the value match a pattern with stars? */
bool sl_value_is_like(struct sl_str pattern, struct sl_str value);

/* The values that the pattern leaves open, as one text, in `arena`: different
 * values make different texts. "-" if it leaves none open. NULL without
 * memory. */
SL_MUST_USE char *sl_descriptor_id(const struct sl_descriptor *pattern,
                                   const struct sl_descriptor_entry *entries,
                                   unsigned count, struct sl_arena *arena);

#endif
