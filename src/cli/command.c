/* command.c -- the table of errands, and who is sent.
 */
#include <stdarg.h>
#include <string.h>

#include "base/str.h"
#include "cli/cli.h"
#include "sluice.h"

const struct sl_command *const sl_commands[] = {
    &sl_command_init,  &sl_command_check,   &sl_command_explain,
    &sl_command_test,  &sl_command_bench,   &sl_command_import,
    &sl_command_token, &sl_command_webhook, &sl_command_completion,
    &sl_command_take,  &sl_command_hold,    &sl_command_top,
    &sl_command_reset, &sl_command_backlog, &sl_command_subject,
    &sl_command_usage, &sl_command_leases,  NULL,
};

static const char short_help[] =
    "sluice validates, explains and tests rate-limit policies.\n"
    "\n"
    "  sluice init                                  write a sample policy\n"
    "  sluice check sluice.yaml                     validate a policy\n"
    "  sluice explain sluice.yaml 'GET /api/search' user=ann plan=free\n"
    "                                               show the decision for one "
    "request\n"
    "\n"
    "'sluice --help' lists all commands.\n";

static const char long_help_tail[] =
    "\n"
    "  -h, --help       print help, also of each command\n"
    "  -V, --version    print the version\n"
    "\n"
    "Data goes to standard output, messages go to standard error. Colours are\n"
    "used on terminals only; NO_COLOR and CLICOLOR_FORCE are honoured.\n"
    "\n"
    "Exit status: 0 done or allowed, 1 failed or denied, 2 usage error,\n"
    "3 bad policy, 4 daemon unreachable, 5 store failed.\n";

static const struct sl_command *find(const char *name)
{
    for (size_t i = 0; sl_commands[i]; i++)
        if (strcmp(sl_commands[i]->name, name) == 0)
            return sl_commands[i];
    return NULL;
}

int sl_cli_error(const struct sl_cli_args *call, int status, const char *fmt,
                 ...)
{
    char text[2048];
    va_list args;

    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    fprintf(call->cli->err, "sluice%s%s: ", call->errand ? " " : "",
            call->errand ? call->errand->name : "");
    sl_out_clean(call->cli->err, text);
    fputc('\n', call->cli->err);
    return status;
}

static void print_commands(FILE *out)
{
    fputs("usage: sluice COMMAND [ARGUMENT...] [FLAG...]\n"
          "\n",
          out);
    for (size_t i = 0; sl_commands[i]; i++)
        if (sl_commands[i]->run)
            fprintf(out, "  %-12s %s\n", sl_commands[i]->name,
                    sl_commands[i]->summary);
    fputs(long_help_tail, out);
}

static void print_flag(FILE *out, const struct sl_flag *flag)
{
    char left[64], letter[8] = "    ";

    if (flag->letter)
        snprintf(letter, sizeof(letter), "-%c, ", flag->letter);
    snprintf(left, sizeof(left), "%s--%s%s%s", letter, flag->name,
             flag->value ? " " : "", flag->value ? flag->value : "");
    fprintf(out, "  %-28s %s\n", left, flag->summary);
}

static void print_help(FILE *out, const struct sl_command *e)
{
    struct sl_flag output = {'o', "output", e->formats, "output format"};
    struct sl_flag help = {'h', "help", NULL, "print this help"};

    fprintf(out, "usage: sluice %s %s\n\n%s.\n\n%s\n", e->name, e->usage,
            e->summary, e->help);
    for (size_t i = 0; e->flags && e->flags[i].name; i++)
        print_flag(out, &e->flags[i]);
    if (e->formats)
        print_flag(out, &output);
    print_flag(out, &help);
}

/* Nearest command, or NULL. */
static const char *meant(const char *name)
{
    const char *names[32];
    size_t count = 0;

    while (sl_commands[count] && count < SL_LEN(names)) {
        names[count] = sl_commands[count]->name;
        count++;
    }
    return sl_str_nearest(sl_str_c(name), names, count);
}

static int refuse_command(struct sl_cli_args *call, const char *name)
{
    const char *near = meant(name);

    if (near)
        return sl_cli_error(call, SL_EXIT_USAGE,
                            "unknown command \"%s\"; did you mean %s?", name,
                            near);
    return sl_cli_error(call, SL_EXIT_USAGE,
                        "unknown command \"%s\"; see 'sluice --help'", name);
}

