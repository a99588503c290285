/* ear.h -- being called on a loop when a descriptor can be read: signals,
 * changes of files.
 */
#ifndef SL_EAR_H
#define SL_EAR_H

#include "net/loop.h"

struct sl_ear;

/* Call `on_sound` while `fd` (borrowed) has something to read. */
SL_MUST_USE int sl_ear_open(struct sl_loop *loop, int fd, sl_loop_f *on_sound,
                            void *ctx, struct sl_ear **ret);

/* NULL is allowed. */
void sl_ear_close(struct sl_ear *ear);

#endif
