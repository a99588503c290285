/* httpdate.c -- the three forms of a date in HTTP, each a pattern.
 *
 * A letter of a pattern stands for a field, anything else for itself:
 *
 *     a  a day of the week, three letters      A  the same in full
 *     b  a month, three letters                d  day, two digits
 *     e  day, two digits or a blank and one    Y  year, four digits
 *     y  year, two digits                      H M S  hour, minute, second
 *
 * Letters that stand for themselves come behind a '='. Case counts, as the
 * grammar says.
 */
#include "base/httpdate.h"

#include "base/timestamp.h"

static const char *const patterns[] = {
    "a, d b Y H:M:S =G=M=T",
    "A, d-b-y H:M:S =G=M=T",
    "a b e H:M:S Y",
};

static const char *const weekdays[] = {"Monday",   "Tuesday", "Wednesday",
                                       "Thursday", "Friday",  "Saturday",
                                       "Sunday"};
static const char *const months[] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                     "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};

struct date {
    int64_t year, month, day, hour, minute, second;
    bool short_year;
};

/* Pass `len` bytes of `name`, or all if that is 0. */
static bool pass_name(struct sl_str *rest, const char *name, size_t len)
{
    struct sl_str want = {name, len ? len : strlen(name)};

    if (rest->len < want.len ||
        !sl_str_eq((struct sl_str){rest->at, want.len}, want))
        return false;
    *rest = sl_str_from(*rest, want.len);
    return true;
}

/* Pass one of the names; which one it was, or -1. */
static int pass_one_of(struct sl_str *rest, const char *const *names, int count,
                       size_t len)
{
    for (int i = 0; i < count; i++)
        if (pass_name(rest, names[i], len))
            return i;
    return -1;
}

/* Pass exactly `width` digits. */
static bool pass_digits(struct sl_str *rest, unsigned width, int64_t *ret)
{
    int64_t n = 0;

    if (rest->len < width)
        return false;
    for (unsigned i = 0; i < width; i++) {
        char c = rest->at[i];

        if (c < '0' || c > '9')
            return false;
        n = n * 10 + (c - '0');
    }
    *rest = sl_str_from(*rest, width);
    *ret = n;
    return true;
}

static bool pass_month(struct sl_str *rest, struct date *date)
{
    int i = pass_one_of(rest, months, SL_LEN(months), 0);

    date->month = i + 1;
    return i >= 0;
}

static bool pass_day(struct sl_str *rest, struct date *date)
{
    if (pass_name(rest, " ", 1))
        return pass_digits(rest, 1, &date->day);
    return pass_digits(rest, 2, &date->day);
}

static bool pass_field(struct sl_str *rest, char field, struct date *date)
{
    switch (field) {
    case 'a':
        return pass_one_of(rest, weekdays, SL_LEN(weekdays), 3) >= 0;
    case 'A':
        return pass_one_of(rest, weekdays, SL_LEN(weekdays), 0) >= 0;
    case 'b':
        return pass_month(rest, date);
    case 'd':
        return pass_digits(rest, 2, &date->day);
    case 'e':
        return pass_day(rest, date);
    case 'Y':
        return pass_digits(rest, 4, &date->year);
    case 'y':
        date->short_year = true;
        return pass_digits(rest, 2, &date->year);
    case 'H':
        return pass_digits(rest, 2, &date->hour);
    case 'M':
        return pass_digits(rest, 2, &date->minute);
    case 'S':
        return pass_digits(rest, 2, &date->second);
    default:
        return pass_name(rest, &field, 1);
    }
}

static bool match(struct sl_str text, const char *pattern, struct date *ret)
{
    struct date date = {.short_year = false};

    for (; *pattern; pattern++) {
        if (*pattern == '=') {
            if (!pass_name(&text, ++pattern, 1))
                return false;
        } else if (!pass_field(&text, *pattern, &date)) {
            return false;
        }
    }
    *ret = date;
    return text.len == 0;
}

/* The year that ends in these two digits: up to 50 years from now it lies
 * ahead, and behind if that would be more. */
static int64_t whole_year(int64_t two, sl_ns now)
{
    int64_t year, month, day;

    sl_civil_from_days(now / SL_DAY, &year, &month, &day);
    two += year - year % 100;
    if (two > year + 50)
        return two - 100;
    return two + 100 <= year + 50 ? two + 100 : two;
}

static bool is_day(const struct date *d)
{
    int64_t next = d->month == 12
                       ? sl_days_from_civil(d->year + 1, 1, 1)
                       : sl_days_from_civil(d->year, d->month + 1, 1);

    return d->day >= 1 && sl_days_from_civil(d->year, d->month, d->day) < next;
}

bool sl_httpdate_read(struct sl_str text, sl_ns now, sl_ns *ret)
{
    struct date d;
    int64_t seconds;
    size_t i = 0;

    while (i < SL_LEN(patterns) && !match(text, patterns[i], &d))
        i++;
    if (i == SL_LEN(patterns))
        return false;
    if (d.short_year)
        d.year = whole_year(d.year, now);
    if (!is_day(&d) || d.hour > 23 || d.minute > 59 || d.second > 60)
        return false;
    seconds = sl_days_from_civil(d.year, d.month, d.day) * 86400 +
              (d.hour * 60 + d.minute) * 60 + d.second;
    if (seconds > SL_TIME_END / SL_S)
        *ret = SL_TIME_END;
    else
        *ret = seconds > 0 ? seconds * SL_S : 0;
    return true;
}
