/* cli.h -- what the program `sluice` can be sent for.
 *
 * errand.c has the table of errands; each has a file of its own. Help,
 * completion and the reading of arguments are loops over the table.
 *
 * Data goes to `out`, messages to `err`. The errands use the public header
 * and nothing of the engine behind it: what they can do, any program can.
 */
#ifndef SL_CLI_CLI_H
#define SL_CLI_CLI_H

#include <jansson.h>
#include <stdio.h>

#include "base/arena.h"
#include "base/base.h"
#include "base/buf.h"
#include "base/diag.h"
#include "cli/flow/flow.h"
#include "sluice_policy.h"

enum sl_format { SL_FORMAT_TABLE, SL_FORMAT_JSON, SL_FORMAT_TAP };

/* The world, as far as the program sees it. */
struct sl_cli {
    FILE *in, *out, *err;
};

struct sl_flag {
    char letter;       /* -o, or NUL */
    const char *name;  /* --output */
    const char *value; /* what it takes: "DURATION", "table|json"; NULL none */
    const char *summary;
};

#define SL_FLAGS_MAX 8 /* of one errand */

struct sl_cli_args;

typedef int sl_command_f(struct sl_cli_args *call);

struct sl_command {
    const char *name;
    const char *usage;   /* behind the name: "POLICY..." */
    const char *summary; /* one line */
    const char *help;    /* paragraphs and examples */
    const char *words;   /* what to complete: "file", "a|b|c" or "" */
    const char *formats; /* of -o: "table|json", or NULL for no such flag */
    const struct sl_flag *flags; /* a row without a name ends them; or NULL */
    unsigned least, most;        /* words */
    sl_command_f *run;           /* NULL: not in this version */
};

/* One errand, as it was called. */
struct sl_cli_args {
    struct sl_cli *cli;
    const struct sl_command *errand;
    const char *given[SL_FLAGS_MAX]; /* by row of errand->flags; NULL: not */
    char **words;
    size_t word_count;
    enum sl_format format;
};

/* All of them; a NULL ends them. */
extern const struct sl_command *const sl_commands[];

extern const struct sl_command sl_command_check;
extern const struct sl_command sl_command_explain;
extern const struct sl_command sl_command_test;
extern const struct sl_command sl_command_init;
extern const struct sl_command sl_command_bench;
extern const struct sl_command sl_command_completion;
extern const struct sl_command sl_command_import;
extern const struct sl_command sl_command_token;
extern const struct sl_command sl_command_subject;
extern const struct sl_command sl_command_take;
extern const struct sl_command sl_command_hold;
extern const struct sl_command sl_command_top;
extern const struct sl_command sl_command_backlog;
extern const struct sl_command sl_command_leases;
extern const struct sl_command sl_command_webhook;
extern const struct sl_command sl_command_reset;
extern const struct sl_command sl_command_usage;

/* The whole program. `argv` is put in another order. Returns an exit status. */
int sl_cli_run(struct sl_cli *cli, int argc, char **argv);

/* Read the words and flags behind an errand's name into `call`, whose cli and
 * errand are set. SL_EXIT_USAGE if they are not understood, and then that was
 * said; *ret_help if somebody asked for help. */
SL_MUST_USE int sl_args_read(struct sl_cli_args *call, int argc, char **argv,
                             bool *ret_help);

/* The value of the flag called `name`, or NULL. */
const char *sl_cli_args_flag(const struct sl_cli_args *call, const char *name);

/* Say what is wrong, "sluice check: ...", on err, without control characters;
 * returns `status`. */
int sl_cli_error(const struct sl_cli_args *call, int status, const char *fmt,
                 ...) SL_PRINTF(3, 4);

/* ---- what errands read and print. */

/* A text without what could move a cursor: control characters are '?', but
 * for ends of lines. */
void sl_out_clean(FILE *out, const char *text);

/* A JSON string, quotes included. */
void sl_out_json(FILE *out, const char *text);

/* Colours, where `out` is a terminal or CLICOLOR_FORCE asks for them, and
 * NO_COLOR does not forbid them; else nothing. */
