/* jwks.c -- fetches and refreshes the keys of tokens. */
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

const char *const sl_jwks_words[SL_JWKS_RESULTS] = {
    [SL_JWKS_GOOD] = "good",       [SL_JWKS_UNREACHABLE] = "unreachable",
    [SL_JWKS_STATUS] = "status",   [SL_JWKS_TOO_LARGE] = "too_large",
    [SL_JWKS_REFUSED] = "refused",
};

/* ---- opening ---- */

static void preset(sl_ns *value, sl_ns usual)
{
    if (*value == 0)
        *value = usual;
}

static void fill(struct sl_jwks_options *o)
{
    preset(&o->cool_down, 10 * SL_S);
    preset(&o->retry_least, SL_S);
    preset(&o->retry_most, 300 * SL_S);
    preset(&o->life_least, 60 * SL_S);
    preset(&o->life_usual, 600 * SL_S);
    preset(&o->life_most, 86400 * SL_S);
    preset(&o->timeout, 10 * SL_S);
    preset(&o->look, SL_S);
}

int sl_jwks_open(const struct sl_jwks_options *options, struct sl_jwks **ret,
                 struct sl_diag *diag)
{
    struct sl_jwks *jwks = sl_alloc_new(options->alloc, sizeof(*jwks));
    int err;

    if (!jwks)
        return sl_diag_error(diag, SLUICE_ENOMEM, "out of memory");
    *jwks = (struct sl_jwks){.options = *options, .read_at = SL_NS_NONE};
    fill(&jwks->options);
    sl_buf_init(&jwks->text, SL_KEYSET_BYTES, options->alloc);
    err = sl_hash_key_make(&jwks->chance);
    if (!err)
        err = sl_jwks_current_open(options->alloc, &jwks->keys);
    if (err)
        sl_diag_error(diag, err, "out of memory");
    else
        err = sl_jwks_remote_open(jwks, diag);
    if (err)
        sl_jwks_close(jwks);
    else
        *ret = jwks;
    return err;
}

void sl_jwks_close(struct sl_jwks *jwks)
{
    const struct sl_alloc *alloc;

    if (!jwks)
        return;
    alloc = jwks->options.alloc;
    sl_jwks_remote_close(jwks);
    sl_jwks_current_close(jwks->keys);
    sl_keyset_unref(jwks->set);
    sl_policy_unref(jwks->policy);
    sl_buf_done(&jwks->text);
    sl_alloc_free(alloc, jwks->file, jwks->file_size);
    sl_alloc_free(alloc, jwks, sizeof(*jwks));
}

struct sl_jwks_current *sl_jwks_keys(struct sl_jwks *jwks)
{
    return jwks->keys;
}

uint64_t sl_jwks_roll(struct sl_jwks *jwks, uint64_t below)
{
    uint64_t n = ++jwks->rolled;

    return sl_hash64(&jwks->chance,
                     (struct sl_str){(const char *)&n, sizeof(n)}) %
           below;
}

/* ---- activating ---- */

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

int sl_jwks_put(struct sl_jwks *jwks, struct sl_keyset *set)
{
    int err = put(jwks, jwks->policy, set);

    if (err)
        return err;
    sl_keyset_unref(jwks->set);
    jwks->set = set;
    jwks->came = jwks->came || set;
    return 0;
}

/* ---- logging ---- */

void sl_jwks_tell(struct sl_jwks *jwks, enum sl_jwks_result result,
                  const char *from, const char *why)
{
    char count[16];

    jwks->results[result]++;
    if (result == SL_JWKS_GOOD) {
        snprintf(count, sizeof(count), "%u", sl_keyset_count(jwks->set));
        if (jwks->unlucky || jwks->results[SL_JWKS_GOOD] == 1)
            sl_log(SL_LOG_INFO, "JWKS loaded", "from", from, "keys", count,
                   NULL);
        jwks->unlucky = false;
        return;
    }
    if (!jwks->unlucky)
        sl_log(SL_LOG_WARN, "JWKS not loaded", "from", from, "why", why,
               "meanwhile",
               jwks->set ? "the current keys stay in use"
                         : "no keys: all tokens are rejected",
               NULL);
    jwks->unlucky = true;
}

