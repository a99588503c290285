/* clock.c -- a wrong clock: preloaded into a daemon, it adds the seconds in the
 * file CHAOS_CLOCK, eight bytes, to the wall clock.
 *
 * libfaketime is not used here. It reads its file again for each reading, and
 * if several threads do so at once, one of them gets the right time now and
 * then: a clock that jumps by days for one reading, which is no fault that is
 * meant. */
#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static _Atomic int64_t none;
static _Atomic int64_t *ahead = &none;

__attribute__((constructor)) static void begin(void)
{
    const char *path = getenv("CHAOS_CLOCK");
    int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    void *at;

    if (fd < 0)
        abort();
    at = mmap(NULL, sizeof(*ahead), PROT_READ, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED)
        abort();
    ahead = at;
    close(fd);
}

/* style: this is the clock of the daemon */
int clock_gettime(clockid_t id, struct timespec *ret)
{
    int err = (int)syscall(SYS_clock_gettime, id, ret);

    if (!err && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE))
        ret->tv_sec += (time_t)atomic_load(ahead);
    return err;
}
