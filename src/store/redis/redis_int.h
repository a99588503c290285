/* redis_int.h -- what the files of the Redis store share. */
#ifndef SL_STORE_REDIS_REDIS_INT_H
#define SL_STORE_REDIS_REDIS_INT_H

#include <stdatomic.h>
#include <sys/queue.h>

#include "base/buf.h"
#include "base/str.h"
#include "net/conn.h"
#include "store/redis/redis.h"
#include "store/remote.h"
#include "wire/resp.h"

/* ---- one connection to one Redis: it reconnects and sends commands.
 *
 * Commands are written together at the end of a loop turn; replies come in the
 * same order. The caller owns a command, and the connection borrows it until
 * done().
 *
 *     DOWN --back-off--> RESOLVING --> CONNECTING --> HANDSHAKE --> UP
 *       ^                    |           |   ^            |          |
 *       |                    |           +---+ next address          |
 *       +--------------------+-----------+----------------+----------+
 *                                              lost, refused, silent
 *
 * A name is resolved at each connect, since its addresses may change; they are
 * tried in turn. Until the connection is UP, commands are queued; if it fails
 * they were never sent. While DOWN no command is accepted.
 *
 * The connection is closed if the oldest command has no reply for longer than
 * `patience`.
 */

/* How a command ended. */
enum sl_redis_result {
    SL_REDIS_REPLIED,
    SL_REDIS_NOT_SENT, /* nothing has happened */
    SL_UNCERTAIN,      /* it was sent, and may have been executed */
};

struct sl_redis_wire_cmd {
    TAILQ_ENTRY(sl_redis_wire_cmd) links;
    struct sl_str command; /* stays until done() */
    void *ctx;             /* the caller's */
    bool asking;           /* with ASKING before it */
    unsigned skip;         /* the connection's: replies to skip first */
    sl_ns sent;            /* monotonic; 0: not yet */
    uint64_t end;          /* the connection's: bytes up to its last one */
    /* `reply` is one whole reply, until done() returns. */
    void (*done)(struct sl_redis_wire_cmd *wire, enum sl_redis_result result,
                 struct sl_str reply);
};

struct sl_redis_conn_options {
    struct sl_conns *conns; /* of the loop; borrowed */
    struct sl_loop *loop;
    const char *name;   /* host, verified by TLS; or a path; borrowed */
    unsigned port;      /* 0: a path of a unix socket */
    struct sl_tls *tls; /* a client's, or NULL; counted */
    struct sl_str user, password; /* for the handshake, or empty; borrowed */
    unsigned database;
    unsigned most;  /* commands; more are not sent */
    sl_ns patience; /* 0: 1 s */
    const struct sl_alloc *alloc;
    /* It is up, or down and why; the sentence has no secrets. Called once for
     * each change. It must not close anything. */
    void (*on_change)(void *ctx, bool up, const char *why);
    void *ctx;
};

struct sl_redis_conn;

/* Starts to connect at once. */
SL_MUST_USE int sl_redis_conn_open(const struct sl_redis_conn_options *options,
                                   struct sl_redis_conn **ret);

/* All commands end. NULL is allowed. Not from within a done(). */
void sl_redis_conn_close(struct sl_redis_conn *conn);

/* If done() is called before this returns, the command was not sent. */
void sl_redis_conn_send(struct sl_redis_conn *conn,
                        struct sl_redis_wire_cmd *wire);

/* Removes a command that is not sent yet; its done() is not called. Returns
 * false if it was sent. */
SL_MUST_USE bool sl_redis_conn_cancel(struct sl_redis_conn *conn,
                                      struct sl_redis_wire_cmd *wire);

/* Were all its bytes written to the socket? Before that, the server can't have
 * done it. */
bool sl_redis_conn_is_written(const struct sl_redis_conn *conn,
                              const struct sl_redis_wire_cmd *wire);

bool sl_redis_conn_is_up(const struct sl_redis_conn *conn);

/* May commands be sent, or queued? */
bool sl_redis_conn_is_accepting(const struct sl_redis_conn *conn);

