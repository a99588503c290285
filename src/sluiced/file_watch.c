/* file_watch.c -- calls back when files change. */
#include "sluiced/file_watch.h"

#include <dirent.h>
#include <errno.h>
#include <event2/event.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/hash.h"

#define DEBOUNCE     (200 * SL_MS)
#define DEBOUNCE_MAX (2 * SL_S) /* for a file that is written all the time */
#define POLL         (10 * SL_S)

#define EVENTS                                                                 \
    (IN_CLOSE_WRITE | IN_MOVED_TO | IN_MOVED_FROM | IN_CREATE | IN_DELETE |    \
     IN_DELETE_SELF | IN_MOVE_SELF | IN_ONLYDIR)

struct file {
    char path[PATH_MAX];
    uint64_t seen; /* its version; 0: it did not exist */
};

struct sl_file_watch {
    struct sl_loop *loop;
    int fd;
    struct sl_fd_watch *fd_watch;
    struct sl_timer *soon, *poll;
    sl_ns since; /* the first event not handled yet; 0: none */
    sl_file_watch_f *on_change;
    void *ctx;
    unsigned count;
    struct file files[SL_WATCHED];
};

/* ---- events ---- */

bool sl_file_watch_is_noise(const char *name, const char *own)
{
    static const char *const tails[] = {"~",    ".swp", ".swo",  ".swx",
                                        ".tmp", ".bak", ".part", "#"};

    size_t len = strlen(name);

    if (strcmp(name, own) == 0 || strcmp(name, "..data") == 0)
        return false;
    for (size_t i = 0; i < SL_LEN(tails); i++)
        if (len >= strlen(tails[i]) &&
            strcmp(name + len - strlen(tails[i]), tails[i]) == 0)
            return true;
    return name[0] == '.' || strcmp(name, "4913") == 0; /* probe of vim */
}

static bool is_reason(const struct sl_file_watch *watch,
                      const struct inotify_event *event)
{
    if (event->len == 0 || event->mask & IN_Q_OVERFLOW)
        return true;
    for (unsigned i = 0; i < watch->count; i++) {
        const char *path = watch->files[i].path;
        const char *slash = strrchr(path, '/');

        if (!sl_file_watch_is_noise(event->name, slash ? slash + 1 : path))
            return true;
    }
    return false;
}

/* ---- checking ---- */

/* Never 0. */
static uint64_t hash(const struct stat *st, uint64_t more)
{
    /* Not a secret: no attack depends on it. */
    static const struct sl_hash_key key = {1, 2};
    uint64_t parts[] = {st->st_dev,
                        st->st_ino,
                        (uint64_t)st->st_size,
                        (uint64_t)st->st_mtim.tv_sec,
                        (uint64_t)st->st_mtim.tv_nsec,
                        more};

    return sl_hash64(&key,
                     (struct sl_str){(const char *)parts, sizeof(parts)}) |
           1;
}

/* Returns a hash of a file's inode, size and time, or 0 without a file. The
 * hash of a folder includes its entries, in any order. */
static uint64_t version_of(const char *path)
{
    char whole[PATH_MAX];
    struct dirent *entry;
    struct stat st, inner;
    uint64_t contents = 0;
    DIR *folder;

    if (stat(path, &st))
        return 0;
    folder = S_ISDIR(st.st_mode) ? opendir(path) : NULL;
    while (folder && (entry = readdir(folder)) != NULL)
        if (entry->d_name[0] != '.' &&
            !sl_file_watch_is_noise(entry->d_name, "") &&
            (size_t)snprintf(whole, sizeof(whole), "%s/%s", path,
                             entry->d_name) < sizeof(whole) &&
            !stat(whole, &inner))
            contents += hash(&inner, 0);
    if (folder)
        closedir(folder);
    return hash(&st, contents);
}

static void watch_folder(const struct sl_file_watch *watch, const char *path)
{
    char folder[PATH_MAX];
    const char *slash = strrchr(path, '/');

    snprintf(folder, sizeof(folder), "%.*s",
             slash > path ? (int)(slash - path) : 1, slash ? path : ".");
    /* On failure POLL finds changes. */
    inotify_add_watch(watch->fd, folder, EVENTS);
    inotify_add_watch(watch->fd, path, EVENTS); /* if it is a folder */
}

/* Watches the folder of the path and of the file that it links to. Watching
 * twice does no harm. */
static void watch_folders(const struct sl_file_watch *watch)
{
    char real[PATH_MAX];

    for (unsigned i = 0; i < watch->count; i++) {
        if (watch->files[i].path[0])
            watch_folder(watch, watch->files[i].path);
        if (realpath(watch->files[i].path, real))
            watch_folder(watch, real);
    }
}

/* A removed file is not a change. When it is back, it is compared with the old
 * one. */
static void on_soon(void *ctx)
{
    struct sl_file_watch *watch = ctx;
    unsigned changed = 0;

    watch->since = 0;
    watch_folders(watch);
    for (unsigned i = 0; i < watch->count; i++) {
        uint64_t now = version_of(watch->files[i].path);

        if (now && now != watch->files[i].seen) {
            watch->files[i].seen = now;
            changed |= 1u << i;
        }
    }
    if (changed)
        watch->on_change(watch->ctx, changed);
}

