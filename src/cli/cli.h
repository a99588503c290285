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

#define SL_FLAGS_MAX 24 /* of one command */

/* The listener of the daemon that a command talks to. It adds the flags --url
 * or --admin-url, --token-file and --ca. */
enum sl_cli_listener { SL_LISTENER_NONE, SL_LISTENER_HTTP, SL_LISTENER_ADMIN };

struct sl_cli_args;

struct sl_cli_request;

typedef int sl_command_f(struct sl_cli_args *args);
typedef int sl_cli_request_f(struct sl_cli_request *r);

struct sl_command {
    const char *name;
    const char *usage;          /* after the name: "POLICY..." */
    const char *summary;        /* one line */
    const char *help;           /* paragraphs and examples */
    const char *words;          /* to complete: "file", "a|b|c", or NULL */
    const char *const *actions; /* to complete after a word: "a", "x|y", "b",
                                 * "z|...", NULL; or NULL */
    const char *formats;        /* of -o: "table|json", or NULL: no such flag */
    const struct sl_flag *flags; /* ended by a row without a name; or NULL */
    enum sl_cli_listener listener;
    unsigned least, most; /* number of words */
    sl_command_f *run;
    sl_cli_request_f *ask; /* without `run`: called with an empty request */
};

/* The arguments of one command. */
struct sl_cli_args {
    struct sl_cli *cli;
    const struct sl_command *command;
    const char *values[SL_FLAGS_MAX]; /* by number of the flag, or NULL */
    char **words;
    size_t word_count;
    enum sl_format format;
};

/* All commands; NULL-terminated. */
extern const struct sl_command *const sl_commands[];

extern const struct sl_command sl_command_init, sl_command_check,
    sl_command_explain, sl_command_test, sl_command_bench, sl_command_import,
    sl_command_jwks, sl_command_token, sl_command_webhook,
    sl_command_completion, sl_command_take, sl_command_hold, sl_command_top,
    sl_command_reset, sl_command_backlog, sl_command_subject, sl_command_usage,
    sl_command_leases, sl_command_audit, sl_command_block, sl_command_unblock,
    sl_command_why, sl_command_ping;

/* Run the program. Reorders `argv`. Returns an exit status. */
int sl_cli_run(struct sl_cli *cli, int argc, char **argv);

/* Flag number `index` of a command: its own flags, those of its listener,
 * --output, --help. False after the last. */
bool sl_command_flag(const struct sl_command *command, size_t index,
                     struct sl_flag *ret);

/* The value of the flag `name`, "" for a flag without a value, NULL: not
 * given. */
const char *sl_cli_flag(const struct sl_cli_args *args, const char *name);

/* Print "sluice check: ..." on err, without control characters. Returns
 * `status`. */
int sl_cli_error(const struct sl_cli_args *args, int status, const char *fmt,
                 ...) SL_PRINTF(3, 4);

/* The same for two frequent statuses. */
#define sl_cli_misuse(args, ...) sl_cli_error(args, SL_EXIT_USAGE, __VA_ARGS__)
#define sl_cli_fail(args, ...)   sl_cli_error(args, SL_EXIT_FAILED, __VA_ARGS__)
#define sl_cli_no_memory(args)   sl_cli_fail(args, "out of memory")

/* ---- input and output of commands ---- */

/* Print with '?' for control characters other than newline and tab. */
void sl_out_print(FILE *out, const char *fmt, ...) SL_PRINTF(2, 3);

/* Print `before`, then `text` as a JSON string with its quotes. */
void sl_out_json(FILE *out, const char *before, const char *text);

/* Print `text`, in colour if `out` is a terminal or CLICOLOR_FORCE is set,
 * unless NO_COLOR is set. */
enum sl_colour { SL_GREEN, SL_RED, SL_YELLOW };
void sl_out_coloured(FILE *out, enum sl_colour colour, const char *text);

