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
static const char *const keys[] = {
    "access_token", "admin_token", "admin_read_token",
    "secret",       "store",       "usage"};
#define URLS 4 /* index of the first URL */

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
static size_t reference_len(struct sl_str value)
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
static size_t quoted_len(struct sl_str value)
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

struct redaction {
    struct sl_writer w;
    const struct sl_str *secrets;
    unsigned count;
    bool swallowing; /* lines deeper than `depth` belong to a masked value */
    size_t depth;
    bool url_follows; /* a URL may be on the next line */
};

/* Adds text, with the secrets masked. */
static void add_plain(struct redaction *r, struct sl_str text)
{
    for (size_t at = 0; at < text.len;) {
        size_t hit = 0;

        for (unsigned i = 0; i < r->count && !hit; i++)
            if (r->secrets[i].len > 0 && r->secrets[i].len <= text.len - at &&
                memcmp(text.at + at, r->secrets[i].at, r->secrets[i].len) == 0)
                hit = r->secrets[i].len;
        sl_writer_add(&r->w,
                      hit ? SL_STR(MASK) : (struct sl_str){text.at + at, 1});
        at += hit ? hit : 1;
    }
}

/* Masks the value at the start of `rest`. Returns its length on this line. */
static size_t add_value(struct redaction *r, struct sl_str line,
                        struct sl_str rest)
{
    size_t len = reference_len(rest);

    if (len > 0) {
        sl_writer_add(&r->w, (struct sl_str){rest.at, len});
        return len;
    }
    sl_writer_add(&r->w, SL_STR(MASK));
    len = quoted_len(rest);
    if (len > 0)
        return len;
    r->swallowing = true;
    r->depth = indent_of(line);
    return rest.len;
}

/* Returns the length of a URL that ends on its line: in quotes, or up to a
 * space; 0 if it may continue below. */
static size_t url_len(struct sl_str rest)
{
    size_t len = 0;

    if (rest.len == 0 || strchr("{[&*!|>", rest.at[0]))
        return 0;
    if (strchr("\"'", rest.at[0]))
        return quoted_len(rest);
    while (len < rest.len && !strchr(" \t\r", rest.at[len]))
        len++;
    return len;
}

static bool continues_below(struct sl_str rest)
{
    return rest.len > 0 && strchr("\"'|>", rest.at[0]);
}

static bool has(struct sl_str text, const char *what)
{
    return text.len > 0 && memmem(text.at, text.len, what, strlen(what));
}

/* Masks the user and password before the last '@' of a URL. A URL with a
 * password after it is masked as a whole. Returns its length on this line. */
static size_t add_url(struct redaction *r, struct sl_str line,
                      struct sl_str rest)
{
    struct sl_str url = {rest.at, url_len(rest)};
    const char *slashes, *at;

    if (url.len == 0 && continues_below(rest)) /* like any other secret */
        return add_value(r, line, rest);
    if (url.len == 0) {
        r->url_follows = rest.len == 0;
        return 0; /* a map: there may be more in it */
    }
    at = memrchr(url.at, '@', url.len);
    slashes = memmem(url.at, url.len, "://", 3);
    if (has(url, "password")) {
        sl_writer_add(&r->w, SL_STR(MASK));
    } else if (!at || !slashes || at < slashes) {
        add_plain(r, url);
    } else {
        sl_writer_add(&r->w,
                      (struct sl_str){url.at, (size_t)(slashes + 3 - url.at)});
        sl_writer_add(&r->w, SL_STR(MASK));
        add_plain(r, sl_str_from(url, (size_t)(at - url.at)));
    }
    return url.len;
}

