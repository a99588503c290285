/* resp_int.h -- what server and commands share, and nobody else needs. */
#ifndef SL_SERVER_RESP_RESP_INT_H
#define SL_SERVER_RESP_RESP_INT_H

#include "engine/hold_op.h"
#include "engine/render.h"
#include "server/resp/resp.h"
#include "server/server.h"

#define SL_RESP_NAME    64      /* bytes of a client's own name for itself */
#define SL_RESP_FACTS   32      /* headers, or costs, of one check */
#define SL_RESP_CHECKS  8       /* begun before the first is decided */
#define SL_RESP_VERSION "7.0.0" /* of Redis, as whose equal we answer */

/* ---- connections: server.c ---- */

struct sl_resp_session {
    struct sl_resp_worker *worker;
    struct sl_conn *conn; /* NULL in tests */
    struct sl_conn_count place;
    struct sl_buf *out; /* replies: the connection's */
    bool shakes;        /* TLS: hands may not have been shaken yet */
    bool partial;       /* the beginning of a command is there */
    bool admitted;      /* may use all commands */
    bool late;          /* a reply comes later, and then goes on */
    bool ending;        /* nothing more is read */
    bool broken;        /* and what is written can't be sent */
    unsigned version;
    unsigned failures; /* of AUTH */
    uint64_t id;
    sl_ns since;
    char name[SL_RESP_NAME + 1], library[SL_RESP_NAME + 1],
        library_version[SL_RESP_NAME + 1];
    size_t used;               /* bytes of `in` that are carried out */
    struct sl_resp_call *call; /* throttles collected, or what is asked */
    struct sl_resp_call *checks[SL_RESP_CHECKS]; /* begun, in their order */
    unsigned check_count;
};

/* Begin a session; `admitted` as the door wants it. */
void sl_resp_session_init(struct sl_resp_session *session,
                          struct sl_resp_worker *worker, struct sl_buf *out);

/* Carry out what is there of `in`, up to `most` commands. */
enum sl_resp_served {
    SL_RESP_EMPTY, /* all of it, but for the beginning of a command */
    SL_RESP_FULL,  /* there is more, and `most` were carried out, or the replies
                    * are many */
    SL_RESP_LATE,  /* a reply comes later; sl_resp_resume() is called then */
    SL_RESP_ENDED, /* nothing more is to be read */
};
enum sl_resp_served sl_resp_serve(struct sl_resp_session *session,
                                  struct sl_buf *in, unsigned most);

/* The reply that a session waited for is written: drop session->used bytes of
 * what it was read from, and go on. server.c */
void sl_resp_resume(struct sl_resp_session *session);

/* May he use all commands without a password? */
bool sl_resp_is_open(const struct sl_resp_session *session);

/* The wall time of this turn. */
sl_ns sl_resp_now(const struct sl_resp_worker *worker);

/* ---- commands: commands.c ---- */

/* Carry out a command: append its reply to session->out. 0, or the error of
 * the buffer: then the connection is given up. If session->late is set when it
 * returns, the reply comes later. */
typedef int sl_resp_f(struct sl_resp_session *session,
                      const struct sl_resp_command *command);

struct sl_resp_row {
    const char *name; /* in lower case */
    size_t len;
    sl_resp_f *handle;
    unsigned least, most; /* words, its own included */
    bool for_anybody;     /* before AUTH, too */
    bool has_key;         /* its second word is one */
    bool collects;        /* it is a throttle; see throttle.c */
    const char *summary;
};

extern const struct sl_resp_row sl_resp_rows[];
extern const unsigned sl_resp_row_count;

/* The row of that name, in whatever case, or NULL. */
const struct sl_resp_row *sl_resp_find(struct sl_str name);

/* May the session use it, with that many words? Otherwise *err is what became
 * of telling it why not. `row` may be NULL. */
bool sl_resp_may(struct sl_resp_session *session, const struct sl_resp_row *row,
                 const struct sl_resp_command *command, int *err);

/* -ERR and a sentence. */
int sl_resp_refuse(struct sl_resp_session *session, const char *fmt, ...)
    SL_PRINTF(2, 3);

/* A word of a client's in a sentence: short, and without line ends. */
struct sl_resp_word {
    char text[72];
};
struct sl_resp_word sl_resp_quote(struct sl_str word);

/* A whole number, with a minus or not, and nothing else. */
bool sl_resp_integer(struct sl_str word, int64_t *ret);

