/* jwks.c -- fetches and refreshes the keys of tokens.
 *
 *            a URL                     due, or a refresh is requested
 *     OFF ---------> WAITING ------------------------------------+
 *      ^               ^  ^                                      v
 *      | another       |  +--- failed: back-off ------------ FETCHING
 *      +---------------+------ good: by Cache-Control -----------+
 *
 * on_look() goes from WAITING to FETCHING, on_fetched() back. Both use the
 * monotonic clock, so that steps of the wall clock do not matter.
 */
#include "sluiced/jwks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "identity/token_verifier.h"
#include "identity/webhook.h"
#include "server/jwt_keys_file.h"
#include "sluiced/daemon.h"
#include "wire/http_fields.h"

#define DOUBLINGS 16

const char *const sl_jwks_words[SL_JWKS_RESULTS] = {
    [SL_JWKS_GOOD] = "good",       [SL_JWKS_UNREACHABLE] = "unreachable",
    [SL_JWKS_STATUS] = "status",   [SL_JWKS_TOO_LARGE] = "too_large",
    [SL_JWKS_REFUSED] = "refused",
};

/* ---- activating ---- */

static void free_source(struct sl_jwks *jwks, struct sl_jwks_source *source)
{
    sl_policy_unref(source->policy);
    sl_keyset_unref(source->set);
    sl_alloc_free(jwks->options.alloc, source->file, source->file_size);
    sl_alloc_free(jwks->options.alloc, source->url, source->url_size);
}

static int put(struct sl_jwks *jwks, const struct sl_policy *policy,
               struct sl_keyset *set)
{
    struct sl_token_rules rules = sl_jwt_keys_rules(&policy->identity.jwt);
    int err = sl_jwks_current_put(jwks->keys, set, &rules);

    if (!err && set && sl_keyset_has_private(set))
        sl_log(SL_LOG_WARN, "JWKS contains private keys", "why",
               "anyone who reads the file can sign tokens; remove \"d\" and "
               "the other private members",
               NULL);
    return err;
}

/* Activates `set` (NULL: none) under the active policy, and takes over the
 * reference, also on failure. Then nothing changes. */
static int put_set(struct sl_jwks *jwks, struct sl_keyset *set)
{
    int err = put(jwks, jwks->active.policy, set);

    sl_keyset_unref(err ? set : jwks->active.set);
    if (err)
        return err;
    jwks->active.set = set;
    jwks->had_keys = jwks->had_keys || set;
    jwks->read_at = set ? sl_loop_mono(jwks->options.loop) : SL_NS_NONE;
    return 0;
}

/* Counts a finished fetch, and logs it if the result is a new one. `from` is a
 * file or a URL. */
static void report(struct sl_jwks *jwks, enum sl_jwks_result result,
                   const char *from, const char *why)
{
    const struct sl_keyset *set = jwks->active.set;
    char count[16];

    jwks->results[result]++;
    if (result == SL_JWKS_GOOD) {
        snprintf(count, sizeof(count), "%u", sl_keyset_count(set));
        if (jwks->has_failed || jwks->results[SL_JWKS_GOOD] == 1)
            sl_log(SL_LOG_INFO, "JWKS loaded", "from", from, "keys", count,
                   NULL);
    } else if (!jwks->has_failed) {
        sl_log(SL_LOG_WARN, "JWKS not loaded", "from", from, "why", why,
               "meanwhile",
               set ? "the current keys stay in use"
                   : "no keys: all tokens are rejected",
               NULL);
    }
    jwks->has_failed = result != SL_JWKS_GOOD;
}

/* ---- keys from a URL ---- */

static sl_ns life_of(struct sl_jwks *jwks)
{
    const struct sl_jwks_options *o = &jwks->options;
    sl_ns life = sl_cache_control_life(sl_str_c(jwks->fetch.cache_control));

    if (life == SL_NS_NONE)
        life = o->life_usual;
    if (life < o->life_least)
        life = o->life_least;
    if (life > o->life_most)
        life = o->life_most;
    /* Up to a tenth less, at random. */
    return life -
           (sl_ns)(sl_jitter_next(&jwks->jitter) % ((uint64_t)life / 10 + 1));
}