/* A full disk must not look like success. */
static int flush(struct sl_cli_args *call, int status)
{
    if (!ferror(call->cli->out) && fflush(call->cli->out) == 0)
        return status;
    return sl_cli_error(call, status ? status : SL_EXIT_FAILED,
                        "writing to standard output failed");
}

static int send(struct sl_cli_args *call, const char *name, int argc,
                char **argv)
{
    const struct sl_command *errand = find(name);
    bool help = false;
    int status;

    if (!errand)
        return refuse_command(call, name);
    call->errand = errand;
    if (!errand->run)
        return sl_cli_error(call, SL_EXIT_USAGE,
                            "this command is not supported in this version");
    status = sl_args_read(call, argc, argv, &help);
    if (status)
        return status;
    if (help)
        print_help(call->cli->out, errand);
    return flush(call, help ? SL_EXIT_OK : errand->run(call));
}

static int help_on(struct sl_cli_args *call, int argc, char **argv)
{
    const struct sl_command *errand = argc > 0 ? find(argv[0]) : NULL;

    if (argc > 0 && (!errand || !errand->run))
        return send(call, argv[0], 0, argv); /* says why not */
    if (errand)
        print_help(call->cli->out, errand);
    else
        print_commands(call->cli->out);
    return flush(call, SL_EXIT_OK);
}

static bool is_either(const char *text, const char *a, const char *b)
{
    return strcmp(text, a) == 0 || strcmp(text, b) == 0;
}

int sl_cli_run(struct sl_cli *cli, int argc, char **argv)
{
    struct sl_cli_args call = {.cli = cli};
    const char *first = argc > 1 ? argv[1] : NULL;

    if (!first) {
        fputs(short_help, cli->err);
        return SL_EXIT_USAGE;
    }
    if (is_either(first, "-h", "--help") || strcmp(first, "help") == 0)
        return help_on(&call, argc - 2, argv + 2);
    if (is_either(first, "-V", "--version")) {
        fprintf(cli->out, "sluice %s\n", sluice_version());
        return flush(&call, SL_EXIT_OK);
    }
    if (first[0] == '-')
        return sl_cli_error(
            &call, SL_EXIT_USAGE,
            "unknown flag %s; a command comes first, see 'sluice --help'",
            first);
    return send(&call, first, argc - 2, argv + 2);
}

/* ---- words and flags of one errand.
 *
 * Flags may stand anywhere; behind `--` everything is a word, and a lone `-`
 * always is. A value follows its flag, or stands behind `=` (--output=json) or
 * right behind the letter (-ojson).
 */

static const struct sl_flag help_flag = {'h', "help", NULL, "print this help"};

struct args {
    struct sl_cli_args *call;
    struct sl_flag output; /* -o with the errand's formats */
    int argc, at;
    char **argv;
    bool help;
};

/* Flag number `index` of the errand: its own, then --output, then --help;
 * NULL behind the last. */
static const struct sl_flag *flag_at(const struct args *args, size_t index)
{
    const struct sl_flag *own = args->call->errand->flags;
    size_t count = 0;

    while (own && own[count].name)
        count++;
    if (index < count)
        return &own[index];
    if (!args->output.name)
        index++;
    if (index == count)
        return &args->output;
    return index == count + 1 ? &help_flag : NULL;
}

static const struct sl_flag *find_long(const struct args *args,
                                       struct sl_str name, size_t *ret_index)
{
    const struct sl_flag *flag;

    for (size_t i = 0; (flag = flag_at(args, i)); i++)
        if (sl_str_eq(name, sl_str_c(flag->name))) {
            *ret_index = i;
            return flag;
        }
    return NULL;
}

static const struct sl_flag *find_letter(const struct args *args, char letter,
                                         size_t *ret_index)
{
    const struct sl_flag *flag;

    for (size_t i = 0; (flag = flag_at(args, i)); i++)
        if (flag->letter == letter) {
            *ret_index = i;
            return flag;
        }
    return NULL;
}

static int refuse_flag(struct args *args, const char *text, struct sl_str name)
{
    const char *names[SL_FLAGS_MAX + 2];
    const struct sl_flag *flag;
    const char *near;
    size_t count = 0;

    while (count < SL_LEN(names) && (flag = flag_at(args, count)))
        names[count++] = flag->name;
    near = sl_str_nearest(name, names, count);
    if (near)
        return sl_cli_error(args->call, SL_EXIT_USAGE,
                            "unknown flag %s; did you mean --%s?", text, near);
    return sl_cli_error(args->call, SL_EXIT_USAGE,
                        "unknown flag %s; see 'sluice %s --help'", text,
                        args->call->errand->name);
}

