/* check.c -- `sluice check`, `sluice explain` and `sluice init`, and the
 * request as arguments.
 *
 * `sluice check` prints problems on err and results on out. With -o json it
 * prints one object per file on out. With --print it prints the policy.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "base/arith.h"
#include "base/clock.h"
#include "cli/cli.h"
#include "cli/flow/flow.h"
#include "engine/throttle.h"
#include "libpolicy/libpolicy.h"
#include "table/table.h"

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

/* ---- --capacity: how many keys of each limit fit into the memory ---- */

#define MEMORY_DEFAULT (UINT64_C(64) << 20) /* of server.memory */

struct capacity {
    uint64_t memory, slots;
    uint32_t limits; /* with numbers, and candidates */
    uint64_t kept;   /* for all limits */
};

static struct capacity capacity_of(const struct sl_policy *policy,
                                   uint64_t memory)
{
    struct capacity c = {.memory = memory};

    if (memory == 0)
        c.memory =
            policy->server.memory ? policy->server.memory : MEMORY_DEFAULT;
    c.slots = sl_region_slots(c.memory);
    for (unsigned i = 0; i < policy->rule_total; i++)
        c.limits +=
            (uint32_t)(policy->rules[i].strictest.capacity > 0) +
            (uint32_t)(policy->rules[i].candidate_strictest.capacity > 0);
    c.kept = c.limits * sl_reserve_of(c.slots, 0, c.limits).kept +
             sl_reserve_of(c.slots, SL_THROTTLE_SHARE, 0).kept;
    return c;
}

/* A limit may use all slots but those that are kept for the others. */
static uint64_t alone(const struct capacity *c, struct sl_reserve reserve)
{
    return sl_sub_floor(sl_slots_usable(c->slots), c->kept) + reserve.kept;
}

static void json_row(FILE *out, const struct capacity *c, const char *name,
                     struct sl_reserve reserve)
{
    sl_out_json(out, "{\"name\":", name);
    fprintf(out,
            ",\"alone\":%" PRIu64 ",\"reserved\":%" PRIu64 ",\"kept\":%" PRIu64
            "}",
            alone(c, reserve), reserve.slots, reserve.kept);
}

static void table_row(struct sl_columns *columns, const struct capacity *c,
                      const char *name, struct sl_reserve reserve)
{
    char keys[3][24];

    snprintf(keys[0], sizeof(keys[0]), "%" PRIu64, alone(c, reserve));
    snprintf(keys[1], sizeof(keys[1]), "%" PRIu64, reserve.slots);
    snprintf(keys[2], sizeof(keys[2]), "%" PRIu64, reserve.kept);
    sl_columns_add(columns,
                   (const char *const[]){name, keys[0], keys[1], keys[2]});
}

static int print_capacity(struct sl_cli_args *args,
                          const struct sluice_policy *policy, uint64_t memory)
{
    static const char *const head[] = {"LIMIT", "ALONE", "RESERVED", "KEPT"};
    const struct sl_policy *p = policy->policy;
    struct capacity c = capacity_of(p, memory);
    struct sl_columns columns;

    fprintf(args->cli->out,
            "%" PRIu64 " bytes have %" PRIu64 " slots. With more than %" PRIu64
            " keys that owe something,\none new key in 10,000 finds no free "
            "slot.\n\n",
            c.memory, c.slots, sl_slots_calm(c.slots));
    sl_columns_init(&columns, SL_LEN(head), head);
    for (size_t i = 0; i < sluice_policy_limits(policy); i++)
        if (p->rules[i].strictest.capacity > 0)
            table_row(&columns, &c, sluice_policy_limit_name(policy, i),
                      sl_reserve_of(c.slots, 0, c.limits));
    table_row(&columns, &c, "CL.THROTTLE",
              sl_reserve_of(c.slots, SL_THROTTLE_SHARE, 0));
    return sl_columns_finish(&columns, args);
}

static int print_capacity_json(struct sl_cli_args *args,
                               const struct sluice_policy *policy,
                               uint64_t memory)
{
    const struct sl_policy *p = policy->policy;
    struct capacity c = capacity_of(p, memory);
    FILE *out = args->cli->out;

    fprintf(out,
            "{\"memory\":%" PRIu64 ",\"slots\":%" PRIu64 ",\"keys\":%" PRIu64
            ",\"limits\":[",
            c.memory, c.slots, sl_slots_calm(c.slots));
    for (size_t i = 0; i < sluice_policy_limits(policy); i++)
        if (p->rules[i].strictest.capacity > 0) {
            json_row(out, &c, sluice_policy_limit_name(policy, i),
                     sl_reserve_of(c.slots, 0, c.limits));
            fputc(',', out);
        }
    json_row(out, &c, "CL.THROTTLE",
             sl_reserve_of(c.slots, SL_THROTTLE_SHARE, 0));
    fputs("]}\n", out);
    return SL_EXIT_OK;
}

