/* resp_int.h -- what the files of this folder share. */
#ifndef SL_SERVER_RESP_RESP_INT_H
#define SL_SERVER_RESP_RESP_INT_H

#include "engine/hold_op.h"
#include "engine/render.h"
#include "server/resp/resp.h"

#define SL_RESP_NAME    64      /* bytes of a client's own name for itself */
#define SL_RESP_FACTS   32      /* headers, or costs, of one check */
#define SL_RESP_CHECKS  8       /* begun before the first is decided */
#define SL_RESP_VERSION "7.0.0" /* of a compatible Redis */

/* ---- connections: conn.c ---- */

struct sl_resp_conn {
    struct sl_server_conn base; /* first */
    struct sl_resp_worker *worker;
    struct sl_buf *out; /* replies: the connection's */
    bool partial;       /* the beginning of a command was read */
    bool admitted;      /* may use all commands */
    bool suspended;     /* waits for a reply */
    bool ending;        /* nothing more is read */
    bool broken;        /* and what is written cannot be sent */
    unsigned version;
    unsigned failures; /* of AUTH */
    uint64_t id;
    sl_ns since;
    char name[SL_RESP_NAME + 1], library[SL_RESP_NAME + 1],
        library_version[SL_RESP_NAME + 1];
    size_t used;               /* bytes of `in` that are carried out */
    struct sl_resp_call *call; /* collected throttles, or one operation */
    struct sl_resp_call *checks[SL_RESP_CHECKS]; /* begun, in their order */
    unsigned check_count;
};

/* Initializes a connection without a socket; for tests and on_open(). */
void sl_resp_conn_init(struct sl_resp_conn *client,
                       struct sl_resp_worker *worker, struct sl_buf *out);

/* Carries out the commands in `in`, at most `most` of them. */
enum sl_resp_served {
    SL_RESP_EMPTY,     /* all, except for the beginning of a command */
    SL_RESP_FULL,      /* `most`, or the replies are too many */
    SL_RESP_SUSPENDED, /* a reply comes later: sl_resp_resume() is called */
    SL_RESP_ENDED,     /* nothing more is read */
};
enum sl_resp_served sl_resp_serve(struct sl_resp_conn *client,
                                  struct sl_buf *in, unsigned most);

/* The reply that a connection waited for is written: drop client->used bytes
 * of its input and continue. */
void sl_resp_resume(struct sl_resp_conn *client);

/* Returns whether the client may use all commands without AUTH. */
bool sl_resp_is_open(const struct sl_resp_conn *client);

/* ---- commands: commands.c ---- */

/* Carry out a command: append its reply to client->out. 0, or the error of
 * the buffer: then the connection is given up. If client->suspended is set
 * when it returns, the reply comes later. */
typedef int sl_resp_f(struct sl_resp_conn *client,
                      const struct sl_resp_command *command);

struct sl_resp_row {
    const char *name; /* in lower case */
    size_t len;
    sl_resp_f *handle;
    unsigned least, most; /* words, its own included */
    bool is_public;       /* before AUTH, too */
    bool has_key;         /* its second word is a key */
    bool collects;        /* it is a throttle; see throttle.c */
    const char *summary;
};

extern const struct sl_resp_row sl_resp_rows[];
extern const unsigned sl_resp_row_count;

/* Returns the row of a name, in any case, or NULL. */
const struct sl_resp_row *sl_resp_find(struct sl_str name);

/* Returns whether the client may use the command. Otherwise it was refused, and
 * *err is the error of that reply. `row` may be NULL. */
bool sl_resp_may(struct sl_resp_conn *client, const struct sl_resp_row *row,
                 const struct sl_resp_command *command, int *err);

/* Reply -ERR and a sentence; without one, "out of memory". */
int sl_resp_refuse(struct sl_resp_conn *client, const char *fmt, ...)
    SL_PRINTF(2, 3);
int sl_resp_fail(struct sl_resp_conn *client, const struct sl_diag *why);

/* A client's word for a sentence: shortened, without line ends. */
struct sl_resp_word {
    char text[72];
};
struct sl_resp_word sl_resp_quote(struct sl_str word);

