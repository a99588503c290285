/* policy_source.c -- policy texts without secrets; reading policies.
 *
 * A secret can be quoted, escaped or in a block, so searching for its bytes is
 * not enough. The value of each secret key is masked up to the end of its line.
 * If it continues, the deeper lines are masked too.
 */
#include "sluiced/policy_source.h"

#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/log.h"
#include "policy/envoy.h"
#include "sluiced/daemon.h"

#define MASK "********"

/* Of the last two only user and password are masked: the rest of the URL helps
 * to find mistakes. */
static const char *const keys[] = {"access_token", "admin_token", "secret",
                                   "store", "usage"};
#define URLS 3 /* index of the first URL */

static bool is_word(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           (c >= '0' && c <= '9') || c == '_' || c == '-';
}

static size_t skip(struct sl_str line, size_t at, const char *what)
{
    while (at < line.len && strchr(what, line.at[at]) && line.at[at])
        at++;
    return at;
}

/* Finds the key of a secret in the line at or after `from`. *ret is the start
 * of its value, *url whether only a part of it is secret. */
static bool find_value(struct sl_str line, size_t from, size_t *ret, bool *url)
{
    for (size_t at = from; at < line.len; at++)
        for (size_t k = 0; k < SL_LEN(keys); k++) {
            size_t len = strlen(keys[k]), end = at + len;

            if (end > line.len || memcmp(line.at + at, keys[k], len) != 0 ||
                (at > 0 && is_word(line.at[at - 1])))
                continue;
            end = skip(line, end, "\"' \t");
            if (end < line.len && line.at[end] == ':') {
                *ret = skip(line, end + 1, " \t");
                *url = k >= URLS;
                return true;
            }
        }
    return false;
}

/* Returns the length, with quotes, of a reference to an external value:
 * "${FILE:./token}", or 0. */
static size_t reference(struct sl_str value)
{
    char quote = value.len > 0 ? value.at[0] : '\0';
    const char *end;

    if ((quote != '"' && quote != '\'') || value.len < 4 ||
        memcmp(value.at + 1, "${", 2) != 0)
        return 0;
    end = memchr(value.at, '}', value.len);
    if (!end || end + 1 == value.at + value.len || end[1] != quote)
        return 0;
    return (size_t)(end + 2 - value.at);
}

/* Returns the length of a quoted value that ends on its line, or 0. */
static size_t whole(struct sl_str value)
{
    char quote = value.len > 0 ? value.at[0] : '\0';

    if (quote != '"' && quote != '\'')
        return 0;
    for (size_t at = 1; at < value.len; at++) {
        bool twice = quote == '\'' && value.at[at] == quote &&
                     at + 1 < value.len && value.at[at + 1] == quote;

        if (twice || (quote == '"' && value.at[at] == '\\'))
            at++; /* a quote in single quotes, or an escaped character */
        else if (value.at[at] == quote)
            return at + 1;
    }
    return 0;
}

static size_t indent_of(struct sl_str line)
{
    return skip(line, 0, " ");
}

static bool is_blank(struct sl_str line)
{
    return skip(line, 0, " \t\r") == line.len;
}

/* ---- writing ---- */

/* Adds text, with the secrets masked. */
static int add_plain(struct sl_str text, const struct sl_str *secrets,
                     unsigned count, struct sl_buf *out)
{
    int err = 0;

    for (size_t at = 0; at < text.len && !err;) {
        size_t hit = 0;

        for (unsigned i = 0; i < count && !hit; i++)
            if (secrets[i].len > 0 && secrets[i].len <= text.len - at &&
                memcmp(text.at + at, secrets[i].at, secrets[i].len) == 0)
                hit = secrets[i].len;
        err = hit ? sl_buf_add(out, SL_STR(MASK))
                  : sl_buf_add(out, (struct sl_str){text.at + at, 1});
        at += hit ? hit : 1;
    }
    return err;
}

struct job {
    const struct sl_str *secrets;
    unsigned count;
    struct sl_buf *out;
    bool swallowing; /* lines deeper than `depth` belong to a masked value */
    size_t depth;
    bool awaits; /* a URL may be on the next line */
};