/* Print `text`, ended by a newline. */
void sl_out_line(FILE *out, const char *text);

/* Read a file, or standard input for "-", into `buf`. Stops at its ceiling.
 * Returns -1 with errno set on failure. */
SL_MUST_USE int sl_read_all(struct sl_cli *cli, const char *path,
                            struct sl_buf *buf);

/* The same; prints why it failed and returns an exit status. */
SL_MUST_USE int sl_need_file(struct sl_cli_args *args, const char *path,
                             struct sl_buf *buf);

/* Load a policy from a file, or from standard input for "-". Returns as
 * sluice_policy_load(). Without problems, *ret_why is the reason of a
 * failure. */
SL_MUST_USE int sl_load_policy(struct sl_cli *cli, const char *path,
                               struct sluice_policy **ret,
                               struct sluice_problems **problems,
                               const char **ret_why);

/* Free a text that the public interface handed over. */
void sl_free_text(char *text);

/* Load a policy, or print why it is invalid and return an exit status. Does not
 * print warnings. */
SL_MUST_USE int sl_need_policy(struct sl_cli_args *args, const char *path,
                               struct sluice_policy **ret);

/* Read the flags; a flag that is not given leaves the value unchanged. Return
 * 0, or an exit status after printing why. */
SL_MUST_USE int sl_flag_duration(struct sl_cli_args *args, const char *name,
                                 sl_ns *value);
SL_MUST_USE int sl_flag_time(struct sl_cli_args *args, const char *name,
                             sl_ns *value);

/* ---- a table with aligned columns ---- */

#define SL_COLUMNS_MAX 10

struct sl_columns {
    unsigned count; /* of columns */
    size_t widths[SL_COLUMNS_MAX];
    struct sl_columns_row *rows, **last;
    struct sl_arena arena;
    bool failed; /* out of memory: rows are missing */
};

/* The first row is the heading. */
void sl_columns_init(struct sl_columns *columns, unsigned count,
                     const char *const *head);
void sl_columns_done(struct sl_columns *columns);

/* Append a row. Copies its `count` cells. */
void sl_columns_add(struct sl_columns *columns, const char *const *cells);

/* Print all rows without control characters, or report a lack of memory; then
 * free the columns. Returns 0 or an exit status. */
SL_MUST_USE int sl_columns_finish(struct sl_columns *columns,
                                  struct sl_cli_args *args);

/* Print a table with a row for each object of a list. Its columns are these
 * members: texts, integers, and durations if the name ends in _ms; a missing
 * one is "-". Returns 0 or an exit status. */
SL_MUST_USE int sl_columns_print(struct sl_cli_args *args, json_t *list,
                                 const char *const *names, unsigned count);

/* ---- JSON answers ---- */

/* A member of an object: "", 0 or false if there is none of the type. */
const char *sl_member_text(const json_t *map, const char *name);
json_int_t sl_member_int(const json_t *map, const char *name);
bool sl_member_true(const json_t *map, const char *name);

/* Print a duration, rounded up: to seconds above ten seconds, to minutes above
 * an hour. Returns out. */
char *sl_span_print(sl_ns span, char out[32]);

/* The same of a member in milliseconds, or NULL. */
const char *sl_member_span(const json_t *map, const char *name, char out[32]);

/* Print a table with a row for each limit of a verdict. Returns 0 or an exit
 * status. */
SL_MUST_USE int sl_numbers_print(struct sl_cli_args *args, json_t *limits);

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
    sl_ns now;         /* the time of at=, or the initial value */
    bool bare_limits;  /* LIMIT KEY means take LIMIT KEY */
    bool accepts_hold; /* hold= is valid */
    struct sl_arena arena;
    struct sl_flow_line line;
    struct sl_diag diag;
};

void sl_check_args_init(struct sl_check_args *q, sl_ns now);
void sl_check_args_done(struct sl_check_args *q);

