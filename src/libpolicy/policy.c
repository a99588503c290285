/* policy.c -- policies from files and texts, and their problems. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "libpolicy/libpolicy.h"
#include "policy/policy.h"
#include "policy/schema.h"

#define SECRET_BYTES  (64 * 1024) /* of a file that a policy includes */
#define PROBLEM_BYTES (512 * 1024)
#define SCHEMA_BYTES  (1024 * 1024)
#define PRINT_BYTES   ((size_t)64 << 20) /* rates of 256 plans, printed */

struct sluice_problems {
    struct sl_report report;
    char *file; /* copies; the report borrows them */
    size_t file_size;
    struct sl_buf text;
    struct sl_buf printed;
};

/* ---- external values of a policy ---- */

struct reading {
    const struct sluice_policy_options *options;
    const char *file;
};

static const char *on_env(void *ctx, const char *name)
{
    const struct reading *r = ctx;

    if (r->options && r->options->env)
        return r->options->env(r->options->ctx, name);
    return getenv(name);
}

/* Paths are relative to the file of the policy. */
static int on_file(void *ctx, const char *path, struct sl_buf *out,
                   struct sl_diag *diag)
{
    const struct reading *r = ctx;
    const char *slash = strrchr(r->file, '/');
    struct sl_str folder = {r->file, slash ? (size_t)(slash - r->file) + 1 : 0};
    struct sl_buf whole;
    int err;

    if (*path == '/')
        folder.len = 0;
    sl_buf_init(&whole, 4096, &sl_alloc_libc);
    err = sl_buf_add(&whole, folder);
    if (!err)
        err = sl_buf_add(&whole, (struct sl_str){path, strlen(path) + 1});
    if (err)
        err = sl_diag_error(diag, err, "the name of the file is too long");
    else
        err = sl_file_read(whole.bytes, SECRET_BYTES, out, diag);
    sl_buf_done(&whole);
    return err;
}

/* ---- problems ---- */

static struct sluice_problems *new_problems(const char *name)
{
    struct sluice_problems *p = sl_libpolicy_new(sizeof(*p));

    if (!p)
        return NULL;
    sl_buf_init(&p->text, SL_YAML_BYTES + 8192, &sl_alloc_libc);
    sl_buf_init(&p->printed, PROBLEM_BYTES, &sl_alloc_libc);
    sl_report_init(&p->report, "", (struct sl_str){"", 0}, &sl_alloc_libc);
    p->file_size = strlen(name) + 1;
    p->file = sl_libpolicy_new(p->file_size);
    if (!p->file) {
        sluice_problems_free(p);
        return NULL;
    }
    memcpy(p->file, name, p->file_size);
    return p;
}

void sluice_problems_free(struct sluice_problems *problems)
{
    if (!problems)
        return;
    sl_report_done(&problems->report);
    sl_buf_done(&problems->text);
    sl_buf_done(&problems->printed);
    sl_libpolicy_free(problems->file, problems->file_size);
    sl_libpolicy_free(problems, sizeof(*problems));
}

size_t sluice_problems_errors(const struct sluice_problems *problems)
{
    return problems ? problems->report.errors : 0;
}

size_t sluice_problems_warnings(const struct sluice_problems *problems)
{
    return problems ? problems->report.warnings : 0;
}

size_t sluice_problems_count(const struct sluice_problems *problems)
{
    return problems ? problems->report.kept : 0;
}

struct sluice_problem
sluice_problems_get(const struct sluice_problems *problems, size_t index)
{
    const struct sl_problem *p;

    if (index >= sluice_problems_count(problems))
        return (struct sluice_problem){.file = "", .sentence = "", .hint = ""};
    p = &problems->report.problems[index];
    return (struct sluice_problem){
        .file = problems->file,
        .line = p->diag.line,
        .column = p->diag.column,
        .sentence = p->diag.sentence,
        .hint = p->diag.hint,
        .warning = p->warning,
    };
}

const char *sluice_problems_text(const struct sluice_problems *problems)
{
    return problems && problems->printed.len > 0 ? problems->printed.bytes : "";
}

/* Print the report once, for sluice_problems_text(), and set sluice_why() to
 * the first error. */
static int finish(struct sluice_problems *p, int err)
{
    struct sl_diag *diag = sluice_private_diag();

    if (sl_report_print(&p->report, &p->printed) ||
        sl_buf_add(&p->printed, (struct sl_str){"", 1}))
        return sl_libpolicy_no_memory();
    if (err == SLUICE_ENOMEM)
        return sl_libpolicy_no_memory();
    for (unsigned i = 0; err && i < p->report.kept; i++) {
        const struct sl_diag *first = &p->report.problems[i].diag;

        if (p->report.problems[i].warning)
            continue;
        if (first->line == 0)
            return sl_diag_error(diag, err, "%s: %s", p->file, first->sentence);
        return sl_diag_error(diag, err, "%s:%u:%u: %s", p->file, first->line,
                             first->column, first->sentence);
    }
    return err ? sl_diag_error(diag, err, "%s was refused", p->file) : 0;
}

/* ---- policies ---- */

