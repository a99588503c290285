/* check.c -- `sluice check`, `sluice explain` and `sluice init`, and the
 * request as arguments.
 *
 * `sluice check` prints problems on err and results on out. With -o json it
 * prints one object per file on out. With --print it prints the policy.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/cli.h"
#include "cli/flow/flow.h"

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

    sl_out_print(out, "%s: ", path);
    sl_out_coloured(out, SL_GREEN, "ok");
    fprintf(out, ": %zu limit%s, %zu route%s, %zu plan%s", limits,
            plural(limits), routes, plural(routes), plans, plural(plans));
    if (warnings)
        fprintf(out, ", %zu warning%s", warnings, plural(warnings));
    fputc('\n', out);
}

static void print_problem(FILE *out, const struct sluice_problem *p)
{
    sl_out_json(out, "{\"file\":", p->file ? p->file : "");
    fprintf(out, ",\"line\":%u,\"column\":%u,\"severity\":\"%s\"", p->line,
            p->column, p->warning ? "warning" : "error");
    sl_out_json(out, ",\"message\":", p->sentence);
    sl_out_json(out, ",\"hint\":", p->hint);
    fputc('}', out);
}

/* `why` is the reason of a failure without problems, or NULL. */
static void print_json(FILE *out, const char *path, int err, const char *why,
                       const struct sluice_problems *problems)
{
    struct sluice_problem p = {.file = path, .sentence = why, .hint = ""};
    size_t count = problems ? sluice_problems_count(problems) : 0;

    sl_out_json(out, "{\"file\":", path);
    fprintf(out, ",\"ok\":%s,\"errors\":%zu,\"warnings\":%zu,\"problems\":[",
            err ? "false" : "true",
            (problems ? sluice_problems_errors(problems) : 0) + (why != NULL),
            problems ? sluice_problems_warnings(problems) : 0);
    if (why)
        print_problem(out, &p);
    for (size_t i = 0; i < count; i++) {
        p = sluice_problems_get(problems, i);
        if (i > 0)
            fputc(',', out);
        print_problem(out, &p);
    }
    fputs("]}\n", out);
}

/* Print and free a text of the public interface. */
static int print_text(struct sl_cli_args *args, char *text)
{
    if (!text)
        return sl_cli_no_memory(args);
    sl_out_line(args->cli->out, text);
    sl_free_text(text);
    return SL_EXIT_OK;
}

static int check(struct sl_cli_args *args, const char *path)
{
    struct sluice_policy *policy = NULL;
    struct sluice_problems *problems;
    const char *why;
    int err = sl_load_policy(args->cli, path, &policy, &problems, &why);
    bool reported = problems && sluice_problems_count(problems) > 0;
    int status = err ? SL_EXIT_POLICY : SL_EXIT_OK;

    if (!err || reported)
        why = NULL;
    if (args->format == SL_FORMAT_JSON) {
        print_json(args->cli->out, path, err, why, problems);
    } else {
        if (reported)
            sl_out_line(args->cli->err, sluice_problems_text(problems));
        if (why)
            sl_cli_error(args, 0, "%s", why);
        if (!err && sl_cli_flag(args, "print"))
            status = print_text(args, sluice_policy_print(policy));
        else if (!err)
            print_ok(args->cli->out, path, policy,
                     problems ? sluice_problems_warnings(problems) : 0);
    }
    sluice_policy_release(policy);
    sluice_problems_free(problems);
    return status;
}

/* --print needs one policy and no -o json. */
static int refuse_print(const struct sl_cli_args *args)
{
    if (!sl_cli_flag(args, "print"))
        return SL_EXIT_OK;
    if (args->format == SL_FORMAT_JSON)
        return sl_cli_misuse(args,
                             "--print writes YAML; remove -o json or --print");
    if (args->word_count > 1)
        return sl_cli_misuse(
            args, "--print accepts one policy, not %zu; run it once per policy",
            args->word_count);
    return SL_EXIT_OK;
}

