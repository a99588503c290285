/* files.c -- the policy and the certificates, when their files change. */
#include "base/file.h"
#include "sluiced/daemon.h"

enum { FILE_POLICY, FILE_CERTIFICATE, FILE_KEY, FILE_CA, FILE_JWKS, FILES };

#define CERTIFICATES (1u << FILE_CERTIFICATE | 1u << FILE_KEY | 1u << FILE_CA)

/* Does the file say what is in force? */
static bool is_same(const struct sl_daemon *daemon)
{
    struct sl_diag why;
    struct sl_buf text;
    bool same;

    if (daemon->compat)
        return false; /* it is read to find out */
    sl_buf_init(&text, SL_YAML_BYTES + 8192, &sl_alloc_libc);
    same = sl_file_read(daemon->path, SL_YAML_BYTES, &text, &why) == 0 &&
           sl_str_eq(sl_buf_str(&text), sl_buf_str(&daemon->written.text));
    sl_buf_done(&text);
    return same;
}

static void renew_certificates(struct sl_daemon *daemon)
{
    struct sl_diag why = {0};

    if (sl_doors_certify(daemon, &daemon->latest, &why) == 0) {
        sl_log(SL_LOG_INFO, "certificates renewed", NULL);
        return;
    }
    daemon->reloads_bad++;
    sl_log(SL_LOG_ERROR, "certificates refused", "why", why.sentence, NULL);
}

static void on_change(void *ctx, unsigned changed)
{
    struct sl_daemon *daemon = ctx;
    bool policy = changed & (1u << FILE_POLICY), again;

    if (daemon->draining)
        return;
    /* One that was refused is read again also if it is what it was before:
     * somebody has taken the mistake back. */
    again = policy && !(daemon->reload_good && is_same(daemon));
    if (policy && !again)
        sl_log(SL_LOG_DEBUG, "policy unchanged", "file", daemon->path, NULL);
    if (again)
        sl_reload(daemon, SL_RELOAD_FILE, NULL, NULL);
    else if (changed & CERTIFICATES)
        renew_certificates(daemon);
    if (changed & (1u << FILE_JWKS)) /* also if the policy did, and stays */
        sl_jwks_read_again(daemon->jwks);
}

static void name_files(const struct sl_daemon *daemon,
                       const char *paths[static FILES])
{
    const struct sl_settings *s = &daemon->latest;

    paths[FILE_POLICY] = daemon->path;
    paths[FILE_CERTIFICATE] = s->tls_certificate;
    paths[FILE_KEY] = s->tls_key;
    paths[FILE_CA] = s->tls_client_ca;
    paths[FILE_JWKS] = sl_jwks_file(daemon->jwks);
}

static void open_watch(struct sl_daemon *daemon)
{
    const char *paths[FILES];
    struct sl_diag why = {0};

    if (!daemon->settings.watch ||
        (!daemon->path && !daemon->latest.tls_certificate))
        return;
    name_files(daemon, paths);
    if (sl_watch_open(daemon->workers[0].loop, paths, FILES, on_change, daemon,
                      &daemon->watch, &why))
        sl_log(SL_LOG_WARN, "file watch failed", "why", why.sentence, "instead",
               "send SIGHUP after a change", NULL);
}

int sl_files_begin(struct sl_daemon *daemon)
{
    open_watch(daemon);
    if (daemon->watch && daemon->path && !daemon->compat && !is_same(daemon))
        sl_reload(daemon, SL_RELOAD_FILE, NULL, NULL); /* while we started */
    return 0;
}

void sl_files_end(struct sl_daemon *daemon)
{
    sl_watch_close(daemon->watch);
    daemon->watch = NULL;
}

void sl_files_again(struct sl_daemon *daemon)
{
    const char *paths[FILES];

    if (!daemon->watch)
        return;
    name_files(daemon, paths);
    if (sl_watch_others(daemon->watch, paths, FILES))
        sl_log(SL_LOG_WARN, "file watch incomplete", "why",
               "the path of a file is too long", "instead",
               "send SIGHUP after a change", NULL);
}
