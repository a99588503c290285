/* jwks.c -- `sluice jwks fetch`: keys from a URL into a file.
 *
 * Workers of nginx read keys from a file and fetch none. A timer runs this. It
 * replaces the file as a whole, and only by keys that can be used.
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/cli.h"
#include "identity/jwt.h"
#include "policy/policy.h"
#include "sluice.h"

#define PATH_BYTES 2048 /* of the URL */

struct fetch {
    struct sl_cli_args *args;
    const char *url, *file;
    char path[PATH_BYTES]; /* of the URL */
    struct sl_daemon_client client;
    struct sl_diag diag; /* of the client */
    struct sl_str keys;  /* the answer */
    unsigned count;
};

/* ---- the URL ---- */

/* HOST or [HOST], with :PORT or without. */
static bool has_port(struct sl_str server)
{
    const char *end = memrchr(server.at, ']', server.len);
    size_t from = end ? (size_t)(end - server.at) : 0;

    return memchr(server.at + from, ':', server.len - from) != NULL;
}

/* Sets server and path. Does not connect. */
static int read_url(struct fetch *f)
{
    const char *why = sl_jwks_url_error(sl_str_c(f->url));
    bool https = strncmp(f->url, "https://", 8) == 0;
    const char *host = f->url + (https ? 8 : 7), *path;
    struct sl_str server;
    char with_port[300];

    if (why)
        return sl_cli_misuse(f->args, "\"%s\" %s", f->url, why);
    path = host + strcspn(host, "/?#");
    server = (struct sl_str){host, (size_t)(path - host)};
    if (server.len > 255 || strlen(path) > PATH_BYTES - 2)
        return sl_cli_misuse(f->args, "the URL is too long");
    snprintf(f->path, sizeof(f->path), "%s%.*s", *path == '/' ? "" : "/",
             (int)strcspn(path, "#"), path);
    snprintf(with_port, sizeof(with_port), "http%s://%.*s%s", https ? "s" : "",
             SL_STR_ARG(server),
             has_port(server) ? ""
             : https          ? ":443"
                              : ":80");
    if (sl_daemon_client_init(&f->client, with_port, &sl_alloc_libc, &f->diag))
        return sl_cli_misuse(f->args, "\"%s\" has no valid port", f->url);
    /* The field Host has the server as it is written in the URL. */
    snprintf(f->client.where, sizeof(f->client.where), "%.*s",
             SL_STR_ARG(server));
    return 0;
}

/* ---- the keys ---- */

static int ask(struct fetch *f)
{
    const char *ca = sl_cli_flag(f->args, "ca");
    int code = 0, err;

    if (!ca)
        ca = getenv("SLUICE_CA");
    f->client.ca = ca && *ca ? ca : NULL;
    f->client.is_foreign = true;
    snprintf(f->client.fields, sizeof(f->client.fields),
             "User-Agent: sluice/%s\r\nAccept: application/json\r\n"
             "Connection: close\r\n",
             sluice_version());
    err = sl_daemon_client_ask(&f->client, "GET", f->path, SL_STR(""), &code,
                               &f->keys);
    if (err == SLUICE_ENOMEM)
        return sl_cli_no_memory(f->args);
    if (err)
        return sl_cli_error(f->args, SL_EXIT_UNREACHABLE, "%s",
                            f->diag.sentence);
    if (code >= 300 && code < 400)
        return sl_cli_fail(f->args,
                           "%s answers with status %d; redirects are not "
                           "followed: write the URL of the keys themselves",
                           f->client.where, code);
    if (code != 200)
        return sl_cli_fail(f->args, "%s answers with status %d",
                           f->client.where, code);
    return 0;
}

/* Keys that this Sluice cannot use do not replace those that it can. */
static int check(struct fetch *f)
{
    struct sl_diag diag = {.sentence = ""};
    struct sl_keyset *set = NULL;
    bool is_private;

    if (f->keys.len > SL_KEYSET_BYTES)
        return sl_cli_fail(f->args, "the answer has more than %zu KiB",
                           SL_KEYSET_BYTES >> 10);
    if (sl_keyset_read(f->keys, 0, &sl_alloc_libc, &set, &diag))
        return sl_cli_fail(f->args, "%s: %s", f->url, diag.sentence);
    f->count = sl_keyset_count(set);
    is_private = sl_keyset_has_private(set);
    sl_keyset_unref(set);
    if (is_private)
        return sl_cli_fail(f->args,
                           "%s has private keys; a JWKS must not contain them",
                           f->url);
    return 0;
}

