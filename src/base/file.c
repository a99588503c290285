/* file.c -- a whole file, bounded. */
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#define CHUNK 4096

static int read_all(int fd, size_t most, struct sl_buf *out)
{
    size_t begin = out->len;

    for (;;) {
        ssize_t got;

        if (out->len - begin > most)
            return SLUICE_EFULL;
        if (sl_buf_reserve(out, CHUNK))
            return SLUICE_ENOMEM;
        got = read(fd, out->bytes + out->len, CHUNK);
        if (got == 0)
            return 0;
        if (got > 0)
            out->len += (size_t)got;
        else if (errno != EINTR)
            return SLUICE_ESYS;
    }
}

int sl_file_read(const char *path, size_t most, struct sl_buf *out,
                 struct sl_diag *diag)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    int err = fd < 0 ? SLUICE_ESYS : read_all(fd, most, out);
    int why = errno;

    if (fd >= 0)
        close(fd);
    if (err == SLUICE_ESYS)
        sl_refuse(diag, err, "%s can't be read: %s", path, strerror(why));
    else if (err == SLUICE_EFULL)
        sl_refuse(diag, err, "%s has more than %zu bytes", path, most);
    else if (err)
        sl_refuse(diag, err, "there is no memory");
    errno = why;
    return err;
}
