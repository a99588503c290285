/* nginx_import.c -- `sluice import nginx`: files and messages. */
#include <glob.h>
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/nginx.h"

#define POLICY_BYTES (1024 * 1024)
#define ARENA_BYTES  (256 * 1024 * 1024)

struct import {
    struct sl_cli_args *args;
    struct sl_arena *arena;
    const char *path; /* of the first file */
};

static void on_tell(void *ctx, const char *file, unsigned line,
                    const char *sentence)
{
    struct import *import = ctx;

    sl_out_print(import->args->cli->err, "%s:%u: %s\n", file, line, sentence);
}

/* A file as text in the arena, with its name. */
static int load(struct import *import, const char *path, struct sl_str *text,
                const char **name, struct sl_diag *diag)
{
    struct sl_buf buf;
    char *copy = NULL;
    int err;

    sl_buf_init(&buf, SL_NGINX_BYTES + 1, &sl_alloc_libc);
    err = sl_file_read(path, SL_NGINX_BYTES, &buf, diag);
    if (!err) {
        *name = sl_arena_copy(import->arena, sl_str_c(path));
        copy = sl_arena_copy(import->arena, sl_buf_str(&buf));
        *text = (struct sl_str){copy, buf.len};
        err = *name && copy ? 0 : SLUICE_ENOMEM;
    }
    if (err == SLUICE_EFULL)
        err = sl_diag_error(diag, SLUICE_EFULL, "%s is larger than 1 MB", path);
    sl_buf_done(&buf);
    return err;
}

static int read_file(struct import *import, struct sl_nginx *nginx,
                     struct sl_nginx_block *into, const char *path,
                     struct sl_diag *diag)
{
    struct sl_str text = {0};
    const char *name = NULL;
    int err = load(import, path, &text, &name, diag);

    return err ? err : sl_nginx_read(nginx, into, name, text, diag);
}

/* Names are relative to the folder of the first file, as in nginx. */
static int on_include(void *ctx, struct sl_nginx *nginx,
                      struct sl_nginx_block *into, const char *pattern,
                      struct sl_diag *diag)
{
    struct import *import = ctx;
    const char *slash = strrchr(import->path, '/');
    char path[4096];
    glob_t found;
    int len, err = 0;

    len = pattern[0] == '/' || !slash
              ? snprintf(path, sizeof(path), "%s", pattern)
              : snprintf(path, sizeof(path), "%.*s/%s",
                         (int)(slash - import->path), import->path, pattern);
    if (len < 0 || (size_t)len >= sizeof(path))
        return sl_diag_error(diag, SLUICE_ECONF,
                             "the name of an included file is too long");
    if (glob(path, 0, NULL, &found) != 0)
        return strpbrk(path, "*?[") ? 0 : SLUICE_ENOENT;
    for (size_t i = 0; i < found.gl_pathc && !err; i++)
        err = read_file(import, nginx, into, found.gl_pathv[i], diag);
    globfree(&found);
    return err;
}

static int report(struct import *import, int err, struct sl_diag *diag)
{
    struct sl_cli_args *args = import->args;
    char words[1024];

    switch (err) {
    case 0:
        return SL_EXIT_OK;
    case SLUICE_ENOENT:
        return sl_cli_fail(args, "%s has no limit_req and no limit_conn",
                           import->path);
    case SLUICE_ENOMEM:
        return sl_cli_no_memory(args);
    default:
        if (!diag->sentence[0])
            return sl_cli_fail(args, "the policy would be too long");
        if (!diag->line)
            return sl_cli_fail(args, "%s", diag->sentence);
        sl_diag_print(diag, (struct sl_str){NULL, 0}, words, sizeof(words));
        fprintf(args->cli->err, "%s\n", words);
        return SL_EXIT_FAILED;
    }
}

int sl_import_nginx(struct sl_cli_args *args, const char *path)
{
    static struct sl_nginx nginx;
    struct import import = {.args = args, .path = path};
    struct sl_diag diag = {0};
    struct sl_arena arena;
    struct sl_buf out;
    int err;

    sl_arena_init(&arena, ARENA_BYTES, &sl_alloc_libc);
    sl_buf_init(&out, POLICY_BYTES, &sl_alloc_libc);
    import.arena = &arena;
    nginx = (struct sl_nginx){.arena = &arena,
                              .tell = on_tell,
                              .include = on_include,
                              .ctx = &import};
    sl_nginx_init(&nginx);
    err = read_file(&import, &nginx, &nginx.top, path, &diag);
    if (!err)
        err = sl_nginx_write(&nginx, &out);
    if (!err)
        fwrite(out.bytes, 1, out.len, args->cli->out);
    err = report(&import, err, &diag);
    sl_buf_done(&out);
    sl_arena_done(&arena);
    return err;
}
