/* credentials.c -- gets AWS keys, and gets new ones before they expire.
 *
 *     look --> environment, file: at once
 *       |
 *       +--> container: CONTAINER ---------------------> keys
 *       +--> instance:  TOKEN --> ROLE --> DOCUMENT ---> keys
 *                          |        |          |          |
 *                          +--------+----------+-- failed: again, later
 *                                                         |
 *       look <---- well before they expire ---------------+
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/hash.h"
#include "store/dynamo/aws.h"

#define FILE_MOST  ((size_t)64 << 10)
#define BODY_MOST  ((size_t)16 << 10)
#define FILE_AGAIN SL_MIN
#define BEFORE_END (5 * SL_MIN)
#define LEAST      SL_S
#define RETRY_MOST SL_MIN
#define PATIENCE   (2 * SL_S)

#define CONTAINER_IP   "169.254.170.2"
#define CONTAINER_HOST "http://" CONTAINER_IP
#define METADATA       "http://169.254.169.254"
#define ROLES          "/latest/meta-data/iam/security-credentials/"

struct sl_aws_credentials {
    struct sl_aws_credentials_options options;
    struct sl_jitter jitter;
    struct sl_timer *timer;
    struct sl_aws_found found;
    unsigned failures; /* since the last keys */
    enum { CONTAINER, TOKEN, ROLE, DOCUMENT } step;
    struct sl_http_fetch fetch;
    char url[1024];
    char header[4200]; /* an authorization, or the instance's token */
    const char *headers[2];
};

static void notify(struct sl_aws_credentials *chain, bool good,
                   const char *sentence)
{
    if (chain->options.on_change)
        chain->options.on_change(chain->options.ctx, good, sentence);
}

static void look_again(struct sl_aws_credentials *chain, sl_ns in)
{
    sl_timer_start(chain->timer, sl_jitter_span(&chain->jitter, in));
}

static void fail(struct sl_aws_credentials *chain, const char *sentence)
{
    sl_timer_start(chain->timer,
                   sl_jitter_backoff(&chain->jitter, chain->failures++, LEAST,
                                     RETRY_MOST));
    notify(chain, false, sentence);
}

/* Keeps new keys, and sets the time to get others. */
static void arrive(struct sl_aws_credentials *chain,
                   const struct sl_aws_found *found)
{
    sl_ns life = found->expires == SL_NS_NONE
                     ? SL_NS_NONE
                     : found->expires - sl_loop_now(chain->options.loop);
    struct sl_diag why;

    if (sl_aws_keep(&found->keys, found->expires, &chain->found, &why)) {
        fail(chain, why.sentence);
        return;
    }
    chain->failures = 0;
    if (life != SL_NS_NONE) {
        sl_ns in = life > 2 * BEFORE_END ? life - BEFORE_END : life / 2;

        look_again(chain, in > LEAST ? in : LEAST);
    }
    notify(chain, true, "credentials found");
}

/* ---- environment and file ---- */

static bool look_in_env(struct sl_aws_credentials *chain)
{
    const struct sl_aws_env *env = chain->options.env;
    struct sl_aws_found found = {.expires = SL_NS_NONE};

    if (!env->key_id || !env->secret)
        return false;
    found.keys = (struct sl_aws_keys){
        sl_str_c(env->key_id), sl_str_c(env->secret), sl_str_c(env->token)};
    arrive(chain, &found);
    return true;
}

/* Returns false if there is no file. */
static bool look_in_file(struct sl_aws_credentials *chain)
{
    const struct sl_aws_env *env = chain->options.env;
    const char *profile = env->profile ? env->profile : "default";
    struct sl_aws_found found;
    struct sl_buf text;
    struct sl_diag why = {.sentence = ""};
    char path[512];
    int err;

    if (!env->file && !env->home)
        return false;
    snprintf(path, sizeof(path), "%s%s", env->file ? env->file : env->home,
             env->file ? "" : "/.aws/credentials");
    sl_buf_init(&text, FILE_MOST, chain->options.alloc);
    err = sl_file_read(path, FILE_MOST, &text, &why);
    if (!err)
        err = sl_aws_read_profile(sl_buf_str(&text), sl_str_c(profile), &found,
                                  &why);
    sl_buf_done(&text);
    if (err && !env->file && !env->profile)
        return false;
    if (err) {
        fail(chain, why.sentence);
    } else {
        arrive(chain, &found);
        look_again(chain, FILE_AGAIN);
    }
    return true;
}

