/* subject.c -- what `sluice subject` is made of. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/parse.h"
#include "cli/cli.h"
#include "wire/csv.h"
#include "wire/json.h"

#define SL_SUBJECT_PATH                                                        \
    ((size_t)8 << 10) /* a daemon's own bound for a line                       \
                       */

/* Each returns an exit status, and has said why it is not 0. Words are those
 * behind the verb. */
typedef int sl_subject_f(struct sl_cli_args *call,
                         struct sl_daemon_client *client, char **words,
                         size_t count);

sl_subject_f sl_subject_get, sl_subject_set, sl_subject_rm, sl_subject_list,
    sl_subject_import;

/* Who does it: --by, or who is logged in; NULL if nobody is known. */
const char *sl_subject_by(struct sl_cli_args *call);

/* One subject as a daemon shows it: JSON, or some lines for people. */
SL_MUST_USE int sl_subject_print(struct sl_cli_args *call, json_t *subject);

SL_MUST_USE int sl_subject_no_memory(struct sl_cli_args *call);

/* ---- get, set and rm: one subject. */

#define BODY_BYTES ((size_t)64 << 10)

/* ---- printing ---- */

static void print_text(FILE *out, const char *label, const char *text)
{
    if (!text || !text[0])
        return;
    fprintf(out, "%-9s", label);
    sl_out_clean(out, text);
    fputc('\n', out);
}

static void print_list(FILE *out, const char *label, const json_t *list)
{
    size_t i;
    json_t *item;

    if (json_array_size(list) == 0)
        return;
    fprintf(out, "%-9s", label);
    json_array_foreach(list, i, item)
    {
        if (i > 0)
            fputs(", ", out);
        sl_out_clean(out, json_string_value(item));
    }
    fputc('\n', out);
}

static const char *text_of(const json_t *map, const char *name)
{
    const char *text = json_string_value(json_object_get(map, name));

    return text ? text : "";
}

static void print_rate(FILE *out, const json_t *rate)
{
    fputs("override ", out);
    sl_out_clean(out, text_of(rate, "limit"));
    fputs(" = ", out);
    sl_out_clean(out, text_of(rate, "rate"));
    if (text_of(rate, "until")[0])
        fprintf(out, ", %s %s",
                json_is_true(json_object_get(rate, "over")) ? "ended" : "until",
                text_of(rate, "until"));
    if (text_of(rate, "by")[0]) {
        fputs(", by ", out);
        sl_out_clean(out, text_of(rate, "by"));
    }
    if (text_of(rate, "note")[0]) {
        fputs(": ", out);
        sl_out_clean(out, text_of(rate, "note"));
    }
    fputc('\n', out);
}

static void print_plan(FILE *out, const json_t *subject)
{
    const char *expires = text_of(subject, "expires");

    fputs("plan     ", out);
    sl_out_clean(out, text_of(subject, "plan")[0] ? text_of(subject, "plan")
                                                  : "none");
    if (expires[0])
        fprintf(out, ", %s %s",
                json_is_true(json_object_get(subject, "expired")) ? "ended"
                                                                  : "until",
                expires);
    fputc('\n', out);
}

int sl_subject_print(struct sl_cli_args *call, json_t *subject)
{
    FILE *out = call->cli->out;
    json_t *item;
    size_t i;

    if (call->format == SL_FORMAT_JSON)
        return sl_json_print(call, subject);
    fprintf(out, "%-9s", text_of(subject, "scope"));
    sl_out_clean(out, text_of(subject, "id"));
    fputc('\n', out);
    print_plan(out, subject);
    print_list(out, "roles", json_object_get(subject, "roles"));
    print_list(out, "aliases", json_object_get(subject, "aliases"));
    json_array_foreach(json_object_get(subject, "override_details"), i, item)
        print_rate(out, item);
    print_text(out, "note", text_of(subject, "note"));
    fprintf(out, "changed  %s by ", text_of(subject, "updated"));
    sl_out_clean(out, text_of(subject, "by"));
    fputc('\n', out);
    json_array_foreach(json_object_get(subject, "warnings"), i, item)
        print_text(call->cli->err, "warning:", json_string_value(item));
    return SL_EXIT_OK;
}

