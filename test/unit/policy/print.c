/* print.c -- a policy's print: to the letter, without secrets, read back.
 *
 * test/data/print has policies and, beside each, its print. Those of the
 * presets, the examples and the guides are only read back.
 */
#include "policy/policy.h"

#include <glob.h>
#include <stdlib.h>

#include "fail.h"
#include "policy/policy_int.h"
#include "read.h"

#define TEXT_MAX ((size_t)1 << 22)

/* ---- reading and printing ---- */

static const char *const variables[] = {
    "NAME",   "s3",     "ON",     "true",     "WORD", "ietf",
    "SECRET", "hush",   "NET",    "10.1.2.3", "KIND", "bucket",
    "RATE",   "7/min",  "HEADER", "header.b", "SPAN", "90s",
    "SCOPE",  "user",   "NUMBER", "2",        "A",    "a",
    "MODE",   "shadow", "RESET",  "next",     NULL,
};

static int on_file(void *ctx, const char *path, struct sl_buf *out,
                   struct sl_diag *diag)
{
    (void)ctx;
    (void)path;
    (void)diag;
    return sl_buf_add(out, SL_STR("hush"));
}

static const struct sl_policy_options options = {
    .substitute = {.env = env_of,
                   .file = on_file,
                   .ctx = (void *)(uintptr_t)variables},
};

/* A policy, what was said about it, and its print. */
struct side {
    struct sl_report report;
    struct sl_policy *policy;
    struct sl_buf text;
};

static bool side_read(struct side *s, const char *name, struct sl_str text)
{
    struct sl_buf said;

    s->policy = NULL;
    sl_report_init(&s->report, name, text, &sl_alloc_libc);
    sl_buf_init(&s->text, TEXT_MAX, &sl_alloc_libc);
    sl_buf_init(&said, TEXT_MAX, &sl_alloc_libc);
    if (!CHECK_EQ(sl_policy_read(&s->report, &options, &s->policy), 0) &&
        sl_report_print(&s->report, &said) == 0)
        printf("# %.*s\n", SL_STR_ARG(sl_buf_str(&said)));
    sl_buf_done(&said);
    return s->policy && CHECK_EQ(sl_policy_print(s->policy, &s->text), 0);
}

static void side_done(struct side *s)
{
    sl_policy_unref(s->policy);
    sl_report_done(&s->report);
    sl_buf_done(&s->text);
}

/* (1), (2): read back without a further problem, it prints alike. */
static void check_back(const char *name, struct sl_str text)
{
    struct side once, twice;

    if (side_read(&once, name, text)) {
        if (side_read(&twice, name, sl_buf_str(&once.text)))
            CHECK(sl_str_eq(sl_buf_str(&once.text), sl_buf_str(&twice.text)));
        CHECK(twice.report.warnings <= once.report.warnings);
        side_done(&twice);
    }
    side_done(&once);
}

/* The whole file, with a NUL; to be freed. */
static char *load(const char *path)
{
    FILE *file = fopen(path, "r");
    char *text = calloc(1, TEXT_MAX);

    if (!text)
        abort();
    if (CHECK(file != NULL)) {
        CHECK(fread(text, 1, TEXT_MAX - 1, file) > 0);
        fclose(file);
    }
    return text;
}

/* ---- to the letter ---- */

static void check_file(const char *name)
{
    char path[512];
    char *text, *want;
    struct side s;

    snprintf(path, sizeof(path), SL_TEST_DATA "/print/%s.yaml", name);
    text = load(path);
    snprintf(path, sizeof(path), SL_TEST_DATA "/print/%s.txt", name);
    want = load(path);
    if (side_read(&s, name, sl_str_c(text)) &&
        CHECK_EQ(sl_buf_add(&s.text, (struct sl_str){"", 1}), 0)) {
        CHECK_STR(s.text.bytes, want);
        CHECK(!strstr(s.text.bytes, "hush"));
    }
    side_done(&s);
    check_back(name, sl_str_c(text));
    free(text);
    free(want);
}

