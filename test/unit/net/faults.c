/* faults.c -- the nth allocation fails: an error or a closed connection, no
 * crash, no leak.
 *
 * This program has an sl_alloc_libc of its own, which the linker prefers to
 * the one in the library, and libevent is given the same memory. So the count
 * goes over all that the room allocates, its libraries' OpenSSL excepted.
 */
#include <event2/event.h>

#include "fail.h"
#include "guest.h"

static struct fail fail;

const struct sl_alloc sl_alloc_libc = {.resize = fail_resize, .ctx = &fail};

static void *give(size_t size)
{
    return fail_resize(&fail, NULL, 0, size);
}

static void *change(void *old, size_t size)
{
    size_t was = old ? ((union fail_head *)old)[-1].size : 0;

    return fail_resize(&fail, old, was, size);
}

static void take_back(void *old)
{
    if (old)
        fail_resize(&fail, old, ((union fail_head *)old)[-1].size, 0);
}

struct world {
    struct rig rig;
    struct sl_listener *listener;
    struct sl_sockets s;
    struct guest g;
    unsigned posts, guests;
};

static void on_post(void *ctx)
{
    ++*(unsigned *)ctx;
}

static void on_accept(void *ctx, int fd, const struct sl_address *peer)
{
    (void)peer;
    ++*(unsigned *)ctx;
    close(fd);
}

static int build(struct world *w)
{
    struct rig *rig = &w->rig;
    struct sl_conn_options options = guest_options(&w->g);
    int err, fds[2];

    err = sl_loop_open(NULL, &rig->loop, NULL);
    if (!err)
        err = sl_conns_open(rig->loop, 10, &rig->conns);
    if (!err)
        err = sl_timer_new(rig->loop, rig_stop, rig->loop, &rig->tick);
    if (!err)
        err = sl_listener_open(rig->loop, w->s.fds[0], on_accept, &w->guests,
                               &w->listener);
    if (!err)
        err = sl_loop_post(rig->loop, on_post, &w->posts);
    if (err)
        return err;
    pair(fds);
    w->g = (struct guest){
        .rig = rig, .client = fds[1], .echo = true, .may_fail = true};
    err = sl_conn_open(rig->conns, fds[0], NULL, &options, &w->g.conn);
    if (err) {
        CHECK_STR(hear(fds[1]), "-"); /* taken and closed */
        close(fds[1]);
        w->g.client = -1;
    }
    return err;
}

/* The echo needs memory too: for input, and for output. */
static int use(struct world *w)
{
    struct rig *rig = &w->rig;
    int client = dial(&w->s);

    say(w->g.client, "hello");
    sl_timer_start(rig->tick, 0); /* at once if the heap can't grow */
    for (unsigned i = 0; i < 500 && !w->g.inputs && !w->g.closes; i++) {
        sl_loop_stop(rig->loop);
        sl_loop_run(rig->loop);
        sl_timer_start(rig->tick, SL_MS);
        sl_loop_run(rig->loop);
    }
    CHECK_EQ(w->posts, 1);
    CHECK_EQ(w->guests, 1);
    close(client);
    if (w->g.closes)
        return SLUICE_ENOMEM;
    CHECK_STR(w->g.got, "hello");
    return 0;
}

static void tear_down(struct world *w)
{
    if (w->listener)
        sl_listener_close(w->listener);
    sl_timer_free(w->rig.tick);
    sl_conns_close(w->rig.conns);
    sl_loop_close(w->rig.loop);
    if (w->g.client > 0)
        close(w->g.client);
    CHECK_EQ(w->g.closes, w->g.client > 0);
}

static int live(void)
{
    struct world w = {.posts = 0};
    struct sl_address any;
    int err;

    CHECK_EQ(sl_address_parse(SL_STR("127.0.0.1:0"), &any, NULL), 0);
    CHECK_EQ(sl_sockets_open(&any, 1, &w.s, NULL), 0);
    err = build(&w);
    if (!err)
        err = use(&w);
    tear_down(&w);
    sl_sockets_close(&w.s);
    return err;
}

static void test_grow(void)
{
    static struct guest guests[40];
    struct rig rig;
    unsigned opened = 0;

    CASE("no memory for one more connection: the others stay");
    fail.nth = 0;
    rig_open(&rig, NULL);
    for (unsigned i = 0; i < 40; i++) {
        struct sl_conn_options options = guest_options(&guests[i]);
        int fds[2];

        pair(fds);
        guests[i] = (struct guest){.rig = &rig, .client = fds[1]};
        fail.calls = 0;
        fail.nth = i % 3; /* none, the connection, the array */
        if (sl_conn_open(rig.conns, fds[0], NULL, &options, &guests[i].conn))
            CHECK_STR(hear(fds[1]), "-");
        else
            opened++;
        fail.nth = 0;
    }
    CHECK_EQ(sl_conns_count(rig.conns), opened);
    CHECK(opened >= 13 && opened < 30);
    for (unsigned i = 0; i < 40; i++)
        close(guests[i].client);
    WAIT_FOR(&rig, sl_conns_count(rig.conns) == 0);
    rig_close(&rig);
}

int main(void)
{
    unsigned n = 0;

    alarm(300);
    event_set_mem_functions(give, change, take_back);
    CASE("with the nth allocation failing: an error, no crash, no leak");
    do {
        int err;

        fail = (struct fail){.nth = ++n};
        err = live();
        CHECK(!err || err == SLUICE_ENOMEM || err == SLUICE_ESYS);
        CHECK(!err || fail.calls >= n);
        fail_check(&fail);
    } while (fail.calls >= n && n < 200);
    printf("# %u allocations\n", n - 1);
    CHECK(n > 20);
    test_grow();
    fail_check(&fail);
    return CHECK_DONE();
}