/* ---- asking ---- */

int sl_subject_no_memory(struct sl_cli_args *call)
{
    return sl_cli_error(call, SL_EXIT_FAILED, "out of memory");
}

static int check_scope(struct sl_cli_args *call, const char *scope)
{
    if (strcmp(scope, "user") == 0 || strcmp(scope, "org") == 0)
        return 0;
    return sl_cli_error(call, SL_EXIT_USAGE,
                        "unknown scope \"%s\"; write user ID or org ID", scope);
}

/* /v1/subjects/SCOPE/ID with a NUL behind it. */
static int write_path(struct sl_cli_args *call, struct sl_buf *path,
                      char **words)
{
    int err = sl_buf_addf(path, "/v1/subjects/%s/", words[0]);

    if (!err)
        err = sl_daemon_reach_encode(path, sl_str_c(words[1]));
    if (!err && sl_cli_args_flag(call, "force"))
        err = sl_buf_addf(path, "?force=true");
    return err ? err : sl_buf_add(path, (struct sl_str){"", 1});
}

static int ask(struct sl_cli_args *call, struct sl_daemon_client *client,
               const char *method, char **words, struct sl_str body,
               json_t **ret)
{
    struct sl_buf path;
    int status = check_scope(call, words[0]);

    if (status)
        return status;
    sl_buf_init(&path, SL_SUBJECT_PATH, &sl_alloc_libc);
    if (write_path(call, &path, words))
        status = sl_cli_error(call, SL_EXIT_USAGE, "the id is too long");
    else
        status =
            sl_daemon_reach_ask(call, client, method, path.bytes, body, ret);
    sl_buf_done(&path);
    return status;
}

int sl_subject_get(struct sl_cli_args *call, struct sl_daemon_client *client,
                   char **words, size_t count)
{
    json_t *subject = NULL;
    int status = ask(call, client, "GET", words, SL_STR(""), &subject);

    (void)count;
    if (!status)
        status = sl_subject_print(call, subject);
    json_decref(subject);
    return status;
}

int sl_subject_rm(struct sl_cli_args *call, struct sl_daemon_client *client,
                  char **words, size_t count)
{
    json_t *answer = NULL;
    int status = ask(call, client, "DELETE", words, SL_STR(""), &answer);

    (void)count;
    if (!status && call->format == SL_FORMAT_JSON)
        status = sl_json_print(call, answer);
    else if (!status)
        fprintf(call->cli->out, "removed %s\n", words[1]);
    json_decref(answer);
    return status;
}

/* ---- set ---- */

/* What is written of a subject; texts and overrides, in turn. */
struct body {
    struct sl_buf text, rates;
    unsigned count, rate_count;
};

static int add_name(struct sl_buf *out, unsigned *count, struct sl_str name)
{
    int err = sl_buf_add(out, (*count)++ > 0 ? SL_STR(",") : SL_STR(""));

    if (!err)
        err = sl_json_string(out, name);
    return err ? err : sl_buf_add(out, SL_STR(":"));
}

/* "" takes it away. */
static int add_value(struct sl_buf *out, struct sl_str value)
{
    return value.len > 0 ? sl_json_string(out, value)
                         : sl_buf_add(out, SL_STR("null"));
}

/* a,b,c */
static int add_list(struct sl_buf *out, struct sl_str value)
{
    int err = sl_buf_add(out, SL_STR("["));
    bool first = true;

    while (value.len > 0 && !err) {
        const char *comma = memchr(value.at, ',', value.len);
        size_t len = comma ? (size_t)(comma - value.at) : value.len;

        if (!first)
            err = sl_buf_add(out, SL_STR(","));
        if (!err)
            err = sl_json_string(out, (struct sl_str){value.at, len});
        value = sl_str_from(value, len + 1);
        first = false;
    }
    return err ? err : sl_buf_add(out, SL_STR("]"));
}

