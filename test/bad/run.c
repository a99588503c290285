/* run.c -- is each bad policy refused with exactly these sentences?
 *
 *     run DIR            every NAME.yaml in DIR is refused, with the text in
 *                        NAME.txt
 *     run --warn DIR     every one is accepted, with the warnings in NAME.txt
 *     run --write ...    writes the texts instead of comparing them
 *
 * A policy without its text fails, and a text without its policy. So does a
 * text that has the same problem twice. In the environment are only
 * FEATURE_NIGHT=maybe and SECRET=hunter2, which no text may have.
 */
#include <dirent.h>
#include <stdlib.h>

#include "check.h"
#include "policy/policy.h"

#define TEXT_MAX ((size_t)1 << 20)

static bool writes, warns;

static const char *env(void *ctx, const char *name)
{
    (void)ctx;
    if (strcmp(name, "FEATURE_NIGHT") == 0)
        return "maybe";
    return strcmp(name, "SECRET") == 0 ? "hunter2" : NULL;
}

/* The file's bytes, NUL-terminated, to be freed; NULL if it can't be read. */
static char *read_file(const char *path)
{
    char *text = malloc(TEXT_MAX + 1);
    FILE *file = fopen(path, "rb");

    if (!text || !file) {
        free(text);
        if (file)
            fclose(file);
        return NULL;
    }
    text[fread(text, 1, TEXT_MAX, file)] = '\0';
    fclose(file);
    return text;
}

static void write_file(const char *path, struct sl_str text)
{
    FILE *file = fopen(path, "wb");

    CHECK(file != NULL);
    if (!file)
        return;
    CHECK_EQ(fwrite(text.at, 1, text.len, file), text.len);
    fclose(file);
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

static void check_policy(const char *name, const char *yaml, const char *path)
{
    struct sl_policy_options options = {.substitute.env = env};
    struct sl_policy *policy = NULL;
    struct sl_report report;
    struct sl_buf out;
    char *want = read_file(path);

    sl_buf_init(&out, TEXT_MAX, &sl_alloc_libc);
    sl_report_init(&report, name, sl_str_c(yaml), &sl_alloc_libc);
    CHECK_EQ(sl_policy_read(&report, &options, &policy),
             warns ? 0 : SLUICE_ECONF);
    CHECK(warns ? report.warnings > 0 : report.errors > 0);
    CHECK_EQ(sl_report_print(&report, &out), 0);
    CHECK_EQ(sl_buf_add(&out, (struct sl_str){"", 1}), 0);
    CHECK(!strstr(out.bytes, "hunter2"));
    check_once(&report);
    if (writes)
        write_file(path, (struct sl_str){out.bytes, out.len - 1});
    else
        CHECK_STR(out.bytes, want ? want : "(there is no such file)");
    free(want);
    sl_buf_done(&out);
    sl_report_done(&report);
    sl_policy_unref(policy);
}

static bool ends(const char *name, const char *suffix)
{
    size_t len = strlen(name), n = strlen(suffix);

    return len > n && strcmp(name + len - n, suffix) == 0;
}

/* DIR/NAME with another suffix. */
static void other_path(char out[512], const char *dir, const char *name,
                       const char *suffix)
{
    snprintf(out, 512, "%s/%.*s%s", dir, (int)(strrchr(name, '.') - name), name,
             suffix);
}

static void run_one(const char *dir, const char *name)
{
    char path[512];
    char *yaml;

    other_path(path, dir, name, ".yaml");
    yaml = read_file(path);
    if (ends(name, ".txt")) {
        if (!yaml) {
            CASE(name);
            printf("# there is no %s\n", path);
            CHECK(yaml != NULL);
        }
    } else if (ends(name, ".yaml")) {
        CASE(name);
        other_path(path, dir, name, ".txt");
        if (CHECK(yaml != NULL))
            check_policy(name, yaml, path);
    }
    free(yaml);
}

int main(int argc, char **argv)
{
    struct dirent **entries;
    int count, failed;

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
    for (int i = 0; i < count; i++)
        run_one(argv[1], entries[i]->d_name);
    failed = CHECK_DONE(); /* which still needs the names */
    while (count > 0)
        free(entries[--count]);
    free(entries);
    return failed;
}
