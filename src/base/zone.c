/* zone.c -- from the bytes of a TZif file to a list of shifts.
 *
 *     header  v1 block   header  v2 block   \n rule \n
 *     |<-- skipped --->| |<- 64-bit times ->| |<-TZ->|
 *
 * A block is a row of arrays whose lengths stand in its header:
 *
 *     times     when something changes       ] one of each
 *     indexes   to which type it changes     ] for every change
 *     types     offset, summer or not, where its name starts
 *     names     (not read)
 *     leaps     (not read, see below)
 *     std, ut   (not read; they serve only zic itself)
 *
 * The rule at the end continues where the times stop, year by year. Without a
 * rule the last offset stays.
 *
 * The file is not trusted: every length is checked before it is used.
 *
 * Leap seconds are not supported: zones under right/ shift about thirty seconds
 * late.
 *
 * Invariants of the result.
 *   (1) shifts[].at strictly increases.
 *   (2) No shift repeats the offset before it.
 *   (3) |offset| < 26 hours.
 */
#include "base/zone.h"

#include <assert.h>
#include <endian.h>
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"

#define SHIFTS_MAX 20000
#define OFFSET_END (26 * 3600)

/* RFC 8536 sets the lower end; the upper is its mirror. */
#define TIME_END (INT64_C(1) << 59)

#define HEADER_SIZE 44
#define TYPE_SIZE   ((size_t)6)

const struct sl_zone sl_zone_utc = {.shifts = NULL, .count = 0, .before = 0};

/* A block: its lengths, and where its arrays begin in the file. */
struct block {
    uint32_t ut, std, leaps, times, types, names;
    size_t time_size; /* 4 or 8 */
    size_t at;        /* the times; the other arrays follow */
    size_t end;
};

/* The list under construction. */
struct draft {
    struct sl_shift *shifts;
    size_t count;
    int32_t before;
    int64_t last; /* the latest time seen, whether or not it made a shift */
};

int32_t sl_zone_offset(const struct sl_zone *zone, int64_t at)
{
    size_t low = 0, high = zone->count; /* shifts[low - 1].at <= at */

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (zone->shifts[middle].at <= at)
            low = middle + 1;
        else
            high = middle;
    }
    return low > 0 ? zone->shifts[low - 1].offset : zone->before;
}

static uint32_t load32(struct sl_str bytes, size_t at)
{
    uint32_t n;

    assert(at + sizeof(n) <= bytes.len);
    memcpy(&n, bytes.at + at, sizeof(n));
    return be32toh(n);
}

static int64_t load64(struct sl_str bytes, size_t at)
{
    uint64_t n;

    assert(at + sizeof(n) <= bytes.len);
    memcpy(&n, bytes.at + at, sizeof(n));
    return (int64_t)be64toh(n);
}

static uint8_t load8(struct sl_str bytes, size_t at)
{
    assert(at < bytes.len);
    return (uint8_t)bytes.at[at];
}

static int refuse_short(struct sl_str bytes, struct sl_diag *diag)
{
    return sl_diag_error_at(diag, SLUICE_ECONF, bytes.len,
                            "The time zone file is truncated after %zu bytes",
                            bytes.len);
}

static int check_magic(struct sl_str bytes, size_t at, struct sl_diag *diag)
{
    uint8_t version;

    if (bytes.len < at || bytes.len - at < HEADER_SIZE)
        return refuse_short(bytes, diag);
    if (memcmp(bytes.at + at, "TZif", 4) != 0)
        return sl_diag_error_at(
            diag, SLUICE_ECONF, at,
            "Not a time zone file. The header must begin with "
            "\"TZif\"");
    version = load8(bytes, at + 4);
    if (version < '2' || version > '9')
        return sl_diag_error_at(
            diag, SLUICE_ECONF, at + 4,
            "The time zone file has no 64-bit times. It must "
            "have version 2 or later");
    return 0;
}

/* Read the header at `at` and find the bounds of the block behind it. */
static int read_header(struct sl_str bytes, size_t at, size_t time_size,
                       struct block *ret, struct sl_diag *diag)
{
    uint32_t n[6];
    size_t size = 0;
    int err = check_magic(bytes, at, diag);

