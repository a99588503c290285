/* settings_make.c -- chooses, reads and validates the settings.
 *
 * First each setting is chosen: the flag, else the variable, else the value of
 * the policy, else the preset. Then the texts are read. Paths of the policy
 * and of presets are relative to the policy's folder, paths of flags and
 * variables to the current folder.
 *
 * A listener beyond loopback needs a token or client certificates.
 */
#include <inttypes.h>
#include <sched.h>
#include <stdarg.h>
#include <string.h>

#include "base/buf.h"
#include "registry/pg.h"
#include "registry/usage_journal.h"
#include "sluiced/settings.h"

#define ARENA_MOST       ((size_t)1024 * 1024)
#define CONNECTIONS_MOST 1000000
#define MEMORY_MIN       (UINT64_C(1) << 20)
#define TOKEN_MOST       ((size_t)4096)
#define KEY_LEAST        32 /* bytes */

#define USAGE_IN_MEMORY "sqlite::memory:" /* ends with the process */

/* Refuses the value of a setting, with its name: "--memory", "SLUICE_MEMORY",
 * "p.yaml: server.memory" or "memory". The exit status depends on its origin.
 */
SL_PRINTF(4, 5)
static int refuse(const struct sl_settings *s, enum sl_setting id,
                  struct sl_diag *diag, const char *fmt, ...)
{
    const struct sl_setting_value *value = &s->values[id];
    const struct sl_setting_row *row = &sl_setting_rows[id];
    struct sl_variable variable =
        sl_setting_variable(id, value->is_secret_variable);
    char sentence[256], name[256];
    va_list args;

    va_start(args, fmt);
    /* style: the analyzer of clang 14 misses va_start() here */
    vsnprintf(sentence, sizeof(sentence), fmt, args);
    va_end(args);
    if (value->origin == SL_ORIGIN_FLAG)
        snprintf(name, sizeof(name), "--%s", row->flag);
    else if (value->origin == SL_ORIGIN_VARIABLE)
        snprintf(name, sizeof(name), "%s", variable.text);
    else if (value->origin == SL_ORIGIN_POLICY)
        snprintf(name, sizeof(name), "%s: server.%s", s->policy, row->key);
    else
        snprintf(name, sizeof(name), "%s", row->key[0] ? row->key : row->flag);
    return sl_diag_error(diag,
                         value->origin == SL_ORIGIN_POLICY ? SL_EXIT_POLICY
                                                           : SL_EXIT_USAGE,
                         "%s: %s", name, sentence);
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

static const char *preset(const struct sl_settings *s,
                          const struct sl_setting_source *source,
                          enum sl_setting id)
{
    if (id == SL_SET_store && !s->policy)
        return "memory:"; /* a demo leaves no file behind */
    if (id != SL_SET_usage ||
        (s->policy && s->values[SL_SET_store].origin == SL_ORIGIN_DEFAULT))
        return sl_setting_rows[id].preset;
#ifdef SL_VIRTUAL_CLOCK
    /* Flows on a virtual clock register subjects, so that they need a
     * database. */
    if (source->flags[SL_SET_clock] &&
        strcmp(source->flags[SL_SET_clock], "virtual") == 0)
        return USAGE_IN_MEMORY;
#endif
    (void)source;
    return "none"; /* store and usage database are chosen together */
}

/* The unit and the image have variables for the store. A policy that names
 * another one, of several daemons, would share nothing, and nothing would say
 * so. */
static bool hides_policy(struct sl_settings *s,
                         const struct sl_server_conf *server,
                         enum sl_setting id,
                         const struct sl_setting_value *value)
{
    const char *other;

    if (!server || !value->text || value->origin != SL_ORIGIN_VARIABLE ||
        (id != SL_SET_store && id != SL_SET_usage))
        return false;
    other = policy_text(&s->arena, server, id);
    return other && other[0] && strcmp(other, value->text) != 0;
}

static struct sl_setting_value choose(struct sl_settings *s,
                                      const struct sl_setting_source *source,
                                      const struct sl_server_conf *server,
                                      enum sl_setting id)
{
    struct sl_setting_value value = {.origin = SL_ORIGIN_FLAG,
                                     .text = source->flags[id]};

