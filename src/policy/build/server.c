/* server.c -- `server`: the daemon's settings, as far as a file can be judged
 * without opening anything. */
#include "policy/build/build.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/parse.h"

#define IDEMPOTENCY_MIN (UINT64_C(1) << 20)
#define WAITING_MOST    1000000
#define MEMORY_MIN      (UINT64_C(1) << 20)
#define DOORS           4

/* ---- addresses ---- */

/* Is it a port: 0 (any) to 65535? */
static bool is_port(struct sl_str text)
{
    uint64_t port;

    return sl_parse_number(text, &port, NULL) == 0 && port <= 65535;
}

static bool is_host(struct sl_str text)
{
    struct sl_ip ip;

    if (text.len > 2 && text.at[0] == '[')
        return text.at[text.len - 1] == ']' && sl_ip_parse(text, &ip);
    for (size_t i = 0; i < text.len; i++)
        if (strchr(" \t:/[]@", text.at[i])) /* the NUL too */
            return false;
    return text.len > 0 && text.len <= 253;
}

/* HOST:PORT or unix:PATH. */
static bool is_address(struct sl_str text)
{
    const char *colon = memrchr(text.at, ':', text.len);
    size_t len;

    if (!colon)
        return false;
    len = (size_t)(colon - text.at);
    if (text.len >= 5 && memcmp(text.at, "unix:", 5) == 0)
        return text.len > 5 && text.len - 5 < 108; /* sun_path */
    return is_host((struct sl_str){text.at, len}) &&
           is_port(sl_str_from(text, len + 1));
}

/* For ":8080" and "8080", which many servers take for every address. */
static void hint_address(struct sl_diag *diag, const struct sl_node *node)
{
    struct sl_str text = node->text;

    if (node->substituted)
        return;
    if (text.len > 0 && text.at[0] == ':')
        text = sl_str_from(text, 1);
    if (is_port(text))
        sl_hint(diag, "\"127.0.0.1:%.5s\"", text.at);
}

/* Does the system choose a port, so that two of the same are two? */
static bool any_port(struct sl_str text)
{
    return sl_str_eq(sl_str_from(text, text.len - 2), SL_STR(":0"));
}

static void refuse_same(struct sl_build *b, const struct sl_node *listen,
                        const struct sl_node *node)
{
    const struct sl_node *n;

    for (n = listen->child; n && n != node; n = n->next) {
        if (n->kind != SL_NODE_SCALAR || !sl_str_eq(n->text, node->text))
            continue;
        sl_report_error(b->report, SL_AT(node),
                        "`%s` has the same address as `%s`. Give each "
                        "listener its own address",
                        node->key.at, n->key.at);
        return;
    }
}

static struct sl_str read_address(struct sl_build *b,
                                  const struct sl_node *listen, const char *key)
{
    const struct sl_node *node = sl_build_scalar(listen, key);

    if (!node)
        return SL_STR("");
    if (!is_address(node->text))
        hint_address(sl_report_error(b->report, SL_AT(node),
                                     "Invalid listen address \"%s\". Write "
                                     "HOST:PORT or unix:PATH",
                                     sl_build_shown(node).text),
                     node);
    else if (!any_port(node->text))
        refuse_same(b, listen, node);
    return sl_build_keep(b, node->text);
}

static void read_listen(struct sl_build *b, const struct sl_node *node)
{
    struct sl_server *server = &b->policy->server;

    if (!node || node->kind != SL_NODE_MAP)
        return;
    server->has_listen = true;
    server->http = read_address(b, node, "http");
    server->grpc = read_address(b, node, "grpc");
    server->resp = read_address(b, node, "resp");
    server->admin = read_address(b, node, "admin");
    if (node->count == 0)
        sl_report_error(b->report, SL_AT(node),
                        "`listen` names no listener, so none would open. "
                        "Leave it out for the default listeners");
}

/* ---- stores ---- */

/* What a URL can begin with. */
struct schemes {
    const char *all; /* as a sentence has them */
    const char *words[9];
    size_t count;
};

/* Those whose state is a file, or nothing, have no slashes. */
static const char *slashes(const char *word)
{
    return strcmp(word, "memory") == 0 || strcmp(word, "sqlite") == 0 ? ""
                                                                      : "//";
}

static bool has_scheme(struct sl_str text, const char *word)
{
    size_t len = strlen(word), rest = strlen(slashes(word));

    return text.len > len + rest && memcmp(text.at, word, len) == 0 &&
           text.at[len] == ':' &&
           memcmp(text.at + len + 1, slashes(word), rest) == 0;
}

static struct sl_str read_url(struct sl_build *b, const struct sl_node *server,
                              const char *key, const struct schemes *schemes)
{
    const struct sl_node *node = sl_build_scalar(server, key);
    struct sl_str scheme;
    struct sl_diag *diag;
    const char *meant;

    if (!node)
        return SL_STR("");
    for (size_t i = 0; i < schemes->count; i++)
        if (has_scheme(node->text, schemes->words[i]))
            return sl_build_keep(b, node->text);
    scheme = (struct sl_str){node->text.at, strcspn(node->text.at, ":")};
    diag = sl_report_error(
        b->report, SL_AT(node), "`%s` must begin with %s, not with \"%s\"", key,
        schemes->all, node->substituted ? "..." : sl_quote(scheme).text);
    meant = sl_str_nearest(scheme, schemes->words, schemes->count);
    if (meant)
        sl_hint(diag, "%s:%s", meant, slashes(meant));
    return SL_STR("");
}