TEST(files)
{
    CASE("every default is written out");
    check_file("empty");
    CASE("everything that can be written");
    check_file("full");
    CASE("what comes from outside is shown as it was written");
    check_file("outside");
    CASE("what only follows from it is not shown");
    check_file("follows");
    CASE("a secret of tokens is not shown");
    check_file("secret");
}

/* ---- scalars ---- */

/* NULL: in quotes, with nothing in it that has to be escaped. */
struct scalar {
    const char *text, *block, *flow;
};

static void check_scalar(const struct scalar *row, bool flow)
{
    const char *want = flow ? row->flow : row->block;
    char quoted[64];
    struct sl_buf out;
    struct sl_writer w = {&out, 0};

    snprintf(quoted, sizeof(quoted), "\"%s\"", row->text);
    sl_buf_init(&out, 256, &sl_alloc_libc);
    sl_print_scalar(&w, sl_str_c(row->text), flow);
    CHECK_EQ(w.err, 0);
    CHECK(is(sl_buf_str(&out), want ? want : quoted));
    sl_buf_done(&out);
}

TEST(scalars)
{
#define SAME(text, print)                                                      \
    {                                                                          \
        text, print, print                                                     \
    }
    static const struct scalar rows[] = {
        SAME("free", "free"),
        SAME("a b", "a b"),
        SAME("./x", "./x"),
        SAME("/", "/"),
        {"GET /a/:id/**", "GET /a/:id/**", NULL},
        {"a,b",           "a,b",           NULL},
        SAME("", NULL),
        SAME("null", NULL),
        SAME("Yes", NULL),
        SAME("5", NULL),
        SAME("2026-01-01", NULL),
        SAME(".5", NULL),
        SAME("~", NULL),
        SAME("-a", NULL),
        SAME("a: b", NULL),
        SAME("a:", NULL),
        SAME("a #b", NULL),
        SAME("a ", NULL),
        SAME("a  b", NULL),
        SAME("{x}", NULL),
        SAME("\xc3\xa4", NULL),
        SAME("\xc2\xa0", NULL),
        SAME("${X}", "\"$${X}\""),
        SAME("$${X}", "\"$$${X}\""),
        SAME("\"\\\n\r\t", "\"\\\"\\\\\\n\\r\\t\""),
        SAME("\xc2\x85\xc2\x9f", "\"\\u0085\\u009f\""),
        SAME("\xe2\x80\xa8\xe2\x80\xa9", "\"\\u2028\\u2029\""),
        SAME("\xef\xbb\xbf", "\"\\ufeff\""),
        SAME("\xef\xbf\xbe\xef\xbf\xbf", "\"\\ufffe\\uffff\""),
    };
#undef SAME

    CASE("quotes where another reader could see another type");
    for (size_t i = 0; i < SL_LEN(rows); i++) {
        check_scalar(&rows[i], false);
        check_scalar(&rows[i], true);
    }
}

/* ---- read back ---- */

TEST(odd)
{
    CASE("keys of bodies that only escapes can write");
    check_back("keys", SL_STR("sluice: 1\n"
                              "errors: { conflict: { body: {\n"
                              "  \"\\x85\\ufeff\\uffff\\u2028\": 1,\n"
                              "  \"${ENV:X}\": 2, \"{limit}\": 3 } } }\n"));

    CASE("limits that are taken by name have no routes");
    check_back("names", SL_STR("sluice: 1\n"
                               "limits: { a: { kind: level, per: user, "
                               "rate: 5 } }\n"));

    CASE("a calendar that only a candidate has");
    check_back("calendar",
               SL_STR("sluice: 1\n"
                      "limits: { a: { kind: quota, zone: Europe/Berlin, "
                      "anchor: 31, rate: unlimited, candidate: 5/month } }\n"));
}