    if (!value.text)
        value = (struct sl_setting_value){.origin = SL_ORIGIN_VARIABLE,
                                          .text = source->secrets[id],
                                          .is_secret_variable = true};
    if (!value.text)
        value = (struct sl_setting_value){.origin = SL_ORIGIN_VARIABLE,
                                          .text = source->variables[id]};
    value.hides_policy = hides_policy(s, server, id, &value);
    if (value.text)
        return value;
    value.origin = SL_ORIGIN_POLICY;
    value.text = server ? policy_text(&s->arena, server, id) : "";
    if (!value.text || value.text[0])
        return value;
    value.origin = SL_ORIGIN_DEFAULT;
    value.text = preset(s, source, id);
    return value;
}

/* ---- paths ---- */

static bool begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

/* Replaces *text, a path after `prefix`, by one that the daemon can open. An
 * empty path stays. */
static int resolve(struct sl_settings *s, enum sl_setting id,
                   const char *prefix, const char **text, struct sl_diag *diag)
{
    const char *slash = s->policy ? strrchr(s->policy, '/') : NULL;
    const char *path = *text + strlen(prefix);
    char whole[8192];
    int folder = 0;

    if (!path[0])
        return 0;
    while (path[0] == '.' && path[1] == '/')
        path += 2;
    if (s->values[id].origin < SL_ORIGIN_VARIABLE && path[0] != '/' && slash)
        folder = (int)(slash - s->policy) + 1;
    *text = NULL;
    if (snprintf(whole, sizeof(whole), "%s%.*s%s", prefix, folder,
                 folder > 0 ? s->policy : "", path) < (int)sizeof(whole))
        *text = sl_arena_copy(&s->arena, sl_str_c(whole));
    if (*text)
        return 0;
    *text = "";
    return refuse(s, id, diag, "the path is too long");
}

/* The same for the text of a setting, if it has the prefix. */
static int resolve_value(struct sl_settings *s, enum sl_setting id,
                         const char *prefix, struct sl_diag *diag)
{
    if (!begins(s->values[id].text, prefix))
        return 0;
    return resolve(s, id, prefix, &s->values[id].text, diag);
}

/* ---- readers of one setting. `ret` is its field. */

typedef int reader_f(struct sl_settings *s, enum sl_setting id, void *ret,
                     struct sl_diag *diag);

static int refuse_text(const struct sl_settings *s, enum sl_setting id,
                       const struct sl_diag *why, struct sl_diag *diag)
{
    return refuse(s, id, diag, "\"%s\": %s", s->values[id].text, why->sentence);
}

static int read_count(struct sl_settings *s, enum sl_setting id, void *ret,
                      struct sl_diag *diag)
{
    uint64_t most = id == SL_SET_threads ? SL_THREADS_MOST : CONNECTIONS_MOST;
    struct sl_diag why = {0};
    uint64_t count;

    if (sl_parse_count(sl_str_c(s->values[id].text), &count, &why))
        return refuse_text(s, id, &why, diag);
    if (count < 1 || count > most)
        return refuse(s, id, diag,
                      "the value must be between 1 and %" PRIu64
                      ", not %" PRIu64,
                      most, count);
    *(unsigned *)ret = (unsigned)count;
    return 0;
}

static int read_threads(struct sl_settings *s, enum sl_setting id, void *ret,
                        struct sl_diag *diag)
{
    cpu_set_t set;
    int count;

