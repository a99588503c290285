/* large.c -- many who send much and never come to an end. */
#include "guest.h"

#define MANY 80U
#define MUCH ((size_t)900000) /* in a buffer of 1 MiB */
#define MOST ((size_t)64 << 20)

static struct guest many[MANY];

static void enter(struct guest *g, struct rig *rig)
{
    struct sl_conn_options options = guest_options(g);

    *g = (struct guest){.leave = true};
    options.in_most = (size_t)4 << 20;
    guest_open(g, rig, &options);
}

/* Send `n` bytes, or as many as are taken until the connection is closed. */
static void pour(struct guest *g, size_t n)
{
    static char bytes[65536];

    while (n > 0 && g->closes == 0) {
        ssize_t sent =
            send(g->client, bytes, n < sizeof(bytes) ? n : sizeof(bytes),
                 MSG_DONTWAIT | MSG_NOSIGNAL);

        n -= sent > 0 ? (size_t)sent : 0;
        turn(g->rig);
    }
    for (unsigned i = 0; i < 100 && g->closes == 0; i++)
        turn(g->rig);
}

static void test_many(struct rig *rig)
{
    struct guest modest = {.echo = true}, late;
    size_t held = 0;
    unsigned left = 0;

    for (unsigned i = 0; i < MANY; i++)
        enter(&many[i], rig);
    for (unsigned i = 0; i < MANY; i++)
        pour(&many[i], MUCH);
    for (unsigned i = 0; i < MANY; i++) {
        held += many[i].closes ? 0 : many[i].conn->in.size;
        left += many[i].closes;
    }
    CASE("what all hold together has an end");
    printf("# %zu bytes held, %u of %u left\n", held, left, MANY);
    CHECK(held <= MOST);
    CHECK(held >= MOST / 2);
    CHECK(left > 0 && left < MANY / 2);

    CASE("who sends little is served all the same");
    guest_open(&modest, rig, NULL);
    say(modest.client, "q");
    WAIT_FOR(rig, modest.inputs == 1);
    CHECK_STR(hear(modest.client), "q");
    guest_leave(&modest);

    CASE("and when they have gone others may send much");
    for (unsigned i = 0; i < MANY; i++)
        guest_leave(&many[i]);
    for (unsigned i = 0; i < 2 * MANY; i++) {
        enter(&late, rig);
        pour(&late, MUCH);
        CHECK_EQ(late.closes, 0);
        guest_leave(&late);
    }
}

int main(void)
{
    struct rig rig;

    rig_open(&rig, NULL);
    test_many(&rig);
    rig_close(&rig);
    return CHECK_DONE();
}
