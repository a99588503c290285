/* route.h -- which route a request takes: the first that matches.
 *
 * A pattern is [METHOD[,METHOD...]] PATH:
 *
 *     /api/v1/ai/(2 stars)      any method, /api/v1/ai and all below it
 *     GET,HEAD /a/(1 star)/c    any one segment
 *     DELETE /api/shares/:id    any one segment, with a name
 *
 * Literal segments ignore case (ASCII), as many servers do. A route for GET
 * takes HEAD, too.
 *
 * The patterns of a policy are a tree of segments. If several match, the first
 * in the file wins.
 *
 * Invariants. (test/prop/route.c checks them against a loop over all patterns.)
 *   (1) sl_routes_find() gives the lowest index whose pattern matches, also
 *       from a later one on if the earlier ones are conditional.
 *   (5) sl_routes_covers() gives what sl_pattern_covers() says of every pair.
 */
#ifndef SL_POLICY_ROUTE_H
#define SL_POLICY_ROUTE_H

#include "base/arena.h"
#include "base/diag.h"
#include "base/str.h"

/* ---- one canonical form of a request path, and its other readings.
 *
 * All spellings of a path that common servers take to one endpoint have one
 * form, so that no spelling escapes its limit:
 *
 *   - an absolute form loses scheme and host; query and fragment are cut off
 *   - percent escapes are decoded, once; %2f is a slash like any other, a
 *     backslash too; the path ends before a %00
 *   - each segment loses its ;parameters
 *   - empty segments and `.` are dropped, `..` takes its parent away
 *   - no slash at the end; the root is "/"
 *
 * Letters keep their case; patterns ignore it.
 *
 * Some servers do less: /a/..;/b is /b for one and below /a for another. Such a
 * path has several readings, and the routes of all of them apply.
 */

#define SL_PATH_SEGMENTS 64
#define SL_PATH_BYTES    8192 /* of the canonical form */

/* Segments beyond SL_PATH_SEGMENTS are dropped and `deep` is set: then only a
 * pattern that ends in two stars can match. */
struct sl_path {
    struct sl_str segment[SL_PATH_SEGMENTS]; /* into the caller's bytes */
    unsigned count;
    bool deep;
    bool cut; /* a segment was longer than the room, and is empty here */
};

/* Read `text`; every text has a form. `room` has at least text.len bytes, or
 * SL_PATH_BYTES if that is less.
 *
 * Pass the whole text, however long: a cut text can lose the end of a detour (a
 * long host, /././., ;x=...). Only the canonical form needs room. A segment
 * without room is counted but empty, and `cut` is set. */
void sl_path_read(struct sl_str text, char *room, struct sl_path *ret);

#define SL_PATH_READINGS 12 /* at most; path.c lists them */

/* All readings of `text` by common servers, each once; the first is that of
 * sl_path_read(). Nearly always there is only one. Returns the count.
 *
 * `room` has at least SL_PATH_READINGS * min(text.len, SL_PATH_BYTES) bytes.
 * Segments are in `room` or in `text`: keep both. */
unsigned sl_path_readings(struct sl_str text, char *room,
                          struct sl_path ret[SL_PATH_READINGS]);

enum sl_method {
    SL_METHOD_GET = 1 << 0,
    SL_METHOD_HEAD = 1 << 1,
    SL_METHOD_POST = 1 << 2,
    SL_METHOD_PUT = 1 << 3,
    SL_METHOD_DELETE = 1 << 4,
    SL_METHOD_PATCH = 1 << 5,
    SL_METHOD_OPTIONS = 1 << 6,
    SL_METHOD_CONNECT = 1 << 7,
    SL_METHOD_TRACE = 1 << 8,
    SL_METHOD_OTHER = 1 << 9,
    SL_METHOD_ANY = (1 << 10) - 1,
};

/* The bit of a method; names ignore case. */
unsigned sl_method_of(struct sl_str name);

