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

/* Detects a changed file. */
struct print {
    bool there;
    dev_t device;
    ino_t inode;
    off_t size;
    struct timespec changed;
    uint64_t contents; /* of a folder */
};

struct file {
    char path[PATH_MAX];
    struct print seen;
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

static bool ends(const char *name, const char *with)
{
    size_t len = strlen(name), tail = strlen(with);

    return len >= tail && strcmp(name + len - tail, with) == 0;
}

bool sl_file_watch_is_noise(const char *name, const char *own)
{
    static const char *const tails[] = {"~",    ".swp", ".swo",  ".swx",
                                        ".tmp", ".bak", ".part", "#"};

    if (strcmp(name, own) == 0 || strcmp(name, "..data") == 0)
        return false;
    for (size_t i = 0; i < SL_LEN(tails); i++)
        if (ends(name, tails[i]))
            return true;
    return name[0] == '.' || strcmp(name, "4913") == 0; /* probe of vim */
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash ? slash + 1 : path;
}

static bool is_reason(const struct sl_file_watch *watch,
                      const struct inotify_event *event)
{
    if (event->len == 0 || event->mask & IN_Q_OVERFLOW)
        return true;
    for (unsigned i = 0; i < watch->count; i++)
        if (!sl_file_watch_is_noise(event->name,
                                    base_name(watch->files[i].path)))
            return true;
    return false;
}

/* ---- checking ---- */

static struct print look_at(const char *path);

/* The hash of a folder: names, sizes and times of its files, in any order. */
static void add_contents(const char *path, struct print *print)
{
    static const struct sl_hash_key key = {
        1, 2}; /* not a secret: no attack depends on it */
    char whole[PATH_MAX];
    DIR *folder = opendir(path);
    struct dirent *entry;

    while (folder && (entry = readdir(folder)) != NULL) {
        uint64_t parts[5];
        struct print one;

        if (entry->d_name[0] == '.' ||
            sl_file_watch_is_noise(entry->d_name, "") ||
            (size_t)snprintf(whole, sizeof(whole), "%s/%s", path,
                             entry->d_name) >= sizeof(whole))
            continue;
        one = look_at(whole);
        parts[0] = sl_hash64(&key, sl_str_c(entry->d_name));
        parts[1] = (uint64_t)one.size;
        parts[2] = (uint64_t)one.inode;
        parts[3] = (uint64_t)one.changed.tv_sec;
        parts[4] = (uint64_t)one.changed.tv_nsec;
        print->contents += sl_hash64(
            &key, (struct sl_str){(const char *)parts, sizeof(parts)});
    }
    if (folder)
        closedir(folder);
}

static struct print look_at(const char *path)
{
    struct print print = {.there = false};
    struct stat st;

    if (stat(path, &st))
        return print;
    print.there = true;
    print.device = st.st_dev;
    print.inode = st.st_ino;
    print.size = st.st_size;
    print.changed = st.st_mtim;
    if (S_ISDIR(st.st_mode))
        add_contents(path, &print);
    return print;
}

static bool same(const struct print *a, const struct print *b)
{
    return a->device == b->device && a->inode == b->inode &&
           a->size == b->size && a->contents == b->contents &&
           a->changed.tv_sec == b->changed.tv_sec &&
           a->changed.tv_nsec == b->changed.tv_nsec;
}

static void watch_folder(const struct sl_file_watch *watch, const char *path)
{
    char folder[PATH_MAX];
    const char *slash = strrchr(path, '/');

    if (!slash)
        snprintf(folder, sizeof(folder), ".");
    else
        snprintf(folder, sizeof(folder), "%.*s",
                 slash == path ? 1 : (int)(slash - path), path);
    inotify_add_watch(watch->fd, folder,
                      EVENTS); /* POLL finds changes otherwise */
    inotify_add_watch(watch->fd, path, EVENTS); /* if that is a folder */
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
static void look(struct sl_file_watch *watch)
{
    unsigned changed = 0;

    watch->since = 0;
    watch_folders(watch);
    for (unsigned i = 0; i < watch->count; i++) {
        struct print now = look_at(watch->files[i].path);

        if (now.there && !same(&now, &watch->files[i].seen)) {
            watch->files[i].seen = now;
            changed |= 1u << i;
        }
    }
    if (changed)
        watch->on_change(watch->ctx, changed);
}

static void on_soon(void *ctx)
{
    look(ctx);
}

static void on_poll(void *ctx)
{
    struct sl_file_watch *watch = ctx;

    sl_timer_start(watch->poll, POLL);
    if (watch->since == 0)
        look(watch);
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
    int err;

    watch->fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    if (watch->fd < 0)
        return SLUICE_ESYS;
    err = sl_fd_watch_open(watch->loop, watch->fd, on_event, watch,
                           &watch->fd_watch);
    if (!err)
        err = sl_timer_new(watch->loop, on_soon, watch, &watch->soon);
    if (!err)
        err = sl_timer_new(watch->loop, on_poll, watch, &watch->poll);
    if (!err)
        sl_timer_start(watch->poll, POLL);
    return err;
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
        watch->files[i].seen = look_at(watch->files[i].path);
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
    sl_loop_f *on_sound;
    void *ctx;
};

static void on_readable(evutil_socket_t fd, short what, void *arg)
{
    struct sl_fd_watch *ear = arg;

    (void)fd;
    (void)what;
    ear->on_sound(ear->ctx);
}

int sl_fd_watch_open(struct sl_loop *loop, int fd, sl_loop_f *on_sound,
                     void *ctx, struct sl_fd_watch **ret)
{
    struct sl_fd_watch *ear = sl_alloc_new(&sl_alloc_libc, sizeof(*ear));

    if (!ear)
        return SLUICE_ENOMEM;
    *ear = (struct sl_fd_watch){.on_sound = on_sound, .ctx = ctx};
    ear->event = event_new(sl_loop_base(loop), fd, EV_READ | EV_PERSIST,
                           on_readable, ear);
    if (!ear->event || event_add(ear->event, NULL)) {
        sl_fd_watch_close(ear);
        return SLUICE_ENOMEM;
    }
    *ret = ear;
    return 0;
}

void sl_fd_watch_close(struct sl_fd_watch *ear)
{
    if (!ear)
        return;
    if (ear->event)
        event_free(ear->event);
    sl_alloc_free(&sl_alloc_libc, ear, sizeof(*ear));
}
