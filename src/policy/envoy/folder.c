/* folder.c -- all files of a configuration.
 *
 * As there: every *.yaml and *.yml of the folder, in the order of their names.
 * What begins with a dot (the links of a ConfigMap among them), backups and
 * swap files have other endings or are passed over.
 */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "policy/envoy/envoy.h"

#define PATH_MOST 4096

struct name {
    struct name *next;
    char text[];
};

static bool is_wanted(const char *name)
{
    const char *dot = strrchr(name, '.');

    return name[0] != '.' && dot &&
           (strcmp(dot, ".yaml") == 0 || strcmp(dot, ".yml") == 0);
}

/* Put it where it belongs in the order of names. False without memory. */
static bool add_name(struct name **list, const char *text,
                     struct sl_arena *arena)
{
    size_t len = strlen(text) + 1;
    struct name *name = sl_arena_take(arena, sizeof(*name) + len);

    if (!name)
        return false;
    memcpy(name->text, text, len);
    while (*list && strcmp((*list)->text, text) < 0)
        list = &(*list)->next;
    name->next = *list;
    *list = name;
    return true;
}

static int list_folder(const char *path, struct sl_arena *arena,
                       struct name **ret, struct sl_diag *diag)
{
    DIR *folder = opendir(path);
    struct dirent *entry;
    bool good = true;

    if (!folder)
        return sl_refuse(diag, SLUICE_ESYS, "%s can't be read: %s", path,
                         strerror(errno));
    while (good && (entry = readdir(folder)) != NULL)
        if (is_wanted(entry->d_name))
            good = add_name(ret, entry->d_name, arena);
    closedir(folder);
    return good ? 0 : sl_refuse(diag, SLUICE_ENOMEM, "out of memory");
}

/* One file. False if it can't be used, and that was told. */
static bool read_file(struct sl_envoy *envoy, const char *path,
                      sl_envoy_told_f *tell, void *ctx)
{
    struct sl_diag diag = {0};
    struct sl_report report;
    struct sl_buf text;
    bool good;
    int err;

    sl_buf_init(&text, SL_YAML_BYTES + 8192, &sl_alloc_libc);
    err = sl_file_read(path, SL_YAML_BYTES, &text, &diag);
    sl_report_init(&report, path, sl_buf_str(&text), &sl_alloc_libc);
    if (err && err != SLUICE_EFULL) /* the reader says that better */
        sl_report_error(&report, (struct sl_place){0, 0}, "%s", diag.sentence);
    good = (!err || err == SLUICE_EFULL) && sl_envoy_read(envoy, &report);
    if (report.kept > 0 || report.no_memory)
        tell(ctx, &report);
    sl_report_done(&report);
    sl_buf_done(&text);
    return good;
}

static int read_all(struct sl_envoy *envoy, const char *path,
                    sl_envoy_told_f *tell, void *ctx, struct sl_diag *diag)
{
    char whole[PATH_MOST];
    struct name *names = NULL;
    int err = list_folder(path, envoy->arena, &names, diag);

    if (!err && !names)
        return sl_refuse(diag, SLUICE_ECONF, "folder %s has no *.yaml file",
                         path);
    if (err)
        return err;
    for (; names; names = names->next) {
        snprintf(whole, sizeof(whole), "%s/%s", path, names->text);
        if (!read_file(envoy, whole, tell, ctx))
            err = SLUICE_ECONF;
    }
    return err;
}

int sl_envoy_load(struct sl_envoy *envoy, const char *path,
                  sl_envoy_told_f *tell, void *ctx, struct sl_diag *diag)
{
    struct stat about;

    envoy->domain_count = envoy->limit_count = 0;
    if (stat(path, &about))
        return sl_refuse(diag, SLUICE_ESYS, "%s can't be read: %s", path,
                         strerror(errno));
    if (S_ISDIR(about.st_mode))
        return read_all(envoy, path, tell, ctx, diag);
    return read_file(envoy, path, tell, ctx) ? 0 : SLUICE_ECONF;
}