/* Read the policy in p->text. */
static int read_policy(struct sluice_problems *p,
                       const struct sluice_policy_options *options,
                       struct sluice_policy **ret)
{
    struct reading reading = {options, p->file};
    struct sl_policy_options o = {
        .alloc = &sl_alloc_libc,
        .substitute = {on_env, on_file, &reading},
    };
    struct sluice_policy *policy = sl_libpolicy_new(sizeof(*policy));
    int err = SLUICE_ENOMEM;

    sl_report_done(&p->report);
    sl_report_init(&p->report, p->file, sl_buf_str(&p->text), &sl_alloc_libc);
    if (policy)
        err = sl_policy_read(&p->report, &o, &policy->policy);
    err = finish(p, err);
    if (err)
        sluice_policy_release(policy);
    else
        *ret = policy;
    return err;
}

static int hand_over(struct sluice_problems *p, struct sluice_problems **ret,
                     int err)
{
    if (ret)
        *ret = p;
    else
        sluice_problems_free(p);
    return err;
}

/* The file cannot be read; see errno. */
static int refuse_file(struct sluice_problems *p, int err)
{
    sl_report_done(&p->report);
    sl_report_init(&p->report, p->file, (struct sl_str){"", 0}, &sl_alloc_libc);
    if (err == SLUICE_ESYS)
        sl_report_error(&p->report, (struct sl_source_pos){0},
                        "can't be read: %s", strerror(errno));
    return finish(p, p->report.no_memory ? SLUICE_ENOMEM : err);
}

int sluice_policy_load(const char *path,
                       const struct sluice_policy_options *options,
                       struct sluice_policy **ret,
                       struct sluice_problems **problems)
{
    struct sluice_problems *p;
    int err;

    if (problems)
        *problems = NULL;
    if (!path || !ret)
        return sl_libpolicy_invalid(
            "sluice_policy_load needs a path and a place");
    p = new_problems(path);
    if (!p)
        return sl_libpolicy_no_memory();
    err = sl_file_read(path, SL_YAML_BYTES, &p->text, NULL);
    if (err == 0 || err == SLUICE_EFULL) /* too large: reported by the reader */
        err = read_policy(p, options, ret);
    else
        err = refuse_file(p, err);
    return hand_over(p, problems, err);
}

int sluice_policy_parse(const char *name, const char *text, size_t len,
                        const struct sluice_policy_options *options,
                        struct sluice_policy **ret,
                        struct sluice_problems **problems)
{
    struct sluice_problems *p;
    int err;

    if (problems)
        *problems = NULL;
    if (!name || (!text && len > 0) || !ret)
        return sl_libpolicy_invalid(
            "sluice_policy_parse needs a name, a text and a place");
    p = new_problems(name);
    if (!p)
        return sl_libpolicy_no_memory();
    if (len > SL_YAML_BYTES + 1)
        len = SL_YAML_BYTES + 1; /* large enough to be refused */
    err = sl_buf_add(&p->text, (struct sl_str){text, len});
    if (err)
        err = sl_libpolicy_no_memory();
    else
        err = read_policy(p, options, ret);
    return hand_over(p, problems, err);
}

void sluice_policy_release(struct sluice_policy *policy)
{
    if (!policy)
        return;
    sl_policy_unref(policy->policy);
    sl_libpolicy_free(policy, sizeof(*policy));
}

/* ---- contents of a policy ---- */

size_t sluice_policy_limits(const struct sluice_policy *policy)
{
    return policy->policy->rule_count;
}

size_t sluice_policy_routes(const struct sluice_policy *policy)
{
    return policy->policy->route_count;
}

size_t sluice_policy_plans(const struct sluice_policy *policy)
{
    return policy->policy->plans.count;
}

const char *sluice_policy_limit_name(const struct sluice_policy *policy,
                                     size_t index)
{
    return index < policy->policy->rule_count
               ? policy->policy->rules[index].name.at
               : NULL;
}

const char *sluice_policy_route_text(const struct sluice_policy *policy,
                                     size_t index)
{
    return index < policy->policy->route_count
               ? policy->policy->routes[index].text.at
               : NULL;
}

const char *sluice_policy_plan_name(const struct sluice_policy *policy,
                                    size_t index)
{
    return index < policy->policy->plans.count
               ? policy->policy->plans.list[index].name.at
               : NULL;
}

/* ---- texts ---- */

/* Return the text as a string that the caller frees; NULL if printing
 * failed. */
static char *finish_text(struct sl_buf *buf, int err)
{
    if (!err && !sl_buf_add(buf, (struct sl_str){"", 1}))
        return buf->bytes;
    sl_buf_done(buf);
    return NULL;
}

char *sluice_policy_print(const struct sluice_policy *policy)
{
    struct sl_buf buf;

    if (!policy)
        return NULL;
    sl_buf_init(&buf, PRINT_BYTES, &sl_alloc_libc);
    return finish_text(&buf, sl_policy_print(policy->policy, &buf));
}

char *sluice_schema_json(void)
{
    struct sl_buf buf;

    sl_buf_init(&buf, SCHEMA_BYTES, &sl_alloc_libc);
    return finish_text(&buf, sl_schema_json(&buf));
}

char *sluice_schema_page(void)
{
    struct sl_buf buf;

    sl_buf_init(&buf, SCHEMA_BYTES, &sl_alloc_libc);
    return finish_text(&buf, sl_schema_page(&buf));
}
