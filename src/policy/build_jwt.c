/* build_jwt.c -- `identity: jwt`: which tokens are believed, and by which keys.
 *
 * What could let a forged token in is refused here, where somebody reads it:
 * a secret beside public keys (whoever knows the public key could sign by it),
 * a secret that can be guessed, keys fetched in the clear.
 */
#include <string.h>

#include "base/parse.h"
#include "policy/policy_int.h"

#define AUDIENCES_MAX 16
#define LEEWAY        (30 * SL_S)
#define LEEWAY_MAX    (300 * SL_S)
#define STALE         (24 * 3600 * SL_S)
#define STALE_MIN     (60 * SL_S)
#define STALE_MAX     (30 * 24 * 3600 * SL_S)
#define SECRET_MIN    32 /* bytes: as many as HS256 makes of it (RFC 7518) */

/* HS256, HS384 and HS512 are the last of the words. */
#define HMAC (7u << (SL_ALGORITHMS - 3))

static bool begins(struct sl_str text, const char *prefix)
{
    size_t len = strlen(prefix);

    return text.len >= len && memcmp(text.at, prefix, len) == 0;
}

/* ---- algorithms ---- */

/* The schema has let no other word through. */
static unsigned bit_of(struct sl_str word)
{
    for (unsigned i = 0; i < SL_ALGORITHMS; i++)
        if (sl_str_eq(word, sl_str_c(sl_algorithm_words[i])))
            return 1u << i;
    return 0;
}

static unsigned read_algorithms(struct sl_build *b,
                                const struct sl_yaml_node *node)
{
    const struct sl_yaml_node *item;
    unsigned bits = 0;

    if (!node || node->kind == SL_NODE_EMPTY ||
        !sl_build_short(b, node, SL_ALGORITHMS, "algorithms"))
        return 0;
    for (item = sl_build_first(node); item; item = sl_build_next(node, item))
        if (!sl_build_twice(b, node, item, "Algorithm"))
            bits |= bit_of(item->text);
    if ((bits & HMAC) && (bits & ~HMAC))
        sl_report_error(b->report, SL_AT(node),
                        "HS256, HS384 and HS512 use a secret, and the other "
                        "algorithms use public keys. A list must not mix "
                        "them, because a public key could serve as a secret");
    return bits;
}

/* ---- where the keys are ---- */

/* The host of a URL behind its scheme: "[::1]" or "id.example". */
static struct sl_str host_of(struct sl_str rest)
{
    size_t len = 0;

    while (len < rest.len && !strchr("/?#", rest.at[len])) /* the NUL too */
        len++;
    rest.len = len;
    if (rest.len > 0 && rest.at[0] == '[') {
        const char *end = memchr(rest.at, ']', rest.len);

        rest.len = end ? (size_t)(end - rest.at) + 1 : 0;
    } else {
        const char *colon = memchr(rest.at, ':', rest.len);

        rest.len = colon ? (size_t)(colon - rest.at) : rest.len;
    }
    return rest;
}

static bool is_loopback(struct sl_str host)
{
    static const struct sl_ip one = {{[15] = 1}};
    struct sl_ip ip;

    if (sl_str_eq_nocase(host, SL_STR("localhost")))
        return true;
    if (!sl_ip_parse(host, &ip))
        return false;
    return sl_ip_is_v4(&ip) ? ip.bytes[12] == 127
                            : memcmp(&ip, &one, sizeof(ip)) == 0;
}

static bool is_visible(struct sl_str text)
{
    for (size_t i = 0; i < text.len; i++)
        if ((unsigned char)text.at[i] <= ' ' || text.at[i] == 127)
            return false;
    return true;
}

/* Why it is no URL of keys, or NULL. */
static const char *doubt_url(struct sl_str text)
{
    bool plain = begins(text, "http://");
    struct sl_str rest = sl_str_from(text, plain ? 7 : 8);
    struct sl_str host = host_of(rest);

    if (host.len == 0 || !is_visible(text))
        return "has no host. Write it like "
               "https://id.example/.well-known/jwks.json";
    if (plain && !is_loopback(host))
        return "would fetch keys without encryption, and an attacker could "
               "replace them. Write https:// (http:// is allowed only on "
               "loopback)";
    return NULL;
}

static const char *doubt_jwks(struct sl_str text)
{
    if (begins(text, "file:"))
        return text.len > strlen("file:")
                   ? NULL
                   : "has no file name. Write it like file:./jwks.json";
    if (begins(text, "http://") || begins(text, "https://"))
        return doubt_url(text);
    return "is not a file or a URL. Write it like file:./jwks.json or "
           "https://id.example/.well-known/jwks.json";
}

