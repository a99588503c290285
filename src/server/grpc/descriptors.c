/* descriptors.c -- the FileDescriptorProtos of our services, from
 * descriptors.def.
 *
 * A file is written from its rows, with a small stack of open messages. Both
 * reflection services are omitted: their clients know them.
 */
#include <string.h>

#include "server/grpc/grpc_int.h"

#define DEPTH 4

enum row_kind {
    ROW_FILE,
    ROW_IMPORT,
    ROW_MESSAGE,
    ROW_FIELD,
    ROW_LIST,
    ROW_ENUM,
    ROW_ENUM_INSIDE,
    ROW_VALUE,
    ROW_SERVICE,
    ROW_METHOD,
    ROW_ENDS,
};

/* FieldDescriptorProto.Type. */
enum {
    TYPE_INT64 = 3,
    TYPE_UINT64 = 4,
    TYPE_INT32 = 5,
    TYPE_BOOL = 8,
    TYPE_STRING = 9,
    TYPE_MESSAGE = 11,
    TYPE_BYTES = 12,
    TYPE_UINT32 = 13,
    TYPE_ENUM = 14,
};

struct sl_grpc_row {
    enum row_kind kind;
    const char *name, *of, *gives; /* package; type; input and output */
    unsigned number, type;         /* METHOD: number is what streams */
};

#define FILE(name, package)        {ROW_FILE, name, package, "", 0, 0},
#define IMPORT(name)               {ROW_IMPORT, name, "", "", 0, 0},
#define MESSAGE(name)              {ROW_MESSAGE, name, "", "", 0, 0},
#define FIELD(name, number, t, of) {ROW_FIELD, name, of, "", number, TYPE_##t},
#define LIST(name, number, t, of)  {ROW_LIST, name, of, "", number, TYPE_##t},
#define ENUM(name)                 {ROW_ENUM, name, "", "", 0, 0},
#define ENUM_INSIDE(name)          {ROW_ENUM_INSIDE, name, "", "", 0, 0},
#define VALUE(name, number)        {ROW_VALUE, name, "", "", number, 0},
#define SERVICE(name)              {ROW_SERVICE, name, "", "", 0, 0},
#define METHOD(name, of, gives, streams)                                       \
    {ROW_METHOD, name, of, gives, streams, 0},
#define ENDS() {ROW_ENDS, "", "", "", 0, 0},

static const struct sl_grpc_row rows[] = {
#include "server/grpc/descriptors.def"
};

/* ---- writing ---- */

/* The number of the field in the enclosing file or message. */
static unsigned number_of(enum row_kind kind, unsigned depth)
{
    switch (kind) {
    case ROW_ENUM:
        return 5;
    case ROW_ENUM_INSIDE:
        return 4;
    case ROW_SERVICE:
        return 6;
    default:
        return depth == 0 ? 4 : 3;
    }
}

/* Fields, values and methods have the number 2 in their message. */
static void write_row(struct sl_pb_out *out, const struct sl_grpc_row *row)
{
    size_t mark;

    if (row->kind == ROW_IMPORT) {
        sl_pb_bytes(out, 3, sl_str_c(row->name));
        return;
    }
    mark = sl_pb_open(out, 2);
    sl_pb_bytes(out, 1, sl_str_c(row->name));
    if (row->kind == ROW_VALUE) {
        sl_pb_varint(out, 2, row->number);
    } else if (row->kind == ROW_METHOD) {
        sl_pb_bytes(out, 2, sl_str_c(row->of));
        sl_pb_bytes(out, 3, sl_str_c(row->gives));
        sl_pb_varint_if(out, 6, row->number > 0);
    } else {
        sl_pb_varint(out, 3, row->number);
        sl_pb_varint(out, 4, row->kind == ROW_LIST ? 3 : 1); /* label */
        sl_pb_varint(out, 5, row->type);
        sl_pb_bytes_if(out, 6, sl_str_c(row->of));
    }
    sl_pb_close(out, mark);
}

static bool begins(enum row_kind kind)
{
    return kind == ROW_MESSAGE || kind == ROW_ENUM || kind == ROW_ENUM_INSIDE ||
           kind == ROW_SERVICE;
}

void sl_grpc_file_write(const struct sl_grpc_row *file, struct sl_pb_out *out)
{
    const struct sl_grpc_row *end = rows + SL_LEN(rows), *row = file + 1;
    size_t open[DEPTH];
    unsigned depth = 0;

    sl_pb_bytes(out, 1, sl_str_c(file->name));
    sl_pb_bytes(out, 2, sl_str_c(file->of));
    for (; row < end && row->kind != ROW_FILE; row++) {
        if (begins(row->kind) && depth < DEPTH) {
            open[depth] = sl_pb_open(out, number_of(row->kind, depth));
            depth++;
            sl_pb_bytes(out, 1, sl_str_c(row->name));
        } else if (row->kind == ROW_ENDS && depth > 0) {
            sl_pb_close(out, open[--depth]);
        } else {
            write_row(out, row);
        }
    }
    sl_pb_bytes(out, 12, SL_STR("proto3"));
}

/* ---- finding ---- */

const struct sl_grpc_row *sl_grpc_file_named(struct sl_str name)
{
    for (size_t i = 0; i < SL_LEN(rows); i++)
        if (rows[i].kind == ROW_FILE && sl_str_eq(name, sl_str_c(rows[i].name)))
            return &rows[i];
    return NULL;
}

/* Removes `word` and the dot after it from the front of `symbol`. */
static bool take_word(struct sl_str *symbol, const char *word)
{
    struct sl_str w = sl_str_c(word);

    if (symbol->len < w.len ||
        !sl_str_eq((struct sl_str){symbol->at, w.len}, w) ||
        (symbol->len > w.len && symbol->at[w.len] != '.'))
        return false;
    *symbol = sl_str_from(*symbol, w.len + (symbol->len > w.len));
    return true;
}

/* "envoy.type.v3.RateLimitUnit.DAY" is in the file of RateLimitUnit. */
const struct sl_grpc_row *sl_grpc_file_of(struct sl_str symbol)
{
    const struct sl_grpc_row *file = rows;
    unsigned depth = 0;

    for (const struct sl_grpc_row *row = rows; row < rows + SL_LEN(rows);
         row++) {
        struct sl_str rest = symbol;

        if (row->kind == ROW_FILE)
            file = row;
        if (begins(row->kind) && depth++ == 0 && take_word(&rest, file->of) &&
            take_word(&rest, row->name))
            return file;
        if (row->kind == ROW_ENDS)
            depth--;
    }
    return NULL;
}
