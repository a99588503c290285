/* httpdate.c -- dates of HTTP: each row of the grammar, what is none, and
 * libc's strftime() as the second opinion. */
#include "base/timestamp.h"

#include <time.h>

#include "check.h"
#include "row.h"

#define NOW (INT64_C(1794700800) * SL_S) /* 2026-11-15T00:00:00Z */
#define AT  (INT64_C(784111777) * SL_S)  /* 1994-11-06T08:49:37Z */

static const struct {
    const char *why, *text;
    sl_ns want;
} good[] = {
    ROW("what is written today", "Sun, 06 Nov 1994 08:49:37 GMT", AT),
    ROW("RFC 850", "Sunday, 06-Nov-94 08:49:37 GMT", AT),
    ROW("asctime", "Sun Nov  6 08:49:37 1994", AT),
    ROW("asctime with two digits", "Wed Nov 16 08:49:37 1994",
        AT + 10 * SL_DAY),
    ROW("the epoch", "Thu, 01 Jan 1970 00:00:00 GMT", 0),
    ROW("before it is nothing", "Wed, 31 Dec 1969 23:59:59 GMT", 0),
    ROW("a day of the year 0", "Wed, 31 Dec 0000 23:59:59 GMT", 0),
    ROW("as far as we count", "Fri, 31 Dec 9999 23:59:59 GMT", SL_TIME_END),
    ROW("another weekday", "Mon, 06 Nov 1994 08:49:37 GMT", AT),
    ROW("a leap day", "Tue, 29 Feb 2028 00:00:00 GMT",
        INT64_C(1835395200) * SL_S),
    ROW("a leap second", "Sat, 31 Dec 2016 23:59:60 GMT",
        INT64_C(1483228800) * SL_S),
    ROW("2076 is 50 years ahead", "Sunday, 15-Nov-76 00:00:00 GMT",
        INT64_C(3372624000) * SL_S),
    ROW("1977 is not 51 ahead", "Tuesday, 15-Nov-77 00:00:00 GMT",
        INT64_C(248400000) * SL_S),
    ROW("this year in two digits", "Sunday, 15-Nov-26 00:00:00 GMT", NOW),
};

static const char *const bad[] = {
    "",
    "12",
    "soon",
    "Sun, 06 Nov 1994 08:49:37",
    "Sun, 06 Nov 1994 08:49:37 UTC",
    "Sun, 06 Nov 1994 08:49:37 GMT ",
    " Sun, 06 Nov 1994 08:49:37 GMT",
    "sun, 06 Nov 1994 08:49:37 GMT",
    "Sunday, 06 Nov 1994 08:49:37 GMT",
    "Sun, 06-Nov-94 08:49:37 GMT",
    "Sun, 6 Nov 1994 08:49:37 GMT",
    "Sun, 06 Nov 94 08:49:37 GMT",
    "Sun, 06 Now 1994 08:49:37 GMT",
    "Sun, 00 Nov 1994 08:49:37 GMT",
    "Sun, 31 Nov 1994 08:49:37 GMT",
    "Sun, 29 Feb 2027 08:49:37 GMT",
    "Sun, 06 Nov 1994 24:49:37 GMT",
    "Sun, 06 Nov 1994 08:60:37 GMT",
    "Sun, 06 Nov 1994 08:49:61 GMT",
    "Sun, 06 Nov 1994 8:49:37 GMT",
    "Sun Nov 6 08:49:37 1994",
    "Sun Nov   6 08:49:37 1994",
    "Sun Nov  0 08:49:37 1994",
    "Sun Nov  6 08:49:37 1994 GMT",
};

TEST(tables)
{
    for (size_t i = 0; i < SL_LEN(good); i++) {
        sl_ns got = -7;

        CASE(good[i].why);
        CHECK(sl_httpdate_read(sl_str_c(good[i].text), NOW, &got));
        CHECK_EQ(got, good[i].want);
    }
    for (size_t i = 0; i < SL_LEN(bad); i++) {
        sl_ns got = -7;

        CASE(bad[i]);
        CHECK(!sl_httpdate_read(sl_str_c(bad[i]), NOW, &got));
        CHECK_EQ(got, -7);
    }
}

/* Every form, as libc writes it, is read; cut anywhere, it is not. */
static void check_form(const char *form, time_t at)
{
    char text[64];
    struct tm tm;
    sl_ns got = -7;
    size_t len;

    gmtime_r(&at, &tm);
    len = strftime(text, sizeof(text), form, &tm);
    if (!CHECK(sl_httpdate_read((struct sl_str){text, len}, at * SL_S, &got)))
        printf("# %s\n", text);
    CHECK_EQ(got, at * SL_S);
    for (size_t cut = 0; cut < len; cut++)
        CHECK(!sl_httpdate_read((struct sl_str){text, cut}, NOW, &got));
}

TEST(second_opinion)
{
    CASE("what strftime() writes is read, in all three forms");
    for (time_t at = 0; at < INT64_C(4600000000); at += 8640007) {
        check_form("%a, %d %b %Y %H:%M:%S GMT", at);
        check_form("%A, %d-%b-%y %H:%M:%S GMT", at);
        check_form("%a %b %e %H:%M:%S %Y", at);
    }
}

CHECK_MAIN()
