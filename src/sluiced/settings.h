/* settings.h -- the settings of the daemon and their sources.
 *
 * Flags override variables, variables override the policy, the policy
 * overrides presets. Each setting is a text with its origin. Only this file
 * makes values of these texts.
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

/* The listeners, in the order in which they are opened. */
enum sl_protocol_id {
    SL_PROTOCOL_HTTP,
    SL_PROTOCOL_GRPC,
    SL_PROTOCOL_RESP,
    SL_PROTOCOL_ADMIN,
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

/* "SLUICE_LISTEN_HTTP" */
struct sl_variable {
    char text[64];
};
struct sl_variable sl_setting_variable(enum sl_setting id);

/* For a token: the variable that holds it, not its file's name. */
struct sl_variable sl_setting_secret(enum sl_setting id);

/* ---- what was given to the program ---- */

enum sl_args_action {
    SL_ARGS_SERVE,
    SL_ARGS_CHECK,
    SL_ARGS_SHOW,
    SL_ARGS_HELP,
    SL_ARGS_VERSION,
};

struct sl_setting_source {
    enum sl_args_action wish;
    const char *flags[SL_SETTINGS];     /* NULL: not given */
    const char *variables[SL_SETTINGS]; /* likewise */
    const char *secrets[SL_SETTINGS];   /* tokens in variables */
    char doubt[192]; /* a variable that was probably meant otherwise, or "" */
};

/* Read the command line and the environment (a NULL ends it); both are
 * borrowed. 0 or SL_EXIT_USAGE with a sentence. */
SL_MUST_USE int sl_given_read(struct sl_setting_source *given, int argc,
                              const char *const *argv,
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
};

struct sl_settings {
    struct sl_arena arena;
    struct sl_setting_value values[SL_SETTINGS];
    const char *policy; /* its path, or NULL for the demo */

    /* Made of them. */
    bool open[SL_PROTOCOLS];
    struct sl_address at[SL_PROTOCOLS];
    bool proxied[SL_PROTOCOLS]; /* connections begin with a PROXY header */
    const char *state;    /* the file of the table, or NULL: on the heap */
    const char *registry; /* the file of subjects, or NULL: none is kept */
    bool in_postgres;     /* it is the address of a PostgreSQL instead */
    bool leases;          /* others use it, too: quotas are leased from it, if
                           * they are decided here */
    bool shared;          /* it is elsewhere, and there is no table: */
    bool in_dynamo;       /* there, or in a Redis */
    struct sl_redis_url redis;
    struct sl_dynamo_url dynamo;
    bool subjects_in_dynamo; /* there, and no registry is kept */
    struct sl_dynamo_url subjects;
    uint64_t memory;
    sl_ns deadline, drain, age; /* age: of connections, gRPC */
    enum sl_forward forward;
    struct sl_str access_token, admin_token;
    const char *tls_certificate, *tls_key, *tls_client_ca; /* or NULL */
    enum sl_log_level log_level;
    enum sl_log_format log_format;
    unsigned threads, connections, connections_per_address;
    bool watch;
    bool virtual_clock;
};

/* Make settings of what was given and of the policy's (`server` may be NULL).
 * `path` names the policy, NULL is the demo, whose state is nowhere; borrowed
 * for the settings' life. Returns 0 or an exit status with a sentence; either
 * way sl_settings_done() gives everything back. */
SL_MUST_USE int sl_settings_make(struct sl_settings *settings,
                                 const struct sl_setting_source *given,
                                 const struct sl_server_conf *server,
                                 const char *path, struct sl_diag *diag);
void sl_settings_done(struct sl_settings *settings);

/* Is a token needed for a listener at `address`, and missing? Also for sockets
 * from systemd. 0 or an exit status. */
SL_MUST_USE int sl_settings_check_exposed(const struct sl_settings *settings,
                                          enum sl_protocol_id door,
                                          const struct sl_address *address,
                                          struct sl_diag *diag);

/* The setting with the address of each listener. */
extern const enum sl_setting sl_setting_of_door[SL_PROTOCOLS];

/* Refuse the value of a setting. The exit status depends on its source. */
int sl_settings_refuse(const struct sl_settings *settings, enum sl_setting id,
                       struct sl_diag *diag, const char *fmt, ...)
    SL_PRINTF(4, 5);

/* Append a line for each setting that `new` has otherwise than `old`: of those
 * that a reload can change (`live`), or of those that need a restart. */
SL_MUST_USE int sl_settings_diff(const struct sl_settings *old,
                                 const struct sl_settings *new, bool live,
                                 struct sl_buf *out);

/* ---- in words ---- */

/* The URL of a store without what is secret in it. size > 0. */
void sl_settings_mask(const char *text, char *out, size_t size);

/* Each setting with its value and where it came from; secrets masked. */
void sl_settings_show(const struct sl_settings *settings, FILE *out);
void sl_settings_help(FILE *out);

/* ---- what settings must keep, one by one and together. */

/* Nothing is asked for that this version does not have. */
SL_MUST_USE int sl_rules_version(struct sl_settings *settings,
                                 struct sl_diag *diag);

/* Once all are read: do they go together? */
SL_MUST_USE int sl_rules_together(struct sl_settings *settings,
                                  struct sl_diag *diag);

/* A store in a Redis: settings->shared and settings->redis. redis.c */
SL_MUST_USE int sl_settings_redis(struct sl_settings *settings,
                                  struct sl_diag *diag);

/* A store or subjects in DynamoDB: settings->shared, ->dynamo and ->subjects.
 * dynamo.c */
SL_MUST_USE int sl_settings_dynamo(struct sl_settings *settings,
                                   struct sl_diag *diag);

/* Read where the registry is, if that is in a PostgreSQL. postgres.c */
SL_MUST_USE int sl_settings_postgres(struct sl_settings *settings,
                                     struct sl_diag *diag);

/* Is that a time for a store elsewhere? redis.c */
SL_MUST_USE int sl_settings_deadline(const struct sl_settings *settings,
                                     struct sl_diag *diag);

/* `prefix` and the path behind it, as the daemon can open it; NULL if it is too
 * long. settings.c */
const char *sl_settings_path(struct sl_settings *settings,
                             enum sl_origin origin, const char *prefix,
                             const char *path);

#define SL_USAGE_IN_MEMORY                                                     \
    "sqlite::memory:" /* a registry that ends with us                          \
                       */

/* The usage database if only the store is set: both must be chosen together. */
const char *sl_rules_usage(const struct sl_setting_source *given);

/* ---- the tokens of the listeners. */

/* Read the token that was chosen: a text of the policy, or a file. */
SL_MUST_USE int sl_settings_token(struct sl_settings *settings,
                                  enum sl_setting id, struct sl_str *ret,
                                  struct sl_diag *diag);

#endif