/* Read the words of `args` from number `from` on; there is at least one. `q`
 * borrows them. Returns 0, or an exit status after printing why. */
SL_MUST_USE int sl_check_args_read(struct sl_cli_args *args, size_t from,
                                   struct sl_check_args *q);

/* `sluice explain --url`: ask a daemon to explain a request. */
SL_MUST_USE int sl_explain_ask(struct sl_cli_request *r);

/* `sluice webhook endpoint|message|attempts|replay`: is the first word one of
 * these, and run it. */
SL_MUST_USE bool sl_webhook_is_out(const char *word);
SL_MUST_USE int sl_webhook_out(struct sl_cli_args *args);

/* Append the file of token=FILE to the headers; see sl_flow_tokens_add().
 * Returns 0, or an exit status after printing why. */
SL_MUST_USE int sl_check_args_token(struct sl_cli_args *args,
                                    struct sl_check_args *q,
                                    const struct sl_flow_tokens *tokens,
                                    const struct sluice_policy *policy);

/* ---- client of a daemon: HTTP/1.1 or the Redis protocol ----
 *
 * One connection, reused by the next request. Calls block, at most
 * SL_DAEMON_CLIENT_WAIT for each read or write. An HTTP answer must have a
 * Content-Length.
 */

#define SL_DAEMON_CLIENT_WAIT  10                         /* seconds */
#define SL_DAEMON_CLIENT_BYTES ((size_t)64 * 1024 * 1024) /* of an answer */

struct sl_daemon_client {
    int fd;             /* or -1 */
    bool redis;         /* redis:// URL: use sl_daemon_client_pipeline() */
    bool https;         /* https:// URL */
    bool is_foreign;    /* no daemon: may answer by HTTP/1.0 or in chunks */
    const char *ca;     /* file with the CA of the server; NULL: the system's */
    struct sl_tls *tls; /* opened by the first connection */
    struct sl_tls_session *session; /* of `fd`, or NULL */
    char host[256], port[8];
    char where[280];      /* HOST:PORT, for messages */
    char token[512];      /* sent with each HTTP request, or "" */
    char fields[720];     /* more lines of each HTTP request, or "" */
    struct sl_str cursor; /* Sluice-Cursor of the last answer, or "" */
    struct sl_buf out, in;
    struct sl_diag *diag; /* the message of a failure */
};

/* Set the server by its URL: http://127.0.0.1:8080, https://HOST:PORT,
 * redis://127.0.0.1:6380 or unix:/run/sluice.sock. Does not connect. `alloc`
 * and `diag` are borrowed for the client's life. Returns SLUICE_ECONF for an
 * invalid URL. */
SL_MUST_USE int sl_daemon_client_init(struct sl_daemon_client *client,
                                      const char *url,
                                      const struct sl_alloc *alloc,
                                      struct sl_diag *diag);

/* Another connection to the server of `like`, with its token. */
void sl_daemon_client_copy(struct sl_daemon_client *client,
                           const struct sl_daemon_client *like,
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
                                     struct sl_str *ret_body);

/* Send `count` commands to a redis:// server and read as many replies.
 * *ret_replies is borrowed until the next request. Fails as above. */
SL_MUST_USE int sl_daemon_client_pipeline(struct sl_daemon_client *client,
                                          struct sl_str commands,
                                          unsigned count,
                                          struct sl_str *ret_replies);

/* ---- the request of a command to a daemon ----
 *
 * The URL is --url or --admin-url, else SLUICE_URL or SLUICE_ADMIN_URL, else
 * the address of the installed service if it runs, else the default address of
 * the listener. The token is in the file of --token-file, else in the variables
 * that the daemon reads. The CA of an https:// URL is --ca, else SLUICE_CA,
 * else the system's.
 */

struct sl_cli_request {
    struct sl_cli_args *args;
    struct sl_daemon_client client;
    struct sl_diag diag; /* of the client */
    struct sl_buf path_text, body_text;
    struct sl_writer path, body; /* append to the two buffers */
};