static void add_line(struct redaction *r, struct sl_str line)
{
    size_t at = 0, value;
    bool url;

    if (r->url_follows && !is_blank(line)) {
        struct sl_str rest = sl_str_from(line, indent_of(line));

        r->url_follows = false;
        at = indent_of(line);
        sl_writer_add(&r->w, (struct sl_str){line.at, at});
        /* A URL, or a scalar that may continue as one; not a key. */
        if (continues_below(rest) || has(rest, "://"))
            at += add_url(r, line, rest);
    }
    while (find_value(line, at, &value, &url)) {
        struct sl_str rest = sl_str_from(line, value);

        add_plain(r, (struct sl_str){line.at + at, value - at});
        at = value + (url ? add_url(r, line, rest) : add_value(r, line, rest));
    }
    add_plain(r, sl_str_from(line, at));
}

int sl_redact(struct sl_str text, const struct sl_str *secrets, unsigned count,
              struct sl_buf *out)
{
    struct redaction r = {
        {out, 0},
        secrets, count, false, 0, false
    };

    while (text.len > 0) {
        const char *end = memchr(text.at, '\n', text.len);
        struct sl_str line = {text.at,
                              end ? (size_t)(end - text.at) : text.len};

        r.swallowing =
            r.swallowing && (is_blank(line) || indent_of(line) > r.depth);
        if (!r.swallowing) {
            add_line(&r, line);
            sl_writer_add(&r.w, end ? SL_STR("\n") : SL_STR(""));
        }
        text = sl_str_from(text, line.len + (end ? 1 : 0));
    }
    return r.w.err;
}

/* ---- a policy and its text. */

#define SECRET_MOST ((size_t)64 * 1024)
#define PATH_MOST   4096
#define ARENA_MOST  ((size_t)64 << 20)

struct reading {
    const char *path;
    bool posted;
    const struct sl_policy *active; /* posted: what it may read */
    struct sl_policy_source *source;
};

/* Variables of features are read for posted policies too. */
static const char *on_env(void *ctx, const char *name)
{
    const struct reading *reading = ctx;

    if (reading->posted && strncmp(name, "FEATURE_", 8) != 0 &&
        !sl_policy_refers(reading->active, "ENV", sl_str_c(name)))
        return "";
    return getenv(name);
}

/* The hash only tells whether a file has changed: it needs no secret. */
static struct sl_hash128 hash_of(struct sl_str text)
{
    static const struct sl_hash_key key = {1, 2};

    return sl_hash128(&key, text);
}

/* Remembers a file that was read, for sl_policy_source_files_same(). */
static int remember(struct sl_policy_source *source, const char *path,
                    struct sl_str text)
{
    struct sl_policy_file *file = &source->files[source->file_count];
    size_t len = strlen(path) + 1;

    for (unsigned i = 0; i < source->file_count; i++)
        if (strcmp(source->files[i].path, path) == 0)
            return 0;
    source->files_left = source->file_count == SL_POLICY_FILES;
    if (source->files_left)
        return 0;
    file->path = sl_alloc_new(&sl_alloc_libc, len);
    if (!file->path)
        return SLUICE_ENOMEM;
    memcpy(file->path, path, len);
    file->hash = hash_of(text);
    source->file_count++;
    return 0;
}

static int on_file(void *ctx, const char *path, struct sl_buf *out,
                   struct sl_diag *diag)
{
    const struct reading *reading = ctx;
    const char *from = reading->path ? reading->path : "";
    const char *slash = path[0] == '/' ? NULL : strrchr(from, '/');
    size_t before = out->len;
    char whole[PATH_MOST];
    int err;

    if (reading->posted &&
        !sl_policy_refers(reading->active, "FILE", sl_str_c(path)))
        return 0; /* sl_policy_read() refuses the value */
    if (snprintf(whole, sizeof(whole), "%.*s%s",
                 slash ? (int)(slash - from) + 1 : 0, from, path) >= PATH_MOST)
        return sl_diag_error(diag, SLUICE_ECONF,
                             "the name of the file is too long");
    err = sl_file_read(whole, SECRET_MOST, out, diag);
    if (err)
        return err;
    return remember(reading->source, whole,
                    sl_str_from(sl_buf_str(out), before));
}

