/* commands.c -- the table of commands, and all that decide nothing: AUTH,
 * HELLO, CLIENT, COMMAND, INFO and the like.
 *
 * The password is the listener's access_token, the user `default` as in Redis.
 * sl_server_token_ok() compares in constant time.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "server/resp/resp_int.h"

#define FAILURES_MOST 10 /* of AUTH, then the connection is closed */

#define OK SL_STR("OK")

static bool is(struct sl_str word, const char *text)
{
    return sl_str_eq_nocase(word, sl_str_c(text));
}

/* ---- the table ---- */

const struct sl_resp_row sl_resp_rows[] = {
#define WORDS    SL_RESP_ARGS
#define NONE     0
#define PUBLIC   1
#define KEY      2
#define COLLECTS 4
#define ROW(name, handle, least, most, flags, summary)                         \
    {name,                                                                     \
     sizeof(name) - 1,                                                         \
     handle,                                                                   \
     least,                                                                    \
     most,                                                                     \
     ((flags)&PUBLIC) != 0,                                                    \
     ((flags)&KEY) != 0,                                                       \
     ((flags)&COLLECTS) != 0,                                                  \
     summary},
#include "server/resp/commands.def"
};

const unsigned sl_resp_row_count = SL_LEN(sl_resp_rows);

/* The first rows are the frequent commands. */
const struct sl_resp_row *sl_resp_find(struct sl_str name)
{
    for (unsigned i = 0; i < SL_LEN(sl_resp_rows); i++)
        if (sl_resp_rows[i].len == name.len &&
            sl_str_eq_nocase(
                (struct sl_str){sl_resp_rows[i].name, sl_resp_rows[i].len},
                name))
            return &sl_resp_rows[i];
    return NULL;
}

/* ---- words and errors ---- */

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

bool sl_resp_bad_word(struct sl_diag *why, const char *sentence,
                      struct sl_str word)
{
    sl_diag_error(why, SLUICE_EINVAL, sentence, sl_resp_quote(word).text);
    return false;
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

int sl_resp_refuse(struct sl_resp_conn *client, const char *fmt, ...)
{
    char sentence[512] = "ERR ";
    va_list args;

    va_start(args, fmt);
    vsnprintf(sentence + 4, sizeof(sentence) - 4, fmt, args);
    va_end(args);
    return sl_resp_write_error(client->out, sl_str_c(sentence));
}

int sl_resp_fail(struct sl_resp_conn *client, const struct sl_diag *why)
{
    return sl_resp_refuse(client, "%s",
                          why->sentence[0] ? why->sentence : "out of memory");
}

/* Adds a suggestion to the error of Redis. */
static int refuse_unknown(struct sl_resp_conn *client, struct sl_str name)
{
    const char *names[SL_LEN(sl_resp_rows)];
    const char *near;

    for (unsigned i = 0; i < SL_LEN(sl_resp_rows); i++)
        names[i] = sl_resp_rows[i].name;
    near = sl_str_nearest(name, names, SL_LEN(names));
    return sl_resp_refuse(
        client, "unknown command '%s'%s%s%s", sl_resp_quote(name).text,
        near ? ", did you mean '" : "", near ? near : "", near ? "'?" : "");
}

bool sl_resp_may(struct sl_resp_conn *client, const struct sl_resp_row *row,
                 const struct sl_resp_command *c, int *err)
{
    if (!client->admitted && !(row && row->is_public))
        *err = sl_resp_write_error(client->out,
                                   SL_STR("NOAUTH Authentication required."));
    else if (!row)
        *err = refuse_unknown(client, c->args[0]);
    else if (c->count < row->least || c->count > row->most)
        *err = sl_resp_refuse(
            client, "wrong number of arguments for '%s' command", row->name);
    else
        return true;
    return false;
}

/* ---- AUTH ---- */

/* Returns whether the client is admitted now; otherwise it was refused, and
 * *err is the error of that reply. */
static bool admit(struct sl_resp_conn *client, struct sl_str user,
                  struct sl_str password, int *err)
{
    bool right;

