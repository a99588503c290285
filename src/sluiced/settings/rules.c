/* rules.c -- what settings must keep, one by one and together.
 *
 * A door that strangers can reach asks who comes, or is not opened. What was
 * asked for and is not there is refused rather than left out: whoever wrote
 * `store: redis://` believes that his servers share their limits.
 */
#include "sluiced/settings/rules.h"

#include <string.h>

/* ---- what this version has ---- */

static bool begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

/* The scheme alone: what follows may hold a password. */
static int refuse_store(const struct sl_settings *s, enum sl_setting id,
                        struct sl_diag *diag)
{
    const char *text = s->values[id].text;
    int len = (int)strcspn(text, ":");

    if (id == SL_SET_usage)
        return sl_settings_refuse(
            s, id, diag,
            "\"%.*s\" is not a usage database; write sqlite:PATH, "
            "postgres://HOST/DATABASE, dynamodb://REGION/TABLE or none",
            len, text);
    return sl_settings_refuse(
        s, id, diag,
        "\"%.*s\" is not a store; write memory:, memory:PATH, "
        "redis://HOST:PORT or dynamodb://REGION/TABLE",
        len, text);
}

int sl_rules_version(struct sl_settings *settings, struct sl_diag *diag)
{
    if (strcmp(settings->values[SL_SET_usage].text, "none") != 0 &&
        !begins(settings->values[SL_SET_usage].text, "dynamodb:") &&
        !begins(settings->values[SL_SET_usage].text, "postgres://") &&
        (!begins(settings->values[SL_SET_usage].text, "sqlite:") ||
         strlen(settings->values[SL_SET_usage].text) == strlen("sqlite:")))
        return refuse_store(settings, SL_SET_usage, diag);
    if (!begins(settings->values[SL_SET_store].text, "memory:") &&
        !begins(settings->values[SL_SET_store].text, "dynamodb:") &&
        !begins(settings->values[SL_SET_store].text, "redis"))
        return refuse_store(settings, SL_SET_store, diag);
    return 0;
}

/* A daemon on a virtual clock is there for flows, which register somebody now
 * and then. */
const char *sl_rules_usage(const struct sl_given *given)
{
#ifdef SL_VIRTUAL_CLOCK
    const char *clock = given->flags[SL_SET_clock];

    if (clock && strcmp(clock, "virtual") == 0)
        return SL_USAGE_IN_MEMORY;
#endif
    (void)given;
    return "none";
}

/* ---- together ---- */

int sl_settings_guard(const struct sl_settings *settings, enum sl_door door,
                      const struct sl_address *address, struct sl_diag *diag)
{
    bool admin = door == SL_DOOR_ADMIN;
    enum sl_setting id = sl_setting_of_door[door];
    char where[128];

    if (sl_address_is_local(address))
        return 0;
    sl_address_print(address, where, sizeof(where));
    if (admin && settings->admin_token.len == 0)
        return sl_settings_refuse(
            settings, id, diag,
            "%s is reachable from other machines and has no token; set "
            "admin_token (--admin-token-file), or listen on 127.0.0.1 or a "
            "unix socket",
            where);
    if (!admin && settings->access_token.len == 0 && !settings->tls_client_ca)
        return sl_settings_refuse(
            settings, id, diag,
            "%s is reachable from other machines and has no token; set "
            "access_token (--access-token-file) or tls.client_ca, or listen on "
            "127.0.0.1 or a unix socket",
            where);
    return 0;
}

/* "http" of "listen-http". */
static const char *door_name(int door)
{
    return sl_setting_rows[sl_setting_of_door[door]].flag + strlen("listen-");
}

static bool is_any_port(const char *where)
{
    size_t len = strlen(where);

    return len > 2 && strcmp(where + len - 2, ":0") == 0;
}

/* Nobody else is at the address of a door. */
static int check_apart(const struct sl_settings *s, int door,
                       struct sl_diag *diag)
{
    const char *where = s->values[sl_setting_of_door[door]].text;

