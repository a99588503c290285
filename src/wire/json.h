/* json.h -- JSON read from front to back, a piece at a time.
 *
 * For bodies whose shape is known: the reader says what comes next, and who
 * reads says whether that is right there. No tree is built and nothing is
 * remembered but the place, so that depth and number cost nothing. A string
 * without escapes is a slice of the text; one with escapes is decoded into the
 * arena. Whether a name comes twice is for the caller to see.
 *
 *     enter('{') --> next() --> a value --> next() ... --> false at the '}'
 *
 * Strict (RFC 8259): UTF-8 only, no lone surrogates, no control bytes in
 * strings, nothing behind the value; and no NUL in any form. The first trouble
 * stays: from then on everything fails, and `why` and `at` tell of it.
 */
#ifndef SL_WIRE_JSON_H
#define SL_WIRE_JSON_H

#include "base/arena.h"
#include "base/buf.h"

/* ---- JSON written, a piece at a time.
 *
 * The caller puts the commas and brackets; this knows how a string and a
 * number must look so that whatever a stranger sent comes out as data.
 */

/* The largest whole number that every reader keeps exactly, 2^53 - 1. */
#define SL_JSON_MAX UINT64_C(9007199254740991)

/* Append `text` as a JSON string, quotes included. Control bytes, quotes and
 * backslashes are escaped, U+2028 and U+2029 too; bytes that are not UTF-8
 * become U+FFFD. */
SL_MUST_USE int sl_json_string(struct sl_buf *out, struct sl_str text);

/* The same without the quotes: the inside of a string. */
SL_MUST_USE int sl_json_inside(struct sl_buf *out, struct sl_str text);

/* Append a whole number; above SL_JSON_MAX it is SL_JSON_MAX. */
SL_MUST_USE int sl_json_number(struct sl_buf *out, uint64_t number);

/* The same on a writer. A comma is put where a value follows another: unless
 * the output is empty or ends in one of { [ : , or a newline. Members are a key
 * and then a value. */
void sl_json_open(struct sl_writer *w, char bracket); /* { or [ */
void sl_json_close(struct sl_writer *w, char bracket);
void sl_json_key(struct sl_writer *w, struct sl_str name);
void sl_json_member_str(struct sl_writer *w, const char *name,
                        struct sl_str text);
void sl_json_str(struct sl_writer *w, struct sl_str text);
void sl_json_uint(struct sl_writer *w, uint64_t number);
void sl_json_int(struct sl_writer *w, int64_t number);
void sl_json_flag(struct sl_writer *w, bool flag);
void sl_json_nothing(struct sl_writer *w);                 /* null */
void sl_json_raw(struct sl_writer *w, struct sl_str json); /* a whole value */

/* The member NAME: TEXT on a writer. A NULL text adds nothing. */
void sl_json_member_text(struct sl_writer *w, const char *name,
                         const char *text);

/* ---- reading ---- */

enum sl_json_kind {
    SL_JSON_BAD, /* no value begins here: see `why` */
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
    const char *why; /* a short English sentence, or NULL: all is well */
    bool no_memory;  /* then the text is not to blame */
    bool first;      /* the bracket that was entered last is just behind */
};

/* `text` and `arena` are borrowed as long as what was read is used. */
void sl_json_begin(struct sl_json_reader *reader, struct sl_str text,
                   struct sl_arena *arena);

/* What the next value is. Passes blanks before it, and nothing else. */
enum sl_json_kind sl_json_peek(struct sl_json_reader *reader);

/* "null", "a string": for sentences. */
const char *sl_json_kind_name(enum sl_json_kind kind);

/* Read a value of that kind. False if it is another, or broken. */
SL_MUST_USE bool sl_json_null(struct sl_json_reader *reader);
SL_MUST_USE bool sl_json_bool(struct sl_json_reader *reader, bool *ret);
SL_MUST_USE bool sl_json_text(struct sl_json_reader *reader,
                              struct sl_str *ret);

/* A whole number, 0 .. SL_JSON_MAX, without sign, fraction and exponent. */
SL_MUST_USE bool sl_json_whole(struct sl_json_reader *reader, uint64_t *ret);

/* Enter an array or object ('[' or '{'). */
SL_MUST_USE bool sl_json_enter(struct sl_json_reader *reader, char bracket);

/* Go on to the next item, or pass the closing bracket: then, and in trouble,
 * false. */
SL_MUST_USE bool sl_json_item(struct sl_json_reader *reader);
SL_MUST_USE bool sl_json_member(struct sl_json_reader *reader,
                                struct sl_str *name);

/* Nothing but blanks is left. */
SL_MUST_USE bool sl_json_end(struct sl_json_reader *reader);

#endif
