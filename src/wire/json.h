/* json.h -- JSON: a writer, and a reader without a tree.
 *
 * The reader is for bodies of known structure: it reports the next value, and
 * the caller checks that it is valid there. It keeps only the position, so
 * depth and size cost no memory. A string without escapes is a slice of the
 * text; one with escapes is decoded into the arena. The caller checks for
 * duplicate names.
 *
 *     enter('{') --> next() --> a value --> next() ... --> false at the '}'
 *
 * Strict (RFC 8259): UTF-8 only, no lone surrogates, no control bytes in
 * strings, nothing after the value; and no NUL in any form. The first error is
 * kept in `why` and `at`; all later calls fail.
 */
#ifndef SL_WIRE_JSON_H
#define SL_WIRE_JSON_H

#include "base/arena.h"
#include "base/buf.h"

/* ---- writing ----
 *
 * With the functions on a buffer, the caller writes commas and brackets.
 */

/* The largest integer that every JSON reader keeps exactly, 2^53 - 1. */
#define SL_JSON_MAX UINT64_C(9007199254740991)

/* Append `text` as a JSON string with quotes. Escapes control bytes, quotes,
 * backslashes, U+2028 and U+2029. Invalid UTF-8 becomes U+FFFD. */
SL_MUST_USE int sl_json_string(struct sl_buf *out, struct sl_str text);

/* The same without quotes. */
SL_MUST_USE int sl_json_inside(struct sl_buf *out, struct sl_str text);

/* The length of the UTF-8 character at the start of `s`, which is not ASCII; 0
 * if it is invalid: overlong, a surrogate, or beyond U+10FFFF. */
size_t sl_json_utf8(struct sl_str s);

/* Append an integer; at most SL_JSON_MAX is written. */
SL_MUST_USE int sl_json_number(struct sl_buf *out, uint64_t number);

/* The same into memory that has room: SL_JSON_ROOM(len) bytes for a text of
 * `len`, SL_DIGITS for a number. They return the byte behind what they wrote;
 * what follows in the room may be written, too. */
#define SL_JSON_ROOM(len) (6 * (len) + 2 + 16)
char *sl_json_put_string(char *to, struct sl_str text);

static inline char *sl_json_put_number(char *to, uint64_t number)
{
    return to + sl_digits(number < SL_JSON_MAX ? number : SL_JSON_MAX, to);
}

/* The same on a writer. They add the comma between values: unless the output is
 * empty or ends in one of { [ : , or a newline. A member is a key and then a
 * value. */
void sl_json_open(struct sl_writer *w, char bracket); /* { or [ */
void sl_json_close(struct sl_writer *w, char bracket);
void sl_json_key(struct sl_writer *w, struct sl_str name);
void sl_json_str(struct sl_writer *w, struct sl_str text);
void sl_json_uint(struct sl_writer *w, uint64_t number);
void sl_json_int(struct sl_writer *w, int64_t number);
void sl_json_flag(struct sl_writer *w, bool flag);
void sl_json_nothing(struct sl_writer *w);                 /* null */
void sl_json_raw(struct sl_writer *w, struct sl_str json); /* a whole value */

/* Write the member NAME: TEXT. A NULL text writes nothing. */
void sl_json_member_str(struct sl_writer *w, const char *name,
                        struct sl_str text);
void sl_json_member_text(struct sl_writer *w, const char *name,
                         const char *text);

/* Write the member NAME: "2026-11-15T12:00:00Z", with milliseconds if it has
 * some; null for SL_NS_NONE. */
void sl_json_member_time(struct sl_writer *w, const char *name, sl_ns at);

/* ---- reading ---- */

enum sl_json_kind {
    SL_JSON_BAD, /* not a value: see `why` */
    SL_JSON_NULL,
    SL_JSON_BOOL,
    SL_JSON_NUMBER,
    SL_JSON_STRING,
    SL_JSON_ARRAY,
    SL_JSON_OBJECT,
};

struct sl_json_reader {
    struct sl_str text;
    size_t at;
    struct sl_arena *arena;
    const char *why; /* the error in English, or NULL */
    bool no_memory;  /* the error is a lack of memory */
    bool first;      /* directly after an opening bracket */
};

/* `text` and `arena` are borrowed as long as values are used. */
void sl_json_begin(struct sl_json_reader *reader, struct sl_str text,
                   struct sl_arena *arena);

/* The kind of the next value. Skips blanks before it. */
enum sl_json_kind sl_json_peek(struct sl_json_reader *reader);

/* "null", "a string": for messages. */
const char *sl_json_kind_name(enum sl_json_kind kind);

/* Read a value of that kind. False if it is of another kind or invalid. */
SL_MUST_USE bool sl_json_null(struct sl_json_reader *reader);
SL_MUST_USE bool sl_json_bool(struct sl_json_reader *reader, bool *ret);
SL_MUST_USE bool sl_json_text(struct sl_json_reader *reader,
                              struct sl_str *ret);

/* Read an integer, 0 .. SL_JSON_MAX, without sign, fraction and exponent. */
SL_MUST_USE bool sl_json_whole(struct sl_json_reader *reader, uint64_t *ret);

/* Enter an array or object ('[' or '{'). */
SL_MUST_USE bool sl_json_enter(struct sl_json_reader *reader, char bracket);

/* Go to the next item, or past the closing bracket. False at the bracket and on
 * error. */
SL_MUST_USE bool sl_json_item(struct sl_json_reader *reader);
SL_MUST_USE bool sl_json_member(struct sl_json_reader *reader,
                                struct sl_str *name);

/* Read any value as it is written: *ret is a slice of the text. `scratch` is
 * reset. False if it is invalid, or nested deeper than 64; see `why`. */
SL_MUST_USE bool sl_json_value(struct sl_json_reader *reader,
                               struct sl_arena *scratch, struct sl_str *ret);

/* Is the rest of the text blank? */
SL_MUST_USE bool sl_json_end(struct sl_json_reader *reader);

/* ---- one value, by a JSON pointer (RFC 6901); json_pointer.c ---- */

#define SL_JSON_POINTER 256  /* bytes of a pointer at most */
#define SL_JSON_SCRATCH 4096 /* memory beyond the length of the text */

/* "/id", "/data/object/id", "/items/0": at most 8 tokens. */
bool sl_json_pointer_ok(struct sl_str pointer);

enum sl_json_found {
    SL_JSON_FIND_VALUE,
    SL_JSON_FIND_NOTHING, /* the text is valid JSON without the value */
    SL_JSON_FIND_WRONG,   /* the text is not valid JSON, or nested too deep; a
                           * name is there twice; or the value is not a text or
                           * whole number */
    SL_JSON_FIND_NO_MEMORY,
};

/* Finds a text that is not empty, or a whole number as written. `pointer` is
 * valid. *ret lies in the text or in the arena. */
SL_MUST_USE enum sl_json_found sl_json_find(struct sl_str text,
                                            struct sl_str pointer,
                                            struct sl_arena *arena,
                                            struct sl_str *ret);

#endif