/* Masks the value at the start of `rest`; *ret is its length on this line. */
static int add_value(struct job *job, struct sl_str line, struct sl_str rest,
                     size_t *ret)
{
    *ret = reference(rest);
    if (*ret > 0)
        return sl_buf_add(job->out, (struct sl_str){rest.at, *ret});
    *ret = whole(rest);
    if (*ret == 0) {
        job->swallowing = true;
        job->depth = indent_of(line);
        *ret = rest.len;
    }
    return sl_buf_add(job->out, SL_STR(MASK));
}

/* Returns the length of a URL that ends on its line: in quotes, or up to a
 * space; 0 if it may continue below. */
static size_t url_len(struct sl_str rest)
{
    size_t len = 0;

    if (rest.len == 0 || strchr("{[&*!|>", rest.at[0]))
        return 0;
    if (strchr("\"'", rest.at[0]))
        return whole(rest);
    while (len < rest.len && !strchr(" \t\r", rest.at[len]))
        len++;
    return len;
}

static bool goes_on_below(struct sl_str rest)
{
    return rest.len > 0 && strchr("\"'|>", rest.at[0]);
}

static bool has(struct sl_str text, const char *what)
{
    return text.len > 0 && memmem(text.at, text.len, what, strlen(what));
}

/* Masks the user and password before the last '@' of a URL. A URL with a
 * password after it is masked as a whole. */
static int add_url(struct job *job, struct sl_str line, struct sl_str rest,
                   size_t *ret)
{
    struct sl_str url = {rest.at, url_len(rest)};
    const char *slashes, *at;

    *ret = url.len;
    if (url.len == 0) {
        if (goes_on_below(rest)) /* like any other secret */
            return add_value(job, line, rest, ret);
        job->awaits = rest.len == 0;
        return 0; /* a map: there may be more in it */
    }
    if (has(url, "password"))
        return sl_buf_add(job->out, SL_STR(MASK));
    at = memrchr(url.at, '@', url.len);
    slashes = memmem(url.at, url.len, "://", 3);
    if (!at || !slashes || at < slashes)
        return add_plain(url, job->secrets, job->count, job->out);
    if (sl_buf_add(job->out,
                   (struct sl_str){url.at, (size_t)(slashes + 3 - url.at)}) ||
        sl_buf_add(job->out, SL_STR(MASK)))
        return SLUICE_ENOMEM;
    return add_plain(sl_str_from(url, (size_t)(at - url.at)), job->secrets,
                     job->count, job->out);
}

/* A URL, or a scalar that may continue as one; not a key. */
static bool is_url(struct sl_str rest)
{
    return goes_on_below(rest) || has(rest, "://");
}

static int add_line(struct job *job, struct sl_str line)
{
    size_t at = 0, value, len;
    bool url;
    int err = 0;

    if (job->awaits && !is_blank(line)) {
        job->awaits = false;
        at = indent_of(line);
        err = sl_buf_add(job->out, (struct sl_str){line.at, at});
        if (!err && is_url(sl_str_from(line, at))) {
            err = add_url(job, line, sl_str_from(line, at), &len);
            at += len;
        }
    }
    while (!err && find_value(line, at, &value, &url)) {
        err = add_plain((struct sl_str){line.at + at, value - at}, job->secrets,
                        job->count, job->out);
        if (!err && url)
            err = add_url(job, line, sl_str_from(line, value), &len);
        else if (!err)
            err = add_value(job, line, sl_str_from(line, value), &len);
        if (!err)
            at = value + len;
    }
    return err ? err
               : add_plain(sl_str_from(line, at), job->secrets, job->count,
                           job->out);
}

int sl_redact(struct sl_str text, const struct sl_str *secrets, unsigned count,
              struct sl_buf *out)
{
    struct job job = {.secrets = secrets, .count = count, .out = out};
    int err = 0;

    while (text.len > 0 && !err) {
        const char *end = memchr(text.at, '\n', text.len);
        struct sl_str line = {text.at,
                              end ? (size_t)(end - text.at) : text.len};
        bool more =
            job.swallowing && (is_blank(line) || indent_of(line) > job.depth);

        job.swallowing = more;
        if (!more)
            err = add_line(&job, line);
        if (!err && end && !more)
            err = sl_buf_add(out, SL_STR("\n"));
        text = sl_str_from(text, line.len + (end ? 1 : 0));
    }
    return err;
}

/* ---- a policy and its text. */

#define SECRET_MOST ((size_t)64 * 1024)
#define PATH_MOST   4096

struct reading {
    const char *path;
    bool posted;
};

