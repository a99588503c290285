/* address.c -- the address of a PostgreSQL, read by libpq. */
#include "identity/postgres/address.h"

#include <libpq-fe.h>
#include <stdio.h>
#include <string.h>

static const char *value_of(const PQconninfoOption *options, const char *name)
{
    for (; options->keyword; options++)
        if (strcmp(options->keyword, name) == 0)
            return options->val ? options->val : "";
    return "";
}

int sl_pg_address(const char *url, char shown[SL_PG_SHOWN],
                  struct sl_diag *diag)
{
    char *why = NULL;
    PQconninfoOption *options = PQconninfoParse(url, &why);
    const char *port;

    if (!options && !why)
        return sl_refuse(diag, SLUICE_ENOMEM, "out of memory");
    PQfreemem(why);
    if (!options)
        return sl_refuse(
            diag, SLUICE_ECONF,
            "this is not the URL of a PostgreSQL database; write "
            "postgres://USER@HOST:PORT/DATABASE, and write characters other "
            "than letters and digits in a name as %%XX");
    port = value_of(options, "port");
    snprintf(shown, SL_PG_SHOWN, "%s%s%s/%s", value_of(options, "host"),
             port[0] ? ":" : "", port, value_of(options, "dbname"));
    PQconninfoFree(options);
    return 0;
}