static int add_pair(struct body *body, struct sl_str name, struct sl_str value)
{
    static const char *const texts[] = {"plan", "expires", "until", "note"};
    static const char *const lists[] = {"roles", "aliases"};
    int err;

    for (size_t i = 0; i < SL_LEN(texts); i++)
        if (sl_str_eq(name, sl_str_c(texts[i]))) {
            err = add_name(&body->text, &body->count, name);
            return err ? err : add_value(&body->text, value);
        }
    for (size_t i = 0; i < SL_LEN(lists); i++)
        if (sl_str_eq(name, sl_str_c(lists[i]))) {
            err = add_name(&body->text, &body->count, name);
            return err ? err : add_list(&body->text, value);
        }
    err = add_name(&body->rates, &body->rate_count, name);
    return err ? err : add_value(&body->rates, value);
}

static int read_pairs(struct sl_cli_args *call, struct body *body, char **words,
                      size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const char *equals = strchr(words[i], '=');
        struct sl_str name = {words[i],
                              equals ? (size_t)(equals - words[i]) : 0};

        if (name.len == 0)
            return sl_cli_error(
                call, SL_EXIT_USAGE,
                "\"%s\" is not a setting of a subject; write plan=NAME, "
                "expires=TIME, roles=A,B, aliases=A,B, note=TEXT, LIMIT=RATE "
                "or until=TIME",
                words[i]);
        if (add_pair(body, name, sl_str_c(equals + 1)))
            return sl_subject_no_memory(call);
    }
    return 0;
}

static int finish(struct sl_cli_args *call, struct body *body)
{
    const char *by = sl_subject_by(call);
    int err = 0;

    if (by) {
        err = add_name(&body->text, &body->count, SL_STR("by"));
        if (!err)
            err = sl_json_string(&body->text, sl_str_c(by));
    }
    if (!err && body->rate_count > 0) {
        err = add_name(&body->text, &body->count, SL_STR("overrides"));
        if (!err)
            err = sl_buf_add(&body->text, SL_STR("{"));
        if (!err)
            err = sl_buf_add(&body->text, sl_buf_str(&body->rates));
        if (!err)
            err = sl_buf_add(&body->text, SL_STR("}"));
    }
    if (!err)
        err = sl_buf_add(&body->text, SL_STR("}"));
    return err ? sl_subject_no_memory(call) : 0;
}

int sl_subject_set(struct sl_cli_args *call, struct sl_daemon_client *client,
                   char **words, size_t count)
{
    const char *method = sl_cli_args_flag(call, "replace") ? "PUT" : "PATCH";
    struct body body = {.count = 0};
    json_t *subject = NULL;
    int status;

    sl_buf_init(&body.text, BODY_BYTES, &sl_alloc_libc);
    sl_buf_init(&body.rates, BODY_BYTES, &sl_alloc_libc);
    status = sl_buf_add(&body.text, SL_STR("{"))
                 ? sl_subject_no_memory(call)
                 : read_pairs(call, &body, words + 2, count - 2);
    if (!status)
        status = finish(call, &body);
    if (!status)
        status =
            ask(call, client, method, words, sl_buf_str(&body.text), &subject);
    if (!status)
        status = sl_subject_print(call, subject);
    json_decref(subject);
    sl_buf_done(&body.text);
    sl_buf_done(&body.rates);
    return status;
}

/* ---- many subjects from a file, batch by batch.
 *
 * The file is read as it is sent, and may be of any length. A batch is written
 * as a whole or not at all. When a line is refused, what came before its batch
 * is in, and --from goes on at a line; to begin again from the first does no
 * harm either, for what is there already is not written twice.
 */

