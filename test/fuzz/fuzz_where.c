/* fuzz_where.c -- addresses of stores in Redis, of any bytes.
 *
 *   (1) A refusal says why, in words fit to be printed.
 *   (2) What is accepted has a host, and every port and database in range.
 *   (3) Names are whole: there is no NUL inside.
 */
#include "fuzz.h"

#include "store/redis/redis.h"

void fuzz_where(struct sl_str text)
{
    struct sl_redis_url where;
    struct sl_diag diag = {.sentence = ""};
    struct sl_arena arena;
    int err;

    sl_arena_init(&arena, 1 << 16, &sl_alloc_libc);
    err = sl_redis_url_read(text, &arena, &where, &diag);
    must_agree(err, &diag, text.len); /* (1) */
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
}
