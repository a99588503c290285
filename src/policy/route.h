/* route.h -- which route a request takes: the first that matches.
 *
 * A pattern is [METHOD[,METHOD...]] PATH:
 *
 *     /api/v1/ai/(2 stars)      any method, /api/v1/ai and all below it
 *     GET,HEAD /a/(1 star)/c    any one segment
 *     DELETE /api/shares/:id    any one segment, with a name
 *
 * Literal segments compare without case (ASCII), for many servers do. A route
 * for GET takes HEAD too, since servers answer HEAD from the same handler.
 *
 * The patterns of a policy become a tree of segments, so that a thousand
 * routes cost about what ten cost. Where several match, the first in the file
 * wins: each node knows the first route below it, and what can't win is not
 * looked at.
 *
 * Invariants. (test/prop/route.c checks them against a loop over all patterns.)
 *   (1) sl_routes_find() gives the lowest index whose pattern matches.
 */
#ifndef SL_ROUTE_H
#define SL_ROUTE_H

#include "base/arena.h"
#include "base/diag.h"
#include "policy/path.h"

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
    SL_METHOD_OTHER = 1 << 9, /* whatever else a client may send */
    SL_METHOD_ANY = (1 << 10) - 1,
};

/* The bit of a method's name; names compare without case. */
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
    uint64_t words; /* a bit for each word and its place; see pattern.c */
};

/* Read a pattern; refuses methods nobody knows, paths without a leading slash,
 * two stars that are not last, half wildcards ("a*"), empty segments, dots,
 * queries and escapes that decode to a slash. */
SL_MUST_USE int sl_pattern_read(struct sl_str text, struct sl_arena *arena,
                                struct sl_pattern *ret, struct sl_diag *diag);

bool sl_pattern_matches(const struct sl_pattern *pattern, unsigned method,
                        const struct sl_path *path);

/* Does `wide` match everything that `narrow` matches? Exact for our patterns;
 * then a `narrow` behind a `wide` is never reached. */
bool sl_pattern_covers(const struct sl_pattern *wide,
                       const struct sl_pattern *narrow);

struct sl_routes; /* the tree; opaque, in an arena */

/* Build the tree of `count` patterns; NULL entries are skipped (their index
 * stays theirs). NULL without memory. The patterns are borrowed for the tree's
 * life. */
SL_MUST_USE struct sl_routes *
sl_routes_build(const struct sl_pattern *const *patterns, unsigned count,
                struct sl_arena *arena);

#define SL_NO_ROUTE UINT32_MAX

/* The first matching pattern, or SL_NO_ROUTE. */
unsigned sl_routes_find(const struct sl_routes *routes, unsigned method,
                        const struct sl_path *path);

#endif