    if (strcmp(s->values[id].text, "auto") != 0)
        return read_count(s, id, ret, diag);
    count = sched_getaffinity(0, sizeof(set), &set) ? 1 : CPU_COUNT(&set);
    if (count < 1 || s->virtual_clock)
        count = 1;
    s->threads = count > SL_THREADS_MOST ? SL_THREADS_MOST : (unsigned)count;
    return 0;
}

static int read_duration(struct sl_settings *s, enum sl_setting id, void *ret,
                         struct sl_diag *diag)
{
    struct sl_diag why = {0};

    return sl_parse_duration(sl_str_c(s->values[id].text), ret, &why)
               ? refuse_text(s, id, &why, diag)
               : 0;
}

static int read_memory(struct sl_settings *s, enum sl_setting id, void *ret,
                       struct sl_diag *diag)
{
    struct sl_diag why = {0};

    if (sl_parse_size(sl_str_c(s->values[id].text), ret, &why))
        return refuse_text(s, id, &why, diag);
    if (s->memory < MEMORY_MIN)
        return refuse(s, id, diag, "the memory must be at least 1MiB");
    return 0;
}

/* Reads the index of a word in the row. */
static int read_word(struct sl_settings *s, enum sl_setting id, void *ret,
                     struct sl_diag *diag)
{
    const char *words = sl_setting_rows[id].value;
    const char *text = s->values[id].text;
    unsigned index = 0;

    for (const char *at = words; *at; index++) {
        size_t len = strcspn(at, "|");

        if (sl_str_eq((struct sl_str){at, len}, sl_str_c(text))) {
            memcpy(ret, &index, sizeof(index)); /* an enum */
            return 0;
        }
        at += len + (at[len] == '|');
    }
    return refuse(s, id, diag, "\"%s\" is not one of %s", text, words);
}

static int read_switch(struct sl_settings *s, enum sl_setting id, void *ret,
                       struct sl_diag *diag)
{
    unsigned index = 0;
    int status = read_word(s, id, &index, diag);

    *(bool *)ret = index == (id == SL_SET_watch ? 0 : 1);
    return status;
}

static int read_file(struct sl_settings *s, enum sl_setting id, void *ret,
                     struct sl_diag *diag)
{
    int status = resolve_value(s, id, "", diag);

    *(const char **)ret = s->values[id].text[0] ? s->values[id].text : NULL;
    return status;
}

/* Reads the token in a file, without the end of its line. */
static int read_token_file(struct sl_settings *s, enum sl_setting id,
                           struct sl_diag *diag)
{
    struct sl_setting_value *value = &s->values[id];
    struct sl_diag why = {0};
    struct sl_buf text;
    int err;

    sl_buf_init(&text, 2 * TOKEN_MOST + 8192, s->arena.alloc);
    err = sl_file_read(value->text, TOKEN_MOST, &text, &why);
    while (!err && text.len > 0 && strchr("\r\n", text.bytes[text.len - 1]))
        text.len--;
    if (!err && text.len > 0 && memchr(text.bytes, '\0', text.len))
        text.len = 0;
    value->text = err ? NULL : sl_arena_copy(&s->arena, sl_buf_str(&text));
    if (err)
        err = refuse(s, id, diag, "%s", why.sentence);
    else if (text.len == 0)
        err = refuse(
            s, id, diag,
            "the file is empty; an empty token would disable the token check");
    else if (!value->text)
        err = sl_diag_error(diag, SL_EXIT_FAILED, "out of memory");
    if (!value->text)
        value->text = "";
    sl_buf_done(&text);
    return err;
}

/* Flags and variables name a file. */
static int read_token(struct sl_settings *s, enum sl_setting id, void *ret,
                      struct sl_diag *diag)
{
    const struct sl_setting_value *value = &s->values[id];
    int status = 0;

