/* cli.h -- the commands of the program `sluice`.
 *
 * command.c has the table of commands. Help, completion and the reading of
 * arguments are loops over the table. Data goes to `out`, messages to `err`.
 * The commands use the public headers and not the engine behind them.
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

/* The standard streams. Tests pass their own. */
struct sl_cli {
    FILE *in, *out, *err;
};

struct sl_flag {
    char letter;       /* -o, or NUL */
    const char *name;  /* --output */
    const char *value; /* its value: "DURATION", "table|json"; NULL: none */
    const char *summary;
};

#define SL_FLAGS_MAX 8 /* of one command */

struct sl_cli_args;

typedef int sl_command_f(struct sl_cli_args *args);

struct sl_command {
    const char *name;
    const char *usage;   /* after the name: "POLICY..." */
    const char *summary; /* one line */
    const char *help;    /* paragraphs and examples */
    const char *words;   /* to complete: "file", "a|b|c" or "" */
    const char *formats; /* of -o: "table|json", or NULL: no such flag */
    const struct sl_flag *flags; /* ended by a row without a name; or NULL */
    unsigned least, most;        /* number of words */
    sl_command_f *run;           /* NULL: not in this version */
};

/* The arguments of one command. */
struct sl_cli_args {
    struct sl_cli *cli;
    const struct sl_command *command;
    const char *values[SL_FLAGS_MAX]; /* by row of command->flags, or NULL */
    char **words;
    size_t word_count;
    enum sl_format format;
};

/* All commands; NULL-terminated. */
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

/* Run the program. Reorders `argv`. Returns an exit status. */
int sl_cli_run(struct sl_cli *cli, int argc, char **argv);

/* Read the words and flags after the name of a command into `args`. Its cli and
 * command must be set. *ret_help is true for -h and --help. Returns
 * SL_EXIT_USAGE after printing why. */
SL_MUST_USE int sl_args_read(struct sl_cli_args *args, int argc, char **argv,
                             bool *ret_help);

/* The value of the flag `name`, "" for a flag without a value, NULL: not
 * given. */
const char *sl_cli_args_flag(const struct sl_cli_args *args, const char *name);

/* Print "sluice check: ..." on err, without control characters. Returns
 * `status`. */
int sl_cli_error(const struct sl_cli_args *args, int status, const char *fmt,
                 ...) SL_PRINTF(3, 4);

/* ---- input and output of commands ---- */

/* Print `text` with '?' for control characters other than newline and tab. */
void sl_out_clean(FILE *out, const char *text);

/* Print a JSON string, with its quotes. */
void sl_out_json(FILE *out, const char *text);

/* Print a colour code if `out` is a terminal or CLICOLOR_FORCE is set, unless
 * NO_COLOR is set. */
enum sl_colour { SL_PLAIN, SL_GREEN, SL_RED, SL_YELLOW };
void sl_out_colour(FILE *out, enum sl_colour colour);

/* Read a file, or standard input for "-", into `buf`. Stops at its ceiling.
 * Returns -1 with errno set on failure. */
SL_MUST_USE int sl_read_all(struct sl_cli *cli, const char *path,
                            struct sl_buf *buf);

/* Load a policy from a file, or from standard input for "-". Returns as
 * sluice_policy_load(). */
SL_MUST_USE int sl_load_policy(struct sl_cli *cli, const char *path,
                               struct sluice_policy **ret,
                               struct sluice_problems **problems);

/* The reason of a failure that left no problems. */
const char *sl_load_why(const char *path);

/* Print the problems of a policy as text, ended by a newline. */
void sl_print_problems(FILE *out, const struct sluice_problems *problems);

/* Free a text that the public interface handed over. */
void sl_free_text(char *text);

/* Load a policy, or print why it is invalid and return an exit status. Does not
 * print warnings. */
SL_MUST_USE int sl_need_policy(struct sl_cli_args *args, const char *path,
                               struct sluice_policy **ret);

/* ---- a table with aligned columns ---- */

#define SL_COLUMNS_MAX 10

