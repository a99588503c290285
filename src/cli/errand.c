/* errand.c -- the table of errands, and who is sent.
 */
#include "cli/errand.h"

#include <stdarg.h>
#include <string.h>

#include "base/str.h"
#include "cli/out.h"
#include "sluice.h"

const struct sl_errand *const sl_errands[] = {
    &sl_errand_init,  &sl_errand_check,   &sl_errand_explain,
    &sl_errand_test,  &sl_errand_bench,   &sl_errand_import,
    &sl_errand_token, &sl_errand_webhook, &sl_errand_completion,
    &sl_errand_take,  &sl_errand_hold,    &sl_errand_top,
    &sl_errand_reset, &sl_errand_backlog, &sl_errand_subject,
    &sl_errand_usage, &sl_errand_leases,  NULL,
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

static const struct sl_errand *find(const char *name)
{
    for (size_t i = 0; sl_errands[i]; i++)
        if (strcmp(sl_errands[i]->name, name) == 0)
            return sl_errands[i];
    return NULL;
}

int sl_complain(const struct sl_call *call, int status, const char *fmt, ...)
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
    for (size_t i = 0; sl_errands[i]; i++)
        if (sl_errands[i]->run)
            fprintf(out, "  %-12s %s\n", sl_errands[i]->name,
                    sl_errands[i]->summary);
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

static void print_help(FILE *out, const struct sl_errand *e)
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

    while (sl_errands[count] && count < SL_LEN(names)) {
        names[count] = sl_errands[count]->name;
        count++;
    }
    return sl_str_nearest(sl_str_c(name), names, count);
}

static int refuse_command(struct sl_call *call, const char *name)
{
    const char *near = meant(name);

    if (near)
        return sl_complain(call, SL_EXIT_USAGE,
                           "unknown command \"%s\"; did you mean %s?", name,
                           near);
    return sl_complain(call, SL_EXIT_USAGE,
                       "unknown command \"%s\"; see 'sluice --help'", name);
}

/* A full disk must not look like success. */
static int flush(struct sl_call *call, int status)
{
    if (!ferror(call->cli->out) && fflush(call->cli->out) == 0)
        return status;
    return sl_complain(call, status ? status : SL_EXIT_NO,
                       "writing to standard output failed");
}

static int send(struct sl_call *call, const char *name, int argc, char **argv)
{
    const struct sl_errand *errand = find(name);
    bool help = false;
    int status;

    if (!errand)
        return refuse_command(call, name);
    call->errand = errand;
    if (!errand->run)
        return sl_complain(call, SL_EXIT_USAGE,
                           "this command is not supported in this version");
    status = sl_args_read(call, argc, argv, &help);
    if (status)
        return status;
    if (help)
        print_help(call->cli->out, errand);
    return flush(call, help ? SL_EXIT_OK : errand->run(call));
}

static int help_on(struct sl_call *call, int argc, char **argv)
{
    const struct sl_errand *errand = argc > 0 ? find(argv[0]) : NULL;

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
    struct sl_call call = {.cli = cli};
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
        return sl_complain(
            &call, SL_EXIT_USAGE,
            "unknown flag %s; a command comes first, see 'sluice --help'",
            first);
    return send(&call, first, argc - 2, argv + 2);
}