/* ---- keys in the policy ---- */

/* Keeps the keys of a URL that stays the same. Reads them again, because other
 * algorithms may be allowed. */
static int keep(struct sl_jwks *jwks, struct sl_jwks_next *next)
{
    const struct sl_jwt *jwt = &next->policy->identity.jwt;
    struct sl_diag diag;
    int err;

    if (!jwks->set || !jwks->remote.on ||
        !sl_str_eq(jwt->jwks, jwks->policy->identity.jwt.jwks))
        return 0;
    err = sl_keyset_read(sl_buf_str(&jwks->text), jwt->algorithms,
                         jwks->options.alloc, &next->set, &diag);
    return err == SLUICE_ENOMEM ? err : 0; /* no usable key is not an error */
}

/* A posted policy may refer to a file of another machine. */
static bool is_left_behind(const struct sl_jwks_from *from, const char *file)
{
    return from->guest && access(file, F_OK) != 0;
}

static int read_file(struct sl_jwks *jwks, const struct sl_jwks_from *from,
                     struct sl_jwks_next *next, struct sl_diag *diag)
{
    const struct sl_jwt *jwt = &next->policy->identity.jwt;

    next->file = sl_jwt_keys_path(jwt, from->path, jwks->options.alloc,
                                  &next->file_size);
    if (!next->file)
        return SLUICE_ENOMEM;
    if (is_left_behind(from, next->file))
        return 0;
    return sl_jwt_keys_read(jwt, next->file, jwks->options.alloc, &next->set,
                            diag);
}

static int read_next(struct sl_jwks *jwks, const struct sl_jwks_from *from,
                     struct sl_jwks_next *next, struct sl_diag *diag)
{
    const struct sl_jwt *jwt = &next->policy->identity.jwt;

    if (!jwt->written)
        return 0;
    if (sl_jwt_keys_elsewhere(jwt))
        return keep(jwks, next);
    if (sl_jwt_keys_in_file(jwt))
        return read_file(jwks, from, next, diag);
    return sl_jwt_keys_read(jwt, NULL, jwks->options.alloc, &next->set, diag);
}

int sl_jwks_prepare(struct sl_jwks *jwks, struct sl_policy *policy,
                    const struct sl_jwks_from *from, struct sl_jwks_next *ret,
                    struct sl_diag *diag)
{
    int err;

    *ret = (struct sl_jwks_next){.policy = sl_policy_ref(policy)};
    err = read_next(jwks, from, ret, diag);
    if (err) {
        sl_jwks_drop(jwks, ret);
        if (err == SLUICE_ENOMEM)
            sl_diag_error(diag, err, "out of memory");
    }
    return err == 0 || err == SLUICE_ENOMEM ? err : SLUICE_ECONF;
}

void sl_jwks_drop(struct sl_jwks *jwks, struct sl_jwks_next *next)
{
    sl_policy_unref(next->policy);
    sl_keyset_unref(next->set);
    sl_alloc_free(jwks->options.alloc, next->file, next->file_size);
    *next = (struct sl_jwks_next){.policy = NULL};
}

/* ---- using it ---- */

/* Copies the URL with a NUL; NULL if it stays the same or there is none. */
static int copy_url(struct sl_jwks *jwks, const struct sl_jwt *jwt, char **ret,
                    size_t *size)
{
    *ret = NULL;
    *size = jwt->jwks.len + 1;
    if (!sl_jwt_keys_elsewhere(jwt) ||
        (jwks->remote.on && sl_str_eq(jwt->jwks, sl_str_c(jwks->remote.url))))
        return 0;
    *ret = sl_alloc_new(jwks->options.alloc, *size);
    if (!*ret)
        return SLUICE_ENOMEM;
    memcpy(*ret, jwt->jwks.at, jwt->jwks.len);
    (*ret)[jwt->jwks.len] = '\0';
    return 0;
}