/* A fetch failed: the next one is after half of the back-off to all of it. */
static void back_off(struct sl_jwks *jwks)
{
    const struct sl_jwks_options *o = &jwks->options;
    sl_ns span = o->retry_least;

    for (unsigned i = 0; i < jwks->failures && i < DOUBLINGS; i++)
        span = span < o->retry_most / 2 ? 2 * span : o->retry_most;
    jwks->failures++;
    jwks->next_at = sl_loop_mono(o->loop) + sl_jitter_span(&jwks->jitter, span);
}

/* Activates the keys of a response. The same bytes are the same keys: cached
 * tokens stay valid. */
static enum sl_jwks_result take(struct sl_jwks *jwks, struct sl_diag *diag)
{
    struct sl_buf old = jwks->text;
    struct sl_str text = sl_buf_str(&jwks->fetch.body);
    struct sl_keyset *set;

    if (jwks->active.set && sl_str_eq(text, sl_buf_str(&old))) {
        jwks->read_at = sl_loop_mono(jwks->options.loop);
        return SL_JWKS_GOOD;
    }
    if (sl_keyset_read(text, jwks->active.policy->identity.jwt.algorithms,
                       jwks->options.alloc, &set, diag))
        return SL_JWKS_REFUSED;
    if (put_set(jwks, set)) {
        sl_diag_error(diag, SLUICE_ENOMEM, "out of memory");
        return SL_JWKS_UNREACHABLE;
    }
    jwks->text = jwks->fetch.body;
    jwks->fetch.body = old;
    return SL_JWKS_GOOD;
}

static void on_fetched(struct sl_http_fetch *fetch)
{
    struct sl_jwks *jwks = fetch->ctx;
    enum sl_jwks_result result = SL_JWKS_UNREACHABLE;
    struct sl_diag diag = {.sentence = ""};

    if (fetch->result == SL_HTTP_FETCH_GOOD)
        result = take(jwks, &diag);
    else if (fetch->result == SL_HTTP_FETCH_STATUS)
        result = SL_JWKS_STATUS;
    else if (fetch->result == SL_HTTP_FETCH_TOO_LARGE)
        result = SL_JWKS_TOO_LARGE;
    if (result == SL_JWKS_GOOD) {
        jwks->failures = 0;
        /* The request is fulfilled. */
        (void)sl_jwks_current_refresh_requested(jwks->keys);
        jwks->next_at = jwks->read_at + life_of(jwks);
    } else {
        back_off(jwks);
    }
    report(jwks, result, jwks->active.url,
           diag.sentence[0] ? diag.sentence : fetch->why);
}

static void fetch(struct sl_jwks *jwks)
{
    jwks->begun_at = sl_loop_mono(jwks->options.loop);
    jwks->fetch.url = jwks->active.url;
    jwks->fetch.most = SL_KEYSET_BYTES;
    jwks->fetch.timeout = jwks->options.timeout;
    jwks->fetch.done = on_fetched;
    jwks->fetch.ctx = jwks;
    if (sl_http_fetch_begin(jwks->fetcher, &jwks->fetch) == 0)
        return;
    back_off(jwks);
    report(jwks, SL_JWKS_UNREACHABLE, jwks->active.url, "out of memory");
}

/* Drops keys that could not be confirmed for too long: the provider may have
 * withdrawn them. */
static void drop_stale(struct sl_jwks *jwks, sl_ns now)
{
    if (!jwks->active.set ||
        now - jwks->read_at < jwks->active.policy->identity.jwt.stale ||
        put_set(jwks, NULL))
        return;
    sl_buf_done(&jwks->text);
    sl_log(SL_LOG_ERROR, "JWKS expired", "url", jwks->active.url, "why",
           "it could not be fetched within the time `stale`; all tokens are "
           "rejected until it can",
           NULL);
}