bool sl_policy_source_files_same(const struct sl_policy_source *source)
{
    struct sl_diag why;
    struct sl_buf text;
    bool same = true;

    sl_buf_init(&text, SECRET_MOST + 2, &sl_alloc_libc);
    for (unsigned i = 0; i < source->file_count && same; i++) {
        sl_buf_clear(&text);
        same = sl_file_read(source->files[i].path, SECRET_MOST, &text, &why) ==
                   0 &&
               sl_hash128_eq(hash_of(sl_buf_str(&text)), source->files[i].hash);
    }
    sl_buf_done(&text);
    return same;
}

/* Hashes the text and makes the policy of it. */
static int make(struct sl_policy_source *source, struct reading reading,
                struct sl_report *report, struct sl_diag *diag)
{
    struct sl_policy_options options = {
        .substitute = {on_env, on_file, &reading},
        .posted = reading.posted,
        .active = reading.active,
    };
    unsigned char sum[EVP_MAX_MD_SIZE] = {0};
    unsigned len = 0;
    int err;

    if (!EVP_Digest(source->text.len ? source->text.bytes : "",
                    source->text.len, sum, &len, EVP_sha256(), NULL))
        len = 0;
    for (unsigned i = 0; i < len && i < 32; i++)
        snprintf(source->hash + 2 * (size_t)i, 3, "%02x", sum[i]);
    err = sl_policy_read(report, &options, &source->policy);
    if (err && report->errors == 0)
        sl_diag_error(diag, err, "out of memory");
    return err;
}

static void init(struct sl_policy_source *source)
{
    memset(source, 0, sizeof(*source));
    sl_buf_init(&source->text, SL_YAML_BYTES + 8192, &sl_alloc_libc);
}

int sl_policy_source_read(struct sl_policy_source *source, const char *path,
                          const struct sl_str *posted,
                          const struct sl_policy *active,
                          struct sl_report *report, struct sl_diag *diag)
{
    struct sl_str text = posted ? *posted : sl_str_c(sl_demo_policy);
    const char *name = posted ? "posted" : path ? path : "demo";
    int err;

    init(source);
    if (path && !posted) {
        err = sl_file_read(path, SL_YAML_BYTES, &source->text, diag);
        if (err == SLUICE_EFULL)
            err = 0; /* the parser has a better sentence */
    } else {
        if (text.len > SL_YAML_BYTES + 1)
            text.len = SL_YAML_BYTES + 1;
        err = sl_buf_add(&source->text, text);
        if (err)
            sl_diag_error(diag, err, "out of memory");
    }
    sl_report_init(report, name, sl_buf_str(&source->text), &sl_alloc_libc);
    return err ? err
               : make(source,
                      (struct reading){path, posted != NULL, active, source},
                      report, diag);
}

void sl_policy_source_done(struct sl_policy_source *source)
{
    sl_policy_unref(source->policy);
    source->policy = NULL;
    for (unsigned i = 0; i < source->file_count; i++)
        sl_alloc_free(&sl_alloc_libc, source->files[i].path,
                      strlen(source->files[i].path) + 1);
    source->file_count = 0;
    if (source->text.ceiling > 0) /* otherwise nothing was read */
        sl_buf_done(&source->text);
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

int sl_policy_source_print(const struct sl_policy_source *source,
                           struct sl_buf *out)
{
    const struct sl_server_conf *server = &source->policy->server;
    struct sl_str secrets[] = {
        server->access_token, server->admin_token, server->admin_read_token,
        source->policy->identity.jwt.secret, password_of(server->store)};

    return sl_redact(sl_buf_str(&source->text), secrets, SL_LEN(secrets), out);
}

/* ---- the configuration of another program in place of a policy. */

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

    *ret = on ? folder : NULL;
    if (on && strcmp(compat, "envoy-ratelimit") != 0)
        return sl_diag_error(
            diag, SL_EXIT_USAGE,
            "--compat %s: unknown program; write --compat envoy-ratelimit",
            compat);
    if (on && !folder)
        return sl_diag_error(
            diag, SL_EXIT_USAGE,
            "--compat %s: missing configuration; add --config-dir FOLDER",
            compat);
    if (!on && folder)
        return sl_diag_error(
            diag, SL_EXIT_USAGE,
            "--config-dir %s: missing program; add --compat envoy-ratelimit",
            folder);
    if (on && value_of(given, SL_SET_policy))
        return sl_diag_error(
            diag, SL_EXIT_USAGE,
            "--compat %s: a policy is given as well; remove one of them",
            compat);
    return 0;
}

