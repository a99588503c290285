/* path.h -- one canonical form of a request path, and its other readings.
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
#ifndef SL_PATH_H
#define SL_PATH_H

#include "base/str.h"

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

#endif