/* A request counts only while the last fetch succeeded. */
static void on_look(void *ctx)
{
    struct sl_jwks *jwks = ctx;
    sl_ns now = sl_loop_mono(jwks->options.loop);
    bool requested;

    sl_timer_start(jwks->timer, jwks->options.look);
    drop_stale(jwks, now);
    if (jwks->fetch.easy)
        return; /* the fetch in flight serves the request */
    requested = now >= jwks->begun_at + jwks->options.cool_down &&
                sl_jwks_current_refresh_requested(jwks->keys);
    if (now >= jwks->next_at || (requested && jwks->failures == 0))
        fetch(jwks);
}

static void stop_fetching(struct sl_jwks *jwks)
{
    if (jwks->timer)
        sl_timer_stop(jwks->timer);
    if (jwks->fetcher)
        sl_http_fetch_forget(jwks->fetcher, &jwks->fetch);
    sl_buf_done(&jwks->text);
}

/* ---- opening ---- */

static void preset(sl_ns *value, sl_ns usual)
{
    if (*value == 0)
        *value = usual;
}

static int start(struct sl_jwks *jwks, struct sl_diag *diag)
{
    struct sl_jwks_options *o = &jwks->options;

    preset(&o->cool_down, 10 * SL_S);
    preset(&o->retry_least, SL_S);
    preset(&o->retry_most, 300 * SL_S);
    preset(&o->life_least, 60 * SL_S);
    preset(&o->life_usual, 600 * SL_S);
    preset(&o->life_most, 86400 * SL_S);
    preset(&o->timeout, 10 * SL_S);
    preset(&o->look, SL_S);
    sl_buf_init(&jwks->text, SL_KEYSET_BYTES, o->alloc);
    if (sl_jitter_init(&jwks->jitter) ||
        sl_jwks_current_open(o->alloc, &jwks->keys) ||
        sl_timer_new(o->loop, on_look, jwks, &jwks->timer))
        return sl_diag_error(diag, SLUICE_ENOMEM, "out of memory");
    return sl_http_fetcher_open(o->loop, o->alloc, &jwks->fetcher, diag);
}

int sl_jwks_open(const struct sl_jwks_options *options, struct sl_jwks **ret,
                 struct sl_diag *diag)
{
    struct sl_jwks *jwks = sl_alloc_new(options->alloc, sizeof(*jwks));
    int err;

    if (!jwks)
        return sl_diag_error(diag, SLUICE_ENOMEM, "out of memory");
    *jwks = (struct sl_jwks){.options = *options, .read_at = SL_NS_NONE};
    err = start(jwks, diag);
    if (err)
        sl_jwks_close(jwks);
    else
        *ret = jwks;
    return err;
}

void sl_jwks_close(struct sl_jwks *jwks)
{
    if (!jwks)
        return;
    stop_fetching(jwks);
    sl_timer_free(jwks->timer);
    sl_http_fetcher_close(jwks->fetcher);
    sl_jwks_current_close(jwks->keys);
    free_source(jwks, &jwks->active);
    sl_alloc_free(jwks->options.alloc, jwks, sizeof(*jwks));
}

/* ---- another policy ---- */

/* Copies a new URL. The keys of an old URL are read again, because other
 * algorithms may be allowed. No usable key is not an error. */
static int read_url(struct sl_jwks *jwks, struct sl_jwks_source *next,
                    bool same_url)
{
    const struct sl_jwt *jwt = &next->policy->identity.jwt;
    struct sl_diag diag;
    int err = 0;

    if (same_url && jwks->active.set)
        err = sl_keyset_read(sl_buf_str(&jwks->text), jwt->algorithms,
                             jwks->options.alloc, &next->set, &diag);
    if (same_url)
        return err == SLUICE_ENOMEM ? err : 0;
    next->url_size = jwt->jwks.len + 1;
    next->url = sl_alloc_new(jwks->options.alloc, next->url_size);
    if (!next->url)
        return SLUICE_ENOMEM;
    memcpy(next->url, jwt->jwks.at, jwt->jwks.len);
    next->url[jwt->jwks.len] = '\0';
    return 0;
}

