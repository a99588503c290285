/* subject.c -- `sluice subject`: manage the subjects of a daemon. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/parse.h"
#include "cli/cli.h"
#include "wire/csv.h"
#include "wire/json.h"

#define LIST_BYTES ((size_t)16 << 10) /* roles or aliases as one text */

/* ---- get, set and rm: one subject ---- */

static void print_text(FILE *out, const char *label, const char *text)
{
    if (text[0])
        sl_out_print(out, "%-9s%s\n", label, text);
}

/* "a, b" */
static const char *join(const json_t *list, const char *between, char *out,
                        size_t size)
{
    size_t i, len = 0;
    json_t *item;

    out[0] = '\0';
    json_array_foreach(list, i, item)
    {
        if (len < size)
            len +=
                (size_t)snprintf(out + len, size - len, "%s%s",
                                 i > 0 ? between : "", json_string_value(item));
    }
    return out;
}

/* ", until TIME", ", ended TIME" or. */
static const char *print_end(const json_t *map, const char *name,
                             const char *ended, char out[64])
{
    const char *end = sl_member_text(map, name);

    out[0] = '\0';
    if (end[0])
        snprintf(out, 64, ", %s %s",
                 sl_member_true(map, ended) ? "ended" : "until", end);
    return out;
}

static void print_override(FILE *out, const json_t *rate)
{
    const char *by = sl_member_text(rate, "by");
    const char *note = sl_member_text(rate, "note");
    char end[64];

    sl_out_print(out, "override %s = %s%s%s%s%s%s\n",
                 sl_member_text(rate, "limit"), sl_member_text(rate, "rate"),
                 print_end(rate, "until", "over", end), by[0] ? ", by " : "",
                 by, note[0] ? ": " : "", note);
}