    if (value->origin >= SL_ORIGIN_VARIABLE && !value->is_secret_variable)
        status = read_token_file(s, id, diag);
    for (const char *p = value->text; *p && !status; p++)
        if (*p <= ' ' || *p == 0x7f || (unsigned char)*p >= 0x80)
            status = refuse(
                s, id, diag,
                "byte %zu of the token is not allowed in an HTTP header; use "
                "printable ASCII without spaces",
                (size_t)(p - value->text) + 1);
    if (!status)
        *(struct sl_str *)ret = sl_str_c(value->text);
    return status;
}

/* Who has a usage token can try keys offline: a short one would be found. */
static int read_key(struct sl_settings *s, enum sl_setting id, void *ret,
                    struct sl_diag *diag)
{
    size_t len;
    int status = read_token(s, id, ret, diag);

    if (status)
        return status;
    len = strlen(s->values[id].text);
    if (len == 0 || len >= KEY_LEAST)
        return 0;
    return refuse(s, id, diag,
                  "the key has %zu bytes and must have at least %d; make one "
                  "with `openssl rand -hex 32`",
                  len, KEY_LEAST);
}

/* The order matters: threads depend on the clock. */
static const struct {
    enum sl_setting id;
    reader_f *read;
    size_t offset;
} fields[] = {
#define FIELD(id, read, field)                                                 \
    {                                                                          \
        SL_SET_##id, read, offsetof(struct sl_settings, field)                 \
    }
    FIELD(forward_auth, read_word, forward),
    FIELD(log_level, read_word, log_level),
    FIELD(log_format, read_word, log_format),
    FIELD(watch, read_switch, watch),
    FIELD(only, read_word, only),
#ifdef SL_VIRTUAL_CLOCK
    FIELD(clock, read_switch, virtual_clock),
#endif
    FIELD(memory, read_memory, memory),
    FIELD(deadline, read_duration, deadline),
    FIELD(drain, read_duration, drain),
    FIELD(max_connection_age, read_duration, age),
    FIELD(threads, read_threads, threads),
    FIELD(connections, read_count, connections),
    FIELD(connections_per_address, read_count, connections_per_address),
    FIELD(state, read_file, state),
    FIELD(tls_certificate, read_file, tls_certificate),
    FIELD(tls_key, read_file, tls_key),
    FIELD(tls_client_ca, read_file, tls_client_ca),
    FIELD(access_token, read_token, access_token),
    FIELD(admin_token, read_token, admin_token),
    FIELD(usage_token_key, read_key, usage_token_key),
    FIELD(admin_read_token, read_token, admin_read_token),
};

static int read_fields(struct sl_settings *s, struct sl_diag *diag)
{
    int status = 0;

    for (size_t i = 0; i < SL_LEN(fields) && !status; i++)
        status =
            fields[i].read(s, fields[i].id, (char *)s + fields[i].offset, diag);
    return status;
}

/* ---- listeners ---- */

static enum sl_setting address_of(int id)
{
    return SL_SET_listen_http + (enum sl_setting)id;
}

/* "http" of "listen-http". */
static const char *listener_name(int id)
{
    return sl_setting_rows[address_of(id)].flag + strlen("listen-");
}

static int read_proxied(struct sl_settings *s, struct sl_diag *diag)
{
    const char *at = s->values[SL_SET_proxy_protocol].text;
    bool more = strcmp(at, "none") != 0;

    while (more) {
        struct sl_str name = {at, strcspn(at, ",")};
        int id = 0;

        while (id < SL_PROTOCOLS &&
               !sl_str_eq(name, sl_str_c(listener_name(id))))
            id++;
        if (id == SL_PROTOCOLS)
            return refuse(s, SL_SET_proxy_protocol, diag,
                          "\"%.*s\" is not a listener; write some "
                          "of http,grpc,resp,admin or none",
                          SL_STR_ARG(name));
        s->proxied[id] = true;
        more = at[name.len] == ',';
        at += name.len + more;
    }
    return 0;
}

/* Names separated by commas. A port or a scheme would never match. */
static int read_hosts(struct sl_settings *s, struct sl_diag *diag)
{
    const char *at = s->values[SL_SET_hosts].text;
    size_t bad = strcspn(at, ":/ ");

    if (strcmp(at, "none") == 0)
        return 0;
    if (at[bad])
        return refuse(s, SL_SET_hosts, diag,
                      "\"%s\" is not a list of names; write names without a "
                      "scheme and a port, such as sluice.internal,limits",
                      at);
    s->hosts = sl_str_c(at);
    return 0;
}

/* Is it "https://HOST" or "http://HOST", with or without a port? Other letters
 * would end the Content-Security-Policy that it becomes a part of. */
static bool is_origin(struct sl_str one)
{
    size_t from = 0;

    if (one.len > 8 && memcmp(one.at, "https://", 8) == 0)
        from = 8;
    else if (one.len > 7 && memcmp(one.at, "http://", 7) == 0)
        from = 7;
    for (size_t i = from; i < one.len; i++) {
        char c = one.at[i];

        if ((c < 'a' || c > 'z') && (c < '0' || c > '9') && !strchr(".-:[]", c))
            return false;
    }
    return from > 0;
}

static int read_origins(struct sl_settings *s, struct sl_diag *diag)
{
    const char *at = s->values[SL_SET_usage_origins].text;
    bool more = strcmp(at, "none") != 0;

    if (more)
        s->usage_origins = sl_str_c(at);
    while (more) {
        struct sl_str one = {at, strcspn(at, ",")};

        if (!is_origin(one))
            return refuse(s, SL_SET_usage_origins, diag,
                          "\"%.*s\" is not an origin; write the scheme and the "
                          "host in lower case, and the port if there is one, "
                          "such as https://app.example",
                          SL_STR_ARG(one));
        more = at[one.len] == ',';
        at += one.len + more;
    }
    return 0;
}

static int read_address(struct sl_settings *s, int listener,
                        struct sl_diag *diag)
{
    enum sl_setting id = address_of(listener);
    struct sl_diag why = {0};
    int status;