static void read_jwks(struct sl_build *b, const struct sl_yaml_node *node,
                      struct sl_jwt *jwt)
{
    const char *doubt = doubt_jwks(node->text);
    struct sl_diag *diag;

    jwt->jwks = sl_build_keep(b, node->text);
    if (memmem(node->text.at, node->text.len, "://", 3) &&
        memchr(node->text.at, '@', node->text.len)) {
        sl_report_error(b->report, SL_AT(node),
                        "The URL must not contain a user name or a password. "
                        "Keys are public");
        return; /* and is not quoted */
    }
    if (!doubt) {
        if ((jwt->algorithms & HMAC) && !begins(node->text, "file:"))
            sl_report_error(b->report, SL_AT(node),
                            "HS256, HS384 and HS512 use a secret, which must "
                            "not be fetched from a URL. Write `secret`, or a "
                            "file");
        return;
    }
    diag = sl_report_error(b->report, SL_AT(node), "\"%.128s\" %s",
                           sl_build_shown(node).text, doubt);
    if (!node->substituted && begins(node->text, "/"))
        sl_diag_hint(diag, "jwks: \"file:%.128s\"", node->text.at);
}

static void read_secret(struct sl_build *b, const struct sl_yaml_node *node,
                        struct sl_jwt *jwt)
{
    jwt->secret = sl_build_keep(b, node->text);
    if (node->text.len < SECRET_MIN)
        sl_report_error(b->report, SL_AT(node),
                        "A secret of %zu bytes is too short. The minimum is "
                        "%d. `openssl rand -base64 32` prints a good secret",
                        node->text.len, SECRET_MIN);
    if (jwt->algorithms & ~HMAC)
        sl_diag_hint(
            sl_report_error(b->report, SL_AT(node),
                            "`secret` is valid only for HS256, HS384 and "
                            "HS512. The other algorithms need `jwks`"),
            "algorithms: [HS256]");
    if (jwt->algorithms == 0)
        jwt->algorithms = HMAC;
}

static void read_keys(struct sl_build *b, const struct sl_yaml_node *node,
                      struct sl_jwt *jwt)
{
    const struct sl_yaml_node *jwks = sl_build_scalar(node, "jwks");
    const struct sl_yaml_node *secret = sl_build_scalar(node, "secret");

    if (jwks)
        read_jwks(b, jwks, jwt);
    if (jwks && secret)
        sl_report_error(b->report, SL_AT_KEY(secret),
                        "`secret` and `jwks` exclude each other, because a "
                        "public key could serve as a secret. Remove one");
    else if (secret)
        read_secret(b, secret, jwt);
    else if (!jwks && !sl_build_refused(sl_yaml_node_get(node, "jwks")) &&
             !sl_build_refused(sl_yaml_node_get(node, "secret")))
        sl_diag_hint(sl_report_error(b->report, SL_AT_KEY(node),
                                     "`jwt` needs keys to verify tokens. Write "
                                     "`jwks` or `secret`"),
                     "jwks: \"file:./jwks.json\"");
}

/* ---- the claims ---- */

static void read_audiences(struct sl_build *b, const struct sl_yaml_node *node,
                           struct sl_jwt *jwt)
{
    const struct sl_yaml_node *item;
    struct sl_str *list;

    if (!node || node->kind == SL_NODE_EMPTY ||
        !sl_build_short(b, node, AUDIENCES_MAX, "audiences"))
        return;
    if (node->kind == SL_NODE_LIST && node->count == 0)
        sl_report_error(b->report, SL_AT(node),
                        "`audience` must not be an empty list. Leave it out "
                        "to accept tokens for any audience");
    list = sl_build_take(b, AUDIENCES_MAX, sizeof(*list));
    if (!list)
        return;
    jwt->audiences = list;
    for (item = sl_build_first(node); item; item = sl_build_next(node, item))
        if (item->text.len == 0)
            sl_report_error(b->report, SL_AT(item),
                            "An `audience` must not be empty. Leave it out to "
                            "accept tokens for any audience");
        else if (!sl_build_twice(b, node, item, "Audience"))
            list[jwt->audience_count++] = sl_build_keep(b, item->text);
}

static void read_issuer(struct sl_build *b, const struct sl_yaml_node *node,
                        struct sl_jwt *jwt)
{
    const struct sl_yaml_node *issuer = sl_build_scalar(node, "issuer");

    jwt->issuer = sl_build_text(b, node, "issuer");
    if (issuer && issuer->text.len == 0)
        sl_report_error(b->report, SL_AT(issuer),
                        "`issuer` must not be empty. Leave it out to accept "
                        "tokens of any issuer");
}

