/* batches.c -- sends a file of records to a daemon.
 *
 * The file is CSV with a heading, or JSON lines. It is sent in batches while it
 * is read, so it may have any length. A batch is written as a whole or not at
 * all.
 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/cli.h"
#include "wire/csv.h"

#define BATCH_LINES 500
#define BATCH_BYTES ((size_t)512 << 10) /* a daemon accepts 1 MiB */
#define READ_BYTES  ((size_t)64 << 10)

struct sender {
    struct sl_cli_args *args;
    struct sl_daemon_client *client;
    struct sl_cli_import *import;
    bool is_csv, at_end, has_progress;
    uint64_t size, done; /* bytes of the file, and processed; 0: unknown */
    struct sl_buf text;  /* read, not yet processed */
    struct sl_buf head;  /* the first line of a CSV file */
    struct sl_buf batch;
    unsigned count;      /* records of the batch */
    uint64_t line;       /* of the next record */
    uint64_t batch_line; /* of the first record of the batch */
};

static void show_progress(struct sender *s, bool last)
{
    FILE *err = s->args->cli->err;
    unsigned share = s->size > 0 ? (unsigned)(s->done * 100 / s->size) : 0;
    char bar[41];

    if (!s->has_progress)
        return;
    memset(bar, ' ', sizeof(bar) - 1);
    memset(bar, '#', share * (sizeof(bar) - 1) / 100);
    bar[sizeof(bar) - 1] = '\0';
    if (s->size > 0)
        fprintf(err, "\r[%s] %3u%%  %" PRIu64 " %s", bar, share,
                s->import->imported, s->import->what);
    else
        fprintf(err, "\r%" PRIu64 " %s", s->import->imported, s->import->what);
    if (last)
        fputc('\n', err);
    fflush(err);
}

/* What is imported when a batch fails. */
struct outcome {
    char text[160];
};

static struct outcome outcome(const struct sender *s, const char *then)
{
    const struct sl_cli_import *import = s->import;
    struct outcome o;

    if (import->is_check)
        snprintf(o.text, sizeof(o.text), "nothing was imported");
    else
        snprintf(o.text, sizeof(o.text),
                 "the %" PRIu64 " %s before line %" PRIu64 " are imported%s",
                 import->imported, import->what, s->batch_line, then);
    return o;
}

/* The daemon counts lines from the head of the batch. */
static int refused(struct sender *s, int code, struct sl_str body)
{
    json_t *root = json_loadb(body.at, body.len, 0, NULL);
    const char *detail = sl_member_text(root, "detail");
    json_int_t nth = sl_member_int(root, "line");
    const char *sentence = strstr(detail, ": ");
    int status = code == 503 ? SL_EXIT_STORE : SL_EXIT_FAILED;
    char then[96];

    snprintf(then, sizeof(then),
             "; correct the line and continue with --from %" PRIu64,
             s->batch_line);
    show_progress(s, true);
    if (code == 401)
        sl_cli_fail(s->args, SL_TOKEN_REQUIRED, s->client->where);
    else if (nth == 0 || !sentence)
        sl_cli_error(s->args, status, "%s:%" PRIu64 ": %s", s->import->name,
                     s->batch_line, detail[0] ? detail : SL_REJECTED);
    else
        sl_cli_error(s->args, status, "%s:%" PRIu64 ": %s (%s)",
                     s->import->name,
                     s->batch_line + (uint64_t)nth - 1 - s->is_csv,
                     sentence + 2, outcome(s, then).text);
    json_decref(root);
    return status;
}

static int send_batch(struct sender *s)
{
    struct sl_cli_import *import = s->import;
    struct sl_str body;
    json_t *root;
    int code;

    if (s->count == 0)
        return 0;
    if (sl_daemon_client_ask(s->client, "POST", import->path,
                             sl_buf_str(&s->batch), &code, &body)) {
        show_progress(s, true);
        return sl_cli_error(s->args, SL_EXIT_UNREACHABLE, "%s; %s",
                            s->client->diag->sentence, outcome(s, "").text);
    }
    if (code != 200)
        return refused(s, code, body);
    root = json_loadb(body.at, body.len, 0, NULL);
    import->skipped += (uint64_t)sl_member_int(root, "skipped");
    import->imported += s->count - (uint64_t)sl_member_int(root, "skipped");
    import->changed += (uint64_t)sl_member_int(root, "changed");
    json_decref(root);
    sl_buf_clear(&s->batch);
    s->count = 0;
    show_progress(s, false);
    return 0;
}