/* ---- what is asked: call.c ---- */

struct sl_resp_call {
    struct sl_resp_worker *worker;
    struct sl_resp_session *session; /* NULL: he has left */
    TAILQ_ENTRY(sl_resp_call) link;  /* in worker->spare or worker->late */
    struct sl_buf kept;              /* the bytes of one who has left */
    unsigned open;                   /* answers to come */
    bool begins;                     /* they are being asked for */
    bool deferred;                   /* it is in session->checks */
    sl_ns asked_at;
    int (*reply)(struct sl_resp_call *call); /* when all are there */

    /* Throttles, in their order. */
    struct sl_throttle throttles[SL_THROTTLES];
    bool crab[SL_THROTTLES]; /* the reply is THROTTLE's */
    unsigned count;

    /* A check. */
    struct sl_check ask;
    struct sl_request facts;
    struct sl_header headers[SL_RESP_FACTS];
    struct sl_cost costs[SL_RESP_FACTS];
    bool json;
    struct sl_arena ink; /* of a decision, rendered */
    struct sl_buf text;
    struct sl_hold_op hold; /* how a hold ends */
    struct sl_hold_op_input question;
};

/* A call for the session, which has none; it is session->call then. NULL
 * without memory. */
struct sl_resp_call *sl_resp_call_new(struct sl_resp_session *session);

/* Ask `count` questions: `begin` does, and sl_resp_answered() is called once
 * for each, perhaps before this returns. When all are answered `then` is
 * called, and the session has no call any more; until then it is late. Returns
 * what the reply did, or 0. */
int sl_resp_ask(struct sl_resp_call *call, unsigned count,
                void (*begin)(struct sl_resp_call *call),
                int (*then)(struct sl_resp_call *call));
void sl_resp_answered(struct sl_resp_call *call);

/* How long answering took. Of many that are asked in a row, each begins when
 * the one before it ended: so the clock is read once for each. */
sl_ns sl_resp_took(struct sl_resp_call *call);

/* For checks in a row it is read once in all: reading it costs more than the
 * look that it takes, for everything before must have come to its end. Those
 * that were answered since the last reading have taken the same time each. */
void sl_resp_time_checks(struct sl_resp_worker *worker);

/* Give it back. */
void sl_resp_call_done(struct sl_resp_call *call);

/* His connection is closing: what is asked goes on without him. `in` is kept
 * as long as the answers may need it. */
void sl_resp_call_leave(struct sl_resp_call *call, struct sl_buf *in);

void sl_resp_calls_free(struct sl_resp_calls *calls);

/* Another policy is in force: give back those that hold the one before. */
void sl_resp_calls_trim(struct sl_resp_worker *worker);

/* ---- throttles: throttle.c ---- */

/* Throttles are only collected by their handlers, so that many are asked at
 * once, and checks are only begun; whoever does anything else asks for what
 * was collected first, and has the checks decided. 0, or the error of a reply;
 * session->late if they come later. */
int sl_resp_flush(struct sl_resp_session *session);

/* What its key is called where others read it, if the store wants that. 0 or
 * SLUICE_ENOMEM. */
SL_MUST_USE int sl_resp_name(struct sl_resp_call *call,
                             struct sl_throttle *throttle);

/* ---- checks: check.c, read_check.c ---- */

/* Decide what was begun, and reply; 0 or the error of a reply. */
int sl_resp_decide_checks(struct sl_resp_session *session);

/* Read the words of a command into call->facts, which point into them, and
 * hold the policy in force. False with a sentence if they are wrong. */
bool sl_resp_read_check(struct sl_resp_call *call,
                        const struct sl_resp_command *command,
                        struct sl_diag *why);

/* ---- handlers ---- */

sl_resp_f sl_resp_throttle, sl_resp_crab;                  /* throttle.c */
sl_resp_f sl_resp_check, sl_resp_explain, sl_resp_forget;  /* check.c */
sl_resp_f sl_resp_settle, sl_resp_release, sl_resp_extend; /* hold.c */
sl_resp_f sl_resp_auth, sl_resp_hello, sl_resp_client;     /* client.c */
sl_resp_f sl_resp_reset, sl_resp_quit;
sl_resp_f sl_resp_ping, sl_resp_echo, sl_resp_select; /* info.c */
sl_resp_f sl_resp_info, sl_resp_commands, sl_resp_config, sl_resp_cluster;

#endif
