/* log.c -- what a line looks like in each format, and what is left out. */
#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "check.h"
#include "row.h"

static int pipes[2];

/* All that was logged since, or "" if nothing was. */
static const char *logged(void)
{
    static char text[65536];
    ssize_t n = read(pipes[0], text, sizeof(text) - 1);

    text[n > 0 ? n : 0] = '\0';
    return text;
}

/* The same, with the time behind its first 24 bytes of digits cut off. */
static const char *without_time(const char *before)
{
    const char *text = logged();
    size_t len = strlen(before);

    if (strncmp(text, before, len) != 0 || strlen(text) < len + 24)
        return text;
    CHECK_EQ(text[len + 4], '-');
    CHECK_EQ(text[len + 10], 'T');
    CHECK_EQ(text[len + 19], '.');
    CHECK_EQ(text[len + 23], 'Z');
    return text + len + 24;
}

static void use(enum sl_log_format format)
{
    sl_log_open(SL_LOG_INFO, format, pipes[1]);
}

TEST(formats)
{
    CASE("human");
    use(SL_LOG_HUMAN);
    sl_log(SL_LOG_INFO, "policy loaded", "file", "a b.yaml", "limits", "4",
           "gone", NULL, "empty", "", NULL);
    CHECK_STR(without_time(""), " info  policy loaded file=\"a b.yaml\" "
                                "limits=4 empty=\"\"\n");
    sl_log(SL_LOG_ERROR, "no pairs", NULL);
    CHECK_STR(without_time(""), " error no pairs\n");

    CASE("journal");
    use(SL_LOG_JOURNAL);
    sl_log(SL_LOG_ERROR, "e", NULL);
    sl_log(SL_LOG_WARN, "w", "k", "v=1", NULL);
    sl_log(SL_LOG_INFO, "i", "k", "v", NULL);
    sl_log_open(SL_LOG_DEBUG, SL_LOG_JOURNAL, pipes[1]);
    sl_log(SL_LOG_DEBUG, "d", NULL);
    CHECK_STR(logged(), "<3>e\n<4>w k=\"v=1\"\n<6>i k=v\n<7>d\n");

    CASE("json");
    use(SL_LOG_JSON);
    sl_log(SL_LOG_WARN, "an \"event\"", "a", "1", "gone", NULL, "b", "", NULL);
    CHECK_STR(without_time("{\"time\":\""),
              "\",\"level\":\"warn\",\"event\":\"an \\\"event\\\"\","
              "\"a\":\"1\",\"b\":\"\"}\n");

    CASE("what is below the level is not said");
    sl_log(SL_LOG_DEBUG, "quiet", NULL);
    CHECK_STR(logged(), "");
    sl_log_open(SL_LOG_ERROR, SL_LOG_JSON, pipes[1]);
    sl_log(SL_LOG_WARN, "quiet", NULL);
    CHECK_STR(logged(), "");
}

TEST(escapes)
{
    static const struct {
        const char *why, *value, *human, *json;
    } rows[] = {
        ROW("a line stays one line", "a\nb\r\tc", "\"a\\nb\\r\\tc\"",
            "\"a\\nb\\r\\tc\""),
        ROW("quotation marks and backslashes", "\"\\", "\"\\\"\\\\\"",
            "\"\\\"\\\\\""),
        ROW("no terminal is moved", "\x1b[2J\x7f", "\"\\x1b[2J\\x7f\"",
            "\"\\u001b[2J\\u007f\""),
        ROW("nor by eight-bit controls",
            "\xc2\x9b"
            "2J",
            "\"\\xc2\\x9b2J\"", "\"\\ufffd\\ufffd2J\""),
        ROW("letters of all tongues", "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80",
            "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80",
            "\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\""),
        ROW("what is no UTF-8", "a\xff\xc3", "\"a\\xff\\xc3\"",
            "\"a\\ufffd\\ufffd\""),
        ROW("spelled too long", "\xc0\xaf\xe0\x80\xaf",
            "\"\\xc0\\xaf\\xe0\\x80"
            "\\xaf\"",
            "\"\\ufffd\\ufffd\\ufffd\\ufffd\\ufffd\""),
        ROW("halves of UTF-16", "\xed\xa0\x80", "\"\\xed\\xa0\\x80\"",
            "\"\\ufffd\\ufffd\\ufffd\""),
    };
    char want[200];

    for (size_t i = 0; i < SL_LEN(rows); i++) {
        CASE(rows[i].why);
        use(SL_LOG_JOURNAL);
        sl_log(SL_LOG_INFO, rows[i].why, "k", rows[i].value, NULL);
        snprintf(want, sizeof(want), "<6>%s k=%s\n", rows[i].why,
                 rows[i].human);
        CHECK_STR(logged(), want);
        use(SL_LOG_JSON);
        sl_log(SL_LOG_INFO, rows[i].why, "k", rows[i].value, NULL);
        snprintf(want, sizeof(want),
                 "\",\"level\":\"info\",\"event\":\"%s\",\"k\":%s}\n",
                 rows[i].why, rows[i].json);
        CHECK_STR(without_time("{\"time\":\""), want);
    }
}

