/* compat.c -- the configuration of another program in place of a policy. */
#include "sluiced/compat.h"

#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "policy/envoy/envoy.h"

#define ARENA_MOST ((size_t)64 << 20)

static const char *value_of(const struct sl_given *given, enum sl_setting id)
{
    return given->flags[id] ? given->flags[id] : given->variables[id];
}

int sl_compat_choose(const struct sl_given *given, const char **ret,
                     struct sl_diag *diag)
{
    const char *compat = value_of(given, SL_SET_compat);
    const char *folder = value_of(given, SL_SET_config_dir);
    bool on = compat && strcmp(compat, "none") != 0;

    *ret = NULL;
    if (on && strcmp(compat, "envoy-ratelimit") != 0)
        sl_refuse(
            diag, SLUICE_ECONF,
            "--compat %s: unknown program; write --compat envoy-ratelimit",
            compat);
    else if (on && !folder)
        sl_refuse(diag, SLUICE_ECONF,
                  "--compat %s: missing configuration; add --config-dir FOLDER",
                  compat);
    else if (!on && folder)
        sl_refuse(
            diag, SLUICE_ECONF,
            "--config-dir %s: missing program; add --compat envoy-ratelimit",
            folder);
    else if (on && value_of(given, SL_SET_policy))
        sl_refuse(diag, SLUICE_ECONF,
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
            sl_refuse(diag, SLUICE_ECONF, "%s: %s", at, d->sentence);
    }
}

static int load(struct sl_envoy *envoy, const char *folder,
                struct sl_diag *diag)
{
    struct sl_diag first = {0};
    int err = sl_envoy_load(envoy, folder, on_told, &first, diag);

    if (err && first.sentence[0])
        sl_refuse(diag, err, "%s", first.sentence);
    return err;
}

int sl_compat_read(struct sl_written *written, const char *folder,
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
        err = sl_refuse(diag, SLUICE_ECONF,
                        "%s is too large to convert to a policy", folder);
    sl_arena_done(&arena);
    if (!err)
        err = sl_written_make(written, folder, report, diag);
    if (!err) /* nobody wrote what would be doubted in it */
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
