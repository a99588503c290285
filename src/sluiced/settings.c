/* settings.c -- the settings of the daemon, from four sources.
 *
 * First each setting is chosen: the flag, else the variable, else the value of
 * the policy, else the preset. Then the texts are read. Paths of the policy
 * and of presets are relative to the policy's folder, those of flags and
 * variables to where the program was started.
 */
#include "sluiced/settings.h"

#include <ctype.h>
#include <inttypes.h>
#include <sched.h>
#include <stdarg.h>
#include <string.h>

#define ARENA_MOST   ((size_t)1024 * 1024)
#define THREADS_MOST 64 /* as many sockets can share an address; listener.h */
#define MEMORY_MIN   (UINT64_C(1) << 20)

/* "--memory", "SLUICE_MEMORY", "p.yaml: server.memory", "memory" */
static void print_name(const struct sl_settings *s, enum sl_setting id,
                       char *out, size_t size)
{
    const struct sl_setting_value *value = &s->values[id];
    const struct sl_setting_row *row = &sl_setting_rows[id];
    struct sl_variable variable = value->is_secret_variable
                                      ? sl_setting_secret(id)
                                      : sl_setting_variable(id);

    if (value->origin == SL_ORIGIN_FLAG)
        snprintf(out, size, "--%s", row->flag);
    else if (value->origin == SL_ORIGIN_VARIABLE)
        snprintf(out, size, "%s", variable.text);
    else if (value->origin == SL_ORIGIN_POLICY)
        snprintf(out, size, "%s: server.%s", s->policy, row->key);
    else
        snprintf(out, size, "%s", row->key[0] ? row->key : row->flag);
}

int sl_settings_refuse(const struct sl_settings *settings, enum sl_setting id,
                       struct sl_diag *diag, const char *fmt, ...)
{
    bool policy = settings->values[id].origin == SL_ORIGIN_POLICY;
    char sentence[256], name[256];
    va_list args;

    va_start(args, fmt);
    /* style: the analyzer of clang 14 misses va_start() here */
    vsnprintf(sentence, sizeof(sentence), fmt, args);
    va_end(args);
    print_name(settings, id, name, sizeof(name));
    return sl_diag_error(diag, policy ? SL_EXIT_POLICY : SL_EXIT_USAGE,
                         "%s: %s", name, sentence);
}

static int no_memory(struct sl_diag *diag)
{
    return sl_diag_error(diag, SL_EXIT_FAILED, "out of memory");
}

/* ---- choosing ---- */

/* Texts of a policy are copied: settings outlive it. "" is not set. NULL: out
 * of memory. */
static const char *policy_text(struct sl_arena *arena,
                               const struct sl_server_conf *conf,
                               enum sl_setting id)
{
    const struct sl_setting_row *row = &sl_setting_rows[id];
    char room[SL_SERVER_TEXT];
    struct sl_str text = sl_server_conf_text(conf, row->key, room);

    if (text.len > 0)
        return sl_arena_copy(arena, text);
    /* `listen` opens only the listeners that it names. */
    return conf->has_listen && row->kind == SL_SETTING_ADDRESS ? "off" : "";
}

static struct sl_setting_value choose(struct sl_settings *s,
                                      const struct sl_setting_source *given,
                                      const struct sl_server_conf *server,
                                      enum sl_setting id)
{
    const char *said;

    if (given->flags[id])
        return (struct sl_setting_value){SL_ORIGIN_FLAG, given->flags[id],
                                         false};
    if (given->secrets[id])
        return (struct sl_setting_value){SL_ORIGIN_VARIABLE, given->secrets[id],
                                         true};
    if (given->variables[id])
        return (struct sl_setting_value){SL_ORIGIN_VARIABLE,
                                         given->variables[id], false};
    said = server ? policy_text(&s->arena, server, id) : "";
    if (!said || said[0])
        return (struct sl_setting_value){SL_ORIGIN_POLICY, said, false};
    said = sl_setting_rows[id].preset;
    if (id == SL_SET_store && !s->policy)
        said = "memory:"; /* a demo leaves nothing behind */
    if (id == SL_SET_usage &&
        (!s->policy || s->values[SL_SET_store].origin != SL_ORIGIN_DEFAULT))
        said = sl_rules_usage(given);
    return (struct sl_setting_value){SL_ORIGIN_DEFAULT, said, false};
}

/* ---- paths ---- */

