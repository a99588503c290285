/* info.c -- what clients ask before they ask for anything. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "doors/resp/inner.h"

int sl_resp_ping(struct sl_resp_session *session,
                 const struct sl_resp_command *command)
{
    if (command->count == 2)
        return sl_resp_write_string(session->out, command->args[1]);
    return sl_resp_write_simple(session->out, SL_STR("PONG"));
}

int sl_resp_echo(struct sl_resp_session *session,
                 const struct sl_resp_command *command)
{
    return sl_resp_write_string(session->out, command->args[1]);
}

int sl_resp_select(struct sl_resp_session *session,
                   const struct sl_resp_command *command)
{
    if (sl_str_eq(command->args[1], SL_STR("0")))
        return sl_resp_write_simple(session->out, SL_STR("OK"));
    return sl_resp_refuse(session, "DB index is out of range; only 0 exists");
}

int sl_resp_info(struct sl_resp_session *session,
                 const struct sl_resp_command *command)
{
    const struct sl_resp_worker *worker = session->worker;
    char text[512];

    (void)command; /* whatever section: it is short */
    snprintf(text, sizeof(text),
             "# Server\r\n"
             "redis_version:" SL_RESP_VERSION "\r\n"
             "redis_mode:standalone\r\n"
             "sluice_version:" SLUICE_VERSION "\r\n"
             "process_id:%ld\r\n"
             "# Clients\r\n"
             "connected_clients:%u\r\n"
             "# Persistence\r\n"
             "loading:0\r\n"
             "# Stats\r\n"
             "total_commands_processed:%llu\r\n"
             "# Replication\r\n"
             "role:master\r\n"
             "connected_slaves:0\r\n"
             "# Cluster\r\n"
             "cluster_enabled:0\r\n",
             (long)getpid(), worker->conns ? sl_conns_count(worker->conns) : 1,
             (unsigned long long)worker->commands);
    return sl_resp_write_verbatim(session->out, session->version, "txt",
                                  sl_str_c(text));
}

/* What redis-benchmark and monitors ask for, and what is true of us. */
static const struct {
    const char *name, *value;
} settings[] = {
    {"save",       ""  },
    {"appendonly", "no"},
    {"databases",  "1" },
    {"maxmemory",  "0" },
};

int sl_resp_config(struct sl_resp_session *session,
                   const struct sl_resp_command *command)
{
    size_t found = SL_LEN(settings);
    int err;

    if (!sl_str_eq_nocase(command->args[1], SL_STR("get")))
        return sl_resp_refuse(session, "only CONFIG GET is supported; settings "
                                       "are in the policy and sluiced(8)");
    for (size_t i = 0; i < SL_LEN(settings) && command->count == 3; i++)
        if (sl_str_eq_nocase(command->args[2], sl_str_c(settings[i].name)))
            found = i;
    err = sl_resp_write_map(session->out, session->version,
                            found < SL_LEN(settings));
    if (err || found == SL_LEN(settings))
        return err;
    err = sl_resp_write_string(session->out, sl_str_c(settings[found].name));
    return err ? err
               : sl_resp_write_string(session->out,
                                      sl_str_c(settings[found].value));
}

int sl_resp_cluster(struct sl_resp_session *session,
                    const struct sl_resp_command *command)
{
    (void)command;
    return sl_resp_refuse(session,
                          "This instance has cluster support disabled");
}

/* ---- COMMAND ---- */

/* Arity is negative where there may be more words. */
static int write_row(struct sl_resp_session *s, const struct sl_resp_row *row)
{
    struct sl_buf *out = s->out;
    int64_t arity = row->least;
    int64_t key[] = {row->has_key, row->has_key, row->has_key};
    int err = sl_resp_write_array(out, 6);

    if (row->most != row->least)
        arity = -arity;
    if (!err)
        err = sl_resp_write_string(out, sl_str_c(row->name));
    if (!err)
        err = sl_resp_write_integer(out, arity);
    if (!err)
        err = sl_resp_write_array(out, 1);
    if (!err)
        err = sl_resp_write_simple(out, row->has_key ? SL_STR("write")
                                                     : SL_STR("fast"));
    for (size_t i = 0; i < SL_LEN(key) && !err; i++)
        err = sl_resp_write_integer(out, key[i]);
    return err;
}

static int write_doc(struct sl_resp_session *s, const struct sl_resp_row *row)
{
    int err = sl_resp_write_string(s->out, sl_str_c(row->name));

    if (!err)
        err = sl_resp_write_map(s->out, s->version, 2);
    if (!err)
        err = sl_resp_write_string(s->out, SL_STR("summary"));
    if (!err)
        err = sl_resp_write_string(s->out, sl_str_c(row->summary));
    if (!err)
        err = sl_resp_write_string(s->out, SL_STR("group"));
    return err ? err : sl_resp_write_string(s->out, SL_STR("sluice"));
}

static int write_name(struct sl_resp_session *s, const struct sl_resp_row *row)
{
    return sl_resp_write_string(s->out, sl_str_c(row->name));
}

typedef int write_f(struct sl_resp_session *s, const struct sl_resp_row *row);

/* All rows, or those that are named from the third word on. One that nobody
 * knows is nil, or left out if `docs`. */
static int write_rows(struct sl_resp_session *s,
                      const struct sl_resp_command *c, write_f *write,
                      bool docs)
{
    bool all = c->count <= 2;
    unsigned count = all ? sl_resp_row_count : c->count - 2, known = 0;
    const struct sl_resp_row *rows[SL_RESP_ARGS];
    int err;

    for (unsigned i = 0; i < count && i < SL_LEN(rows); i++) {
        rows[i] = all ? &sl_resp_rows[i] : sl_resp_find(c->args[i + 2]);
        known += rows[i] != NULL;
    }
    err = docs ? sl_resp_write_map(s->out, s->version, known)
               : sl_resp_write_array(s->out, count);
    for (unsigned i = 0; i < count && !err; i++)
        if (rows[i])
            err = write(s, rows[i]);
        else if (!docs)
            err = sl_resp_write_nil(s->out, s->version);
    return err;
}

int sl_resp_commands(struct sl_resp_session *session,
                     const struct sl_resp_command *command)
{
    static const struct {
        const char *name;
        write_f *write;
        bool docs;
    } forms[] = {
        {"info", write_row,  false},
        {"docs", write_doc,  true },
        {"list", write_name, false},
    };

    if (command->count == 1)
        return write_rows(session, command, write_row, false);
    if (sl_str_eq_nocase(command->args[1], SL_STR("count")))
        return sl_resp_write_integer(session->out, sl_resp_row_count);
    for (size_t i = 0; i < SL_LEN(forms); i++)
        if (sl_str_eq_nocase(command->args[1], sl_str_c(forms[i].name)))
            return write_rows(session, command, forms[i].write, forms[i].docs);
    return sl_resp_refuse(session,
                          "write COMMAND, COMMAND COUNT, LIST, INFO or DOCS");
}
