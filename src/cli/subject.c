/* subject.c -- `sluice subject`: manage the subjects of a daemon. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/parse.h"
#include "cli/cli.h"
#include "wire/csv.h"
#include "wire/json.h"

#define PATH_BYTES ((size_t)8 << 10) /* a daemon's maximum for a line */

/* An action of `sluice subject`. `words` are those after its name. Returns an
 * exit status. */
typedef int subject_f(struct sl_daemon_request *r, char **words, size_t count);

static int out_of_memory(struct sl_cli_args *args)
{
    return sl_cli_error(args, SL_EXIT_FAILED, "out of memory");
}

/* ---- get, set and rm: one subject ---- */

static void print_text(FILE *out, const char *label, const char *text)
{
    if (!text || !text[0])
        return;
    fprintf(out, "%-9s", label);
    sl_out_clean(out, text);
    fputc('\n', out);
}

static const char *text_of(const json_t *map, const char *name)
{
    return sl_member_text(map, name, "");
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

static void print_override(FILE *out, const json_t *rate)
{
    fputs("override ", out);
    sl_out_clean(out, text_of(rate, "limit"));
    fputs(" = ", out);
    sl_out_clean(out, text_of(rate, "rate"));
    if (text_of(rate, "until")[0])
        fprintf(out, ", %s %s",
                sl_member_true(rate, "over") ? "ended" : "until",
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
                sl_member_true(subject, "expired") ? "ended" : "until",
                expires);
    fputc('\n', out);
}

static int print_subject(struct sl_cli_args *args, json_t *subject)
{
    FILE *out = args->cli->out;
    json_t *item;
    size_t i;

    fprintf(out, "%-9s", text_of(subject, "scope"));
    sl_out_clean(out, text_of(subject, "id"));
    fputc('\n', out);
    print_plan(out, subject);
    print_list(out, "roles", json_object_get(subject, "roles"));
    print_list(out, "aliases", json_object_get(subject, "aliases"));
    json_array_foreach(json_object_get(subject, "override_details"), i, item)
        print_override(out, item);
    print_text(out, "note", text_of(subject, "note"));
    fprintf(out, "changed  %s by ", text_of(subject, "updated"));
    sl_out_clean(out, text_of(subject, "by"));
    fputc('\n', out);
    json_array_foreach(json_object_get(subject, "warnings"), i, item)
        print_text(args->cli->err, "warning:", json_string_value(item));
    return SL_EXIT_OK;
}

static int print_removed(struct sl_cli_args *args, json_t *answer)
{
    (void)answer;
    fprintf(args->cli->out, "removed %s\n", args->words[2]);
    return SL_EXIT_OK;
}

/* Send a request about /v1/subjects/SCOPE/ID. */
static int ask(struct sl_daemon_request *r, const char *method, char **words,
               sl_print_f *print)
{
    if (strcmp(words[0], "user") != 0 && strcmp(words[0], "org") != 0)
        return sl_cli_error(r->args, SL_EXIT_USAGE,
                            "unknown scope \"%s\"; write user ID or org ID",
                            words[0]);
    sl_writer_addf(&r->path, "/v1/subjects/%s", words[0]);
    sl_daemon_request_segment(r, words[1]);
    if (sl_cli_args_flag(r->args, "force"))
        sl_daemon_request_option(r, "force", "true");
    return sl_daemon_request_print(r, method, "the id is too long", print);
}

static int get_subject(struct sl_daemon_request *r, char **words, size_t count)
{
    (void)count;
    return ask(r, "GET", words, print_subject);
}

static int remove_subject(struct sl_daemon_request *r, char **words,
                          size_t count)
{
    (void)count;
    return ask(r, "DELETE", words, print_removed);
}

/* ---- set ---- */

/* An empty value removes what was there. */
static void write_text(struct sl_writer *w, struct sl_str value)
{
    if (value.len > 0)
        sl_json_str(w, value);
    else
        sl_json_nothing(w);
}

/* a,b,c */
static void write_list(struct sl_writer *w, struct sl_str value)
{
    sl_json_open(w, '[');
    while (value.len > 0) {
        const char *comma = memchr(value.at, ',', value.len);
        size_t len = comma ? (size_t)(comma - value.at) : value.len;

        sl_json_str(w, (struct sl_str){value.at, len});
        value = sl_str_from(value, len + 1);
    }
    sl_json_close(w, ']');
}

typedef void write_f(struct sl_writer *w, struct sl_str value);

/* How the value of a setting is written; NULL: the name is a limit. */
static write_f *find_setting(struct sl_str name)
{
    static const struct {
        const char *name;
        write_f *write;
    } settings[] = {
        {"plan",    write_text},
        {"expires", write_text},
        {"until",   write_text},
        {"note",    write_text},
        {"roles",   write_list},
        {"aliases", write_list},
    };

    for (size_t i = 0; i < SL_LEN(settings); i++)
        if (sl_str_eq(name, sl_str_c(settings[i].name)))
            return settings[i].write;
    return NULL;
}

/* Write the settings, or the overrides, among NAME=VALUE... */
static void write_pairs(struct sl_writer *w, char **words, size_t count,
                        bool overrides)
{
    for (size_t i = 0; i < count; i++) {
        const char *equals = strchr(words[i], '=');
        struct sl_str name = {words[i], (size_t)(equals - words[i])};
        write_f *write = find_setting(name);

        if (overrides == (write != NULL))
            continue;
        sl_json_key(w, name);
        (write ? write : write_text)(w, sl_str_c(equals + 1));
    }
}

/* Check the form of the pairs; *ret_overrides: one of them is an override. */
static int check_pairs(struct sl_cli_args *args, char **words, size_t count,
                       bool *ret_overrides)
{
    for (size_t i = 0; i < count; i++) {
        const char *equals = strchr(words[i], '=');

        if (!equals || equals == words[i])
            return sl_cli_error(
                args, SL_EXIT_USAGE,
                "\"%s\" is not a setting of a subject; write plan=NAME, "
                "expires=TIME, roles=A,B, aliases=A,B, note=TEXT, LIMIT=RATE "
                "or until=TIME",
                words[i]);
        if (!find_setting(
                (struct sl_str){words[i], (size_t)(equals - words[i])}))
            *ret_overrides = true;
    }
    return 0;
}

/* The author of the change: --by, or the user of the session, or NULL. */
static const char *author(struct sl_cli_args *args)
{
    const char *by = sl_cli_args_flag(args, "by");

    if (!by)
        by = getenv("SUDO_USER");
    if (!by || !by[0])
        by = getenv("USER");
    return by && by[0] ? by : NULL;
}

static int set_subject(struct sl_daemon_request *r, char **words, size_t count)
{
    const char *method = sl_cli_args_flag(r->args, "replace") ? "PUT" : "PATCH";
    bool overrides = false;
    int status = check_pairs(r->args, words + 2, count - 2, &overrides);

    if (status)
        return status;
    sl_json_open(&r->body, '{');
    write_pairs(&r->body, words + 2, count - 2, false);
    sl_json_member_text(&r->body, "by", author(r->args));
    if (overrides) {
        sl_json_key(&r->body, SL_STR("overrides"));
        sl_json_open(&r->body, '{');
        write_pairs(&r->body, words + 2, count - 2, true);
        sl_json_close(&r->body, '}');
    }
    sl_json_close(&r->body, '}');
    return ask(r, method, words, print_subject);
}

/* ---- import: many subjects from a file ----
 *
 * The file is sent in batches while it is read, so it may have any length. A
 * batch is written as a whole or not at all. If a line is refused, the earlier
 * batches are imported, and --from continues at a line. Importing the file
 * again from its first line is safe: unchanged subjects are not written.
 */

#define BATCH_LINES 500
#define BATCH_BYTES ((size_t)512 << 10) /* a daemon accepts 1 MiB */
#define READ_BYTES  ((size_t)64 << 10)

struct import {
    struct sl_cli_args *args;
    struct sl_daemon_client *client;
    const char *name;
    FILE *file;
    bool is_csv, at_end, has_progress;
    uint64_t size, done; /* bytes of the file, and processed; 0: unknown */
    uint64_t from;       /* the first line to send */
    struct sl_buf text;  /* read, not yet processed */
    struct sl_buf head;  /* the first line of a CSV file */
    struct sl_buf batch;
    unsigned count;      /* records of the batch */
    uint64_t line;       /* of the next record */
    uint64_t batch_line; /* of the first record of the batch */
    uint64_t imported, changed;
};

static void show_progress(struct import *import, bool last)
{
    FILE *err = import->args->cli->err;
    unsigned share =
        import->size > 0 ? (unsigned)(import->done * 100 / import->size) : 0;
    char bar[41];

    if (!import->has_progress)
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
    json_int_t nth = sl_member_int(root, "line");
    const char *sentence = detail ? strstr(detail, ": ") : NULL;
    uint64_t line = import->batch_line;
    int status;

    show_progress(import, true);
    if (code == 401)
        status =
            sl_cli_error(import->args, SL_EXIT_FAILED,
                         "%s requires a token; name the file that contains "
                         "it with --token-file",
                         import->client->where);
    else if (nth == 0 || !sentence)
        status = sl_cli_error(
            import->args, code == 503 ? SL_EXIT_STORE : SL_EXIT_FAILED,
            "%s:%llu: %s", import->name, (unsigned long long)line,
            detail ? detail : "the daemon rejected the request");
    else {
        /* The daemon counts lines from the head of the batch. */
        line = import->batch_line + (uint64_t)nth - 1 - import->is_csv;
        status = sl_cli_error(
            import->args, code == 503 ? SL_EXIT_STORE : SL_EXIT_FAILED,
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

static int send_batch(struct import *import)
{
    const char *path = sl_cli_args_flag(import->args, "force")
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
        show_progress(import, true);
        return sl_cli_error(
            import->args, SL_EXIT_UNREACHABLE,
            "%s; the %llu subjects before line %llu are imported",
            diag.sentence, (unsigned long long)import->imported,
            (unsigned long long)import->batch_line);
    }
    if (code != 200)
        return refused(import, code, body);
    root = json_loadb(body.at, body.len, 0, NULL);
    import->imported += import->count;
    import->changed += (uint64_t)sl_member_int(root, "changed");
    json_decref(root);
    sl_buf_clear(&import->batch);
    import->count = 0;
    show_progress(import, false);
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
            return out_of_memory(import->args);
        return 0;
    }
    if (line < import->from || (is_blank(record) && import->count == 0))
        return 0;
    if (import->count == BATCH_LINES ||
        import->batch.len + record.len > BATCH_BYTES)
        status = send_batch(import);
    if (status)
        return status;
    /* Blank lines are sent too: the daemon counts lines. */
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
    return err ? sl_cli_error(import->args, SL_EXIT_FAILED,
                              "%s:%llu: the line is too long", import->name,
                              (unsigned long long)line)
               : 0;
}

/* The length of the next record; 0: more must be read. */
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
            import->args, SL_EXIT_FAILED,
            "%s:%llu: the line is too long, or a quote is not closed",
            import->name, (unsigned long long)import->line);
    got = fread(import->text.bytes + import->text.len, 1, READ_BYTES,
                import->file);
    import->text.len += got;
    import->at_end = got == 0;
    if (ferror(import->file))
        return sl_cli_error(import->args, SL_EXIT_FAILED, "cannot read %s: %s",
                            import->name, strerror(errno));
    return 0;
}