const char *sl_settings_path(struct sl_settings *s, enum sl_origin origin,
                             const char *prefix, const char *path)
{
    const char *slash = s->policy ? strrchr(s->policy, '/') : NULL;
    char whole[8192];
    int folder = 0;

    while (path[0] == '.' && path[1] == '/')
        path += 2;
    if (origin < SL_ORIGIN_VARIABLE && path[0] != '/' && slash)
        folder = (int)(slash - s->policy) + 1;
    if (snprintf(whole, sizeof(whole), "%s%.*s%s", prefix, folder,
                 folder > 0 ? s->policy : "", path) >= (int)sizeof(whole))
        return NULL;
    return sl_arena_copy(&s->arena, sl_str_c(whole));
}

static int resolve_value(struct sl_settings *s, enum sl_setting id,
                         const char *prefix, struct sl_diag *diag)
{
    struct sl_setting_value *value = &s->values[id];
    size_t len = strlen(prefix);

    if (strncmp(value->text, prefix, len) != 0 || !value->text[len])
        return 0;
    value->text = sl_settings_path(s, value->origin, prefix, value->text + len);
    if (value->text)
        return 0;
    value->text = "";
    return sl_settings_refuse(s, id, diag, "the path is too long");
}

/* ---- reading ---- */

static int read_address(struct sl_settings *s, enum sl_setting id, bool *open,
                        struct sl_address *ret, struct sl_diag *diag)
{
    struct sl_diag why = {0};
    int status;

    *open = strcmp(s->values[id].text, "off") != 0;
    if (!*open)
        return 0;
    status = resolve_value(s, id, "unix:", diag);
    if (status)
        return status;
    if (sl_address_parse(sl_str_c(s->values[id].text), ret, &why))
        return sl_settings_refuse(s, id, diag, "%s%s%s", why.sentence,
                                  why.hint[0] ? "; write " : "", why.hint);
    return 0;
}

static int read_count(struct sl_settings *s, enum sl_setting id, uint64_t most,
                      unsigned *ret, struct sl_diag *diag)
{
    struct sl_diag why = {0};
    uint64_t count;

    if (sl_parse_count(sl_str_c(s->values[id].text), &count, &why))
        return sl_settings_refuse(s, id, diag, "\"%s\": %s", s->values[id].text,
                                  why.sentence);
    if (count < 1 || count > most)
        return sl_settings_refuse(s, id, diag,
                                  "the value must be between 1 and %" PRIu64
                                  ", not %" PRIu64,
                                  most, count);
    *ret = (unsigned)count;
    return 0;
}

static unsigned cores(void)
{
    cpu_set_t set;
    int count = sched_getaffinity(0, sizeof(set), &set) ? 1 : CPU_COUNT(&set);

    return count < 1              ? 1
           : count > THREADS_MOST ? THREADS_MOST
                                  : (unsigned)count;
}

static int read_threads(struct sl_settings *s, struct sl_diag *diag)
{
    if (strcmp(s->values[SL_SET_threads].text, "auto") != 0)
        return read_count(s, SL_SET_threads, THREADS_MOST, &s->threads, diag);
    s->threads = s->virtual_clock ? 1 : cores();
    return 0;
}

static int read_duration(struct sl_settings *s, enum sl_setting id, sl_ns *ret,
                         struct sl_diag *diag)
{
    struct sl_diag why = {0};

    if (sl_parse_duration(sl_str_c(s->values[id].text), ret, &why))
        return sl_settings_refuse(s, id, diag, "\"%s\": %s", s->values[id].text,
                                  why.sentence);
    return 0;
}

static int read_memory(struct sl_settings *s, struct sl_diag *diag)
{
    struct sl_diag why = {0};

    if (sl_parse_size(sl_str_c(s->values[SL_SET_memory].text), &s->memory,
                      &why))
        return sl_settings_refuse(s, SL_SET_memory, diag, "\"%s\": %s",
                                  s->values[SL_SET_memory].text, why.sentence);
    if (s->memory < MEMORY_MIN)
        return sl_settings_refuse(s, SL_SET_memory, diag,
                                  "the memory must be at least 1MiB");
    return 0;
}

/* Which of the row's words is it? */
static int read_word(struct sl_settings *s, enum sl_setting id, unsigned *ret,
                     struct sl_diag *diag)
{
    const char *words = sl_setting_rows[id].value;
    const char *text = s->values[id].text;
    unsigned index = 0;

    for (const char *at = words; *at; index++) {
        size_t len = strcspn(at, "|");

        if (sl_str_eq((struct sl_str){at, len}, sl_str_c(text))) {
            *ret = index;
            return 0;
        }
        at += len + (at[len] == '|');
    }
    return sl_settings_refuse(s, id, diag, "\"%s\" is not one of %s", text,
                              words);
}

/* ---- all of them ---- */

