/* body.h -- reading the JSON of a request, and refusing it.
 *
 * What checks, reports of use and errands for holds have in common: strict
 * reading, and refusals that say which of an array was wrong, where, and what
 * to write instead. Whatever refuses answers the call and is false, so that
 * refusing and leaving are one statement.
 */
#ifndef SL_HTTP_BODY_H
#define SL_HTTP_BODY_H

#include "server/http/http_int.h"
#include "wire/json.h"

struct sl_json_body {
    struct sl_http_call *call;
    struct sl_json_reader json;
    const char *one;    /* of what is read: "check" */
    const char *inside; /* "headers." inside of them; "" elsewhere */
    bool is_array;
    unsigned index; /* in the array, of the one that is being read */
};

/* The body of the call's request; `one` is a word for what is in it. */
void sl_json_body_begin(struct sl_json_body *body, struct sl_http_call *call,
                        const char *one);

/* ---- refusing ---- */

bool sl_json_body_refuse(struct sl_json_body *body, const char *code,
                         const char *fmt, ...) SL_PRINTF(3, 4);
bool sl_json_body_no_memory(struct sl_json_body *body);

/* The text itself is broken. */
bool sl_json_body_broken(struct sl_json_body *body);

/* Another kind of value than was wanted. */
bool sl_json_body_wrong(struct sl_json_body *body, struct sl_str member,
                        const char *wanted);

/* None of the `count` members in `names`. */
bool sl_json_body_unknown(struct sl_json_body *body, struct sl_str name,
                          const char *const *names, size_t count);

/* ---- reading ---- */

/* Into the object that one is. */
SL_MUST_USE bool sl_json_body_enter(struct sl_json_body *body);

SL_MUST_USE bool sl_json_body_text(struct sl_json_body *body,
                                   struct sl_str member, struct sl_str *ret);
SL_MUST_USE bool sl_json_body_whole(struct sl_json_body *body,
                                    struct sl_str member, uint64_t *ret);

typedef int sl_json_body_span_f(struct sl_str text, sl_ns *ret,
                                struct sl_diag *why);

/* For how long, as `read` reads it. */
SL_MUST_USE bool sl_json_body_span(struct sl_json_body *body,
                                   struct sl_str member,
                                   sl_json_body_span_f *read, sl_ns *ret);

/* The limit of the policy whose name comes nearest to one that it does not
 * have. NULL: none does. */
const char *sl_json_body_near_limit(struct sl_json_body *body,
                                    struct sl_str name);

#endif