enum sl_segment_kind { SL_SEGMENT_WORD, SL_SEGMENT_ONE, SL_SEGMENT_REST };

struct sl_segment {
    enum sl_segment_kind kind;
    struct sl_str word; /* WORD: decoded; ONE: its name or "" */
};

struct sl_pattern {
    unsigned methods; /* bits */
    const struct sl_segment *segments;
    unsigned count;
    bool conditional; /* later routes can get its requests */
};

/* Read a pattern. Refuses unknown methods, paths without a leading slash, two
 * stars that are not last, "a*", empty segments, dots, queries and escaped
 * slashes. */
SL_MUST_USE int sl_pattern_read(struct sl_str text, struct sl_arena *arena,
                                struct sl_pattern *ret, struct sl_diag *diag);

bool sl_pattern_matches(const struct sl_pattern *pattern, unsigned method,
                        const struct sl_path *path);

/* Does `wide` match everything that `narrow` matches? */
bool sl_pattern_covers(const struct sl_pattern *wide,
                       const struct sl_pattern *narrow);

#define SL_NO_ROUTE UINT32_MAX

/* For each of `count` patterns, the first before it that covers it, or
 * SL_NO_ROUTE. Conditional ones cover nothing; NULL entries are skipped. Memory
 * is of `arena`. 0 or SLUICE_ENOMEM. */
SL_MUST_USE int sl_routes_covers(const struct sl_pattern *const *patterns,
                                 unsigned count, struct sl_arena *arena,
                                 unsigned *ret);

struct sl_routes; /* the tree, in an arena */

/* Build the tree of `count` patterns, which it borrows; NULL entries are
 * skipped. NULL without memory. */
SL_MUST_USE struct sl_routes *
sl_routes_build(const struct sl_pattern *const *patterns, unsigned count,
                struct sl_arena *arena);

/* The first matching pattern from number `from` on, or SL_NO_ROUTE. */
unsigned sl_routes_find(const struct sl_routes *routes, unsigned method,
                        const struct sl_path *path, unsigned from);

/* ---- descriptors: a domain and a list of entries, key and value. The first
 * matching route applies. A pattern is a domain and as many parts:
 *
 *     key=value      the key with exactly this value
 *     key=va*ue      a value like this; * is any number of characters
 *     key~va*ue      the same, and all such values are one
 *     key            any value
 *     (2 stars)      whatever follows, as the last part only
 *
 * A limit with `per: descriptor` counts by the open values: those of `key` and
 * of `key=va*ue`.
 */

#define SL_DESCRIPTOR_PARTS 32

enum sl_part_kind {
    SL_PART_EXACT,
    SL_PART_LIKE, /* a value with stars in it */
    SL_PART_ANY,
    SL_PART_REST,
};

struct sl_descriptor_part {
    enum sl_part_kind kind;
    bool shared; /* `~`: all values count as one */
    struct sl_str key, value;
};

struct sl_descriptor {
    struct sl_str domain;
    const struct sl_descriptor_part *parts;
    unsigned count;
};

struct sl_descriptor_entry {
    struct sl_str key, value;
};

/* Read one part. Refuses a part without a key. Slices point into `text`. */
SL_MUST_USE int sl_descriptor_part_read(struct sl_str text,
                                        struct sl_descriptor_part *ret,
                                        struct sl_diag *diag);

bool sl_descriptor_matches(const struct sl_descriptor *pattern,
                           struct sl_str domain,
                           const struct sl_descriptor_entry *entries,
                           unsigned count);

/* Does the value match a pattern with stars? */
bool sl_value_is_like(struct sl_str pattern, struct sl_str value);

/* The open values as one text, in `arena`; "-" if there are none. Different
 * values make different texts. NULL without memory. */
SL_MUST_USE char *sl_descriptor_id(const struct sl_descriptor *pattern,
                                   const struct sl_descriptor_entry *entries,
                                   unsigned count, struct sl_arena *arena);

#endif