const enum sl_setting sl_setting_of_door[SL_PROTOCOLS] = {
    [SL_PROTOCOL_HTTP] = SL_SET_listen_http,
    [SL_PROTOCOL_GRPC] = SL_SET_listen_grpc,
    [SL_PROTOCOL_RESP] = SL_SET_listen_resp,
    [SL_PROTOCOL_ADMIN] = SL_SET_listen_admin,
};

static int read_proxied(struct sl_settings *s, struct sl_diag *diag)
{
    static const char *const names[SL_PROTOCOLS] = {
        [SL_PROTOCOL_HTTP] = "http",
        [SL_PROTOCOL_GRPC] = "grpc",
        [SL_PROTOCOL_RESP] = "resp",
        [SL_PROTOCOL_ADMIN] = "admin",
    };
    const char *at = s->values[SL_SET_proxy_protocol].text;
    bool more = strcmp(at, "none") != 0;

    while (more) {
        struct sl_str name = {at, strcspn(at, ",")};
        int door = 0;

        while (door < SL_PROTOCOLS && !sl_str_eq(name, sl_str_c(names[door])))
            door++;
        if (door == SL_PROTOCOLS)
            return sl_settings_refuse(s, SL_SET_proxy_protocol, diag,
                                      "\"%.*s\" is not a listener; write some "
                                      "of http,grpc,resp,admin or none",
                                      SL_STR_ARG(name));
        s->proxied[door] = true;
        more = at[name.len] == ',';
        at += name.len + more;
    }
    return 0;
}

static int read_doors(struct sl_settings *s, struct sl_diag *diag)
{
    int status = read_proxied(s, diag);

    for (int i = 0; i < SL_PROTOCOLS && !status; i++)
        status = read_address(s, sl_setting_of_door[i], &s->open[i], &s->at[i],
                              diag);
    if (!status)
        status =
            sl_settings_token(s, SL_SET_access_token, &s->access_token, diag);
    if (!status)
        status =
            sl_settings_token(s, SL_SET_admin_token, &s->admin_token, diag);
    return status;
}

static int read_file(struct sl_settings *s, enum sl_setting id,
                     const char **ret, struct sl_diag *diag)
{
    int status = resolve_value(s, id, "", diag);

    *ret = s->values[id].text[0] ? s->values[id].text : NULL;
    return status;
}

static bool ends_with(const char *text, const char *tail)
{
    size_t len = strlen(text), end = strlen(tail);

    return len > end && strcmp(text + len - end, tail) == 0;
}

static int read_files(struct sl_settings *s, struct sl_diag *diag)
{
    int status =
        read_file(s, SL_SET_tls_certificate, &s->tls_certificate, diag);

    if (!status)
        status = read_file(s, SL_SET_tls_key, &s->tls_key, diag);
    if (!status)
        status = read_file(s, SL_SET_tls_client_ca, &s->tls_client_ca, diag);
    if (!status)
        status = resolve_value(s, SL_SET_store, "memory:", diag);
    if (!status && strncmp(s->values[SL_SET_store].text, "memory:", 7) == 0 &&
        s->values[SL_SET_store].text[7])
        s->state = s->values[SL_SET_store].text + 7;
    if (!status &&
        strcmp(s->values[SL_SET_usage].text, SL_USAGE_IN_MEMORY) != 0)
        status = resolve_value(s, SL_SET_usage, "sqlite:", diag);
    if (!status && strncmp(s->values[SL_SET_usage].text, "sqlite:", 7) == 0 &&
        s->values[SL_SET_usage].text[7])
        s->registry = s->values[SL_SET_usage].text + 7;
    if (s->registry)
        s->leases = ends_with(s->registry, "?shared");
    return status;
}

static int read_words(struct sl_settings *s, struct sl_diag *diag)
{
    static const enum sl_setting ids[] = {SL_SET_forward_auth, SL_SET_log_level,
                                          SL_SET_log_format, SL_SET_watch};
    unsigned words[SL_LEN(ids)] = {0}, clock = 0;
    int status = 0;

    for (size_t i = 0; i < SL_LEN(ids) && !status; i++)
        status = read_word(s, ids[i], &words[i], diag);
#ifdef SL_VIRTUAL_CLOCK
    if (!status)
        status = read_word(s, SL_SET_clock, &clock, diag);
#endif
    s->forward = (enum sl_forward)words[0];
    s->log_level = (enum sl_log_level)words[1];
    s->log_format = (enum sl_log_format)words[2];
    s->watch = words[3] == 0;
    s->virtual_clock = clock == 1;
    return status;
}

