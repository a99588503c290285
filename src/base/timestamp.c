/* timestamp.c -- instants as RFC 3339 writes them, and the civil calendar
 * below.
 *
 *     2026-03-31T23:59:59.900+02:00
 *     ----date-- --time-- frac zone
 *
 * Seconds must be there and so must the zone: an instant without one would
 * mean something else on every machine. T and Z may be small letters.
 */
#include "base/timestamp.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/arith.h"
#include "base/parse.h"
#include "base/str.h"

#define LIKE  "2026-03-31T23:59:59Z"
#define DAY_S INT64_C(86400)

/* ---- the civil calendar ---- */

/* The civil year is taken to begin in March, so that the leap day comes last
 * and the months' lengths fall on a straight line: (153 m + 2) / 5. An era is
 * 400 years, after which the calendar repeats. */
int64_t sl_days_from_civil(int64_t year, int64_t month, int64_t day)
{
    int64_t y = month <= 2 ? year - 1 : year;
    int64_t era = sl_floor_div(y, 400);
    int64_t of_era = y - era * 400;
    int64_t of_year = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5;

    return era * 146097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year +
           day - 1 - 719468;
}

void sl_civil_from_days(int64_t days, int64_t *year, int64_t *month,
                        int64_t *day)
{
    int64_t z = days + 719468;
    int64_t era = sl_floor_div(z, 146097);
    int64_t of_era = z - era * 146097;
    int64_t y =
        (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
    int64_t of_year = of_era - (365 * y + y / 4 - y / 100);
    int64_t m = (5 * of_year + 2) / 153;

    *day = of_year - (153 * m + 2) / 5 + 1;
    *month = m < 10 ? m + 3 : m - 9;
    *year = y + era * 400 + (*month <= 2);
}

/* ---- reading ---- */

enum field { YEAR, MONTH, DAY, HOUR, MINUTE, SECOND, FIELDS };

/* Where a field is, what may be in it, and what stands before it. */
static const struct {
    const char *noun;
    char before;
    unsigned width;
    int64_t least, most;
} fields[FIELDS] = {
    {"year",   0,   4, 0, 9999},
    {"month",  '-', 2, 1, 12  },
    {"day",    '-', 2, 1, 31  },
    {"hour",   'T', 2, 0, 23  },
    {"minute", ':', 2, 0, 59  },
    {"second", ':', 2, 0, 60  }, /* 60 is a leap second */
};

static int refuse_shape(const struct sl_scan *scan)
{
    sl_diag_error_at(scan->diag, SLUICE_ECONF, scan->at,
                     "Invalid timestamp \"%s\". Write it like " LIKE,
                     sl_quote(scan->text).text);
    return SLUICE_ECONF;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Exactly `width` digits. */
static int scan_digits(struct sl_scan *scan, unsigned width, int64_t *ret)
{
    int64_t n = 0;

    for (unsigned i = 0; i < width; i++, scan->at++) {
        if (!is_digit(sl_scan_peek(scan)))
            return refuse_shape(scan);
        n = n * 10 + (sl_scan_peek(scan) - '0');
    }
    *ret = n;
    return 0;
}

static int refuse_range(const struct sl_scan *scan, enum field field)
{
    size_t from = scan->at - fields[field].width;

    return sl_diag_error_at(
        scan->diag, SLUICE_ECONF, from,
        "Invalid value \"%.*s\". The %s must be %02d to %02d",
        (int)fields[field].width, scan->text.at + from, fields[field].noun,
        (int)fields[field].least, (int)fields[field].most);
}

/* What stands between date and time is not a T. */
static int refuse_date(const struct sl_scan *scan)
{
    if (sl_scan_done(scan)) {
        sl_diag_error_at(scan->diag, SLUICE_ECONF, scan->at,
                         "\"%s\" is a date without a time. Add the time",
                         sl_quote(scan->text).text);
        sl_diag_hint(scan->diag, "%.*sT00:00:00Z", SL_STR_ARG(scan->text));
        return SLUICE_ECONF;
    }
    refuse_shape(scan);
    if (sl_scan_peek(scan) == ' ')
        sl_scan_instead(scan, scan->at, scan->at + 1, "T");
    return SLUICE_ECONF;
}

static int scan_field(struct sl_scan *scan, enum field field, int64_t *ret)
{
    char before = fields[field].before, c = sl_scan_peek(scan);

    if (before && c != before && !(before == 'T' && c == 't'))
        return before == 'T' ? refuse_date(scan) : refuse_shape(scan);
    scan->at += before != 0;
    if (scan_digits(scan, fields[field].width, ret))
        return SLUICE_ECONF;
    if (*ret < fields[field].least || *ret > fields[field].most)
        return refuse_range(scan, field);
    return 0;
}

/* Digits of a second: nine count, more are cut. */
static int scan_fraction(struct sl_scan *scan, int64_t *ret)
{
    int64_t unit = SL_S;

    *ret = 0;
    if (sl_scan_peek(scan) != '.')
        return 0;
    scan->at++;
    if (!is_digit(sl_scan_peek(scan)))
        return refuse_shape(scan);
    for (; is_digit(sl_scan_peek(scan)); scan->at++) {
        unit /= 10;
        *ret += (sl_scan_peek(scan) - '0') * unit;
    }
    return 0;
}

static int refuse_no_zone(const struct sl_scan *scan)
{
    sl_diag_error_at(scan->diag, SLUICE_ECONF, scan->at,
                     "\"%s\" has no time zone. Append Z for UTC, or an offset "
                     "like +02:00",
                     sl_quote(scan->text).text);
    sl_diag_hint(scan->diag, "%.*sZ", SL_STR_ARG(scan->text));
    return SLUICE_ECONF;
}

/* The offset from UTC in seconds. */
static int scan_zone(struct sl_scan *scan, int64_t *ret)
{
    char c = sl_scan_peek(scan);
    int64_t hours = 0, minutes = 0;

    *ret = 0;
    if (sl_scan_done(scan))
        return refuse_no_zone(scan);
    scan->at++;
    if (c == 'Z' || c == 'z')
        return 0;
    if (c != '+' && c != '-') {
        scan->at--;
        return refuse_shape(scan);
    }
    if (scan_digits(scan, fields[HOUR].width, &hours))
        return SLUICE_ECONF;
    if (hours > fields[HOUR].most)
        return refuse_range(scan, HOUR);
    if (scan_field(scan, MINUTE, &minutes))
        return SLUICE_ECONF;
    *ret = (hours * 60 + minutes) * (c == '-' ? -60 : 60);
    return 0;
}

/* Does the month have that day? */
static int check_day(const struct sl_scan *scan, const int64_t at[FIELDS])
{
    int64_t first = sl_days_from_civil(at[YEAR], at[MONTH], 1);
    int64_t next = at[MONTH] == 12
                       ? sl_days_from_civil(at[YEAR] + 1, 1, 1)
                       : sl_days_from_civil(at[YEAR], at[MONTH] + 1, 1);

    if (at[DAY] <= next - first)
        return 0;
    return sl_diag_error_at(scan->diag, SLUICE_ECONF, 8,
                            "Invalid date \"%.10s\": %.7s has %d days",
                            scan->text.at, scan->text.at, (int)(next - first));
}

static int refuse_far(const struct sl_scan *scan, const char *where)
{
    return sl_diag_error(
        scan->diag, SLUICE_ECONF,
        "Timestamp \"%s\" is %s. Timestamps range from 1970 to "
        "February 2116",
        sl_quote(scan->text).text, where);
}

int sl_timestamp_parse(struct sl_str text, sl_ns *ret, struct sl_diag *diag)
{
    int64_t at[FIELDS], fraction, offset, seconds;
    struct sl_scan scan;

    if (sl_scan_open(&scan, text, "a timestamp", LIKE, diag))
        return SLUICE_ECONF;
    for (enum field f = YEAR; f < FIELDS; f++)
        if (scan_field(&scan, f, &at[f]))
            return SLUICE_ECONF;
    if (scan_fraction(&scan, &fraction) || scan_zone(&scan, &offset))
        return SLUICE_ECONF;
    if (!sl_scan_done(&scan))
        return refuse_shape(&scan);
    if (check_day(&scan, at))
        return SLUICE_ECONF;
    seconds = sl_days_from_civil(at[YEAR], at[MONTH], at[DAY]) * DAY_S +
              (at[HOUR] * 60 + at[MINUTE]) * 60 + at[SECOND] - offset;
    if (seconds < 0)
        return refuse_far(&scan, "before 1970");
    if (seconds > SL_TIME_END / SL_S ||
        seconds * SL_S + fraction >= SL_TIME_END)
        return refuse_far(&scan, "too late");
    *ret = seconds * SL_S + fraction;
    return 0;
}

bool sl_day_read(struct sl_str text, int64_t *ret)
{
    char whole[32];
    sl_ns at;

    if (text.len != 10)
        return false;
    snprintf(whole, sizeof(whole), "%.10sT00:00:00Z", text.at);
    if (sl_timestamp_parse(sl_str_c(whole), &at, NULL))
        return false;
    *ret = at / (DAY_S * SL_S);
    return true;
}

/* ---- writing ---- */

size_t sl_timestamp_print(sl_ns instant, bool ms, char out[SL_TIMESTAMP_TEXT])
{
    int64_t seconds = instant > 0 ? instant / SL_S : 0;
    int64_t of_day = seconds % DAY_S, year, month, day;
    char *at = out;

    sl_civil_from_days(seconds / DAY_S, &year, &month, &day);
    at = sl_digits_padded((uint64_t)year, 4, at);
    *at++ = '-';
    at = sl_digits_padded((uint64_t)month, 2, at);
    *at++ = '-';
    at = sl_digits_padded((uint64_t)day, 2, at);
    *at++ = 'T';
    at = sl_digits_padded((uint64_t)(of_day / 3600), 2, at);
    *at++ = ':';
    at = sl_digits_padded((uint64_t)(of_day / 60 % 60), 2, at);
    *at++ = ':';
    at = sl_digits_padded((uint64_t)(of_day % 60), 2, at);
    if (ms) {
        *at++ = '.';
        at = sl_digits_padded(
            (uint64_t)(instant > 0 ? instant % SL_S / SL_MS : 0), 3, at);
    }
    *at++ = 'Z';
    *at = '\0';
    return (size_t)(at - out);
}

/* ---- the three forms of a date in HTTP, each a pattern.
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
