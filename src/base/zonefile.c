/* zonefile.c -- a time zone from the system's files, by name. */
#include "base/zonefile.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"

#define FILE_MAX 65536 /* the largest zone of tzdata has 4 KiB */

/* Letters, digits, _ - + and single slashes: nothing that leaves the folder. */
static bool plain_name(const char *name)
{
    size_t len = strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrst"
                              "uvwxyz0123456789_-+/");

    return len > 0 && name[len] == '\0' && name[0] != '/' &&
           !strstr(name, "//");
}

int sl_zone_load(const char *name, const struct sl_alloc *alloc,
                 struct sl_zone *ret, struct sl_diag *diag)
{
    const char *dir = getenv("TZDIR");
    struct sl_buf bytes;
    char path[512];
    int err;

    if (!plain_name(name))
        return sl_refuse(diag, SLUICE_ECONF,
                         "\"%s\" is no name of a time zone; write one like "
                         "Europe/Berlin",
                         name);
    snprintf(path, sizeof(path), "%s/%s",
             dir && *dir ? dir : "/usr/share/zoneinfo", name);
    sl_buf_init(&bytes, 2 * FILE_MAX, alloc);
    err = sl_file_read(path, FILE_MAX, &bytes, NULL);
    if (!err)
        err = sl_zone_parse(sl_buf_str(&bytes), SL_TIME_END / SL_S, alloc, ret,
                            diag);
    else if (err == SLUICE_ESYS)
        sl_refuse(diag, SLUICE_ECONF, "there is no time zone \"%s\": %s: %s",
                  name, path, strerror(errno));
    else if (err == SLUICE_EFULL)
        sl_refuse(diag, SLUICE_ECONF, "%s is too large for a time zone", path);
    sl_buf_done(&bytes);
    if (err == SLUICE_ENOMEM)
        return sl_refuse(diag, err, "there is no memory");
    return err ? SLUICE_ECONF : 0;
}
