/* command.c -- the table of commands, help, and the reading of arguments. */
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

int sl_cli_error(const struct sl_cli_args *args, int status, const char *fmt,
                 ...)
{
    char text[2048];
    va_list list;

    va_start(list, fmt);
    vsnprintf(text, sizeof(text), fmt, list);
    va_end(list);
    fprintf(args->cli->err, "sluice%s%s: ", args->command ? " " : "",
            args->command ? args->command->name : "");
    sl_out_clean(args->cli->err, text);
    fputc('\n', args->cli->err);
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

static int refuse_command(struct sl_cli_args *args, const char *name)
{
    const char *near = meant(name);

    if (near)
        return sl_cli_error(args, SL_EXIT_USAGE,
                            "unknown command \"%s\"; did you mean %s?", name,
                            near);
    return sl_cli_error(args, SL_EXIT_USAGE,
                        "unknown command \"%s\"; see 'sluice --help'", name);
}

/* A write error on standard output is a failure of the command. */
static int flush(struct sl_cli_args *args, int status)
{
    if (!ferror(args->cli->out) && fflush(args->cli->out) == 0)
        return status;
    return sl_cli_error(args, status ? status : SL_EXIT_FAILED,
                        "writing to standard output failed");
}

static int send(struct sl_cli_args *args, const char *name, int argc,
                char **argv)
{
    const struct sl_command *command = find(name);
    bool help = false;
    int status;

    if (!command)
        return refuse_command(args, name);
    args->command = command;
    if (!command->run)
        return sl_cli_error(args, SL_EXIT_USAGE,
                            "this command is not supported in this version");
    status = sl_args_read(args, argc, argv, &help);
    if (status)
        return status;
    if (help)
        print_help(args->cli->out, command);
    return flush(args, help ? SL_EXIT_OK : command->run(args));
}

static int help_on(struct sl_cli_args *args, int argc, char **argv)
{
    const struct sl_command *command = argc > 0 ? find(argv[0]) : NULL;

    if (argc > 0 && (!command || !command->run))
        return send(args, argv[0], 0, argv); /* prints why not */
    if (command)
        print_help(args->cli->out, command);
    else
        print_commands(args->cli->out);
    return flush(args, SL_EXIT_OK);
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
    if (is_either(first, "-h", "--help") || strcmp(first, "help") == 0)
        return help_on(&args, argc - 2, argv + 2);
    if (is_either(first, "-V", "--version")) {
        fprintf(cli->out, "sluice %s\n", sluice_version());
        return flush(&args, SL_EXIT_OK);
    }
    if (first[0] == '-')
        return sl_cli_error(
            &args, SL_EXIT_USAGE,
            "unknown flag %s; a command comes first, see 'sluice --help'",
            first);
    return send(&args, first, argc - 2, argv + 2);
}

/* ---- words and flags of one command ----
 *
 * Flags may stand anywhere. After `--` everything is a word; a lone `-` is
 * always a word. The value follows its flag, or stands after `=`
 * (--output=json) or directly after the letter (-ojson).
 */

static const struct sl_flag help_flag = {'h', "help", NULL, "print this help"};

struct arg_reader {
    struct sl_cli_args *args;
    struct sl_flag output; /* -o with the formats of the command */
    int argc, at;
    char **argv;
    bool help;
};

/* Flag number `index`: those of the command, then --output, then --help. NULL
 * after the last. */
static const struct sl_flag *flag_at(const struct arg_reader *reader,
                                     size_t index)
{
    const struct sl_flag *own = reader->args->command->flags;
    size_t count = 0;

    while (own && own[count].name)
        count++;
    if (index < count)
        return &own[index];
    if (!reader->output.name)
        index++;
    if (index == count)
        return &reader->output;
    return index == count + 1 ? &help_flag : NULL;
}

static const struct sl_flag *find_long(const struct arg_reader *reader,
                                       struct sl_str name, size_t *ret_index)
{
    const struct sl_flag *flag;

    for (size_t i = 0; (flag = flag_at(reader, i)); i++)
        if (sl_str_eq(name, sl_str_c(flag->name))) {
            *ret_index = i;
            return flag;
        }
    return NULL;
}

static const struct sl_flag *find_letter(const struct arg_reader *reader,
                                         char letter, size_t *ret_index)
{
    const struct sl_flag *flag;

    for (size_t i = 0; (flag = flag_at(reader, i)); i++)
        if (flag->letter == letter) {
            *ret_index = i;
            return flag;
        }
    return NULL;
}

static int refuse_flag(struct arg_reader *reader, const char *text,
                       struct sl_str name)
{
    const char *names[SL_FLAGS_MAX + 2];
    const struct sl_flag *flag;
    const char *near;
    size_t count = 0;

    while (count < SL_LEN(names) && (flag = flag_at(reader, count)))
        names[count++] = flag->name;
    near = sl_str_nearest(name, names, count);
    if (near)
        return sl_cli_error(reader->args, SL_EXIT_USAGE,
                            "unknown flag %s; did you mean --%s?", text, near);
    return sl_cli_error(reader->args, SL_EXIT_USAGE,
                        "unknown flag %s; see 'sluice %s --help'", text,
                        reader->args->command->name);
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
    return sl_cli_error(reader->args, SL_EXIT_USAGE,
                        "unknown output format \"%s\"; write -o %s", value,
                        reader->args->command->formats);
}

/* `value` is the text after = or the letter, or NULL. */
static int take_flag(struct arg_reader *reader, const struct sl_flag *flag,
                     size_t index, const char *value)
{
    if (!flag->value && value)
        return sl_cli_error(reader->args, SL_EXIT_USAGE,
                            "--%s takes no value, but \"%s\" was given",
                            flag->name, value);
    if (flag->value && !value) {
        if (reader->at == reader->argc)
            return sl_cli_error(reader->args, SL_EXIT_USAGE,
                                "--%s needs a value: --%s %s", flag->name,
                                flag->name, flag->value);
        value = reader->argv[reader->at++];
    }
    if (flag == &help_flag)
        reader->help = true;
    else if (flag == &reader->output)
        return set_format(reader, value);
    else
        reader->args->values[index] = value ? value : "";
    return 0;
}

/* "--output=json", "--help" */
static int read_long(struct arg_reader *reader, const char *text)
{
    const char *equals = strchr(text, '=');
    struct sl_str name = {text + 2, equals ? (size_t)(equals - text) - 2
                                           : strlen(text) - 2};
    size_t index = 0;
    const struct sl_flag *flag = find_long(reader, name, &index);

    if (!flag)
        return refuse_flag(reader, text, name);
    return take_flag(reader, flag, index, equals ? equals + 1 : NULL);
}

/* "-o", "-ojson", "-h" */
static int read_short(struct arg_reader *reader, const char *text)
{
    size_t index = 0;
    const struct sl_flag *flag = find_letter(reader, text[1], &index);

    if (!flag || (!flag->value && text[2]))
        return refuse_flag(reader, text, sl_str_c(text + 1));
    return take_flag(reader, flag, index, text[2] ? text + 2 : NULL);
}

static int check_count(const struct arg_reader *reader)
{
    const struct sl_cli_args *args = reader->args;
    const struct sl_command *e = args->command;

    if (reader->help)
        return 0;
    if (args->word_count < e->least)
        return sl_cli_error(args, SL_EXIT_USAGE,
                            "missing argument; usage: sluice %s %s", e->name,
                            e->usage);
    if (args->word_count > e->most)
        return sl_cli_error(args, SL_EXIT_USAGE,
                            "unexpected argument \"%s\"; usage: sluice %s %s",
                            args->words[e->most], e->name, e->usage);
    return 0;
}

int sl_args_read(struct sl_cli_args *args, int argc, char **argv,
                 bool *ret_help)
{
    struct arg_reader reader = {.args = args, .argc = argc, .argv = argv};
    bool all_words = false;
    int status = 0;

    if (args->command->formats)
        reader.output = (struct sl_flag){'o', "output", args->command->formats,
                                         "output format"};
    args->words = argv;
    while (reader.at < argc && !status) {
        char *text = argv[reader.at++];

        if (!all_words && strcmp(text, "--") == 0)
            all_words = true;
        else if (all_words || text[0] != '-' || !text[1])
            argv[args->word_count++] = text; /* never ahead of reader.at */
        else if (text[1] == '-')
            status = read_long(&reader, text);
        else
            status = read_short(&reader, text);
    }
    if (!status)
        status = check_count(&reader);
    *ret_help = reader.help;
    return status;
}

const char *sl_cli_args_flag(const struct sl_cli_args *args, const char *name)
{
    const struct sl_flag *flags = args->command->flags;

    for (size_t i = 0; flags && flags[i].name; i++)
        if (strcmp(flags[i].name, name) == 0)
            return args->values[i];
    return NULL;
}
