/* columns.h -- a table in a terminal: columns as wide as their widest cell.
 */
#ifndef SL_COLUMNS_H
#define SL_COLUMNS_H

#include <stdio.h>

#include "base/arena.h"

#define SL_COLUMNS_MAX 10

struct sl_columns {
    unsigned count; /* of columns */
    size_t widths[SL_COLUMNS_MAX];
    struct sl_columns_row *rows, **last;
    struct sl_arena arena;
    bool failed; /* there was no memory: some rows are missing */
};

void sl_columns_init(struct sl_columns *columns, unsigned count);
void sl_columns_done(struct sl_columns *columns);

/* One more row of `count` cells; they are copied. The first is the heading. */
void sl_columns_add(struct sl_columns *columns, const char *const *cells);

/* Print them, without what could move a cursor. */
void sl_columns_print(const struct sl_columns *columns, FILE *out);

#endif
