/* settings.c -- flags, variables and texts of the settings.
 *
 * A value follows its flag or stands behind `=`. There are no words without a
 * flag: for `sluiced policy.yaml` the message contains the correct command.
 */
#include "sluiced/settings.h"

#include <ctype.h>
#include <string.h>

#include "base/buf.h"

#define PREFIX "SLUICE_"
#define MASK   "********"

const struct sl_setting_row sl_setting_rows[SL_SETTINGS] = {
#define SL_LIVE    true
#define SL_RESTART false
#define SETTING(id, letter, flag, key, kind, preset, value, when, what)        \
    {#id, letter, flag, key, SL_SETTING_##kind, preset, value, SL_##when, what},
#include "sluiced/settings.def"
};

/* Flags that name an action other than serving. */
static const struct {
    char letter;
    const char *flag;
    enum sl_args_action action;
} actions[] = {
    {'\0', "check",         SL_ARGS_CHECK  },
    {'\0', "show-settings", SL_ARGS_SHOW   },
    {'h',  "help",          SL_ARGS_HELP   },
    {'V',  "version",       SL_ARGS_VERSION},
};

static const char *const action_texts[SL_LEN(actions)] = {
    "validate policy and settings, then exit",
    "print each setting and its source, then exit",
    "print this help",
    "print the version",
};

/* Flags have an index: settings first, then actions. */
#define FLAGS (SL_SETTINGS + SL_LEN(actions))

static const char *flag_name(size_t i)
{
    return i < SL_SETTINGS ? sl_setting_rows[i].flag
                           : actions[i - SL_SETTINGS].flag;
}

static char flag_letter(size_t i)
{
    return i < SL_SETTINGS ? sl_setting_rows[i].letter
                           : actions[i - SL_SETTINGS].letter;
}

struct sl_variable sl_setting_variable(enum sl_setting id, bool secret)
{
    const struct sl_setting_row *row = &sl_setting_rows[id];
    size_t len = strlen(row->flag);
    struct sl_variable ret = {PREFIX};
    char *out = ret.text + strlen(PREFIX);

    if (secret && row->kind == SL_SETTING_TOKEN)
        len -= strlen("-file");
    for (size_t i = 0; i < len && i + strlen(PREFIX) + 1 < sizeof(ret.text);
         i++)
        *out++ = row->flag[i] == '-'
                     ? '_'
                     : (char)toupper((unsigned char)row->flag[i]);
    return ret;
}

/* ---- the command line ---- */

struct line {
    struct sl_setting_source *source;
    int argc, at;
    const char *const *argv;
    struct sl_diag *diag;
};

static int refuse_flag(struct line *line, const char *text, struct sl_str name)
{
    /* A list of processes shows the names of files, not the tokens. */
    static const char *const others[][2] = {
        {"config",       "policy"           },
        {"access-token", "access-token-file"},
        {"admin-token",  "admin-token-file" },
    };
    const char *names[FLAGS];
    const char *near;

    for (size_t i = 0; i < FLAGS; i++)
        names[i] = flag_name(i);
    near = sl_str_nearest(name, names, FLAGS);
    for (size_t i = 0; i < SL_LEN(others); i++)
        if (sl_str_eq(name, sl_str_c(others[i][0])))
            near = others[i][1];
    if (near)
        return sl_diag_error(line->diag, SL_EXIT_USAGE,
                             "unknown flag %s; did you mean --%s?", text, near);
    return sl_diag_error(line->diag, SL_EXIT_USAGE,
                         "unknown flag %s; see sluiced --help", text);
}

/* Uses flag `i`; `value` is the text behind `=` or the letter, or NULL. */
static int take_flag(struct line *line, size_t i, const char *value)
{
    if (i >= SL_SETTINGS && value)
        return sl_diag_error(line->diag, SL_EXIT_USAGE,
                             "--%s takes no value, but \"%s\" was given",
                             flag_name(i), value);
    if (i >= SL_SETTINGS) {
        line->source->action = actions[i - SL_SETTINGS].action;
        return 0;
    }
    if (!value && line->at < line->argc)
        value = line->argv[line->at++];
    if (!value || !value[0])
        return sl_diag_error(line->diag, SL_EXIT_USAGE,
                             "--%s needs a value: --%s %s", flag_name(i),
                             flag_name(i), sl_setting_rows[i].value);
    line->source->flags[i] = value;
    return 0;
}

static int read_argument(struct line *line, const char *text)
{
    bool is_long = text[0] == '-' && text[1] == '-' && text[2];
    const char *equals = is_long ? strchr(text, '=') : NULL;
    struct sl_str name;

    if (is_long) {
        name = sl_str_c(text + 2);
        if (equals)
            name.len = (size_t)(equals - name.at);
        for (size_t i = 0; i < FLAGS; i++)
            if (sl_str_eq(name, sl_str_c(flag_name(i))))
                return take_flag(line, i, equals ? equals + 1 : NULL);
        return refuse_flag(line, text, name);
    }
    if (text[0] != '-' || !text[1] || text[1] == '-')
        return sl_diag_error(line->diag, SL_EXIT_USAGE,
                             "unexpected argument \"%s\"; name the policy with "
                             "-c: sluiced -c %s",
                             text, text);
    for (size_t i = 0; i < FLAGS; i++)
        if (text[1] == flag_letter(i))
            return take_flag(line, i, text[2] ? text + 2 : NULL);
    return refuse_flag(line, text, sl_str_c(text + 1));
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

/* An empty variable counts as unset. An empty variable of a token is an error,
 * because it would disable the token check. */
static int read_variable(const char *const *environment, enum sl_setting id,
                         bool secret, const char **ret, struct sl_diag *diag)
{
    struct sl_variable name = sl_setting_variable(id, secret);
    const char *value = find(environment, name.text);

    if (value && !value[0] && sl_setting_rows[id].kind == SL_SETTING_TOKEN)
        return sl_diag_error(
            diag, SL_EXIT_USAGE,
            "%s is empty, which would disable the token check; "
            "set a value, or unset the variable",
            name.text);
    *ret = value && value[0] ? value : NULL;
    return 0;
}

/* A misspelt variable would be ignored silently. Other programs can use the
 * prefix, so only names close to a known one are reported. */
static void check_name(struct sl_setting_source *source, const char *name)
{
    /* Those of `sluice` and of the clients. */
    static const char *const others[] = {"SLUICE_URL", "SLUICE_ADMIN_URL",
                                         "SLUICE_CA", "SLUICE_TOKEN",
                                         "SLUICE_DEADLINE_MS"};
    struct sl_variable own[SL_SETTINGS];
    const char *names[SL_SETTINGS];
    const char *near;

    for (size_t i = 0; i < SL_LEN(others); i++)
        if (strcmp(name, others[i]) == 0)
            return;
    for (size_t i = 0; i < SL_SETTINGS; i++) {
        struct sl_variable secret =
            sl_setting_variable((enum sl_setting)i, true);

        own[i] = sl_setting_variable((enum sl_setting)i, false);
        names[i] = own[i].text;
        if (strcmp(name, names[i]) == 0 || strcmp(name, secret.text) == 0)
            return;
    }
    near = sl_str_nearest(sl_str_c(name), names, SL_SETTINGS);
    if (near && !source->warning[0])
        snprintf(source->warning, sizeof(source->warning),
                 "the environment variable %.64s is unknown; did you mean %s?",
                 name, near);
}

static int read_variables(struct sl_setting_source *source,
                          const char *const *environment, struct sl_diag *diag)
{
    int status = 0;

    for (enum sl_setting i = 0; i < SL_SETTINGS && !status; i++) {
        status =
            read_variable(environment, i, false, &source->variables[i], diag);
        if (!status && sl_setting_rows[i].kind == SL_SETTING_TOKEN)
            status =
                read_variable(environment, i, true, &source->secrets[i], diag);
    }
    for (; !status && environment && *environment; environment++) {
        char name[65];
        int len = (int)strcspn(*environment, "=");

        if (strncmp(*environment, PREFIX, strlen(PREFIX)) != 0 || len > 64)
            continue;
        snprintf(name, sizeof(name), "%.*s", len, *environment);
        check_name(source, name);
    }
    return status;
}

int sl_setting_source_read(struct sl_setting_source *source, int argc,
                           const char *const *argv,
                           const char *const *environment, struct sl_diag *diag)
{
    struct line line = {source, argc, 1, argv, diag};
    int status = 0;

    *source = (struct sl_setting_source){.action = SL_ARGS_SERVE};
    while (line.at < argc && !status)
        status = read_argument(&line, argv[line.at++]);
    return status ? status : read_variables(source, environment, diag);
}

/* ---- after a reload ---- */

/* Open sockets cannot change to TLS. */
static bool is_live(const struct sl_settings *old,
                    const struct sl_settings *new, enum sl_setting id)
{
    if (id != SL_SET_tls_certificate && id != SL_SET_tls_key &&
        id != SL_SET_tls_client_ca)
        return sl_setting_rows[id].live;
    return !old->tls_certificate == !new->tls_certificate &&
           !old->tls_client_ca == !new->tls_client_ca;
}

/* Values that differ only in their secrets are not shown. */
static void write_change(struct sl_writer *w, const struct sl_setting_row *row,
                         const char *was, const char *is)
{
    char from[512], to[512];

    if (row->kind == SL_SETTING_STORE) {
        sl_settings_mask(was, from, sizeof(from));
        sl_settings_mask(is, to, sizeof(to));
        was = from;
        is = to;
    }
    if (row->kind == SL_SETTING_TOKEN || strcmp(was, is) == 0)
        sl_writer_addf(w, "server.%s changed", row->key);
    else
        sl_writer_addf(w, "server.%s %s -> %s", row->key, was[0] ? was : "none",
                       is[0] ? is : "none");
}

static void write_hidden(struct sl_writer *w, enum sl_setting id)
{
    sl_writer_addf(w, "server.%s is not used: %s takes precedence\n",
                   sl_setting_rows[id].key,
                   sl_setting_variable(id, false).text);
}

int sl_settings_diff(const struct sl_settings *old,
                     const struct sl_settings *new, bool live,
                     struct sl_buf *out)
{
    struct sl_writer w = {out, 0};

    for (enum sl_setting i = 0; i < SL_SETTINGS; i++) {
        const char *was = old->values[i].text, *is = new->values[i].text;

        if (!live && new->values[i].hides_policy &&
            !old->values[i].hides_policy)
            write_hidden(&w, i);
        if (strcmp(was, is) == 0 || is_live(old, new, i) != live)
            continue;
        write_change(&w, &sl_setting_rows[i], was, is);
        sl_writer_addf(&w, live ? "\n" : "; needs a restart\n");
    }
    return w.err;
}

/* ---- printing ---- */

/* Masks the value of a secret option, up to the next '&'. */
static const char *mask_option(const char *at, char **out, const char *end)
{
    static const char *const names[] = {
        "sentinel_user=", "sentinel_password=", "sslpassword=", "password="};

    for (size_t i = 0; i < SL_LEN(names); i++) {
        size_t len = strlen(names[i]);

        if (strncmp(at, names[i], len) != 0)
            continue;
        *out += snprintf(*out, (size_t)(end - *out), "%s" MASK, names[i]);
        return at + len + strcspn(at + len, "&");
    }
    return at;
}

void sl_settings_mask(const char *text, char *out, size_t size)
{
    const char *slashes = strstr(text, "://");
    const char *at = slashes ? strrchr(slashes, '@') : NULL;
    char *end = out + size - 1;

    if (at) {
        int n =
            snprintf(out, size, "%.*s" MASK, (int)(slashes - text) + 3, text);

        out += n < (int)size ? n : (int)size - 1;
        text = at;
    }
    while (*text && out < end) {
        const char *next = mask_option(text, &out, end);

        if (out > end)
            out = end; /* it was cut */
        if (next != text)
            text = next;
        else
            *out++ = *text++;
    }
    *out = '\0';
}

/* Control characters, which could move a cursor, are replaced. */
static void print_value(const struct sl_settings *s, enum sl_setting id,
                        char *out, size_t size)
{
    const struct sl_setting_row *row = &sl_setting_rows[id];
    const char *text = s->values[id].text;

    if (row->kind == SL_SETTING_TOKEN && text[0])
        snprintf(out, size, MASK);
    else if (row->kind == SL_SETTING_STORE && text[0])
        sl_settings_mask(text, out, size);
    else
        snprintf(out, size, "%s", text[0] ? text : "-");
    for (char *p = out; *p; p++)
        if ((unsigned char)*p < 0x20 || *p == 0x7f)
            *p = '?';
}

void sl_settings_show(const struct sl_settings *settings, FILE *out)
{
    const char *policy = settings->policy ? settings->policy : "";
    char text[1024];

    for (enum sl_setting i = 0; i < SL_SETTINGS; i++) {
        const struct sl_setting_value *value = &settings->values[i];
        const struct sl_setting_row *row = &sl_setting_rows[i];
        struct sl_variable variable =
            sl_setting_variable(i, value->is_secret_variable);

        print_value(settings, i, text, sizeof(text));
        fprintf(out, "%-16s %-26s ", row->name, text);
        if (value->origin == SL_ORIGIN_FLAG)
            fprintf(out, "flag --%s\n", row->flag);
        else if (value->origin == SL_ORIGIN_VARIABLE)
            fprintf(out, "variable %s\n", variable.text);
        else if (value->origin == SL_ORIGIN_POLICY)
            fprintf(out, "policy %s, server.%s\n", policy, row->key);
        else
            fputs("default\n", out);
    }
}

static void help_flag(size_t i, FILE *out)
{
    const struct sl_setting_row *row =
        i < SL_SETTINGS ? &sl_setting_rows[i] : NULL;
    char left[80], short_form[8] = "    ";

    if (flag_letter(i))
        snprintf(short_form, sizeof(short_form), "-%c, ", flag_letter(i));
    snprintf(left, sizeof(left), "%s--%s%s%s", short_form, flag_name(i),
             row ? " " : "", row ? row->value : "");
    fprintf(out, strlen(left) > 32 ? "  %s\n%34s " : "  %-32s%.0s ", left, "");
    fputs(row ? row->what : action_texts[i - SL_SETTINGS], out);
    if (row && row->preset[0])
        fprintf(out, " (%s)", row->preset);
    fputc('\n', out);
}

void sl_settings_help(FILE *out)
{
    fputs("usage: sluiced [-c POLICY] [FLAG...]\n"
          "\n"
          "Decides whether requests may pass, by the limits of a policy. "
          "Clients use HTTP,\n"
          "gRPC or the Redis protocol. Without a policy sluiced runs a demo "
          "and prints what\n"
          "to try.\n"
          "\n"
          "  sluiced\n"
          "  sluiced -c sluice.yaml\n"
          "  sluiced -c sluice.yaml --check\n"
          "  sluiced -c sluice.yaml --listen-http unix:/run/sluice/http.sock\n"
          "  SLUICE_LOG_LEVEL=debug sluiced -c sluice.yaml --show-settings\n"
          "\n",
          out);
    for (size_t i = 0; i < FLAGS; i++)
        help_flag(i, out);
    fputs("\n"
          "Each flag is also an environment variable: --listen-http is "
          "SLUICE_LISTEN_HTTP.\n"
          "A flag overrides the variable, the variable overrides `server` in "
          "the policy, and\n"
          "that overrides the default in parentheses.\n"
          "\n"
          "Signals: HUP reloads policy and certificates. TERM and INT drain "
          "requests and\n"
          "exit; a second signal exits at once.\n"
          "\n"
          "Exit status: 0 stopped by a signal, 1 failed, 2 usage error, 3 bad "
          "policy,\n"
          "5 state file.\n"
          "See sluiced(8), sluice.yaml(5) and docs/guide/daemon.md.\n",
          out);
}
