/* settings_check.c -- what settings must keep, one by one and together.
 *
 * A listener beyond loopback needs a token or client certificates. Features
 * that this version does not have are refused and not ignored: with
 * `store: redis://` the user expects that servers share their limits.
 */
#include <string.h>

#include "base/buf.h"
#include "registry/pg.h"
#include "sluiced/settings.h"

/* ---- what this version has ---- */

static bool begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

/* The scheme alone: what follows may hold a password. */
static int refuse_store(const struct sl_settings *s, enum sl_setting id,
                        struct sl_diag *diag)
{
    const char *text = s->values[id].text;
    int len = (int)strcspn(text, ":");

    if (id == SL_SET_usage)
        return sl_settings_refuse(
            s, id, diag,
            "\"%.*s\" is not a usage database; write sqlite:PATH, "
            "postgres://HOST/DATABASE, dynamodb://REGION/TABLE or none",
            len, text);
    return sl_settings_refuse(
        s, id, diag,
        "\"%.*s\" is not a store; write memory:, memory:PATH, "
        "redis://HOST:PORT or dynamodb://REGION/TABLE",
        len, text);
}

int sl_rules_version(struct sl_settings *settings, struct sl_diag *diag)
{
    if (strcmp(settings->values[SL_SET_usage].text, "none") != 0 &&
        !begins(settings->values[SL_SET_usage].text, "dynamodb:") &&
        !begins(settings->values[SL_SET_usage].text, "postgres://") &&
        (!begins(settings->values[SL_SET_usage].text, "sqlite:") ||
         strlen(settings->values[SL_SET_usage].text) == strlen("sqlite:")))
        return refuse_store(settings, SL_SET_usage, diag);
    if (!begins(settings->values[SL_SET_store].text, "memory:") &&
        !begins(settings->values[SL_SET_store].text, "dynamodb:") &&
        !begins(settings->values[SL_SET_store].text, "redis"))
        return refuse_store(settings, SL_SET_store, diag);
    return 0;
}

/* Flows on a virtual clock register subjects, so that they need a database. */
const char *sl_rules_usage(const struct sl_setting_source *given)
{
#ifdef SL_VIRTUAL_CLOCK
    const char *clock = given->flags[SL_SET_clock];

    if (clock && strcmp(clock, "virtual") == 0)
        return SL_USAGE_IN_MEMORY;
#endif
    (void)given;
    return "none";
}

/* ---- together ---- */

int sl_settings_check_exposed(const struct sl_settings *settings,
                              enum sl_protocol_id door,
                              const struct sl_address *address,
                              struct sl_diag *diag)
{
    bool admin = door == SL_PROTOCOL_ADMIN;
    enum sl_setting id = sl_setting_of_door[door];
    char where[128];

    if (sl_address_is_local(address))
        return 0;
    sl_address_print(address, where, sizeof(where));
    if (admin && settings->admin_token.len == 0)
        return sl_settings_refuse(
            settings, id, diag,
            "%s is reachable from other machines and has no token; set "
            "admin_token (--admin-token-file), or listen on 127.0.0.1 or a "
            "unix socket",
            where);
    if (!admin && settings->access_token.len == 0 && !settings->tls_client_ca)
        return sl_settings_refuse(
            settings, id, diag,
            "%s is reachable from other machines and has no token; set "
            "access_token (--access-token-file) or tls.client_ca, or listen on "
            "127.0.0.1 or a unix socket",
            where);
    return 0;
}

/* "http" of "listen-http". */
static const char *door_name(int door)
{
    return sl_setting_rows[sl_setting_of_door[door]].flag + strlen("listen-");
}

static bool is_any_port(const char *where)
{
    size_t len = strlen(where);

    return len > 2 && strcmp(where + len - 2, ":0") == 0;
}

/* Each listener has its own address. */
static int check_apart(const struct sl_settings *s, int door,
                       struct sl_diag *diag)
{
    const char *where = s->values[sl_setting_of_door[door]].text;

    for (int i = 0; i < door; i++)
        if (s->open[i] && !is_any_port(where) &&
            strcmp(where, s->values[sl_setting_of_door[i]].text) == 0)
            return sl_settings_refuse(s, sl_setting_of_door[door], diag,
                                      "%s is already the address of the %s "
                                      "listener; use another address",
                                      where, door_name(i));
    return 0;
}

static int check_doors(const struct sl_settings *s, struct sl_diag *diag)
{
    unsigned open = 0;
    int status = 0;

    for (int i = 0; i < SL_PROTOCOLS && !status; i++) {
        if (!s->open[i])
            continue;
        open++;
        status = check_apart(s, i, diag);
        if (!status)
            status = sl_settings_check_exposed(s, (enum sl_protocol_id)i,
                                               &s->at[i], diag);
    }
    if (!status && open == 0)
        status =
            sl_settings_refuse(s, SL_SET_listen_http, diag,
                               "all listeners are off; enable at least one");
    return status;
}