    for (int i = 0; i < door; i++)
        if (s->open[i] && !is_any_port(where) &&
            strcmp(where, s->values[sl_setting_of_door[i]].text) == 0)
            return sl_settings_refuse(s, sl_setting_of_door[door], diag,
                                      "%s is already the address of the %s "
                                      "listener; use another address",
                                      where, door_name(i));
    return 0;
}

static int check_doors(const struct sl_settings *s, struct sl_diag *diag)
{
    unsigned open = 0;
    int status = 0;

    for (int i = 0; i < SL_DOORS && !status; i++) {
        if (!s->open[i])
            continue;
        open++;
        status = check_apart(s, i, diag);
        if (!status)
            status = sl_settings_guard(s, (enum sl_door)i, &s->at[i], diag);
    }
    if (!status && open == 0)
        status =
            sl_settings_refuse(s, SL_SET_listen_http, diag,
                               "all listeners are off; enable at least one");
    return status;
}

static int check_tls(const struct sl_settings *s, struct sl_diag *diag)
{
    if (s->tls_certificate && !s->tls_key)
        return sl_settings_refuse(
            s, SL_SET_tls_certificate, diag,
            "a certificate needs a key; set tls.key as well");
    if (s->tls_key && !s->tls_certificate)
        return sl_settings_refuse(
            s, SL_SET_tls_key, diag,
            "a key needs a certificate; set tls.certificate as well");
    if (s->tls_client_ca && !s->tls_certificate)
        return sl_settings_refuse(s, SL_SET_tls_client_ca, diag,
                                  "client certificates need TLS; set "
                                  "tls.certificate and tls.key as well");
    return 0;
}

int sl_rules_together(struct sl_settings *settings, struct sl_diag *diag)
{
    int status = check_tls(settings, diag);

    if (!status)
        status = check_doors(settings, diag);
    if (!status && settings->virtual_clock && settings->threads > 1)
        status = sl_settings_refuse(settings, SL_SET_threads, diag,
                                    "a virtual clock needs --threads 1");
    return status;
}

/* ---- after a reload ---- */

/* TLS that was not there can't be put on sockets that are open. */
static bool is_live(const struct sl_settings *old,
                    const struct sl_settings *new, enum sl_setting id)
{
    bool tls = id == SL_SET_tls_certificate || id == SL_SET_tls_key ||
               id == SL_SET_tls_client_ca;

    if (!tls)
        return sl_setting_rows[id].live;
    return !old->tls_certificate == !new->tls_certificate &&
           !old->tls_client_ca == !new->tls_client_ca;
}

/* Of two that look alike without their secrets only that is known. */
static int say_secret(struct sl_buf *out, const struct sl_setting_row *row,
                      const char *was, const char *is)
{
    char from[512], to[512];

    sl_settings_mask(was, from, sizeof(from));
    sl_settings_mask(is, to, sizeof(to));
    if (row->kind == SL_SETTING_TOKEN || strcmp(from, to) == 0)
        return sl_buf_addf(out, "server.%s changed", row->key);
    return sl_buf_addf(out, "server.%s %s -> %s", row->key,
                       from[0] ? from : "none", to[0] ? to : "none");
}

int sl_settings_diff(const struct sl_settings *old,
                     const struct sl_settings *new, bool live,
                     struct sl_buf *out)
{
    int err = 0;

    for (size_t i = 0; i < SL_SETTINGS && !err; i++) {
        const struct sl_setting_row *row = &sl_setting_rows[i];
        const char *was = old->values[i].text, *is = new->values[i].text;

        if (strcmp(was, is) == 0 ||
            is_live(old, new, (enum sl_setting)i) != live)
            continue;
        if (row->kind == SL_SETTING_TOKEN || row->kind == SL_SETTING_STORE)
            err = say_secret(out, row, was, is);
        else
            err = sl_buf_addf(out, "server.%s %s -> %s", row->key,
                              was[0] ? was : "none", is[0] ? is : "none");
        if (!err)
            err = sl_buf_addf(out, live ? "\n" : "; needs a restart\n");
    }
    return err;
}