/* A file that begins with '{' has JSON lines; others are CSV. */
static int detect_format(struct import *import)
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
    int status = detect_format(import);

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
    const char *from = sl_cli_args_flag(import->args, "from");

    if (from && (sl_parse_number(sl_str_c(from), &import->from, NULL) ||
                 import->from == 0))
        return sl_cli_error(import->args, SL_EXIT_USAGE,
                            "--from must be a line number, not \"%s\"", from);
    return 0;
}

static int open_file(struct import *import)
{
    struct stat st;

    if (strcmp(import->name, "-") == 0)
        import->file = import->args->cli->in;
    else
        import->file = fopen(import->name, "r");
    if (!import->file)
        return sl_cli_error(import->args, SL_EXIT_FAILED, "cannot read %s: %s",
                            import->name, strerror(errno));
    if (fileno(import->file) >= 0 && fstat(fileno(import->file), &st) == 0 &&
        S_ISREG(st.st_mode))
        import->size = (uint64_t)st.st_size;
    import->has_progress = fileno(import->args->cli->err) >= 0 &&
                           isatty(fileno(import->args->cli->err));
    return 0;
}

static int print_imported(struct import *import)
{
    FILE *out = import->args->cli->out;

    show_progress(import, true);
    if (import->args->format == SL_FORMAT_JSON)
        fprintf(out, "{\"imported\":%llu,\"changed\":%llu}\n",
                (unsigned long long)import->imported,
                (unsigned long long)import->changed);
    else
        fprintf(out, "imported %llu subjects, %llu of them new or changed\n",
                (unsigned long long)import->imported,
                (unsigned long long)import->changed);
    return SL_EXIT_OK;
}

