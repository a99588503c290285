/* remote.c -- keys from a URL, kept fresh.
 *
 *            begin                     it is time, or somebody wishes
 *     OFF ---------> WAITING ------------------------------------+
 *      ^               ^  ^                                      v
 *      |  end          |  +--- failed: later and later ------ ASKING
 *      +---------------+------ good: when the provider says -----+
 *
 * on_look() goes from WAITING to ASKING, on_fetched() back. Both count time by
 * the steady clock, so that no step of the wall clock makes keys old or young.
 */
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "sluiced/jwks/inner.h"
#include "wire/cache_control.h"

#define DOUBLINGS 16

static bool is_asking(const struct sl_jwks_remote *remote)
{
    return remote->fetch.easy != NULL;
}

/* ---- when to ask ---- */

/* A tenth earlier at most. */
static sl_ns earlier(struct sl_jwks *jwks, sl_ns span)
{
    return span - (sl_ns)sl_jwks_roll(jwks, (uint64_t)span / 10 + 1);
}

static sl_ns life_of(struct sl_jwks *jwks)
{
    const struct sl_jwks_options *o = &jwks->options;
    sl_ns life =
        sl_cache_control_life(sl_str_c(jwks->remote.fetch.cache_control));

    if (life == SL_NS_NONE)
        life = o->life_usual;
    if (life < o->life_least)
        life = o->life_least;
    return life < o->life_most ? life : o->life_most;
}

/* Between half of it and all of it. */
static sl_ns retry_in(struct sl_jwks *jwks)
{
    const struct sl_jwks_options *o = &jwks->options;
    unsigned doublings = jwks->remote.failures - 1;
    sl_ns span = o->retry_least;

    for (unsigned i = 0; i < doublings && i < DOUBLINGS; i++)
        span = span < o->retry_most / 2 ? 2 * span : o->retry_most;
    return span - (sl_ns)sl_jwks_roll(jwks, (uint64_t)span / 2 + 1);
}

/* Is it time? A wish counts as long as nothing is known to be broken. */
static bool is_time(const struct sl_jwks *jwks, bool wished, sl_ns now)
{
    const struct sl_jwks_remote *remote = &jwks->remote;

    if (now >= remote->next_at)
        return true;
    return wished && remote->failures == 0 &&
           now >= remote->begun_at + jwks->options.cool_down;
}

/* ---- what has come ---- */

static enum sl_jwks_result result_of(enum sl_fetch_result result)
{
    switch (result) {
    case SL_FETCH_GOOD:
        return SL_JWKS_GOOD;
    case SL_FETCH_STATUS:
        return SL_JWKS_STATUS;
    case SL_FETCH_TOO_LARGE:
        return SL_JWKS_TOO_LARGE;
    default:
        return SL_JWKS_UNREACHABLE;
    }
}

static void swap_text(struct sl_jwks *jwks)
{
    struct sl_buf old = jwks->text;

    jwks->text = jwks->remote.fetch.body;
    jwks->remote.fetch.body = old;
}

/* The same bytes are the same keys: what was verified by them stays. */
static enum sl_jwks_result take(struct sl_jwks *jwks, struct sl_diag *diag)
{
    struct sl_str text = sl_buf_str(&jwks->remote.fetch.body);
    struct sl_keyset *set;

    if (jwks->set && sl_str_eq(text, sl_buf_str(&jwks->text)))
        return SL_JWKS_GOOD;
    if (sl_keyset_read(text, jwks->policy->identity.jwt.algorithms,
                       jwks->options.alloc, &set, diag))
        return SL_JWKS_REFUSED;
    if (sl_jwks_put(jwks, set)) {
        sl_keyset_unref(set);
        sl_refuse(diag, SLUICE_ENOMEM, "out of memory");
        return SL_JWKS_UNREACHABLE;
    }
    swap_text(jwks);
    return SL_JWKS_GOOD;
}

