/* import.c -- `sluice import`: convert the settings of another program. */
#include <string.h>

#include "cli/cli.h"
#include "cli/nginx.h"
#include "cli/spring.h"
#include "policy/envoy.h"

#define POLICY_BYTES (256 * 1024)
#define ARENA_BYTES  (64 * 1024 * 1024)

struct import {
    struct sl_cli_args *args;
    const char *path;
};

static void on_tell(void *ctx, unsigned line, const char *sentence)
{
    struct import *import = ctx;
    char number[16] = "";

    if (line)
        snprintf(number, sizeof(number), ":%u", line);
    sl_out_print(import->args->cli->err, "%s%s: %s\n", import->path, number,
                 sentence);
}

static bool ends_in(const char *text, const char *end)
{
    size_t len = strlen(text), tail = strlen(end);

    return len >= tail && strcmp(text + len - tail, end) == 0;
}

static int read_props(struct import *import, struct sl_str text,
                      struct sl_properties *props)
{
    struct sl_diag diag = {.file = import->path};
    bool yml = ends_in(import->path, ".yml") || ends_in(import->path, ".yaml");
    char words[1024];
    int err;

    if (text.len > SL_PROPERTIES_BYTES)
        return sl_cli_fail(import->args, "%s is larger than 1 MB",
                           import->path);
    err = yml ? sl_properties_read_yml(text, props, &diag)
              : sl_properties_read(text, props, &diag);
    if (err == SLUICE_ENOMEM)
        return sl_cli_no_memory(import->args);
    if (err == SLUICE_EFULL)
        return sl_cli_fail(import->args, "%s has more than %d settings",
                           import->path, SL_PROPERTIES_COUNT);
    if (err) {
        sl_diag_print(&diag, (struct sl_str){NULL, 0}, words, sizeof(words));
        fprintf(import->args->cli->err, "%s\n", words);
        return SL_EXIT_FAILED;
    }
    if (props->more)
        on_tell(import, props->more,
                "another document begins here. It is not read: write the "
                "settings of one profile to a file, and import that");
    return 0;
}

static int write_policy(struct import *import,
                        const struct sl_properties *props)
{
    struct sl_spring spring = {.props = props, .tell = on_tell, .ctx = import};
    struct sl_buf out;
    int err;

    sl_buf_init(&out, POLICY_BYTES, &sl_alloc_libc);
    err = sl_spring_write(&spring, &out);
    if (!err)
        fwrite(out.bytes, 1, out.len, import->args->cli->out);
    sl_buf_done(&out);
    if (err == SLUICE_ENOENT)
        return sl_cli_fail(import->args,
                           "%s has no limits: no setting whose name begins "
                           "with rate-limit, fluo.ratelimit, bucket4j or "
                           "resilience4j.ratelimiter, and no "
                           "RequestRateLimiter of spring.cloud.gateway",
                           import->path);
    if (err == SLUICE_ENOMEM)
        return sl_cli_no_memory(import->args);
    return err ? SL_EXIT_FAILED : SL_EXIT_OK;
}

static int import_spring(struct sl_cli_args *args, const char *path)
{
    struct import import = {.args = args, .path = path};
    struct sl_properties props = {.first = NULL};
    struct sl_arena arena;
    struct sl_buf buf;
    int status;

    sl_arena_init(&arena, ARENA_BYTES, &sl_alloc_libc);
    sl_buf_init(&buf, SL_PROPERTIES_BYTES + 1, &sl_alloc_libc);
    props.arena = &arena;
    props.families = sl_spring_families;
    status = sl_need_file(args, path, &buf);
    if (!status)
        status = read_props(&import, sl_buf_str(&buf), &props);
    if (!status)
        status = write_policy(&import, &props);
    sl_buf_done(&buf);
    sl_arena_done(&arena);
    return status;
}

/* ---- envoyproxy/ratelimit ---- */

static void on_told(void *ctx, const struct sl_report *report)
{
    struct sl_cli_args *args = ctx;
    struct sl_buf words;

    sl_buf_init(&words, POLICY_BYTES, &sl_alloc_libc);
    if (sl_report_print(report, &words) == 0 && words.len > 0)
        fwrite(words.bytes, 1, words.len, args->cli->err);
    sl_buf_done(&words);
}

static int import_envoy(struct sl_cli_args *args, const char *path)
{
    static struct sl_envoy envoy;
    struct sl_diag diag = {0};
    struct sl_arena arena;
    struct sl_buf out;
    int err;

    sl_arena_init(&arena, ARENA_BYTES, &sl_alloc_libc);
    sl_buf_init(&out, 4 * POLICY_BYTES, &sl_alloc_libc);
    envoy.arena = &arena;
    err = sl_envoy_load(&envoy, path, on_told, args, &diag);
    if (!err)
        err = sl_envoy_write(&envoy, &out);
    if (!err)
        fwrite(out.bytes, 1, out.len, args->cli->out);
    sl_buf_done(&out);
    sl_arena_done(&arena);
    if (err && diag.sentence[0])
        return sl_cli_fail(args, "%s", diag.sentence);
    if (err == SLUICE_ENOMEM || err == SLUICE_EFULL)
        return sl_cli_fail(args, "the policy would be too long");
    return err ? SL_EXIT_FAILED : SL_EXIT_OK;
}

static int run(struct sl_cli_args *args)
{
    const char *from = args->words[0];

    if (strcmp(from, "spring") == 0)
        return import_spring(args, args->words[1]);
    if (strcmp(from, "envoy-ratelimit") == 0)
        return import_envoy(args, args->words[1]);
    if (strcmp(from, "nginx") == 0)
        return sl_import_nginx(args, args->words[1]);
    return sl_cli_misuse(args,
                         "unknown format \"%s\"; write: sluice import spring "
                         "FILE, sluice import envoy-ratelimit FOLDER, or "
                         "sluice import nginx FILE",
                         from);
}

const struct sl_command sl_command_import = {
    .name = "import",
    .usage = "spring FILE | envoy-ratelimit FOLDER | nginx FILE",
    .summary = "Convert the settings of another program to a policy",
    .help = "spring: reads application.properties or application.yml with\n"
            "rate-limit.*, fluo.ratelimit.*, bucket4j.*,\n"
            "resilience4j.ratelimiter.* settings, or the RequestRateLimiter\n"
            "filters of spring.cloud.gateway, and prints a policy. Missing,\n"
            "unknown and risky settings, and those without an equivalent,\n"
            "are reported on standard error.\n"
            "\n"
            "  sluice import spring application.properties > sluice.yaml\n"
            "  sluice import spring application.yml | sluice check -\n"
            "\n"
            "envoy-ratelimit: reads the configuration of\n"
            "envoyproxy/ratelimit, a file or a folder, and prints a policy\n"
            "that makes the same decisions. Settings without an equivalent\n"
            "are reported on standard error.\n"
            "\n"
            "  sluice import envoy-ratelimit config/ > sluice.yaml\n"
            "\n"
            "nginx: reads limit_req and limit_conn of a configuration and of\n"
            "the files that it includes, and prints a policy. What has no\n"
            "equivalent is reported on standard error.\n"
            "\n"
            "  sluice import nginx /etc/nginx/nginx.conf > sluice.yaml\n",
    .words = "spring envoy-ratelimit nginx",
    .least = 2,
    .most = 2,
    .run = run,
};