/* Reads a secret or a file. */
static int read_keys(struct sl_jwks *jwks, struct sl_jwks_source *next,
                     const char *path, bool optional, struct sl_diag *diag)
{
    const struct sl_jwt *jwt = &next->policy->identity.jwt;

    if (sl_jwt_keys_in_file(jwt)) {
        next->file =
            sl_jwt_keys_path(jwt, path, jwks->options.alloc, &next->file_size);
        if (!next->file)
            return SLUICE_ENOMEM;
        if (optional && access(next->file, F_OK) != 0)
            return 0;
    }
    return sl_jwt_keys_read(jwt, next->file, jwks->options.alloc, &next->set,
                            diag);
}

/* Replaces the active source by `next`, and `next` by what is left of it. */
static void swap(struct sl_jwks *jwks, struct sl_jwks_source *next,
                 bool same_url)
{
    struct sl_jwks_source old = jwks->active;

    jwks->active = *next;
    *next = old;
    if (same_url) {
        jwks->active.url = old.url;
        jwks->active.url_size = old.url_size;
        next->url = NULL;
        return;
    }
    stop_fetching(jwks);
    jwks->had_keys = jwks->active.set != NULL;
    jwks->read_at =
        jwks->active.set ? sl_loop_mono(jwks->options.loop) : SL_NS_NONE;
    if (jwks->active.url) {
        jwks->failures = 0;
        sl_timer_start(jwks->timer, jwks->options.look);
        fetch(jwks);
    } else if (jwks->active.file && !jwks->active.set) {
        sl_log(SL_LOG_WARN, "no keys: all tokens are rejected", "why",
               "the JWKS file does not exist", "file", jwks->active.file, NULL);
    }
}

int sl_jwks_use(struct sl_jwks *jwks, struct sl_policy *policy,
                const char *path, bool optional, struct sl_diag *diag)
{
    const struct sl_jwt *jwt = &policy->identity.jwt;
    struct sl_jwks_source next = {.policy = sl_policy_ref(policy)};
    bool in_url = jwt->written && sl_jwt_keys_elsewhere(jwt);
    bool same_url = in_url && jwks->active.url &&
                    sl_str_eq(jwt->jwks, sl_str_c(jwks->active.url));
    int err = 0;

    if (in_url)
        err = read_url(jwks, &next, same_url);
    else if (jwt->written)
        err = read_keys(jwks, &next, path, optional, diag);
    if (!err)
        err = put(jwks, policy, next.set);
    if (!err)
        swap(jwks, &next, same_url);
    free_source(jwks, &next);
    if (err && err != SLUICE_ENOMEM)
        return SLUICE_ECONF;
    return err ? sl_diag_error(diag, err, "out of memory") : 0;
}

int sl_jwks_check(const struct sl_policy *policy, const char *path,
                  struct sl_diag *diag)
{
    const struct sl_jwt *jwt = &policy->identity.jwt;
    struct sl_keyset *set = NULL;
    char *file = NULL;
    size_t size = 0;
    int err;

    if (!jwt->written || sl_jwt_keys_elsewhere(jwt))
        return 0;
    if (sl_jwt_keys_in_file(jwt)) {
        file = sl_jwt_keys_path(jwt, path, &sl_alloc_libc, &size);
        if (!file)
            return sl_diag_error(diag, SLUICE_ENOMEM, "out of memory");
    }
    err = sl_jwt_keys_read(jwt, file, &sl_alloc_libc, &set, diag);
    sl_keyset_unref(set);
    if (file)
        sl_alloc_free(&sl_alloc_libc, file, size);
    return err ? SLUICE_ECONF : 0;
}

/* ---- a file that changes ---- */