    if (err)
        return err;
    for (size_t i = 0; i < SL_LEN(n); i++) {
        n[i] = load32(bytes, at + 20 + 4 * i);
        if (n[i] > SHIFTS_MAX)
            return sl_diag_error_at(diag, SLUICE_ECONF, at + 20 + 4 * i,
                                    "The time zone file has %" PRIu32
                                    " entries "
                                    "of one kind. The maximum is %d",
                                    n[i], SHIFTS_MAX);
    }
    *ret = (struct block){n[0], n[1], n[2], n[3], n[4], n[5], time_size, 0, 0};
    ret->at = at + HEADER_SIZE;
    size = ret->times * (time_size + 1) + ret->types * TYPE_SIZE + ret->names +
           ret->leaps * (time_size + 4) + ret->std + ret->ut;
    if (bytes.len - ret->at < size)
        return refuse_short(bytes, diag);
    ret->end = ret->at + size;
    return 0;
}

static size_t type_at(const struct block *block, size_t type)
{
    return block->at + block->times * (block->time_size + 1) + type * TYPE_SIZE;
}

static int32_t type_offset(struct sl_str bytes, const struct block *block,
                           size_t type)
{
    return (int32_t)load32(bytes, type_at(block, type));
}

static int check_types(struct sl_str bytes, const struct block *block,
                       struct sl_diag *diag)
{
    if (block->types == 0 || block->types > 256)
        return sl_diag_error_at(diag, SLUICE_ECONF, block->at - 8,
                                "The time zone file has %" PRIu32 " types of "
                                "local time. It must have 1 to 256",
                                block->types);
    for (size_t i = 0; i < block->types; i++) {
        size_t at = type_at(block, i);
        int32_t offset = type_offset(bytes, block, i);

        if (offset <= -OFFSET_END || offset >= OFFSET_END)
            return sl_diag_error_at(diag, SLUICE_ECONF, at,
                                    "A local time is %" PRId32
                                    " s from UTC. It "
                                    "must be less than 26 hours",
                                    offset);
        if (load8(bytes, at + 4) > 1 || load8(bytes, at + 5) >= block->names)
            return sl_diag_error_at(diag, SLUICE_ECONF, at + 4,
                                    "Type %zu of the time zone file is invalid",
                                    i);
    }
    return 0;
}

/* Add a shift that is not earlier than the last. Of two at the same moment
 * the later wins. (1) (2) */
static void add_shift(struct draft *draft, struct sl_shift shift)
{
    int32_t offset = draft->before;

    assert(draft->shifts); /* sl_zone_parse() made room for all that come */
    draft->last = shift.at;
    if (draft->count > 0 && draft->shifts[draft->count - 1].at == shift.at)
        draft->count--;
    if (draft->count > 0)
        offset = draft->shifts[draft->count - 1].offset;
    if (shift.offset != offset)
        draft->shifts[draft->count++] = shift;
}

static int read_times(struct sl_str bytes, const struct block *block,
                      struct draft *draft, struct sl_diag *diag)
{
    for (size_t i = 0; i < block->times; i++) {
        size_t at = block->at + 8 * i;
        size_t index_at = block->at + 8 * (size_t)block->times + i;
        int64_t time = load64(bytes, at);
        uint8_t type = load8(bytes, index_at);

        if (time < -TIME_END || time > TIME_END)
            return sl_diag_error_at(diag, SLUICE_ECONF, at,
                                    "Shift %zu of the time zone file is out of "
                                    "range",
                                    i);
        if (i > 0 && time <= draft->last)
            return sl_diag_error_at(
                diag, SLUICE_ECONF, at,
                "Shift %zu of the time zone file is not later "
                "than the shift before it",
                i);
        if (type >= block->types)
            return sl_diag_error_at(
                diag, SLUICE_ECONF, index_at,
                "Shift %zu of the time zone file has type %d, "
                "but the number of types is %" PRIu32,
                i, type, block->types);
        add_shift(draft, (struct sl_shift){
                             .at = time,
                             .offset = type_offset(bytes, block, type),
                         });
    }
    return 0;
}

/* Find and read the rule. An empty one leaves `ret` without a summer time. */
static int read_rule(struct sl_str bytes, const struct block *block,
                     struct sl_zone_rule *ret, struct sl_diag *diag)
{
    struct sl_str text = sl_str_from(bytes, block->end);
    int err;

    if (text.len < 2 || text.at[0] != '\n' || text.at[text.len - 1] != '\n')
        return sl_diag_error_at(
            diag, SLUICE_ECONF, block->end,
            "The time zone file must end with a rule between "
            "two newlines");
    text = (struct sl_str){text.at + 1, text.len - 2};
    *ret = (struct sl_zone_rule){.has_summer = false};
    if (text.len == 0)
        return 0;
    err = sl_zone_rule_parse(text, ret, diag);
    if (err && diag)
        diag->at += block->end + 1;
    return err;
}

