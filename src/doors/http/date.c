/* date.c -- the text of the Date field, which changes once a second. */
#include <string.h>

#include "base/digits.h"
#include "base/timestamp.h"
#include "server/http/http_int.h"

static char *put(char *to, const char *text)
{
    while (*text)
        *to++ = *text++;
    return to;
}

/* "Sun, 15 Nov 2026 07:00:00 GMT" */
static void print_date(sl_ns second, char out[32])
{
    static const char days[][6] = {"Thu, ", "Fri, ", "Sat, ", "Sun, ",
                                   "Mon, ", "Tue, ", "Wed, "};
    static const char months[][6] = {" Jan ", " Feb ", " Mar ", " Apr ",
                                     " May ", " Jun ", " Jul ", " Aug ",
                                     " Sep ", " Oct ", " Nov ", " Dec "};
    int64_t year, month, day, since = second / 86400;
    uint64_t left = (uint64_t)(second % 86400);
    char *to = put(out, days[since % 7]);

    sl_civil_from_days(since, &year, &month, &day);
    to = sl_digits_padded((uint64_t)day, 2, to);
    to = put(to, months[month - 1]);
    to = sl_digits_padded((uint64_t)year, 4, to);
    to = sl_digits_padded(left / 3600, 2, put(to, " "));
    to = sl_digits_padded(left / 60 % 60, 2, put(to, ":"));
    to = sl_digits_padded(left % 60, 2, put(to, ":"));
    memcpy(to, " GMT", sizeof(" GMT"));
}

/* RFC 9110, 5.6.7; the text changes once a second. */
struct sl_str sl_http_date(struct sl_http_worker *worker)
{
    sl_ns second = sl_loop_now(worker->loop) / SL_S;

    if (second != worker->date_at || !worker->date[0]) {
        print_date(second, worker->date);
        worker->date_at = second;
    }
    return sl_str_c(worker->date);
}