static unsigned check_files(const char *pattern)
{
    glob_t found;
    size_t count = 0;

    if (CHECK_EQ(glob(pattern, 0, NULL, &found), 0)) {
        count = found.gl_pathc;
        for (size_t i = 0; i < count; i++) {
            char *text = load(found.gl_pathv[i]);

            check_back(found.gl_pathv[i], sl_str_c(text));
            free(text);
        }
        globfree(&found);
    }
    return (unsigned)count;
}

/* The policies in a page of Markdown; returns how many. */
static unsigned check_page(const char *path)
{
    char *page = load(path), *end;
    unsigned count = 0;

    for (char *at = page; (at = strstr(at, "\n```yaml\n")); at = end + 4) {
        at += strlen("\n```yaml\n");
        end = strstr(at, "\n```");
        if (!CHECK(end != NULL))
            break;
        check_back(path, (struct sl_str){at, (size_t)(end - at) + 1});
        count++;
    }
    free(page);
    return count;
}

TEST(ours)
{
    CASE("presets and examples");
    CHECK(check_files(SL_ROOT "/presets/*.yaml") >= 5);
    CHECK(check_files(SL_ROOT "/presets/variants/*.yaml") > 0);
    CHECK(check_files(SL_ROOT "/examples/*.yaml") > 0);

    CASE("what the guides show");
    CHECK(check_page(SL_ROOT "/docs/guide/policies.md") >= 5);
    CHECK(check_page(SL_ROOT "/docs/guide/flows.md") > 0);
}

/* ---- without memory ---- */

TEST(full)
{
    struct sl_policy *policy = read_policy("sluice: 1\n");
    struct sl_buf out;

    CASE("where it does not fit, nothing is appended");
    for (size_t ceiling = 8; policy && ceiling < 200; ceiling += 13) {
        sl_buf_init(&out, ceiling, &sl_alloc_libc);
        CHECK_EQ(sl_buf_add(&out, SL_STR("before")), 0);
        CHECK_EQ(sl_policy_print(policy, &out), SLUICE_EFULL);
        CHECK(is(sl_buf_str(&out), "before"));
        sl_buf_done(&out);
    }
    sl_policy_unref(policy);
}

/* Print with the nth allocation failing; false if it succeeded. */
static bool fail_print(const struct sl_policy *policy, unsigned nth,
                       struct sl_str want)
{
    struct fail fail = {.nth = nth};
    struct sl_alloc alloc = fail_alloc(&fail);
    struct sl_buf out;
    int err;

    sl_buf_init(&out, TEXT_MAX, &alloc);
    err = sl_policy_print(policy, &out);
    CHECK(err == 0 || err == SLUICE_ENOMEM);
    CHECK(err ? out.len == 0 : sl_str_eq(sl_buf_str(&out), want));
    sl_buf_done(&out);
    fail_check(&fail);
    return err != 0;
}

/* Read with the nth allocation failing; false if it succeeded. */
static bool fail_read(struct sl_str text, unsigned nth)
{
    struct fail fail = {.nth = nth};
    struct sl_alloc alloc = fail_alloc(&fail);
    struct sl_policy_options failing = options;
    struct sl_policy *policy = NULL;
    struct sl_report report;
    int err;

    failing.alloc = &alloc;
    sl_report_init(&report, "test.yaml", text, &alloc);
    err = sl_policy_read(&report, &failing, &policy);
    CHECK(err == 0 || err == SLUICE_ENOMEM);
    sl_policy_unref(policy);
    sl_report_done(&report);
    fail_check(&fail);
    return err != 0;
}

TEST(memory)
{
    char *text = load(SL_TEST_DATA "/print/outside.yaml");
    struct side s;
    unsigned nth = 1;

    CASE("every allocation of a print fails once");
    if (side_read(&s, "outside", sl_str_c(text)))
        while (fail_print(s.policy, nth, sl_buf_str(&s.text)))
            nth++;
    CHECK(nth > 5);
    side_done(&s);

    CASE("and of the reading of what comes from outside");
    for (nth = 1; fail_read(sl_str_c(text), nth);)
        nth++;
    CHECK(nth > 10);
    free(text);
}

CHECK_MAIN()