static int import_subjects(struct sl_daemon_request *r, char **words,
                           size_t count)
{
    struct import import = {
        .args = r->args, .client = &r->client, .name = words[0], .line = 1};
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
        status = print_imported(&import);
    if (import.file && import.file != r->args->cli->in)
        fclose(import.file);
    sl_buf_done(&import.text);
    sl_buf_done(&import.head);
    sl_buf_done(&import.batch);
    return status;
}

/* ---- list: all subjects, page by page ----
 *
 * As JSON it is one line per subject, which `import` can read.
 */

#define PAGE_ROWS "500"

static int ask_page(struct sl_daemon_request *r, const char *after,
                    json_t **ret)
{
    const char *scope = sl_cli_args_flag(r->args, "scope");
    const char *prefix = sl_cli_args_flag(r->args, "prefix");

    sl_buf_clear(&r->path_text);
    sl_writer_add(&r->path, SL_STR("/v1/subjects?limit=" PAGE_ROWS));
    sl_daemon_request_option(r, "scope", scope && scope[0] ? scope : NULL);
    sl_daemon_request_option(r, "prefix", prefix && prefix[0] ? prefix : NULL);
    sl_daemon_request_option(r, "after", after[0] ? after : NULL);
    return sl_daemon_request_send(r, "GET", "the prefix is too long", ret);
}

