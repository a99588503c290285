/* buf.c -- growable bytes with a ceiling.
 *
 * The memory doubles up to the ceiling and never shrinks. There is no NUL
 * behind the bytes, since size <= ceiling; hence print_beside().
 */
#include "base/buf.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* The smallest allocation. */
#define FIRST_SIZE ((size_t)64)

void sl_buf_init(struct sl_buf *buf, size_t ceiling,
                 const struct sl_alloc *alloc)
{
    assert(ceiling > 0);
    *buf = (struct sl_buf){.ceiling = ceiling, .alloc = alloc};
}

void sl_buf_done(struct sl_buf *buf)
{
    sl_alloc_free(buf->alloc, buf->bytes, buf->size);
    sl_buf_init(buf, buf->ceiling, buf->alloc);
}

void sl_buf_clear(struct sl_buf *buf)
{
    buf->len = 0;
}

/* The size to grow to for `need` (<= ceiling) bytes. */
static size_t next_size(const struct sl_buf *buf, size_t need)
{
    size_t size = buf->ceiling;

    if (buf->size <= buf->ceiling / 2)
        size = buf->size * 2;
    if (size < FIRST_SIZE)
        size = FIRST_SIZE;
    if (size < need)
        size = need;
    return size < buf->ceiling ? size : buf->ceiling;
}

int sl_buf_grow(struct sl_buf *buf, size_t more)
{
    size_t size;
    char *bytes;

    if (more > buf->ceiling - buf->len)
        return SLUICE_EFULL;
    size = next_size(buf, buf->len + more);
    bytes = buf->alloc->resize(buf->alloc->ctx, buf->bytes, buf->size, size);
    if (!bytes)
        return SLUICE_ENOMEM;
    buf->bytes = bytes;
    buf->size = size;
    return 0;
}

/* Print `len` bytes beside the buffer, which has no room for the NUL, and
 * copy. */
static int add_beside(struct sl_buf *buf, size_t len, const char *fmt,
                      va_list args) SL_PRINTF(3, 0);

static int add_beside(struct sl_buf *buf, size_t len, const char *fmt,
                      va_list args)
{
    char *text = sl_alloc_new(buf->alloc, len + 1);
    int err;

    if (!text)
        return SLUICE_ENOMEM;
    vsnprintf(text, len + 1, fmt, args);
    err = sl_buf_add(buf, (struct sl_str){text, len});
    sl_alloc_free(buf->alloc, text, len + 1);
    return err;
}

SL_PRINTF(2, 0)
static int add_formatted(struct sl_buf *buf, const char *fmt, va_list args)
{
    va_list again;
    size_t len;
    int n, err;

    va_copy(again, args);
    n = vsnprintf(NULL, 0, fmt, args);
    len = n > 0 ? (size_t)n : 0;
    err = n < 0 ? SLUICE_EINVAL : sl_buf_reserve(buf, len);
    if (err || len == 0)
        goto out;
    if (len < buf->size - buf->len) {
        vsnprintf(buf->bytes + buf->len, len + 1, fmt, again);
        buf->len += len;
    } else {
        err = add_beside(buf, len, fmt, again);
    }
out:
    va_end(again);
    return err;
}

int sl_buf_addf(struct sl_buf *buf, const char *fmt, ...)
{
    va_list args;
    int err;

    va_start(args, fmt);
    err = add_formatted(buf, fmt, args);
    va_end(args);
    return err;
}

void sl_writer_addf(struct sl_writer *w, const char *fmt, ...)
{
    va_list args;

    if (w->err)
        return;
    va_start(args, fmt);
    w->err = add_formatted(w->out, fmt, args);
    va_end(args);
}

void sl_buf_drop(struct sl_buf *buf, size_t n)
{
    assert(n <= buf->len);
    if (n == 0)
        return;
    buf->len -= n;
    memmove(buf->bytes, buf->bytes + n, buf->len);
}

struct sl_str sl_buf_str(const struct sl_buf *buf)
{
    return (struct sl_str){buf->bytes, buf->len};
}

void sl_buf_check(const struct sl_buf *buf)
{
    assert(buf->ceiling > 0);                         /* (1) */
    assert(buf->len <= buf->size);                    /* (1) */
    assert(buf->size <= buf->ceiling);                /* (1) */
    assert((buf->bytes == NULL) == (buf->size == 0)); /* (2) */
    (void)buf;
}

/* ---- whole files ---- */

#define CHUNK 4096

/* A file that does not fit into the buffer is too large, as one above `most`.
 */
static int read_all(int fd, size_t most, struct sl_buf *out)
{
    size_t begin = out->len;
    char beyond;

    for (;;) {
        size_t room = out->ceiling - out->len;
        size_t want = room < CHUNK ? room : CHUNK;
        ssize_t got;

        if (out->len - begin > most)
            return SLUICE_EFULL;
        if (want > 0 && sl_buf_reserve(out, want))
            return SLUICE_ENOMEM;
        got = want > 0 ? read(fd, out->bytes + out->len, want)
                       : read(fd, &beyond, 1);
        if (got == 0)
            return 0;
        if (got > 0 && want == 0)
            return SLUICE_EFULL;
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
        sl_diag_error(diag, err, "%s can't be read: %s", path, strerror(why));
    else if (err == SLUICE_EFULL)
        sl_diag_error(diag, err, "%s has more than %zu bytes", path, most);
    else if (err)
        sl_diag_error(diag, err, "out of memory");
    errno = why;
    return err;
}