static void read_spans(struct sl_build *b, const struct sl_yaml_node *node,
                       struct sl_jwt *jwt)
{
    const struct sl_yaml_node *leeway = sl_build_scalar(node, "leeway");
    const struct sl_yaml_node *stale = sl_build_scalar(node, "stale");

    jwt->leeway = sl_build_duration(b, node, "leeway", LEEWAY);
    if (leeway && jwt->leeway > LEEWAY_MAX)
        sl_diag_hint(
            sl_report_error(b->report, SL_AT(leeway),
                            "A leeway of \"%.64s\" would accept tokens "
                            "long after they expired. The maximum is 5m",
                            sl_build_shown(leeway).text),
            "leeway: 30s");
    jwt->stale = sl_build_duration(b, node, "stale", STALE);
    if (stale && (jwt->stale < STALE_MIN || jwt->stale > STALE_MAX))
        sl_diag_hint(
            sl_report_error(b->report, SL_AT(stale),
                            "`stale` must be between 1m and 30d, not \"%.64s\"",
                            sl_build_shown(stale).text),
            "stale: 24h");
}

/* ---- all of it ---- */

static bool has_claim(const struct sl_sources *sources)
{
    for (unsigned i = 0; i < sources->count; i++)
        if (sources->list[i].kind == SL_SOURCE_JWT)
            return true;
    return false;
}

/* The item of `list` that is a claim, or NULL. */
static const struct sl_yaml_node *find_claim(const struct sl_yaml_node *list)
{
    const struct sl_yaml_node *item;

    for (item = sl_build_first(list); item; item = sl_build_next(list, item))
        if (item->kind == SL_NODE_SCALAR && begins(item->text, "jwt."))
            return item;
    return NULL;
}

/* A claim of a token that nobody verifies names nobody, ever. */
static void refuse_claims(struct sl_build *b,
                          const struct sl_yaml_node *identity)
{
    const struct sl_yaml_node *n = identity ? identity->child : NULL;

    for (; n; n = n->next) {
        const struct sl_yaml_node *claim = find_claim(n);

        if (!claim || sl_str_eq(n->key, SL_STR("anonymous")))
            continue;
        sl_diag_hint(
            sl_report_error(b->report, SL_AT(claim),
                            "\"%.64s\" is a claim, and tokens cannot be "
                            "verified without keys. Add `jwt` to "
                            "`identity`",
                            sl_build_shown(claim).text),
            "jwt: { algorithms: [RS256], jwks: \"file:./jwks.json\" }");
        return; /* once is enough */
    }
}

static void warn_of_idle(struct sl_build *b, const struct sl_yaml_node *node)
{
    const struct sl_identity *identity = &b->policy->identity;
    bool used = has_claim(&identity->plan) || has_claim(&identity->role);

    for (unsigned i = 0; i < identity->scope_count; i++)
        used = used || has_claim(&identity->scopes[i]);
    if (!used)
        sl_diag_hint(
            sl_report_warning(b->report, SL_AT_KEY(node),
                              "Tokens are verified, but no source uses "
                              "their claims"),
            "user: [jwt.sub]");
}

static void read_from(struct sl_build *b, const struct sl_yaml_node *node,
                      struct sl_jwt *jwt)
{
    static const struct sl_source authorization = {
        SL_SOURCE_HEADER, {"authorization", 13}
    };

    sl_build_sources(b, node, SL_OF_TOKENS, &jwt->from);
    if (node && node->kind == SL_NODE_LIST && node->count == 0)
        sl_diag_hint(
            sl_report_error(b->report, SL_AT(node),
                            "`from` must not be empty. Without a source, "
                            "no token is found"),
            "from: [header.authorization]");
    if (jwt->from.count == 0)
        jwt->from = (struct sl_sources){&authorization, 1};
}

void sl_build_jwt(struct sl_build *b, const struct sl_yaml_node *identity)
{
    static const char *const expiries[] = {"required", "optional"};
    const struct sl_yaml_node *node = sl_yaml_node_get(identity, "jwt");
    struct sl_jwt *jwt = &b->policy->identity.jwt;

    if (!node) {
        refuse_claims(b, identity);
        return;
    }
    if (node->kind != SL_NODE_MAP)
        return; /* the schema has said why */
    jwt->written = true;
    read_from(b, sl_yaml_node_get(node, "from"), jwt);
    jwt->algorithms = read_algorithms(b, sl_yaml_node_get(node, "algorithms"));
    read_keys(b, node, jwt);
    read_issuer(b, node, jwt);
    read_audiences(b, sl_yaml_node_get(node, "audience"), jwt);
    read_spans(b, node, jwt);
    jwt->expiry_optional = sl_build_choice(node, "expiry", expiries, 2, 0) == 1;
    warn_of_idle(b, node);
}