/* Commands that have not ended. */
unsigned sl_redis_conn_count(const struct sl_redis_conn *conn);

/* Closes and connects again at once. Not from within a done(). */
void sl_redis_conn_reconnect(struct sl_redis_conn *conn, const char *why);

/* Time until the next attempt to connect; 0 unless DOWN. */
sl_ns sl_redis_conn_reconnect_in(const struct sl_redis_conn *conn);

/* ---- slots of a cluster; pure.
 *
 * A key's slot is the CRC16 of its bytes, or of the bytes between the first '{'
 * and the '}' behind it, if there are any.
 */

#define SL_CLUSTER_SLOTS 16384
#define SL_HOST          256 /* bytes of a host's name, with the NUL */

unsigned sl_cluster_slot_of(struct sl_str key);

/* A number that lies in this slot, written in decimal digits. */
unsigned sl_cluster_slot_tag(unsigned slot);

/* An empty name means the host that was asked. */
struct sl_redis_addr {
    char name[SL_HOST];
    unsigned port;
};

/* "MOVED 3999 127.0.0.1:6381" and "ASK ..." */
struct sl_redis_redirect {
    bool is_ask; /* for this command only */
    unsigned slot;
    struct sl_redis_addr to;
};
SL_MUST_USE bool sl_redis_redirect_read(struct sl_str error,
                                        struct sl_redis_redirect *ret);

/* Reads the reply to CLUSTER SLOTS: each range and its master. Returns false if
 * it is malformed or empty, or `each` returned false. */
typedef bool sl_cluster_slots_f(void *ctx, unsigned from, unsigned to,
                                const struct sl_redis_addr *master);
SL_MUST_USE bool sl_cluster_slots_read(struct sl_str reply,
                                       sl_cluster_slots_f *each, void *ctx);

/* Reads the reply to SENTINEL GET-MASTER-ADDR-BY-NAME. */
SL_MUST_USE bool sl_redis_master_read(struct sl_str reply,
                                      struct sl_redis_addr *ret);

/* ---- error replies.
 *
 * Redis sends each of these before anything is written: a server that can't
 * write fails at the script's first write. Nothing has happened.
 */

enum sl_redis_error {
    SL_REDIS_ERROR_NONE, /* not an error */
    SL_REDIS_ERROR_NOSCRIPT,
    SL_REDIS_ERROR_MOVED,
    SL_REDIS_ERROR_ASK,
    SL_REDIS_ERROR_TRYAGAIN,
    SL_REDIS_ERROR_CLUSTERDOWN,
    SL_REDIS_ERROR_READONLY,
    SL_REDIS_ERROR_CROSSSLOT,
    SL_REDIS_ERROR_OOM,
    SL_REDIS_ERROR_LOADING,
    SL_REDIS_ERROR_BUSY,
    SL_REDIS_ERROR_MISCONF,
    SL_REDIS_ERROR_NOREPLICAS,
    SL_REDIS_ERROR_NOAUTH,
    SL_REDIS_ERROR_WRONGPASS,
    SL_REDIS_ERROR_NOPERM,
    SL_REDIS_ERROR_WRONGTYPE,
    SL_REDIS_ERROR_OTHER,
    SL_REDIS_ERRORS
};

/* The error of a reply; *text is its text, or empty. A script's error may
 * contain the server's: "ERR Error running script ...: -READONLY ..." */
enum sl_redis_error sl_redis_error_of(struct sl_str reply, struct sl_str *text);

/* Its meaning and remedy, for the log; no full stop. */
const char *sl_redis_error_sentence(enum sl_redis_error error);

/* ---- all connections of one loop: one server, the masters of a cluster, or
 * the master watched by sentinels.
 *
 * A command is routed to the node of its slot, from there to where it is
 * redirected (MOVED, ASK), and is sent again when it is certain that nothing
 * has happened (TRYAGAIN, CLUSTERDOWN, READONLY). The caller owns it, and the
 * cluster borrows it until done().
 *
 *     send --> waiting --> at a node --> reply -----------------> done
 *                 ^            ^           |
 *                 |            +-----------+ MOVED, ASK: at most HOPS times
 *                 +------------------------+ TRYAGAIN, CLUSTERDOWN, READONLY
 *
 * It waits while the map is not known yet, or the node is a replica. The caller
 * cancels it at its deadline.
 */

