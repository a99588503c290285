/* file_watch.h -- files that are read again when they change.
 *
 * The folders are watched, not the files: editors and deployments write a new
 * file and rename it, and a Kubernetes ConfigMap swaps a link (`..data`) two
 * steps away. What a folder says is only a reason to look: a file has changed
 * when it is another one, or has another size or time. Dotfiles, backups and
 * swap files are no reason. A folder may be watched itself: it changes when a
 * file in it does.
 *
 * Changes within DEBOUNCE of each other are one. Every POLL the files are
 * looked at anyway, for file systems that tell nothing and folders that went
 * away and came back.
 */
#ifndef SL_SLUICED_FILE_WATCH_H
#define SL_SLUICED_FILE_WATCH_H

#include "net/loop.h"

#define SL_WATCHED 5 /* files */

struct sl_file_watch;

/* `changed` has a bit for each file, by its index. */
typedef void sl_file_watch_f(void *ctx, unsigned changed);

/* Watch up to SL_WATCHED files; NULLs are passed over. The paths are copied.
 * What changes from now on is told; what changed since the caller read the
 * files is his to find out. SLUICE_ESYS where there is no inotify,
 * SLUICE_ENOMEM. */
SL_MUST_USE int sl_file_watch_open(struct sl_loop *loop,
                                   const char *const *paths, unsigned count,
                                   sl_file_watch_f *on_change, void *ctx,
                                   struct sl_file_watch **ret,
                                   struct sl_diag *diag);

/* Watch these instead. Of a file that was watched before, under the same index,
 * what changed meanwhile is told; a file that is new is told once in any case,
 * for it may have changed since it was read. SLUICE_EINVAL: a path is too long,
 * and that file is not watched. */
SL_MUST_USE int sl_file_watch_others(struct sl_file_watch *watch,
                                     const char *const *paths, unsigned count);

/* NULL is allowed. */
void sl_file_watch_close(struct sl_file_watch *watch);

/* Is an event of this name in a folder no reason to look? `own` is the name
 * of the file that is watched there. */
bool sl_file_watch_is_noise(const char *name, const char *own);

/* ---- being called on a loop when a descriptor can be read: signals,
 * changes of files.
 */

struct sl_fd_watch;

/* Call `on_sound` while `fd` (borrowed) has something to read. */
SL_MUST_USE int sl_fd_watch_open(struct sl_loop *loop, int fd,
                                 sl_loop_f *on_sound, void *ctx,
                                 struct sl_fd_watch **ret);

/* NULL is allowed. */
void sl_fd_watch_close(struct sl_fd_watch *ear);

#endif
