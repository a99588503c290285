/* columns.c -- a table in a terminal. */
#include "cli/columns.h"

#include <string.h>

#include "cli/out.h"

#define ARENA_BYTES ((size_t)16 << 20)
#define GAP         2

struct sl_columns_row {
    struct sl_columns_row *next;
    const char *cells[SL_COLUMNS_MAX];
};

void sl_columns_init(struct sl_columns *columns, unsigned count)
{
    memset(columns, 0, sizeof(*columns));
    columns->count = count;
    columns->last = &columns->rows;
    sl_arena_init(&columns->arena, ARENA_BYTES, &sl_alloc_libc);
}

void sl_columns_done(struct sl_columns *columns)
{
    sl_arena_done(&columns->arena);
}

/* Characters, not bytes: those that go on are not counted. */
static size_t width_of(const char *text)
{
    size_t width = 0;

    for (; *text; text++)
        width += ((unsigned char)*text & 0xc0) != 0x80;
    return width;
}

/* A copy on one line, or NULL. */
static const char *copy_line(struct sl_arena *arena, const char *text)
{
    char *copy = sl_arena_copy(arena, sl_str_c(text));

    for (char *at = copy; at && *at; at++)
        if (*at == '\n' || *at == '\t')
            *at = '?';
    return copy;
}

void sl_columns_add(struct sl_columns *columns, const char *const *cells)
{
    struct sl_columns_row *row = sl_arena_take(&columns->arena, sizeof(*row));

    if (!row) {
        columns->failed = true;
        return;
    }
    row->next = NULL;
    for (unsigned i = 0; i < columns->count; i++) {
        size_t width = width_of(cells[i]);

        row->cells[i] = copy_line(&columns->arena, cells[i]);
        if (!row->cells[i]) {
            columns->failed = true;
            return;
        }
        if (width > columns->widths[i])
            columns->widths[i] = width;
    }
    *columns->last = row;
    columns->last = &row->next;
}

static void print_row(const struct sl_columns *columns,
                      const struct sl_columns_row *row, FILE *out)
{
    for (unsigned i = 0; i < columns->count; i++) {
        size_t pad = columns->widths[i] - width_of(row->cells[i]) + GAP;

        sl_out_clean(out, row->cells[i]);
        if (i + 1 < columns->count)
            fprintf(out, "%*s", (int)pad, "");
    }
    fputc('\n', out);
}

void sl_columns_print(const struct sl_columns *columns, FILE *out)
{
    for (const struct sl_columns_row *row = columns->rows; row; row = row->next)
        print_row(columns, row, out);
}