TEST(lengths)
{
    static char big[3000];
    const char *text;

    memset(big, 'b', sizeof(big) - 1);
    CASE("a long value is cut");
    use(SL_LOG_JSON);
    sl_log(SL_LOG_INFO, "long", "k", big, "after", "1", NULL);
    text = logged();
    CHECK_EQ(strlen(text), 24 + 1024 +
                               strlen("{'time':'','level':'info',"
                                      "'event':'long','k':'...',"
                                      "'after':'1'}\n"));
    CHECK(strstr(text, "bbb...\",\"after\":\"1\"}\n"));

    CASE("what does not fit in a line is left out in whole, and it says so");
    sl_log(SL_LOG_INFO, "longer", "a", big, "b", big, "c", big, "d", big, "e",
           "1", NULL);
    text = logged();
    CHECK(strlen(text) <= 4096);
    CHECK(strstr(text, "\"c\":\"bbb"));
    CHECK(!strstr(text, "\"d\":"));
    CHECK(strstr(text, "bbb...\",\"cut\":true}\n"));
    use(SL_LOG_JOURNAL);
    sl_log(SL_LOG_INFO, "longest", "a", big, "b", big, "c", big, "d", big,
           NULL);
    text = logged();
    CHECK(strstr(text, "bbb...\" cut\n"));

    CASE("controls grow, but not beyond the line");
    memset(big, '\1', sizeof(big) - 1);
    use(SL_LOG_JSON);
    sl_log(SL_LOG_INFO, "controls", "a", big, NULL);
    text = logged();
    CHECK(strlen(text) < 1200);
    CHECK(strstr(text, "\\u0001...\"}\n"));
}

static unsigned lines(const char *text)
{
    unsigned n = 0;

    for (; *text; text++)
        n += *text == '\n';
    return n;
}

static int64_t this_second(void)
{
    return sl_clock_wall() / SL_S;
}

/* Wait for the next second to begin: what is counted is counted by those. */
static void next_second(void)
{
    int64_t second = this_second();

    while (this_second() == second)
        poll(NULL, 0, 5);
}

/* Not inlined: a place is the address that sl_log() is called from. */
__attribute__((noinline)) static void flood(unsigned times, const char *event)
{
    for (unsigned i = 0; i < times; i++)
        sl_log(SL_LOG_WARN, event, "k", "v", NULL);
}

TEST(floods)
{
    char event[32];

    use(SL_LOG_JOURNAL);
    CASE("ten a second from one place, the others are counted");
    next_second();
    flood(25, "flood");
    CHECK_EQ(lines(logged()), 10);
    CASE("another event, or another place, has its own ten");
    flood(3, "other");
    CHECK_EQ(lines(logged()), 3);
    sl_log(SL_LOG_WARN, "flood", "k", "v", NULL);
    CHECK_STR(logged(), "<4>flood k=v\n");
    CASE("the next line says how many were left out, and only that one");
    next_second();
    flood(2, "flood");
    CHECK_STR(logged(), "<4>flood k=v left_out=15\n<4>flood k=v\n");
    use(SL_LOG_JSON);
    flood(9, "flood");
    logged();
    next_second();
    flood(1, "flood");
    CHECK(strstr(logged(), "\"k\":\"v\",\"left_out\":1}\n"));

    CASE("more places than are remembered are no harm");
    next_second();
    flood(50, "flood");
    for (unsigned i = 0; i < 500; i++) {
        snprintf(event, sizeof(event), "event %u", i);
        flood(1, event);
        if (i % 50 == 0)
            logged();
    }
    CHECK(lines(logged()) > 0);
}

TEST(auto)
{
    struct stat st;
    char stream[64], path[] = "/tmp/sluice-log-XXXXXX";
    int fd = mkstemp(path), terminal = posix_openpt(O_RDWR | O_NOCTTY);

    CASE("auto: the journal if systemd's stream is what we write to");
    fstat(pipes[1], &st);
    snprintf(stream, sizeof(stream), "%ju:%ju", (uintmax_t)st.st_dev,
             (uintmax_t)st.st_ino);
    setenv("JOURNAL_STREAM", stream, 1);
    use(SL_LOG_AUTO);
    sl_log(SL_LOG_INFO, "auto", NULL);
    CHECK_STR(logged(), "<6>auto\n");

    CASE("auto: json elsewhere, though the variable is there");
    sl_log_open(SL_LOG_INFO, SL_LOG_AUTO, fd);
    sl_log(SL_LOG_INFO, "auto", NULL);
    CHECK_EQ(pread(fd, stream, 8, 0), 8);
    CHECK(memcmp(stream, "{\"time\":", 8) == 0);
    unsetenv("JOURNAL_STREAM");
    use(SL_LOG_AUTO);
    sl_log(SL_LOG_INFO, "auto", NULL);
    CHECK_EQ(logged()[0], '{');

    CASE("auto: human on a terminal");
    if (terminal >= 0 && grantpt(terminal) == 0 && unlockpt(terminal) == 0) {
        int slave = open(ptsname(terminal), O_RDWR | O_NOCTTY);

        sl_log_open(SL_LOG_INFO, SL_LOG_AUTO, slave);
        sl_log(SL_LOG_INFO, "hello", NULL);
        CHECK(read(terminal, stream, sizeof(stream)) > 30);
        CHECK(memcmp(stream + 24, " info  hello", 12) == 0);
        close(slave);
    }
    close(terminal);
    close(fd);
    unlink(path);
}

TEST(errno)
{
    CASE("errno is left alone, also where nothing can be written");
    errno = EPROTO;
    sl_log_open(SL_LOG_INFO, SL_LOG_JSON, -1);
    sl_log(SL_LOG_INFO, "to no reader", NULL);
    CHECK_EQ(errno, EPROTO);
}

int main(void)
{
    alarm(300);
    if (pipe2(pipes, O_NONBLOCK))
        return 1;
    RUN_TESTS();
    return CHECK_DONE();
}
