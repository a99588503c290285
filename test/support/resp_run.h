/* resp_run.h -- the readers of the Redis protocol, fed in pieces.
 *
 * The bytes are moved before every piece, to memory of exactly their size:
 * a kept pointer, or a read of one byte too much, is caught.
 */
#ifndef SL_RESP_RUN_H
#define SL_RESP_RUN_H

#include <stdlib.h>
#include <string.h>

#include "wire/resp.h"

struct resp_run {
    enum sl_resp_result result;
    char *bytes; /* the last of them; slices point into it */
    size_t len;  /* of what was fed */
};

static inline char *resp_move(char *old, struct sl_str text, size_t len)
{
    char *bytes = malloc(len > 0 ? len : 1);

    if (!bytes)
        abort();
    if (len > 0)
        memcpy(bytes, text.at, len);
    free(old);
    return bytes;
}

/* Feed `text` in pieces of `step` bytes, up to the end or a verdict. */
static inline struct resp_run run_command(struct sl_resp_command *c,
                                          struct sl_str text, size_t step)
{
    struct resp_run run = {SL_RESP_MORE, NULL, 0};

    sl_resp_command_begin(c);
    while (run.result == SL_RESP_MORE && run.len < text.len) {
        run.len = text.len - run.len < step ? text.len : run.len + step;
        run.bytes = resp_move(run.bytes, text, run.len);
        run.result = sl_resp_command_read(c, run.bytes, run.len);
    }
    return run;
}

static inline struct resp_run run_reply(struct sl_resp_reply *r, size_t most,
                                        struct sl_str text, size_t step)
{
    struct resp_run run = {SL_RESP_MORE, NULL, 0};

    sl_resp_reply_begin(r, most);
    while (run.result == SL_RESP_MORE && run.len < text.len) {
        run.len = text.len - run.len < step ? text.len : run.len + step;
        run.bytes = resp_move(run.bytes, text, run.len);
        run.result = sl_resp_reply_read(r, (struct sl_str){run.bytes, run.len});
    }
    return run;
}

#endif