static void on_fetched(struct sl_fetch *fetch)
{
    struct sl_jwks *jwks = fetch->ctx;
    struct sl_jwks_remote *remote = &jwks->remote;
    enum sl_jwks_result result = result_of(fetch->result);
    sl_ns now = sl_loop_steady(jwks->options.loop);
    struct sl_diag diag = {.sentence = ""};

    if (result == SL_JWKS_GOOD)
        result = take(jwks, &diag);
    if (result == SL_JWKS_GOOD) {
        remote->failures = 0;
        (void)sl_keys_wished(jwks->keys); /* it is fulfilled, if it can be */
        jwks->read_at = now;
        remote->next_at = now + earlier(jwks, life_of(jwks));
    } else {
        remote->failures++;
        remote->next_at = now + retry_in(jwks);
    }
    sl_jwks_tell(jwks, result, remote->url,
                 diag.sentence[0] ? diag.sentence : fetch->why);
}

/* ---- asking ---- */

static void ask(struct sl_jwks *jwks, sl_ns now)
{
    struct sl_jwks_remote *remote = &jwks->remote;

    remote->begun_at = now;
    remote->fetch.url = remote->url;
    remote->fetch.most = SL_KEYSET_BYTES;
    remote->fetch.timeout = jwks->options.timeout;
    remote->fetch.done = on_fetched;
    remote->fetch.ctx = jwks;
    if (sl_fetch_begin(remote->fetcher, &remote->fetch) == 0)
        return;
    remote->failures++;
    remote->next_at = now + retry_in(jwks);
    sl_jwks_tell(jwks, SL_JWKS_UNREACHABLE, remote->url, "out of memory");
}

/* Keys that nobody could confirm for so long may be those of a provider who
 * has withdrawn them. */
static void drop_stale(struct sl_jwks *jwks, sl_ns now)
{
    if (!jwks->set || now - jwks->read_at < jwks->policy->identity.jwt.stale ||
        sl_jwks_put(jwks, NULL))
        return;
    sl_buf_done(&jwks->text);
    jwks->read_at = SL_NS_NONE;
    sl_log(SL_LOG_ERROR, "JWKS expired", "url", jwks->remote.url, "why",
           "it could not be fetched within the time `stale`; all tokens are "
           "rejected until it can",
           NULL);
}

static void on_look(void *ctx)
{
    struct sl_jwks *jwks = ctx;
    sl_ns now = sl_loop_steady(jwks->options.loop);
    bool wished;

    sl_timer_start(jwks->remote.timer, jwks->options.look);
    drop_stale(jwks, now);
    if (is_asking(&jwks->remote))
        return; /* a wish of now is a wish of then */
    wished = now >= jwks->remote.begun_at + jwks->options.cool_down &&
             sl_keys_wished(jwks->keys);
    if (is_time(jwks, wished, now))
        ask(jwks, now);
}

/* ---- the life ---- */

int sl_jwks_remote_open(struct sl_jwks *jwks, struct sl_diag *diag)
{
    struct sl_jwks_remote *remote = &jwks->remote;

    if (sl_timer_new(jwks->options.loop, on_look, jwks, &remote->timer))
        return sl_refuse(diag, SLUICE_ENOMEM, "out of memory");
    return sl_fetcher_open(jwks->options.loop, jwks->options.alloc,
                           &remote->fetcher, diag);
}

void sl_jwks_remote_end(struct sl_jwks *jwks)
{
    struct sl_jwks_remote *remote = &jwks->remote;

    if (remote->timer)
        sl_timer_stop(remote->timer);
    if (remote->fetcher)
        sl_fetch_forget(remote->fetcher, &remote->fetch);
    sl_alloc_free(jwks->options.alloc, remote->url, remote->url_size);
    remote->url = NULL;
    remote->on = false;
}

void sl_jwks_remote_close(struct sl_jwks *jwks)
{
    sl_jwks_remote_end(jwks);
    sl_timer_free(jwks->remote.timer);
    sl_fetcher_close(jwks->remote.fetcher);
}

void sl_jwks_remote_begin(struct sl_jwks *jwks, char *url, size_t size)
{
    struct sl_jwks_remote *remote = &jwks->remote;

    remote->on = true;
    remote->url = url;
    remote->url_size = size;
    remote->failures = 0;
    sl_timer_start(remote->timer, jwks->options.look);
    ask(jwks, sl_loop_steady(jwks->options.loop));
}