static void on_poll(void *ctx)
{
    struct sl_file_watch *watch = ctx;

    sl_timer_start(watch->poll, POLL);
    if (watch->since == 0)
        on_soon(watch);
}

static void on_event(void *ctx)
{
    _Alignas(struct inotify_event) char bytes[4096];
    struct sl_file_watch *watch = ctx;
    ssize_t len = read(watch->fd, bytes, sizeof(bytes));
    sl_ns now = sl_loop_mono(watch->loop);
    bool reason = false;

    for (ssize_t at = 0; at < len;) {
        const struct inotify_event *event = (const void *)(bytes + at);

        reason = reason || is_reason(watch, event);
        at += (ssize_t)sizeof(*event) + event->len;
    }
    if (!reason)
        return;
    if (watch->since == 0)
        watch->since = now;
    if (now - watch->since < DEBOUNCE_MAX)
        sl_timer_start(watch->soon, DEBOUNCE);
}

/* ---- opening ---- */

static int start(struct sl_file_watch *watch)
{
    watch->fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    if (watch->fd < 0)
        return SLUICE_ESYS;
    if (sl_fd_watch_open(watch->loop, watch->fd, on_event, watch,
                         &watch->fd_watch) ||
        sl_timer_new(watch->loop, on_soon, watch, &watch->soon) ||
        sl_timer_new(watch->loop, on_poll, watch, &watch->poll))
        return SLUICE_ENOMEM;
    sl_timer_start(watch->poll, POLL);
    return 0;
}

/* A file that stays in the list keeps its last state: it may have changed
 * since. */
static int set_files(struct sl_file_watch *watch, const char *const *paths,
                     unsigned count)
{
    int err = 0;

    watch->count = count < SL_WATCHED ? count : SL_WATCHED;
    for (unsigned i = 0; i < watch->count; i++) {
        struct file *file = &watch->files[i];
        const char *path = paths[i] ? paths[i] : "";

        if (strcmp(file->path, path) == 0)
            continue;
        memset(file, 0, sizeof(*file));
        if (strlen(path) < sizeof(file->path))
            memcpy(file->path, path, strlen(path));
        else
            err = SLUICE_EINVAL;
    }
    return err;
}

int sl_file_watch_open(struct sl_loop *loop, const char *const *paths,
                       unsigned count, sl_file_watch_f *on_change, void *ctx,
                       struct sl_file_watch **ret, struct sl_diag *diag)
{
    struct sl_file_watch *watch = sl_alloc_new(&sl_alloc_libc, sizeof(*watch));
    int err;

    if (!watch)
        return sl_diag_error(diag, SLUICE_ENOMEM, "out of memory");
    memset(watch, 0, sizeof(*watch));
    watch->loop = loop;
    watch->fd = -1;
    watch->on_change = on_change;
    watch->ctx = ctx;
    err = set_files(watch, paths, count);
    if (!err)
        err = start(watch);
    if (err) {
        sl_diag_error(diag, err, "cannot watch files: %s",
                      err == SLUICE_ESYS     ? strerror(errno)
                      : err == SLUICE_EINVAL ? "a path is too long"
                                             : "out of memory");
        sl_file_watch_close(watch);
        return err;
    }
    watch_folders(watch);
    for (unsigned i = 0; i < watch->count; i++)
        watch->files[i].seen = version_of(watch->files[i].path);
    *ret = watch;
    return 0;
}

int sl_file_watch_others(struct sl_file_watch *watch, const char *const *paths,
                         unsigned count)
{
    int err = set_files(watch, paths, count);

    watch_folders(watch);
    sl_timer_start(watch->soon, DEBOUNCE);
    return err;
}

void sl_file_watch_close(struct sl_file_watch *watch)
{
    if (!watch)
        return;
    sl_fd_watch_close(watch->fd_watch);
    sl_timer_free(watch->soon);
    sl_timer_free(watch->poll);
    if (watch->fd >= 0)
        close(watch->fd);
    sl_alloc_free(&sl_alloc_libc, watch, sizeof(*watch));
}

/* ---- calls when a file descriptor is readable. */

struct sl_fd_watch {
    struct event *event;
    sl_loop_f *on_data;
    void *ctx;
};

static void on_readable(evutil_socket_t fd, short what, void *arg)
{
    struct sl_fd_watch *watch = arg;

    (void)fd;
    (void)what;
    watch->on_data(watch->ctx);
}

int sl_fd_watch_open(struct sl_loop *loop, int fd, sl_loop_f *on_data,
                     void *ctx, struct sl_fd_watch **ret)
{
    struct sl_fd_watch *watch = sl_alloc_new(&sl_alloc_libc, sizeof(*watch));

    if (!watch)
        return SLUICE_ENOMEM;
    *watch = (struct sl_fd_watch){.on_data = on_data, .ctx = ctx};
    watch->event = event_new(sl_loop_base(loop), fd, EV_READ | EV_PERSIST,
                             on_readable, watch);
    if (!watch->event || event_add(watch->event, NULL)) {
        sl_fd_watch_close(watch);
        return SLUICE_ENOMEM;
    }
    *ret = watch;
    return 0;
}

void sl_fd_watch_close(struct sl_fd_watch *watch)
{
    if (!watch)
        return;
    if (watch->event)
        event_free(watch->event);
    sl_alloc_free(&sl_alloc_libc, watch, sizeof(*watch));
}