static int check_tls(const struct sl_settings *s, struct sl_diag *diag)
{
    if (s->tls_certificate && !s->tls_key)
        return sl_settings_refuse(
            s, SL_SET_tls_certificate, diag,
            "a certificate needs a key; set tls.key as well");
    if (s->tls_key && !s->tls_certificate)
        return sl_settings_refuse(
            s, SL_SET_tls_key, diag,
            "a key needs a certificate; set tls.certificate as well");
    if (s->tls_client_ca && !s->tls_certificate)
        return sl_settings_refuse(s, SL_SET_tls_client_ca, diag,
                                  "client certificates need TLS; set "
                                  "tls.certificate and tls.key as well");
    return 0;
}

int sl_rules_together(struct sl_settings *settings, struct sl_diag *diag)
{
    int status = check_tls(settings, diag);

    if (!status)
        status = check_doors(settings, diag);
    if (!status && settings->virtual_clock && settings->threads > 1)
        status = sl_settings_refuse(settings, SL_SET_threads, diag,
                                    "a virtual clock needs --threads 1");
    return status;
}

/* ---- after a reload ---- */

/* TLS that was not there can't be put on sockets that are open. */
static bool is_live(const struct sl_settings *old,
                    const struct sl_settings *new, enum sl_setting id)
{
    bool tls = id == SL_SET_tls_certificate || id == SL_SET_tls_key ||
               id == SL_SET_tls_client_ca;

    if (!tls)
        return sl_setting_rows[id].live;
    return !old->tls_certificate == !new->tls_certificate &&
           !old->tls_client_ca == !new->tls_client_ca;
}

/* Of two that look alike without their secrets only that is known. */
static int say_secret(struct sl_buf *out, const struct sl_setting_row *row,
                      const char *was, const char *is)
{
    char from[512], to[512];

    sl_settings_mask(was, from, sizeof(from));
    sl_settings_mask(is, to, sizeof(to));
    if (row->kind == SL_SETTING_TOKEN || strcmp(from, to) == 0)
        return sl_buf_addf(out, "server.%s changed", row->key);
    return sl_buf_addf(out, "server.%s %s -> %s", row->key,
                       from[0] ? from : "none", to[0] ? to : "none");
}

int sl_settings_diff(const struct sl_settings *old,
                     const struct sl_settings *new, bool live,
                     struct sl_buf *out)
{
    int err = 0;

    for (size_t i = 0; i < SL_SETTINGS && !err; i++) {
        const struct sl_setting_row *row = &sl_setting_rows[i];
        const char *was = old->values[i].text, *is = new->values[i].text;

        if (strcmp(was, is) == 0 ||
            is_live(old, new, (enum sl_setting)i) != live)
            continue;
        if (row->kind == SL_SETTING_TOKEN || row->kind == SL_SETTING_STORE)
            err = say_secret(out, row, was, is);
        else
            err = sl_buf_addf(out, "server.%s %s -> %s", row->key,
                              was[0] ? was : "none", is[0] ? is : "none");
        if (!err)
            err = sl_buf_addf(out, live ? "\n" : "; needs a restart\n");
    }
    return err;
}

/* ---- a store, or subjects, in a table of DynamoDB, as settings. */

static bool is_dynamo(const char *text)
{
    return strncmp(text, "dynamodb:", 9) == 0;
}

static int read_where(struct sl_settings *s, enum sl_setting id,
                      struct sl_dynamo_url *ret, struct sl_diag *diag)
{
    struct sl_diag why = {0};

    if (!sl_dynamo_url_read(sl_str_c(s->values[id].text), &s->arena, ret, &why))
        return 0;
    return sl_settings_refuse(s, id, diag, "%s", why.sentence);
}

int sl_settings_dynamo(struct sl_settings *s, struct sl_diag *diag)
{
    int status = 0;

    s->in_dynamo = is_dynamo(s->values[SL_SET_store].text);
    s->subjects_in_dynamo = is_dynamo(s->values[SL_SET_usage].text);
    s->shared = s->shared || s->in_dynamo;
    if (s->in_dynamo)
        status = read_where(s, SL_SET_store, &s->dynamo, diag);
    if (!status && s->subjects_in_dynamo)
        status = read_where(s, SL_SET_usage, &s->subjects, diag);
    if (!status && (s->in_dynamo || s->subjects_in_dynamo))
        status = sl_settings_deadline(s, diag);
    return status;
}

/* ---- a registry in a PostgreSQL, as a setting. */