enum sl_colour { SL_PLAIN, SL_GREEN, SL_RED, SL_YELLOW };
void sl_out_colour(FILE *out, enum sl_colour colour);

/* Read a file, or standard input if `path` is "-", into `buf` up to its
 * ceiling; one that is larger is cut there. -1 if it cannot be read; see
 * errno. */
SL_MUST_USE int sl_read_all(struct sl_cli *cli, const char *path,
                            struct sl_buf *buf);

/* Load the policy in a file, or on standard input if `path` is "-". As
 * sluice_policy_load(). */
SL_MUST_USE int sl_load_policy(struct sl_cli *cli, const char *path,
                               struct sluice_policy **ret,
                               struct sluice_problems **problems);

/* Why that failed, where there is no problem that says so; a sentence. */
const char *sl_load_why(const char *path);

/* The problems of a policy as text, with an end of line. */
void sl_print_problems(FILE *out, const struct sluice_problems *problems);

/* Give back what sluice_schema_json() handed over. */
void sl_free_text(char *text);

/* Load it or say on err why not: 0 or an exit status. Warnings are for
 * `sluice check` to tell. */
SL_MUST_USE int sl_need_policy(struct sl_cli_args *call, const char *path,
                               struct sluice_policy **ret);

/* ---- a table in a terminal: columns as wide as their widest cell.
 */

#define SL_COLUMNS_MAX 10

struct sl_columns {
    unsigned count; /* of columns */
    size_t widths[SL_COLUMNS_MAX];
    struct sl_columns_row *rows, **last;
    struct sl_arena arena;
    bool failed; /* there was no memory: some rows are missing */
};

void sl_columns_init(struct sl_columns *columns, unsigned count);
void sl_columns_done(struct sl_columns *columns);

/* One more row of `count` cells; they are copied. The first is the heading. */
void sl_columns_add(struct sl_columns *columns, const char *const *cells);

/* Print them, without what could move a cursor. */
void sl_columns_print(const struct sl_columns *columns, FILE *out);

/* ---- the limits of a verdict, as JSON has them, in columns. */

/* Print a row for each limit of the array; 0 or an exit status. */
SL_MUST_USE int sl_numbers_print(struct sl_cli_args *call, json_t *limits);

/* A span for people: longer than ten seconds to the second, longer than an hour
 * to the minute, rounded up. Returns out. */
char *sl_span_print(sl_ns span, char out[32]);

/* The JSON on one line; 0 or an exit status. */
SL_MUST_USE int sl_json_print(struct sl_cli_args *call, json_t *root);

/* ---- what is asked for, in the words of a command line: those of an
 * act in a flow file, 'GET /path' user=ann plan=free cost=2.
 */

struct sl_check_args {
    struct sl_flow_act act;
    struct sl_inputs in;
    sl_ns now;        /* or what at= said */
    bool bare_limits; /* LIMIT KEY is as good as take LIMIT KEY */
    bool takes_token; /* token= has a meaning */
    bool takes_hold;  /* and so has hold= */
    struct sl_arena arena;
    struct sl_words words;
};

void sl_check_args_init(struct sl_check_args *q, sl_ns now);
void sl_check_args_done(struct sl_check_args *q);

/* Read the words of `call` from number `from` on, of which there is one. 0 or
 * an exit status, and then that was said. The question points into them. */
SL_MUST_USE int sl_check_args_read(struct sl_cli_args *call, size_t from,
                                   struct sl_check_args *q);

/* ---- HTTP/1.1, or the Redis protocol, from this side: ask, and wait
 * for the answer.
 *
 * One connection, kept from one question to the next. It blocks, but never
 * longer than SL_DAEMON_CLIENT_WAIT at a time, and understands what a daemon of
 * ours answers: a status and a body with a Content-Length.
 */

#define SL_DAEMON_CLIENT_WAIT  10                         /* seconds */
#define SL_DAEMON_CLIENT_BYTES ((size_t)64 * 1024 * 1024) /* of an answer */

struct sl_daemon_client {
    int fd;     /* or -1 */
    bool redis; /* its URL was redis://; then sl_daemon_client_pipeline() is for
                   it */
    char host[256], port[8];
    char where[280]; /* HOST:PORT, as it is said */
    char token[512]; /* to be shown with each question, or "" */
    struct sl_buf out, in;
};

