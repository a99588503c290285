/* fuzz_where.c -- addresses of stores in Redis, of any bytes.
 *
 *   (1) A refusal says why, in words fit to be printed.
 *   (2) What is accepted has a host, and every port and database in range.
 *   (3) Names are whole: there is no NUL inside.
 */
#include "fuzz.h"

#include "store/redis/redis.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct sl_redis_url where;
    struct sl_diag diag = {.sentence = ""};
    struct sl_arena arena;
    char *copy = size < 2048 ? malloc(size + 1) : NULL;
    int err;

    if (!copy)
        return 0;
    memcpy(copy, data, size); /* its end is where the bytes end */
    copy = realloc(copy, size > 0 ? size : 1);
    sl_arena_init(&arena, 1 << 16, &sl_alloc_libc);
    err = sl_redis_url_read((struct sl_str){copy, size}, &arena, &where, &diag);
    must_agree(err, &diag, size); /* (1) */
    if (!err) {
        MUST(where.host_count >= 1 && where.host_count <= SL_REDIS_HOSTS);
        for (unsigned i = 0; i < where.host_count; i++) {
            MUST(where.hosts[i].port <= 65535); /* (2) */
            MUST(strlen(where.hosts[i].name) >= 1);
            MUST(strlen(where.hosts[i].name) <= 255);
        }
        MUST(where.database <= 1000000);
        MUST(where.kind != SL_REDIS_SENTINEL || where.master[0]);
    }
    sl_arena_done(&arena);
    free(copy);
    return 0;
}