static void read_stores(struct sl_build *b, const struct sl_node *node)
{
    static const struct schemes stores = {
        "memory:, redis://, rediss://, redis+unix://, redis+cluster://, "
        "redis+sentinel:// or dynamodb://",
        {"memory", "redis", "rediss", "redis+unix", "redis+cluster",
          "rediss+cluster", "redis+sentinel", "rediss+sentinel", "dynamodb"},
        9,
    };
    static const struct schemes usages = {
        "sqlite:, postgres:// or dynamodb://, or be none",
        {"sqlite", "postgres", "dynamodb"},
        3,
    };

    const struct sl_node *none = sl_build_scalar(node, "usage");

    b->policy->server.store = read_url(b, node, "store", &stores);
    if (none && sl_str_eq(none->text, SL_STR("none")))
        b->policy->server.usage = SL_STR("none");
    else
        b->policy->server.usage = read_url(b, node, "usage", &usages);
}

/* ---- the rest ---- */

static void read_idempotency(struct sl_build *b, const struct sl_node *node)
{
    const struct sl_node *size = sl_build_scalar(node, "idempotency");
    struct sl_server *server = &b->policy->server;
    struct sl_diag diag = {0};

    if (size &&
        sl_build_ok(b, size,
                    sl_parse_size(size->text, &server->idempotency, &diag),
                    &diag) &&
        server->idempotency < IDEMPOTENCY_MIN)
        sl_hint(sl_report_error(b->report, SL_AT(size),
                                "%" PRIu64 " bytes are too small for "
                                "`idempotency`. The minimum is 1MiB",
                                server->idempotency),
                "idempotency: 16MiB");
}

static void read_budgets(struct sl_build *b, const struct sl_node *node)
{
    const struct sl_node *memory = sl_build_scalar(node, "memory");
    const struct sl_node *deadline = sl_build_scalar(node, "deadline");
    struct sl_server *server = &b->policy->server;
    struct sl_diag diag = {0};

    if (memory &&
        sl_build_ok(b, memory,
                    sl_parse_size(memory->text, &server->memory, &diag),
                    &diag) &&
        server->memory < MEMORY_MIN)
        sl_hint(sl_report_error(b->report, SL_AT(memory),
                                "%" PRIu64 " bytes are too small for "
                                "`memory`. The minimum is 1MiB",
                                server->memory),
                "memory: 64MiB");
    read_idempotency(b, node);
    server->waiting =
        (unsigned)sl_build_number(b, node, "waiting", 1, WAITING_MOST, 0);
    server->deadline = sl_build_duration(b, node, "deadline", SL_NS_NONE);
    if (server->deadline == 0)
        sl_hint(sl_report_error(b->report, SL_AT(deadline),
                                "`deadline` must be longer than 0"),
                "deadline: 20ms");
    if (server->deadline == SL_NS_NONE)
        server->deadline = 0;
}

/* The doors, as a flag would have them: "http,resp". */
static struct sl_str read_proxied(struct sl_build *b,
                                  const struct sl_node *node)
{
    const struct sl_node *item;
    char text[64];
    size_t len = 0;

    if (!node || node->kind == SL_NODE_EMPTY ||
        !sl_build_short(b, node, DOORS, "doors"))
        return SL_STR("");
    for (item = sl_build_first(node); item; item = sl_build_next(node, item))
        if (!sl_build_twice(b, node, item, "Listener"))
            len += (size_t)snprintf(text + len, sizeof(text) - len, "%s%.*s",
                                    len > 0 ? "," : "", SL_STR_ARG(item->text));
    return sl_build_keep(b, (struct sl_str){text, len});
}

/* A token from the environment that is empty there would let everyone in. */
static struct sl_str read_token(struct sl_build *b, const struct sl_node *node,
                                const char *key)
{
    const struct sl_node *token = sl_build_scalar(node, key);

    if (token && token->text.len == 0)
        sl_report_error(b->report, SL_AT(token), "`%s` must not be empty", key);
    return sl_build_text(b, node, key);
}

static void read_tls(struct sl_build *b, const struct sl_node *node)
{
    const struct sl_node *certificate = sl_node_get(node, "certificate");
    const struct sl_node *key = sl_node_get(node, "key");
    struct sl_server *server = &b->policy->server;

    server->tls_certificate = sl_build_text(b, node, "certificate");
    server->tls_key = sl_build_text(b, node, "key");
    server->tls_client_ca = sl_build_text(b, node, "client_ca");
    if (node && node->kind == SL_NODE_MAP && (!certificate || !key))
        sl_report_error(b->report, SL_AT_KEY(node),
                        "`tls` needs both `certificate` and `key`");
}

void sl_build_server(struct sl_build *b)
{
    const struct sl_node *node = sl_node_get(b->root, "server");
    const struct sl_node *log = sl_node_get(node, "log");
    struct sl_server *server = &b->policy->server;

    read_listen(b, sl_node_get(node, "listen"));
    read_stores(b, node);
    read_budgets(b, node);
    read_tls(b, sl_node_get(node, "tls"));
    server->access_token = read_token(b, node, "access_token");
    server->admin_token = read_token(b, node, "admin_token");
    server->forward_auth = sl_build_text(b, node, "forward_auth");
    server->proxy_protocol =
        read_proxied(b, sl_node_get(node, "proxy_protocol"));
    server->log_level = sl_build_text(b, log, "level");
    server->log_format = sl_build_text(b, log, "format");
}
