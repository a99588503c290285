/* settings.h -- the settings of the daemon and their sources.
 *
 * Flags override variables, variables override the policy, the policy
 * overrides presets. Each setting is a text with its origin; sl_settings_make()
 * reads the texts.
 */
#ifndef SL_SLUICED_SETTINGS_H
#define SL_SLUICED_SETTINGS_H

#include <stdio.h>

#include "base/arena.h"
#include "base/log.h"
#include "net/address.h"
#include "policy/policy.h"
#include "server/http/http.h"
#include "store/dynamo/dynamo.h"
#include "store/redis/redis.h"

/* The listeners, in the order in which they are opened. Their addresses have
 * the same order in settings.def. */
enum sl_protocol_id {
    SL_PROTOCOL_HTTP,
    SL_PROTOCOL_GRPC,
    SL_PROTOCOL_RESP,
    SL_PROTOCOL_ADMIN, /* those before it decide requests, */
    SL_PROTOCOL_LOCAL, /* those from it on have the admin API */
    SL_PROTOCOLS
};

enum sl_setting {
#define SETTING(id, letter, flag, key, kind, preset, value, when, what)        \
    SL_SET_##id,
#include "sluiced/settings.def"
    SL_SETTINGS
};

enum sl_setting_kind {
    SL_SETTING_ADDRESS,
    SL_SETTING_STORE,
    SL_SETTING_SIZE,
    SL_SETTING_DURATION,
    SL_SETTING_WORD,
    SL_SETTING_WORDS, /* separated by commas */
    SL_SETTING_TOKEN, /* flag and variable name a file that has it */
    SL_SETTING_FILE,
    SL_SETTING_COUNT,
};

struct sl_setting_row {
    const char *name; /* of the policy's key, or the flag */
    char letter;
    const char *flag, *key;
    enum sl_setting_kind kind;
    const char *preset, *value;
    bool live;
    const char *what;
};

extern const struct sl_setting_row sl_setting_rows[SL_SETTINGS];

/* "SLUICE_LISTEN_HTTP"; with `secret`, the variable that holds a token and not
 * the name of its file. */
struct sl_variable {
    char text[64];
};
struct sl_variable sl_setting_variable(enum sl_setting id, bool secret);

/* ---- the command line and the environment ---- */

enum sl_args_action {
    SL_ARGS_SERVE,
    SL_ARGS_CHECK,
    SL_ARGS_SHOW,
    SL_ARGS_HELP,
    SL_ARGS_VERSION,
};

struct sl_setting_source {
    enum sl_args_action action;
    const char *flags[SL_SETTINGS];     /* NULL: not given */
    const char *variables[SL_SETTINGS]; /* likewise */
    const char *secrets[SL_SETTINGS];   /* tokens in variables */
    char warning[192]; /* about a variable that is probably misspelt, or "" */
};

/* Reads the command line and the environment (a NULL ends it); both are
 * borrowed. Returns 0, or SL_EXIT_USAGE with a sentence. */
SL_MUST_USE int sl_setting_source_read(struct sl_setting_source *source,
                                       int argc, const char *const *argv,
                                       const char *const *environment,
                                       struct sl_diag *diag);

/* ---- settings ---- */

enum sl_origin {
    SL_ORIGIN_DEFAULT,
    SL_ORIGIN_POLICY,
    SL_ORIGIN_VARIABLE,
    SL_ORIGIN_FLAG,
};

struct sl_setting_value {
    enum sl_origin origin;
    const char *text; /* TOKEN: the token itself */
    bool is_secret_variable;
    bool hides_policy; /* store and usage: a variable, and the policy names
                        * another one, which is not used */
};

#define SL_THREADS_MOST 64 /* sockets of one address; listener.h */

/* The words of `only`. */
enum sl_only {
    SL_ONLY_ALL,
    SL_ONLY_DECISIONS,
    SL_ONLY_WEBHOOKS,
};

struct sl_settings {
    struct sl_arena arena;
    struct sl_setting_value values[SL_SETTINGS];
    const char *policy; /* its path, or NULL for the demo */

    /* The values that were read from them. */
    bool open[SL_PROTOCOLS];
    struct sl_address at[SL_PROTOCOLS];
    bool proxied[SL_PROTOCOLS]; /* connections begin with a PROXY header */
    const char *state;          /* the file of the table, or NULL: on the heap.
                                 * Beside a remote store: of the quota leases */
    const char *registry;       /* file or URL of the registry, or NULL: none */
    const char *journal;        /* of usage, or NULL: in memory */
    bool shared_journal;        /* the daemons of a database have this path */
    uint64_t journal_size;
    bool in_postgres;        /* the registry is in PostgreSQL */
    bool shared_registry;    /* several daemons can use the registry */
    bool leases;             /* quotas are leased: the registry is shared, or
                              * the store is remote */
    bool shared;             /* the store is remote. The table has only the
                              * quotas that are leased */
    bool in_dynamo;          /* the remote store is DynamoDB, not Redis */
    bool subjects_in_dynamo; /* and no registry is kept */
    struct sl_redis_url redis;
    struct sl_dynamo_url dynamo, subjects;
    uint64_t memory;
    sl_ns deadline, drain, age; /* age: of connections, gRPC */
    enum sl_forward forward;
    enum sl_only only;
    struct sl_str hosts; /* "a.example,b.example", or "" */
    struct sl_str access_token, admin_token, admin_read_token;
    struct sl_str usage_token_key; /* "": none */
    struct sl_str usage_origins;   /* "https://a.example,...", or "" */
    const char *tls_certificate, *tls_key, *tls_client_ca; /* or NULL */
    enum sl_log_level log_level;
    enum sl_log_format log_format;
    unsigned threads, connections, connections_per_address;
    bool watch;
    bool virtual_clock;
};

/* Chooses and reads the settings. `server` has those of the policy, or is NULL.
 * `path` names the policy (NULL: the demo, whose state is in memory) and is
 * borrowed. Returns 0, or an exit status with a sentence. Call
 * sl_settings_done() in both cases. */
SL_MUST_USE int sl_settings_make(struct sl_settings *settings,
                                 const struct sl_setting_source *source,
                                 const struct sl_server_conf *server,
                                 const char *path, struct sl_diag *diag);
void sl_settings_done(struct sl_settings *settings);

/* Refuses a listener at `address` that needs a token and has none. Also for
 * sockets from systemd. Returns 0 or an exit status. */
SL_MUST_USE int sl_settings_check_exposed(const struct sl_settings *settings,
                                          enum sl_protocol_id id,
                                          const struct sl_address *address,
                                          struct sl_diag *diag);

/* Appends a line for each setting that differs: of those that a reload can
 * change (`live`), or of those that need a restart. */
SL_MUST_USE int sl_settings_diff(const struct sl_settings *old,
                                 const struct sl_settings *new, bool live,
                                 struct sl_buf *out);

/* Copies the URL of a store, with its secrets masked. size > 0. */
void sl_settings_mask(const char *text, char *out, size_t size);

/* Prints each setting with its value and origin; secrets are masked. */
void sl_settings_show(const struct sl_settings *settings, FILE *out);
void sl_settings_help(FILE *out);

#endif
