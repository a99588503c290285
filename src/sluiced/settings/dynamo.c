/* dynamo.c -- a store, or subjects, in a table of DynamoDB, as settings. */
#include <string.h>

#include "sluiced/settings/rules.h"

static bool is_dynamo(const char *text)
{
    return strncmp(text, "dynamodb:", 9) == 0;
}

static int read_where(struct sl_settings *s, enum sl_setting id,
                      struct sl_dynamo_url *ret, struct sl_diag *diag)
{
    struct sl_diag why = {0};

    if (!sl_dynamo_url_read(sl_str_c(s->values[id].text), &s->arena, ret, &why))
        return 0;
    return sl_settings_refuse(s, id, diag, "%s", why.sentence);
}

int sl_settings_dynamo(struct sl_settings *s, struct sl_diag *diag)
{
    int status = 0;

    s->in_dynamo = is_dynamo(s->values[SL_SET_store].text);
    s->subjects_in_dynamo = is_dynamo(s->values[SL_SET_usage].text);
    s->shared = s->shared || s->in_dynamo;
    if (s->in_dynamo)
        status = read_where(s, SL_SET_store, &s->dynamo, diag);
    if (!status && s->subjects_in_dynamo)
        status = read_where(s, SL_SET_usage, &s->subjects, diag);
    if (!status && (s->in_dynamo || s->subjects_in_dynamo))
        status = sl_settings_deadline(s, diag);
    return status;
}
