/* zonefile.c -- a time zone from the system's files, by name. */
#include "base/zonefile.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FILE_MAX 65536 /* the largest zone of tzdata has 4 KiB */

/* Letters, digits, _ - + and single slashes: nothing that leaves the folder. */
static bool plain_name(const char *name)
{
    size_t len = strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrst"
                              "uvwxyz0123456789_-+/");

    return len > 0 && name[len] == '\0' && name[0] != '/' &&
           !strstr(name, "//");
}

static int read_all(const char *path, char *bytes, size_t *len)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got = 1;

    if (fd < 0)
        return SLUICE_ESYS;
    *len = 0;
    while (got > 0 && *len < FILE_MAX) {
        got = read(fd, bytes + *len, FILE_MAX - *len);
        if (got < 0 && errno == EINTR)
            got = 1;
        else if (got > 0)
            *len += (size_t)got;
    }
    close(fd);
    return got < 0 ? SLUICE_ESYS : 0;
}

int sl_zone_load(const char *name, const struct sl_alloc *alloc,
                 struct sl_zone *ret, struct sl_diag *diag)
{
    const char *dir = getenv("TZDIR");
    char path[512], *bytes;
    size_t len = 0;
    int err;

    if (!plain_name(name))
        return sl_refuse(diag, SLUICE_ECONF,
                         "\"%s\" is no name of a time zone; write one like "
                         "Europe/Berlin",
                         name);
    snprintf(path, sizeof(path), "%s/%s",
             dir && *dir ? dir : "/usr/share/zoneinfo", name);
    bytes = sl_alloc_new(alloc, FILE_MAX);
    if (!bytes)
        return sl_refuse(diag, SLUICE_ENOMEM, "there is no memory");
    err = read_all(path, bytes, &len);
    if (err)
        sl_refuse(diag, SLUICE_ECONF, "there is no time zone \"%s\": %s: %s",
                  name, path, strerror(errno));
    else
        err = sl_zone_parse((struct sl_str){bytes, len}, SL_TIME_END / SL_S,
                            alloc, ret, diag);
    sl_alloc_free(alloc, bytes, FILE_MAX);
    if (err == SLUICE_ENOMEM)
        return sl_refuse(diag, err, "there is no memory");
    return err ? SLUICE_ECONF : 0;
}
