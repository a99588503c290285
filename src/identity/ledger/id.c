/* id.c -- what the books call a subject, and a month. */
#include "base/timestamp.h"
#include "registry/usage_db.h"

static int add_escaped(struct sl_buf *out, struct sl_str value)
{
    int err = 0;

    for (size_t i = 0; i < value.len && !err; i++)
        if (value.at[i] == ':' || value.at[i] == '%')
            err = sl_buf_addf(out, "%%%02X", (unsigned)value.at[i]);
        else
            err = sl_buf_add(out, (struct sl_str){value.at + i, 1});
    return err;
}

bool sl_usage_join(const struct sl_str *values, unsigned count,
                   struct sl_buf *out)
{
    if (count == 1)
        return values[0].len <= SL_USAGE_ID && !sl_buf_add(out, values[0]);
    for (unsigned i = 0; i < count; i++)
        if ((i > 0 && sl_buf_add(out, SL_STR(":"))) ||
            add_escaped(out, values[i]))
            return false;
    return out->len <= SL_USAGE_ID;
}

static int digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* Of one value, in place. False if an escape is none of ours. */
static bool unescape(struct sl_str *value)
{
    char *at = (char *)value->at;
    size_t len = 0;

    for (size_t i = 0; i < value->len; i++, len++) {
        int high, low;

        at[len] = at[i];
        if (at[i] != '%')
            continue;
        if (value->len - i < 3)
            return false;
        high = digit(at[i + 1]);
        low = digit(at[i + 2]);
        if (high < 0 || low < 0)
            return false;
        at[len] = (char)(16 * high + low);
        i += 2;
    }
    value->len = len;
    return true;
}

bool sl_usage_split(char *text, size_t len, unsigned count, struct sl_str *ret)
{
    unsigned found = 0;
    size_t from = 0;

    if (count == 0)
        return len == 0;
    if (count == 1) {
        ret[0] = (struct sl_str){text, len};
        return true;
    }
    for (size_t i = 0; i <= len; i++) {
        if (i < len && text[i] != ':')
            continue;
        if (found == count)
            return false;
        ret[found++] = (struct sl_str){text + from, i - from};
        from = i + 1;
    }
    if (found != count)
        return false;
    for (unsigned i = 0; i < count; i++)
        if (!unescape(&ret[i]))
            return false;
    return true;
}

int64_t sl_month_of(sl_ns at)
{
    int64_t year, month, day;

    sl_civil_from_days(at / SL_DAY, &year, &month, &day);
    return year * 100 + month;
}
