/* ear.h -- being called on a loop when a descriptor can be read: signals,
 * changes of files.
 */
#ifndef SL_FD_WATCH_H
#define SL_FD_WATCH_H

#include "net/loop.h"

struct sl_fd_watch;

/* Call `on_sound` while `fd` (borrowed) has something to read. */
SL_MUST_USE int sl_fd_watch_open(struct sl_loop *loop, int fd,
                                 sl_loop_f *on_sound, void *ctx,
                                 struct sl_fd_watch **ret);

/* NULL is allowed. */
void sl_fd_watch_close(struct sl_fd_watch *ear);

#endif
