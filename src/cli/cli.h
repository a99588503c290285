/* errand.h -- what the program `sluice` can be sent for.
 *
 * errand.c has the table of errands; each has a file of its own. Help,
 * completion and the reading of arguments are loops over the table.
 *
 * Data goes to `out`, messages to `err`. The errands use the public header
 * and nothing of the engine behind it: what they can do, any program can.
 */
#ifndef SL_COMMAND_H
#define SL_COMMAND_H

#include <stdio.h>

#include "base/base.h"

/* What the program's exit status says. */
enum sl_exit {
    SL_EXIT_OK = 0,          /* done, or allowed */
    SL_EXIT_FAILED = 1,      /* failed, or denied */
    SL_EXIT_USAGE = 2,       /* not understood */
    SL_EXIT_POLICY = 3,      /* a policy was refused */
    SL_EXIT_UNREACHABLE = 4, /* a daemon could not be reached */
    SL_EXIT_STORE = 5,       /* a store failed */
};

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

#endif
