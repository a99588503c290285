/* region.c -- create, open, validate and close regions. See region.h. */
#include "table/region.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "core/limit.h"
#include "table/hold_record.h"
#include "table/set.h"

#define MAGIC UINT64_C(0x0a01656369756c53) /* "Sluice", 1, newline */
#define HUGE  (UINT64_C(2) << 20)

/* Locks are far behind the end of the file: one byte while it is opened, one
 * while it is used; those of actors are in actor.c. */
#define LOCK_OPENING ((INT64_C(1) << 60) - 2)
#define LOCK_USING   ((INT64_C(1) << 60) - 1)

static_assert(sizeof(struct sl_bucket) == 128, "two cache lines");
static_assert(sizeof(struct sl_limit_entry) == 128, "limit entries");
static_assert(offsetof(struct sl_hold_record_body, part) == 64, "hold records");
static_assert(sizeof(struct sl_region_head) <= 4096, "the head is a page");

/* ---- the head ---- */

static uint64_t sum_of_head(const struct sl_region_head *head)
{
    static const struct sl_hash_key key = {0x736c7569, 0x63652031};

    return sl_hash64(&key,
                     (struct sl_str){(const char *)head,
                                     offsetof(struct sl_region_head, sum)});
}

#define BLOCK_OF(parts)                                                        \
    (256 + SL_HOLD_BLOCK * (sizeof(struct sl_hold_record_body) +               \
                            (parts) * sizeof(struct sl_hold_record_part)))

static uint64_t to_rows(uint64_t bytes)
{
    return (bytes + 127) / 128 * 128;
}

/* A sixteenth is for holds, a quarter of it for long ones, at least one block.
 */
static void lay_out_holds(struct sl_region_head *head, uint64_t at)
{
    uint64_t share = head->size / 16;

    head->holds_at = at;
    head->longs = share / 4 / BLOCK_OF(SL_HOLD_MANY);
    if (head->longs == 0)
        head->longs = 1;
    head->shorts =
        (share - head->longs * BLOCK_OF(SL_HOLD_MANY)) / BLOCK_OF(SL_HOLD_FEW);
    head->short_at = at + to_rows((head->shorts + head->longs) * 16);
    head->long_at = head->short_at + head->shorts * BLOCK_OF(SL_HOLD_FEW);
    head->refunds_at = head->long_at + head->longs * BLOCK_OF(SL_HOLD_MANY);
    head->refunds = head->size / 512;
}

/* Buckets get what the rest leaves. The version is not set. */
static void lay_out(struct sl_region_head *head, uint64_t size)
{
    *head = (struct sl_region_head){
        .magic = MAGIC,
        .size = size,
        .limits_at = 4096,
        .limits = SL_LIMITS,
        .actors = SL_ACTORS,
    };
    head->actors_at = head->limits_at + SL_LIMITS * 128;
    lay_out_holds(head, head->actors_at + SL_ACTORS * UINT64_C(4096));
    head->buckets_at = head->refunds_at + to_rows(head->refunds * 8);
    head->buckets = (size - head->buckets_at) / sizeof(struct sl_bucket);
}

uint64_t sl_region_slots(uint64_t size)
{
    struct sl_region_head head;

    lay_out(&head, size);
    return head.buckets * SL_SLOTS;
}

/* The layout of a file that has grown: that of its first size, with a multiple
 * of its buckets. 512 times the number of refund counters is the first size. */
static bool has_grown(const struct sl_region_head *head)
{
    struct sl_region_head want;
    uint64_t first = head->refunds * 512, most;

    if (first < SL_REGION_MIN || first >= head->size)
        return false;
    lay_out(&want, first);
    most = (head->size - want.buckets_at) / sizeof(struct sl_bucket);
    if (head->buckets > most || head->buckets % want.buckets != 0)
        return false;
    want.version = head->version;
    want.size = head->size;
    want.buckets = head->buckets;
    return head->buckets > 0 &&
           memcmp(&want, head, offsetof(struct sl_region_head, key)) == 0;
}