static void follow_url(struct sl_jwks *jwks, char *url, size_t size)
{
    if (jwks->remote.on &&
        (url || !sl_jwt_keys_elsewhere(&jwks->policy->identity.jwt))) {
        sl_jwks_remote_end(jwks);
        sl_buf_done(&jwks->text);
    }
    if (url)
        sl_jwks_remote_begin(jwks, url, size);
}

int sl_jwks_use(struct sl_jwks *jwks, struct sl_jwks_next *next)
{
    const struct sl_jwt *jwt = &next->policy->identity.jwt;
    struct sl_jwks_next old = {jwks->policy, jwks->set, jwks->file,
                               jwks->file_size};
    bool stays = jwks->remote.on && sl_jwt_keys_elsewhere(jwt) &&
                 sl_str_eq(jwt->jwks, sl_str_c(jwks->remote.url));
    size_t size;
    char *url;

    if (copy_url(jwks, jwt, &url, &size))
        return SLUICE_ENOMEM;
    if (put(jwks, next->policy, next->set)) {
        sl_alloc_free(jwks->options.alloc, url, size);
        return SLUICE_ENOMEM;
    }
    jwks->policy = next->policy;
    jwks->set = next->set;
    jwks->file = next->file;
    jwks->file_size = next->file_size;
    if (jwt->written && !next->set && !sl_jwt_keys_elsewhere(jwt))
        sl_log(SL_LOG_WARN, "no keys: all tokens are rejected", "why",
               "the JWKS file does not exist", "file", next->file, NULL);
    if (!stays) {
        jwks->came = next->set != NULL;
        jwks->read_at =
            next->set ? sl_loop_mono(jwks->options.loop) : SL_NS_NONE;
    }
    *next = old;
    sl_jwks_drop(jwks, next);
    follow_url(jwks, url, size);
    return 0;
}

/* ---- a file that changes ---- */

const char *sl_jwks_file(const struct sl_jwks *jwks)
{
    return jwks->file;
}

void sl_jwks_read_again(struct sl_jwks *jwks)
{
    struct sl_diag why = {.sentence = ""};
    struct sl_keyset *set = NULL;
    int err;

    if (!jwks->file)
        return;
    err = sl_jwt_keys_read(&jwks->policy->identity.jwt, jwks->file,
                           jwks->options.alloc, &set, &why);
    if (!err) {
        err = sl_jwks_put(jwks, set);
        if (err)
            sl_keyset_unref(set);
        else
            jwks->read_at = sl_loop_mono(jwks->options.loop);
    }
    sl_jwks_tell(jwks,
                 !err                  ? SL_JWKS_GOOD
                 : err == SLUICE_ECONF ? SL_JWKS_REFUSED
                                       : SL_JWKS_UNREACHABLE,
                 jwks->file, why.sentence);
}

/* ---- status ---- */

bool sl_jwks_ready(const struct sl_jwks *jwks, struct sl_buf *why)
{
    if (!jwks->policy || !sl_jwt_keys_elsewhere(&jwks->policy->identity.jwt) ||
        jwks->came)
        return true;
    if (sl_buf_addf(why, "the JWKS has not been fetched yet"))
        sl_buf_clear(why);
    return false;
}

void sl_jwks_stats(const struct sl_jwks *jwks, struct sl_jwks_stats *ret)
{
    sl_ns now = sl_loop_mono(jwks->options.loop);

    *ret = (struct sl_jwks_stats){
        .on = jwks->policy && jwks->policy->identity.jwt.written,
        .keys = jwks->set ? sl_keyset_count(jwks->set) : 0,
        .age = jwks->set && jwks->read_at != SL_NS_NONE ? now - jwks->read_at
                                                        : SL_NS_NONE,
    };
    memcpy(ret->results, jwks->results, sizeof(ret->results));
}

