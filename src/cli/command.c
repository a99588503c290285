/* command.c -- the table of commands, help, and the reading of arguments. */
#include <stdarg.h>
#include <string.h>

#include "base/str.h"
#include "cli/cli.h"
#include "sluice.h"

const struct sl_command *const sl_commands[] = {
    &sl_command_init,       &sl_command_check,  &sl_command_explain,
    &sl_command_test,       &sl_command_bench,  &sl_command_import,
    &sl_command_token,      &sl_command_jwks,   &sl_command_webhook,
    &sl_command_completion, &sl_command_take,   &sl_command_hold,
    &sl_command_top,        &sl_command_reset,  &sl_command_backlog,
    &sl_command_subject,    &sl_command_block,  &sl_command_unblock,
    &sl_command_usage,      &sl_command_leases, &sl_command_audit,
    &sl_command_why,        &sl_command_ping,   NULL,
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

int sl_cli_error(const struct sl_cli_args *args, int status, const char *fmt,
                 ...)
{
    const char *name = args->command ? args->command->name : "";
    char text[2048];
    va_list list;

    va_start(list, fmt);
    vsnprintf(text, sizeof(text), fmt, list);
    va_end(list);
    sl_out_print(args->cli->err, "sluice%s%s: %s\n", name[0] ? " " : "", name,
                 text);
    return status;
}

/* ---- help ---- */

bool sl_command_flag(const struct sl_command *command, size_t index,
                     struct sl_flag *ret)
{
    const struct sl_flag url = {
        '\0', "url", "URL", "URL of the http listener (http://127.0.0.1:8080)"};
    const struct sl_flag admin = {
        '\0', "admin-url", "URL",
        "URL of the admin listener (http://127.0.0.1:9090)"};
    const struct sl_flag token = {'\0', "token-file", "FILE",
                                  "file with the token of the listener"};
    const struct sl_flag ca = {'\0', "ca", "FILE",
                               "CA certificates for an https:// URL, PEM"};
    const struct sl_flag output = {'o', "output", command->formats,
                                   "output format"};
    const struct sl_flag help = {'h', "help", NULL, "print this help"};
    const struct sl_flag *more[] = {
        command->listener == SL_LISTENER_ADMIN ? &admin : &url, &token, &ca,
        &output, &help};
    const struct sl_flag *own = command->flags;

    for (; own && own->name; own++)
        if (index-- == 0) {
            *ret = *own;
            return true;
        }
    index += command->listener ? 0 : 3;
    index += index >= 3 && !command->formats;
    if (index >= SL_LEN(more))
        return false;
    *ret = *more[index];
    return true;
}

static void print_commands(FILE *out)
{
    fputs("usage: sluice COMMAND [ARGUMENT...] [FLAG...]\n"
          "\n",
          out);
    for (size_t i = 0; sl_commands[i]; i++)
        fprintf(out, "  %-12s %s\n", sl_commands[i]->name,
                sl_commands[i]->summary);
    fputs(long_help_tail, out);
}

static void print_help(FILE *out, const struct sl_command *e)
{
    char left[64], letter[8];
    struct sl_flag flag;

    fprintf(out, "usage: sluice %s %s\n\n%s.\n\n%s\n", e->name, e->usage,
            e->summary, e->help);
    for (size_t i = 0; sl_command_flag(e, i, &flag); i++) {
        snprintf(letter, sizeof(letter), flag.letter ? "-%c, " : "    ",
                 flag.letter);
        snprintf(left, sizeof(left), "%s--%s%s%s", letter, flag.name,
                 flag.value ? " " : "", flag.value ? flag.value : "");
        fprintf(out, "  %-28s %s\n", left, flag.summary);
    }
}

static int refuse_command(struct sl_cli_args *args, const char *name)
{
    const char *names[32], *near;
    size_t count = 0;

    for (; sl_commands[count] && count < SL_LEN(names); count++)
        names[count] = sl_commands[count]->name;
    near = sl_str_nearest(sl_str_c(name), names, count);
    if (near)
        return sl_cli_misuse(args, "unknown command \"%s\"; did you mean %s?",
                             name, near);
    return sl_cli_misuse(args, "unknown command \"%s\"; see 'sluice --help'",
                         name);
}

/* ---- words and flags of one command ----
 *
 * Flags may stand anywhere. After `--` everything is a word; a lone `-` is
 * always a word. The value follows its flag, or stands after `=`
 * (--output=json) or directly after the letter (-ojson).
 */

struct arg_reader {
    struct sl_cli_args *args;
    int argc, at;
    char **argv;
    bool help;
};

static int refuse_flag(struct arg_reader *reader, const char *text,
                       struct sl_str name)
{
    const struct sl_command *command = reader->args->command;
    struct sl_flag flags[SL_FLAGS_MAX + 2];
    const char *names[SL_LEN(flags)], *near;
    size_t count = 0;

    for (; sl_command_flag(command, count, &flags[count]); count++)
        names[count] = flags[count].name;
    near = sl_str_nearest(name, names, count);
    if (near)
        return sl_cli_misuse(reader->args,
                             "unknown flag %s; did you mean --%s?", text, near);
    return sl_cli_misuse(reader->args,
                         "unknown flag %s; see 'sluice %s --help'", text,
                         command->name);
}

/* -o json */
static int set_format(struct arg_reader *reader, const char *value)
{
    static const char *const words[] = {"table", "json", "tap"};
    struct sl_str text = sl_str_c(value);

    for (size_t i = 0; i < SL_LEN(words); i++)
        if (sl_str_eq(text, sl_str_c(words[i])) &&
            strstr(reader->args->command->formats, words[i])) {
            reader->args->format = (enum sl_format)i;
            return 0;
        }
    return sl_cli_misuse(reader->args,
                         "unknown output format \"%s\"; write -o %s", value,
                         reader->args->command->formats);
}

/* `value` is the text after = or the letter, or NULL. */
static int set_flag(struct arg_reader *reader, const struct sl_flag *flag,
                    size_t index, const char *value)
{
    if (!flag->value && value)
        return sl_cli_misuse(reader->args,
                             "--%s takes no value, but \"%s\" was given",
                             flag->name, value);
    if (flag->value && !value) {
        if (reader->at == reader->argc)
            return sl_cli_misuse(reader->args, "--%s needs a value: --%s %s",
                                 flag->name, flag->name, flag->value);
        value = reader->argv[reader->at++];
    }
    if (flag->letter == 'h')
        reader->help = true;
    else if (flag->letter == 'o')
        return set_format(reader, value);
    else
        reader->args->values[index] = value ? value : "";
    return 0;
}

/* --output=json, --help, -o, -ojson, -h */
static int read_flag(struct arg_reader *reader, const char *text)
{
    bool is_long = text[1] == '-';
    const char *equals = is_long ? strchr(text, '=') : NULL;
    size_t len = equals ? (size_t)(equals - text) : strlen(text);
    struct sl_str name = {text + 1 + is_long, len - 1 - is_long};
    const char *value = equals ? equals + 1 : NULL;
    struct sl_flag flag;

    if (!is_long && text[2])
        value = text + 2;
    for (size_t i = 0; sl_command_flag(reader->args->command, i, &flag); i++)
        if (is_long ? sl_str_eq(name, sl_str_c(flag.name))
                    : flag.letter == text[1] && (flag.value || !value))
            return set_flag(reader, &flag, i, value);
    return refuse_flag(reader, text, name);
}

static int check_count(const struct arg_reader *reader)
{
    const struct sl_cli_args *args = reader->args;
    const struct sl_command *e = args->command;

    if (reader->help)
        return 0;
    if (args->word_count < e->least)
        return sl_cli_misuse(args, "missing argument; usage: sluice %s %s",
                             e->name, e->usage);
    if (args->word_count > e->most)
        return sl_cli_misuse(args,
                             "unexpected argument \"%s\"; usage: sluice %s %s",
                             args->words[e->most], e->name, e->usage);
    return 0;
}

/* Read the words and flags after the name of a command into `args`. *ret_help
 * is true for -h and --help. Returns SL_EXIT_USAGE after printing why. */
static int read_args(struct sl_cli_args *args, int argc, char **argv,
                     bool *ret_help)
{
    struct arg_reader reader = {.args = args, .argc = argc, .argv = argv};
    bool all_words = false;
    int status = 0;

    args->words = argv;
    while (reader.at < argc && !status) {
        char *text = argv[reader.at++];

        if (!all_words && strcmp(text, "--") == 0)
            all_words = true;
        else if (all_words || text[0] != '-' || !text[1])
            argv[args->word_count++] = text; /* never ahead of reader.at */
        else
            status = read_flag(&reader, text);
    }
    if (!status)
        status = check_count(&reader);
    *ret_help = reader.help;
    return status;
}

/* ---- running a command ---- */

/* A write error on standard output is a failure of the command. */
static int flush(struct sl_cli_args *args, int status)
{
    if (!ferror(args->cli->out) && fflush(args->cli->out) == 0)
        return status;
    return sl_cli_error(args, status ? status : SL_EXIT_FAILED,
                        "writing to standard output failed");
}

/* Run the command `name`, or print its help. */
static int run_command(struct sl_cli_args *args, const char *name, bool help,
                       int argc, char **argv)
{
    int status = 0;

    args->command = find(name);
    if (!args->command)
        return refuse_command(args, name);
    if (!help)
        status = read_args(args, argc, argv, &help);
    if (status)
        return status;
    if (help)
        print_help(args->cli->out, args->command);
    else if (args->command->run)
        status = args->command->run(args);
    else
        status = sl_cli_request_run(args, args->command->ask);
    return flush(args, status);
}

static bool is_either(const char *text, const char *a, const char *b)
{
    return strcmp(text, a) == 0 || strcmp(text, b) == 0;
}

int sl_cli_run(struct sl_cli *cli, int argc, char **argv)
{
    struct sl_cli_args args = {.cli = cli};
    const char *first = argc > 1 ? argv[1] : NULL;

    if (!first) {
        fputs(short_help, cli->err);
        return SL_EXIT_USAGE;
    }
    if (is_either(first, "-h", "--help") || strcmp(first, "help") == 0) {
        if (argc > 2)
            return run_command(&args, argv[2], true, 0, argv);
        print_commands(cli->out);
        return flush(&args, SL_EXIT_OK);
    }
    if (is_either(first, "-V", "--version")) {
        fprintf(cli->out, "sluice %s\n", sluice_version());
        return flush(&args, SL_EXIT_OK);
    }
    if (first[0] == '-')
        return sl_cli_misuse(
            &args,
            "unknown flag %s; a command comes first, see 'sluice --help'",
            first);
    return run_command(&args, first, false, argc - 2, argv + 2);
}

const char *sl_cli_flag(const struct sl_cli_args *args, const char *name)
{
    struct sl_flag flag;

    for (size_t i = 0; sl_command_flag(args->command, i, &flag); i++)
        if (i < SL_FLAGS_MAX && strcmp(flag.name, name) == 0)
            return args->values[i];
    return NULL;
}