/* a,b */
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

static void join_overrides(json_t *overrides, char *out, size_t size)
{
    const char *limit;
    size_t len = 0;
    json_t *rate;

    out[0] = '\0';
    json_object_foreach(overrides, limit, rate)
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
             sl_member_true(subject, "expired") ? " (over)" : "");
    join(json_object_get(subject, "roles"), roles, sizeof(roles));
    join_overrides(json_object_get(subject, "overrides"), rates, sizeof(rates));
    sl_columns_add(columns, cells);
}

static void warn(struct sl_cli_args *args, const json_t *subject)
{
    json_t *item;
    size_t i;

    json_array_foreach(json_object_get(subject, "warnings"), i, item)
        sl_cli_error(args, 0, "%s %s: %s", text_of(subject, "scope"),
                     text_of(subject, "id"), json_string_value(item));
}

static int add_page(struct sl_cli_args *args, struct sl_columns *columns,
                    const json_t *page)
{
    json_t *subject;
    int status = 0;
    size_t i;

    json_array_foreach(json_object_get(page, "subjects"), i, subject)
    {
        warn(args, subject);
        if (args->format == SL_FORMAT_JSON)
            status = sl_json_print(args, subject);
        else
            add_row(columns, subject);
        if (status)
            break;
    }
    return status;
}