/* Variables of features are read for posted policies too. */
static const char *on_env(void *ctx, const char *name)
{
    const struct reading *reading = ctx;

    if (reading->posted && strncmp(name, "FEATURE_", 8) != 0)
        return NULL;
    return getenv(name);
}

static int on_file(void *ctx, const char *path, struct sl_buf *out,
                   struct sl_diag *diag)
{
    const struct reading *reading = ctx;
    const char *from = reading->path ? reading->path : "";
    const char *slash = path[0] == '/' ? NULL : strrchr(from, '/');
    char whole[PATH_MOST];

    if (reading->posted)
        return sl_diag_error(
            diag, SLUICE_ECONF,
            "a policy sent with POST cannot read files; put it in "
            "the policy file and reload that file");
    if (snprintf(whole, sizeof(whole), "%.*s%s",
                 slash ? (int)(slash - from) + 1 : 0, from, path) >= PATH_MOST)
        return sl_diag_error(diag, SLUICE_ECONF,
                             "the name of the file is too long");
    return sl_file_read(whole, SECRET_MOST, out, diag);
}

static int read_text(struct sl_policy_source *written, const char *path,
                     const struct sl_str *posted, struct sl_diag *diag)
{
    struct sl_str text = posted ? *posted : sl_str_c(sl_demo_policy);
    int err;

    if (path && !posted) {
        err = sl_file_read(path, SL_YAML_BYTES, &written->text, diag);
        return err == SLUICE_EFULL ? 0 : err; /* the parser has a better
                                               * sentence */
    }
    if (text.len > SL_YAML_BYTES + 1)
        text.len = SL_YAML_BYTES + 1;
    err = sl_buf_add(&written->text, text);
    return err ? sl_diag_error(diag, err, "out of memory") : 0;
}

static void hash_text(struct sl_policy_source *written)
{
    unsigned char sum[EVP_MAX_MD_SIZE] = {0};
    unsigned len = 0;

    if (!EVP_Digest(written->text.len ? written->text.bytes : "",
                    written->text.len, sum, &len, EVP_sha256(), NULL))
        len = 0;
    for (unsigned i = 0; i < len && i < 32; i++)
        snprintf(written->hash + 2 * (size_t)i, 3, "%02x", sum[i]);
}

static int make(struct sl_policy_source *written, struct reading *reading,
                struct sl_report *report, struct sl_diag *diag)
{
    struct sl_policy_options options = {
        .substitute = {on_env, on_file, reading},
    };
    int err;

    hash_text(written);
    err = sl_policy_read(report, &options, &written->policy);
    if (err && report->errors == 0)
        sl_diag_error(diag, err, "out of memory");
    return err;
}

int sl_policy_source_make(struct sl_policy_source *written, const char *path,
                          struct sl_report *report, struct sl_diag *diag)
{
    struct reading reading = {path, false};

    sl_report_init(report, path, sl_buf_str(&written->text), &sl_alloc_libc);
    return make(written, &reading, report, diag);
}

int sl_policy_source_read(struct sl_policy_source *written, const char *path,
                          const struct sl_str *posted, struct sl_report *report,
                          struct sl_diag *diag)
{
    struct reading reading = {path, posted != NULL};
    int err;

    memset(written, 0, sizeof(*written));
    sl_buf_init(&written->text, SL_YAML_BYTES + 8192, &sl_alloc_libc);
    err = read_text(written, path, posted, diag);
    sl_report_init(report,
                   posted ? "posted"
                   : path ? path
                          : "demo",
                   sl_buf_str(&written->text), &sl_alloc_libc);
    return err ? err : make(written, &reading, report, diag);
}

void sl_policy_source_done(struct sl_policy_source *written)
{
    sl_policy_unref(written->policy);
    written->policy = NULL;
    if (written->text.ceiling > 0) /* otherwise nothing was read */
        sl_buf_done(&written->text);
}

/* Returns the password in scheme://user:password@host. */
static struct sl_str password_of(struct sl_str url)
{
    const char *at = url.len > 0 ? memrchr(url.at, '@', url.len) : NULL;
    const char *colon = NULL;

    if (at)
        colon = memmem(url.at, (size_t)(at - url.at), "://", 3);
    if (colon)
        colon = memchr(colon + 3, ':', (size_t)(at - colon - 3));
    if (!colon)
        return (struct sl_str){"", 0};
    return (struct sl_str){colon + 1, (size_t)(at - colon - 1)};
}