struct sl_columns {
    unsigned count; /* of columns */
    size_t widths[SL_COLUMNS_MAX];
    struct sl_columns_row *rows, **last;
    struct sl_arena arena;
    bool failed; /* out of memory: rows are missing */
};

void sl_columns_init(struct sl_columns *columns, unsigned count);
void sl_columns_done(struct sl_columns *columns);

/* Append a row. Copies its `count` cells. The first row is the heading. */
void sl_columns_add(struct sl_columns *columns, const char *const *cells);

/* Print all rows without control characters. */
void sl_columns_print(const struct sl_columns *columns, FILE *out);

/* Print all rows, or report a lack of memory; then free the columns. Returns 0
 * or an exit status. */
SL_MUST_USE int sl_columns_finish(struct sl_columns *columns,
                                  struct sl_cli_args *args);

/* ---- JSON answers ---- */

/* A member of an object: `missing`, 0 or false if there is none of the type. */
const char *sl_member_text(const json_t *map, const char *name,
                           const char *missing);
json_int_t sl_member_int(const json_t *map, const char *name);
bool sl_member_true(const json_t *map, const char *name);

/* A member in milliseconds as sl_span_print() prints it, or NULL. */
const char *sl_member_span(const json_t *map, const char *name, char out[32]);

/* Print a table with a row for each limit of a verdict. Returns 0 or an exit
 * status. */
SL_MUST_USE int sl_numbers_print(struct sl_cli_args *args, json_t *limits);

/* Print a duration, rounded up: to seconds above ten seconds, to minutes above
 * an hour. Returns out. */
char *sl_span_print(sl_ns span, char out[32]);

/* Print JSON on one line. Returns 0 or an exit status. */
SL_MUST_USE int sl_json_print(struct sl_cli_args *args, json_t *root);

/* ---- a request as arguments ----
 *
 * The words are those of an act in a flow file: 'GET /path' user=ann plan=free
 * cost=2.
 */

struct sl_check_args {
    struct sl_flow_act act;
    struct sl_inputs in;
    sl_ns now;          /* the time of at=, or the initial value */
    bool bare_limits;   /* LIMIT KEY means take LIMIT KEY */
    bool accepts_token; /* token= is valid */
    bool accepts_hold;  /* hold= is valid */
    struct sl_arena arena;
    struct sl_words words;
};

void sl_check_args_init(struct sl_check_args *q, sl_ns now);
void sl_check_args_done(struct sl_check_args *q);

/* Read the words of `args` from number `from` on; there is at least one. `q`
 * borrows them. Returns 0, or an exit status after printing why. */
SL_MUST_USE int sl_check_args_read(struct sl_cli_args *args, size_t from,
                                   struct sl_check_args *q);

/* ---- client of a daemon: HTTP/1.1 or the Redis protocol ----
 *
 * One connection, reused by the next request. Calls block, at most
 * SL_DAEMON_CLIENT_WAIT for each read or write. An HTTP answer must have a
 * Content-Length.
 */

#define SL_DAEMON_CLIENT_WAIT  10                         /* seconds */
#define SL_DAEMON_CLIENT_BYTES ((size_t)64 * 1024 * 1024) /* of an answer */

struct sl_daemon_client {
    int fd;     /* or -1 */
    bool redis; /* redis:// URL: use sl_daemon_client_pipeline() */
    char host[256], port[8];
    char where[280]; /* HOST:PORT, for messages */
    char token[512]; /* sent with each HTTP request, or "" */
    struct sl_buf out, in;
};

/* Set the server by its URL: http://127.0.0.1:8080, redis://127.0.0.1:6380 or
 * unix:/run/sluice.sock. Does not connect. `alloc` is borrowed for the client's
 * life. Returns SLUICE_ECONF for an invalid URL. */
SL_MUST_USE int sl_daemon_client_init(struct sl_daemon_client *client,
                                      const char *url,
                                      const struct sl_alloc *alloc,
                                      struct sl_diag *diag);
void sl_daemon_client_done(struct sl_daemon_client *client);

/* Close the connection. The next request opens a new one. */
void sl_daemon_client_close(struct sl_daemon_client *client);

