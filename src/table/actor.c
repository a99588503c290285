/* actor.c -- actors, borrowed by threads; see intent.h.
 *
 * The owner of a record is 0 or the name of a process:
 *
 *   bit 63 set    a file: bits 16..62 are a running number, so that no name
 *                 repeats; bits 0..15 are the byte that the process has locked
 *   bit 63 clear  memory: bits 32..62 are the process id; bits 0..31 are bits
 *                 of its start time
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "table/intent.h"

/* Locks are far behind the end of the file: one byte for each process. */
#define LOCK_BASE  (INT64_C(1) << 60)
#define LOCK_BYTES UINT64_C(0x10000)

#define HAS_BYTE (UINT64_C(1) << 63)

/* The start time of a process in kernel ticks; 0: unknown. The name in the
 * second field may contain anything, so fields count from its last ')'. */
static uint64_t start_time(pid_t pid)
{
    char path[64], text[1024], *at;
    ssize_t got = -1;
    int fd;

    snprintf(path, sizeof(path), "/proc/%ld/stat", (long)pid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
        got = read(fd, text, sizeof(text) - 1);
        close(fd);
    }
    if (got <= 0)
        return 0;
    text[got] = '\0';
    at = strrchr(text, ')');
    for (int field = 2; at && field < 22; field++)
        at = strchr(at + 1, ' ');
    return at ? strtoull(at + 1, NULL, 10) : 0;
}

static uint64_t name_by_start(pid_t pid)
{
    return (uint64_t)pid << 32 | (start_time(pid) & 0xffffffff);
}

static uint64_t byte_of(uint64_t name)
{
    return name % LOCK_BYTES;
}

/* F_OFD_SETLK: locks a byte. F_OFD_GETLK: has another process locked it? */
static bool lock_byte(int fd, uint64_t byte, int command)
{
    struct flock lock = {
        .l_type = F_WRLCK,
        .l_whence = SEEK_SET,
        .l_start = LOCK_BASE + (off_t)byte,
        .l_len = 1,
    };
    int err = fcntl(fd, command, &lock);

    return command == F_OFD_GETLK ? err || lock.l_type != F_UNLCK : !err;
}

static uint64_t find_name(const struct sl_region *r)
{
    uint64_t number = atomic_fetch_add(&sl_region_head(r)->named, 1);

    for (uint64_t byte = 0; r->fd >= 0 && byte < LOCK_BYTES; byte++)
        if (lock_byte(r->fd, byte, F_OFD_SETLK))
            return HAS_BYTE | (number * LOCK_BYTES & ~HAS_BYTE) | byte;
    return name_by_start(getpid());
}

/* Without /proc, any process with that id counts. */
static bool is_alive_by_start(uint64_t name)
{
    pid_t pid = (pid_t)(name >> 32);
    uint64_t start = start_time(pid);

    if (start && (name & 0xffffffff))
        return (start & 0xffffffff) == (name & 0xffffffff);
    return kill(pid, 0) == 0 || errno == EPERM;
}

/* An earlier owner of our own byte has released it. */
static bool is_alive(const struct sl_actors *actors, uint64_t name)
{
    const struct sl_region *r = actors->region;

    if (name == actors->self)
        return true;
    if (!(name & HAS_BYTE))
        return is_alive_by_start(name);
    if ((actors->self & HAS_BYTE) && byte_of(name) == byte_of(actors->self))
        return false;
    return r->fd >= 0 && lock_byte(r->fd, byte_of(name), F_OFD_GETLK);
}

void sl_actors_init(struct sl_actors *actors, const struct sl_region *region)
{
    memset(actors, 0, sizeof(*actors));
    actors->region = region;
    actors->self = find_name(region);
    for (uint64_t i = 0; i < SL_ACTORS; i++)
        actors->slot[i].intent = (struct sl_intent){
            .region = region, .actor = sl_region_actor(region, i), .index = i};
    sl_actors_reap(actors);
}

static bool take_record(const struct sl_actors *actors, struct sl_actor *a,
                        uint64_t from)
{
    return atomic_compare_exchange_strong(&a->owner, &from, actors->self);
}

static void give_record(struct sl_actor *a)
{
    atomic_store_explicit(&a->owner, 0, memory_order_release);
}

#define YIELDS 64 /* before records of dead processes are searched again */

_Thread_local uint64_t sl_actor_last = SL_ACTORS;

struct sl_intent *sl_actor_borrow_any(struct sl_actors *actors)
{
    uint64_t last = sl_actor_last;

    if (last == SL_ACTORS)
        last = ((uintptr_t)&sl_actor_last / 64 + actors->self) % SL_ACTORS;
    for (unsigned round = 0;; round++) {
        for (uint64_t i = 0; i < SL_ACTORS; i++) {
            uint64_t at = (last + i) % SL_ACTORS;
            struct sl_intent *intent = sl_actor_try(actors, at);

            if (intent) {
                sl_actor_last = at;
                return intent;
            }
        }
        if (round % YIELDS == 0)
            sl_actors_reap(actors);
        sched_yield();
    }
}

void sl_actors_reap(struct sl_actors *actors)
{
    for (uint64_t i = 0; i < SL_ACTORS; i++) {
        struct sl_actor *a = sl_region_actor(actors->region, i);
        uint64_t owner = atomic_load(&a->owner);
        struct sl_intent intent;

        if (owner == 0 || is_alive(actors, owner) ||
            !take_record(actors, a, owner))
            continue;
        sl_intent_init(&intent, actors->region, i);
        give_record(a);
    }
}
