/* replay_file.c -- the completed entries of the replay caches in a file.
 *
 * A restart of the daemon, or `kill -9`, loses no answer that was returned. The
 * file is mapped into memory: an entry is written by copying it, without a
 * system call. It is a ring: the oldest entries are overwritten.
 *
 *     | header | record | record | record ... | older records ... |
 *                                             ^ the next one
 *
 * A record begins at a multiple of 8 bytes. Its checksum covers all of it but
 * the first two words, so a record that was half written, or half overwritten,
 * is not read. The records are found by their mark and checksum; the one with
 * the highest number is the last.
 *
 * The file is for one process, which holds the lock of the state beside it. A
 * file of another size or version is not read, and starts empty.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/engine_int.h"

#define MARK UINT64_C(0x31746165706552ff) /* first word of a record */

static const char magic[32] = "Sluice repeats, version 1\n";

struct header {
    char magic[32];
    uint64_t size;
};

struct record {
    uint64_t mark, checksum;
    uint64_t number; /* grows with each record */
    struct sl_hash128 key, fingerprint;
    int64_t until;
    uint32_t repeats, which, len, unused;
    char memo[];
};

struct sl_replay_file {
    pthread_mutex_t lock;
    char *bytes;
    size_t size, at; /* where the next record begins */
    uint64_t number; /* of the last one */
    const struct sl_alloc *alloc;
};

static size_t size_of(size_t len)
{
    return (sizeof(struct record) + len + 7) / 8 * 8;
}

static uint64_t checksum(const struct record *r)
{
    static const struct sl_hash_key key = {3, 4};
    size_t from = offsetof(struct record, number);

    return sl_hash64(&key, (struct sl_str){(const char *)r + from,
                                           sizeof(*r) - from + r->len});
}

/* The record at `at`, or NULL. */
static const struct record *record_at(const struct sl_replay_file *f, size_t at)
{
    const struct record *r = (const struct record *)(f->bytes + at);

    if (f->size - at < sizeof(*r) || r->mark != MARK ||
        r->len > SL_REPEAT_MEMO || f->size - at < size_of(r->len) ||
        r->checksum != checksum(r))
        return NULL;
    return r;
}

void sl_replay_file_add(struct sl_replay_file *f, unsigned which,
                        const struct sl_repeat_claim *claim, const void *memo,
                        size_t len)
{
    struct record *r;

    pthread_mutex_lock(&f->lock);
    if (f->size - f->at < size_of(len))
        f->at = sizeof(struct header);
    r = (struct record *)(f->bytes + f->at);
    r->mark = 0;
    r->number = ++f->number;
    r->key = claim->key;
    r->fingerprint = claim->fingerprint;
    r->until = claim->until;
    r->repeats = claim->repeats;
    r->which = which;
    r->len = (uint32_t)len;
    r->unused = 0;
    if (len > 0)
        memcpy(r->memo, memo, len);
    r->checksum = checksum(r);
    r->mark = MARK;
    f->at += size_of(len);
    pthread_mutex_unlock(&f->lock);
}

/* ---- open ---- */

static void each_between(const struct sl_replay_file *f, size_t from, size_t to,
                         sl_replay_file_f *each, void *ctx)
{
    while (from < to) {
        const struct record *r = record_at(f, from);

        if (r) {
            struct sl_repeat_claim claim = {.key = r->key,
                                            .fingerprint = r->fingerprint,
                                            .until = r->until,
                                            .repeats = r->repeats};

            each(ctx, r->which, &claim, r->memo, r->len);
        }
        from += r ? size_of(r->len) : 8;
    }
}

void sl_replay_file_each(const struct sl_replay_file *f, sl_replay_file_f *each,
                         void *ctx)
{
    each_between(f, f->at, f->size, each, ctx);
    each_between(f, sizeof(struct header), f->at, each, ctx);
}

/* Finds the last record. */
static void find_end(struct sl_replay_file *f)
{
    size_t at = sizeof(struct header);

    f->at = at;
    while (at < f->size) {
        const struct record *r = record_at(f, at);

        at += r ? size_of(r->len) : 8;
        if (r && r->number > f->number) {
            f->number = r->number;
            f->at = at;
        }
    }
}

/* Gives the file its size, with room on the disk: a write to memory cannot
 * fail.
 */
static int resize(int fd, size_t size)
{
    struct stat st;

    if (fstat(fd, &st) != 0)
        return errno;
    if ((size_t)st.st_size == size)
        return 0;
    return ftruncate(fd, 0) != 0 ? errno : posix_fallocate(fd, 0, (off_t)size);
}

static int refuse(const char *path, int code, struct sl_diag *diag)
{
    bool is_full = code == ENOSPC || code == EDQUOT || code == EFBIG;

    return sl_diag_error(
        diag, SLUICE_ESYS, "cannot keep saved answers in %s: %s%s", path,
        strerror(code),
        is_full ? "; free some space, or set a smaller `idempotency`" : "");
}

/* Is there something else in the file? Nothing of it is changed then. */
static bool is_foreign(int fd)
{
    static const char zeros[sizeof(magic)];
    char had[sizeof(magic)] = {0};

    return pread(fd, had, sizeof(had), 0) > 0 &&
           memcmp(had, magic, sizeof(magic)) != 0 &&
           memcmp(had, zeros, sizeof(zeros)) != 0;
}

static int map(struct sl_replay_file *f, int fd, const char *path,
               struct sl_diag *diag)
{
    struct header *header;
    void *bytes;
    int code;

    if (is_foreign(fd))
        return sl_diag_error(diag, SLUICE_ESYS,
                             "%s is not a file of saved answers; move it away",
                             path);
    code = resize(fd, f->size);
    bytes =
        code ? MAP_FAILED
             : mmap(NULL, f->size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (bytes == MAP_FAILED)
        return refuse(path, code ? code : errno, diag);
    f->bytes = bytes;
    header = (struct header *)f->bytes;
    if (memcmp(header->magic, magic, sizeof(magic)) != 0 ||
        header->size != f->size) {
        memset(f->bytes, 0, f->size);
        memcpy(header->magic, magic, sizeof(magic));
        header->size = f->size;
    }
    find_end(f);
    return 0;
}

int sl_replay_file_open(const char *path, size_t size,
                        const struct sl_alloc *alloc,
                        struct sl_replay_file **ret, struct sl_diag *diag)
{
    struct sl_replay_file *f = sl_alloc_new(alloc, sizeof(*f));
    int fd, err;

    if (!f)
        return sl_diag_error(diag, SLUICE_ENOMEM, "out of memory");
    memset(f, 0, sizeof(*f));
    f->alloc = alloc;
    f->size = size / 8 * 8;
    pthread_mutex_init(&f->lock, NULL);
    fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    err = fd < 0 ? refuse(path, errno, diag) : map(f, fd, path, diag);
    if (fd >= 0)
        close(fd);
    if (err) {
        sl_replay_file_close(f);
        return err;
    }
    *ret = f;
    return 0;
}

void sl_replay_file_close(struct sl_replay_file *f)
{
    if (!f)
        return;
    if (f->bytes)
        munmap(f->bytes, f->size);
    pthread_mutex_destroy(&f->lock);
    sl_alloc_free(f->alloc, f, sizeof(*f));
}