    if (client->worker->base.server->token.len == 0) {
        *err = sl_resp_refuse(client,
                              "AUTH <password> called without any password "
                              "configured for the default user. Are you "
                              "sure your configuration is correct?");
        return false;
    }
    right = sl_server_token_ok(client->base.worker, password); /* first */
    if (right && sl_str_eq(user, SL_STR("default"))) {
        client->admitted = true;
        return true;
    }
    sl_server_count_refusal(client->base.worker, "password");
    if (++client->failures == FAILURES_MOST)
        client->ending = true;
    *err = sl_resp_write_error(
        client->out,
        SL_STR("WRONGPASS invalid username-password pair or user is "
               "disabled."));
    return false;
}

int sl_resp_auth(struct sl_resp_conn *client, const struct sl_resp_command *c)
{
    struct sl_str user = c->count == 3 ? c->args[1] : SL_STR("default");
    int err = 0;

    return admit(client, user, c->args[c->count - 1], &err)
               ? sl_resp_write_simple(client->out, OK)
               : err;
}

/* ---- HELLO ---- */

/* A name has no blanks and nothing that ends a line of CLIENT LIST. */
static bool is_name(struct sl_str name)
{
    for (size_t i = 0; i < name.len; i++)
        if (name.at[i] <= ' ' || name.at[i] == 0x7f)
            return false;
    return name.len <= SL_RESP_NAME;
}

static void keep(char to[SL_RESP_NAME + 1], struct sl_str name)
{
    if (name.len > 0)
        memcpy(to, name.at, name.len);
    to[name.len] = '\0';
}

static int refuse_name(struct sl_resp_conn *client)
{
    return sl_resp_refuse(client,
                          "Client names cannot contain spaces, newlines or "
                          "special characters, and have up to %d bytes.",
                          SL_RESP_NAME);
}

static int greet(struct sl_resp_conn *client)
{
    return sl_buf_addf(client->out,
                       "%s"
                       "$6\r\nserver\r\n$6\r\nsluice\r\n"
                       "$7\r\nversion\r\n$5\r\n" SL_RESP_VERSION "\r\n"
                       "$5\r\nproto\r\n:%u\r\n"
                       "$2\r\nid\r\n:%llu\r\n"
                       "$4\r\nmode\r\n$10\r\nstandalone\r\n"
                       "$4\r\nrole\r\n$6\r\nmaster\r\n"
                       "$7\r\nmodules\r\n*0\r\n",
                       client->version < 3 ? "*14\r\n" : "%7\r\n",
                       client->version, (unsigned long long)client->id);
}

struct greeting {
    int64_t version;
    bool auth, setname;
    struct sl_str user, password, name;
};

static bool read_options(const struct sl_resp_command *c, struct greeting *g)
{
    for (unsigned i = 2; i < c->count;) {
        if (is(c->args[i], "auth") && c->count - i >= 3) {
            g->auth = true;
            g->user = c->args[i + 1];
            g->password = c->args[i + 2];
            i += 3;
        } else if (is(c->args[i], "setname") && c->count - i >= 2) {
            g->setname = true;
            g->name = c->args[i + 1];
            i += 2;
        } else {
            return false;
        }
    }
    return true;
}

int sl_resp_hello(struct sl_resp_conn *client, const struct sl_resp_command *c)
{
    struct greeting g = {.version = client->version};
    int err = 0;

    if (c->count > 1 && (!sl_resp_integer(c->args[1], &g.version) ||
                         g.version < 2 || g.version > 3))
        return sl_resp_write_error(
            client->out, SL_STR("NOPROTO unsupported protocol version"));
    if (!read_options(c, &g))
        return sl_resp_refuse(client, "Syntax error in HELLO");
    if (g.setname && !is_name(g.name))
        return refuse_name(client);
    if (g.auth && !admit(client, g.user, g.password, &err))
        return err;
    if (!client->admitted)
        return sl_resp_write_error(
            client->out,
            SL_STR("NOAUTH HELLO must be called with the client already "
                   "authenticated, otherwise the HELLO <proto> AUTH <user> "
                   "<pass> option can be used to authenticate the client and "
                   "select the RESP protocol version at the same time"));
    if (g.setname)
        keep(client->name, g.name);
    client->version = (unsigned)g.version;
    return greet(client);
}

/* ---- CLIENT ---- */

static int print_client(struct sl_resp_conn *client)
{
    char line[512];
    long long age =
        (long long)((sl_server_now(client->base.worker) - client->since) /
                    SL_S);

    snprintf(line, sizeof(line),
             "id=%llu name=%s age=%lld db=0 resp=%u lib-name=%s lib-ver=%s\n",
             (unsigned long long)client->id, client->name, age > 0 ? age : 0,
             client->version, client->library, client->library_version);
    return sl_resp_write_verbatim(client->out, client->version, "txt",
                                  sl_str_c(line));
}

static int set_info(struct sl_resp_conn *client, struct sl_str what,
                    struct sl_str value)
{
    bool library = is(what, "lib-name");