/* ---- requests ---- */

static void on_fetched(struct sl_http_fetch *fetch);

static void ask(struct sl_aws_credentials *chain, const char *method)
{
    chain->headers[0] = chain->header[0] ? chain->header : NULL;
    chain->headers[1] = NULL;
    chain->fetch.url = chain->url;
    chain->fetch.method = method;
    chain->fetch.headers = chain->headers;
    chain->fetch.send =
        method ? SL_STR("") : (struct sl_str){NULL, 0}; /* a PUT has a body */
    chain->fetch.most = BODY_MOST;
    chain->fetch.timeout = PATIENCE;
    chain->fetch.done = on_fetched;
    chain->fetch.ctx = chain;
    if (sl_http_fetch_begin(chain->options.fetcher, &chain->fetch))
        fail(chain, "out of memory");
}

static const char *metadata_of(const struct sl_aws_credentials *chain)
{
    const char *named = chain->options.env->metadata;

    return named ? named : METADATA;
}

static void ask_instance(struct sl_aws_credentials *chain)
{
    chain->step = TOKEN;
    snprintf(chain->url, sizeof(chain->url), "%s/latest/api/token",
             metadata_of(chain));
    snprintf(chain->header, sizeof(chain->header),
             "X-aws-ec2-metadata-token-ttl-seconds: 21600");
    ask(chain, "PUT");
}

/* 127.0.0.0/8, in digits: a name may begin so, too. */
static bool is_loopback(struct sl_str host)
{
    struct sl_str head = SL_STR("127.");

    if (host.len < head.len || memcmp(host.at, head.at, head.len) != 0)
        return false;
    for (size_t i = 0; i < host.len; i++)
        if (host.at[i] != '.' && (host.at[i] < '0' || host.at[i] > '9'))
            return false;
    return true;
}

/* Plain HTTP is for known addresses of this host only. */
static bool is_trusted(const char *url)
{
    static const char *const hosts[] = {"localhost", "[::1]", CONTAINER_IP,
                                        "169.254.170.23", "[fd00:ec2::23]"};
    const char *http = "http://";
    struct sl_str host;

    if (strncmp(url, "https://", 8) == 0)
        return true;
    if (strncmp(url, http, strlen(http)) != 0)
        return false;
    host.at = url + strlen(http);
    host.len = strcspn(host.at, ":/?#@");
    if (host.at[0] == '[')
        host.len = strcspn(host.at, "]/?#@");
    if (host.at[host.len] == ']')
        host.len++;
    if (host.at[host.len] != '\0' && !strchr(":/", host.at[host.len]))
        return false; /* a user, or no path where there is more */
    for (size_t i = 0; i < SL_LEN(hosts); i++)
        if (sl_str_eq(host, sl_str_c(hosts[i])))
            return true;
    return is_loopback(host);
}

/* Up to a blank or the end of a line. */
static struct sl_str first_word(struct sl_str text)
{
    for (size_t i = 0; i < text.len; i++)
        if (text.at[i] <= ' ')
            text.len = i;
    return text;
}

/* The first word of a file; SLUICE_ESYS. */
static int read_token(struct sl_aws_credentials *chain, const char *path,
                      char *out, size_t size)
{
    struct sl_buf text;
    struct sl_str line;
    int err;

    sl_buf_init(&text, BODY_MOST, chain->options.alloc);
    err = sl_file_read(path, BODY_MOST, &text, NULL);
    line = first_word(sl_buf_str(&text));
    if (!err)
        snprintf(out, size, "Authorization: %.*s", SL_STR_ARG(line));
    sl_buf_done(&text);
    return err;
}

static void ask_container(struct sl_aws_credentials *chain)
{
    const struct sl_aws_env *env = chain->options.env;

    chain->step = CONTAINER;
    snprintf(chain->url, sizeof(chain->url), "%s%s",
             env->container_relative ? CONTAINER_HOST : "",
             env->container_relative ? env->container_relative
                                     : env->container_full);
    chain->header[0] = '\0';
    if (!is_trusted(chain->url)) {
        fail(chain, "AWS_CONTAINER_CREDENTIALS_FULL_URI must be https:// or "
                    "an address of this host");
        return;
    }
    if (env->container_token_file) {
        if (read_token(chain, env->container_token_file, chain->header,
                       sizeof(chain->header))) {
            fail(chain, "cannot read AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE");
            return;
        }
    } else if (env->container_token) {
        snprintf(chain->header, sizeof(chain->header), "Authorization: %s",
                 env->container_token);
    }
    ask(chain, NULL);
}