/* Call `ask` with an empty request, whose URL and token are set by the listener
 * of the command. Returns its exit status, or one after printing why. */
SL_MUST_USE int sl_cli_request_run(struct sl_cli_args *args,
                                   sl_cli_request_f *ask);

#define SL_TOKEN_REQUIRED                                                      \
    "%s requires a token; name the file that contains it with --token-file"
#define SL_REJECTED "the daemon rejected the request"

/* The author of a change: --by, or the user of the session, or NULL. */
const char *sl_cli_author(const struct sl_cli_args *args);

/* If the last word is note=TEXT, remove it and return TEXT, else NULL. */
const char *sl_cli_cut_note(struct sl_cli_args *args);

/* Send the author and the reason of a change, each or NULL, for the audit.
 * Returns 0, or an exit status after printing why. */
SL_MUST_USE int sl_cli_request_sign(struct sl_cli_request *r, const char *by,
                                    const char *note);

/* Append "/TEXT" or "?NAME=VALUE" to the path, percent-encoded. A NULL value
 * appends nothing. */
void sl_cli_request_segment(struct sl_cli_request *r, const char *text);
void sl_cli_request_option(struct sl_cli_request *r, const char *name,
                           const char *value);

/* Send the request and read the JSON of the answer into *ret, which the caller
 * frees. `too_long` is the message if path or body did not fit. Returns 0, or
 * an exit status after printing why. */
SL_MUST_USE int sl_cli_request_send(struct sl_cli_request *r,
                                    const char *method, const char *too_long,
                                    json_t **ret);

/* The same for an answer that is not JSON. *ret is borrowed until the next
 * request. */
SL_MUST_USE int sl_cli_request_text(struct sl_cli_request *r,
                                    const char *method, const char *too_long,
                                    struct sl_str *ret);

/* Send the request and print the answer: as JSON with -o json, else by
 * `print`. */
typedef int sl_print_f(struct sl_cli_args *args, json_t *answer);
SL_MUST_USE int sl_cli_request_print(struct sl_cli_request *r,
                                     const char *method, const char *too_long,
                                     sl_print_f *print);

/* Talk to another listener than that of the command; its URL is the flag of its
 * name. Returns 0, or an exit status after printing why. */
SL_MUST_USE int sl_cli_request_turn(struct sl_cli_request *r,
                                    enum sl_cli_listener listener);

/* ---- a file of records, sent in batches: batches.c ---- */

struct sl_cli_import {
    const char *name; /* of the file, for messages */
    FILE *file;
    const char *path;                    /* of the requests */
    const char *what;                    /* "subjects", for messages */
    uint64_t from;                       /* the first line to send */
    bool is_check;                       /* the requests change nothing */
    uint64_t imported, changed, skipped; /* out */
};

/* Send the file: CSV with a heading, or JSON lines. Returns 0, or an exit
 * status after printing why. */
SL_MUST_USE int sl_cli_import_run(struct sl_cli_request *r,
                                  struct sl_cli_import *import);

/* Append `text`, percent-encoded for a path or a query. */
void sl_url_encode(struct sl_writer *w, struct sl_str text);

/* ---- a flow against a daemon, over HTTP or the Redis protocol ----
 *
 * The daemon receives the same requests as the engine of the flow. Its verdicts
 * must be the same, byte for byte. The daemon must be a test build with a
 * settable clock, and keep its state in memory. A production daemon rejects the
 * setting of the clock, before its policy is replaced. Checks are collected and
 * sent together while the clock does not move.
 */

struct sl_flow_daemon {
    struct sl_daemon_client client, admin;
    struct sl_buf checks;   /* to send: an array without its end, or commands */
    struct sl_buf wants;    /* the expected verdicts, likewise */
    unsigned count;         /* of collected checks */
    struct sl_buf verdicts; /* the replies to commands */
    sl_ns now, set;         /* the flow's clock, and the daemon's */
    char hold[128];         /* the hold of the last verdict, or "" */
    struct sl_diag why;     /* the message of a failure */
};