static int list_subjects(struct sl_daemon_request *r, char **words,
                         size_t count)
{
    static const char *const head[] = {"SCOPE", "ID",        "PLAN", "EXPIRES",
                                       "ROLES", "OVERRIDES", "NOTE"};
    struct sl_columns columns;
    char after[1024] = "";
    bool more = true;
    int status = 0;

    (void)words;
    (void)count;
    sl_columns_init(&columns, SL_LEN(head));
    sl_columns_add(&columns, head);
    while (more && !status) {
        json_t *page = NULL;

        status = ask_page(r, after, &page);
        if (!status)
            status = add_page(r->args, &columns, page);
        snprintf(after, sizeof(after), "%s", text_of(page, "next"));
        more = after[0];
        json_decref(page);
    }
    if (!status && r->args->format != SL_FORMAT_JSON)
        return sl_columns_finish(&columns, r->args);
    sl_columns_done(&columns);
    return status;
}

/* ---- sluice subject ---- */

static const struct action {
    const char *name;
    size_t least, most; /* words after it */
    const char *usage;
    subject_f *run;
} actions[] = {
    {"get",    2, 2,  "SCOPE ID",                 get_subject    },
    {"set",    3, 90, "SCOPE ID NAME=VALUE...",   set_subject    },
    {"rm",     2, 2,  "SCOPE ID",                 remove_subject },
    {"list",   0, 0,  "[--scope S] [--prefix P]", list_subjects  },
    {"import", 1, 1,  "FILE",                     import_subjects},
};

static int refuse_action(struct sl_cli_args *args, const char *word)
{
    const char *names[SL_LEN(actions)];
    const char *near;

    for (size_t i = 0; i < SL_LEN(actions); i++)
        names[i] = actions[i].name;
    near = sl_str_nearest(sl_str_c(word), names, SL_LEN(names));
    return sl_cli_error(args, SL_EXIT_USAGE, "unknown action \"%s\"; write %s",
                        word, near ? near : "get, set, rm, list or import");
}

static int run_action(struct sl_cli_args *args, const struct action *action)
{
    size_t count = args->word_count - 1;
    struct sl_daemon_request r;
    int status;

    if (count < action->least || count > action->most)
        return sl_cli_error(args, SL_EXIT_USAGE, "usage: sluice subject %s %s",
                            action->name, action->usage);
    sl_daemon_request_init(&r, args, PATH_BYTES);
    status = sl_daemon_request_open(&r, true);
    if (!status)
        status = action->run(&r, args->words + 1, count);
    sl_daemon_request_done(&r);
    return status;
}

static int run(struct sl_cli_args *args)
{
    for (size_t i = 0; i < SL_LEN(actions); i++)
        if (strcmp(args->words[0], actions[i].name) == 0)
            return run_action(args, &actions[i]);
    return refuse_action(args, args->words[0]);
}

static const struct sl_flag flags[] = {
    {'\0', "scope",   "SCOPE",  "list: only this scope, user or org"},
    {'\0', "prefix",  "PREFIX", "list: only ids with this prefix"   },
    {'\0', "by",      "NAME",   "author of the change (you)"        },
    {'\0', "replace", NULL,     "set: replace, do not merge"        },
    {'\0', "force",   NULL,     "accept names not in the policy"    },
    {'\0', "from",    "LINE",   "import: start at this line"        },
    SL_FLAG_ADMIN_URL,
    SL_FLAG_TOKEN,
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
