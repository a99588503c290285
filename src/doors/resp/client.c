/* client.c -- who is at the other end: HELLO, AUTH, CLIENT, RESET, QUIT.
 *
 * The password is the door's access_token, the user `default` as in Redis.
 * Neither where two passwords differ nor how long the right one is shows in the
 * time that comparing takes: what is compared are fingerprints of one size,
 * under a secret that nobody outside has seen.
 */
#include <openssl/crypto.h>
#include <stdio.h>
#include <string.h>

#include "doors/resp/inner.h"

#define FAILURES_MOST 10 /* of AUTH, then the connection is closed */

#define OK SL_STR("OK")

static bool is(struct sl_str word, const char *text)
{
    return sl_str_eq_nocase(word, sl_str_c(text));
}

/* ---- AUTH ---- */

static bool is_password(const struct sl_resp_worker *worker,
                        struct sl_str shown)
{
    struct sl_hash128 is = sl_hash128(&worker->secret, shown);
    struct sl_hash128 want = sl_hash128(&worker->secret, worker->door->token);

    return CRYPTO_memcmp(&is, &want, sizeof(is)) == 0;
}

static int refuse_password(struct sl_resp_session *s)
{
    if (s->worker->stats)
        sl_stats_refused(s->worker->stats, "resp", "password");
    if (++s->failures == FAILURES_MOST)
        s->ending = true;
    return sl_resp_write_error(
        s->out, SL_STR("WRONGPASS invalid username-password pair or user is "
                       "disabled."));
}

/* True if he is let in; otherwise he was refused, and *err is what became of
 * that. */
static bool admit(struct sl_resp_session *s, struct sl_str user,
                  struct sl_str password, int *err)
{
    bool right;

    if (s->worker->door->token.len == 0) {
        *err = sl_resp_refuse(s, "AUTH <password> called without any password "
                                 "configured for the default user. Are you "
                                 "sure your configuration is correct?");
        return false;
    }
    right = is_password(s->worker, password); /* whoever it is */
    if (right && sl_str_eq(user, SL_STR("default"))) {
        s->admitted = true;
        return true;
    }
    *err = refuse_password(s);
    return false;
}