/* All of these return 0, or
 *   SLUICE_ESYS    the daemon is unreachable
 *   SLUICE_ECONF   the daemon rejected the request
 *   SLUICE_ENOENT  its verdict differs
 *   SLUICE_ENOMEM
 * with a message in daemon->why. */

/* `url` is the listener for checks (http:// or redis://), `admin` the admin
 * listener. */
SL_MUST_USE int sl_flow_daemon_init(struct sl_flow_daemon *daemon,
                                    const char *url, const char *admin,
                                    const struct sl_alloc *alloc);
void sl_flow_daemon_done(struct sl_flow_daemon *daemon);

/* Begin a flow: clear the state, set the clock to 1970, load the policy. */
SL_MUST_USE int sl_flow_daemon_begin(struct sl_flow_daemon *daemon,
                                     const char *policy);

/* Load another policy. */
SL_MUST_USE int sl_flow_daemon_policy(struct sl_flow_daemon *daemon,
                                      const char *path);

SL_MUST_USE int sl_flow_daemon_clock(struct sl_flow_daemon *daemon, sl_ns now);
SL_MUST_USE int sl_flow_daemon_feature(struct sl_flow_daemon *daemon,
                                       const char *name, bool on);
SL_MUST_USE int sl_flow_daemon_backlog(struct sl_flow_daemon *daemon,
                                       const char *name, uint64_t depth);

/* Write a subject to the registry. Its plan and overrides end at `end`, or
 * never (-1). */
SL_MUST_USE int sl_flow_daemon_subject(struct sl_flow_daemon *daemon,
                                       const struct sl_flow_act *act,
                                       int64_t end);

/* Block or unblock a subject. */
SL_MUST_USE int sl_flow_daemon_block(struct sl_flow_daemon *daemon,
                                     const struct sl_flow_act *act,
                                     int64_t end);

/* Add a check that the engine answered with `verdict`. */
SL_MUST_USE int sl_flow_daemon_check(struct sl_flow_daemon *daemon,
                                     const struct sluice_request *request,
                                     const char *verdict);

/* Write one check as JSON. `id` is the request id, in JSON. */
void sl_flow_check_write(struct sl_writer *w,
                         const struct sluice_request *request,
                         struct sl_str id);

/* Send the collected checks and compare the verdicts. */
SL_MUST_USE int sl_flow_daemon_flush(struct sl_flow_daemon *daemon);

/* Why a flow cannot run against a daemon, or NULL. */
const char *sl_flow_daemon_cannot(const struct sl_flow_daemon *daemon,
                                  const struct sl_flow *flow);

/* Report usage: `limit`, `cost`, and a user or an org. */
SL_MUST_USE int sl_flow_daemon_usage(struct sl_flow_daemon *daemon,
                                     const struct sluice_request *request);

/* Settle, release or extend the daemon's hold. `want` is the expected answer,
 * {} for an unknown hold. */
SL_MUST_USE int sl_flow_daemon_hold(struct sl_flow_daemon *daemon,
                                    const struct sl_flow_act *act,
                                    const char *hold, const char *want);

/* ---- histogram of `sluice bench` ----
 *
 * Sixteen steps per power of two: a result is at most 6.25 % above the value.
 */

#define SL_HISTOGRAM_STEPS 1024

struct sl_histogram {
    uint64_t count[SL_HISTOGRAM_STEPS];
    uint64_t total;
};

void sl_histogram_add(struct sl_histogram *h, uint64_t value);
void sl_histogram_merge(struct sl_histogram *into,
                        const struct sl_histogram *from);

/* The smallest value that at least `permille` of 1000 do not exceed; 0 if there
 * are none. */
uint64_t sl_histogram_at(const struct sl_histogram *h, unsigned permille);

#endif
