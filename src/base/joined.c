/* joined.c -- several values in one text: see joined.h. */
#include "base/joined.h"

/* Is each escape valid? %00 is not: values have no zero bytes. */
static bool is_escaped(struct sl_str value)
{
    for (size_t i = 0; i < value.len; i++) {
        if (value.at[i] != '%')
            continue;
        if (value.len - i < 3 || sl_hex_value(value.at[i + 1]) < 0 ||
            sl_hex_value(value.at[i + 2]) < 0 ||
            (value.at[i + 1] == '0' && value.at[i + 2] == '0'))
            return false;
    }
    return true;
}

bool sl_str_cut_values(struct sl_str text, unsigned count, struct sl_str *ret)
{
    unsigned found = 0;
    size_t from = 0;

    for (size_t i = 0; i <= text.len; i++) {
        if (i < text.len && text.at[i] != ':')
            continue;
        if (found == count)
            return false;
        ret[found] = (struct sl_str){text.at + from, i - from};
        if (!is_escaped(ret[found++]))
            return false;
        from = i + 1;
    }
    return found == count;
}

struct sl_str sl_str_unescape(struct sl_str value, char *out)
{
    size_t len = 0;

    for (size_t i = 0; i < value.len; i++, len++) {
        out[len] = value.at[i];
        if (value.at[i] != '%')
            continue;
        out[len] = (char)(16 * sl_hex_value(value.at[i + 1]) +
                          sl_hex_value(value.at[i + 2]));
        i += 2;
    }
    return (struct sl_str){out, len};
}
