/* libpolicy.h -- the private structs behind include/sluice_policy.h. */
#ifndef SL_LIBPOLICY_LIBPOLICY_H
#define SL_LIBPOLICY_LIBPOLICY_H

#include <string.h>

#include "engine/check.h"
#include "engine/render.h"
#include "sluice_policy.h"

/* The message of sluice_why(), in libsluice. */
struct sl_diag *sluice_private_diag(void);

struct sluice_policy {
    struct sl_policy *policy;
};

struct sluice_engine {
    struct sl_engine *engine;
    int64_t (*now)(void *ctx);
    void *now_ctx;
    /* Set by Sluice's own programs: tokens, webhooks and subjects. Zeros: none
     * is accepted, and there are no subjects but those of requests. */
    struct sl_engine_ctx ctx;
};

struct sluice_decision {
    struct sl_check check;    /* decides, and keeps the decision */
    struct sl_engine_ctx ctx; /* of the check */
    bool usable;              /* there has been a decision */
    struct sl_rendered rendered;
    struct sl_arena arena;         /* for rendered texts */
    struct sluice_header *headers; /* NUL-terminated; made on first use */
    struct sl_libpolicy_texts {    /* per limit; likewise */
        const char *plan, *scope, *unit, *counted, *key;
    } texts[SL_PARTS];
    struct sl_buf message, json, text;
};

/* Allocate and free zeroed objects of the library. */
static inline void *sl_libpolicy_new(size_t size)
{
    void *piece = sl_alloc_new(&sl_alloc_libc, size);

    return piece ? memset(piece, 0, size) : NULL;
}

static inline void sl_libpolicy_free(void *piece, size_t size)
{
    sl_alloc_free(&sl_alloc_libc, piece, size);
}

/* Set the message of sluice_why() and return the error. */
static inline int sl_libpolicy_invalid(const char *message)
{
    return sl_diag_error(sluice_private_diag(), SLUICE_EINVAL, "%s", message);
}

static inline int sl_libpolicy_no_memory(void)
{
    return sl_diag_error(sluice_private_diag(), SLUICE_ENOMEM, "out of memory");
}

/* The text in `buf`, which was rendered with the result `err`; NULL and an
 * empty buffer if that failed. */
static inline const char *sl_libpolicy_text(struct sl_buf *buf, int err)
{
    if (!err && !sl_buf_add(buf, (struct sl_str){"", 1}))
        return buf->bytes;
    sl_buf_clear(buf);
    return NULL;
}

/* The time of a decision of this engine. */
sl_ns sl_libpolicy_now(const struct sluice_engine *engine);

#endif