/* ---- replies ---- */

static void on_token(struct sl_aws_credentials *chain)
{
    struct sl_str token = first_word(sl_buf_str(&chain->fetch.body));

    chain->step = ROLE;
    snprintf(chain->header, sizeof(chain->header),
             "X-aws-ec2-metadata-token: %.*s", SL_STR_ARG(token));
    snprintf(chain->url, sizeof(chain->url), "%s" ROLES, metadata_of(chain));
    ask(chain, NULL);
}

static void on_role(struct sl_aws_credentials *chain)
{
    struct sl_str role = first_word(sl_buf_str(&chain->fetch.body));

    if (role.len == 0 || role.len > 128) {
        fail(chain, "the instance has no role; give it a role with access to "
                    "the table");
        return;
    }
    chain->step = DOCUMENT;
    snprintf(chain->url, sizeof(chain->url), "%s" ROLES "%.*s",
             metadata_of(chain), SL_STR_ARG(role));
    ask(chain, NULL);
}

static void on_document(struct sl_aws_credentials *chain)
{
    struct sl_aws_found found;
    struct sl_diag why = {.sentence = ""};

    if (sl_aws_read_document(sl_buf_str(&chain->fetch.body), &found, &why))
        fail(chain, why.sentence);
    else
        arrive(chain, &found);
    explicit_bzero(&found, sizeof(found));
}

static void on_fetched(struct sl_http_fetch *fetch)
{
    static const char *const whose[] = {"the container's", "the instance's",
                                        "the instance's", "the instance's"};
    struct sl_aws_credentials *chain = fetch->ctx;
    struct sl_diag why;

    if (fetch->result != SL_HTTP_FETCH_GOOD) {
        sl_diag_error(&why, 0,
                      "no AWS credentials: %s credential service failed: %s",
                      whose[chain->step], fetch->why);
        fail(chain, why.sentence);
    } else if (chain->step == TOKEN) {
        on_token(chain);
    } else if (chain->step == ROLE) {
        on_role(chain);
    } else {
        on_document(chain);
    }
}

/* ---- open and close ---- */

static void on_timer(void *ctx)
{
    struct sl_aws_credentials *chain = ctx;
    const struct sl_aws_env *env = chain->options.env;

    if (chain->fetch.easy)
        return;
    if (look_in_env(chain) || look_in_file(chain))
        return;
    if (env->container_relative || env->container_full)
        ask_container(chain);
    else if (!env->no_metadata)
        ask_instance(chain);
    else
        fail(chain, "no AWS credentials: set AWS_ACCESS_KEY_ID and "
                    "AWS_SECRET_ACCESS_KEY, or write ~/.aws/credentials");
}

int sl_aws_credentials_open(const struct sl_aws_credentials_options *options,
                            struct sl_aws_credentials **ret)
{
    struct sl_aws_credentials *chain =
        sl_alloc_new(options->alloc, sizeof(*chain));
    int err;

    if (!chain)
        return SLUICE_ENOMEM;
    memset(chain, 0, sizeof(*chain));
    chain->options = *options;
    err = sl_jitter_init(&chain->jitter);
    if (!err)
        err = sl_timer_new(options->loop, on_timer, chain, &chain->timer);
    if (err) {
        sl_aws_credentials_close(chain);
        return err;
    }
    sl_timer_start(chain->timer, 0);
    *ret = chain;
    return 0;
}

void sl_aws_credentials_close(struct sl_aws_credentials *chain)
{
    if (!chain)
        return;
    sl_http_fetch_forget(chain->options.fetcher, &chain->fetch);
    sl_timer_free(chain->timer);
    const struct sl_alloc *alloc = chain->options.alloc;
    explicit_bzero(chain, sizeof(*chain));
    sl_alloc_free(alloc, chain, sizeof(*chain));
}

const struct sl_aws_keys *
sl_aws_credentials_keys(const struct sl_aws_credentials *chain, sl_ns now)
{
    const struct sl_aws_found *found = &chain->found;

    if (found->keys.id.len == 0 ||
        (found->expires != SL_NS_NONE && now >= found->expires))
        return NULL;
    return &found->keys;
}

void sl_aws_credentials_refresh(struct sl_aws_credentials *chain)
{
    if (!chain->fetch.easy && !chain->options.env->key_id)
        look_again(chain, LEAST);
}