void sl_jwks_read_again(struct sl_jwks *jwks)
{
    struct sl_diag why = {.sentence = ""};
    struct sl_keyset *set = NULL;
    int err;

    if (!jwks->active.file)
        return;
    err = sl_jwt_keys_read(&jwks->active.policy->identity.jwt,
                           jwks->active.file, jwks->options.alloc, &set, &why);
    if (!err)
        err = put_set(jwks, set);
    report(jwks,
           !err                  ? SL_JWKS_GOOD
           : err == SLUICE_ECONF ? SL_JWKS_REFUSED
                                 : SL_JWKS_UNREACHABLE,
           jwks->active.file, why.sentence);
}

/* ---- status ---- */

bool sl_jwks_ready(const struct sl_jwks *jwks, struct sl_buf *why)
{
    if (!jwks->active.url || jwks->had_keys)
        return true;
    if (sl_buf_addf(why, "the JWKS has not been fetched yet"))
        sl_buf_clear(why);
    return false;
}

void sl_jwks_stats(const struct sl_jwks *jwks, struct sl_jwks_stats *ret)
{
    const struct sl_jwks_source *active = &jwks->active;
    bool has_keys = active->set && jwks->read_at != SL_NS_NONE;

    *ret = (struct sl_jwks_stats){
        .on = active->policy && active->policy->identity.jwt.written,
        .keys = active->set ? sl_keyset_count(active->set) : 0,
        .age = has_keys ? sl_loop_mono(jwks->options.loop) - jwks->read_at
                        : SL_NS_NONE,
    };
    memcpy(ret->results, jwks->results, sizeof(ret->results));
}

/* ---- steps of the daemon: keys for all threads, a verifier for each. */

#ifdef SL_VIRTUAL_CLOCK
/* Tests cannot wait for minutes: all durations become milliseconds. */
static void shorten(struct sl_jwks_options *options)
{
    const char *text = getenv("TEST_JWKS_MS");
    sl_ns span = (text ? strtol(text, NULL, 10) : 0) * SL_MS;

    if (span <= 0)
        return;
    options->cool_down = options->retry_most = options->timeout = span;
    options->retry_least = span / 4;
    options->life_least = options->life_usual = 10 * span;
    options->look = span / 20;
}
#endif

int sl_tokens_reset(struct sl_daemon *daemon, struct sl_worker *worker)
{
    struct sl_tokens_options options = {.keys = daemon->jwks->keys,
                                        .alloc = &sl_alloc_libc};
    struct sl_tokens *fresh;
    int err = sl_tokens_open(&options, &fresh, &daemon->why);

    if (err)
        return err;
    sl_tokens_close(worker->engine_ctx.tokens);
    worker->engine_ctx.tokens = fresh;
    return 0;
}

int sl_tokens_begin(struct sl_daemon *daemon)
{
    struct sl_jwks_options options = {.loop = daemon->workers[0].loop,
                                      .alloc = &sl_alloc_libc};

#ifdef SL_VIRTUAL_CLOCK
    shorten(&options);
#endif
    if (sl_jwks_open(&options, &daemon->jwks, &daemon->why))
        return SL_EXIT_FAILED;
    if (sl_jwks_use(daemon->jwks, daemon->policy_source.policy, daemon->path,
                    false, &daemon->why))
        return SL_EXIT_POLICY;
    for (unsigned i = 0; i < daemon->worker_count; i++) {
        daemon->workers[i].engine_ctx.webhook = sl_webhook_verify;
        if (sl_tokens_reset(daemon, &daemon->workers[i]))
            return SL_EXIT_FAILED;
    }
    return 0;
}

void sl_tokens_end(struct sl_daemon *daemon)
{
    for (unsigned i = 0; daemon->workers && i < daemon->worker_count; i++) {
        sl_tokens_close(daemon->workers[i].engine_ctx.tokens);
        daemon->workers[i].engine_ctx.tokens = NULL;
    }
    sl_jwks_close(daemon->jwks);
    daemon->jwks = NULL;
}