/* The magic comes last: without it the region is not initialised. */
static int make(struct sl_region *r, struct sl_diag *diag)
{
    struct sl_region_head head;
    int err;

    lay_out(&head, r->size);
    head.version =
        sl_fingerprints_best() == SL_BY_AES ? SL_REGION_AES : SL_REGION_SIPHASH;
    err = sl_hash_key_make(&head.key);
    if (err)
        return sl_diag_error(diag, err,
                             "the kernel did not provide random numbers");
    head.sum = sum_of_head(&head);
    memcpy(r->base + 8, (const char *)&head + 8, sizeof(head) - 8);
    atomic_store(sl_region_word(r, 0), head.magic);
    return 0;
}

static bool is_readable(const struct sl_region_head *head)
{
    return head->version == SL_REGION_SIPHASH || head->version == SL_REGION_AES;
}

static int check_head(const struct sl_region *r, struct sl_diag *diag)
{
    const struct sl_region_head *head = sl_region_head(r);
    struct sl_region_head want;

    if (head->magic != MAGIC)
        return sl_diag_error(diag, SLUICE_EDAMAGE,
                             "it is not a state file of Sluice");
    if (!is_readable(head))
        return sl_diag_error(diag, SLUICE_EDAMAGE,
                             "its format is version %" PRIu64
                             "; this Sluice reads versions %d and %d",
                             head->version, SL_REGION_SIPHASH, SL_REGION_AES);
    if (head->size != r->size)
        return sl_diag_error(diag, SLUICE_EDAMAGE,
                             "it was created for %" PRIu64
                             " bytes, not for %" PRIu64,
                             head->size, r->size);
    if (head->sum != sum_of_head(head))
        return sl_diag_error(diag, SLUICE_EDAMAGE, "its head is damaged");
    lay_out(&want, r->size);
    want.version = head->version;
    if (memcmp(&want, head, offsetof(struct sl_region_head, key)) != 0 &&
        !has_grown(head))
        return sl_diag_error(diag, SLUICE_EDAMAGE, "it has another layout");
    return 0;
}

/* The checksum of everything but the seal; never 0. One multiplication per
 * word: a gigabyte takes a fraction of a second. */
static uint64_t sum_of_all(const struct sl_region *r)
{
    const uint64_t *words = (const uint64_t *)(const void *)r->base;
    uint64_t skip = offsetof(struct sl_region_head, sealed) / 8;
    uint64_t sum = 0x9e3779b97f4a7c15;

    for (uint64_t i = 0; i < r->size / 8; i++)
        if (i != skip)
            sum = (sum ^ words[i]) * UINT64_C(0xff51afd7ed558ccd) + (sum >> 29);
    return sum | 1;
}

/* ---- opening ---- */

static int check_records(const struct sl_region *r, struct sl_diag *diag);

static int check_size(uint64_t size, struct sl_diag *diag)
{
    if (size < SL_REGION_MIN || size > SL_REGION_MAX)
        return sl_diag_error(
            diag, SLUICE_ECONF,
            "a table needs between 1 MiB and 1 TiB, not %" PRIu64 " bytes",
            size);
    return 0;
}

int sl_region_open_heap(struct sl_region *ret, uint64_t size,
                        struct sl_diag *diag)
{
    struct sl_region r = {.size = size, .fd = -1, .opener = getpid()};
    uint64_t length = size + HUGE;
    int err = check_size(size, diag);
    char *map;

    if (err)
        return err;
    map = mmap(NULL, length, PROT_READ | PROT_WRITE,
               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (map == MAP_FAILED)
        return sl_diag_error(diag, SLUICE_ENOMEM, "out of memory");
    r.map = map;
    r.map_len = length;
    r.base = map + (HUGE - (uintptr_t)map % HUGE) % HUGE;
    madvise(r.base, size, MADV_HUGEPAGE); /* advice only */
    err = make(&r, diag);
    if (err) {
        munmap(map, length);
        return err;
    }
    *ret = r;
    return 0;
}

int sl_region_open_memory(struct sl_region *ret, void *memory, uint64_t size,
                          struct sl_diag *diag)
{
    struct sl_region r = {
        .base = memory, .size = size, .fd = -1, .opener = getpid()};
    int err = check_size(size, diag);

