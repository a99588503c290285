/* secret.c -- the tokens of the doors. */
#include "sluiced/settings/secret.h"

#include <string.h>

#include "base/file.h"

#define TOKEN_MOST ((size_t)4096)

static int check_token(struct sl_settings *s, enum sl_setting id,
                       struct sl_diag *diag)
{
    const char *text = s->values[id].text;

    for (const char *p = text; *p; p++)
        if (*p <= ' ' || *p == 0x7f || (unsigned char)*p >= 0x80)
            return sl_settings_refuse(
                s, id, diag,
                "byte %zu of the token is not allowed in an HTTP header; use "
                "printable ASCII without spaces",
                (size_t)(p - text) + 1);
    return 0;
}

/* Flags and variables name a file; an end of line at its end is the editor's.
 */
static int read_token_file(struct sl_settings *s, enum sl_setting id,
                           struct sl_diag *diag)
{
    struct sl_value *value = &s->values[id];
    struct sl_diag why = {0};
    struct sl_buf text;
    int err;

    sl_buf_init(&text, 2 * TOKEN_MOST + 8192, s->arena.alloc);
    err = sl_file_read(value->text, TOKEN_MOST, &text, &why);
    value->text = "";
    while (!err && text.len > 0 && strchr("\r\n", text.bytes[text.len - 1]))
        text.len--;
    if (!err && text.len > 0 && memchr(text.bytes, '\0', text.len))
        text.len = 0;
    if (err)
        err = sl_settings_refuse(s, id, diag, "%s", why.sentence);
    else if (text.len == 0)
        err = sl_settings_refuse(
            s, id, diag,
            "the file is empty; an empty token would disable the token check");
    else if (!(value->text = sl_arena_copy(&s->arena, sl_buf_str(&text))))
        err = sl_refuse(diag, SL_EXIT_FAILED, "out of memory");
    if (!value->text)
        value->text = "";
    sl_buf_done(&text);
    return err;
}

int sl_settings_token(struct sl_settings *s, enum sl_setting id,
                      struct sl_str *ret, struct sl_diag *diag)
{
    const struct sl_value *value = &s->values[id];
    int status = 0;

    if (value->origin >= SL_ORIGIN_VARIABLE && !value->is_secret_variable)
        status = read_token_file(s, id, diag);
    if (!status)
        status = check_token(s, id, diag);
    if (!status)
        *ret = sl_str_c(value->text);
    return status;
}