/* ---- keys from a URL.
 *
 *            begin                     due, or a refresh is requested
 *     OFF ---------> WAITING ------------------------------------+
 *      ^               ^  ^                                      v
 *      |  end          |  +--- failed: back-off ------------- ASKING
 *      +---------------+------ good: by Cache-Control -----------+
 *
 * on_look() goes from WAITING to ASKING, on_fetched() back. Both use the
 * monotonic clock, so that steps of the wall clock do not matter.
 */

#define DOUBLINGS 16

static bool is_asking(const struct sl_jwks_remote *remote)
{
    return remote->fetch.easy != NULL;
}

/* ---- timing ---- */

/* Subtracts up to a tenth at random. */
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

/* Returns a random time between half of the back-off and all of it. */
static sl_ns retry_in(struct sl_jwks *jwks)
{
    const struct sl_jwks_options *o = &jwks->options;
    unsigned doublings = jwks->remote.failures - 1;
    sl_ns span = o->retry_least;

    for (unsigned i = 0; i < doublings && i < DOUBLINGS; i++)
        span = span < o->retry_most / 2 ? 2 * span : o->retry_most;
    return span - (sl_ns)sl_jwks_roll(jwks, (uint64_t)span / 2 + 1);
}

/* Returns whether to fetch now. A request counts only while the last fetch
 * succeeded. */
static bool is_time(const struct sl_jwks *jwks, bool wished, sl_ns now)
{
    const struct sl_jwks_remote *remote = &jwks->remote;

    if (now >= remote->next_at)
        return true;
    return wished && remote->failures == 0 &&
           now >= remote->begun_at + jwks->options.cool_down;
}

/* ---- responses ---- */

static enum sl_jwks_result result_of(enum sl_http_fetch_result result)
{
    switch (result) {
    case SL_HTTP_FETCH_GOOD:
        return SL_JWKS_GOOD;
    case SL_HTTP_FETCH_STATUS:
        return SL_JWKS_STATUS;
    case SL_HTTP_FETCH_TOO_LARGE:
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

/* The same bytes are the same keys: cached tokens stay valid. */
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
        sl_diag_error(diag, SLUICE_ENOMEM, "out of memory");
        return SL_JWKS_UNREACHABLE;
    }
    swap_text(jwks);
    return SL_JWKS_GOOD;
}

static void on_fetched(struct sl_http_fetch *fetch)
{
    struct sl_jwks *jwks = fetch->ctx;
    struct sl_jwks_remote *remote = &jwks->remote;
    enum sl_jwks_result result = result_of(fetch->result);
    sl_ns now = sl_loop_mono(jwks->options.loop);
    struct sl_diag diag = {.sentence = ""};

    if (result == SL_JWKS_GOOD)
        result = take(jwks, &diag);
    if (result == SL_JWKS_GOOD) {
        remote->failures = 0;
        (void)sl_jwks_current_refresh_requested(
            jwks->keys); /* the request is fulfilled */
        jwks->read_at = now;
        remote->next_at = now + earlier(jwks, life_of(jwks));
    } else {
        remote->failures++;
        remote->next_at = now + retry_in(jwks);
    }
    sl_jwks_tell(jwks, result, remote->url,
                 diag.sentence[0] ? diag.sentence : fetch->why);
}

/* ---- fetching ---- */

static void ask(struct sl_jwks *jwks, sl_ns now)
{
    struct sl_jwks_remote *remote = &jwks->remote;

    remote->begun_at = now;
    remote->fetch.url = remote->url;
    remote->fetch.most = SL_KEYSET_BYTES;
    remote->fetch.timeout = jwks->options.timeout;
    remote->fetch.done = on_fetched;
    remote->fetch.ctx = jwks;
    if (sl_http_fetch_begin(remote->fetcher, &remote->fetch) == 0)
        return;
    remote->failures++;
    remote->next_at = now + retry_in(jwks);
    sl_jwks_tell(jwks, SL_JWKS_UNREACHABLE, remote->url, "out of memory");
}

