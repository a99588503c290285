/* zones.c -- see zones.h. */
#include "zones.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define FILE_MAX (1 << 17)
#define UNTIL    INT64_C(5049129600) /* 2130-01-01 */

/* The bytes of a zone's file; 0 if it is none. */
static size_t slurp(const char *name, char *bytes)
{
    char path[512];
    FILE *file;
    size_t len;

    snprintf(path, sizeof(path), ZONES_DIR "/%s", name);
    file = fopen(path, "rb");
    if (!file)
        return 0;
    len = fread(bytes, 1, FILE_MAX, file);
    fclose(file);
    return len > 44 && memcmp(bytes, "TZif", 4) == 0 ? len : 0;
}

static void add(struct zones *zones, const char *name)
{
    if (zones->count == zones->room) {
        zones->room = zones->room ? 2 * zones->room : 256;
        zones->names =
            realloc(zones->names, zones->room * sizeof(*zones->names));
        if (!zones->names)
            abort();
    }
    zones->names[zones->count] = strdup(name);
    if (!zones->names[zones->count++])
        abort();
}

/* Walk the folder `under` (relative, "" or with a slash at its end). */
static void walk(struct zones *zones, const char *under)
{
    char path[512], name[300];
    struct dirent *entry;
    struct stat st;
    DIR *dir;

    snprintf(path, sizeof(path), ZONES_DIR "/%s", under);
    dir = opendir(path);
    while (dir && (entry = readdir(dir))) {
        if (entry->d_name[0] == '.' || strcmp(entry->d_name, "posix") == 0 ||
            strcmp(entry->d_name, "right") == 0 ||
            strcmp(entry->d_name, "localtime") == 0)
            continue;
        if (snprintf(name, sizeof(name), "%s%s", under, entry->d_name) >= 290)
            abort();
        snprintf(path, sizeof(path), ZONES_DIR "/%s", name);
        if (stat(path, &st))
            continue;
        if (S_ISDIR(st.st_mode)) {
            snprintf(name, sizeof(name), "%s%s/", under, entry->d_name);
            walk(zones, name);
        } else {
            add(zones, name);
        }
    }
    if (dir)
        closedir(dir);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

void zones_list(struct zones *ret)
{
    struct {
        char *bytes;
        size_t len;
    } seen[1024];
    char *bytes = malloc(FILE_MAX);
    size_t kept = 0;

    *ret = (struct zones){0};
    walk(ret, "");
    qsort(ret->names, ret->count, sizeof(*ret->names), by_name);
    for (size_t i = 0; bytes && i < ret->count; i++) {
        size_t len = slurp(ret->names[i], bytes), k = 0;

        while (k < kept &&
               (seen[k].len != len || memcmp(seen[k].bytes, bytes, len) != 0))
            k++;
        if (!len || k < kept || kept == SL_LEN(seen)) {
            free(ret->names[i]);
            continue;
        }
        seen[kept].bytes = memcpy(malloc(len), bytes, len);
        seen[kept].len = len;
        ret->names[kept++] = ret->names[i];
    }
    for (size_t k = 0; k < kept; k++)
        free(seen[k].bytes);
    ret->count = kept;
    free(bytes);
}

void zones_done(struct zones *zones)
{
    for (size_t i = 0; i < zones->count; i++)
        free(zones->names[i]);
    free(zones->names);
}

bool zones_load(const char *name, struct sl_zone *ret)
{
    char *bytes = malloc(FILE_MAX);
    size_t len = bytes ? slurp(name, bytes) : 0;
    struct sl_diag diag = {.line = 0};
    int err = SLUICE_ESYS;

    if (len)
        err = sl_zone_parse((struct sl_str){bytes, len}, UNTIL, &sl_alloc_libc,
                            ret, &diag);
    if (err)
        printf("# %s: %s\n", name, diag.sentence);
    free(bytes);
    return err == 0;
}