    if (!err && (uintptr_t)memory % 64 != 0)
        err = sl_diag_error(diag, SLUICE_EINVAL,
                            "the memory is not aligned to 64 bytes");
    if (!err && sl_region_head(&r)->magic == 0)
        err = make(&r, diag);
    else if (!err)
        err = check_head(&r, diag);
    if (!err)
        *ret = r;
    return err;
}

static bool lock_byte(int fd, int64_t at, short type, bool wait)
{
    struct flock lock = {
        .l_type = type, .l_whence = SEEK_SET, .l_start = at, .l_len = 1};

    int got;

    do {
        got = fcntl(fd, wait ? F_OFD_SETLKW : F_OFD_SETLK, &lock);
    } while (got != 0 && errno == EINTR);
    return got == 0;
}

static int system_error(struct sl_diag *diag, const char *path,
                        const char *what)
{
    return sl_diag_error(diag, SLUICE_ESYS, "%s: %s: %s", path, what,
                         strerror(errno));
}

/* Maps the file, and sets its size if it is new. */
static int map_file(struct sl_region *r, const char *path, bool fresh,
                    struct sl_diag *diag)
{
    int err;

    if (fresh) {
        err = posix_fallocate(r->fd, 0, (off_t)r->size);
        if (err) {
            errno = err;
            return system_error(diag, path, "cannot be resized");
        }
    }
    r->map = mmap(NULL, r->size, PROT_READ | PROT_WRITE, MAP_SHARED, r->fd, 0);
    if (r->map == MAP_FAILED) {
        r->map = NULL;
        return system_error(diag, path, "cannot be mapped");
    }
    r->map_len = r->size;
    r->base = r->map;
    madvise(r->base, r->size, MADV_HUGEPAGE); /* advice only */
    return 0;
}

/* On the disk first: the region changes, and a seal that survives a crash of
 * the machine must not match later contents. */
static void unseal(struct sl_region *r)
{
    atomic_store(&sl_region_head(r)->sealed, 0);
    if (r->fd >= 0)
        msync(r->map, 4096, MS_SYNC);
}

/* A file that is as it was left. */
static int reopen(struct sl_region *r, struct sl_diag *diag)
{
    int err = check_head(r, diag);

    if (err)
        return err;
    unseal(r);
    return check_records(r, diag);
}

int sl_region_validate(struct sl_region *r, bool alone, struct sl_diag *diag)
{
    const struct sl_region_head *head = sl_region_head(r);
    int err = check_head(r, diag);
    uint64_t sealed;

    if (err || !alone)
        return err;
    sealed = atomic_load(&head->sealed);
    if (sealed && sealed != sum_of_all(r))
        return sl_diag_error(diag, SLUICE_EDAMAGE,
                             "it was changed after it was closed");
    unseal(r);
    return sl_region_check(r, diag);
}

/* Locks are released here: close() would not if a forked child has the same
 * open file. */
static void let_go(struct sl_region *r)
{
    struct flock all = {
        .l_type = F_UNLCK, .l_whence = SEEK_SET, .l_start = LOCK_OPENING};

    if (r->map)
        munmap(r->map, r->map_len);
    if (r->fd >= 0) {
        if (r->opener == getpid())
            fcntl(r->fd, F_OFD_SETLK, &all);
        close(r->fd);
    }
    r->map = NULL;
    r->fd = -1;
}

/* Opens and locks the file at `path`. Repeats if another process has set it
 * aside before the lock was taken. */
static int open_locked(struct sl_region *r, const char *path, struct stat *st,
                       struct sl_diag *diag)
{
    struct stat there;