    s->open[listener] = strcmp(s->values[id].text, "off") != 0;
    if (!s->open[listener])
        return 0;
    status = resolve_value(s, id, "unix:", diag);
    if (!status &&
        sl_address_parse(sl_str_c(s->values[id].text), &s->at[listener], &why))
        status = refuse(s, id, diag, "%s%s%s", why.sentence,
                        why.hint[0] ? "; write " : "", why.hint);
    if (!status && listener == SL_PROTOCOL_LOCAL &&
        !sl_address_is_unix(&s->at[listener]))
        status = refuse(s, id, diag,
                        "\"%s\" is not a unix socket; write unix:PATH, or "
                        "use --listen-admin for an address",
                        s->values[id].text);
    return status;
}

static int read_listeners(struct sl_settings *s, struct sl_diag *diag)
{
    int status = read_proxied(s, diag);

    if (!status)
        status = read_hosts(s, diag);
    if (!status)
        status = read_origins(s, diag);
    for (int i = 0; i < SL_PROTOCOLS && !status; i++)
        status = read_address(s, i, diag);
    return status;
}

/* Without admin_token the admin listener is open: there is nothing to read with
 * a token. */
static int check_read_token(struct sl_settings *s, struct sl_diag *diag)
{
    if (s->admin_read_token.len == 0 || s->admin_token.len > 0)
        return 0;
    return refuse(s, SL_SET_admin_read_token, diag,
                  "it needs admin_token (--admin-token-file), which may also "
                  "change; without it the admin listener needs no token");
}

int sl_settings_check_exposed(const struct sl_settings *settings,
                              enum sl_protocol_id id,
                              const struct sl_address *address,
                              struct sl_diag *diag)
{
    bool admin = id >= SL_PROTOCOL_ADMIN;
    char where[128];