/* What the files of a folder have told. */
struct problems {
    struct sl_diag first; /* error */
    unsigned count;
};

#define PROBLEMS_LOGGED 10 /* at once; sl_log() drops more of a kind */

static void on_problem(struct problems *all, const struct sl_report *report,
                       const struct sl_problem *problem)
{
    const struct sl_diag *d = &problem->diag;
    char at[512];

    snprintf(at, sizeof(at), "%s:%u:%u", report->file, d->line, d->column);
    if (all->count++ < PROBLEMS_LOGGED)
        sl_log(problem->warning ? SL_LOG_WARN : SL_LOG_ERROR,
               problem->warning ? "configuration warning"
                                : "configuration refused",
               "at", at, "why", d->sentence, "write",
               d->hint[0] ? d->hint : NULL, NULL);
    if (!problem->warning && !all->first.sentence[0])
        sl_diag_error(&all->first, SLUICE_ECONF, "%s: %s", at, d->sentence);
}

static void on_problems(void *ctx, const struct sl_report *report)
{
    struct problems *all = ctx;

    for (unsigned i = 0; i < report->kept; i++)
        on_problem(all, report, &report->problems[i]);
    all->count += report->errors + report->warnings - report->kept;
}

static void log_rest(const struct problems *all, const char *folder)
{
    char count[16], all_of_them[512];

    if (all->count <= PROBLEMS_LOGGED)
        return;
    snprintf(count, sizeof(count), "%u", all->count - PROBLEMS_LOGGED);
    snprintf(all_of_them, sizeof(all_of_them),
             "sluice import envoy-ratelimit %s", folder);
    sl_log(SL_LOG_WARN, "configuration has more problems", "count", count,
           "run", all_of_them, NULL);
}

/* /rlconfig reads the folder again. Its problems were logged at the reload. */
static void on_known_problems(void *ctx, const struct sl_report *report)
{
    (void)ctx;
    (void)report;
}

/* Reads the folder, and writes a policy or, for `dump`, what /rlconfig shows.
 */
static int convert(const char *folder, bool dump, struct sl_buf *out,
                   struct sl_diag *diag)
{
    static struct sl_envoy envoy;
    struct problems all = {0};
    struct sl_arena arena;
    int err;

    sl_arena_init(&arena, ARENA_MOST, &sl_alloc_libc);
    envoy.arena = &arena;
    err = sl_envoy_load(&envoy, folder, dump ? on_known_problems : on_problems,
                        &all, diag);
    log_rest(&all, folder);
    if (err && all.first.sentence[0])
        sl_diag_error(diag, err, "%s", all.first.sentence);
    if (!err && dump)
        err = sl_envoy_dump(&envoy, out);
    else if (!err && sl_envoy_write(&envoy, out))
        err = sl_diag_error(diag, SLUICE_ECONF,
                            "%s is too large to convert to a policy", folder);
    sl_arena_done(&arena);
    return err;
}

int sl_compat_read(struct sl_policy_source *source, const char *folder,
                   struct sl_report *report, struct sl_diag *diag)
{
    int err;

    init(source);
    err = convert(folder, false, &source->text, diag);
    sl_report_init(report, folder, sl_buf_str(&source->text), &sl_alloc_libc);
    if (!err)
        err = make(source, (struct reading){folder, false, NULL, source},
                   report, diag);
    if (!err) /* the generated policy has no warnings of its own */
        report->kept = report->warnings = 0;
    return err;
}

int sl_compat_dump(const char *folder, struct sl_buf *out)
{
    struct sl_diag diag = {0};

    return convert(folder, true, out, &diag);
}