int sl_settings_postgres(struct sl_settings *s, struct sl_diag *diag)
{
    const char *text = s->values[SL_SET_usage].text;
    char shown[SL_PG_SHOWN];
    struct sl_diag why = {0};

    s->in_postgres = strncmp(text, "postgres:", strlen("postgres:")) == 0;
    if (!s->in_postgres)
        return 0;
    s->registry = text;
    s->leases = true;
    if (sl_pg_url(text, shown, &why))
        return sl_settings_refuse(s, SL_SET_usage, diag, "%s", why.sentence);
    return sl_settings_deadline(s, diag);
}

/* ---- a store in a Redis, as a setting: read, and shown without what is
 * secret in it. */

#define MASK "********"

#define DEADLINE_LEAST SL_MS
#define DEADLINE_MOST  (10 * SL_S)

static bool is_redis(const char *text)
{
    return strncmp(text, "redis", 5) == 0;
}

/* Paths of a policy's URL are relative to the policy, as all of its paths. */
static int resolve_file(struct sl_settings *s, const char **file,
                        struct sl_diag *diag)
{
    if (!*file)
        return 0;
    *file = sl_settings_path(s, s->values[SL_SET_store].origin, "", *file);
    return *file ? 0
                 : sl_settings_refuse(s, SL_SET_store, diag,
                                      "the path is too long");
}

int sl_settings_deadline(const struct sl_settings *s, struct sl_diag *diag)
{
    if (s->deadline >= DEADLINE_LEAST && s->deadline <= DEADLINE_MOST)
        return 0;
    return sl_settings_refuse(
        s, SL_SET_deadline, diag,
        "the deadline must be between 1ms and 10s, not %s; the default is 20ms",
        s->values[SL_SET_deadline].text);
}

int sl_settings_redis(struct sl_settings *s, struct sl_diag *diag)
{
    const char *text = s->values[SL_SET_store].text;
    struct sl_diag why = {0};
    int status;

    s->shared = is_redis(text);
    if (!s->shared)
        return 0;
    if (sl_redis_url_read(sl_str_c(text), &s->arena, &s->redis, &why))
        return sl_settings_refuse(s, SL_SET_store, diag, "%s", why.sentence);
    status = resolve_file(s, &s->redis.ca, diag);
    if (!status)
        status = resolve_file(s, &s->redis.cert, diag);
    if (!status)
        status = resolve_file(s, &s->redis.key, diag);
    return status ? status : sl_settings_deadline(s, diag);
}

/* ---- shown ---- */

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

/* ---- the tokens of the listeners. */

#define TOKEN_MOST ((size_t)4096)

static int check_token(struct sl_settings *s, enum sl_setting id,
                       struct sl_diag *diag)
{
    const char *text = s->values[id].text;

    for (const char *p = text; *p; p++)
        if (*p <= ' ' || *p == 0x7f || (unsigned char)*p >= 0x80)
            return sl_settings_refuse(
                s, id, diag,
                "byte %zu of the token is not allowed in an HTTP header; use "
                "printable ASCII without spaces",
                (size_t)(p - text) + 1);
    return 0;
}

/* Flags and variables name a file; an end of line at its end is the editor's.
 */
static int read_token_file(struct sl_settings *s, enum sl_setting id,
                           struct sl_diag *diag)
{
    struct sl_setting_value *value = &s->values[id];
    struct sl_diag why = {0};
    struct sl_buf text;
    int err;

    sl_buf_init(&text, 2 * TOKEN_MOST + 8192, s->arena.alloc);
    err = sl_file_read(value->text, TOKEN_MOST, &text, &why);
    value->text = "";
    while (!err && text.len > 0 && strchr("\r\n", text.bytes[text.len - 1]))
        text.len--;
    if (!err && text.len > 0 && memchr(text.bytes, '\0', text.len))
        text.len = 0;
    if (err)
        err = sl_settings_refuse(s, id, diag, "%s", why.sentence);
    else if (text.len == 0)
        err = sl_settings_refuse(
            s, id, diag,
            "the file is empty; an empty token would disable the token check");
    else if (!(value->text = sl_arena_copy(&s->arena, sl_buf_str(&text))))
        err = sl_diag_error(diag, SL_EXIT_FAILED, "out of memory");
    if (!value->text)
        value->text = "";
    sl_buf_done(&text);
    return err;
}

int sl_settings_token(struct sl_settings *s, enum sl_setting id,
                      struct sl_str *ret, struct sl_diag *diag)
{
    const struct sl_setting_value *value = &s->values[id];
    int status = 0;

    if (value->origin >= SL_ORIGIN_VARIABLE && !value->is_secret_variable)
        status = read_token_file(s, id, diag);
    if (!status)
        status = check_token(s, id, diag);
    if (!status)
        *ret = sl_str_c(value->text);
    return status;
}

/* ---- the settings in words: --show-settings and --help. */

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
    const struct sl_setting_value *value = &s->values[id];
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