/* The server of a URL such as http://127.0.0.1:8080, or redis://127.0.0.1:6380,
 * or at a socket, unix:/run/sluice.sock. Nothing is opened yet. It has no
 * token. `alloc` is borrowed for the client's life. SLUICE_ECONF: not such a
 * URL. */
SL_MUST_USE int sl_daemon_client_init(struct sl_daemon_client *client,
                                      const char *url,
                                      const struct sl_alloc *alloc,
                                      struct sl_diag *diag);
void sl_daemon_client_done(struct sl_daemon_client *client);

/* Close the connection; the next question opens another. */
void sl_daemon_client_close(struct sl_daemon_client *client);

/* Ask. On success *ret_status is the answer's, and *ret_body is borrowed until
 * the next question. SLUICE_ESYS: nobody answered, or no HTTP; the connection
 * is closed then, and nothing is asked twice. SLUICE_ENOMEM. */
SL_MUST_USE int sl_daemon_client_ask(struct sl_daemon_client *client,
                                     const char *method, const char *path,
                                     struct sl_str body, int *ret_status,
                                     struct sl_str *ret_body,
                                     struct sl_diag *diag);

/* Send `commands`, of which there are `count`, to a redis:// server. On success
 * *ret_replies has as many replies, borrowed until the next question. The rest
 * is as above. */
SL_MUST_USE int sl_daemon_client_pipeline(struct sl_daemon_client *client,
                                          struct sl_str commands,
                                          unsigned count,
                                          struct sl_str *ret_replies,
                                          struct sl_diag *diag);

/* ---- the daemon that an errand asks.
 *
 * Where it is: --url or --admin-url, else SLUICE_URL or SLUICE_ADMIN_URL, else
 * where a daemon stands that was told nothing. The token that it wants: in the
 * file of --token-file, else in the variables that the daemon itself reads.
 */

/* Rows for an errand's table of flags. */
#define SL_DAEMON_REACH_URL                                                    \
    {                                                                          \
        '\0', "url", "URL", "URL of the http listener (http://127.0.0.1:8080)" \
    }
#define SL_DAEMON_REACH_ADMIN_URL                                              \
    {                                                                          \
        '\0', "admin-url", "URL",                                              \
            "URL of the admin listener (http://127.0.0.1:9090)"                \
    }
#define SL_DAEMON_REACH_TOKEN                                                  \
    {                                                                          \
        '\0', "token-file", "FILE", "file with the token of the listener"      \
    }

/* Find out whom to ask; nothing is opened yet. 0 or an exit status, and then
 * that was said. Give it back with sl_daemon_client_done() either way. */
SL_MUST_USE int sl_daemon_reach(struct sl_cli_args *call, bool admin,
                                struct sl_daemon_client *client);

/* Ask, and read the JSON of the answer, which is the caller's. 0 or an exit
 * status, and then that was said: nobody there, or a refusal with the daemon's
 * own sentence. */
SL_MUST_USE int sl_daemon_reach_ask(struct sl_cli_args *call,
                                    struct sl_daemon_client *client,
                                    const char *method, const char *path,
                                    struct sl_str body, json_t **ret);

/* Append `text` as it may stand in a path or a query. */
SL_MUST_USE int sl_daemon_reach_encode(struct sl_buf *out, struct sl_str text);

/* ---- how the flows of `sluice test` went, as they go.
 *
 * What is wrong with a flow is the data of a test and goes to out; a file that
 * is no flow file and a policy that was refused are messages.
 */

struct sl_test {
    struct sl_cli_args *call;
    unsigned flows, failed, skipped;
    int status;      /* the exit status so far */
    char told[4096]; /* the last message; longer ones are never the same */
};

void sl_test_begin(struct sl_test *test);
void sl_test_flow(struct sl_test *test, const char *file,
                  const struct sl_flow *flow,
                  const struct sl_flow_outcome *out);

/* A whole file could not be read as flows; `why` has what to say. */
void sl_test_refused(struct sl_test *test, const char *file, const char *why);
void sl_test_end(struct sl_test *test);

#endif
