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
    struct sl_tokens *tokens; /* borrowed; NULL: tokens are not verified */
    sl_webhook_f *webhook;    /* NULL: webhooks are not verified */
};

struct sluice_decision {
    struct sl_check check; /* decides, and keeps the decision */
    bool usable;           /* there has been a decision */
    struct sl_rendered rendered;
    struct sl_arena arena;         /* for rendered texts */
    struct sluice_header *headers; /* NUL-terminated; made on first use */
    struct sl_libpolicy_texts {    /* per limit; likewise */
        const char *plan, *scope, *unit, *key;
    } texts[SL_PARTS];
    struct sl_buf message, json, text;
    bool has_message;
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

/* For Sluice's own programs: the policy behind the handle, and the verifier of
 * tokens from now on. */
const struct sl_policy *sl_libpolicy_policy(const struct sluice_policy *policy);
void sl_libpolicy_tokens(struct sluice_engine *engine,
                         struct sl_tokens *tokens);

/* The verifier of webhooks from now on. */
void sl_libpolicy_webhooks(struct sluice_engine *engine, sl_webhook_f *verify);

/* The time of a decision of this engine. */
sl_ns sl_libpolicy_now(const struct sluice_engine *engine);

/* The message of a denial, rendered on first use; "" if allowed or out of
 * memory. */
const char *sl_libpolicy_message(struct sluice_decision *decision);

#endif
