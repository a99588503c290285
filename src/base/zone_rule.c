/* zone_rule.c -- the POSIX TZ string that closes a TZif file.
 *
 *     CET-1CEST,M3.5.0,M10.5.0/3
 *
 * reads: standard time is called CET and is one hour ahead of Greenwich (the
 * sign says how to get to UTC, not from it); summer time is CEST, an hour
 * more; it begins on the last Sunday of March at 2:00, when nothing is said,
 * and ends on the last Sunday of October at 3:00, both in the local time that
 * was in force until then.
 *
 * Names may be quoted, <+0330>, and are skipped: nobody asks for them. RFC
 * 8536 lets the time of day run from -167 to 167 hours, which some zones use
 * to say "the day after the fourth Thursday".
 *
 * A summer time without days is legal in POSIX and means whatever the system
 * likes. It is refused.
 */
#include "base/zone_rule.h"

#include <string.h>

#define DAY_SECONDS 86400

/* Where reading has got to. */
struct cursor {
    struct sl_str text;
    size_t at;
    struct sl_diag *diag;
};

static char peek(const struct cursor *c)
{
    return c->at < c->text.len ? c->text.at[c->at] : '\0';
}

static bool pass(struct cursor *c, char wanted)
{
    if (c->at == c->text.len || peek(c) != wanted)
        return false;
    c->at++;
    return true;
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static int refuse(const struct cursor *c, const char *what)
{
    return sl_refuse_at(c->diag, SLUICE_ECONF, c->at,
                        "Invalid closing rule \"%.*s\". Expected %s at byte "
                        "%zu",
                        SL_STR_ARG(c->text), what, c->at + 1);
}

/* CET or <+01>; at least three characters, as POSIX has it. */
static int read_name(struct cursor *c)
{
    bool quoted = pass(c, '<');
    size_t from = c->at;

    while (is_letter(peek(c)) ||
           (quoted && (is_digit(peek(c)) || peek(c) == '+' || peek(c) == '-')))
        c->at++;
    if (c->at - from < 3)
        return refuse(c, "a name of three letters or more");
    if (quoted && !pass(c, '>'))
        return refuse(c, "a \">\"");
    return 0;
}

/* A number between `least` and `most` (< 1000). */
static int read_int(struct cursor *c, int least, int most, const char *what,
                    int *ret)
{
    size_t from = c->at;
    int n = 0;

    while (is_digit(peek(c)) && c->at - from < 3)
        n = n * 10 + (c->text.at[c->at++] - '0');
    if (c->at == from || n < least || n > most) {
        c->at = from;
        return refuse(c, what);
    }
    *ret = n;
    return 0;
}

/* [+-]hh[:mm[:ss]] */
static int read_time(struct cursor *c, int most_hours, const char *what,
                     int32_t *ret)
{
    bool negative = peek(c) == '-';
    int hours = 0, minutes = 0, seconds = 0, err;

    if (negative || peek(c) == '+')
        c->at++;
    err = read_int(c, 0, most_hours, what, &hours);
    if (!err && pass(c, ':')) {
        err = read_int(c, 0, 59, "minutes from 0 to 59", &minutes);
        if (!err && pass(c, ':'))
            err = read_int(c, 0, 59, "seconds from 0 to 59", &seconds);
    }
    if (err)
        return err;
    *ret = hours * 3600 + minutes * 60 + seconds;
    if (negative)
        *ret = -*ret;
    return 0;
}

static int read_offset(struct cursor *c, int32_t *ret)
{
    int32_t west;
    int err = read_time(c, 24, "an offset from 0 to 24 hours", &west);

    if (!err)
        *ret = -west;
    return err;
}

static int read_weekday(struct cursor *c, struct sl_change *ret)
{
    int err = read_int(c, 1, 12, "a month from 1 to 12", &ret->month);

    if (!err && !pass(c, '.'))
        err = refuse(c, "a \".\"");
    if (!err)
        err = read_int(c, 1, 5, "a week from 1 to 5", &ret->week);
    if (!err && !pass(c, '.'))
        err = refuse(c, "a \".\"");
    if (!err)
        err = read_int(c, 0, 6, "a day of the week from 0 to 6", &ret->weekday);
    return err;
}

/* ,day[/time] */
static int read_change(struct cursor *c, struct sl_change *ret)
{
    int err;

    *ret = (struct sl_change){.form = SL_DAY_PLAIN, .time = 2 * 3600};
    if (!pass(c, ','))
        return refuse(c, "a comma and the day of a change");
    if (pass(c, 'M')) {
        ret->form = SL_DAY_WEEKDAY;
        err = read_weekday(c, ret);
    } else if (pass(c, 'J')) {
        ret->form = SL_DAY_JULIAN;
        err = read_int(c, 1, 365, "a day from 1 to 365", &ret->day);
    } else {
        err = read_int(c, 0, 365, "a day: Mm.w.d, Jn or 0 to 365", &ret->day);
    }
    if (!err && pass(c, '/'))
        err = read_time(c, 167, "a time from 0 to 167 hours", &ret->time);
    return err;
}

/* DST[offset],begin,end */
static int read_summer(struct cursor *c, struct sl_zone_rule *rule)
{
    int err = read_name(c);

    rule->has_summer = true;
    rule->summer = rule->standard + 3600;
    if (!err && peek(c) != ',')
        err = read_offset(c, &rule->summer);
    if (!err)
        err = read_change(c, &rule->begin);
    if (!err)
        err = read_change(c, &rule->end);
    return err;
}

int sl_zone_rule_parse(struct sl_str text, struct sl_zone_rule *ret,
                       struct sl_diag *diag)
{
    struct cursor c = {text, 0, diag};
    struct sl_zone_rule rule = {.has_summer = false};
    int err = read_name(&c);

    if (!err)
        err = read_offset(&c, &rule.standard);
    if (!err && c.at < text.len)
        err = read_summer(&c, &rule);
    if (!err && c.at < text.len)
        err = refuse(&c, "the end");
    if (!err)
        *ret = rule;
    return err;
}

static bool is_leap(int64_t year)
{
    return year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
}

/* Days from 1970-01-01 to January 1 of `year` (>= 1). */
static int64_t year_start(int64_t year)
{
    int64_t y = year - 1;

    return 365 * y + y / 4 - y / 100 + y / 400 - 719162;
}

int64_t sl_zone_year(int64_t at)
{
    int64_t days = at / DAY_SECONDS;
    int64_t year = 1970 + days * 400 / 146097; /* not off by more than one */

    while (year_start(year) > days)
        year--;
    while (year_start(year + 1) <= days)
        year++;
    return year;
}

/* Days from January 1 to the first of `month` (1 .. 13). */
static int month_start(int month, bool leap)
{
    static const int starts[] = {0,   31,  59,  90,  120, 151, 181,
                                 212, 243, 273, 304, 334, 365};

    return starts[month - 1] + (leap && month > 2);
}

static int64_t weekday_in(const struct sl_change *change, int64_t year)
{
    bool leap = is_leap(year);
    int64_t first = year_start(year) + month_start(change->month, leap);
    int64_t next = year_start(year) + month_start(change->month + 1, leap);
    int64_t weekday = ((first + 4) % 7 + 7) % 7; /* 1970 began on a Thursday */
    int64_t day = first + (change->weekday - weekday + 7) % 7;

    day += INT64_C(7) * (change->week - 1);
    return day < next ? day : day - 7; /* week 5 is the last, be it the 4th */
}

/* The UTC second of a change, before which `offset` is in force. */
static int64_t moment(const struct sl_change *change, int64_t year,
                      int32_t offset)
{
    int64_t day = year_start(year);

    if (change->form == SL_DAY_WEEKDAY)
        day = weekday_in(change, year);
    else if (change->form == SL_DAY_PLAIN)
        day += change->day;
    else /* day 60 is March 1, every year */
        day += change->day - 1 + (is_leap(year) && change->day >= 60);
    return day * DAY_SECONDS + change->time - offset;
}

void sl_zone_rule_year(const struct sl_zone_rule *rule, int64_t year,
                       struct sl_shift ret[2])
{
    struct sl_shift begin = {
        .at = moment(&rule->begin, year, rule->standard),
        .offset = rule->summer,
    };
    struct sl_shift end = {
        .at = moment(&rule->end, year, rule->summer),
        .offset = rule->standard,
    };
    bool begin_first = begin.at < end.at;

    ret[0] = begin_first ? begin : end;
    ret[1] = begin_first ? end : begin;
}