static int read_numbers(struct sl_settings *s, struct sl_diag *diag)
{
    int status = read_memory(s, diag);

    if (!status)
        status = read_duration(s, SL_SET_deadline, &s->deadline, diag);
    if (!status)
        status = read_duration(s, SL_SET_drain, &s->drain, diag);
    if (!status)
        status = read_duration(s, SL_SET_max_connection_age, &s->age, diag);
    if (!status)
        status = read_threads(s, diag);
    if (!status)
        status =
            read_count(s, SL_SET_connections, 1000000, &s->connections, diag);
    if (!status)
        status = read_count(s, SL_SET_connections_per_address, 1000000,
                            &s->connections_per_address, diag);
    return status;
}

int sl_settings_make(struct sl_settings *settings,
                     const struct sl_setting_source *given,
                     const struct sl_server_conf *server, const char *path,
                     struct sl_diag *diag)
{
    static int (*const steps[])(struct sl_settings *, struct sl_diag *) = {
        sl_rules_version,   read_words,           read_numbers,
        read_files,         read_doors,           sl_settings_redis,
        sl_settings_dynamo, sl_settings_postgres, sl_rules_together,
    };
    int status = 0;

    memset(settings, 0, sizeof(*settings));
    sl_arena_init(&settings->arena, ARENA_MOST, &sl_alloc_libc);
    settings->policy = path;
    for (size_t i = 0; i < SL_SETTINGS; i++) {
        settings->values[i] =
            choose(settings, given, server, (enum sl_setting)i);
        if (!settings->values[i].text)
            return no_memory(diag);
    }
    for (size_t i = 0; i < SL_LEN(steps) && !status; i++)
        status = steps[i](settings, diag);
    return status;
}

void sl_settings_done(struct sl_settings *settings)
{
    sl_arena_done(&settings->arena);
}

/* ---- the command line and the environment.
 *
 * A value follows its flag or stands behind `=`. There are no words without a
 * flag: for `sluiced policy.yaml` the message says what to write.
 */

#define PREFIX "SLUICE_"

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
    enum sl_args_action wish;
} wishes[] = {
    {'\0', "check",         SL_ARGS_CHECK  },
    {'\0', "show-settings", SL_ARGS_SHOW   },
    {'h',  "help",          SL_ARGS_HELP   },
    {'V',  "version",       SL_ARGS_VERSION},
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
    struct sl_setting_source *given;
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
        return sl_diag_error(line->diag, SL_EXIT_USAGE,
                             "unknown flag %s; did you mean --%s?", text, near);
    return sl_diag_error(line->diag, SL_EXIT_USAGE,
                         "unknown flag %s; see sluiced --help", text);
}

/* Flag number `id`; `value` is what stood behind `=` or the letter, or NULL. */
static int take_value(struct line *line, enum sl_setting id, const char *value)
{
    const struct sl_setting_row *row = &sl_setting_rows[id];

    if (!value && line->at < line->argc)
        value = line->argv[line->at++];
    if (!value || !value[0])
        return sl_diag_error(line->diag, SL_EXIT_USAGE,
                             "--%s needs a value: --%s %s", row->flag,
                             row->flag, row->value);
    line->given->flags[id] = value;
    return 0;
}

static int take_wish(struct line *line, size_t index, const char *value)
{
    if (value)
        return sl_diag_error(line->diag, SL_EXIT_USAGE,
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

static int source_read_word(struct line *line, const char *text)
{
    if (text[0] == '-' && text[1] == '-' && text[2])
        return read_long(line, text);
    if (text[0] == '-' && text[1] && text[1] != '-')
        return read_short(line, text);
    return sl_diag_error(
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

/* An empty variable counts as unset. An empty variable of a token is an error,
 * because it would disable the token check. */
static int take_variable(const char *const *environment,
                         const struct sl_variable *name, bool is_token,
                         const char **ret, struct sl_diag *diag)
{
    const char *value = find(environment, name->text);

    if (value && !value[0] && is_token)
        return sl_diag_error(
            diag, SL_EXIT_USAGE,
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

/* A misspelt variable would be ignored silently. Other programs can use the
 * prefix, so only names close to a known one are reported. */
static void doubt(struct sl_setting_source *given, struct sl_str name)
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

static int read_variables(struct sl_setting_source *given,
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

static void doubt_others(struct sl_setting_source *given,
                         const char *const *environment)
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

int sl_given_read(struct sl_setting_source *given, int argc,
                  const char *const *argv, const char *const *environment,
                  struct sl_diag *diag)
{
    struct line line = {given, argc, 1, argv, diag};
    int status = 0;

    *given = (struct sl_setting_source){.wish = SL_ARGS_SERVE};
    while (line.at < argc && !status)
        status = source_read_word(&line, argv[line.at++]);
    if (!status)
        status = read_variables(given, environment, diag);
    if (!status)
        doubt_others(given, environment);
    return status;
}
