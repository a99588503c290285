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
#ifndef SL_POLICY_ROUTE_H
#define SL_POLICY_ROUTE_H

#include "base/arena.h"
#include "base/diag.h"
#include "base/str.h"

/* ---- one canonical form of a request path, and its other readings.
 *
 * Whatever spelling of a path a common server would take to one endpoint comes
 * out here as one form, so that no spelling escapes its limit:
 *
 *   - an absolute form loses scheme and host; query and fragment are cut off
 *   - percent escapes are decoded, once; %2f is a slash like any other, a
 *     backslash too; the path ends before a %00
 *   - each segment loses its ;parameters
 *   - empty segments and `.` are dropped, `..` takes its parent away
 *   - no slash at the end; the root is "/"
 *
 * Letters keep their case here; patterns compare without it (route.h).
 *
 * Some servers do less than that: what is a detour for one, /a/..;/b, is a path
 * below /a for another. Such a path has several readings, and whoever limits
 * it must look at the routes of all of them.
 */

#define SL_PATH_SEGMENTS 64   /* of a path that is looked at */
#define SL_PATH_BYTES    8192 /* of the canonical form; see sl_path_read() */

/* A canonical path as its segments. Those beyond SL_PATH_SEGMENTS are dropped
 * and `deep` is set: then only a pattern that ends in two stars can match. */
struct sl_path {
    struct sl_str segment[SL_PATH_SEGMENTS]; /* into the caller's bytes */
    unsigned count;
    bool deep;
};

/* Read `text` into `ret`. The decoded bytes are put into `room`, which has at
 * least text.len bytes, or SL_PATH_BYTES if that is less. Never fails: whatever
 * the bytes are, they have a form.
 *
 * Hand in the whole text, however long: what is cut off before it comes here
 * may be the end of a detour (a long host, /././., ;x=...) that leads to an
 * endpoint. Only what the canonical form keeps takes room. A segment for which
 * there is none is counted but empty, so that it matches a star and no word. */
void sl_path_read(struct sl_str text, char *room, struct sl_path *ret);

#define SL_PATH_READINGS 11 /* at most; path.c lists whose they are */

/* Every reading that common servers have of `text`, each once; the first is
 * that of sl_path_read(). Nearly always there is only one: a second takes a
 * dot segment, a semicolon, a backslash, a number sign, a NUL, the escape of
 * one of these or of a slash, or two slashes at the front.
 *
 * `room` has at least SL_PATH_READINGS * min(text.len, SL_PATH_BYTES) bytes.
 * Segments are in it, or in `text` where nothing of it had to be changed: keep
 * both. Returns how many. */
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

/* Read a pattern; refuses unknown methods, paths without a leading slash,
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

/* ---- which route a descriptor takes: the first that matches.
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
