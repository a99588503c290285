/* activate.c -- sockets that systemd hands in, by name. */
#include <stdlib.h>
#include <unistd.h>

#include "check.h"
#include "sluiced/systemd.h"

static struct sl_activated got;
static struct sl_diag why;

static int activate(const char *pid, const char *fds, const char *names)
{
    char own[32];

    snprintf(own, sizeof(own), "%d", (int)getpid());
    setenv("LISTEN_PID", pid ? pid : own, 1);
    if (fds)
        setenv("LISTEN_FDS", fds, 1);
    if (names)
        setenv("LISTEN_FDNAMES", names, 1);
    got = (struct sl_activated){.count = 99};
    why = (struct sl_diag){0};
    return sl_activated_read(&got, &why);
}

int main(void)
{
    CASE("nothing is handed in");
    CHECK_EQ(activate(NULL, NULL, NULL), 0);
    CHECK_EQ(got.count, 0);
    CHECK_EQ(sl_activated_find(&got, "http"), -1);

    CASE("by their names");
    CHECK_EQ(activate(NULL, "2", "admin:http"), 0);
    CHECK_EQ(got.count, 2);
    CHECK_EQ(sl_activated_find(&got, "admin"), 3);
    CHECK_EQ(sl_activated_find(&got, "http"), 4);
    CHECK_EQ(sl_activated_find(&got, "grpc"), -1);
    CHECK(!getenv("LISTEN_FDS") && !getenv("LISTEN_PID") &&
          !getenv("LISTEN_FDNAMES"));

    CASE("a single one is the http door, unless it says admin");
    CHECK_EQ(activate(NULL, "1", NULL), 0);
    CHECK_EQ(sl_activated_find(&got, "http"), 3);
    CHECK_EQ(activate(NULL, "1", "sluiced.socket"), 0);
    CHECK_EQ(sl_activated_find(&got, "http"), 3);
    CHECK_EQ(activate(NULL, "1", "admin"), 0);
    CHECK_EQ(sl_activated_find(&got, "admin"), 3);
    CHECK_EQ(sl_activated_find(&got, "http"), -1);

    CASE("those of another process are not ours");
    CHECK_EQ(activate("1", "2", "http:admin"), 0);
    CHECK_EQ(got.count, 0);

    CASE("names that are no door are refused");
    CHECK_EQ(activate(NULL, "2", "http:gopher"), SLUICE_ECONF);
    CHECK(strstr(why.sentence, "\"gopher\"; write FileDescriptorName=") !=
          NULL);
    CHECK_EQ(got.count, 99);

    CASE("so are two of a name, and too many");
    CHECK_EQ(activate(NULL, "2", "http:http"), SLUICE_ECONF);
    CHECK_EQ(activate(NULL, "9", "http"), SLUICE_ECONF);

    CASE("nonsense is nothing");
    CHECK_EQ(activate(NULL, "-1", "http"), 0);
    CHECK_EQ(got.count, 0);
    return CHECK_DONE();
}
