/* question.h -- what is asked for, in the words of a command line: those of an
 * act in a flow file, 'GET /path' user=ann plan=free cost=2.
 */
#ifndef SL_CHECK_ARGS_H
#define SL_CHECK_ARGS_H

#include "cli/cli.h"
#include "cli/flow/flow.h"
#include "cli/flow/lex.h"

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

#endif
