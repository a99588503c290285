/* pass.h -- let sluiced decide: requests to its http listener, and its answers.
 *
 * Texts only; the caller sends and receives them, and never waits. A check is
 * POST /v1/check, and the verdict becomes the answer that sl_embed_decide()
 * gives. Headers of the client are trusted there, so a header that could name
 * another user is not passed on: sl_pass_header().
 */
#ifndef SL_EMBED_PASS_H
#define SL_EMBED_PASS_H

#include "base/buf.h"
#include "embed/embed.h"

#define SL_PASS_REPLY ((size_t)1 << 20) /* bytes of an answer, at most */

/* May a header of a client be passed on? Tokens, what repeats and preflights
 * need, and the type of the client may. */
bool sl_pass_header(struct sl_str name);

/* Whole requests, appended to `out`. `token` is sluiced's access token; empty:
 * none. */
SL_MUST_USE int sl_pass_write_check(const struct sl_request *request,
                                    struct sl_str token, struct sl_buf *out);
SL_MUST_USE int sl_pass_write_settle(struct sl_str hold,
                                     const struct sl_embed_actual *actual,
                                     struct sl_str token, struct sl_buf *out);
SL_MUST_USE int sl_pass_write_extend(struct sl_str hold, sl_ns life,
                                     struct sl_str token, struct sl_buf *out);

/* What is there of a reply. */
struct sl_pass_reply {
    unsigned status;
    bool keep; /* the connection can be used again */
    struct sl_str body;
    size_t len; /* of the whole reply */
};

enum sl_pass_state {
    SL_PASS_MORE, /* it is not complete */
    SL_PASS_WHOLE,
    SL_PASS_BAD, /* it is no reply of sluiced */
};

/* Reads a reply: HTTP/1.1 with a Content-Length. */
enum sl_pass_state sl_pass_read_reply(struct sl_str text,
                                      struct sl_pass_reply *ret);

/* Reads a verdict. Texts are in `body` or in the arena. SLUICE_EINVAL: it is
 * no verdict; SLUICE_ENOMEM. */
SL_MUST_USE int sl_pass_read_verdict(struct sl_str body, struct sl_arena *arena,
                                     struct sl_embed_answer *answer,
                                     struct sl_rendered *rendered);

#endif