/* ---- the file ---- */

static bool is_same(const struct fetch *f)
{
    struct sl_diag diag = {.sentence = ""};
    struct sl_buf old;
    bool same;

    sl_buf_init(&old, SL_KEYSET_BYTES + 1, &sl_alloc_libc);
    same = sl_file_read(f->file, SL_KEYSET_BYTES, &old, &diag) == 0 &&
           sl_str_eq(sl_buf_str(&old), f->keys);
    sl_buf_done(&old);
    return same;
}

static bool write_all(int fd, struct sl_str text)
{
    while (text.len > 0) {
        ssize_t wrote = write(fd, text.at, text.len);

        if (wrote < 0 && errno != EINTR)
            return false;
        text = sl_str_from(text, wrote > 0 ? (size_t)wrote : 0);
    }
    return true;
}

/* Keys are public: a new file can be read by all. The mode of one that is there
 * stays. Sets errno. */
static bool write_file(const struct fetch *f, char *beside)
{
    struct stat info;
    mode_t mode = stat(f->file, &info) == 0 ? info.st_mode & 0777 : 0644;
    int fd = mkstemp(beside);
    bool good;

    if (fd < 0)
        return false;
    good = write_all(fd, f->keys) && fchmod(fd, mode) == 0 && fsync(fd) == 0;
    good = close(fd) == 0 && good && rename(beside, f->file) == 0;
    if (!good) {
        int err = errno;

        unlink(beside);
        errno = err;
    }
    return good;
}

static int replace(const struct fetch *f)
{
    char beside[PATH_MAX];
    int len = snprintf(beside, sizeof(beside), "%s.XXXXXX", f->file);

    errno = ENAMETOOLONG;
    if (len > 0 && (size_t)len < sizeof(beside) && write_file(f, beside))
        return 0;
    return sl_cli_fail(f->args, "cannot write \"%s\": %s", f->file,
                       strerror(errno));
}

/* ---- the command ---- */

static int fetch(struct fetch *f)
{
    int status = ask(f);
    bool same;

    if (!status)
        status = check(f);
    if (status)
        return status;
    same = is_same(f);
    if (!same)
        status = replace(f);
    if (status)
        return status;
    sl_out_print(f->args->cli->out, "%s: %u %s, %s\n", f->file, f->count,
                 f->count == 1 ? "key" : "keys",
                 same ? "unchanged" : "written");
    return SL_EXIT_OK;
}

static int run(struct sl_cli_args *args)
{
    struct fetch f = {.args = args};
    int status;

    if (strcmp(args->words[0], "fetch") != 0)
        return sl_cli_misuse(args,
                             "unknown action \"%s\"; write: sluice jwks fetch "
                             "URL FILE",
                             args->words[0]);
    f.url = args->words[1];
    f.file = args->words[2];
    status = read_url(&f);
    if (!status) {
        status = fetch(&f);
        sl_daemon_client_done(&f.client);
    }
    return status;
}

static const struct sl_flag flags[] = {
    {'\0', "ca", "FILE", "CA certificates for an https:// URL, in PEM"},
    {'\0', NULL, NULL,   NULL                                         },
};

const struct sl_command sl_command_jwks = {
    .name = "jwks",
    .usage = "fetch URL FILE",
    .summary = "Fetch the keys of tokens into a file",
    .help = "Fetches a JWKS and replaces the file by it, if it has keys that\n"
            "verify tokens; otherwise the file stays as it is. The nginx\n"
            "module and sluiced read a file of keys again when it changes, so\n"
            "that a timer that runs this command follows the keys of an\n"
            "identity provider. Redirects are not followed, and http:// is\n"
            "allowed only on loopback.\n"
            "\n"
            "  sluice jwks fetch https://id.example/.well-known/jwks.json \\\n"
            "      /etc/sluice/jwks.json\n",
    .words = "fetch",
    .flags = flags,
    .least = 3,
    .most = 3,
    .run = run,
};