#define BATCH_LINES 500
#define BATCH_BYTES ((size_t)512 << 10) /* a daemon takes 1 MiB */
#define READ_BYTES  ((size_t)64 << 10)

struct import {
    struct sl_cli_args *call;
    struct sl_daemon_client *client;
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
        status =
            sl_cli_error(import->call, SL_EXIT_FAILED,
                         "%s requires a token; name the file that contains "
                         "it with --token-file",
                         import->client->where);
    else if (nth == 0 || !sentence)
        status = sl_cli_error(
            import->call, code == 503 ? SL_EXIT_STORE : SL_EXIT_FAILED,
            "%s:%llu: %s", import->name, (unsigned long long)line,
            detail ? detail : "the daemon rejected the request");
    else {
        /* The daemon counts the lines of the batch, its head included. */
        line = import->batch_line + (uint64_t)nth - 1 - import->is_csv;
        status = sl_cli_error(
            import->call, code == 503 ? SL_EXIT_STORE : SL_EXIT_FAILED,
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
    const char *path = sl_cli_args_flag(import->call, "force")
                           ? "/v1/subjects?force=true"
                           : "/v1/subjects";
    struct sl_diag diag = {.line = 0};
    struct sl_str body;
    json_t *root;
    int code;

    if (import->count == 0)
        return 0;
    if (sl_daemon_client_ask(import->client, "POST", path,
                             sl_buf_str(&import->batch), &code, &body, &diag)) {
        show(import, true);
        return sl_cli_error(
            import->call, SL_EXIT_UNREACHABLE,
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
    return err ? sl_cli_error(import->call, SL_EXIT_FAILED,
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
        return sl_cli_error(
            import->call, SL_EXIT_FAILED,
            "%s:%llu: the line is too long, or a quote is not closed",
            import->name, (unsigned long long)import->line);
    got = fread(import->text.bytes + import->text.len, 1, READ_BYTES,
                import->file);
    import->text.len += got;
    import->at_end = got == 0;
    if (ferror(import->file))
        return sl_cli_error(import->call, SL_EXIT_FAILED, "cannot read %s: %s",
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
    const char *from = sl_cli_args_flag(import->call, "from");

    if (from && (sl_parse_number(sl_str_c(from), &import->from, NULL) ||
                 import->from == 0))
        return sl_cli_error(import->call, SL_EXIT_USAGE,
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
        return sl_cli_error(import->call, SL_EXIT_FAILED, "cannot read %s: %s",
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

int sl_subject_import(struct sl_cli_args *call, struct sl_daemon_client *client,
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

/* ---- all subjects, or some, page by page.
 *
 * As JSON it is a line for each, which `import` reads again: a backup of a
 * daemon that runs.
 */

#define PAGE 500

static int add_option(struct sl_buf *path, const char *name, const char *value)
{
    int err;

    if (!value || !value[0])
        return 0;
    err = sl_buf_addf(path, "&%s=", name);
    return err ? err : sl_daemon_reach_encode(path, sl_str_c(value));
}

static int ask_page(struct sl_cli_args *call, struct sl_daemon_client *client,
                    const char *after, json_t **ret)
{
    struct sl_buf path;
    int err, status;

    sl_buf_init(&path, SL_SUBJECT_PATH, &sl_alloc_libc);
    err = sl_buf_addf(&path, "/v1/subjects?limit=%d", PAGE);
    if (!err)
        err = add_option(&path, "scope", sl_cli_args_flag(call, "scope"));
    if (!err)
        err = add_option(&path, "prefix", sl_cli_args_flag(call, "prefix"));
    if (!err)
        err = add_option(&path, "after", after);
    if (!err)
        err = sl_buf_add(&path, (struct sl_str){"", 1});
    status = err ? sl_cli_error(call, SL_EXIT_USAGE, "the prefix is too long")
                 : sl_daemon_reach_ask(call, client, "GET", path.bytes,
                                       SL_STR(""), ret);
    sl_buf_done(&path);
    return status;
}

/* "a, b" */
static void join(const json_t *list, char *out, size_t size)
{
    size_t i, len = 0;
    json_t *item;

    out[0] = '\0';
    json_array_foreach(list, i, item)
    {
        if (len < size)
            len += (size_t)snprintf(out + len, size - len, "%s%s",
                                    i > 0 ? "," : "", json_string_value(item));
    }
}

static void join_rates(json_t *rates, char *out, size_t size)
{
    const char *limit;
    size_t len = 0;
    json_t *rate;

    out[0] = '\0';
    json_object_foreach(rates, limit, rate)
    {
        if (len < size)
            len += (size_t)snprintf(out + len, size - len, "%s%s=%s",
                                    len > 0 ? "," : "", limit,
                                    json_string_value(rate));
    }
}

static void add_row(struct sl_columns *columns, const json_t *subject)
{
    char roles[256], rates[512], expires[64];
    const char *cells[] = {
        text_of(subject, "scope"),
        text_of(subject, "id"),
        text_of(subject, "plan"),
        expires,
        roles,
        rates,
        text_of(subject, "note"),
    };

    snprintf(expires, sizeof(expires), "%s%s", text_of(subject, "expires"),
             json_is_true(json_object_get(subject, "expired")) ? " (over)"
                                                               : "");
    join(json_object_get(subject, "roles"), roles, sizeof(roles));
    join_rates(json_object_get(subject, "overrides"), rates, sizeof(rates));
    sl_columns_add(columns, cells);
}

static void warn(struct sl_cli_args *call, const json_t *subject)
{
    json_t *item;
    size_t i;

    json_array_foreach(json_object_get(subject, "warnings"), i, item)
        sl_cli_error(call, 0, "%s %s: %s", text_of(subject, "scope"),
                     text_of(subject, "id"), json_string_value(item));
}

static int show_page(struct sl_cli_args *call, struct sl_columns *columns,
                     const json_t *page)
{
    json_t *subject;
    int status = 0;
    size_t i;

    json_array_foreach(json_object_get(page, "subjects"), i, subject)
    {
        warn(call, subject);
        if (call->format == SL_FORMAT_JSON)
            status = sl_json_print(call, subject);
        else
            add_row(columns, subject);
        if (status)
            break;
    }
    return status;
}

int sl_subject_list(struct sl_cli_args *call, struct sl_daemon_client *client,
                    char **words, size_t count)
{
    static const char *const heads[] = {"SCOPE", "ID",        "PLAN", "EXPIRES",
                                        "ROLES", "OVERRIDES", "NOTE"};
    struct sl_columns columns;
    char after[1024] = "";
    bool more = true;
    int status = 0;

    (void)words;
    (void)count;
    sl_columns_init(&columns, SL_LEN(heads));
    sl_columns_add(&columns, heads);
    while (more && !status) {
        json_t *page = NULL;

        status = ask_page(call, client, after, &page);
        if (!status)
            status = show_page(call, &columns, page);
        snprintf(after, sizeof(after), "%s", text_of(page, "next"));
        more = after[0];
        json_decref(page);
    }
    if (!status && columns.failed)
        status = sl_subject_no_memory(call);
    if (!status && call->format != SL_FORMAT_JSON)
        sl_columns_print(&columns, call->cli->out);
    sl_columns_done(&columns);
    return status;
}

/* ---- sluice subject: who is registered in a daemon that runs. */

static const struct verb {
    const char *name;
    size_t least, most; /* words behind it */
    const char *usage;
    sl_subject_f *run;
} verbs[] = {
    {"get",    2, 2,  "SCOPE ID",                 sl_subject_get   },
    {"set",    3, 90, "SCOPE ID NAME=VALUE...",   sl_subject_set   },
    {"rm",     2, 2,  "SCOPE ID",                 sl_subject_rm    },
    {"list",   0, 0,  "[--scope S] [--prefix P]", sl_subject_list  },
    {"import", 1, 1,  "FILE",                     sl_subject_import},
};

const char *sl_subject_by(struct sl_cli_args *call)
{
    const char *by = sl_cli_args_flag(call, "by");

    if (!by)
        by = getenv("SUDO_USER");
    if (!by || !by[0])
        by = getenv("USER");
    return by && by[0] ? by : NULL;
}

static int refuse_verb(struct sl_cli_args *call, const char *word)
{
    const char *names[SL_LEN(verbs)];
    const char *near;

    for (size_t i = 0; i < SL_LEN(verbs); i++)
        names[i] = verbs[i].name;
    near = sl_str_nearest(sl_str_c(word), names, SL_LEN(names));
    return sl_cli_error(call, SL_EXIT_USAGE, "unknown action \"%s\"; write %s",
                        word, near ? near : "get, set, rm, list or import");
}

static int carry_out(struct sl_cli_args *call, const struct verb *verb)
{
    size_t count = call->word_count - 1;
    struct sl_daemon_client client;
    int status;

    if (count < verb->least || count > verb->most)
        return sl_cli_error(call, SL_EXIT_USAGE, "usage: sluice subject %s %s",
                            verb->name, verb->usage);
    status = sl_daemon_reach(call, true, &client);
    if (!status)
        status = verb->run(call, &client, call->words + 1, count);
    sl_daemon_client_done(&client);
    return status;
}

static int run(struct sl_cli_args *call)
{
    for (size_t i = 0; i < SL_LEN(verbs); i++)
        if (strcmp(call->words[0], verbs[i].name) == 0)
            return carry_out(call, &verbs[i]);
    return refuse_verb(call, call->words[0]);
}

static const struct sl_flag flags[] = {
    {'\0', "scope",   "SCOPE",  "list: only this scope, user or org"},
    {'\0', "prefix",  "PREFIX", "list: only ids with this prefix"   },
    {'\0', "by",      "NAME",   "author of the change (you)"        },
    {'\0', "replace", NULL,     "set: replace, do not merge"        },
    {'\0', "force",   NULL,     "accept names not in the policy"    },
    {'\0', "from",    "LINE",   "import: start at this line"        },
    SL_DAEMON_REACH_ADMIN_URL,
    SL_DAEMON_REACH_TOKEN,
    {'\0', NULL,      NULL,     NULL                                },
};

const struct sl_command sl_command_subject = {
    .name = "subject",
    .usage = "get|set|rm|list|import [WORD...]",
    .summary = "Manage subjects: plans, roles, overrides",
    .help = "A subject is `user ID` or `org ID`. A change applies to the next "
            "request and\n"
            "keeps the usage so far.\n"
            "\n"
            "  sluice subject set user ann plan=pro expires=2026-12-31\n"
            "  sluice subject set org acme search=100/min until=2h "
            "note=\"launch\"\n"
            "  sluice subject set user ann roles=admin,member "
            "aliases=ann@example.org\n"
            "  sluice subject set org acme search=      removes the override\n"
            "  sluice subject get user ann@example.org\n"
            "  sluice subject list --scope org -o json > backup.jsonl\n"
            "  sluice subject import users.csv          CSV with a header "
            "line, or JSON lines\n"
            "\n"
            "TIME is 2026-12-31T23:59:59Z, 2026-12-31, or a duration from now "
            "(2h, 30d).\n"
            "Columns of a CSV file: "
            "scope,id,plan,expires,roles,aliases,note,by,until and\n"
            "override.LIMIT.\n",
    .words = "get|set|rm|list|import",
    .formats = "table|json",
    .flags = flags,
    .least = 1,
    .most = 93,
    .run = run,
};
