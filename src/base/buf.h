/* buf.h -- growable bytes with a ceiling; the writer; whole files.
 *
 * Every buffer has a maximum size. An append beyond it, or without memory,
 * changes nothing and returns an error.
 *
 * Invariants (sl_buf_check asserts them):
 *   (1) len <= size <= ceiling, and ceiling > 0.
 *   (2) bytes is NULL exactly when size is 0.
 */
#ifndef SL_BASE_BUF_H
#define SL_BASE_BUF_H

#include "base/arena.h"
#include "base/diag.h"
#include "base/str.h"

struct sl_buf {
    char *bytes;
    size_t len;
    size_t size;    /* bytes allocated */
    size_t ceiling; /* len never passes it */
    const struct sl_alloc *alloc;
};

/* An empty buffer for at most `ceiling` (> 0) bytes. Allocates nothing yet.
 * `alloc` is borrowed. */
void sl_buf_init(struct sl_buf *buf, size_t ceiling,
                 const struct sl_alloc *alloc);

/* Free the memory. The buffer may be used again afterwards. */
void sl_buf_done(struct sl_buf *buf);

/* Forget the contents, keep the memory. */
void sl_buf_clear(struct sl_buf *buf);

/* Only for sl_buf_reserve(). */
SL_MUST_USE int sl_buf_grow(struct sl_buf *buf, size_t more);

/* Make room for `more` bytes behind len. The caller writes them and raises
 * len. */
SL_MUST_USE static inline int sl_buf_reserve(struct sl_buf *buf, size_t more)
{
    return more <= buf->size - buf->len ? 0 : sl_buf_grow(buf, more);
}

/* Append. SLUICE_EFULL beyond the ceiling, SLUICE_ENOMEM without memory;
 * either way nothing was appended. */
SL_MUST_USE static inline int sl_buf_add(struct sl_buf *buf,
                                         struct sl_str bytes)
{
    int err = sl_buf_reserve(buf, bytes.len);

    if (err || bytes.len == 0)
        return err;
    memcpy(buf->bytes + buf->len, bytes.at, bytes.len);
    buf->len += bytes.len;
    return 0;
}

SL_MUST_USE int sl_buf_addf(struct sl_buf *buf, const char *fmt, ...)
    SL_PRINTF(2, 3);

/* A writer appends to a buffer and keeps the first error. Calls after an error
 * change nothing, so that only the last one needs a check of `err`. */
struct sl_writer {
    struct sl_buf *out;
    int err; /* of the first failed call, or 0 */
};

static inline void sl_writer_add(struct sl_writer *w, struct sl_str bytes)
{
    if (!w->err)
        w->err = sl_buf_add(w->out, bytes);
}

void sl_writer_addf(struct sl_writer *w, const char *fmt, ...) SL_PRINTF(2, 3);

/* Drop the first `n` (<= len) bytes. */
void sl_buf_drop(struct sl_buf *buf, size_t n);

/* The contents; borrowed until the next change. */
struct sl_str sl_buf_str(const struct sl_buf *buf);

/* Assert the invariants. */
void sl_buf_check(const struct sl_buf *buf);

/* Append the file at `path` to `out`. SLUICE_EFULL beyond `most` bytes (`out`
 * has what was read so far), SLUICE_ENOMEM, or SLUICE_ESYS with errno. `diag`
 * names the file. */
SL_MUST_USE int sl_file_read(const char *path, size_t most, struct sl_buf *out,
                             struct sl_diag *diag);

#endif