/* The first and the last year for which the rule must be asked. A shift may
 * lie in the year before or behind its own, by a time of +-167 hours. */
struct years {
    int64_t first, last;
};

static struct years rule_years(const struct sl_zone_rule *rule,
                               int64_t last_time, int64_t until)
{
    if (!rule->has_summer || until <= last_time)
        return (struct years){0, -1};
    return (struct years){
        .first = sl_zone_year(last_time > 0 ? last_time : 0) - 1,
        .last = sl_zone_year(until > 0 ? until : 0) + 1,
    };
}

static int follow_rule(const struct sl_zone_rule *rule, struct years years,
                       int64_t until, struct draft *draft, struct sl_diag *diag)
{
    int64_t after = draft->last;
    bool any = false;

    for (int64_t year = years.first; year <= years.last; year++) {
        struct sl_shift pair[2];

        sl_zone_rule_year(rule, year, pair);
        for (size_t i = 0; i < SL_LEN(pair); i++) {
            if (pair[i].at <= after || pair[i].at > until)
                continue;
            if (any && pair[i].at < draft->last)
                return sl_diag_error(
                    diag, SLUICE_ECONF,
                    "The closing rule puts a shift of the year %" PRId64 " "
                    "before a shift of the previous year",
                    year);
            add_shift(draft, pair[i]);
            any = true;
        }
    }
    return 0;
}

/* Give back what the list does not need, and hand it over. */
static int finish(struct draft *draft, size_t room,
                  const struct sl_alloc *alloc, struct sl_zone *ret)
{
    size_t size = draft->count * sizeof(*draft->shifts);

    if (draft->count == 0) {
        sl_alloc_free(alloc, draft->shifts, room);
        draft->shifts = NULL;
    } else if (size < room) {
        void *less = alloc->resize(alloc->ctx, draft->shifts, room, size);

        if (!less)
            return SLUICE_ENOMEM;
        draft->shifts = less;
    }
    *ret = (struct sl_zone){draft->shifts, draft->count, draft->before};
    draft->shifts = NULL; /* handed over */
    return 0;
}

/* The two blocks and the rule, all of it checked except the times. */
static int read_frame(struct sl_str bytes, struct block *ret,
                      struct sl_zone_rule *ret_rule, struct sl_diag *diag)
{
    struct block old;
    int err = read_header(bytes, 0, 4, &old, diag);

    if (!err)
        err = read_header(bytes, old.end, 8, ret, diag);
    if (!err)
        err = check_types(bytes, ret, diag); /* (3) */
    if (!err)
        err = read_rule(bytes, ret, ret_rule, diag);
    return err;
}

int sl_zone_parse(struct sl_str bytes, int64_t until,
                  const struct sl_alloc *alloc, struct sl_zone *ret,
                  struct sl_diag *diag)
{
    struct draft draft = {.last = INT64_MIN};
    struct sl_zone_rule rule;
    struct block block;
    struct years years;
    size_t room = 0;
    int err = read_frame(bytes, &block, &rule, diag);

    if (err)
        return err;
    if (block.times > 0)
        draft.last = load64(bytes, block.at + 8 * (size_t)(block.times - 1));
    years = rule_years(&rule, draft.last, until);
    if (block.times + 2 * (years.last - years.first + 1) > SHIFTS_MAX)
        return sl_diag_error(diag, SLUICE_EFULL,
                             "The time zone has, up to the year %" PRId64
                             ", more "
                             "than %d shifts",
                             years.last, SHIFTS_MAX);
    room = (block.times + 2 * (size_t)(years.last - years.first + 1)) *
           sizeof(*draft.shifts);
    if (room > 0) {
        draft.shifts = sl_alloc_new(alloc, room);
        if (!draft.shifts)
            return SLUICE_ENOMEM;
    }
    draft.before = type_offset(bytes, &block, 0);
    err = read_times(bytes, &block, &draft, diag);
    if (!err)
        err = follow_rule(&rule, years, until, &draft, diag);
    if (!err)
        err = finish(&draft, room, alloc, ret);
    sl_alloc_free(alloc, draft.shifts, room);
    return err;
}

void sl_zone_done(struct sl_zone *zone, const struct sl_alloc *alloc)
{
    /* The allocator handed out these bytes to be written; only the zone's
     * readers promise not to. */
    sl_alloc_free(alloc, (void *)zone->shifts,
                  zone->count * sizeof(*zone->shifts));
    *zone = sl_zone_utc;
}

