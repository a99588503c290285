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
    static const char *const calendar[] = {"anchor", "zone"};
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
    for (i = 0; i < SL_LEN(calendar); i++)
        print_text(out, calendar[i], sl_member_text(subject, calendar[i]));
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
    if (strcmp(r->args->words[0], "erase") == 0)
        sl_cli_request_option(r, "erase", "true");
    return sl_cli_request_print(r, method, "the id is too long", print);
}

static int get_subject(struct sl_cli_request *r)
{
    return ask(r, "GET", print_subject);
}

static int print_erased(struct sl_cli_args *args, json_t *answer)
{
    (void)answer;
    fprintf(args->cli->out, "erased %s\n", args->words[2]);
    return SL_EXIT_OK;
}

/* `rm` and `erase`. */
static int remove_subject(struct sl_cli_request *r)
{
    bool erases = strcmp(r->args->words[0], "erase") == 0;
    const char *note = sl_cli_cut_note(r->args);
    int status = sl_cli_request_sign(r, sl_cli_author(r->args), note);

    if (!status && r->args->word_count != 3)
        status = sl_cli_misuse(r->args,
                               "missing id; write: sluice subject %s SCOPE ID "
                               "[note=TEXT]",
                               r->args->words[0]);
    return status ? status
                  : ask(r, "DELETE", erases ? print_erased : print_removed);
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
                                           "expires", "until",   "note",
                                           "anchor",  "zone"};
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
                "expires=TIME, roles=A,B, aliases=A,B, note=TEXT, anchor=DATE, "
                "zone=NAME, LIMIT=RATE or until=TIME",
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

/* until=TIME ends overrides. Without one the daemon would ignore it, and a plan
 * that was meant to end would not. */
static int check_until(const struct sl_cli_args *args)
{
    bool has_until = false, has_override = false;

    for (size_t i = 3; i < args->word_count; i++) {
        struct pair pair;

        if (!read_pair(args->words[i], &pair))
            continue; /* refused later */
        has_until = has_until || sl_str_eq(pair.name, SL_STR("until"));
        has_override = has_override || pair.is_override;
    }
    return has_until && !has_override
               ? sl_cli_misuse(args, "until=TIME is the end of LIMIT=RATE in "
                                     "the same command; write expires=TIME "
                                     "for the end of a plan")
               : 0;
}

static int set_subject(struct sl_cli_request *r)
{
    const char *by = sl_cli_author(r->args);
    int status = check_until(r->args);

    if (!status)
        status = sl_cli_request_sign(r, by, note_of(r->args));
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
 * If a line is refused, the earlier batches are imported, and --from continues
 * at a line. Importing the file again from its first line is safe: unchanged
 * subjects are not written.
 */

static int open_file(struct sl_cli_args *args, struct sl_cli_import *import)
{
    const char *from = sl_cli_flag(args, "from");

    if (from && (sl_parse_number(sl_str_c(from), &import->from, NULL) ||
                 import->from == 0))
        return sl_cli_misuse(args, "--from must be a line number, not \"%s\"",
                             from);
    if (strcmp(import->name, "-") == 0)
        import->file = args->cli->in;
    else
        import->file = fopen(import->name, "r");
    return import->file ? 0
                        : sl_cli_fail(args, "cannot read %s: %s", import->name,
                                      strerror(errno));
}

static int import_subjects(struct sl_cli_request *r)
{
    struct sl_cli_args *args = r->args;
    struct sl_cli_import import = {
        .name = args->words[1],
        .what = "subjects",
        .path = sl_cli_flag(args, "force") ? "/v1/subjects?force=true"
                                           : "/v1/subjects",
    };
    const char *note = sl_cli_cut_note(args);
    int status = sl_cli_request_sign(r, sl_cli_flag(args, "by"), note);

    if (!status && args->word_count != 2)
        status = sl_cli_misuse(args, "missing file; write: sluice subject "
                                     "import FILE [note=TEXT]");
    if (!status)
        status = open_file(args, &import);
    if (!status)
        status = sl_cli_import_run(r, &import);
    if (!status)
        fprintf(args->cli->out,
                args->format == SL_FORMAT_JSON
                    ? "{\"imported\":%" PRIu64 ",\"changed\":%" PRIu64 "}\n"
                    : "imported %" PRIu64 " subjects, %" PRIu64
                      " of them new or changed\n",
                import.imported, import.changed);
    if (import.file && import.file != args->cli->in)
        fclose(import.file);
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
    {"erase",  2, 3,  "SCOPE ID [note=TEXT]",     remove_subject },
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
                         near ? near : "get, set, rm, erase, list or import");
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
    .usage = "get|set|rm|erase|list|import [WORD...]",
    .summary = "Manage subjects: plans, roles, overrides",
    .help =
        "A subject is `user ID` or `org ID`. A change applies to the\n"
        "next request and keeps the usage so far.\n"
        "\n"
        "  sluice subject set user ann plan=pro expires=2026-12-31\n"
        "  sluice subject set org acme search=100/min until=2h "
        "note=\"launch\"\n"
        "  sluice subject set user ann roles=admin,member "
        "aliases=ann@example.org\n"
        "  sluice subject set org acme search=      removes the override\n"
        "  sluice subject set org acme anchor=2026-11-17T08:30:12Z\n"
        "  sluice subject get user ann@example.org\n"
        "  sluice subject erase user ann            also usage and audit\n"
        "  sluice subject list --scope org -o json > backup.jsonl\n"
        "  sluice subject import users.csv          CSV with a header "
        "line, or JSON lines\n"
        "\n"
        "TIME is 2026-12-31T23:59:59Z, 2026-12-31, or a duration from\n"
        "now (2h, 30d). The periods of a quota begin at the anchor, a date\n"
        "or an instant, in the zone. Columns of a CSV file:\n"
        "scope,id,plan,expires,roles,aliases,note,by,until,anchor,zone\n"
        "and override.LIMIT.\n",
    .words = "get|set|rm|erase|list|import",
    .formats = "table|json",
    .flags = flags,
    .listener = SL_LISTENER_ADMIN,
    .least = 1,
    .most = 93,
    .ask = ask_subject,
};