static bool is_blank(struct sl_str text)
{
    for (size_t i = 0; i < text.len; i++)
        if (!strchr(" \t\r\n", text.at[i]))
            return false;
    return true;
}

static int add_record(struct sender *s, struct sl_str record)
{
    struct sl_writer w = {.out = &s->batch};
    uint64_t line = s->line;
    int status = 0;

    for (size_t i = 0; i < record.len; i++)
        s->line += record.at[i] == '\n';
    s->done += record.len;
    if (s->is_csv && s->head.len == 0)
        return sl_buf_add(&s->head, record) ? sl_cli_no_memory(s->args) : 0;
    if (line < s->import->from || (is_blank(record) && s->count == 0))
        return 0;
    if (s->count == BATCH_LINES || s->batch.len + record.len > BATCH_BYTES)
        status = send_batch(s);
    if (status)
        return status;
    /* Blank lines are sent too: the daemon counts lines. */
    s->count += !is_blank(record) && s->count > 0;
    if (s->count == 0) {
        s->count = 1;
        s->batch_line = line;
        if (s->is_csv)
            sl_writer_add(&w, sl_buf_str(&s->head));
    }
    sl_writer_add(&w, record);
    if (record.at[record.len - 1] != '\n')
        sl_writer_add(&w, SL_STR("\n"));
    return w.err ? sl_cli_fail(s->args, "%s:%" PRIu64 ": the line is too long",
                               s->import->name, line)
                 : 0;
}

/* The length of the next record; 0: more must be read. */
static size_t record_len(const struct sender *s)
{
    struct sl_str text = sl_buf_str(&s->text);
    const char *end = text.len ? memchr(text.at, '\n', text.len) : NULL;
    size_t len = end ? (size_t)(end - text.at) + 1 : 0;

    if (s->is_csv)
        len = sl_csv_cut(text);
    return len == 0 && s->at_end ? text.len : len;
}

static int read_more(struct sender *s)
{
    size_t got;

    if (sl_buf_reserve(&s->text, READ_BYTES))
        return sl_cli_fail(s->args,
                           "%s:%" PRIu64
                           ": the line is too long, or a quote is not closed",
                           s->import->name, s->line);
    got = fread(s->text.bytes + s->text.len, 1, READ_BYTES, s->import->file);
    s->text.len += got;
    s->at_end = got == 0;
    if (ferror(s->import->file))
        return sl_cli_fail(s->args, "cannot read %s: %s", s->import->name,
                           strerror(errno));
    return 0;
}

static int send_file(struct sender *s)
{
    struct sl_str text;
    int status = read_more(s);

    /* A file that begins with '{' has JSON lines; others are CSV. */
    text = sl_str_trim(sl_buf_str(&s->text));
    s->is_csv = text.len > 0 && text.at[0] != '{';
    while (!status) {
        size_t len = record_len(s);

        if (len == 0 && s->at_end)
            break;
        if (len == 0) {
            status = read_more(s);
            continue;
        }
        status = add_record(s, (struct sl_str){s->text.bytes, len});
        sl_buf_drop(&s->text, len);
    }
    return status ? status : send_batch(s);
}

static void look_at_file(struct sender *s)
{
    int err_fd = fileno(s->args->cli->err), fd = fileno(s->import->file);
    struct stat st;

    if (fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode))
        s->size = (uint64_t)st.st_size;
    s->has_progress = err_fd >= 0 && isatty(err_fd);
}

int sl_cli_import_run(struct sl_cli_request *r, struct sl_cli_import *import)
{
    struct sender s = {
        .args = r->args, .client = &r->client, .import = import, .line = 1};
    int status;

    sl_buf_init(&s.text, 2 * BATCH_BYTES, &sl_alloc_libc);
    sl_buf_init(&s.head, READ_BYTES, &sl_alloc_libc);
    sl_buf_init(&s.batch, 2 * BATCH_BYTES, &sl_alloc_libc);
    look_at_file(&s);
    status = send_file(&s);
    if (!status)
        show_progress(&s, true);
    sl_buf_done(&s.text);
    sl_buf_done(&s.head);
    sl_buf_done(&s.batch);
    return status;
}
