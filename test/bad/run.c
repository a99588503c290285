/* run.c -- checks that each bad policy gets exactly the expected messages.
 *
 *     run DIR            each policy in the .bad files of DIR is refused
 *     run --warn DIR     each policy in the .warn files is accepted
 *     run --write ...    writes the expected texts instead of comparing them
 *
 * A case is a policy and the text that `sluice check` prints for it:
 *
 *     == NAME
 *     the policy
 *     --
 *     the expected text
 *
 * The report calls the policy NAME.yaml. A case fails if it has no "--", if
 * an earlier case has the same name, or if the report repeats a problem. A
 * file that does not begin with a case fails. The environment has only
 * FEATURE_NIGHT=maybe and SECRET=hunter2. No text may contain hunter2.
 */
#include <dirent.h>
#include <stdlib.h>

#include "check.h"
#include "policy/policy.h"

#define TEXT_MAX  ((size_t)1 << 20)
#define CASES_MAX 1000

static bool writes, warns;
static char names[CASES_MAX][64];
static unsigned name_count;

static const char *env(void *ctx, const char *name)
{
    (void)ctx;
    if (strcmp(name, "FEATURE_NIGHT") == 0)
        return "maybe";
    return strcmp(name, "SECRET") == 0 ? "hunter2" : NULL;
}

/* Returns the file's bytes, NUL-terminated, to be freed; NULL if it cannot be
 * read or exceeds TEXT_MAX. */
static char *read_file(const char *path)
{
    char *text = malloc(TEXT_MAX + 1);
    FILE *file = fopen(path, "rb");
    size_t len = text && file ? fread(text, 1, TEXT_MAX + 1, file) : 0;

    if (file)
        fclose(file);
    if (len == 0 || len > TEXT_MAX) {
        free(text);
        return NULL;
    }
    text[len] = '\0';
    return text;
}

static void write_file(const char *path, struct sl_str text)
{
    FILE *file = fopen(path, "wb");

    if (!CHECK(file != NULL))
        return;
    CHECK_EQ(fwrite(text.at, 1, text.len, file), text.len);
    CHECK_EQ(fclose(file), 0);
}

static void check_once(const struct sl_report *report)
{
    for (unsigned i = 1; i < report->kept; i++) {
        const struct sl_diag *a = &report->problems[i - 1].diag;
        const struct sl_diag *b = &report->problems[i].diag;

        CHECK(a->line != b->line || a->column != b->column ||
              strcmp(a->sentence, b->sentence) != 0);
    }
}

/* Reads the policy `yaml` and appends the report to `out`. */
static void report_policy(const char *name, const char *yaml,
                          struct sl_buf *out)
{
    struct sl_policy_options options = {.substitute.env = env};
    struct sl_policy *policy = NULL;
    struct sl_report report;

    sl_report_init(&report, name, sl_str_c(yaml), &sl_alloc_libc);
    CHECK_EQ(sl_policy_read(&report, &options, &policy),
             warns ? 0 : SLUICE_ECONF);
    CHECK(warns ? report.warnings > 0 : report.errors > 0);
    CHECK_EQ(sl_report_print(&report, out), 0);
    check_once(&report);
    sl_report_done(&report);
    sl_policy_unref(policy);
}

/* Starts the case NAME.yaml. The name outlives the case, as CASE() asks. */
static const char *begin_case(const char *name)
{
    char *full = names[name_count];

    if (name_count + 1 == CASES_MAX)
        abort(); /* raise CASES_MAX */
    snprintf(full, sizeof names[0], "%s.yaml", name);
    CASE(full);
    for (unsigned i = 0; i < name_count; i++) {
        if (strcmp(names[i], full) == 0) {
            printf("# %s occurs twice\n", name);
            CHECK(!"the name is new");
        }
    }
    name_count++;
    return full;
}

/* Cuts `text` before its first line that begins with `mark`. Returns what
 * follows `mark`, or NULL if there is no such line. */
static char *cut(char *text, const char *mark)
{
    size_t len = strlen(mark);

    for (char *line = text; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, mark, len) == 0) {
            *line = '\0';
            return line + len;
        }
    }
    return NULL;
}

/* Runs one case: `text` follows the "== " and ends before the next one. The
 * case with its actual report is appended to `out`. */
static void run_case(char *text, struct sl_buf *out)
{
    char *yaml = strchr(text, '\n'), *want;
    const char *name;
    size_t from;

    if (yaml)
        *yaml++ = '\0';
    name = begin_case(text);
    want = yaml ? cut(yaml, "--\n") : NULL;
    if (!want) {
        printf("# %s has no line \"--\"\n", name);
        CHECK(want != NULL);
        return;
    }
    CHECK_EQ(sl_buf_addf(out, "== %s\n%s--\n", text, yaml), 0);
    from = out->len;
    report_policy(name, yaml, out);
    CHECK_EQ(sl_buf_add(out, (struct sl_str){"", 1}), 0);
    out->len--;
    CHECK(!strstr(out->bytes + from, "hunter2"));
    if (!writes)
        CHECK_STR(out->bytes + from, want);
}

static void run_file(const char *path)
{
    char *text = read_file(path), *next;
    struct sl_buf out;

    sl_buf_init(&out, 2 * TEXT_MAX, &sl_alloc_libc);
    next = text ? cut(text, "== ") : NULL;
    if (!next || *text) {
        begin_case(path);
        printf("# %s does not begin with \"== \"\n", path);
        CHECK(next != NULL && !*text);
    }
    while (next) {
        char *one = next;

        next = cut(one, "== ");
        run_case(one, &out);
    }
    if (writes && !check_state.failed && !check_state.bad)
        write_file(path, sl_buf_str(&out));
    sl_buf_done(&out);
    free(text);
}

/* Runs the file if its suffix fits. */
static void run_entry(const char *dir, const char *name)
{
    const char *dot = strrchr(name, '.');
    char path[512];

    snprintf(path, sizeof path, "%s/%s", dir, name);
    if (dot && strcmp(dot, warns ? ".warn" : ".bad") == 0)
        run_file(path);
}

int main(int argc, char **argv)
{
    struct dirent **entries;
    int count;

    for (; argc > 2; argc--, argv++) {
        warns |= strcmp(argv[1], "--warn") == 0;
        writes |= strcmp(argv[1], "--write") == 0;
    }
    unsetenv("TZDIR");
    count = argc == 2 ? scandir(argv[1], &entries, NULL, alphasort) : -1;
    if (count < 0) {
        fprintf(stderr, "usage: run [--warn] [--write] DIR\n");
        return 2;
    }
    for (int i = 0; i < count; i++) {
        run_entry(argv[1], entries[i]->d_name);
        free(entries[i]);
    }
    free(entries);
    return CHECK_DONE();
}
