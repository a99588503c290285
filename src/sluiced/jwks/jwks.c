/* jwks.c -- the keys that tokens are verified with. */
#include "sluiced/jwks/jwks.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "doors/local_keys.h"
#include "sluiced/jwks/inner.h"

const char *const sl_jwks_words[SL_JWKS_RESULTS] = {
    [SL_JWKS_GOOD] = "good",       [SL_JWKS_UNREACHABLE] = "unreachable",
    [SL_JWKS_STATUS] = "status",   [SL_JWKS_TOO_LARGE] = "too_large",
    [SL_JWKS_REFUSED] = "refused",
};

/* ---- life ---- */

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
        return sl_refuse(diag, SLUICE_ENOMEM, "out of memory");
    *jwks = (struct sl_jwks){.options = *options, .read_at = SL_NS_NONE};
    fill(&jwks->options);
    sl_buf_init(&jwks->text, SL_KEYSET_BYTES, options->alloc);
    err = sl_hash_key_make(&jwks->chance);
    if (!err)
        err = sl_keys_open(options->alloc, &jwks->keys);
    if (err)
        sl_refuse(diag, err, "out of memory");
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
    sl_keys_close(jwks->keys);
    sl_keyset_unref(jwks->set);
    sl_policy_unref(jwks->policy);
    sl_buf_done(&jwks->text);
    sl_alloc_free(alloc, jwks->file, jwks->file_size);
    sl_alloc_free(alloc, jwks, sizeof(*jwks));
}

struct sl_keys *sl_jwks_keys(struct sl_jwks *jwks)
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

/* ---- putting in force ---- */

static int put(struct sl_jwks *jwks, const struct sl_policy *policy,
               struct sl_keyset *set)
{
    struct sl_token_rules rules = sl_keys_rules(&policy->identity.jwt);
    int err = sl_keys_put(jwks->keys, set, &rules);

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

/* ---- telling ---- */

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

/* ---- a policy's own keys ---- */

/* Of a URL that stays what it is, the keys there are; read anew, as other
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
    return err == SLUICE_ENOMEM ? err : 0; /* none that serves is none */
}

/* A policy from elsewhere may have its keys there. */
static bool is_left_behind(const struct sl_jwks_from *from, const char *file)
{
    return from->guest && access(file, F_OK) != 0;
}

static int read_file(struct sl_jwks *jwks, const struct sl_jwks_from *from,
                     struct sl_jwks_next *next, struct sl_diag *diag)
{
    const struct sl_jwt *jwt = &next->policy->identity.jwt;

    next->file =
        sl_keys_path(jwt, from->path, jwks->options.alloc, &next->file_size);
    if (!next->file)
        return SLUICE_ENOMEM;
    if (is_left_behind(from, next->file))
        return 0;
    return sl_keys_read(jwt, next->file, jwks->options.alloc, &next->set, diag);
}

static int read_next(struct sl_jwks *jwks, const struct sl_jwks_from *from,
                     struct sl_jwks_next *next, struct sl_diag *diag)
{
    const struct sl_jwt *jwt = &next->policy->identity.jwt;

    if (!jwt->written)
        return 0;
    if (sl_keys_elsewhere(jwt))
        return keep(jwks, next);
    if (sl_keys_in_file(jwt))
        return read_file(jwks, from, next, diag);
    return sl_keys_read(jwt, NULL, jwks->options.alloc, &next->set, diag);
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
            sl_refuse(diag, err, "out of memory");
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

/* The URL with a NUL, or NULL if it is to stay as it is or there is none. */
static int copy_url(struct sl_jwks *jwks, const struct sl_jwt *jwt, char **ret,
                    size_t *size)
{
    *ret = NULL;
    *size = jwt->jwks.len + 1;
    if (!sl_keys_elsewhere(jwt) ||
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
        (url || !sl_keys_elsewhere(&jwks->policy->identity.jwt))) {
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
    bool stays = jwks->remote.on && sl_keys_elsewhere(jwt) &&
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
    if (jwt->written && !next->set && !sl_keys_elsewhere(jwt))
        sl_log(SL_LOG_WARN, "no keys: all tokens are rejected", "why",
               "the JWKS file does not exist", "file", next->file, NULL);
    if (!stays) {
        jwks->came = next->set != NULL;
        jwks->read_at =
            next->set ? sl_loop_steady(jwks->options.loop) : SL_NS_NONE;
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
    err = sl_keys_read(&jwks->policy->identity.jwt, jwks->file,
                       jwks->options.alloc, &set, &why);
    if (!err) {
        err = sl_jwks_put(jwks, set);
        if (err)
            sl_keyset_unref(set);
        else
            jwks->read_at = sl_loop_steady(jwks->options.loop);
    }
    sl_jwks_tell(jwks,
                 !err                  ? SL_JWKS_GOOD
                 : err == SLUICE_ECONF ? SL_JWKS_REFUSED
                                       : SL_JWKS_UNREACHABLE,
                 jwks->file, why.sentence);
}

/* ---- looking ---- */

bool sl_jwks_ready(const struct sl_jwks *jwks, struct sl_buf *why)
{
    if (!jwks->policy || !sl_keys_elsewhere(&jwks->policy->identity.jwt) ||
        jwks->came)
        return true;
    if (sl_buf_addf(why, "the JWKS has not been fetched yet"))
        sl_buf_clear(why);
    return false;
}

void sl_jwks_stats(const struct sl_jwks *jwks, struct sl_jwks_stats *ret)
{
    sl_ns now = sl_loop_steady(jwks->options.loop);

    *ret = (struct sl_jwks_stats){
        .on = jwks->policy && jwks->policy->identity.jwt.written,
        .keys = jwks->set ? sl_keyset_count(jwks->set) : 0,
        .age = jwks->set && jwks->read_at != SL_NS_NONE ? now - jwks->read_at
                                                        : SL_NS_NONE,
    };
    memcpy(ret->results, jwks->results, sizeof(ret->results));
}
