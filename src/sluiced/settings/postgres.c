/* postgres.c -- a registry in a PostgreSQL, as a setting. */
#include "identity/postgres/address.h"

#include <string.h>

#include "sluiced/settings/rules.h"

int sl_settings_postgres(struct sl_settings *s, struct sl_diag *diag)
{
    const char *text = s->values[SL_SET_usage].text;
    char shown[SL_PG_SHOWN];
    struct sl_diag why = {0};

    s->in_postgres = strncmp(text, "postgres:", strlen("postgres:")) == 0;
    if (!s->in_postgres)
        return 0;
    s->registry = text;
    s->leases = true;
    if (sl_pg_url(text, shown, &why))
        return sl_settings_refuse(s, SL_SET_usage, diag, "%s", why.sentence);
    return sl_settings_deadline(s, diag);
}
