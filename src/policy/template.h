/* template.h -- texts with placeholders: messages, error bodies.
 *
 * A text is cut into pieces when the policy is read. A message is a string of
 * literals and placeholders. A body is JSON: a string that is exactly one
 * placeholder keeps its type ("{limit}" becomes 5, not "5"); inside longer
 * strings the value is escaped.
 *
 * `{{` and `}}` are literal braces. Other braces without a known placeholder
 * are refused.
 *
 * A placeholder without a value (no retry time, no limit):
 *   a whole JSON value      null
 *   inside a body's string  a number is 0, a text is empty
 *   in a message            the default message is used instead
 */
#ifndef SL_POLICY_TEMPLATE_H
#define SL_POLICY_TEMPLATE_H

#include "base/arena.h"
#include "base/diag.h"
#include "policy/yaml.h"

enum sl_placeholder {
    SL_HOLD_LIMIT,
    SL_HOLD_REMAINING,
    SL_HOLD_RETRY_AFTER,    /* whole seconds, rounded up */
    SL_HOLD_RETRY_AFTER_MS, /* rounded up */
    SL_HOLD_RESET,          /* epoch seconds */
    SL_HOLD_RESET_MS,       /* a span */
    SL_HOLD_RESET_ISO,      /* 2026-03-31T23:59:59Z */
    SL_HOLD_RESET_ISO_MS,   /* 2026-03-31T23:59:59.900Z */
    SL_HOLD_MESSAGE,
    SL_HOLD_NAME,
    SL_HOLD_UNIT,
    SL_HOLD_PLAN,
    SL_HOLD_SCOPE,
    SL_HOLD_ID,
    SL_HOLD_STATUS,
    SL_HOLD_CODE,
    SL_HOLD_REQUEST_ID,
    SL_HOLD_NOW_ISO,
    SL_HOLD_NOW_ISO_MS,
    SL_HOLDS
};

/* The words of the placeholders, in the order above. */
extern const char *const sl_holder_names[SL_HOLDS];

enum sl_template_piece_kind {
    SL_TEMPLATE_PIECE_LITERAL, /* bytes as they are */
    SL_TEMPLATE_PIECE_TEXT,    /* the placeholder's value as text; in a body,
                                  escaped */
    SL_TEMPLATE_PIECE_VALUE, /* body: the placeholder's value as a JSON value */
};

struct sl_template_piece {
    enum sl_template_piece_kind kind;
    enum sl_placeholder holder;
    struct sl_str literal;
};

struct sl_template {
    const struct sl_template_piece *pieces;
    unsigned count;
};

/* Cut a message into `arena`. On failure `diag` has the offset and a hint.
 * {message} in a message is refused. */
SL_MUST_USE int sl_template_read(struct sl_str text, struct sl_arena *arena,
                                 struct sl_template *ret, struct sl_diag *diag);

/* Cut a body: `node` becomes JSON on one line. Plain scalars true, false, null
 * and numbers of up to 15 digits (5, -1, 0.25) keep their type; quoted ones are
 * strings. SLUICE_ECONF: all problems are in `report`. */
SL_MUST_USE int sl_template_read_body(const struct sl_yaml_node *node,
                                      struct sl_arena *arena,
                                      struct sl_template *ret,
                                      struct sl_report *report);

#endif
