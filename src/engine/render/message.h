/* message.h -- the sentence of a denial, and how a body shows values.
 */
#ifndef SL_ENGINE_MESSAGE_H
#define SL_ENGINE_MESSAGE_H

#include "engine/render/face.h"
#include "engine/render/ink.h"

/* Write the message; nothing if the decision allows. */
void sl_message_write(const struct sl_decision *decision,
                      struct sl_writer *ink);

/* Our own sentence where a guard refused, but for when to come again. */
void sl_precheck_message(const struct sl_decision *decision,
                         struct sl_writer *ink);

/* Write a placeholder's value as text. Without one, a number is 0 and a text
 * is empty. */
void sl_placeholder_value_write(const struct sl_decision *decision,
                                enum sl_placeholder holder,
                                struct sl_writer *ink);

/* Append the JSON body of a denial. */
SL_MUST_USE int sl_message_body_write(const struct sl_decision *decision,
                                      struct sl_buf *out);

#endif