    for (;;) {
        r->fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
        if (r->fd < 0)
            return system_error(diag, path, "cannot be opened");
        if (!lock_byte(r->fd, LOCK_OPENING, F_WRLCK, true) || fstat(r->fd, st))
            return system_error(diag, path, "cannot be locked");
        if (stat(path, &there) == 0 && there.st_ino == st->st_ino &&
            there.st_dev == st->st_dev)
            return 0;
        let_go(r);
    }
}

static bool is_blank(const struct sl_region *r)
{
    const uint64_t *words = (const uint64_t *)(const void *)r->base;

    for (uint64_t i = 0; i < r->size / 8; i++)
        if (words[i])
            return false;
    return true;
}

/* ---- files that are as they were left ---- */

/* Names this start of the machine; 0: unknown. */
static uint64_t boot(void)
{
    static const struct sl_hash_key key = {0x736c7569, 0x626f6f74};
    char text[64];
    ssize_t got = -1;
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);

    if (fd >= 0) {
        got = read(fd, text, sizeof(text));
        close(fd);
    }
    return got > 0 ? sl_hash64(&key, (struct sl_str){text, (size_t)got}) | 1
                   : 0;
}

/* Writes the marks of a file that is about to be sealed. */
static void mark_left(struct sl_region_head *head)
{
    struct sl_hash_key random = {0, 0};

    atomic_store(&head->left_boot, sl_hash_key_make(&random) ? 0 : boot());
    atomic_store(&head->left_s, (uint64_t)(sl_clock_wall() / SL_S));
    atomic_store(&head->left_ns, random.k0 % (uint64_t)SL_S);
}

/* After the region is unmapped, which may change the time. */
static void set_left(int fd, const struct sl_region_head *left)
{
    struct timespec times[2] = {
        {.tv_nsec = UTIME_OMIT         },
        { (time_t)sl_peek(&left->left_s), (long)sl_peek(&left->left_ns)},
    };

    (void)!futimens(fd, times); /* if it fails, the file is checked */
}

/* A copy keeps the time of the change (cp -p, rsync), but not that of the
 * inode: it may have been made while the file was in use. */
#define LEFT_S 10 /* from the mark to the end of a close */

static bool is_as_left(const struct sl_region *r, const struct stat *st)
{
    const struct sl_region_head *head = sl_region_head(r);

    return sl_peek(&head->sealed) && sl_peek(&head->left_boot) &&
           sl_peek(&head->left_boot) == boot() &&
           (uint64_t)st->st_ctim.tv_sec - sl_peek(&head->left_s) <= LEFT_S &&
           sl_peek(&head->left_s) == (uint64_t)st->st_mtim.tv_sec &&
           sl_peek(&head->left_ns) == (uint64_t)st->st_mtim.tv_nsec;
}

/* SLUICE_EDAMAGE: the file cannot be used. *alone: no other process uses it. */
static int try_file(struct sl_region *r, const char *path, bool *alone,
                    struct sl_diag *diag)
{
    struct stat st;
    bool fresh;
    int err = open_locked(r, path, &st, diag);

    if (err)
        return err;
    if (!S_ISREG(st.st_mode))
        return sl_diag_error(diag, SLUICE_EINVAL, "%s is not a regular file",
                             path);
    *alone = lock_byte(r->fd, LOCK_USING, F_WRLCK, false);
    fresh = st.st_size == 0 && *alone;
    if (!fresh && (uint64_t)st.st_size != r->size)
        return sl_diag_error(diag, SLUICE_EDAMAGE,
                             "it has %jd bytes, not %" PRIu64,
                             (intmax_t)st.st_size, r->size);
    err = map_file(r, path, fresh, diag);
    if (err)
        return err;
    assert(r->base);
    if (*alone && is_blank(r))
        err = make(r, diag);
    else if (*alone && is_as_left(r, &st))
        err = reopen(r, diag);
    else
        err = sl_region_validate(r, *alone, diag);
    if (!err && !lock_byte(r->fd, LOCK_USING, F_RDLCK, true))
        err = system_error(diag, path, "cannot be locked");
    if (!err)
        lock_byte(r->fd, LOCK_OPENING, F_UNLCK, false);
    return err;
}

