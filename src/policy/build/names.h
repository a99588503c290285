/* names.h -- names in order, and what they stand for.
 *
 * Filled, then closed, then asked: finding costs a few comparisons however
 * many there are. Plans compare without case, all others exactly.
 */
#ifndef SL_NAMES_H
#define SL_NAMES_H

#include "base/arena.h"
#include "policy/report.h"

struct sl_name {
    struct sl_str name; /* NUL-terminated; borrowed */
    unsigned index;
    struct sl_source_pos place;
};

struct sl_names {
    struct sl_name *list; /* once closed: in order, of equals the first first */
    const char **words;   /* as they came, for suggestions */
    unsigned count, room;
    bool nocase;
    bool unsure; /* there may be more that could not be read */
};

/* Make room for `room` names. False without memory. */
SL_MUST_USE bool sl_names_init(struct sl_names *names, unsigned room,
                               bool nocase, struct sl_arena *arena);

/* Add one. Beyond the room nothing happens. */
void sl_names_add(struct sl_names *names, struct sl_str name, unsigned index,
                  struct sl_source_pos place);

/* Put them in order. */
void sl_names_close(struct sl_names *names);

/* What the name stands for, or -1. */
int sl_names_find(const struct sl_names *names, struct sl_str name);

/* Once closed: does list[i] have the name of list[i - 1]? */
bool sl_names_again(const struct sl_names *names, unsigned i);

/* The name that was most likely meant, or NULL. */
const char *sl_names_nearest(const struct sl_names *names, struct sl_str typo);

#endif
