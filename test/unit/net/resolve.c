/* resolve.c -- names to addresses, without making the loop wait. */
#include "net/resolve.h"

#include "turns.h"

struct asked {
    unsigned done;
    struct sl_resolved resolved;
};

static void on_done(void *ctx, const struct sl_resolved *resolved)
{
    struct asked *a = ctx;

    a->done++;
    a->resolved = *resolved;
}

static void test_digits(void)
{
    struct sl_resolved r;
    char text[128];

    CASE("digits and paths need no look-up");
    CHECK(sl_resolve_digits("127.0.0.1", 6379, &r));
    CHECK_EQ(r.count, 1);
    sl_address_print(&r.list[0], text, sizeof(text));
    CHECK_STR(text, "127.0.0.1:6379");
    CHECK(sl_resolve_digits("::1", 7, &r));
    sl_address_print(&r.list[0], text, sizeof(text));
    CHECK_STR(text, "[::1]:7");
    CHECK(sl_resolve_digits("/tmp/x", 0, &r));
    sl_address_print(&r.list[0], text, sizeof(text));
    CHECK_STR(text, "unix:/tmp/x");
    CHECK(!sl_resolve_digits("localhost", 6379, &r));
    CHECK(!sl_resolve_digits("1.2.3", 6379, &r));
    memset(text, 'x', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    CHECK(!sl_resolve_digits(text, 0, &r));
}

static void test_names(struct rig *rig)
{
    struct asked a = {0}, b = {0};
    struct sl_resolve *one, *two;

    CASE("a name is looked up, and what it is comes later");
    CHECK_EQ(sl_resolve_begin(rig->loop, "localhost", 80, on_done, &a, &one),
             0);
    CHECK_EQ(a.done, 0);
    WAIT_FOR(rig, a.done == 1);
    CHECK(a.resolved.count >= 1);
    CHECK(sl_address_is_local(&a.resolved.list[0]));
    CHECK_EQ(sl_address_port(&a.resolved.list[0]), 80);

    CASE("an unknown name has a reason");
    CHECK_EQ(sl_resolve_begin(rig->loop, "no..name", 80, on_done, &b, &one), 0);
    WAIT_FOR(rig, b.done == 1);
    CHECK_EQ(b.resolved.count, 0);
    CHECK(strncmp(b.resolved.why, "cannot be resolved: ", 20) == 0);

    CASE("a cancelled lookup does not call done()");
    CHECK_EQ(sl_resolve_begin(rig->loop, "localhost", 80, on_done, &a, &one),
             0);
    CHECK_EQ(sl_resolve_begin(rig->loop, "localhost", 81, on_done, &b, &two),
             0);
    sl_resolve_cancel(one);
    WAIT_FOR(rig, b.done == 2);
    CHECK_EQ(a.done, 1);
    CHECK_EQ(sl_address_port(&b.resolved.list[0]), 81);
    sl_resolve_cancel(NULL);
}

int main(void)
{
    struct rig rig;
    struct sl_resolve *left;
    struct asked a = {0};

    test_digits();
    rig_open(&rig, NULL);
    test_names(&rig);
    CASE("a loop may close before the answer has come");
    CHECK_EQ(sl_resolve_begin(rig.loop, "localhost", 80, on_done, &a, &left),
             0);
    sl_resolve_cancel(left);
    rig_close(&rig);
    CHECK_EQ(a.done, 0);
    return CHECK_DONE();
}
