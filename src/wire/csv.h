/* csv.h -- comma-separated values (RFC 4180), a record at a time.
 *
 * Cells are separated by commas. One in quotes may have commas, line ends and
 * quotes, each written twice. Lines end in LF or CR LF; a line without any
 * byte is passed over. A cell without quotes loses the blanks around it and is
 * a slice of the text; one with doubled quotes is decoded into the arena.
 *
 * Strict: behind a closing quote comes a comma or the end of the line, and a
 * quote stands nowhere else than around a cell. The first trouble stays.
 */
#ifndef SL_WIRE_CSV_H
#define SL_WIRE_CSV_H

#include "base/arena.h"
#include "base/str.h"

struct sl_csv {
    struct sl_str text;
    size_t at;
    unsigned line;  /* of the record that was read last, from 1 */
    unsigned lines; /* ended before `at` */
    struct sl_arena *arena;
    const char *why; /* a short English sentence, or NULL: all is well */
    bool no_memory;
};

/* `text` and `arena` are borrowed as long as what was read is used. A byte
 * order mark at the beginning is passed over. */
void sl_csv_begin(struct sl_csv *csv, struct sl_str text,
                  struct sl_arena *arena);

/* The next record: at most `most` cells. False at the end and in trouble. */
SL_MUST_USE bool sl_csv_next(struct sl_csv *csv, struct sl_str *cells,
                             unsigned most, unsigned *ret_count);

/* How many bytes the first record of `text` has, its line end included; 0 if
 * it is not complete: more of the text may come. For those who cut a stream
 * into pieces. */
size_t sl_csv_cut(struct sl_str text);

#endif