    if (sl_address_is_local(address) ||
        (admin ? settings->admin_token.len > 0
               : settings->access_token.len > 0 || settings->tls_client_ca))
        return 0;
    sl_address_print(address, where, sizeof(where));
    return refuse(settings, address_of(id), diag,
                  "%s is reachable from other machines and has no token; set "
                  "%s, or listen on 127.0.0.1 or a unix socket",
                  where,
                  admin
                      ? "admin_token (--admin-token-file)"
                      : "access_token (--access-token-file) or tls.client_ca");
}

static bool ends_with(const char *text, const char *tail)
{
    size_t len = strlen(text), end = strlen(tail);

    return len > end && strcmp(text + len - end, tail) == 0;
}

/* A process that only sends webhooks has the admin listeners. */
static int close_others(struct sl_settings *s, struct sl_diag *diag)
{
    (void)diag;
    for (int i = 0; i < SL_PROTOCOL_ADMIN; i++)
        s->open[i] &= s->only != SL_ONLY_WEBHOOKS;
    return 0;
}

/* Each listener has its own address. */
static int check_listeners(struct sl_settings *s, struct sl_diag *diag)
{
    unsigned open = 0;
    int status = 0;

    for (int i = 0; i < SL_PROTOCOLS && !status; i++) {
        const char *where = s->values[address_of(i)].text;

        if (!s->open[i])
            continue;
        open++;
        for (int k = 0; k < i && !status; k++)
            if (s->open[k] && !ends_with(where, ":0") &&
                strcmp(where, s->values[address_of(k)].text) == 0)
                status = refuse(s, address_of(i), diag,
                                "%s is already the address of the %s "
                                "listener; use another address",
                                where, listener_name(k));
        if (!status)
            status = sl_settings_check_exposed(s, (enum sl_protocol_id)i,
                                               &s->at[i], diag);
    }
    if (!status && open == 0)
        status = refuse(s, SL_SET_listen_http, diag,
                        "all listeners are off; enable at least one");
    if (!status && s->virtual_clock && s->threads > 1)
        status = refuse(s, SL_SET_threads, diag,
                        "a virtual clock needs --threads 1");
    return status;
}

static int check_tls(struct sl_settings *s, struct sl_diag *diag)
{
    if (s->tls_certificate && !s->tls_key)
        return refuse(s, SL_SET_tls_certificate, diag,
                      "a certificate needs a key; set tls.key as well");
    if (s->tls_key && !s->tls_certificate)
        return refuse(s, SL_SET_tls_key, diag,
                      "a key needs a certificate; set tls.certificate as well");
    if (s->tls_client_ca && !s->tls_certificate)
        return refuse(s, SL_SET_tls_client_ca, diag,
                      "client certificates need TLS; set "
                      "tls.certificate and tls.key as well");
    return 0;
}

/* ---- stores ---- */

/* Shows the scheme alone: the rest may contain a password. */
static int check_schemes(struct sl_settings *s, struct sl_diag *diag)
{
    const char *store = s->values[SL_SET_store].text;
    const char *usage = s->values[SL_SET_usage].text;

    if (strcmp(usage, "none") != 0 && !begins(usage, "dynamodb:") &&
        !begins(usage, "postgres://") &&
        (!begins(usage, "sqlite:") || !usage[strlen("sqlite:")]))
        return refuse(
            s, SL_SET_usage, diag,
            "\"%.*s\" is not a usage database; write sqlite:PATH, "
            "postgres://HOST/DATABASE, dynamodb://REGION/TABLE or none",
            (int)strcspn(usage, ":"), usage);
    if (!begins(store, "memory:") && !begins(store, "dynamodb:") &&
        !begins(store, "redis"))
        return refuse(s, SL_SET_store, diag,
                      "\"%.*s\" is not a store; write memory:, memory:PATH, "
                      "redis://HOST:PORT or dynamodb://REGION/TABLE",
                      (int)strcspn(store, ":"), store);
    return 0;
}

/* Files of a Redis URL are relative like all paths. */
static int read_redis(struct sl_settings *s, struct sl_diag *diag)
{
    const char **files[] = {&s->redis.ca, &s->redis.cert, &s->redis.key};
    struct sl_diag why = {0};
    int status = 0;

    if (sl_redis_url_read(sl_str_c(s->values[SL_SET_store].text), &s->arena,
                          &s->redis, &why))
        return refuse(s, SL_SET_store, diag, "%s", why.sentence);
    for (size_t i = 0; i < SL_LEN(files) && !status; i++)
        if (*files[i])
            status = resolve(s, SL_SET_store, "", files[i], diag);
    return status;
}

static int read_dynamo(struct sl_settings *s, enum sl_setting id,
                       struct sl_dynamo_url *ret, struct sl_diag *diag)
{
    struct sl_diag why = {0};