/* Renames the file to the first free PATH.damaged-N. */
static int set_aside(struct sl_region *r, const char *path,
                     struct sl_diag *diag)
{
    for (unsigned n = 1; n < 1000; n++) {
        int len = snprintf(r->set_aside, sizeof(r->set_aside), "%s.damaged-%u",
                           path, n);

        if (len < 0 || (size_t)len >= sizeof(r->set_aside))
            break;
        if (link(path, r->set_aside) == 0) {
            unlink(path);
            return 0;
        }
        if (errno != EEXIST)
            return system_error(diag, path, "cannot be moved aside");
    }
    return sl_diag_error(diag, SLUICE_ESYS, "%s: cannot be moved aside", path);
}

int sl_region_open_file(struct sl_region *ret, const char *path, uint64_t size,
                        enum sl_damage damage, struct sl_diag *diag)
{
    struct sl_region r = {.size = size, .fd = -1, .opener = getpid()};
    int err = check_size(size, diag);
    bool alone = false;

    if (err)
        return err;
    err = try_file(&r, path, &alone, diag);
    if (err == SLUICE_EDAMAGE && alone && damage == SL_DAMAGE_SET_ASIDE) {
        err = set_aside(&r, path, diag);
        let_go(&r);
        if (!err)
            err = try_file(&r, path, &alone, diag);
    }
    if (err) {
        let_go(&r);
        return err;
    }
    *ret = r;
    return 0;
}

/* A file is sealed after it was checked: what processes that were killed have
 * left is completed or undone and the keys are counted, because an open of the
 * sealed file does neither. */
void sl_region_close(struct sl_region *r)
{
    if (r->fd >= 0 && r->opener == getpid() &&
        lock_byte(r->fd, LOCK_OPENING, F_WRLCK, true) &&
        lock_byte(r->fd, LOCK_USING, F_WRLCK, false) &&
        sl_region_check(r, NULL) == 0 &&
        msync(r->map, r->map_len, MS_SYNC) == 0) {
        struct sl_region_head left;

        mark_left(sl_region_head(r));
        atomic_store(&sl_region_head(r)->sealed, sum_of_all(r));
        msync(r->map, 4096, MS_SYNC);
        left = *sl_region_head(r);
        munmap(r->map, r->map_len);
        r->map = NULL;
        set_left(r->fd, &left);
    }
    let_go(r);
}

uint64_t sl_region_file_size(const char *path)
{
    struct sl_region_head head;
    struct stat st = {0};
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    bool good;

    if (fd < 0)
        return 0;
    good = fstat(fd, &st) == 0 &&
           pread(fd, &head, sizeof(head), 0) == (ssize_t)sizeof(head) &&
           head.magic == MAGIC && is_readable(&head) &&
           head.sum == sum_of_head(&head) &&
           head.size == (uint64_t)st.st_size && !check_size(head.size, NULL);
    close(fd);
    return good ? head.size : 0;
}

/* ---- growing ----
 *
 * The bucket of a hash h is h * buckets / 2^64. With `factor` times as many
 * buckets, the keys of bucket b go to the buckets b * factor to b * factor +
 * factor - 1, for each of their four choices. Which of them is not known: the
 * slot has only part of the hash. So each of them gets a copy of b. Every key
 * is found where it is looked for. The other copies belong to no key; they are
 * reused like the cells of keys that no longer come, once they owe nothing.
 */

/* The number of times that the buckets of `old` fit into `size` bytes. */
static uint64_t growth(const struct sl_region_head *old, uint64_t size)
{
    if (size <= old->size ||
        (old->refunds * 512 != old->size && !has_grown(old)))
        return 1;
    return (size - old->buckets_at) / sizeof(struct sl_bucket) / old->buckets;
}

