/* import.c -- many subjects from a file, batch by batch.
 *
 * The file is read as it is sent, and may be of any length. A batch is written
 * as a whole or not at all. When a line is refused, what came before its batch
 * is in, and --from goes on at a line; to begin again from the first does no
 * harm either, for what is there already is not written twice.
 */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/parse.h"
#include "cli/out.h"
#include "cli/subject/subject.h"
#include "wire/csv.h"

#define BATCH_LINES 500
#define BATCH_BYTES ((size_t)512 << 10) /* a daemon takes 1 MiB */
#define READ_BYTES  ((size_t)64 << 10)

struct import {
    struct sl_call *call;
    struct sl_client *client;
    const char *name;
    FILE *file;
    bool is_csv, at_end, shows;
    uint64_t size, done; /* bytes of the file, and sent; 0: not known */
    uint64_t from;       /* the first line that is to be sent */
    struct sl_buf text;  /* that was read and not sent */
    struct sl_buf head;  /* the first line of a CSV */
    struct sl_buf batch;
    unsigned count;      /* records of the batch */
    uint64_t line;       /* of the next record */
    uint64_t batch_line; /* of the first record of the batch */
    uint64_t imported, changed;
};

/* ---- what is told ---- */

static void show(struct import *import, bool last)
{
    FILE *err = import->call->cli->err;
    unsigned share =
        import->size > 0 ? (unsigned)(import->done * 100 / import->size) : 0;
    char bar[41];

    if (!import->shows)
        return;
    memset(bar, ' ', sizeof(bar) - 1);
    memset(bar, '#', share * (sizeof(bar) - 1) / 100);
    bar[sizeof(bar) - 1] = '\0';
    if (import->size > 0)
        fprintf(err, "\r[%s] %3u%%  %llu subjects", bar, share,
                (unsigned long long)import->imported);
    else
        fprintf(err, "\r%llu subjects", (unsigned long long)import->imported);
    if (last)
        fputc('\n', err);
    fflush(err);
}

static int refused(struct import *import, int code, struct sl_str body)
{
    json_t *root = json_loadb(body.at, body.len, 0, NULL);
    const char *detail = json_string_value(json_object_get(root, "detail"));
    json_int_t nth = json_integer_value(json_object_get(root, "line"));
    const char *sentence = detail ? strstr(detail, ": ") : NULL;
    uint64_t line = import->batch_line;
    int status;

    show(import, true);
    if (code == 401)
        status = sl_complain(import->call, SL_EXIT_NO,
                             "%s requires a token; name the file that contains "
                             "it with --token-file",
                             import->client->where);
    else if (nth == 0 || !sentence)
        status =
            sl_complain(import->call, code == 503 ? SL_EXIT_STORE : SL_EXIT_NO,
                        "%s:%llu: %s", import->name, (unsigned long long)line,
                        detail ? detail : "the daemon rejected the request");
    else {
        /* The daemon counts the lines of the batch, its head included. */
        line = import->batch_line + (uint64_t)nth - 1 - import->is_csv;
        status = sl_complain(
            import->call, code == 503 ? SL_EXIT_STORE : SL_EXIT_NO,
            "%s:%llu: %s (the %llu subjects before line %llu are imported; "
            "correct the line and continue with --from %llu)",
            import->name, (unsigned long long)line, sentence + 2,
            (unsigned long long)import->imported,
            (unsigned long long)import->batch_line,
            (unsigned long long)import->batch_line);
    }
    json_decref(root);
    return status;
}

/* ---- a batch ---- */

static int send_batch(struct import *import)
{
    const char *path = sl_call_flag(import->call, "force")
                           ? "/v1/subjects?force=true"
                           : "/v1/subjects";
    struct sl_diag diag = {.line = 0};
    struct sl_str body;
    json_t *root;
    int code;

    if (import->count == 0)
        return 0;
    if (sl_client_ask(import->client, "POST", path, sl_buf_str(&import->batch),
                      &code, &body, &diag)) {
        show(import, true);
        return sl_complain(
            import->call, SL_EXIT_NOBODY,
            "%s; the %llu subjects before line %llu are imported",
            diag.sentence, (unsigned long long)import->imported,
            (unsigned long long)import->batch_line);
    }
    if (code != 200)
        return refused(import, code, body);
    root = json_loadb(body.at, body.len, 0, NULL);
    import->imported += import->count;
    import->changed +=
        (uint64_t)json_integer_value(json_object_get(root, "changed"));
    json_decref(root);
    sl_buf_clear(&import->batch);
    import->count = 0;
    show(import, false);
    return 0;
}

static uint64_t count_lines(struct sl_str text)
{
    uint64_t count = 0;

    for (size_t i = 0; i < text.len; i++)
        count += text.at[i] == '\n';
    return count;
}

static bool is_blank(struct sl_str text)
{
    for (size_t i = 0; i < text.len; i++)
        if (!strchr(" \t\r\n", text.at[i]))
            return false;
    return true;
}