    if (!sl_dynamo_url_read(sl_str_c(s->values[id].text), &s->arena, ret, &why))
        return 0;
    return refuse(s, id, diag, "%s", why.sentence);
}

static int read_store(struct sl_settings *s, struct sl_diag *diag)
{
    const char *text;
    int status = resolve_value(s, SL_SET_store, "memory:", diag);

    if (status)
        return status;
    text = s->values[SL_SET_store].text;
    s->in_dynamo = begins(text, "dynamodb:");
    s->shared = s->in_dynamo || begins(text, "redis");
    if (s->shared)
        return s->in_dynamo ? read_dynamo(s, SL_SET_store, &s->dynamo, diag)
                            : read_redis(s, diag);
    if (s->state)
        return refuse(s, SL_SET_state, diag,
                      "this store keeps its state itself; write "
                      "store: \"memory:%s\" instead",
                      s->values[SL_SET_state].text);
    s->state = text[strlen("memory:")] ? text + strlen("memory:") : NULL;
    return 0;
}

static int read_usage(struct sl_settings *s, struct sl_diag *diag)
{
    const char *text = s->values[SL_SET_usage].text;
    char shown[SL_PG_SHOWN];
    struct sl_diag why = {0};
    int status = 0;

    s->in_postgres = begins(text, "postgres:");
    s->subjects_in_dynamo = begins(text, "dynamodb:");
    if (s->subjects_in_dynamo)
        return read_dynamo(s, SL_SET_usage, &s->subjects, diag);
    if (s->in_postgres) {
        s->registry = text;
        s->leases = s->shared_registry = true;
        return sl_pg_url(text, shown, &why)
                   ? refuse(s, SL_SET_usage, diag, "%s", why.sentence)
                   : 0;
    }
    if (strcmp(text, USAGE_IN_MEMORY) != 0)
        status = resolve_value(s, SL_SET_usage, "sqlite:", diag);
    text = s->values[SL_SET_usage].text;
    if (!status && begins(text, "sqlite:")) {
        s->registry = text + strlen("sqlite:");
        s->shared_registry = ends_with(s->registry, "?shared");
        s->leases = s->shared_registry ||
                    (s->shared && strcmp(text, USAGE_IN_MEMORY) != 0);
    }
    return status;
}

static int check_state(struct sl_settings *s, struct sl_diag *diag)
{
    if (!s->shared || !s->state || s->leases)
        return 0;
    return refuse(s, SL_SET_state, diag,
                  "the file would have the leases of quotas, which need a "
                  "usage database; set usage as well, or remove state");
}

/* A process that only sends works beside others: it shares their database, and
 * has no state file. */
static int check_only(struct sl_settings *s, struct sl_diag *diag)
{
    if (s->only != SL_ONLY_WEBHOOKS)
        return 0;
    if (!s->shared_registry)
        return refuse(s, SL_SET_only, diag,
                      "a process that only sends webhooks needs the usage "
                      "database of the others; set usage to postgres://... or "
                      "sqlite:PATH?shared");
    s->state = NULL;
    return 0;
}

/* The journal is beside the state file or, without one, beside the database
 * file. */
static int find_journal(struct sl_settings *s, struct sl_diag *diag)
{
    const char *beside = s->state;
    char path[8192];
    int len;

    if (!beside && !s->in_postgres && strcmp(s->registry, ":memory:") != 0)
        beside = s->registry;
    if (!beside)
        return 0;
    s->shared_journal = !s->state && s->shared_registry;
    len = (int)strlen(beside);
    if (s->shared_journal)
        len -= (int)strlen("?shared");
    if (snprintf(path, sizeof(path), "%.*s.usage", len, beside) <
        (int)sizeof(path))
        s->journal = sl_arena_copy(&s->arena, sl_str_c(path));
    return s->journal ? 0
                      : refuse(s, SL_SET_journal, diag, "the path is too long");
}

static int read_journal(struct sl_settings *s, struct sl_diag *diag)
{
    const char *text = s->values[SL_SET_journal].text;
    const char *size = strstr(text, "?size=");
    struct sl_str path = {text, size ? (size_t)(size - text) : strlen(text)};
    struct sl_diag why = {0};

    s->journal_size = SL_JOURNAL_SIZE;
    if (size && sl_parse_size(sl_str_c(size + strlen("?size=")),
                              &s->journal_size, &why))
        return refuse_text(s, SL_SET_journal, &why, diag);
    if (s->journal_size < SL_JOURNAL_LEAST || s->journal_size > SL_JOURNAL_MOST)
        return refuse(s, SL_SET_journal, diag,
                      "the size of the journal must be between 1MiB and 16GiB, "
                      "not %s; the default is 64MiB",
                      size ? size + strlen("?size=") : "");
    if (!s->registry || sl_str_eq(path, SL_STR("none")))
        return 0;
    if (path.len == 0 || sl_str_eq(path, SL_STR("auto")))
        return find_journal(s, diag);
    s->journal = sl_arena_copy(&s->arena, path);
    return s->journal ? resolve(s, SL_SET_journal, "", &s->journal, diag)
                      : sl_diag_error(diag, SL_EXIT_FAILED, "out of memory");
}

static int check_deadline(struct sl_settings *s, struct sl_diag *diag)
{
    if ((!s->shared && !s->in_postgres && !s->subjects_in_dynamo) ||
        (s->deadline >= SL_DEADLINE_LEAST && s->deadline <= SL_DEADLINE_MOST))
        return 0;
    return refuse(
        s, SL_SET_deadline, diag,
        "the deadline must be between 1ms and 10s, not %s; the default is 20ms",
        s->values[SL_SET_deadline].text);
}

/* ---- all of them ---- */

int sl_settings_make(struct sl_settings *settings,
                     const struct sl_setting_source *source,
                     const struct sl_server_conf *server, const char *path,
                     struct sl_diag *diag)
{
    static int (*const steps[])(struct sl_settings *, struct sl_diag *) = {
        check_schemes,   read_fields,    read_store,   read_usage,
        check_state,     check_only,     read_journal, read_listeners,
        close_others,    check_deadline, check_tls,    check_read_token,
        check_listeners,
    };
    int status = 0;

    memset(settings, 0, sizeof(*settings));
    sl_arena_init(&settings->arena, ARENA_MOST, &sl_alloc_libc);
    settings->policy = path;
    for (enum sl_setting i = 0; i < SL_SETTINGS; i++) {
        settings->values[i] = choose(settings, source, server, i);
        if (!settings->values[i].text)
            return sl_diag_error(diag, SL_EXIT_FAILED, "out of memory");
    }
    for (size_t i = 0; i < SL_LEN(steps) && !status; i++)
        status = steps[i](settings, diag);
    return status;
}

void sl_settings_done(struct sl_settings *settings)
{
    sl_arena_done(&settings->arena);
}