static void fill_grown(const struct sl_region *r, const struct sl_region *old,
                       uint64_t factor)
{
    const struct sl_region_head *from = sl_region_head(old);
    struct sl_region_head *head = sl_region_head(r);

    assert(r->base && old->base);
    memcpy(r->base, old->base, from->buckets_at);
    head->size = r->size;
    head->buckets = from->buckets * factor;
    head->sum = sum_of_head(head);
    atomic_store(&head->sealed, 0);
    for (uint64_t i = 0; i < head->buckets; i++)
        memcpy(sl_region_bucket(r, i), sl_region_bucket(old, i / factor),
               sizeof(struct sl_bucket));
    sl_hold_record_grow(r, old, factor);
}

/* The owner and the mode of the old file: other processes open it, too. */
static int copy_owner(int fd, int from)
{
    struct stat st;

    return fstat(from, &st) || fchown(fd, st.st_uid, st.st_gid) ||
           fchmod(fd, st.st_mode & 07777);
}

/* The rename must survive a crash of the machine. */
static int sync_folder(const char *path)
{
    char folder[PATH_MAX];
    const char *slash = strrchr(path, '/');
    int fd, err;

    snprintf(folder, sizeof(folder), "%.*s", (int)(slash - path) + 1, path);
    fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    err = fsync(fd);
    close(fd);
    return err;
}

/* Writes the new file beside the old one and renames it. `path` has no links.
 * What a process that was killed left of an earlier try is removed. */