    if (!library && !is(what, "lib-ver"))
        return sl_resp_refuse(client, "Unrecognized option '%s'",
                              sl_resp_quote(what).text);
    if (!is_name(value))
        return sl_resp_refuse(client,
                              "%s cannot contain spaces, newlines or special "
                              "characters, and has up to %d bytes.",
                              library ? "lib-name" : "lib-ver", SL_RESP_NAME);
    keep(library ? client->library : client->library_version, value);
    return sl_resp_write_simple(client->out, OK);
}

/* With OFF and SKIP replies would no longer belong to commands. */
static bool is_harmless(const struct sl_resp_command *c)
{
    static const char *const what[][2] = {
        {"no-evict", "on" },
        {"no-evict", "off"},
        {"no-touch", "on" },
        {"no-touch", "off"},
        {"reply",    "on" },
    };

    for (size_t i = 0; i < SL_LEN(what) && c->count == 3; i++)
        if (is(c->args[1], what[i][0]) && is(c->args[2], what[i][1]))
            return true;
    return false;
}

int sl_resp_client(struct sl_resp_conn *client, const struct sl_resp_command *c)
{
    struct sl_str what = c->args[1];
    unsigned count = c->count;

    if (is(what, "setinfo") && count == 4)
        return set_info(client, c->args[2], c->args[3]);
    if (is(what, "setname") && count == 3 && !is_name(c->args[2]))
        return refuse_name(client);
    if (is(what, "setname") && count == 3) {
        keep(client->name, c->args[2]);
        return sl_resp_write_simple(client->out, OK);
    }
    if (is(what, "getname") && count == 2)
        return client->name[0]
                   ? sl_resp_write_string(client->out, sl_str_c(client->name))
                   : sl_resp_write_nil(client->out, client->version);
    if (is(what, "id") && count == 2)
        return sl_resp_write_integer(client->out, (int64_t)client->id);
    if ((is(what, "info") && count == 2) || is(what, "list"))
        return print_client(client); /* a client sees itself only */
    if (is_harmless(c))
        return sl_resp_write_simple(client->out, OK);
    return sl_resp_refuse(client,
                          "Unknown subcommand or wrong number of arguments for "
                          "'%s'; valid are ID, INFO, LIST, GETNAME, SETNAME, "
                          "SETINFO, NO-EVICT, NO-TOUCH and REPLY ON",
                          sl_resp_quote(what).text);
}

int sl_resp_reset(struct sl_resp_conn *client, const struct sl_resp_command *c)
{
    (void)c;
    client->version = 2;
    client->name[0] = '\0';
    client->admitted = sl_resp_is_open(client);
    return sl_resp_write_simple(client->out, SL_STR("RESET"));
}

int sl_resp_quit(struct sl_resp_conn *client, const struct sl_resp_command *c)
{
    (void)c;
    client->ending = true;
    return sl_resp_write_simple(client->out, OK);
}

/* ---- about the server ---- */

int sl_resp_ping(struct sl_resp_conn *client, const struct sl_resp_command *c)
{
    if (c->count == 2)
        return sl_resp_write_string(client->out, c->args[1]);
    return sl_resp_write_simple(client->out, SL_STR("PONG"));
}

int sl_resp_echo(struct sl_resp_conn *client, const struct sl_resp_command *c)
{
    return sl_resp_write_string(client->out, c->args[1]);
}

int sl_resp_select(struct sl_resp_conn *client, const struct sl_resp_command *c)
{
    if (sl_str_eq(c->args[1], SL_STR("0")))
        return sl_resp_write_simple(client->out, SL_STR("OK"));
    return sl_resp_refuse(client, "DB index is out of range; only 0 exists");
}

int sl_resp_info(struct sl_resp_conn *client, const struct sl_resp_command *c)
{
    const struct sl_resp_worker *worker = client->worker;
    char text[512];

    (void)c; /* all sections: they are short */
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
             (long)getpid(),
             worker->base.conns ? sl_conns_count(worker->base.conns) : 1,
             (unsigned long long)worker->commands);
    return sl_resp_write_verbatim(client->out, client->version, "txt",
                                  sl_str_c(text));
}