/* Sets `sentence`, which quotes the word by %s. Returns false. */
bool sl_resp_bad_word(struct sl_diag *why, const char *sentence,
                      struct sl_str word);

/* Parse a whole number, perhaps with a minus. */
bool sl_resp_integer(struct sl_str word, int64_t *ret);

/* ---- calls: check.c ---- */

struct sl_resp_call {
    struct sl_server_op op; /* first */
    struct sl_resp_worker *worker;
    struct sl_resp_conn *client; /* NULL: the client has gone */
    struct sl_buf kept;          /* then: its input */
    unsigned open;               /* operations without an answer */
    bool begins;                 /* inside begin() */
    bool deferred;               /* it is in client->checks */
    sl_ns asked_at;
    int (*reply)(struct sl_resp_call *call); /* after the last answer */

    /* Throttles, in their order. */
    struct sl_throttle throttles[SL_THROTTLES];
    bool crab[SL_THROTTLES]; /* the reply is THROTTLE's */
    unsigned count;

    /* A check. */
    struct sl_check check;
    struct sl_request request;
    struct sl_header headers[SL_RESP_FACTS];
    struct sl_cost costs[SL_RESP_FACTS];
    bool json;
    struct sl_arena text_arena; /* of a decision, rendered */
    struct sl_buf text;
    struct sl_hold_op hold; /* how a hold ends */
    struct sl_hold_op_input question;
};

/* Sets client->call, which is NULL. Returns NULL without memory. */
struct sl_resp_call *sl_resp_call_new(struct sl_resp_conn *client);

/* Starts `count` operations by `begin`. sl_resp_answered() is called once for
 * each, perhaps before this returns. After the last, `then` writes the reply
 * and the call is done; until then the client is suspended. Returns the error
 * of the reply, or 0. */
int sl_resp_ask(struct sl_resp_call *call, unsigned count,
                void (*begin)(struct sl_resp_call *call),
                int (*then)(struct sl_resp_call *call));
void sl_resp_answered(struct sl_resp_call *call);

/* Returns how long the call took. A call begins when the one before it ended:
 * so the clock is read once for each. */
sl_ns sl_resp_took(struct sl_resp_call *call);

/* Counts the time of the checks since the clock was last read, in equal shares:
 * reading the clock costs more than a check. */
void sl_resp_time_checks(struct sl_resp_worker *worker);

/* The protocol's op_init and op_done. */
void sl_resp_call_init(struct sl_server_worker *worker,
                       struct sl_server_op *op);
void sl_resp_call_free(struct sl_server_op *op);

/* Keep the call for the next command, or free it. */
void sl_resp_call_done(struct sl_resp_call *call);

/* The connection is closing; the call completes without it. Takes the bytes of
 * `in`, which the call refers to. */
void sl_resp_call_leave(struct sl_resp_call *call, struct sl_buf *in);

/* ---- throttles: throttle.c ---- */

/* Take the collected throttles and decide the begun checks, before any other
 * command. 0, or the error of a reply. client->suspended is set if replies come
 * later. */
int sl_resp_flush(struct sl_resp_conn *client);

/* SLUICE.RESET THROTTLE key. */
int sl_resp_reset_throttle(struct sl_resp_conn *client, struct sl_str key);

/* ---- checks: check.c ---- */

/* Decide the begun checks, and reply. 0 or the error of a reply. */
int sl_resp_decide_checks(struct sl_resp_conn *client);

/* Reads a cost. Returns false with a sentence. */
bool sl_resp_read_cost(struct sl_str word, uint64_t *ret, struct sl_diag *why);

/* ---- handlers ---- */

sl_resp_f sl_resp_throttle, sl_resp_throttlecrab;               /* throttle.c */
sl_resp_f sl_resp_check, sl_resp_explain, sl_resp_sluice_reset; /* check.c */
sl_resp_f sl_resp_settle, sl_resp_release, sl_resp_extend;      /* hold.c */
sl_resp_f sl_resp_auth, sl_resp_hello, sl_resp_client;          /* commands.c */
sl_resp_f sl_resp_reset, sl_resp_quit;
sl_resp_f sl_resp_ping, sl_resp_echo, sl_resp_select;
sl_resp_f sl_resp_info, sl_resp_command_list, sl_resp_config, sl_resp_cluster;

#endif
