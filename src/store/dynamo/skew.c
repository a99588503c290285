/* skew.c -- how far a server's clock is from ours, by its Date. */
#include "store/dynamo/skew.h"

#include "base/timestamp.h"

static const char months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";

/* `len` digits. */
static bool number_at(struct sl_str text, size_t at, size_t len, int64_t most,
                      int64_t *ret)
{
    *ret = 0;
    for (size_t i = at; i < at + len; i++) {
        if (text.at[i] < '0' || text.at[i] > '9')
            return false;
        *ret = *ret * 10 + (text.at[i] - '0');
    }
    return *ret <= most;
}

static int64_t month_at(struct sl_str text, size_t at)
{
    for (int64_t i = 0; i < 12; i++)
        if (memcmp(text.at + at, months + 3 * i, 3) == 0)
            return i + 1;
    return 0;
}

int sl_date_read(struct sl_str text, sl_ns *ret)
{
    int64_t day, year, hour, minute, second, month, days;

    if (text.len != 29 || memcmp(text.at + 25, " GMT", 4) != 0)
        return SLUICE_ECONF;
    month = month_at(text, 8);
    if (month == 0 || !number_at(text, 5, 2, 31, &day) || day == 0 ||
        !number_at(text, 12, 4, 2115, &year) || year < 1970 ||
        !number_at(text, 17, 2, 23, &hour) ||
        !number_at(text, 20, 2, 59, &minute) ||
        !number_at(text, 23, 2, 60, &second))
        return SLUICE_ECONF;
    days = sl_days_from_civil(year, month, day);
    *ret = days * SL_DAY + hour * SL_HOUR + minute * SL_MIN + second * SL_S;
    return 0;
}

void sl_skew_note(struct sl_skew *skew, sl_ns date, sl_ns sent, sl_ns received)
{
    sl_ns least = date - received, most = date + SL_S - sent;

    if (skew->known && least < skew->most && most > skew->least) {
        skew->least = least > skew->least ? least : skew->least;
        skew->most = most < skew->most ? most : skew->most;
        return;
    }
    *skew = (struct sl_skew){true, least, most};
}

sl_ns sl_skew_of(const struct sl_skew *skew)
{
    if (!skew->known)
        return 0;
    if (skew->least > 0)
        return skew->least;
    return skew->most < 0 ? skew->most : 0;
}