/* The parameters that redis-benchmark and monitors read. */
static const struct {
    const char *name, *value;
} settings[] = {
    {"save",       ""  },
    {"appendonly", "no"},
    {"databases",  "1" },
    {"maxmemory",  "0" },
};

int sl_resp_config(struct sl_resp_conn *client, const struct sl_resp_command *c)
{
    size_t found = SL_LEN(settings);
    int err;

    if (!sl_str_eq_nocase(c->args[1], SL_STR("get")))
        return sl_resp_refuse(client, "only CONFIG GET is supported; settings "
                                      "are in the policy and sluiced(8)");
    for (size_t i = 0; i < SL_LEN(settings) && c->count == 3; i++)
        if (sl_str_eq_nocase(c->args[2], sl_str_c(settings[i].name)))
            found = i;
    err = sl_resp_write_map(client->out, client->version,
                            found < SL_LEN(settings));
    if (err || found == SL_LEN(settings))
        return err;
    err = sl_resp_write_string(client->out, sl_str_c(settings[found].name));
    return err ? err
               : sl_resp_write_string(client->out,
                                      sl_str_c(settings[found].value));
}

int sl_resp_cluster(struct sl_resp_conn *client,
                    const struct sl_resp_command *c)
{
    (void)c;
    return sl_resp_refuse(client, "This instance has cluster support disabled");
}

/* ---- COMMAND ---- */

/* Arity is negative where there may be more words. */
static int write_row(struct sl_resp_conn *client, const struct sl_resp_row *row)
{
    int arity = (int)row->least;

    if (row->most != row->least)
        arity = -arity;
    return sl_buf_addf(client->out,
                       "*6\r\n$%zu\r\n%s\r\n:%d\r\n*1\r\n+%s\r\n"
                       ":%d\r\n:%d\r\n:%d\r\n",
                       row->len, row->name, arity,
                       row->has_key ? "write" : "fast", row->has_key,
                       row->has_key, row->has_key);
}

static int write_doc(struct sl_resp_conn *client, const struct sl_resp_row *row)
{
    return sl_buf_addf(client->out,
                       "$%zu\r\n%s\r\n%s$7\r\nsummary\r\n$%zu\r\n%s\r\n"
                       "$5\r\ngroup\r\n$6\r\nsluice\r\n",
                       row->len, row->name,
                       client->version < 3 ? "*4\r\n" : "%2\r\n",
                       strlen(row->summary), row->summary);
}

static int write_name(struct sl_resp_conn *client,
                      const struct sl_resp_row *row)
{
    return sl_resp_write_string(client->out, sl_str_c(row->name));
}

typedef int write_f(struct sl_resp_conn *client, const struct sl_resp_row *row);

/* Writes all rows, or those that are named from the third word on. An unknown
 * name is nil, or omitted with `docs`. */
static int write_rows(struct sl_resp_conn *client,
                      const struct sl_resp_command *c, write_f *write,
                      bool docs)
{
    bool all = c->count <= 2;
    unsigned count = all ? SL_LEN(sl_resp_rows) : c->count - 2, known = 0;
    const struct sl_resp_row *found[SL_RESP_ARGS];
    int err;

    for (unsigned i = 0; i < count && i < SL_LEN(found); i++) {
        found[i] = all ? &sl_resp_rows[i] : sl_resp_find(c->args[i + 2]);
        known += found[i] != NULL;
    }
    err = docs ? sl_resp_write_map(client->out, client->version, known)
               : sl_resp_write_array(client->out, count);
    for (unsigned i = 0; i < count && !err; i++)
        if (found[i])
            err = write(client, found[i]);
        else if (!docs)
            err = sl_resp_write_nil(client->out, client->version);
    return err;
}

int sl_resp_command_list(struct sl_resp_conn *client,
                         const struct sl_resp_command *c)
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

    if (c->count == 1)
        return write_rows(client, c, write_row, false);
    if (sl_str_eq_nocase(c->args[1], SL_STR("count")))
        return sl_resp_write_integer(client->out, SL_LEN(sl_resp_rows));
    for (size_t i = 0; i < SL_LEN(forms); i++)
        if (sl_str_eq_nocase(c->args[1], sl_str_c(forms[i].name)))
            return write_rows(client, c, forms[i].write, forms[i].docs);
    return sl_resp_refuse(client,
                          "write COMMAND, COMMAND COUNT, LIST, INFO or DOCS");
}
