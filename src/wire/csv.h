/* csv.h -- comma-separated values (RFC 4180), one record at a time.
 *
 * Commas separate cells. A cell in quotes may contain commas, line ends and
 * doubled quotes. Lines end in LF or CR LF; empty lines are skipped. A cell
 * without quotes loses the blanks around it and is a slice of the text. A cell
 * with doubled quotes is decoded into the arena.
 *
 * Strict: after a closing quote comes a comma or the line end, and quotes only
 * enclose cells. The first error is kept; all later calls fail.
 */
#ifndef SL_WIRE_CSV_H
#define SL_WIRE_CSV_H

#include "base/arena.h"
#include "base/buf.h"
#include "base/str.h"

struct sl_csv {
    struct sl_str text;
    size_t at;
    unsigned line;  /* of the last record, from 1 */
    unsigned lines; /* line ends before `at` */
    struct sl_arena *arena;
    const char *why; /* the error in English, or NULL */
    bool no_memory;
};

/* `text` and `arena` are borrowed as long as records are used. Skips a byte
 * order mark. */
void sl_csv_begin(struct sl_csv *csv, struct sl_str text,
                  struct sl_arena *arena);

/* Read a record of at most `most` cells. False at the end and on error. */
SL_MUST_USE bool sl_csv_next(struct sl_csv *csv, struct sl_str *cells,
                             unsigned most, unsigned *ret_count);

/* The length of the first record of `text` with its line end; 0 if it is not
 * complete. To split a stream into records. */
size_t sl_csv_cut(struct sl_str text);

/* Write a cell, in quotes if needed. A spreadsheet takes a cell that begins
 * with = + - @, a tab or a CR for a formula: an apostrophe is written before
 * it. */
void sl_csv_write(struct sl_writer *w, struct sl_str text);

#endif