static int add_record(struct import *import, struct sl_str record)
{
    uint64_t line = import->line;
    int err = 0, status = 0;

    import->line += count_lines(record);
    import->done += record.len;
    if (import->is_csv && import->head.len == 0) {
        if (sl_buf_add(&import->head, record))
            return sl_subject_no_memory(import->call);
        return 0;
    }
    if (line < import->from || (is_blank(record) && import->count == 0))
        return 0;
    if (import->count == BATCH_LINES ||
        import->batch.len + record.len > BATCH_BYTES)
        status = send_batch(import);
    if (status)
        return status;
    /* Blank lines are sent along, so that the daemon counts as we do. */
    import->count += !is_blank(record) && import->count > 0;
    if (import->count == 0) {
        import->count = 1;
        import->batch_line = line;
        if (import->is_csv)
            err = sl_buf_add(&import->batch, sl_buf_str(&import->head));
    }
    if (!err)
        err = sl_buf_add(&import->batch, record);
    if (!err && record.at[record.len - 1] != '\n')
        err = sl_buf_add(&import->batch, SL_STR("\n"));
    return err ? sl_complain(import->call, SL_EXIT_NO,
                             "%s:%llu: the line is too long", import->name,
                             (unsigned long long)line)
               : 0;
}

/* ---- the file ---- */

/* How long the next record is; 0: more must be read. */
static size_t record_len(const struct import *import)
{
    struct sl_str text = sl_buf_str(&import->text);
    const char *end = text.len ? memchr(text.at, '\n', text.len) : NULL;
    size_t len = end ? (size_t)(end - text.at) + 1 : 0;

    if (import->is_csv)
        len = sl_csv_cut(text);
    return len == 0 && import->at_end ? text.len : len;
}

static int read_more(struct import *import)
{
    size_t got;

    if (sl_buf_reserve(&import->text, READ_BYTES))
        return sl_complain(
            import->call, SL_EXIT_NO,
            "%s:%llu: the line is too long, or a quote is not closed",
            import->name, (unsigned long long)import->line);
    got = fread(import->text.bytes + import->text.len, 1, READ_BYTES,
                import->file);
    import->text.len += got;
    import->at_end = got == 0;
    if (ferror(import->file))
        return sl_complain(import->call, SL_EXIT_NO, "cannot read %s: %s",
                           import->name, strerror(errno));
    return 0;
}

/* By its first byte: an object, or the names of columns. */
static int look_at_form(struct import *import)
{
    struct sl_str text;
    int status = read_more(import);

    if (status)
        return status;
    text = sl_str_trim(sl_buf_str(&import->text));
    import->is_csv = text.len > 0 && text.at[0] != '{';
    return 0;
}

static int send_file(struct import *import)
{
    int status = look_at_form(import);

    while (!status) {
        size_t len = record_len(import);

        if (len == 0 && import->at_end)
            break;
        if (len == 0) {
            status = read_more(import);
            continue;
        }
        status = add_record(import, (struct sl_str){import->text.bytes, len});
        sl_buf_drop(&import->text, len);
    }
    return status ? status : send_batch(import);
}

static int read_from(struct import *import)
{
    const char *from = sl_call_flag(import->call, "from");

    if (from && (sl_parse_number(sl_str_c(from), &import->from, NULL) ||
                 import->from == 0))
        return sl_complain(import->call, SL_EXIT_USAGE,
                           "--from must be a line number, not \"%s\"", from);
    return 0;
}

static int open_file(struct import *import)
{
    struct stat st;

    if (strcmp(import->name, "-") == 0)
        import->file = import->call->cli->in;
    else
        import->file = fopen(import->name, "r");
    if (!import->file)
        return sl_complain(import->call, SL_EXIT_NO, "cannot read %s: %s",
                           import->name, strerror(errno));
    if (fileno(import->file) >= 0 && fstat(fileno(import->file), &st) == 0 &&
        S_ISREG(st.st_mode))
        import->size = (uint64_t)st.st_size;
    import->shows = fileno(import->call->cli->err) >= 0 &&
                    isatty(fileno(import->call->cli->err));
    return 0;
}

static int tell(struct import *import)
{
    FILE *out = import->call->cli->out;

    show(import, true);
    if (import->call->format == SL_FORMAT_JSON)
        fprintf(out, "{\"imported\":%llu,\"changed\":%llu}\n",
                (unsigned long long)import->imported,
                (unsigned long long)import->changed);
    else
        fprintf(out, "imported %llu subjects, %llu of them new or changed\n",
                (unsigned long long)import->imported,
                (unsigned long long)import->changed);
    return SL_EXIT_OK;
}

int sl_subject_import(struct sl_call *call, struct sl_client *client,
                      char **words, size_t count)
{
    struct import import = {
        .call = call, .client = client, .name = words[0], .line = 1};
    int status = read_from(&import);

    (void)count;
    sl_buf_init(&import.text, 2 * BATCH_BYTES, &sl_alloc_libc);
    sl_buf_init(&import.head, READ_BYTES, &sl_alloc_libc);
    sl_buf_init(&import.batch, 2 * BATCH_BYTES, &sl_alloc_libc);
    if (!status)
        status = open_file(&import);
    if (!status)
        status = send_file(&import);
    if (!status)
        status = tell(&import);
    if (import.file && import.file != call->cli->in)
        fclose(import.file);
    sl_buf_done(&import.text);
    sl_buf_done(&import.head);
    sl_buf_done(&import.batch);
    return status;
}