struct sl_redis_node;

struct sl_redis_cmd {
    struct sl_redis_wire_cmd wire;
    TAILQ_ENTRY(sl_redis_cmd) waits;
    struct sl_redis_cluster *cluster;
    struct sl_redis_node *node; /* where it is sent; NULL: it waits */
    unsigned slot;              /* of a cluster: set by the caller */
    unsigned hops, tries;
    bool retried; /* READONLY, once */
    sl_ns due;    /* monotonic: it waits until then */
    void (*done)(struct sl_redis_cmd *cmd, enum sl_redis_result result,
                 struct sl_str reply);
};

struct sl_redis_cluster_options {
    const struct sl_redis_url *where; /* outlives it */
    struct sl_loop *loop;
    struct sl_tls *tls; /* or NULL */
    unsigned most;      /* commands; more are not sent */
    sl_ns patience;     /* at least; see sl_redis_conn_options */
    const struct sl_alloc *alloc;
    /* A node is up, or down and why. It must not close anything. */
    void (*on_change)(void *ctx, bool up, const char *why);
    void *ctx;
};

struct sl_redis_cluster;

SL_MUST_USE int
sl_redis_cluster_open(const struct sl_redis_cluster_options *options,
                      struct sl_redis_cluster **ret);

/* All commands end. NULL is allowed. Not from within a done(). */
void sl_redis_cluster_close(struct sl_redis_cluster *cluster);

/* Sends cmd->wire.command. done() may be called before this returns. */
void sl_redis_cluster_send(struct sl_redis_cluster *cluster,
                           struct sl_redis_cmd *cmd);

/* From within its done(): sends it again to the same node, maybe other bytes.
 */
void sl_redis_cluster_again(struct sl_redis_cmd *cmd);

/* Removes a command that is not sent yet; its done() is not called. Returns
 * false if it was sent. */
SL_MUST_USE bool sl_redis_cluster_cancel(struct sl_redis_cmd *cmd);

/* As sl_redis_conn_is_written(), for a command that was not cancelled. */
bool sl_redis_cluster_is_written(const struct sl_redis_cmd *cmd);

/* May commands to this slot be sent, or queued? */
bool sl_redis_cluster_is_accepting(const struct sl_redis_cluster *cluster,
                                   unsigned slot);

/* Are all needed nodes up? */
bool sl_redis_cluster_is_up(const struct sl_redis_cluster *cluster);

/* Time until the last of the nodes that are down reconnects; 0: none is. */
sl_ns sl_redis_cluster_reconnect_in(const struct sl_redis_cluster *cluster);

/* From within its done(): a time kept for its node, for the caller; 0 at
 * first. */
sl_ns *sl_redis_cluster_note(const struct sl_redis_cmd *cmd);

/* Counted by one thread, read by others: redirects, and commands that failed
 * after too many of them. */
struct sl_redis_cluster_counts {
    _Atomic uint64_t redirected, storms;
};
const struct sl_redis_cluster_counts *
sl_redis_cluster_counts(const struct sl_redis_cluster *cluster);

/* ---- commands of the script and their replies; pure. The script itself is
 * the Lua files ---- */

/* Its text, and its SHA-1 in hex, by which Redis knows it. */
extern const char sl_script_text[];
extern const size_t sl_script_len;
extern const char sl_script_sha[41];

/* Numbers of a reply: three of the set, five of each part, and three of its
 * lease. */
#define SL_SCRIPT_NUMBERS (3 + 8 * SL_PARTS)

struct sl_script_options {
    bool whole;   /* EVAL with the text; otherwise EVALSHA */
    bool own_now; /* test builds: `near` is the time. Otherwise it is the
                   * server's */
    sl_ns near;   /* the server's time as far as known: for the periods of
                   * calendars, and the time of a take that is refunded */
    struct sl_str record; /* the name of a hold's record; may be empty */
    bool undo; /* of a release: also what was taken with the hold and not held
                */
    const struct sl_lease_request *leases; /* of each part, which have different
                                            * names; NULL: none */
};

