/* tokens.c -- whose tokens are believed: keys for all threads, and one who
 * verifies on each. */
#include <stdlib.h>

#include "identity/tokens.h"
#include "identity/webhook.h"
#include "sluiced/daemon.h"

/* ---- keys ---- */

#ifdef SL_VIRTUAL_CLOCK
/* Tests can't wait for minutes: all spans are as many milliseconds, or a
 * fitting part of them. */
static void hurry(struct sl_jwks_options *options)
{
    const char *text = getenv("TEST_JWKS_MS");
    long ms = text ? strtol(text, NULL, 10) : 0;

    if (ms <= 0)
        return;
    options->cool_down = ms * SL_MS;
    options->retry_least = ms * SL_MS / 4;
    options->retry_most = ms * SL_MS;
    options->life_least = options->life_usual = 10 * ms * SL_MS;
    options->timeout = ms * SL_MS;
    options->look = ms * SL_MS / 20;
}
#endif

static int open_keys(struct sl_daemon *daemon)
{
    struct sl_jwks_options options = {.loop = daemon->workers[0].loop,
                                      .alloc = &sl_alloc_libc};

#ifdef SL_VIRTUAL_CLOCK
    hurry(&options);
#endif
    return sl_jwks_open(&options, &daemon->jwks, &daemon->why);
}

int sl_tokens_use(struct sl_daemon *daemon, struct sl_policy *policy,
                  bool posted, struct sl_diag *diag)
{
    const struct sl_jwks_from from = {daemon->path, posted};
    struct sl_jwks_next next;
    int err = sl_jwks_prepare(daemon->jwks, policy, &from, &next, diag);

    if (err)
        return err;
    err = sl_jwks_use(daemon->jwks, &next);
    if (err) {
        sl_jwks_drop(daemon->jwks, &next);
        sl_refuse(diag, err, "out of memory");
    }
    return err;
}

/* ---- the step ---- */

int sl_tokens_begin(struct sl_daemon *daemon)
{
    struct sl_tokens_options options = {.alloc = &sl_alloc_libc};

    if (open_keys(daemon))
        return SL_EXIT_FAILED;
    if (sl_tokens_use(daemon, daemon->written.policy, false, &daemon->why))
        return SL_EXIT_POLICY;
    options.keys = sl_jwks_keys(daemon->jwks);
    for (unsigned i = 0; i < daemon->worker_count; i++) {
        daemon->workers[i].station.webhook = sl_webhook_verify;
        if (sl_tokens_open(&options, &daemon->workers[i].station.tokens,
                           &daemon->why))
            return SL_EXIT_FAILED;
    }
    return 0;
}

#ifdef SL_VIRTUAL_CLOCK
int sl_tokens_again(struct sl_daemon *daemon)
{
    struct sl_tokens_options options = {.keys = sl_jwks_keys(daemon->jwks),
                                        .alloc = &sl_alloc_libc};
    struct sl_tokens **place = &daemon->workers[0].station.tokens;
    struct sl_tokens *fresh;
    int err = sl_tokens_open(&options, &fresh, &daemon->why);

    if (err)
        return err;
    sl_tokens_close(*place);
    *place = fresh;
    return 0;
}
#endif

void sl_tokens_end(struct sl_daemon *daemon)
{
    for (unsigned i = 0; daemon->workers && i < daemon->worker_count; i++) {
        sl_tokens_close(daemon->workers[i].station.tokens);
        daemon->workers[i].station.tokens = NULL;
    }
    sl_jwks_close(daemon->jwks);
    daemon->jwks = NULL;
}