/* Send a request and read the answer. *ret_body is borrowed until the next
 * request. SLUICE_ESYS: no connection, no answer, or not HTTP; the connection
 * is closed. A request is never repeated. SLUICE_ENOMEM. */
SL_MUST_USE int sl_daemon_client_ask(struct sl_daemon_client *client,
                                     const char *method, const char *path,
                                     struct sl_str body, int *ret_status,
                                     struct sl_str *ret_body,
                                     struct sl_diag *diag);

/* Send `count` commands to a redis:// server and read as many replies.
 * *ret_replies is borrowed until the next request. Fails as above. */
SL_MUST_USE int sl_daemon_client_pipeline(struct sl_daemon_client *client,
                                          struct sl_str commands,
                                          unsigned count,
                                          struct sl_str *ret_replies,
                                          struct sl_diag *diag);

/* ---- the request of a command to a daemon ----
 *
 * The URL is --url or --admin-url, else SLUICE_URL or SLUICE_ADMIN_URL, else
 * the default address of the listener. The token is in the file of
 * --token-file, else in the variables that the daemon reads.
 */

/* Rows for a table of flags. */
#define SL_FLAG_URL                                                            \
    {                                                                          \
        '\0', "url", "URL", "URL of the http listener (http://127.0.0.1:8080)" \
    }
#define SL_FLAG_ADMIN_URL                                                      \
    {                                                                          \
        '\0', "admin-url", "URL",                                              \
            "URL of the admin listener (http://127.0.0.1:9090)"                \
    }
#define SL_FLAG_TOKEN                                                          \
    {                                                                          \
        '\0', "token-file", "FILE", "file with the token of the listener"      \
    }

struct sl_daemon_request {
    struct sl_cli_args *args;
    struct sl_daemon_client client;
    struct sl_buf path_text, body_text;
    struct sl_writer path, body; /* append to the two buffers */
};

/* A request with an empty path of at most `path_most` bytes and an empty body.
 * End it with sl_daemon_request_done(). */
void sl_daemon_request_init(struct sl_daemon_request *r,
                            struct sl_cli_args *args, size_t path_most);
void sl_daemon_request_done(struct sl_daemon_request *r);

/* Set URL and token; does not connect. Returns 0, or an exit status after
 * printing why. */
SL_MUST_USE int sl_daemon_request_open(struct sl_daemon_request *r, bool admin);

/* Append "/TEXT" or "?NAME=VALUE" to the path, percent-encoded. A NULL value
 * appends nothing. */
void sl_daemon_request_segment(struct sl_daemon_request *r, const char *text);
void sl_daemon_request_option(struct sl_daemon_request *r, const char *name,
                              const char *value);

/* Send the request and read the JSON of the answer into *ret, which the caller
 * frees. `too_long` is the message if path or body did not fit. Returns 0, or
 * an exit status after printing why. */
SL_MUST_USE int sl_daemon_request_send(struct sl_daemon_request *r,
                                       const char *method, const char *too_long,
                                       json_t **ret);

/* Send the request and print the answer: as JSON with -o json, else by
 * `print`. */
typedef int sl_print_f(struct sl_cli_args *args, json_t *answer);
SL_MUST_USE int sl_daemon_request_print(struct sl_daemon_request *r,
                                        const char *method,
                                        const char *too_long,
                                        sl_print_f *print);

/* Append `text`, percent-encoded for a path or a query. */
void sl_url_encode(struct sl_writer *w, struct sl_str text);

/* ---- the report of `sluice test` ----
 *
 * A failed flow is data and goes to out. An invalid flow file or policy is a
 * message.
 */

struct sl_test {
    struct sl_cli_args *args;
    unsigned flows, failed, skipped;
    int status;      /* the exit status so far */
    char last[4096]; /* the last message, to print repeats once */
};

void sl_test_begin(struct sl_test *test);
void sl_test_flow(struct sl_test *test, const char *file,
                  const struct sl_flow *flow,
                  const struct sl_flow_outcome *out);

/* Report that `file` is not a flow file; `why` is the message. */
void sl_test_refused(struct sl_test *test, const char *file, const char *why);
void sl_test_end(struct sl_test *test);

#endif
