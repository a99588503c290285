/* commands.c -- which commands there are, and who may use them. */
#include "server/resp/resp_int.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define WORDS SL_RESP_ARGS

const struct sl_resp_row sl_resp_rows[] = {
#define ROW(name, handle, least, most, flags, summary)                         \
    {name,                                                                     \
     sizeof(name) - 1,                                                         \
     handle,                                                                   \
     least,                                                                    \
     most,                                                                     \
     ((flags)&ANYBODY) != 0,                                                   \
     ((flags)&KEY) != 0,                                                       \
     ((flags)&COLLECTS) != 0,                                                  \
     summary},
#define NONE     0
#define ANYBODY  1
#define KEY      2
#define COLLECTS 4
#include "server/resp/commands.def"
};

const unsigned sl_resp_row_count = SL_LEN(sl_resp_rows);

/* By name, in whatever case. The first rows are those that come often. */
const struct sl_resp_row *sl_resp_find(struct sl_str name)
{
    for (unsigned i = 0; i < SL_LEN(sl_resp_rows); i++) {
        const struct sl_resp_row *row = &sl_resp_rows[i];

        if (row->len == name.len &&
            sl_str_eq_nocase((struct sl_str){row->name, row->len}, name))
            return row;
    }
    return NULL;
}

/* ---- words ---- */

struct sl_resp_word sl_resp_quote(struct sl_str word)
{
    struct sl_resp_word ret;
    size_t most = sizeof(ret.text) - 4, len = 0;

    for (; len < word.len && len < most; len++) {
        unsigned char byte = (unsigned char)word.at[len];

        ret.text[len] = (char)(byte < 0x20 || byte == 0x7f ? '?' : byte);
    }
    memcpy(ret.text + len, word.len > most ? "..." : "",
           word.len > most ? 4 : 1);
    return ret;
}

bool sl_resp_integer(struct sl_str word, int64_t *ret)
{
    bool minus = word.len > 0 && word.at[0] == '-';
    int64_t n = 0;

    if (word.len == minus || word.len > 20)
        return false;
    for (size_t i = minus; i < word.len; i++) {
        int digit = word.at[i] - '0';

        if (digit < 0 || digit > 9 || __builtin_mul_overflow(n, 10, &n) ||
            __builtin_sub_overflow(n, digit, &n)) /* below 0 there is more */
            return false;
    }
    if (!minus && n == INT64_MIN)
        return false;
    *ret = minus ? n : -n;
    return true;
}

int sl_resp_refuse(struct sl_resp_session *session, const char *fmt, ...)
{
    char sentence[512] = "ERR ";
    va_list args;

    va_start(args, fmt);
    vsnprintf(sentence + 4, sizeof(sentence) - 4, fmt, args);
    va_end(args);
    return sl_resp_write_error(session->out, sl_str_c(sentence));
}

/* ---- may he? ---- */

/* As Redis says it, and what was meant if that can be guessed. */
static int refuse_unknown(struct sl_resp_session *s, struct sl_str name)
{
    const char *names[SL_LEN(sl_resp_rows)];
    const char *near;

    for (unsigned i = 0; i < SL_LEN(sl_resp_rows); i++)
        names[i] = sl_resp_rows[i].name;
    near = sl_str_nearest(name, names, SL_LEN(names));
    if (near)
        return sl_resp_refuse(s, "unknown command '%s', did you mean '%s'?",
                              sl_resp_quote(name).text, near);
    return sl_resp_refuse(s, "unknown command '%s'", sl_resp_quote(name).text);
}

bool sl_resp_may(struct sl_resp_session *session, const struct sl_resp_row *row,
                 const struct sl_resp_command *command, int *err)
{
    if (!session->admitted && !(row && row->for_anybody))
        *err = sl_resp_write_error(session->out,
                                   SL_STR("NOAUTH Authentication required."));
    else if (!row)
        *err = refuse_unknown(session, command->args[0]);
    else if (command->count < row->least || command->count > row->most)
        *err = sl_resp_refuse(
            session, "wrong number of arguments for '%s' command", row->name);
    else
        return true;
    return false;
}
