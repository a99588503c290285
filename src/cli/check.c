/* check.c -- sluice check: is a policy right?
 *
 * Problems are messages and go to err; that a policy is right is data. As JSON
 * everything is data: one object per file, one per line. With --print the
 * policy itself is the data.
 */
#include <string.h>

#include "cli/errand.h"
#include "cli/out.h"

static const char *plural(size_t n)
{
    return n == 1 ? "" : "s";
}

static void print_ok(FILE *out, const char *path,
                     const struct sluice_policy *policy, size_t warnings)
{
    size_t limits = sluice_policy_limits(policy);
    size_t routes = sluice_policy_routes(policy);
    size_t plans = sluice_policy_plans(policy);

    sl_out_clean(out, path);
    fputs(": ", out);
    sl_out_colour(out, SL_GREEN);
    fputs("ok", out);
    sl_out_colour(out, SL_PLAIN);
    fprintf(out, ": %zu limit%s, %zu route%s, %zu plan%s", limits,
            plural(limits), routes, plural(routes), plans, plural(plans));
    if (warnings)
        fprintf(out, ", %zu warning%s", warnings, plural(warnings));
    fputc('\n', out);
}

static void print_problem(FILE *out, const struct sluice_problem *p)
{
    fputs("{\"file\":", out);
    sl_out_json(out, p->file ? p->file : "");
    fprintf(out, ",\"line\":%u,\"column\":%u,\"severity\":\"%s\"", p->line,
            p->column, p->warning ? "warning" : "error");
    fputs(",\"message\":", out);
    sl_out_json(out, p->sentence);
    fputs(",\"hint\":", out);
    sl_out_json(out, p->hint);
    fputc('}', out);
}

/* `why` is what is wrong if no problem says so, or NULL. */
static void print_json(FILE *out, const char *path, int err, const char *why,
                       const struct sluice_problems *problems)
{
    size_t count = problems ? sluice_problems_count(problems) : 0;
    size_t errors = problems ? sluice_problems_errors(problems) : 0;
    size_t warnings = problems ? sluice_problems_warnings(problems) : 0;

    fputs("{\"file\":", out);
    sl_out_json(out, path);
    fprintf(out, ",\"ok\":%s,\"errors\":%zu,\"warnings\":%zu,\"problems\":[",
            err ? "false" : "true", why ? errors + 1 : errors, warnings);
    for (size_t i = 0; i < count; i++) {
        struct sluice_problem p = sluice_problems_get(problems, i);

        if (i > 0)
            fputc(',', out);
        print_problem(out, &p);
    }
    if (why) {
        struct sluice_problem p = {.file = path, .sentence = why, .hint = ""};

        print_problem(out, &p);
    }
    fputs("]}\n", out);
}

static int print_text(struct sl_call *call, char *text)
{
    if (!text)
        return sl_complain(call, SL_EXIT_NO, "out of memory");
    fputs(text, call->cli->out);
    if (!text[0] || text[strlen(text) - 1] != '\n')
        fputc('\n', call->cli->out);
    sl_free_text(text);
    return SL_EXIT_OK;
}

/* What is right about a policy that was not refused. */
static int print_right(struct sl_call *call, const char *path,
                       const struct sluice_policy *policy, size_t warnings)
{
    if (sl_call_flag(call, "print"))
        return print_text(call, sluice_policy_print(policy));
    print_ok(call->cli->out, path, policy, warnings);
    return SL_EXIT_OK;
}

static int check(struct sl_call *call, const char *path)
{
    struct sluice_policy *policy = NULL;
    struct sluice_problems *problems;
    int err = sl_load_policy(call->cli, path, &policy, &problems);
    bool told = problems && sluice_problems_count(problems) > 0;
    const char *why = err && !told ? sl_load_why(path) : NULL;
    size_t warnings = problems ? sluice_problems_warnings(problems) : 0;
    int status = err ? SL_EXIT_POLICY : SL_EXIT_OK;

    if (call->format == SL_FORMAT_JSON) {
        print_json(call->cli->out, path, err, why, problems);
    } else {
        if (told)
            sl_print_problems(call->cli->err, problems);
        if (why)
            sl_complain(call, 0, "%s", why);
        if (!err)
            status = print_right(call, path, policy, warnings);
    }
    sluice_policy_release(policy);
    sluice_problems_free(problems);
    return status;
}

/* A print is one policy, in YAML. */
static int refuse_print(const struct sl_call *call)
{
    if (!sl_call_flag(call, "print"))
        return SL_EXIT_OK;
    if (call->format == SL_FORMAT_JSON)
        return sl_complain(call, SL_EXIT_USAGE,
                           "--print writes YAML; remove -o json or --print");
    if (call->word_count > 1)
        return sl_complain(
            call, SL_EXIT_USAGE,
            "--print accepts one policy, not %zu; run it once per policy",
            call->word_count);
    return SL_EXIT_OK;
}

static int run(struct sl_call *call)
{
    int status = SL_EXIT_OK;

    if (sl_call_flag(call, "schema"))
        return print_text(call, sluice_schema_json());
    if (sl_call_flag(call, "reference"))
        return print_text(call, sluice_schema_page());
    if (call->word_count == 0)
        return sl_complain(
            call, SL_EXIT_USAGE,
            "missing policy file; write: sluice check sluice.yaml");
    if (refuse_print(call))
        return SL_EXIT_USAGE;
    for (size_t i = 0; i < call->word_count; i++) {
        int one = check(call, call->words[i]);

        if (one)
            status = one;
    }
    return status;
}

static const struct sl_flag flags[] = {
    {'\0', "print",     NULL, "print the policy with all defaults filled in"},
    {'\0', "schema",    NULL, "print the JSON Schema of the policy language"},
    {'\0', "reference", NULL, "print the policy reference in Markdown"      },
    {'\0', NULL,        NULL, NULL                                          },
};

const struct sl_errand sl_errand_check = {
    .name = "check",
    .usage = "POLICY...",
    .summary = "Validate policy files",
    .help = "Prints every error and warning with its position in the file and "
            "a suggestion.\n"
            "Exits 3 if a policy is invalid. '-' reads standard input.\n"
            "\n"
            "--print writes a valid policy with every default and every plan's "
            "rates filled\n"
            "in, without secrets.\n"
            "\n"
            "  sluice check sluice.yaml\n"
            "  sluice check --print sluice.yaml\n"
            "  sluice check -o json sluice.yaml | jq .problems\n"
            "  sluice check --schema > sluice.schema.json\n",
    .words = "file",
    .formats = "table|json",
    .flags = flags,
    .most = (unsigned)-1,
    .run = run,
};