/* Drops keys that could not be confirmed for too long: the provider may have
 * withdrawn them. */
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
    sl_ns now = sl_loop_mono(jwks->options.loop);
    bool wished;

    sl_timer_start(jwks->remote.timer, jwks->options.look);
    drop_stale(jwks, now);
    if (is_asking(&jwks->remote))
        return; /* the fetch in flight serves the request */
    wished = now >= jwks->remote.begun_at + jwks->options.cool_down &&
             sl_jwks_current_refresh_requested(jwks->keys);
    if (is_time(jwks, wished, now))
        ask(jwks, now);
}

/* ---- the life ---- */

int sl_jwks_remote_open(struct sl_jwks *jwks, struct sl_diag *diag)
{
    struct sl_jwks_remote *remote = &jwks->remote;

    if (sl_timer_new(jwks->options.loop, on_look, jwks, &remote->timer))
        return sl_diag_error(diag, SLUICE_ENOMEM, "out of memory");
    return sl_http_fetcher_open(jwks->options.loop, jwks->options.alloc,
                                &remote->fetcher, diag);
}

void sl_jwks_remote_end(struct sl_jwks *jwks)
{
    struct sl_jwks_remote *remote = &jwks->remote;

    if (remote->timer)
        sl_timer_stop(remote->timer);
    if (remote->fetcher)
        sl_http_fetch_forget(remote->fetcher, &remote->fetch);
    sl_alloc_free(jwks->options.alloc, remote->url, remote->url_size);
    remote->url = NULL;
    remote->on = false;
}

void sl_jwks_remote_close(struct sl_jwks *jwks)
{
    sl_jwks_remote_end(jwks);
    sl_timer_free(jwks->remote.timer);
    sl_http_fetcher_close(jwks->remote.fetcher);
}

void sl_jwks_remote_begin(struct sl_jwks *jwks, char *url, size_t size)
{
    struct sl_jwks_remote *remote = &jwks->remote;

    remote->on = true;
    remote->url = url;
    remote->url_size = size;
    remote->failures = 0;
    sl_timer_start(remote->timer, jwks->options.look);
    ask(jwks, sl_loop_mono(jwks->options.loop));
}

/* ---- keys for all threads, and a verifier for each worker. */

/* ---- keys ---- */

#ifdef SL_VIRTUAL_CLOCK
/* Tests cannot wait for minutes: all durations become milliseconds. */
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
        sl_diag_error(diag, err, "out of memory");
    }
    return err;
}

/* ---- the step ---- */

int sl_tokens_begin(struct sl_daemon *daemon)
{
    struct sl_tokens_options options = {.alloc = &sl_alloc_libc};

    if (open_keys(daemon))
        return SL_EXIT_FAILED;
    if (sl_tokens_use(daemon, daemon->policy_source.policy, false,
                      &daemon->why))
        return SL_EXIT_POLICY;
    options.keys = sl_jwks_keys(daemon->jwks);
    for (unsigned i = 0; i < daemon->worker_count; i++) {
        daemon->workers[i].engine_ctx.webhook = sl_webhook_verify;
        if (sl_tokens_open(&options, &daemon->workers[i].engine_ctx.tokens,
                           &daemon->why))
            return SL_EXIT_FAILED;
    }
    return 0;
}

#ifdef SL_VIRTUAL_CLOCK
int sl_tokens_reset(struct sl_daemon *daemon)
{
    struct sl_tokens_options options = {.keys = sl_jwks_keys(daemon->jwks),
                                        .alloc = &sl_alloc_libc};
    struct sl_tokens **place = &daemon->workers[0].engine_ctx.tokens;
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
        sl_tokens_close(daemon->workers[i].engine_ctx.tokens);
        daemon->workers[i].engine_ctx.tokens = NULL;
    }
    sl_jwks_close(daemon->jwks);
    daemon->jwks = NULL;
}
