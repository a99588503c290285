/* show.c -- the settings in words: --show-settings and --help. */
#include <string.h>

#include "sluiced/settings/settings.h"

#define MASK "********"

/* What could move a cursor is not shown, nor the password of a store. */
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

static void print_origin(const struct sl_settings *s, enum sl_setting id,
                         FILE *out)
{
    const struct sl_value *value = &s->values[id];
    struct sl_variable variable = value->is_secret_variable
                                      ? sl_setting_secret(id)
                                      : sl_setting_variable(id);

    switch (value->origin) {
    case SL_ORIGIN_DEFAULT:
        fputs("default", out);
        break;
    case SL_ORIGIN_POLICY:
        fprintf(out, "policy %s, server.%s", s->policy ? s->policy : "",
                sl_setting_rows[id].key);
        break;
    case SL_ORIGIN_VARIABLE:
        fprintf(out, "variable %s", variable.text);
        break;
    case SL_ORIGIN_FLAG:
        fprintf(out, "flag --%s", sl_setting_rows[id].flag);
        break;
    }
    fputc('\n', out);
}

void sl_settings_show(const struct sl_settings *settings, FILE *out)
{
    char value[1024];

    for (size_t i = 0; i < SL_SETTINGS; i++) {
        print_value(settings, (enum sl_setting)i, value, sizeof(value));
        fprintf(out, "%-16s %-26s ", sl_setting_rows[i].name, value);
        print_origin(settings, (enum sl_setting)i, out);
    }
}

static void help_row(char letter, const char *flag, const char *value,
                     const char *what, FILE *out)
{
    char left[80], short_form[8] = "    ";

    if (letter)
        snprintf(short_form, sizeof(short_form), "-%c, ", letter);
    snprintf(left, sizeof(left), "%s--%s%s%s", short_form, flag,
             value[0] ? " " : "", value);
    if (strlen(left) > 32)
        fprintf(out, "  %s\n  %-32s ", left, "");
    else
        fprintf(out, "  %-32s ", left);
    fputs(what, out);
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
    for (size_t i = 0; i < SL_SETTINGS; i++) {
        const struct sl_setting_row *row = &sl_setting_rows[i];

        help_row(row->letter, row->flag, row->value, row->what, out);
        if (row->preset[0])
            fprintf(out, " (%s)", row->preset);
        fputc('\n', out);
    }
    help_row('\0', "check", "", "validate policy and settings, then exit\n",
             out);
    help_row('\0', "show-settings", "",
             "print each setting and its source, then exit\n", out);
    help_row('h', "help", "", "print this help\n", out);
    help_row('V', "version", "", "print the version\n", out);
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
