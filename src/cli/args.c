/* args.c -- words and flags of one errand.
 *
 * Flags may stand anywhere; behind `--` everything is a word, and a lone `-`
 * always is. A value follows its flag, or stands behind `=` (--output=json) or
 * right behind the letter (-ojson).
 */
#include <string.h>

#include "base/str.h"
#include "cli/errand.h"

static const struct sl_flag help_flag = {'h', "help", NULL, "print this help"};

struct args {
    struct sl_call *call;
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
        return sl_complain(args->call, SL_EXIT_USAGE,
                           "unknown flag %s; did you mean --%s?", text, near);
    return sl_complain(args->call, SL_EXIT_USAGE,
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
    return sl_complain(args->call, SL_EXIT_USAGE,
                       "unknown output format \"%s\"; write -o %s", value,
                       args->call->errand->formats);
}

/* `value` is what stood behind = or the letter, or NULL. */
static int take_flag(struct args *args, const struct sl_flag *flag,
                     size_t index, const char *value)
{
    if (!flag->value && value)
        return sl_complain(args->call, SL_EXIT_USAGE,
                           "--%s takes no value, but \"%s\" was given",
                           flag->name, value);
    if (flag->value && !value) {
        if (args->at == args->argc)
            return sl_complain(args->call, SL_EXIT_USAGE,
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
    const struct sl_call *call = args->call;
    const struct sl_errand *e = call->errand;

    if (args->help)
        return 0;
    if (call->word_count < e->least)
        return sl_complain(call, SL_EXIT_USAGE,
                           "missing argument; usage: sluice %s %s", e->name,
                           e->usage);
    if (call->word_count > e->most)
        return sl_complain(call, SL_EXIT_USAGE,
                           "unexpected argument \"%s\"; usage: sluice %s %s",
                           call->words[e->most], e->name, e->usage);
    return 0;
}

int sl_args_read(struct sl_call *call, int argc, char **argv, bool *ret_help)
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

const char *sl_call_flag(const struct sl_call *call, const char *name)
{
    const struct sl_flag *flags = call->errand->flags;

    for (size_t i = 0; flags && flags[i].name; i++)
        if (strcmp(flags[i].name, name) == 0)
            return call->given[i];
    return NULL;
}