static int print_subject(struct sl_cli_args *args, json_t *subject)
{
    static const char *const lists[] = {"roles", "aliases"};
    const char *plan = sl_member_text(subject, "plan");
    FILE *out = args->cli->out;
    char text[LIST_BYTES], end[64];
    json_t *item;
    size_t i;

    sl_out_print(out, "%-9s%s\nplan     %s%s\n",
                 sl_member_text(subject, "scope"),
                 sl_member_text(subject, "id"), plan[0] ? plan : "none",
                 print_end(subject, "expires", "expired", end));
    for (i = 0; i < SL_LEN(lists); i++)
        print_text(
            out, lists[i],
            join(json_object_get(subject, lists[i]), ", ", text, sizeof(text)));
    json_array_foreach(json_object_get(subject, "override_details"), i, item)
        print_override(out, item);
    print_text(out, "note", sl_member_text(subject, "note"));
    sl_out_print(out, "changed  %s by %s\n", sl_member_text(subject, "updated"),
                 sl_member_text(subject, "by"));
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
static int ask(struct sl_cli_request *r, const char *method, sl_print_f *print)
{
    const char *scope = r->args->words[1];

    if (strcmp(scope, "user") != 0 && strcmp(scope, "org") != 0)
        return sl_cli_misuse(
            r->args, "unknown scope \"%s\"; write user ID or org ID", scope);
    sl_writer_addf(&r->path, "/v1/subjects/%s", scope);
    sl_cli_request_segment(r, r->args->words[2]);
    if (sl_cli_flag(r->args, "force"))
        sl_cli_request_option(r, "force", "true");
    return sl_cli_request_print(r, method, "the id is too long", print);
}

static int get_subject(struct sl_cli_request *r)
{
    return ask(r, "GET", print_subject);
}

static int remove_subject(struct sl_cli_request *r)
{
    const char *note = sl_cli_cut_note(r->args);
    int status = sl_cli_request_sign(r, sl_cli_author(r->args), note);

    if (!status && r->args->word_count != 3)
        status = sl_cli_misuse(r->args, "missing id; write: sluice subject rm "
                                        "SCOPE ID [note=TEXT]");
    return status ? status : ask(r, "DELETE", print_removed);
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

/* A pair NAME=VALUE of `set`. */
struct pair {
    struct sl_str name, value;
    bool is_list, is_override;
};

/* False if there is no name or no '='. */
static bool read_pair(const char *word, struct pair *ret)
{
    static const char *const settings[] = {"roles",   "aliases", "plan",
                                           "expires", "until",   "note"};
    const char *equals = strchr(word, '=');
    size_t i = 0;

    if (!equals || equals == word)
        return false;
    ret->name = (struct sl_str){word, (size_t)(equals - word)};
    ret->value = sl_str_c(equals + 1);
    while (i < SL_LEN(settings) && !sl_str_eq(ret->name, sl_str_c(settings[i])))
        i++;
    ret->is_list = i < 2;
    ret->is_override = i == SL_LEN(settings);
    return true;
}

/* Write the settings, or the overrides, among NAME=VALUE... Returns
 * SL_EXIT_USAGE after printing why. */
static int write_pairs(struct sl_cli_request *r, bool overrides)
{
    struct sl_writer *w = &r->body;
    bool open = false;

    for (size_t i = 3; i < r->args->word_count; i++) {
        struct pair pair;

        if (!read_pair(r->args->words[i], &pair))
            return sl_cli_misuse(
                r->args,
                "\"%s\" is not a setting of a subject; write plan=NAME, "
                "expires=TIME, roles=A,B, aliases=A,B, note=TEXT, LIMIT=RATE "
                "or until=TIME",
                r->args->words[i]);
        if (pair.is_override != overrides)
            continue;
        if (overrides && !open) {
            sl_json_key(w, SL_STR("overrides"));
            sl_json_open(w, '{');
            open = true;
        }
        sl_json_key(w, pair.name);
        if (pair.is_list)
            write_list(w, pair.value);
        else if (pair.value.len > 0)
            sl_json_str(w, pair.value);
        else /* removes the value */
            sl_json_nothing(w);
    }
    if (open)
        sl_json_close(w, '}');
    return 0;
}

/* The value of note=, or NULL. */
static const char *note_of(const struct sl_cli_args *args)
{
    for (size_t i = 3; i < args->word_count; i++)
        if (strncmp(args->words[i], "note=", 5) == 0)
            return args->words[i] + 5;
    return NULL;
}

static int set_subject(struct sl_cli_request *r)
{
    const char *by = sl_cli_author(r->args);
    int status = sl_cli_request_sign(r, by, note_of(r->args));

    sl_json_open(&r->body, '{');
    if (!status)
        status = write_pairs(r, false);
    if (status)
        return status;
    sl_json_member_text(&r->body, "by", by);
    status = write_pairs(r, true);
    sl_json_close(&r->body, '}');
    return status ? status
                  : ask(r, sl_cli_flag(r->args, "replace") ? "PUT" : "PATCH",
                        print_subject);
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
        fprintf(err, "\r[%s] %3u%%  %" PRIu64 " subjects", bar, share,
                import->imported);
    else
        fprintf(err, "\r%" PRIu64 " subjects", import->imported);
    if (last)
        fputc('\n', err);
    fflush(err);
}

/* The daemon counts lines from the head of the batch. */
static int refused(struct import *import, int code, struct sl_str body)
{
    json_t *root = json_loadb(body.at, body.len, 0, NULL);
    const char *detail = sl_member_text(root, "detail");
    json_int_t nth = sl_member_int(root, "line");
    const char *sentence = strstr(detail, ": ");
    int status = code == 503 ? SL_EXIT_STORE : SL_EXIT_FAILED;

    show_progress(import, true);
    if (code == 401)
        sl_cli_fail(import->args, SL_TOKEN_REQUIRED, import->client->where);
    else if (nth == 0 || !sentence)
        sl_cli_error(import->args, status, "%s:%" PRIu64 ": %s", import->name,
                     import->batch_line, detail[0] ? detail : SL_REJECTED);
    else
        sl_cli_error(
            import->args, status,
            "%s:%" PRIu64 ": %s (the %" PRIu64 " subjects before line %" PRIu64
            " are imported; correct the line and continue with --from %" PRIu64
            ")",
            import->name,
            import->batch_line + (uint64_t)nth - 1 - import->is_csv,
            sentence + 2, import->imported, import->batch_line,
            import->batch_line);
    json_decref(root);
    return status;
}

static int send_batch(struct import *import)
{
    const char *path = sl_cli_flag(import->args, "force")
                           ? "/v1/subjects?force=true"
                           : "/v1/subjects";
    struct sl_str body;
    json_t *root;
    int code;

    if (import->count == 0)
        return 0;
    if (sl_daemon_client_ask(import->client, "POST", path,
                             sl_buf_str(&import->batch), &code, &body)) {
        show_progress(import, true);
        return sl_cli_error(import->args, SL_EXIT_UNREACHABLE,
                            "%s; the %" PRIu64 " subjects before line %" PRIu64
                            " are imported",
                            import->client->diag->sentence, import->imported,
                            import->batch_line);
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

static bool is_blank(struct sl_str text)
{
    for (size_t i = 0; i < text.len; i++)
        if (!strchr(" \t\r\n", text.at[i]))
            return false;
    return true;
}

static int add_record(struct import *import, struct sl_str record)
{
    struct sl_writer w = {.out = &import->batch};
    uint64_t line = import->line;
    int status = 0;

    for (size_t i = 0; i < record.len; i++)
        import->line += record.at[i] == '\n';
    import->done += record.len;
    if (import->is_csv && import->head.len == 0)
        return sl_buf_add(&import->head, record)
                   ? sl_cli_no_memory(import->args)
                   : 0;
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
            sl_writer_add(&w, sl_buf_str(&import->head));
    }
    sl_writer_add(&w, record);
    if (record.at[record.len - 1] != '\n')
        sl_writer_add(&w, SL_STR("\n"));
    return w.err ? sl_cli_fail(import->args,
                               "%s:%" PRIu64 ": the line is too long",
                               import->name, line)
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
        return sl_cli_fail(import->args,
                           "%s:%" PRIu64
                           ": the line is too long, or a quote is not closed",
                           import->name, import->line);
    got = fread(import->text.bytes + import->text.len, 1, READ_BYTES,
                import->file);
    import->text.len += got;
    import->at_end = got == 0;
    if (ferror(import->file))
        return sl_cli_fail(import->args, "cannot read %s: %s", import->name,
                           strerror(errno));
    return 0;
}

static int send_file(struct import *import)
{
    struct sl_str text;
    int status = read_more(import);

    /* A file that begins with '{' has JSON lines; others are CSV. */
    text = sl_str_trim(sl_buf_str(&import->text));
    import->is_csv = text.len > 0 && text.at[0] != '{';
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

static int open_file(struct import *import)
{
    const char *from = sl_cli_flag(import->args, "from");
    int err_fd = fileno(import->args->cli->err), fd;
    struct stat st;

    if (from && (sl_parse_number(sl_str_c(from), &import->from, NULL) ||
                 import->from == 0))
        return sl_cli_misuse(import->args,
                             "--from must be a line number, not \"%s\"", from);
    if (strcmp(import->name, "-") == 0)
        import->file = import->args->cli->in;
    else
        import->file = fopen(import->name, "r");
    if (!import->file)
        return sl_cli_fail(import->args, "cannot read %s: %s", import->name,
                           strerror(errno));
    fd = fileno(import->file);
    if (fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode))
        import->size = (uint64_t)st.st_size;
    import->has_progress = err_fd >= 0 && isatty(err_fd);
    return 0;
}

static int import_subjects(struct sl_cli_request *r)
{
    struct import import = {.args = r->args,
                            .client = &r->client,
                            .name = r->args->words[1],
                            .line = 1};
    const char *note = sl_cli_cut_note(r->args);
    int status = sl_cli_request_sign(r, sl_cli_flag(r->args, "by"), note);

    if (!status && r->args->word_count != 2)
        status = sl_cli_misuse(r->args, "missing file; write: sluice subject "
                                        "import FILE [note=TEXT]");
    sl_buf_init(&import.text, 2 * BATCH_BYTES, &sl_alloc_libc);
    sl_buf_init(&import.head, READ_BYTES, &sl_alloc_libc);
    sl_buf_init(&import.batch, 2 * BATCH_BYTES, &sl_alloc_libc);
    if (!status)
        status = open_file(&import);
    if (!status)
        status = send_file(&import);
    if (!status) {
        show_progress(&import, true);
        fprintf(r->args->cli->out,
                r->args->format == SL_FORMAT_JSON
                    ? "{\"imported\":%" PRIu64 ",\"changed\":%" PRIu64 "}\n"
                    : "imported %" PRIu64 " subjects, %" PRIu64
                      " of them new or changed\n",
                import.imported, import.changed);
    }
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

static int ask_page(struct sl_cli_request *r, const char *after, json_t **ret)
{
    const char *scope = sl_cli_flag(r->args, "scope");
    const char *prefix = sl_cli_flag(r->args, "prefix");

    sl_buf_clear(&r->path_text);
    sl_writer_add(&r->path, SL_STR("/v1/subjects?limit=" PAGE_ROWS));
    sl_cli_request_option(r, "scope", scope && scope[0] ? scope : NULL);
    sl_cli_request_option(r, "prefix", prefix && prefix[0] ? prefix : NULL);
    sl_cli_request_option(r, "after", after[0] ? after : NULL);
    return sl_cli_request_send(r, "GET", "the prefix is too long", ret);
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
        sl_member_text(subject, "scope"),
        sl_member_text(subject, "id"),
        sl_member_text(subject, "plan"),
        expires,
        join(json_object_get(subject, "roles"), ",", roles, sizeof(roles)),
        rates,
        sl_member_text(subject, "note"),
    };

    snprintf(expires, sizeof(expires), "%s%s",
             sl_member_text(subject, "expires"),
             sl_member_true(subject, "expired") ? " (over)" : "");
    join_overrides(json_object_get(subject, "overrides"), rates, sizeof(rates));
    sl_columns_add(columns, cells);
}

static int add_page(struct sl_cli_args *args, struct sl_columns *columns,
                    const json_t *page)
{
    json_t *subject, *warning;
    int status = 0;
    size_t i, k;

    json_array_foreach(json_object_get(page, "subjects"), i, subject)
    {
        json_array_foreach(json_object_get(subject, "warnings"), k, warning)
            sl_cli_error(args, 0, "%s %s: %s", sl_member_text(subject, "scope"),
                         sl_member_text(subject, "id"),
                         json_string_value(warning));
        if (args->format == SL_FORMAT_JSON)
            status = sl_json_print(args, subject);
        else
            add_row(columns, subject);
        if (status)
            break;
    }
    return status;
}

static int list_subjects(struct sl_cli_request *r)
{
    static const char *const head[] = {"SCOPE", "ID",        "PLAN", "EXPIRES",
                                       "ROLES", "OVERRIDES", "NOTE"};
    struct sl_columns columns;
    char after[1024] = "";
    bool more = true;
    int status = 0;

    sl_columns_init(&columns, SL_LEN(head), head);
    while (more && !status) {
        json_t *page = NULL;

        status = ask_page(r, after, &page);
        if (!status)
            status = add_page(r->args, &columns, page);
        snprintf(after, sizeof(after), "%s", sl_member_text(page, "next"));
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
    sl_cli_request_f *run;
} actions[] = {
    {"get",    2, 2,  "SCOPE ID",                 get_subject    },
    {"set",    3, 90, "SCOPE ID NAME=VALUE...",   set_subject    },
    {"rm",     2, 3,  "SCOPE ID [note=TEXT]",     remove_subject },
    {"list",   0, 0,  "[--scope S] [--prefix P]", list_subjects  },
    {"import", 1, 2,  "FILE [note=TEXT]",         import_subjects},
};

static int ask_subject(struct sl_cli_request *r)
{
    const char *word = r->args->words[0], *names[SL_LEN(actions)], *near;
    size_t count = r->args->word_count - 1;

    for (size_t i = 0; i < SL_LEN(actions); i++) {
        const struct action *action = &actions[i];

        names[i] = action->name;
        if (strcmp(word, action->name) != 0)
            continue;
        if (count < action->least || count > action->most)
            return sl_cli_misuse(r->args, "usage: sluice subject %s %s",
                                 action->name, action->usage);
        return action->run(r);
    }
    near = sl_str_nearest(sl_str_c(word), names, SL_LEN(names));
    return sl_cli_misuse(r->args, "unknown action \"%s\"; write %s", word,
                         near ? near : "get, set, rm, list or import");
}

static const struct sl_flag flags[] = {
    {'\0', "scope",   "SCOPE",  "list: only this scope, user or org"},
    {'\0', "prefix",  "PREFIX", "list: only ids with this prefix"   },
    {'\0', "by",      "NAME",   "author of the change (you)"        },
    {'\0', "replace", NULL,     "set: replace, do not merge"        },
    {'\0', "force",   NULL,     "accept names not in the policy"    },
    {'\0', "from",    "LINE",   "import: start at this line"        },
    {'\0', NULL,      NULL,     NULL                                },
};

const struct sl_command sl_command_subject = {
    .name = "subject",
    .usage = "get|set|rm|list|import [WORD...]",
    .summary = "Manage subjects: plans, roles, overrides",
    .help = "A subject is `user ID` or `org ID`. A change applies to the\n"
            "next request and keeps the usage so far.\n"
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
            "TIME is 2026-12-31T23:59:59Z, 2026-12-31, or a duration from\n"
            "now (2h, 30d). Columns of a CSV file:\n"
            "scope,id,plan,expires,roles,aliases,note,by,until and\n"
            "override.LIMIT.\n",
    .words = "get|set|rm|list|import",
    .formats = "table|json",
    .flags = flags,
    .listener = SL_LISTENER_ADMIN,
    .least = 1,
    .most = 93,
    .ask = ask_subject,
};