/* ---- the POSIX TZ string that closes a TZif file.
 *
 *     CET-1CEST,M3.5.0,M10.5.0/3
 *
 * reads: standard time is called CET and is one hour ahead of Greenwich (the
 * sign says how to get to UTC, not from it); summer time is CEST, an hour
 * more; it begins on the last Sunday of March at 2:00, when nothing is said,
 * and ends on the last Sunday of October at 3:00, both in the local time that
 * was in force until then.
 *
 * Names may be quoted, <+0330>, and are skipped. RFC
 * 8536 lets the time of day run from -167 to 167 hours, which some zones use
 * to say "the day after the fourth Thursday".
 *
 * A summer time without days is legal in POSIX and means whatever the system
 * likes. It is refused.
 */

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
    return sl_diag_error_at(
        c->diag, SLUICE_ECONF, c->at,
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

static int read_weekday(struct cursor *c, struct sl_zone_change *ret)
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
static int read_change(struct cursor *c, struct sl_zone_change *ret)
{
    int err;

    *ret = (struct sl_zone_change){.form = SL_DAY_PLAIN, .time = 2 * 3600};
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

static int64_t weekday_in(const struct sl_zone_change *change, int64_t year)
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
static int64_t moment(const struct sl_zone_change *change, int64_t year,
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

/* ---- zones of the system, by name ---- */

#define FILE_MAX 65536 /* the largest zone of tzdata has 4 KiB */

/* Letters, digits, _ - + and single slashes: nothing that leaves the folder. */
static bool plain_name(const char *name)
{
    size_t len = strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrst"
                              "uvwxyz0123456789_-+/");

    return len > 0 && name[len] == '\0' && name[0] != '/' &&
           !strstr(name, "//");
}

int sl_zone_load(const char *name, const struct sl_alloc *alloc,
                 struct sl_zone *ret, struct sl_diag *diag)
{
    const char *dir = getenv("TZDIR");
    struct sl_buf bytes;
    char path[512];
    int err;

    if (!plain_name(name))
        return sl_diag_error(diag, SLUICE_ECONF,
                             "Invalid time zone name \"%s\". Write it like "
                             "Europe/Berlin",
                             name);
    snprintf(path, sizeof(path), "%s/%s",
             dir && *dir ? dir : "/usr/share/zoneinfo", name);
    sl_buf_init(&bytes, 2 * FILE_MAX, alloc);
    err = sl_file_read(path, FILE_MAX, &bytes, NULL);
    if (!err)
        err = sl_zone_parse(sl_buf_str(&bytes), SL_TIME_END / SL_S, alloc, ret,
                            diag);
    else if (err == SLUICE_ESYS)
        sl_diag_error(diag, SLUICE_ECONF,
                      "Unknown time zone \"%s\". Cannot read %s: %s", name,
                      path, strerror(errno));
    else if (err == SLUICE_EFULL)
        sl_diag_error(diag, SLUICE_ECONF, "Time zone file %s is too large",
                      path);
    sl_buf_done(&bytes);
    if (err == SLUICE_ENOMEM)
        return sl_diag_error(diag, err, "out of memory");
    return err ? SLUICE_ECONF : 0;
}

struct shared_zone {
    struct sl_named_zone named; /* first */
    struct shared_zone *next;
    char name[];
};

static struct shared_zone *shared_zones;
static pthread_mutex_t shared_lock = PTHREAD_MUTEX_INITIALIZER;

static struct shared_zone *share(struct sl_str name, struct sl_diag *diag)
{
    const struct sl_alloc *alloc = &sl_alloc_libc;
    size_t size = sizeof(struct shared_zone) + name.len + 1;
    struct shared_zone *new = sl_alloc_new(alloc, size);

    if (!new) {
        sl_diag_error(diag, SLUICE_ENOMEM, "out of memory");
        return NULL;
    }
    snprintf(new->name, name.len + 1, "%.*s", SL_STR_ARG(name));
    if (strlen(new->name) != name.len ||
        sl_zone_load(new->name, alloc, &new->named.zone, diag)) {
        sl_alloc_free(alloc, new, size);
        return NULL;
    }
    new->named.name = sl_str_c(new->name);
    new->next = shared_zones;
    shared_zones = new;
    return new;
}

const struct sl_named_zone *sl_zone_shared(struct sl_str name,
                                           struct sl_diag *diag)
{
    struct shared_zone *z;

    pthread_mutex_lock(&shared_lock);
    for (z = shared_zones; z; z = z->next)
        if (sl_str_eq(sl_str_c(z->name), name))
            break;
    if (!z)
        z = share(name, diag);
    pthread_mutex_unlock(&shared_lock);
    return z ? &z->named : NULL;
}
