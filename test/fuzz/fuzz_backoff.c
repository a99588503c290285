/* fuzz_backoff.c -- what a server says of when to come back.
 *
 * The first line is a Retry-After, the rest an X-RateLimit-Reset.
 *
 *   (1) There is a wait, or a sentence and an untouched output.
 *   (2) A wait lies between our own shortest and the longest of a server, and
 *       a step behind it.
 *   (3) Blanks around a text change nothing.
 *   (4) A date that is read is the one that libc makes of its fields, and is
 *       read again from what libc writes of it.
 *   (5) Later, there is never longer to wait for the same words than a step
 *       more: a clock that goes on does not lengthen what the server said.
 */
#include "fuzz.h"

#include <time.h>

#include "base/timestamp.h"
#include "sluice_backoff.h"

#define NOW (INT64_C(1794700800) * SL_S)

static int wait_for(const char *retry_after, const char *reset, sl_ns now,
                    int64_t *ret)
{
    struct sluice_backoff backoff = {0};
    struct sluice_refusal refusal = {429, retry_after, reset};

    return sluice_backoff_next(&backoff, &refusal, now, 0, ret);
}

static char *padded(const char *text)
{
    size_t len = strlen(text);
    char *copy = malloc(len + 4);

    MUST(copy);
    memcpy(copy, " \t", 2);
    memcpy(copy + 2, text, len);
    memcpy(copy + 2 + len, " ", 2);
    return copy;
}

static void must_be_a_date(const char *text)
{
    struct sl_str s = sl_str_c(text);
    sl_ns at = -7, again = -7;
    char out[64];
    struct tm tm;
    time_t seconds;
    size_t len;

    if (!sl_httpdate_read(s, NOW, &at)) {
        MUST(at == -7);
        return;
    }
    MUST(at >= 0 && at <= SL_TIME_END);
    if (at == SL_TIME_END)
        return;
    seconds = at / SL_S;
    MUST(gmtime_r(&seconds, &tm));
    len = strftime(out, sizeof(out), "%a, %d %b %Y %H:%M:%S GMT", &tm);
    MUST(sl_httpdate_read((struct sl_str){out, len}, NOW, &again));
    MUST(again == at); /* (4) */
}

static void check(const char *retry_after, const char *reset)
{
    int64_t wait = -7, blank = -7, later = -7;
    char *a = padded(retry_after), *b = padded(reset);
    int err = wait_for(retry_after, reset, NOW, &wait);

    MUST(err == 0 || err == SLUICE_EFULL);
    if (err)
        MUST(wait == -7 && strstr(sluice_why(), "asks to wait")); /* (1) */
    else
        MUST(wait > 0 && wait <= 15 * SL_MIN);                 /* (2) */
    MUST(wait_for(a, b, NOW, &blank) == err && blank == wait); /* (3) */
    if (!err) {                                                /* (5) */
        MUST(wait_for(retry_after, reset, NOW + SL_S, &later) == 0);
        MUST(later <= wait + 500 * SL_MS);
    }
    must_be_a_date(retry_after);
    free(a);
    free(b);
}

void fuzz_backoff(struct sl_str text)
{
    char *copy = malloc(text.len + 1), *line;

    MUST(copy);
    if (text.len > 0)
        memcpy(copy, text.at, text.len);
    copy[text.len] = '\0';
    line = strchr(copy, '\n');
    if (line)
        *line++ = '\0';
    check(copy, line ? line : "");
    free(copy);
}