/* Appends the command. Parts of the same name are one: their costs add up.
 * SLUICE_ENOMEM. */
SL_MUST_USE int sl_script_write(const struct sl_take *take,
                                const struct sl_script_options *how,
                                struct sl_buf *out);

/* Append the refund of a take, or the same command with the whole text. `from`
 * is a command of sl_script_write(). */
SL_MUST_USE int sl_script_refund(struct sl_str from, struct sl_buf *out);
SL_MUST_USE int sl_script_eval(struct sl_str from, struct sl_buf *out);

struct sl_script_reply {
    sl_ns now;        /* the server's time */
    uint64_t strange; /* values that Sluice did not write; they are replaced */
    bool passing;     /* denied, and a hold expires within a second */
};

/* Fills in take->allowed and the answers. Returns false if the reply is not one
 * to this take. */
SL_MUST_USE bool sl_script_read(struct sl_take *take, const int64_t *numbers,
                                unsigned count, struct sl_script_reply *ret);

/* The lease of part `i` of `parts`, and the part's answer. Returns false if the
 * reply has no leases. */
struct sl_script_leased {
    uint64_t has;
    sl_ns till; /* the server's time */
    bool found; /* the store still knew the lease that has ended */
    uint64_t remaining;
    sl_ns reset_in;
};
SL_MUST_USE bool sl_script_read_lease(const int64_t *numbers, unsigned count,
                                      unsigned parts, unsigned i,
                                      struct sl_script_leased *ret);

/* The reply to a command sent at `sent` has these numbers: grants or ends all
 * leases that were requested. */
void sl_script_grant(struct sl_lease_cache *leases,
                     struct sl_lease_requests *asks, const int64_t *numbers,
                     unsigned count, sl_ns sent,
                     struct sl_lease_counts *counts);

/* Appends the name of a part, and its numbers with a cost of 0, for
 * sl_script_end_lease(). */
SL_MUST_USE int sl_script_keep(const struct sl_part *part, sl_ns near,
                               struct sl_buf *out, size_t *ret_name_len);

/* Appends the command that only ends a lease. */
SL_MUST_USE int sl_script_end_lease(struct sl_str name, struct sl_str numbers,
                                    const struct sl_script_options *how,
                                    const struct sl_lease_request *lease,
                                    struct sl_buf *out);

#define SL_HOLD_NAME 64 /* bytes of a record's name, with its NUL */

/* The name of a hold's record: "sluice:hold:ID", or in a cluster
 * "sluice:hold:{TAG}:ID", which lies in `slot`. */
void sl_script_hold_name(struct sl_hold_id id, bool in_slots, unsigned slot,
                         char out[SL_HOLD_NAME]);

/* Appends the command of a hold call; how->record is its record's name. */
SL_MUST_USE int sl_script_hold_write(const struct sl_hold_call *call,
                                     const struct sl_script_options *how,
                                     struct sl_buf *out);

/* Fills in the call. Returns false if the reply is malformed. `on_key` is
 * called for each key of the hold. */
typedef void sl_script_key_f(void *ctx, struct sl_str key);
SL_MUST_USE bool sl_script_hold_read(struct sl_hold_call *call,
                                     struct sl_str reply,
                                     sl_script_key_f *on_key, void *ctx);

/* ---- the memory of repeats; repeats.c ---- */

#define SL_REDIS_REPEAT_NAME 48 /* bytes of a key, with its NUL */

void sl_redis_repeat_name(const struct sl_repeat_claim *claim,
                          char out[SL_REDIS_REPEAT_NAME]);

/* Appends the command. `near` is the server's time; `own_now`: of a virtual
 * clock. */
SL_MUST_USE int sl_redis_repeat_write(const struct sl_repeat_call *call,
                                      sl_ns near, bool own_now,
                                      struct sl_buf *out);

/* Fills in the call. Returns false if the reply is malformed. */
SL_MUST_USE bool sl_redis_repeat_read(struct sl_repeat_call *call,
                                      struct sl_str reply);

#endif