int sl_resp_auth(struct sl_resp_session *session,
                 const struct sl_resp_command *command)
{
    struct sl_str user =
        command->count == 3 ? command->args[1] : SL_STR("default");
    int err = 0;

    return admit(session, user, command->args[command->count - 1], &err)
               ? sl_resp_write_simple(session->out, OK)
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

static int refuse_name(struct sl_resp_session *s)
{
    return sl_resp_refuse(s,
                          "Client names cannot contain spaces, newlines or "
                          "special characters, and have up to %d bytes.",
                          SL_RESP_NAME);
}

static int greet(struct sl_resp_session *s)
{
    struct sl_buf *out = s->out;
    int err = sl_resp_write_map(out, s->version, 7);
    const struct {
        const char *name, *text; /* NULL: a number */
        int64_t number;
    } rows[] = {
        {"server",  "sluice",        0                  },
        {"version", SL_RESP_VERSION, 0                  },
        {"proto",   NULL,            (int64_t)s->version},
        {"id",      NULL,            (int64_t)s->id     },
        {"mode",    "standalone",    0                  },
        {"role",    "master",        0                  },
    };

    for (size_t i = 0; i < SL_LEN(rows) && !err; i++) {
        err = sl_resp_write_string(out, sl_str_c(rows[i].name));
        if (!err)
            err = rows[i].text
                      ? sl_resp_write_string(out, sl_str_c(rows[i].text))
                      : sl_resp_write_integer(out, rows[i].number);
    }
    if (!err)
        err = sl_resp_write_string(out, SL_STR("modules"));
    return err ? err : sl_resp_write_array(out, 0);
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

int sl_resp_hello(struct sl_resp_session *session,
                  const struct sl_resp_command *command)
{
    struct greeting g = {.version = session->version};
    int err = 0;

    if (command->count > 1 && (!sl_resp_integer(command->args[1], &g.version) ||
                               g.version < 2 || g.version > 3))
        return sl_resp_write_error(
            session->out, SL_STR("NOPROTO unsupported protocol version"));
    if (!read_options(command, &g))
        return sl_resp_refuse(session, "Syntax error in HELLO");
    if (g.setname && !is_name(g.name))
        return refuse_name(session);
    if (g.auth && !admit(session, g.user, g.password, &err))
        return err;
    if (!session->admitted)
        return sl_resp_write_error(
            session->out,
            SL_STR("NOAUTH HELLO must be called with the client already "
                   "authenticated, otherwise the HELLO <proto> AUTH <user> "
                   "<pass> option can be used to authenticate the client and "
                   "select the RESP protocol version at the same time"));
    if (g.setname)
        keep(session->name, g.name);
    session->version = (unsigned)g.version;
    return greet(session);
}

/* ---- CLIENT ---- */

static int print_client(struct sl_resp_session *s)
{
    char line[512];
    long long age = (long long)((sl_resp_now(s->worker) - s->since) / SL_S);

    snprintf(line, sizeof(line),
             "id=%llu name=%s age=%lld db=0 resp=%u lib-name=%s lib-ver=%s\n",
             (unsigned long long)s->id, s->name, age > 0 ? age : 0, s->version,
             s->library, s->library_version);
    return sl_resp_write_verbatim(s->out, s->version, "txt", sl_str_c(line));
}

static int set_name(struct sl_resp_session *s, struct sl_str name)
{
    if (!is_name(name))
        return refuse_name(s);
    keep(s->name, name);
    return sl_resp_write_simple(s->out, OK);
}

static int set_info(struct sl_resp_session *s, struct sl_str what,
                    struct sl_str value)
{
    bool library = is(what, "lib-name");

    if (!library && !is(what, "lib-ver"))
        return sl_resp_refuse(s, "Unrecognized option '%s'",
                              sl_resp_quote(what).text);
    if (!is_name(value))
        return sl_resp_refuse(s,
                              "%s cannot contain spaces, newlines or special "
                              "characters, and has up to %d bytes.",
                              library ? "lib-name" : "lib-ver", SL_RESP_NAME);
    keep(library ? s->library : s->library_version, value);
    return sl_resp_write_simple(s->out, OK);
}

static int get_name(struct sl_resp_session *s)
{
    return s->name[0] ? sl_resp_write_string(s->out, sl_str_c(s->name))
                      : sl_resp_write_nil(s->out, s->version);
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

int sl_resp_client(struct sl_resp_session *session,
                   const struct sl_resp_command *command)
{
    struct sl_str what = command->args[1];
    unsigned count = command->count;

    if (is(what, "setinfo") && count == 4)
        return set_info(session, command->args[2], command->args[3]);
    if (is(what, "setname") && count == 3)
        return set_name(session, command->args[2]);
    if (is(what, "getname") && count == 2)
        return get_name(session);
    if (is(what, "id") && count == 2)
        return sl_resp_write_integer(session->out, (int64_t)session->id);
    if ((is(what, "info") && count == 2) || is(what, "list"))
        return print_client(session); /* others are not this one's business */
    if (is_harmless(command))
        return sl_resp_write_simple(session->out, OK);
    return sl_resp_refuse(session,
                          "Unknown subcommand or wrong number of arguments for "
                          "'%s'; valid are ID, INFO, LIST, GETNAME, SETNAME, "
                          "SETINFO, NO-EVICT, NO-TOUCH and REPLY ON",
                          sl_resp_quote(what).text);
}

/* ---- the end ---- */

int sl_resp_reset(struct sl_resp_session *session,
                  const struct sl_resp_command *command)
{
    (void)command;
    session->version = 2;
    session->name[0] = '\0';
    session->admitted = sl_resp_is_open(session);
    return sl_resp_write_simple(session->out, SL_STR("RESET"));
}

int sl_resp_quit(struct sl_resp_session *session,
                 const struct sl_resp_command *command)
{
    (void)command;
    session->ending = true;
    return sl_resp_write_simple(session->out, OK);
}
