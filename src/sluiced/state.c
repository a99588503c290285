/* state.c -- the table that limits are kept in. */
#include "sluiced/state.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define PATH_MOST 4096

/* Who holds the lock, as he wrote it there; 0 if he did not. */
static long holder(int fd)
{
    char text[32] = "";
    ssize_t len = pread(fd, text, sizeof(text) - 1, 0);

    return len > 0 ? strtol(text, NULL, 10) : 0;
}

static int refuse_held(const char *path, int fd, struct sl_diag *diag)
{
    long pid = holder(fd);
    char who[32] = "";

    if (pid > 0)
        snprintf(who, sizeof(who), " (process %ld)", pid);
    return sl_refuse(diag, SL_EXIT_STORE,
                     "another sluiced%s uses the state file %s; stop it, or "
                     "choose another file with --store memory:PATH",
                     who, path);
}

static int refuse_path(const char *path, struct sl_diag *diag)
{
    return sl_refuse(
        diag, SL_EXIT_STORE,
        "cannot write the state file %s: %s; choose another file with --store "
        "memory:PATH, or keep state in memory only with --store memory:",
        path, strerror(errno));
}

static void write_pid(int fd)
{
    char text[32];
    int len = snprintf(text, sizeof(text), "%ld\n", (long)getpid());

    if (ftruncate(fd, 0) || pwrite(fd, text, (size_t)len, 0) != len)
        errno = 0; /* only who asks for the name of the holder misses it */
}

/* The lock stands beside the file itself: a link to it is no other state. */
static int lock_state(struct sl_state *state, const char *path,
                      struct sl_diag *diag)
{
    char name[PATH_MOST], real[PATH_MAX];
    const char *file = realpath(path, real) ? real : path;

    if (snprintf(name, sizeof(name), "%s.lock", file) >= PATH_MOST)
        return sl_refuse(diag, SL_EXIT_STORE, "the path %.64s... is too long",
                         path);
    state->lock = open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (state->lock < 0)
        return refuse_path(path, diag);
    if (flock(state->lock, LOCK_EX | LOCK_NB))
        return errno == EWOULDBLOCK ? refuse_held(path, state->lock, diag)
                                    : refuse_path(path, diag);
    write_pid(state->lock);
    return 0;
}

static int refuse_region(const struct sl_settings *settings,
                         const struct sl_diag *why, struct sl_diag *diag)
{
    if (settings->state)
        return sl_refuse(
            diag, SL_EXIT_STORE,
            "cannot use the state file: %s; choose another file with --store "
            "memory:PATH, or keep state in memory only with --store memory:",
            why->sentence);
    return sl_refuse(diag, SL_EXIT_STORE,
                     "cannot allocate the table: %s; reduce --memory",
                     why->sentence);
}

/* The size of a state that is there already, or 0. One that was made under
 * another `memory` is used as it is: to begin an empty one because somebody
 * asked for more room would hand everybody a fresh allowance. */
static uint64_t size_there(const char *path)
{
    struct sl_region_head head;
    struct stat st = {0};
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    bool good;

    if (fd < 0)
        return 0;
    good = fstat(fd, &st) == 0 &&
           pread(fd, &head, sizeof(head), 0) == (ssize_t)sizeof(head) &&
           head.version == SL_REGION_VERSION &&
           head.size == (uint64_t)st.st_size;
    close(fd);
    return good ? head.size : 0;
}

int sl_state_open(struct sl_state *state, const struct sl_settings *settings,
                  sl_ns (*now)(void *ctx), void *now_ctx, struct sl_diag *diag)
{
    struct sl_memory_options options = {
        .path = settings->state,
        .size = settings->memory,
        .now = now,
        .now_ctx = now_ctx,
    };
    struct sl_diag why = {0};
    int status;

    *state = (struct sl_state){.lock = -1};
    if (settings->state) {
        status = lock_state(state, settings->state, diag);
        if (status)
            return status;
    }
    state->wanted = options.size;
    if (settings->state && size_there(settings->state) > 0)
        options.size = size_there(settings->state);
    state->size = options.size;
    if (sl_memory_open(&options, &state->store, &why))
        return refuse_region(settings, &why, diag);
    state->table = sl_memory_table(state->store);
    return 0;
}

void sl_state_close(struct sl_state *state)
{
    sl_store_close(state->store);
    state->store = NULL;
    state->table = NULL;
    if (state->lock >= 0)
        close(state->lock);
    state->lock = -1;
}