/* -o json */
static int set_format(struct args *args, const char *value)
{
    static const char *const words[] = {"table", "json", "tap"};
    struct sl_str text = sl_str_c(value);

    for (size_t i = 0; i < SL_LEN(words); i++)
        if (sl_str_eq(text, sl_str_c(words[i])) &&
            strstr(args->call->errand->formats, words[i])) {
            args->call->format = (enum sl_format)i;
            return 0;
        }
    return sl_cli_error(args->call, SL_EXIT_USAGE,
                        "unknown output format \"%s\"; write -o %s", value,
                        args->call->errand->formats);
}

/* `value` is what stood behind = or the letter, or NULL. */
static int take_flag(struct args *args, const struct sl_flag *flag,
                     size_t index, const char *value)
{
    if (!flag->value && value)
        return sl_cli_error(args->call, SL_EXIT_USAGE,
                            "--%s takes no value, but \"%s\" was given",
                            flag->name, value);
    if (flag->value && !value) {
        if (args->at == args->argc)
            return sl_cli_error(args->call, SL_EXIT_USAGE,
                                "--%s needs a value: --%s %s", flag->name,
                                flag->name, flag->value);
        value = args->argv[args->at++];
    }
    if (flag == &help_flag)
        args->help = true;
    else if (flag == &args->output)
        return set_format(args, value);
    else
        args->call->given[index] = value ? value : "";
    return 0;
}

/* "--output=json", "--help" */
static int read_long(struct args *args, const char *text)
{
    const char *equals = strchr(text, '=');
    struct sl_str name = {text + 2, equals ? (size_t)(equals - text) - 2
                                           : strlen(text) - 2};
    size_t index = 0;
    const struct sl_flag *flag = find_long(args, name, &index);

    if (!flag)
        return refuse_flag(args, text, name);
    return take_flag(args, flag, index, equals ? equals + 1 : NULL);
}

/* "-o", "-ojson", "-h" */
static int read_short(struct args *args, const char *text)
{
    size_t index = 0;
    const struct sl_flag *flag = find_letter(args, text[1], &index);

    if (!flag || (!flag->value && text[2]))
        return refuse_flag(args, text, sl_str_c(text + 1));
    return take_flag(args, flag, index, text[2] ? text + 2 : NULL);
}

static int check_count(const struct args *args)
{
    const struct sl_cli_args *call = args->call;
    const struct sl_command *e = call->errand;

    if (args->help)
        return 0;
    if (call->word_count < e->least)
        return sl_cli_error(call, SL_EXIT_USAGE,
                            "missing argument; usage: sluice %s %s", e->name,
                            e->usage);
    if (call->word_count > e->most)
        return sl_cli_error(call, SL_EXIT_USAGE,
                            "unexpected argument \"%s\"; usage: sluice %s %s",
                            call->words[e->most], e->name, e->usage);
    return 0;
}

int sl_args_read(struct sl_cli_args *call, int argc, char **argv,
                 bool *ret_help)
{
    struct args args = {.call = call, .argc = argc, .argv = argv};
    bool all_words = false;
    int status = 0;

    if (call->errand->formats)
        args.output = (struct sl_flag){'o', "output", call->errand->formats,
                                       "output format"};
    call->words = argv;
    while (args.at < argc && !status) {
        char *text = argv[args.at++];

        if (!all_words && strcmp(text, "--") == 0)
            all_words = true;
        else if (all_words || text[0] != '-' || !text[1])
            argv[call->word_count++] = text; /* never ahead of args.at */
        else if (text[1] == '-')
            status = read_long(&args, text);
        else
            status = read_short(&args, text);
    }
    if (!status)
        status = check_count(&args);
    *ret_help = args.help;
    return status;
}

const char *sl_cli_args_flag(const struct sl_cli_args *call, const char *name)
{
    const struct sl_flag *flags = call->errand->flags;

    for (size_t i = 0; flags && flags[i].name; i++)
        if (strcmp(flags[i].name, name) == 0)
            return call->given[i];
    return NULL;
}
