/* file_watch.c -- which changes of a folder are changes of a file. */
#include "sluiced/file_watch.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check.h"
#include "files.h"

static void check_noise(void)
{
    static const char *const noise[] = {
        ".sluice.yaml.swp", ".sluice.yaml.swx",
        "sluice.yaml~",     "4913",
        "#sluice.yaml#",    ".git",
        "..2026_11_15",     "sluice.yaml.tmp",
        "..data_tmp",       "sluice.yaml.bak",
    };
    static const char *const news[] = {"sluice.yaml", "..data", "other.yaml"};

    CASE("dotfiles, backups and swap files are noise");
    for (size_t i = 0; i < SL_LEN(noise); i++)
        CHECK(sl_file_watch_is_noise(noise[i], "sluice.yaml") ||
              !printf("# %s\n", noise[i]));
    CASE("the file itself and the link of a ConfigMap are not");
    for (size_t i = 0; i < SL_LEN(news); i++)
        CHECK(!sl_file_watch_is_noise(news[i], "sluice.yaml"));
    CHECK(!sl_file_watch_is_noise(".hidden.yaml", ".hidden.yaml"));
}

/* ---- with a loop ---- */

static struct {
    struct sl_loop *loop;
    struct sl_file_watch *watch;
    struct sl_timer *timer;
    unsigned calls, changed;
    char folder[64], path[96], other[96], link[96], now[96], next[96];
} t;

static void on_change(void *ctx, unsigned changed)
{
    (void)ctx;
    t.calls++;
    t.changed |= changed;
    sl_loop_stop(t.loop);
}

/* As a reload does: read, and name the files again; meanwhile a file is
 * written.
 */
static void on_change_again(void *ctx, unsigned changed)
{
    const char *paths[] = {t.path, t.other, NULL};

    if (t.calls == 0) {
        put_file(t.path, "written while it was read");
        CHECK_EQ(sl_file_watch_others(t.watch, paths, 3), 0);
    }
    t.changed |= changed;
    if (++t.calls == 2)
        sl_loop_stop(t.loop);
    (void)ctx;
}

static void on_time(void *ctx)
{
    (void)ctx;
    sl_loop_stop(t.loop);
}

/* Turn until it is told, or for a second. */
static void turn(sl_ns most)
{
    t.calls = t.changed = 0;
    sl_timer_start(t.timer, most);
    sl_loop_run(t.loop);
    sl_timer_stop(t.timer);
}

static void begin(const char *first, const char *second)
{
    const char *paths[] = {first, second, NULL};
    struct sl_diag why = {0};

    CHECK_EQ(
        sl_file_watch_open(t.loop, paths, 3, on_change, NULL, &t.watch, &why),
        0);
}

static void end(void)
{
    sl_file_watch_close(t.watch);
    t.watch = NULL;
}

TEST(files)
{
    put_file(t.path, "a");
    put_file(t.other, "b");
    begin(t.path, t.other);

    CASE("several writes are one change");
    put_file(t.path, "aa");
    put_file(t.path, "aaa");
    turn(3 * SL_S);
    CHECK_EQ(t.calls, 1);
    CHECK_EQ(t.changed, 1);

    CASE("each file has its bit");
    put_file(t.other, "bb");
    turn(3 * SL_S);
    CHECK_EQ(t.changed, 2);

    CASE("a rename over it");
    put_file(t.next, "aaaaa");
    CHECK_EQ(rename(t.next, t.path), 0);
    turn(3 * SL_S);
    CHECK_EQ(t.changed, 1);

    CASE("others in the folder are no change");
    put_file(t.next, "x");
    unlink(t.next);
    turn(600 * SL_MS);
    CHECK_EQ(t.calls, 0);

    CASE("a file that goes away and comes back as it was not");
    unlink(t.path);
    turn(600 * SL_MS);
    CHECK_EQ(t.calls, 0);
    put_file(t.path, "back again");
    turn(3 * SL_S);
    CHECK_EQ(t.changed, 1);
    end();
}

TEST(others)
{
    const char *first[] = {t.path, NULL, NULL};
    const char *both[] = {t.path, t.other, NULL};
    struct sl_diag why = {0};

    put_file(t.path, "a");
    put_file(t.other, "b");
    CHECK_EQ(sl_file_watch_open(t.loop, first, 3, on_change_again, NULL,
                                &t.watch, &why),
             0);
    CASE("what is written while it is read is told again, once");
    put_file(t.path, "aa");
    turn(3 * SL_S);
    CHECK_EQ(t.calls, 2);
    CHECK_EQ(t.changed, 3); /* and the file that is new */
    end();

    CASE("another file is told once, what is known is not");
    begin(t.path, NULL);
    CHECK_EQ(sl_file_watch_others(t.watch, both, 3), 0);
    turn(3 * SL_S);
    CHECK_EQ(t.changed, 2);
    CHECK_EQ(sl_file_watch_others(t.watch, both, 3), 0);
    turn(600 * SL_MS);
    CHECK_EQ(t.calls, 0);

    CASE("a file that is not watched any more is not told");
    CHECK_EQ(sl_file_watch_others(t.watch, first, 3), 0);
    put_file(t.other, "bbb");
    turn(600 * SL_MS);
    CHECK_EQ(t.calls, 0);
    end();
}

/* sluice.yaml -> ..data/sluice.yaml; ..data -> ..1, then ..2 */
TEST(link)
{
    char one[96], two[96], file[160];

    snprintf(one, sizeof(one), "%s/..1", t.folder);
    snprintf(two, sizeof(two), "%s/..2", t.folder);
    CHECK_EQ(mkdir(one, 0700), 0);
    CHECK_EQ(mkdir(two, 0700), 0);
    snprintf(file, sizeof(file), "%s/sluice.yaml", one);
    put_file(file, "1");
    snprintf(file, sizeof(file), "%s/sluice.yaml", two);
    put_file(file, "22");
    CHECK_EQ(symlink("..1", t.now), 0);
    CHECK_EQ(symlink("..data/sluice.yaml", t.link), 0);
    begin(t.link, NULL);

    CASE("the swap of a link two steps away");
    CHECK_EQ(symlink("..2", t.next), 0);
    CHECK_EQ(rename(t.next, t.now), 0);
    turn(3 * SL_S);
    CHECK_EQ(t.changed, 1);
    end();
}

int main(void)
{
    char command[128];

    snprintf(t.folder, sizeof(t.folder), "/tmp/sluiced-watch-XXXXXX");
    CHECK(mkdtemp(t.folder) != NULL);
    snprintf(t.path, sizeof(t.path), "%s/p.yaml", t.folder);
    snprintf(t.other, sizeof(t.other), "%s/c.pem", t.folder);
    snprintf(t.link, sizeof(t.link), "%s/sluice.yaml", t.folder);
    snprintf(t.now, sizeof(t.now), "%s/..data", t.folder);
    snprintf(t.next, sizeof(t.next), "%s/next", t.folder);

    check_noise();
    CHECK_EQ(sl_loop_open(NULL, &t.loop, NULL), 0);
    CHECK_EQ(sl_timer_new(t.loop, on_time, NULL, &t.timer), 0);
    RUN_TESTS();
    sl_timer_free(t.timer);
    sl_loop_close(t.loop);
    snprintf(command, sizeof(command), "rm -rf '%s'", t.folder);
    CHECK_EQ(system(command), 0);
    return CHECK_DONE();
}
