/* carried.c -- visitors sign in while others of the same name still come.
 *
 * Some threads take from the visitor's key, some from the user's, against
 * which the visitor's counts. Each take of the user's tells what was left of
 * both; the one that took the kth unit saw `limit - k - left` of the visitor's
 * used. Since nothing is given back, that never gets less from one k to the
 * next: a take that had seen the two keys at different instants would show.
 */
#include "hammer.h"

#define VISITORS 400
#define USERS    1000
#define ROUNDS   (60 / SLOWER)

struct game {
    struct sl_table table;
    struct sl_limit_binding limit;
    struct sl_limit user;
    pthread_barrier_t begin;
    _Atomic uint64_t visited;
    _Atomic int seen[USERS + 1]; /* by what was left: was it answered? */
    _Atomic uint64_t torn;
};

static void visit(struct game *g)
{
    for (int i = 0; i < 2 * VISITORS; i++) {
        struct sl_part part = part_of(&g->limit, "visitor", 1);

        if (sl_table_decide(&g->table, &part, 1, NOW, true) == SL_SET_ALLOW)
            g->visited++;
    }
}

static void use(struct game *g)
{
    for (int i = 0; i < USERS; i++) {
        struct sl_part parts[2] = {part_of(&g->limit, "visitor", 0),
                                   part_of(&g->limit, "user", 1)};

        parts[0].carried = true;
        parts[0].limit = parts[1].limit = &g->user;
        if (sl_table_decide(&g->table, parts, 2, NOW, true) != SL_SET_ALLOW)
            continue;
        /* Two that were left with the same have been judged apart. */
        if (atomic_fetch_add(&g->seen[parts[1].answer.remaining], 1) > 0)
            g->torn++;
    }
}

static void *visitor(void *arg)
{
    struct game *g = arg;

    pthread_barrier_wait(&g->begin);
    visit(g);
    return NULL;
}

static void *user(void *arg)
{
    struct game *g = arg;

    pthread_barrier_wait(&g->begin);
    use(g);
    return NULL;
}

/* In the order in which they were taken: less and less is left. */
static void judge(struct game *g)
{
    uint64_t used = 0, before = 0;

    for (int left = USERS - 1; left >= 0; left--) {
        uint64_t carried;

        if (!g->seen[left])
            continue;
        used++;
        carried = USERS - used - (uint64_t)left;
        CHECK(carried >= before);
        CHECK(carried <= g->visited);
        before = carried;
    }
    CHECK_EQ(g->torn, 0);
    CHECK(used > 0);
    CHECK(used + before <= USERS);
}

static void play(struct game *g)
{
    pthread_t threads[4];
    void *(*const roles[4])(void *) = {visitor, user, visitor, user};

    memset(g, 0, sizeof(*g));
    open_heap(&g->table, MIB, SL_FULL_ALLOW);
    g->limit = limit_of("session", SL_FIXED, "400/hour", 0);
    g->user = rate_of(SL_FIXED, "1000/hour");
    know(&g->table, &g->limit);
    pthread_barrier_init(&g->begin, NULL, 4);
    for (int i = 0; i < 4; i++)
        if (pthread_create(&threads[i], NULL, roles[i], g))
            abort();
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    CHECK_EQ(g->visited, VISITORS);
    judge(g);
    pthread_barrier_destroy(&g->begin);
    sl_table_done(&g->table);
}

int main(void)
{
    static struct game game;

    CASE("what is carried is seen at one instant");
    for (int i = 0; i < ROUNDS; i++)
        play(&game);
    return CHECK_DONE();
}