int sl_policy_source_print(const struct sl_policy_source *written,
                           struct sl_buf *out)
{
    const struct sl_server_conf *server = &written->policy->server;
    struct sl_str secrets[] = {server->access_token, server->admin_token,
                               written->policy->identity.jwt.secret,
                               password_of(server->store)};

    return sl_redact(sl_buf_str(&written->text), secrets, SL_LEN(secrets), out);
}

/* ---- the configuration of another program in place of a policy. */

#define ARENA_MOST ((size_t)64 << 20)

static const char *value_of(const struct sl_setting_source *given,
                            enum sl_setting id)
{
    return given->flags[id] ? given->flags[id] : given->variables[id];
}

int sl_compat_choose(const struct sl_setting_source *given, const char **ret,
                     struct sl_diag *diag)
{
    const char *compat = value_of(given, SL_SET_compat);
    const char *folder = value_of(given, SL_SET_config_dir);
    bool on = compat && strcmp(compat, "none") != 0;

    *ret = NULL;
    if (on && strcmp(compat, "envoy-ratelimit") != 0)
        sl_diag_error(
            diag, SLUICE_ECONF,
            "--compat %s: unknown program; write --compat envoy-ratelimit",
            compat);
    else if (on && !folder)
        sl_diag_error(
            diag, SLUICE_ECONF,
            "--compat %s: missing configuration; add --config-dir FOLDER",
            compat);
    else if (!on && folder)
        sl_diag_error(
            diag, SLUICE_ECONF,
            "--config-dir %s: missing program; add --compat envoy-ratelimit",
            folder);
    else if (on && value_of(given, SL_SET_policy))
        sl_diag_error(
            diag, SLUICE_ECONF,
            "--compat %s: a policy is given as well; remove one of them",
            compat);
    else {
        *ret = on ? folder : NULL;
        return 0;
    }
    return SL_EXIT_USAGE;
}

/* ---- reading ---- */

static void on_told(void *ctx, const struct sl_report *report)
{
    struct sl_diag *diag = ctx;

    for (unsigned i = 0; i < report->kept; i++) {
        const struct sl_diag *d = &report->problems[i].diag;
        char at[512];

        snprintf(at, sizeof(at), "%s:%u:%u", report->file, d->line, d->column);
        sl_log(report->problems[i].warning ? SL_LOG_WARN : SL_LOG_ERROR,
               "configuration refused", "at", at, "why", d->sentence, "write",
               d->hint[0] ? d->hint : NULL, NULL);
        if (!diag->sentence[0])
            sl_diag_error(diag, SLUICE_ECONF, "%s: %s", at, d->sentence);
    }
}

static int load(struct sl_envoy *envoy, const char *folder,
                struct sl_diag *diag)
{
    struct sl_diag first = {0};
    int err = sl_envoy_load(envoy, folder, on_told, &first, diag);

    if (err && first.sentence[0])
        sl_diag_error(diag, err, "%s", first.sentence);
    return err;
}

int sl_compat_read(struct sl_policy_source *written, const char *folder,
                   struct sl_report *report, struct sl_diag *diag)
{
    static struct sl_envoy envoy;
    struct sl_arena arena;
    int err;

    memset(written, 0, sizeof(*written));
    sl_buf_init(&written->text, SL_YAML_BYTES + 8192, &sl_alloc_libc);
    sl_report_init(report, folder, sl_buf_str(&written->text), &sl_alloc_libc);
    sl_arena_init(&arena, ARENA_MOST, &sl_alloc_libc);
    envoy.arena = &arena;
    err = load(&envoy, folder, diag);
    if (!err && sl_envoy_write(&envoy, &written->text))
        err = sl_diag_error(diag, SLUICE_ECONF,
                            "%s is too large to convert to a policy", folder);
    sl_arena_done(&arena);
    if (!err)
        err = sl_policy_source_make(written, folder, report, diag);
    if (!err) /* the generated policy has no warnings of its own */
        report->kept = report->warnings = 0;
    return err;
}

int sl_compat_dump(const char *folder, struct sl_buf *out)
{
    static struct sl_envoy envoy;
    struct sl_diag diag = {0};
    struct sl_arena arena;
    int err;

    sl_arena_init(&arena, ARENA_MOST, &sl_alloc_libc);
    envoy.arena = &arena;
    err = load(&envoy, folder, &diag);
    if (!err)
        err = sl_envoy_dump(&envoy, out);
    sl_arena_done(&arena);
    return err;
}
