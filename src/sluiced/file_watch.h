/* file_watch.h -- calls back when files change.
 *
 * Folders are watched, not files: editors and deployments write a new file and
 * rename it, and a Kubernetes ConfigMap swaps a link (`..data`) two steps away.
 * An event of a folder only triggers a check: a file has changed if its inode,
 * size or time differ. Dotfiles, backups and swap files trigger none. A folder
 * can be watched itself: it changes when a file in it does.
 *
 * Changes within DEBOUNCE are one change. Every POLL the files are checked
 * anyway, for file systems without events and folders that were replaced.
 */
#ifndef SL_SLUICED_FILE_WATCH_H
#define SL_SLUICED_FILE_WATCH_H

#include "net/loop.h"

#define SL_WATCHED 32 /* files, one bit each */

struct sl_file_watch;

/* `changed` has a bit for each file, by its index. */
typedef void sl_file_watch_f(void *ctx, unsigned changed);

/* Watches up to SL_WATCHED files; NULLs are skipped. The paths are copied.
 * Reports changes from now on. The caller checks for changes since it read the
 * files. Returns 0, SLUICE_ESYS without inotify, or SLUICE_ENOMEM. */
SL_MUST_USE int sl_file_watch_open(struct sl_loop *loop,
                                   const char *const *paths, unsigned count,
                                   sl_file_watch_f *on_change, void *ctx,
                                   struct sl_file_watch **ret,
                                   struct sl_diag *diag);

/* Watches these files instead. For a file watched before under the same index,
 * changes meanwhile are reported. A new file is reported once in any case,
 * because it may have changed since it was read. SLUICE_EINVAL: a path is too
 * long, and that file is not watched. */
SL_MUST_USE int sl_file_watch_others(struct sl_file_watch *watch,
                                     const char *const *paths, unsigned count);

/* NULL is allowed. */
void sl_file_watch_close(struct sl_file_watch *watch);

/* Returns whether an event of this name in a folder can be ignored. `own` is
 * the name of the watched file. */
bool sl_file_watch_is_noise(const char *name, const char *own);

/* ---- calls a function on the loop when a file descriptor is readable. */

struct sl_fd_watch;

/* Calls `on_data` while `fd` (borrowed) is readable. */
SL_MUST_USE int sl_fd_watch_open(struct sl_loop *loop, int fd,
                                 sl_loop_f *on_data, void *ctx,
                                 struct sl_fd_watch **ret);

/* NULL is allowed. */
void sl_fd_watch_close(struct sl_fd_watch *watch);

#endif
