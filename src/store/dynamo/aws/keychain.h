/* keychain.h -- where the keys come from, and that they stay good.
 *
 * The first that is there, in the order of AWS's own tools:
 *
 *   environment   AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN
 *   shared file   AWS_SHARED_CREDENTIALS_FILE or ~/.aws/credentials, and in it
 *                 AWS_PROFILE or "default"; read again once a minute
 *   container     AWS_CONTAINER_CREDENTIALS_RELATIVE_URI or _FULL_URI
 *   instance      the metadata service, by a token of its own (version 2)
 *
 * Keys of the last two expire. They are fetched again well before, and if that
 * fails, again and again at jittered intervals; old keys serve until their end.
 *
 * One keychain belongs to one loop.
 */
#ifndef SL_AWS_CREDENTIALS_H
#define SL_AWS_CREDENTIALS_H

#include "net/http_fetch.h"
#include "store/dynamo/aws/found.h"

/* What the environment says: each may be NULL. Borrowed. */
struct sl_aws_env {
    const char *key_id, *secret, *token;
    const char *file, *profile, *home;
    const char *container_relative, *container_full;
    const char *container_token, *container_token_file;
    const char *metadata; /* AWS_EC2_METADATA_SERVICE_ENDPOINT */
    bool no_metadata;     /* AWS_EC2_METADATA_DISABLED */
};

struct sl_aws_credentials_options {
    const struct sl_aws_env *env;
    struct sl_loop *loop;
    struct sl_http_fetcher *fetcher;
    const struct sl_alloc *alloc;
    /* Keys are there, or can't be had: then the sentence says why. */
    void (*on_change)(void *ctx, bool good, const char *sentence);
    void *ctx;
};

struct sl_aws_credentials;

SL_MUST_USE int
sl_aws_credentials_open(const struct sl_aws_credentials_options *options,
                        struct sl_aws_credentials **ret);
void sl_aws_credentials_close(
    struct sl_aws_credentials *chain); /* NULL is allowed */

/* The keys, or NULL: there are none, or they have expired at `now`. Valid until
 * the loop turns. */
const struct sl_aws_keys *
sl_aws_credentials_keys(const struct sl_aws_credentials *chain, sl_ns now);

/* Somebody says that they are not good: look again, soon. */
void sl_aws_credentials_refresh(struct sl_aws_credentials *chain);

#endif
