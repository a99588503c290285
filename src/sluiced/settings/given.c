/* given.c -- the command line and the environment.
 *
 * A value follows its flag or stands behind `=`. There are no words without a
 * flag: whoever writes `sluiced policy.yaml` is told what to write.
 */
#include <ctype.h>
#include <string.h>

#include "sluiced/settings/settings.h"

#define PREFIX "SLUICE_"

const struct sl_setting_row sl_setting_rows[SL_SETTINGS] = {
#define SL_LIVE    true
#define SL_RESTART false
#define SETTING(id, letter, flag, key, kind, preset, value, when, what)        \
    {#id, letter, flag, key, SL_SETTING_##kind, preset, value, SL_##when, what},
#include "sluiced/settings/settings.def"
};

/* Flags that say what to do instead of how to serve. */
static const struct {
    char letter;
    const char *flag;
    enum sl_wish wish;
} wishes[] = {
    {'\0', "check",         SL_WISH_CHECK  },
    {'\0', "show-settings", SL_WISH_SHOW   },
    {'h',  "help",          SL_WISH_HELP   },
    {'V',  "version",       SL_WISH_VERSION},
};

/* ---- names ---- */

static struct sl_variable variable(const char *flag, size_t len)
{
    struct sl_variable ret = {PREFIX};
    char *out = ret.text + strlen(PREFIX);

    for (size_t i = 0; i < len && i + strlen(PREFIX) + 1 < sizeof(ret.text);
         i++)
        *out++ = flag[i] == '-' ? '_' : (char)toupper((unsigned char)flag[i]);
    return ret;
}

struct sl_variable sl_setting_variable(enum sl_setting id)
{
    const char *flag = sl_setting_rows[id].flag;

    return variable(flag, strlen(flag));
}

struct sl_variable sl_setting_secret(enum sl_setting id)
{
    const struct sl_setting_row *row = &sl_setting_rows[id];
    bool token = row->kind == SL_SETTING_TOKEN;

    return variable(row->flag,
                    strlen(row->flag) - (token ? strlen("-file") : 0));
}

/* ---- the command line ---- */

struct line {
    struct sl_given *given;
    int argc, at;
    const char *const *argv;
    struct sl_diag *diag;
};

static int refuse_flag(struct line *line, const char *text, struct sl_str name)
{
    const char *names[SL_SETTINGS + SL_LEN(wishes)];
    const char *near;

    for (size_t i = 0; i < SL_SETTINGS; i++)
        names[i] = sl_setting_rows[i].flag;
    for (size_t i = 0; i < SL_LEN(wishes); i++)
        names[SL_SETTINGS + i] = wishes[i].flag;
    if (sl_str_eq(name, SL_STR("config")))
        near = "policy";
    else if (sl_str_eq(name, SL_STR("access-token")))
        near = "access-token-file"; /* a list of processes shows no files */
    else if (sl_str_eq(name, SL_STR("admin-token")))
        near = "admin-token-file";
    else
        near = sl_str_nearest(name, names, SL_LEN(names));
    if (near)
        return sl_refuse(line->diag, SL_EXIT_USAGE,
                         "unknown flag %s; did you mean --%s?", text, near);
    return sl_refuse(line->diag, SL_EXIT_USAGE,
                     "unknown flag %s; see sluiced --help", text);
}

/* Flag number `id`; `value` is what stood behind `=` or the letter, or NULL. */
static int take_value(struct line *line, enum sl_setting id, const char *value)
{
    const struct sl_setting_row *row = &sl_setting_rows[id];

    if (!value && line->at < line->argc)
        value = line->argv[line->at++];
    if (!value || !value[0])
        return sl_refuse(line->diag, SL_EXIT_USAGE,
                         "--%s needs a value: --%s %s", row->flag, row->flag,
                         row->value);
    line->given->flags[id] = value;
    return 0;
}

static int take_wish(struct line *line, size_t index, const char *value)
{
    if (value)
        return sl_refuse(line->diag, SL_EXIT_USAGE,
                         "--%s takes no value, but \"%s\" was given",
                         wishes[index].flag, value);
    line->given->wish = wishes[index].wish;
    return 0;
}

static int read_long(struct line *line, const char *text)
{
    const char *equals = strchr(text, '=');
    struct sl_str name = {text + 2, equals ? (size_t)(equals - text) - 2
                                           : strlen(text) - 2};
    const char *value = equals ? equals + 1 : NULL;

    for (size_t i = 0; i < SL_LEN(wishes); i++)
        if (sl_str_eq(name, sl_str_c(wishes[i].flag)))
            return take_wish(line, i, value);
    for (size_t i = 0; i < SL_SETTINGS; i++)
        if (sl_str_eq(name, sl_str_c(sl_setting_rows[i].flag)))
            return take_value(line, (enum sl_setting)i, value);
    return refuse_flag(line, text, name);
}

static int read_short(struct line *line, const char *text)
{
    const char *value = text[2] ? text + 2 : NULL;

    for (size_t i = 0; i < SL_LEN(wishes); i++)
        if (text[1] == wishes[i].letter)
            return take_wish(line, i, value);
    for (size_t i = 0; i < SL_SETTINGS; i++)
        if (text[1] == sl_setting_rows[i].letter)
            return take_value(line, (enum sl_setting)i, value);
    return refuse_flag(line, text, sl_str_c(text + 1));
}

static int read_word(struct line *line, const char *text)
{
    if (text[0] == '-' && text[1] == '-' && text[2])
        return read_long(line, text);
    if (text[0] == '-' && text[1] && text[1] != '-')
        return read_short(line, text);
    return sl_refuse(
        line->diag, SL_EXIT_USAGE,
        "unexpected argument \"%s\"; name the policy with -c: sluiced -c %s",
        text, text);
}

/* ---- the environment ---- */

static const char *find(const char *const *environment, const char *name)
{
    size_t len = strlen(name);

    for (; environment && *environment; environment++)
        if (strncmp(*environment, name, len) == 0 && (*environment)[len] == '=')
            return *environment + len + 1;
    return NULL;
}

/* An empty variable is as good as none; but one of a token was meant to keep
 * others out, and whoever filled it in had nothing to fill in. */
static int take_variable(const char *const *environment,
                         const struct sl_variable *name, bool is_token,
                         const char **ret, struct sl_diag *diag)
{
    const char *value = find(environment, name->text);

    if (value && !value[0] && is_token)
        return sl_refuse(diag, SL_EXIT_USAGE,
                         "%s is empty, which would disable the token check; "
                         "set a value, or unset the variable",
                         name->text);
    *ret = value && value[0] ? value : NULL;
    return 0;
}

static bool is_known(struct sl_str name)
{
    for (size_t i = 0; i < SL_SETTINGS; i++) {
        struct sl_variable own = sl_setting_variable((enum sl_setting)i);
        struct sl_variable secret = sl_setting_secret((enum sl_setting)i);

        if (sl_str_eq(name, sl_str_c(own.text)) ||
            sl_str_eq(name, sl_str_c(secret.text)))
            return true;
    }
    return false;
}

/* A slip in a variable's name would go unseen. Others may have variables of
 * this prefix too, so only what is near to one of ours is doubted. */
static void doubt(struct sl_given *given, struct sl_str name)
{
    struct sl_variable own[SL_SETTINGS];
    const char *names[SL_SETTINGS];
    const char *near;

    for (size_t i = 0; i < SL_SETTINGS; i++) {
        own[i] = sl_setting_variable((enum sl_setting)i);
        names[i] = own[i].text;
    }
    near = sl_str_nearest(name, names, SL_SETTINGS);
    if (near && !given->doubt[0])
        snprintf(given->doubt, sizeof(given->doubt),
                 "the environment variable %.64s is unknown; did you mean %s?",
                 name.at, near);
}

static int read_variables(struct sl_given *given,
                          const char *const *environment, struct sl_diag *diag)
{
    int status = 0;

    for (size_t i = 0; i < SL_SETTINGS && !status; i++) {
        bool is_token = sl_setting_rows[i].kind == SL_SETTING_TOKEN;
        struct sl_variable own = sl_setting_variable((enum sl_setting)i);
        struct sl_variable secret = sl_setting_secret((enum sl_setting)i);

        status = take_variable(environment, &own, is_token,
                               &given->variables[i], diag);
        if (!status && is_token)
            status = take_variable(environment, &secret, is_token,
                                   &given->secrets[i], diag);
    }
    return status;
}

static void doubt_others(struct sl_given *given, const char *const *environment)
{
    for (; environment && *environment; environment++) {
        char name[65];
        int len = (int)strcspn(*environment, "=");

        if (strncmp(*environment, PREFIX, strlen(PREFIX)) != 0 || len > 64)
            continue;
        snprintf(name, sizeof(name), "%.*s", len, *environment);
        if (!is_known(sl_str_c(name)))
            doubt(given, sl_str_c(name));
    }
}

int sl_given_read(struct sl_given *given, int argc, const char *const *argv,
                  const char *const *environment, struct sl_diag *diag)
{
    struct line line = {given, argc, 1, argv, diag};
    int status = 0;

    *given = (struct sl_given){.wish = SL_WISH_SERVE};
    while (line.at < argc && !status)
        status = read_word(&line, argv[line.at++]);
    if (!status)
        status = read_variables(given, environment, diag);
    if (!status)
        doubt_others(given, environment);
    return status;
}
