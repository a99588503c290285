/* written.c -- a policy and the text that it was made of. */
#include "sluiced/written.h"

#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "sluiced/demo.h"
#include "sluiced/redact.h"

#define SECRET_MOST ((size_t)64 * 1024)
#define PATH_MOST   4096

struct reading {
    const char *path;
    bool posted;
};

/* Features are switched by variables whoever wrote the text. */
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
        return sl_refuse(diag, SLUICE_ECONF,
                         "a policy sent with POST cannot read files; put it in "
                         "the policy file and reload that file");
    if (snprintf(whole, sizeof(whole), "%.*s%s",
                 slash ? (int)(slash - from) + 1 : 0, from, path) >= PATH_MOST)
        return sl_refuse(diag, SLUICE_ECONF,
                         "the name of the file is too long");
    return sl_file_read(whole, SECRET_MOST, out, diag);
}

static int read_text(struct sl_written *written, const char *path,
                     const struct sl_str *posted, struct sl_diag *diag)
{
    struct sl_str text = posted ? *posted : sl_str_c(sl_demo_policy);
    int err;

    if (path && !posted) {
        err = sl_file_read(path, SL_YAML_BYTES, &written->text, diag);
        return err == SLUICE_EFULL ? 0 : err; /* the reader says so better */
    }
    if (text.len > SL_YAML_BYTES + 1)
        text.len = SL_YAML_BYTES + 1;
    err = sl_buf_add(&written->text, text);
    return err ? sl_refuse(diag, err, "out of memory") : 0;
}

static void hash_text(struct sl_written *written)
{
    unsigned char sum[EVP_MAX_MD_SIZE] = {0};
    unsigned len = 0;

    if (!EVP_Digest(written->text.len ? written->text.bytes : "",
                    written->text.len, sum, &len, EVP_sha256(), NULL))
        len = 0;
    for (unsigned i = 0; i < len && i < 32; i++)
        snprintf(written->hash + 2 * (size_t)i, 3, "%02x", sum[i]);
}

static int make(struct sl_written *written, struct reading *reading,
                struct sl_report *report, struct sl_diag *diag)
{
    struct sl_policy_options options = {
        .substitute = {on_env, on_file, reading},
    };
    int err;

    hash_text(written);
    err = sl_policy_read(report, &options, &written->policy);
    if (err && report->errors == 0)
        sl_refuse(diag, err, "out of memory");
    return err;
}

int sl_written_make(struct sl_written *written, const char *path,
                    struct sl_report *report, struct sl_diag *diag)
{
    struct reading reading = {path, false};

    sl_report_init(report, path, sl_buf_str(&written->text), &sl_alloc_libc);
    return make(written, &reading, report, diag);
}

int sl_written_read(struct sl_written *written, const char *path,
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

void sl_written_done(struct sl_written *written)
{
    sl_policy_unref(written->policy);
    written->policy = NULL;
    if (written->text.ceiling > 0) /* or nothing was ever read */
        sl_buf_done(&written->text);
}

/* Of a URL as in scheme://user:password@host. */
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

int sl_written_print(const struct sl_written *written, struct sl_buf *out)
{
    const struct sl_server *server = &written->policy->server;
    struct sl_str secrets[] = {server->access_token, server->admin_token,
                               written->policy->identity.jwt.secret,
                               password_of(server->store)};

    return sl_redact(sl_buf_str(&written->text), secrets, SL_LEN(secrets), out);
}
