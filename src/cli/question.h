/* question.h -- what is asked for, in the words of a command line: those of an
 * act in a flow file, 'GET /path' user=ann plan=free cost=2.
 */
#ifndef SL_QUESTION_H
#define SL_QUESTION_H

#include "cli/errand.h"
#include "cli/flow/flow.h"
#include "cli/flow/lex.h"

struct sl_question {
    struct sl_act act;
    struct sl_inputs in;
    sl_ns now;        /* or what at= said */
    bool bare_limits; /* LIMIT KEY is as good as take LIMIT KEY */
    bool takes_token; /* token= has a meaning */
    bool takes_hold;  /* and so has hold= */
    struct sl_arena arena;
    struct sl_words words;
};

void sl_question_init(struct sl_question *q, sl_ns now);
void sl_question_done(struct sl_question *q);

/* Read the words of `call` from number `from` on, of which there is one. 0 or
 * an exit status, and then that was said. The question points into them. */
SL_MUST_USE int sl_question_read(struct sl_call *call, size_t from,
                                 struct sl_question *q);

#endif