static int check(struct sl_cli_args *args, const char *path, uint64_t memory)
{
    struct sluice_policy *policy = NULL;
    struct sluice_problems *problems;
    const char *why;
    int err = sl_load_policy(args->cli, path, &policy, &problems, &why);
    bool reported = problems && sluice_problems_count(problems) > 0;
    int status = err ? SL_EXIT_POLICY : SL_EXIT_OK;

    if (!err || reported)
        why = NULL;
    if (args->format == SL_FORMAT_JSON && !err &&
        sl_cli_flag(args, "capacity")) {
        status = print_capacity_json(args, policy, memory);
    } else if (args->format == SL_FORMAT_JSON) {
        print_json(args->cli->out, path, err, why, problems);
    } else {
        if (reported)
            sl_out_line(args->cli->err, sluice_problems_text(problems));
        if (why)
            sl_cli_error(args, 0, "%s", why);
        if (!err && sl_cli_flag(args, "capacity"))
            status = print_capacity(args, policy, memory);
        else if (!err && sl_cli_flag(args, "print"))
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

/* --memory: 0 if it is not given. */
static int read_memory(struct sl_cli_args *args, uint64_t *ret)
{
    const char *text = sl_cli_flag(args, "memory");
    struct sl_diag diag = {.sentence = ""};

    *ret = 0;
    if (!text)
        return SL_EXIT_OK;
    if (!sl_cli_flag(args, "capacity"))
        return sl_cli_misuse(args, "--memory needs --capacity");
    if (sl_parse_size(sl_str_c(text), ret, &diag))
        return sl_cli_misuse(args, "--memory: %s", diag.sentence);
    if (*ret < SL_REGION_MIN || *ret > SL_REGION_MAX)
        return sl_cli_misuse(
            args, "--memory must be between 1MiB and 1TiB, not %s", text);
    return SL_EXIT_OK;
}

static int run(struct sl_cli_args *args)
{
    int status = SL_EXIT_OK;
    uint64_t memory;

    if (sl_cli_flag(args, "schema"))
        return print_text(args, sluice_schema_json());
    if (sl_cli_flag(args, "reference"))
        return print_text(args, sluice_schema_page());
    if (args->word_count == 0)
        return sl_cli_misuse(
            args, "missing policy file; write: sluice check sluice.yaml");
    if (refuse_print(args) || read_memory(args, &memory))
        return SL_EXIT_USAGE;
    for (size_t i = 0; i < args->word_count; i++) {
        int one = check(args, args->words[i], memory);

        if (one)
            status = one;
    }
    return status;
}

static const struct sl_flag flags[] = {
    {'\0', "print",     NULL,   "print the policy with all defaults filled in"},
    {'\0', "capacity",  NULL,
     "show how many keys of each limit fit into memory"                       },
    {'\0', "memory",    "SIZE", "with --capacity: instead of server.memory"   },
    {'\0', "schema",    NULL,   "print the JSON Schema of the policy language"},
    {'\0', "reference", NULL,   "print the policy reference in Markdown"      },
    {'\0', NULL,        NULL,   NULL                                          },
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
            "--capacity shows how many keys of each limit the table holds:\n"
            "alone, while the other limits are idle; reserved, which other\n"
            "limits cannot evict; kept, which a flood of keys of another\n"
            "limit leaves free.\n"
            "\n"
            "  sluice check sluice.yaml\n"
            "  sluice check --print sluice.yaml\n"
            "  sluice check --capacity --memory 1GiB sluice.yaml\n"
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

/* With --url the first word would be the method of the path 'GET /'. */
static int explain_by_daemon(struct sl_cli_args *args)
{
    const char *second = args->word_count > 1 ? args->words[1] : "";

    if (second[strcspn(second, " =")] == ' ')
        return sl_cli_misuse(
            args, "with --url the daemon has the policy; remove \"%s\"",
            args->words[0]);
    return sl_cli_request_run(args, sl_explain_ask);
}

static int run_explain(struct sl_cli_args *args)
{
    struct sl_check_args q;
    struct sluice_policy *policy = NULL;
    int status;

    if (sl_cli_flag(args, "url"))
        return explain_by_daemon(args);
    if (args->word_count < 2)
        return sl_cli_misuse(args, "missing argument; usage: sluice explain %s",
                             sl_command_explain.usage);
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

static const struct sl_flag explain_flags[] = {
    {'\0', "url",        "URL",
     "ask the daemon with this http listener; without POLICY"              },
    {'\0', "token-file", "FILE", "file with the token of the listener"     },
    {'\0', "ca",         "FILE", "CA certificates for an https:// URL, PEM"},
    {'\0', NULL,         NULL,   NULL                                      },
};

const struct sl_command sl_command_explain = {
    .name = "explain",
    .usage = "POLICY|--url URL 'METHOD PATH' [NAME=VALUE...]",
    .summary = "Explain the decision for a request",
    .help = "Prints the route, the caller, the plan, and each limit with its\n"
            "numbers and its key. It starts with empty state and takes\n"
            "nothing. Exits 0 if the request would pass, 1 if not. With\n"
            "--url a daemon explains it with its policy and its state.\n"
            "\n"
            "  user= org= plan= role= ip= header.NAME= body= cost=\n"
            "  cost.LIMIT=\n"
            "  at=     the time of the request, as RFC 3339 (default: now)\n"
            "  token=  a file with a token, verified with the policy's keys\n"
            "\n"
            "  sluice explain sluice.yaml 'GET /api/search' user=ann\n"
            "  sluice explain sluice.yaml 'job transcribe' org=acme cost=30\n"
            "  sluice explain sluice.yaml 'POST /api/x' user=ann -o json\n"
            "  sluice explain --url http://10.0.0.7:8080 'GET /' user=ann\n",
    .words = "file",
    .formats = "table|json",
    .flags = explain_flags,
    .least = 1,
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