static int run(struct sl_cli_args *args)
{
    int status = SL_EXIT_OK;

    if (sl_cli_flag(args, "schema"))
        return print_text(args, sluice_schema_json());
    if (sl_cli_flag(args, "reference"))
        return print_text(args, sluice_schema_page());
    if (args->word_count == 0)
        return sl_cli_misuse(
            args, "missing policy file; write: sluice check sluice.yaml");
    if (refuse_print(args))
        return SL_EXIT_USAGE;
    for (size_t i = 0; i < args->word_count; i++) {
        int one = check(args, args->words[i]);

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

const struct sl_command sl_command_check = {
    .name = "check",
    .usage = "POLICY...",
    .summary = "Validate policy files",
    .help = "Prints every error and warning with its position in the file\n"
            "and a suggestion. Exits 3 if a policy is invalid. '-' reads\n"
            "standard input.\n"
            "\n"
            "--print writes a valid policy with every default and every\n"
            "plan's rates filled in, without secrets.\n"
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

/* ---- sluice explain: the decision for one request ----
 *
 * The words after the policy are those of an act in a flow file. The state is
 * empty and nothing is taken.
 */

#define STATE_BYTES ((size_t)1 << 20) /* for a single request */

static int64_t on_now(void *ctx)
{
    return ((struct sl_check_args *)ctx)->now;
}

static int explain(struct sl_cli_args *args, struct sl_check_args *q,
                   struct sluice_engine *engine,
                   struct sluice_decision *decision)
{
    struct sluice_request request;
    const char *text;
    int err;

    sl_flow_request_fill(&q->act, &request);
    err = sluice_explain(engine, &request, decision);
    if (err) /* unknown limit */
        return sl_cli_error(
            args, err == SLUICE_ENOENT ? SL_EXIT_USAGE : SL_EXIT_STORE, "%s",
            sluice_why());
    text = args->format == SL_FORMAT_JSON ? sluice_decision_json(decision)
                                          : sluice_decision_text(decision);
    if (!text)
        return sl_cli_error(args, SL_EXIT_STORE, "out of memory");
    sl_out_line(args->cli->out, text);
    return sluice_decision_allowed(decision) ? SL_EXIT_OK : SL_EXIT_FAILED;
}

static int ask(struct sl_cli_args *args, struct sl_check_args *q,
               struct sluice_policy *policy)
{
    struct sluice_engine_options options = {
        .size = STATE_BYTES, .now = on_now, .now_ctx = q};
    struct sluice_decision *decision = sluice_decision_new();
    struct sl_flow_tokens tokens = {.keys = NULL};
    struct sluice_engine *engine = NULL;
    int status;

    if (decision && sluice_engine_open(policy, &options, &engine))
        status = sl_cli_error(args, SL_EXIT_STORE, "%s", sluice_why());
    else if (!decision ||
             sl_flow_tokens_open(&tokens, engine, policy, args->words[0]))
        status = sl_cli_error(args, SL_EXIT_STORE, "out of memory");
    else
        status = sl_check_args_token(args, q, &tokens, policy);
    if (engine && !status)
        status = explain(args, q, engine, decision);
    sluice_decision_free(decision);
    sluice_engine_close(engine);
    sl_flow_tokens_close(&tokens);
    return status;
}

static int run_explain(struct sl_cli_args *args)
{
    struct sl_check_args q;
    struct sluice_policy *policy = NULL;
    int status;

    sl_check_args_init(&q, sl_clock_wall());
    status = sl_check_args_read(args, 1, &q);
    if (!status)
        status = sl_need_policy(args, args->words[0], &policy);
    if (!status)
        status = ask(args, &q, policy);
    sluice_policy_release(policy);
    sl_check_args_done(&q);
    return status;
}

const struct sl_command sl_command_explain = {
    .name = "explain",
    .usage = "POLICY 'METHOD PATH' [NAME=VALUE...]",
    .summary = "Explain the decision for a request",
    .help = "Prints the route, the caller, the plan, and each limit with its\n"
            "numbers and its key. It starts with empty state and takes\n"
            "nothing. Exits 0 if the request would pass, 1 if not.\n"
            "\n"
            "  user= org= plan= role= ip= header.NAME= cost= cost.LIMIT=\n"
            "  at=     the time of the request, as RFC 3339 (default: now)\n"
            "  token=  a file with a token, verified with the policy's keys\n"
            "\n"
            "  sluice explain sluice.yaml 'GET /api/search' user=ann\n"
            "  sluice explain sluice.yaml 'job transcribe' org=acme cost=30\n"
            "  sluice explain sluice.yaml 'POST /api/x' user=ann -o json\n",
    .words = "file",
    .formats = "table|json",
    .least = 2,
    .most = (unsigned)-1,
    .run = run_explain,
};

/* ---- sluice init: write a sample policy ---- */

#define DEFAULT_FILE "sluice.yaml"

/* A test checks that it has no warnings. */
static const char starter[] =
    "# A policy for sluice: who may do what, how often.\n"
    "#\n"
    "#   sluice check sluice.yaml\n"
    "#   sluice explain sluice.yaml 'GET /api/search' user=ann plan=pro\n"
    "#\n"
    "# 'sluice check --reference' has every key.\n"
    "sluice: 1\n"
    "\n"
    "plans:\n"
    "  default: free      # for callers whose plan is not known\n"
    "  free: {}\n"
    "  pro: {}\n"
    "\n"
    "# Who is asking. A header counts only if a trusted proxy sent it.\n"
    "identity:\n"
    "  user: [header.x-user-id]\n"
    "  plan: [header.x-plan]\n"
    "  trusted_proxies: [127.0.0.0/8, \"::1\"]\n"
    "\n"
    "limits:\n"
    "  # Refills all the time; up to `burst` can be spent at once.\n"
    "  api:\n"
    "    kind: token-bucket\n"
    "    per: user\n"
    "    missing: anonymous     # without a user: one bucket per address\n"
    "    rate: { free: 60/min burst 20, pro: 600/min burst 100 }\n"
    "\n"
    "  # So many in a calendar month, in UTC.\n"
    "  exports:\n"
    "    kind: quota\n"
    "    per: user\n"
    "    missing: deny          # 401 without a user\n"
    "    rate: { free: 10/month, pro: 1k/month }\n"
    "    deny:\n"
    "      status: 402\n"
    "      code: PLAN_LIMIT_EXCEEDED\n"
    "      message: \"You have used your {limit} exports of this month.\"\n"
    "\n"
    "# The first route that matches counts; the order of its limits says "
    "which\n"
    "# refusal is reported first. All of them are taken together, or none.\n"
    "routes:\n"
    "  - match: POST /api/exports\n"
    "    limits: [exports, api]\n"
    "    report: api            # whose numbers the headers show\n"
    "  - match: /api/**\n"
    "    limits: [api]\n"
    "\n"
    "# Whatever no route matches.\n"
    "default: [api]\n";

static int write_file(struct sl_cli_args *args, const char *path)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    size_t len = strlen(starter);
    ssize_t n;

    if (fd < 0 && errno == EEXIST)
        return sl_cli_fail(args,
                           "%s already exists and was not changed; name "
                           "another file, or - to print the policy",
                           path);
    if (fd < 0)
        return sl_cli_fail(args, "%s: %s", path, strerror(errno));
    n = write(fd, starter, len);
    if (close(fd) || n != (ssize_t)len)
        return sl_cli_fail(args, "%s could not be written: %s", path,
                           strerror(errno));
    fprintf(args->cli->out,
            "Wrote %s. Next steps:\n"
            "\n"
            "  sluice check %s\n"
            "  sluiced -c %s\n",
            path, path, path);
    return SL_EXIT_OK;
}

static int run_init(struct sl_cli_args *args)
{
    const char *path = args->word_count ? args->words[0] : DEFAULT_FILE;

    if (strcmp(path, "-") != 0)
        return write_file(args, path);
    fputs(starter, args->cli->out);
    return SL_EXIT_OK;
}

const struct sl_command sl_command_init = {
    .name = "init",
    .usage = "[FILE]",
    .summary = "Write a sample policy",
    .help = "Writes a commented policy to FILE (default: sluice.yaml). It\n"
            "does not overwrite an existing file. '-' prints the policy.\n"
            "\n"
            "  sluice init\n"
            "  sluice init limits/api.yaml\n"
            "  sluice init - | sluice check -\n",
    .words = "file",
    .most = 1,
    .run = run_init,
};

/* ---- a request as arguments ---- */

#define ARENA_BYTES (1024 * 1024)

/* Add an argument as one word; it may contain blanks. */
static bool add_word(struct sl_check_args *q, const char *text)
{
    const char *equals = strchr(text, '=');

    if (q->line.count == SL_FLOW_WORDS)
        return false;
    q->line.words[q->line.count++] = (struct sl_flow_word){
        .text = text,
        .name = {text, equals ? (size_t)(equals - text) : strlen(text)},
        .value = equals ? equals + 1 : "",
        .is_pair = equals != NULL,
        .column = 1,
        .value_column = 1,
    };
    return true;
}

/* Split the first argument at blanks: 'GET /path' is the same as GET /path.
 * Later arguments are not split, because values may contain blanks. */
static bool split_first(struct sl_check_args *q, char *text)
{
    char *at = text;

    for (;;) {
        char *end;

        at += strspn(at, " \t");
        if (!*at)
            return q->line.count > 0;
        end = at + strcspn(at, " \t");
        if (!*end)
            return add_word(q, at);
        *end = '\0';
        if (!add_word(q, at))
            return false;
        at = end + 1;
    }
}

/* The number of words that name the target. */
static size_t name_count(const struct sl_check_args *q)
{
    const char *first = q->line.words[0].text;

    if (first[0] == '/') /* a path alone is a GET */
        return 1;
    return strcmp(first, "take") == 0 ? 3 : 2;
}

/* LIMIT KEY, unless the second word looks like a path or a URL. */
static bool is_limit(const struct sl_check_args *q)
{
    const char *second = q->line.words[1].text;

    return q->bare_limits && second[0] != '/' && !strstr(second, "://");
}

static int read_names(struct sl_cli_args *args, struct sl_check_args *q)
{
    const char *first = q->line.words[0].text;
    size_t count = name_count(q);
    bool is_job = strcmp(first, "job") == 0;
    bool is_take = strcmp(first, "take") == 0;

    if (q->line.count < count)
        return sl_cli_misuse(
            args,
            "\"%s\" is not a request; write 'GET /path', 'job NAME' or %s",
            first, q->bare_limits ? "LIMIT KEY" : "'take LIMIT KEY'");
    for (size_t i = is_job || is_take; i < count; i++)
        q->act.names[i - (is_job || is_take)] = q->line.words[i].text;
    q->act.kind = SL_FLOW_ACT_REQUEST;
    if (count == 1) {
        q->act.names[0] = "GET";
        q->act.names[1] = first;
    } else if (is_job) {
        q->act.kind = SL_FLOW_ACT_JOB;
    } else if (is_take || is_limit(q)) {
        q->act.kind = SL_FLOW_ACT_TAKE;
    }
    return 0;
}

static int read_at(const struct sl_flow_word *word, struct sl_check_args *q)
{
    struct sl_moment moment;
    int err = sl_moment_read(&q->line, word, word->value, &moment);

    if (err)
        return err;
    q->now = moment.at + (moment.relative ? q->now : 0);
    if (q->now >= SL_TIME_END)
        return sl_diag_error(q->line.diag, SLUICE_ECONF,
                             "at= is after the year 2115");
    return 0;
}

/* An input that has no meaning for a single request, or NULL. */
static const char *meaningless(const struct sl_check_args *q)
{
    const struct sl_inputs *in = &q->in;

    return in->times > 1                             ? "xN"
           : in->every                               ? "every="
           : in->request.hold_ns && !q->accepts_hold ? "hold="
           : in->as                                  ? "as="
                                                     : NULL;
}

static int read_inputs(struct sl_cli_args *args, struct sl_check_args *q)
{
    int err = 0;

    for (size_t i = name_count(q); i < q->line.count && !err; i++) {
        const struct sl_flow_word *word = &q->line.words[i];

        if (sl_str_eq(word->name, SL_STR("at")))
            err = read_at(word, q);
        else
            err = sl_input_read(&q->line, i, &q->in);
    }
    if (err == SLUICE_ENOMEM)
        return sl_cli_misuse(args, "out of memory");
    if (err)
        return sl_cli_misuse(args, "%s%s%s", q->diag.sentence,
                             q->diag.hint[0] ? "; write: " : "", q->diag.hint);
    if (meaningless(q))
        return sl_cli_misuse(args, "%s cannot be used with %s", meaningless(q),
                             args->command->name);
    return 0;
}

int sl_check_args_read(struct sl_cli_args *args, size_t from,
                       struct sl_check_args *q)
{
    bool fits = split_first(q, args->words[from]);
    int status;

    for (size_t i = from + 1; fits && i < args->word_count; i++)
        fits = add_word(q, args->words[i]);
    if (!fits)
        return sl_cli_misuse(args, q->line.count
                                       ? "too many arguments"
                                       : "missing request; write 'GET /path'");
    status = read_names(args, q);
    return status ? status : read_inputs(args, q);
}

void sl_check_args_init(struct sl_check_args *q, sl_ns now)
{
    *q = (struct sl_check_args){
        .now = now, .act.in = &q->in, .in.times = 1, .in.single = true};
    q->line.arena = &q->arena;
    q->line.diag = &q->diag;
    sl_arena_init(&q->arena, ARENA_BYTES, &sl_alloc_libc);
}

void sl_check_args_done(struct sl_check_args *q)
{
    sl_arena_done(&q->arena);
}

int sl_check_args_token(struct sl_cli_args *args, struct sl_check_args *q,
                        const struct sl_flow_tokens *tokens,
                        const struct sluice_policy *policy)
{
    int err = 0;

    if (q->in.token)
        err = sl_flow_tokens_add(tokens, policy, q->in.token, &q->in, &q->arena,
                                 &q->diag);
    if (err == SLUICE_ENOMEM)
        return sl_cli_error(args, SL_EXIT_STORE, "out of memory");
    return err ? sl_cli_error(args, tokens ? SL_EXIT_FAILED : SL_EXIT_USAGE,
                              "%s", q->diag.sentence)
               : 0;
}