static int replace_grown(const char *path, const struct sl_region *old,
                         uint64_t size, uint64_t factor, struct sl_diag *diag)
{
    struct sl_region r = {.size = size, .opener = getpid()};
    char name[PATH_MAX + 16];
    int err = 0;

    snprintf(name, sizeof(name), "%s.growing", path);
    unlink(name);
    r.fd = open(name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (r.fd < 0)
        return system_error(diag, name, "cannot be opened");
    if (copy_owner(r.fd, old->fd))
        err = system_error(diag, name,
                           "cannot get the owner and mode of the state file");
    if (!err)
        err = map_file(&r, name, true, diag);
    if (!err) {
        fill_grown(&r, old, factor);
        if (msync(r.map, r.map_len, MS_SYNC) || fsync(r.fd) ||
            rename(name, path) || sync_folder(path))
            err = system_error(diag, name, "cannot be written");
    }
    if (err)
        unlink(name);
    let_go(&r);
    return err;
}

int sl_region_grow(const char *path, uint64_t size, uint64_t *ret,
                   struct sl_diag *diag)
{
    struct sl_region old = {.fd = -1};
    char real[PATH_MAX];
    struct stat st;
    uint64_t factor;
    int err = 0;

    if (!realpath(path, real) || stat(real, &st))
        return system_error(diag, path, "cannot be read");
    err = sl_region_open_file(&old, real, (uint64_t)st.st_size,
                              SL_DAMAGE_REFUSE, diag);
    if (err)
        return err;
    *ret = old.size;
    factor = growth(sl_region_head(&old), size);
    /* A process that opens the file now waits for the lock, then finds the new
     * file at its path. */
    if (factor > 1 && lock_byte(old.fd, LOCK_OPENING, F_WRLCK, true) &&
        lock_byte(old.fd, LOCK_USING, F_WRLCK, false)) {
        err = replace_grown(real, &old, size, factor, diag);
        if (!err)
            *ret = size;
    }
    sl_region_close(&old);
    return err;
}

/* ---- validation ---- */

static bool derived_right(const struct sl_limit_entry *e)
{
    struct sl_limit limit = {
        .kind = (enum sl_kind)sl_peek(&e->kind),
        .count = sl_peek(&e->count),
        .capacity = sl_peek(&e->capacity),
        .period = (sl_ns)sl_peek(&e->period),
    };

    if (limit.kind == SL_PENALTY)
        return sl_peek(&e->grain) >= (uint64_t)SL_S &&
               sl_peek(&e->grain) <= (uint64_t)SL_PENALTY_WITHIN_MAX &&
               sl_peek(&e->token) == 0;
    sl_limit_derive(&limit);
    return limit.grain == sl_peek(&e->grain) &&
           limit.token == sl_peek(&e->token);
}

/* No calendar, or one of at most ten years. */
static bool possible_calendar(uint64_t calendar)
{
    static const uint64_t most[] = {
        [SL_CALENDAR_DAY] = 3653,
        [SL_CALENDAR_WEEK] = 521,
        [SL_CALENDAR_MONTH] = 120,
    };
    uint64_t unit = (calendar & 0xffffffff) - 1;

    return calendar == 0 ||
           (unit < SL_LEN(most) && (calendar >> 32) - 1 < most[unit]);
}

/* Claimed by a process that died before it was filled in. */
static bool only_claimed(const struct sl_limit_entry *e)
{
    return (sl_peek(&e->used) & 3) == SL_CLAIMED;
}

static bool possible_limit(const struct sl_limit_entry *e)
{
    uint64_t kind = sl_peek(&e->kind), calendar = sl_peek(&e->calendar);
    uint64_t period = sl_peek(&e->period), used = sl_peek(&e->used);
    bool timeless = kind == SL_PERMITS || kind == SL_LEVEL || calendar;

    if (used == 0 || only_claimed(e))
        return true;
    return used == 1 && kind < SL_KINDS &&
           sl_peek(&e->count) - 1 < SL_AMOUNT_MAX &&
           sl_peek(&e->capacity) - 1 < SL_AMOUNT_MAX &&
           possible_calendar(calendar) &&
           (timeless || (period >= (uint64_t)SL_PERIOD_MIN &&
                         period <= (uint64_t)SL_PERIOD_MAX)) &&
           (kind > SL_SLIDING || (sl_peek(&e->count) <= SL_COUNT_MAX &&
                                  sl_peek(&e->capacity) <= SL_COUNT_MAX)) &&
           derived_right(e);
}

enum place { NOWHERE, HEAD, TAG, CELL, SECOND, RECORD };

static bool is_record(const struct sl_region *r, uint64_t at)
{
    uint64_t records = sl_hold_record_blocks(r) * SL_HOLD_BLOCK;
    uint64_t low = 0, high = records;

    while (low < high) {
        uint64_t middle = low + (high - low) / 2;

        if (sl_hold_record_at(r, middle) < at)
            low = middle + 1;
        else
            high = middle;
    }
    return low < records && sl_hold_record_at(r, low) == at;
}

static enum place place_of(const struct sl_region *r, uint64_t at)
{
    const struct sl_region_head *head = sl_region_head(r);
    uint64_t in;

    if (is_record(r, at))
        return RECORD;
    if (at < head->buckets_at || at % 8 != 0 ||
        (at - head->buckets_at) / sizeof(struct sl_bucket) >= head->buckets)
        return NOWHERE;
    in = (at - head->buckets_at) % sizeof(struct sl_bucket) / 8;
    for (unsigned i = 0; i < SL_SLOTS; i++) {
        if (in == sl_tag_word(i))
            return TAG;
        if (in == sl_cell_word(i))
            return CELL;
    }
    return in == 0 ? HEAD : SECOND;
}

static bool possible_tag(const struct sl_region *r, uint64_t tag)
{
    uint64_t id = tag >> SL_TAG_BITS;

    return tag == 0 ||
           (id < SL_LIMITS && sl_peek(&sl_region_limit(r, id)->used) == 1);
}

/* Every word that the actor would change is of the right kind, and no new value
 * is a lock word. */
static bool possible_actor(const struct sl_region *r, const struct sl_actor *a)
{
    uint64_t locks = sl_peek(&a->locks), writes = sl_peek(&a->writes);

    if (locks > SL_INTENT_LOCKS || writes > SL_WRITES ||
        sl_peek(&a->status) >> 2 >= SL_NUMBER_END)
        return false;
    for (uint64_t i = 0; i < locks; i++) {
        enum place place = place_of(r, sl_peek(&a->lock[i].at));

        if ((place != HEAD && place != CELL && place != RECORD) ||
            sl_is_locked(sl_peek(&a->lock[i].from[0])) ||
            sl_is_locked(sl_peek(&a->lock[i].to[0])))
            return false;
    }
    for (uint64_t i = 0; i < writes; i++) {
        const struct sl_write *w = &a->write[i];

        if (place_of(r, sl_peek(&w->at)) != TAG ||
            place_of(r, sl_peek(&w->under)) != CELL ||
            !possible_tag(r, sl_peek(&w->to)))
            return false;
    }
    return true;
}

/* Completes or undoes what was left. */
static void recover(const struct sl_region *r)
{
    for (uint64_t i = 0; i < SL_LIMITS; i++) {
        struct sl_limit_entry *e = sl_region_limit(r, i);

        if (only_claimed(e))
            atomic_store(&e->used, 0);
        /* A limit that is no longer registered keeps only its cells. */
        atomic_store(&e->reserve, 0);
        atomic_store(&e->kept, 0);
        atomic_store(&e->stale, 1);
    }
    for (uint64_t i = 0; i < SL_ACTORS; i++) {
        struct sl_intent intent;

        sl_intent_init(&intent, r, i);
        atomic_store(&sl_region_actor(r, i)->owner, 0);
    }
    atomic_store(&sl_region_head(r)->has_dead, 0);
}

/* Counts its slots in use to keys[], by limit. */
static bool possible_bucket(const struct sl_region *r, uint64_t number,
                            uint64_t *keys)
{
    const struct sl_bucket *b = sl_region_bucket(r, number);

    if (sl_is_locked(sl_peek(&b->word[0])))
        return false;
    for (unsigned i = 0; i < SL_SLOTS; i++) {
        uint64_t tag = sl_peek(&b->word[sl_tag_word(i)]);

        if (sl_is_locked(sl_peek(&b->word[sl_cell_word(i)])) ||
            !possible_tag(r, tag))
            return false;
        keys[tag >> SL_TAG_BITS] += tag != 0;
    }
    return true;
}

/* The next expiries are counted again. */
static bool possible_holds(const struct sl_region *r)
{
    uint64_t blocks = sl_hold_record_blocks(r);

    for (uint64_t i = 0; i < blocks * SL_HOLD_BLOCK; i++)
        if (!sl_hold_record_check(r, i))
            return false;
    for (uint64_t b = 0; b < blocks; b++)
        atomic_store(sl_hold_expiry_of(r, b), 0);
    atomic_store(sl_region_head(r)->due, 0);
    return true;
}

/* Limits and actors. */
static int check_records(const struct sl_region *r, struct sl_diag *diag)
{
    for (uint64_t i = 0; i < SL_LIMITS; i++)
        if (!possible_limit(sl_region_limit(r, i)))
            return sl_diag_error(diag, SLUICE_EDAMAGE,
                                 "limit %" PRIu64 " in it is damaged", i);
    for (uint64_t i = 0; i < SL_ACTORS; i++)
        if (!possible_actor(r, sl_region_actor(r, i)))
            return sl_diag_error(
                diag, SLUICE_EDAMAGE,
                "the record of actor %" PRIu64 " in it is damaged", i);
    recover(r);
    return 0;
}

int sl_region_check(const struct sl_region *r, struct sl_diag *diag)
{
    const struct sl_region_head *head = sl_region_head(r);
    uint64_t keys[SL_LIMITS] = {0};
    int err = check_records(r, diag);

    if (err)
        return err;
    for (uint64_t i = 0; i < head->buckets; i++)
        if (!possible_bucket(r, i, keys))
            return sl_diag_error(diag, SLUICE_EDAMAGE,
                                 "bucket %" PRIu64 " in it is damaged", i);
    if (!possible_holds(r))
        return sl_diag_error(diag, SLUICE_EDAMAGE, "a hold in it is damaged");
    sl_account_all(r, keys);
    return 0;
}
