/* redis_int.h -- the inside of the Redis store. */
#ifndef SL_STORE_REDIS_REDIS_INT_H
#define SL_STORE_REDIS_REDIS_INT_H

#include <stdatomic.h>
#include <sys/queue.h>

#include "base/buf.h"
#include "base/str.h"
#include "net/conn.h"
#include "store/caches.h"
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
    SL_REDIS_REPLIED,  /* there is a reply */
    SL_REDIS_NOT_SENT, /* it was not sent: nothing has happened */
    SL_UNCERTAIN,      /* it was sent, and may have been done */
};

struct sl_redis_wire_cmd {
    TAILQ_ENTRY(sl_redis_wire_cmd) links;
    struct sl_str command; /* stays until done() */
    bool asking;           /* with ASKING before it */
    unsigned skip;         /* the connection's: replies to skip first */
    sl_ns sent;            /* monotonic; 0: not yet */
    /* `reply` is one whole reply, until done() returns. */
    void (*done)(struct sl_redis_wire_cmd *wire, enum sl_redis_result result,
                 struct sl_str reply);
};

struct sl_redis_conn_options {
    struct sl_conns *conns; /* of the loop; borrowed */
    struct sl_loop *loop;
    const char *name;   /* host, verified by TLS; or a path */
    unsigned port;      /* 0: a path of a unix socket */
    struct sl_tls *tls; /* a client's, or NULL; counted */
    /* Sent in the handshake, if not empty; copied. */
    struct sl_str user, password;
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

/* Sends. If done() is called before this returns, it was not sent. */
void sl_redis_conn_send(struct sl_redis_conn *conn,
                        struct sl_redis_wire_cmd *wire);

/* Removes a command that is not sent yet; its done() is not called. Returns
 * false if it was sent. It was given to this connection. */
SL_MUST_USE bool sl_redis_conn_cancel(struct sl_redis_conn *conn,
                                      struct sl_redis_wire_cmd *wire);

bool sl_redis_conn_is_up(const struct sl_redis_conn *conn);

/* May commands be sent, or queued? */
bool sl_redis_conn_is_accepting(const struct sl_redis_conn *conn);

/* Commands that have not ended. */
unsigned sl_redis_conn_count(const struct sl_redis_conn *conn);

/* Closes and connects again at once: it is not the wanted server. Not from
 * within a done(). */
void sl_redis_conn_reconnect(struct sl_redis_conn *conn, const char *why);

/* Time until the next attempt to connect; 0 unless DOWN. */
sl_ns sl_redis_conn_reconnect_in(const struct sl_redis_conn *conn);

/* ---- a cluster's 16,384 slots: which key lies in which, and which node
 * has which.
 *
 * Pure: no connection is known here. A key's slot is the CRC16 of its bytes, or
 * of what stands between the first '{' and the '}' behind it, if that is not
 * empty.
 */

#define SL_CLUSTER_SLOTS 16384
#define SL_HOST          256 /* bytes of a host's name, with the NUL */

unsigned sl_cluster_slot_of(struct sl_str key);

/* A number that lies in this slot, written in decimal digits. */
unsigned sl_cluster_slot_tag(unsigned slot);

/* Where a node is; the name may be empty: where we asked, too. */
struct sl_redis_addr {
    char name[SL_HOST];
    unsigned port;
};

/* "MOVED 3999 127.0.0.1:6381" and "ASK ..." */
struct sl_redis_redirect {
    bool asks; /* only this once */
    unsigned slot;
    struct sl_redis_addr to;
};
SL_MUST_USE bool sl_redis_redirect_read(struct sl_str error,
                                        struct sl_redis_redirect *ret);

/* The answer to CLUSTER SLOTS: each range with the master that has it. False if
 * it is none, or has no range: then `each` may have been called nevertheless.
 */
typedef bool sl_cluster_slots_f(void *ctx, unsigned from, unsigned to,
                                const struct sl_redis_addr *master);
SL_MUST_USE bool sl_cluster_slots_read(struct sl_str reply,
                                       sl_cluster_slots_f *each, void *ctx);

/* The answer to SENTINEL GET-MASTER-ADDR-BY-NAME. */
SL_MUST_USE bool sl_redis_master_read(struct sl_str reply,
                                      struct sl_redis_addr *ret);

/* ---- error replies.
 *
 * Redis sends each of these before anything is written: a server that can't
 * write fails at the script's first write. Nothing has happened.
 */

enum sl_redis_error {
    SL_REDIS_ERROR_NONE, /* it is no error */
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
    SL_REDIS_ERROR_OTHER,
    SL_REDIS_ERRORS /* how many there are */
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
    struct sl_redis_node *node; /* it is there; NULL: it waits */
    unsigned slot;              /* of a cluster: set by the caller */
    unsigned hops, tries;
    bool retried; /* READONLY, once */
    sl_ns due;    /* steady: it waits until then */
    void (*done)(struct sl_redis_cmd *cmd, enum sl_redis_result result,
                 struct sl_str reply);
};

struct sl_redis_cluster_options {
    const struct sl_redis_url *where; /* outlives it */
    struct sl_loop *loop;
    struct sl_tls *tls; /* or NULL */
    unsigned most;      /* commands; more are not sent */
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

/* From within its done(): sends it again to the same node. The bytes may
 * differ. */
void sl_redis_cluster_again(struct sl_redis_cmd *cmd);

/* Removes a command that is not sent yet; its done() is not called. Returns
 * false if it was sent. */
SL_MUST_USE bool sl_redis_cluster_cancel(struct sl_redis_cmd *cmd);

/* May commands to this slot be sent, or queued? */
bool sl_redis_cluster_is_accepting(const struct sl_redis_cluster *cluster,
                                   unsigned slot);

bool sl_redis_cluster_is_cluster(const struct sl_redis_cluster *cluster);

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

/* ---- store identity: the secret and the epoch, read at first and from time to
 * time. One client also checks once whether Redis would evict keys. */

struct sl_redis_identity_options {
    struct sl_redis_cluster *cluster;
    struct sl_loop *loop;
    struct sl_store_identity *shared;
    sl_ns every; /* 0: 5 s */
    const struct sl_alloc *alloc;
    void (*on_ready)(void *ctx); /* the secret is known; once */
    void (*on_changed)(void *ctx, const char *sentence);
    void (*on_reply)(void *ctx, struct sl_str reply); /* that is none */
    void (*on_warning)(void *ctx, const char *sentence);
    void *ctx;
};

struct sl_redis_identity;

/* The cluster is closed before it: then all its commands have ended. */
SL_MUST_USE int
sl_redis_identity_open(const struct sl_redis_identity_options *options,
                       struct sl_redis_identity **ret);
void sl_redis_identity_close(
    struct sl_redis_identity *identity); /* NULL is allowed */

/* Asks now: a node has come up. */
void sl_redis_identity_go(struct sl_redis_identity *identity);

/* ---- a take as the words of a command, and its reply as answers.
 *
 * Pure: no connection is known here. The script itself is kinds.lua and
 * take.lua.
 */

/* The text of both, and its SHA-1 in hex, by which Redis knows it. */
extern const char sl_script_text[];
extern const size_t sl_script_len;
extern const char sl_script_sha[41];

/* Numbers of a reply: three of the set, five of each part, and three of what is
 * leased of it. */
#define SL_SCRIPT_NUMBERS (3 + 8 * SL_PARTS)

/* How a take is asked for. */
struct sl_script_options {
    bool whole;   /* EVAL with the text; otherwise EVALSHA */
    bool own_now; /* `near` is the time: test builds. Otherwise it is the
                   * server's own */
    sl_ns near;   /* the server's time, as far as we know: which periods of a
                   * calendar are meant, and when this was taken if it is to
                   * be given back */
    struct sl_str record; /* of a hold: what it is called in Redis */
    bool undo; /* of a release: what was taken with it and not held as well */
    const struct sl_lease_request *leases; /* of each part; NULL: none. No two
                                            * parts have the same name then */
};

/* Append the command to `out`. Parts of the same name are one: their costs add
 * up. SLUICE_ENOMEM. */
SL_MUST_USE int sl_script_write(const struct sl_take *take,
                                const struct sl_script_options *how,
                                struct sl_buf *out);

/* Words of a command. */
SL_MUST_USE int sl_script_put(struct sl_buf *out, struct sl_str word);
SL_MUST_USE int sl_script_put_number(struct sl_buf *out, uint64_t number);

/* A command up to its KEYS: so many of these, and so many words behind them. */
SL_MUST_USE int sl_script_call(struct sl_buf *out,
                               const struct sl_script_options *how,
                               unsigned keys, unsigned words);

/* The time itself, or what it may be. */
SL_MUST_USE int sl_script_put_now(struct sl_buf *out,
                                  const struct sl_script_options *how);

/* The period of a calendar that `now` lies in, as the script knows it: its
 * start and end, the end of the next, the start of the one before. */
#define SL_SCRIPT_PERIOD 4
void sl_script_period(const struct sl_limit *limit, sl_ns now,
                      uint64_t ret[SL_SCRIPT_PERIOD]);

/* Make of a command that takes one that gives back the same, or one with the
 * whole text, in place of its own bytes. `from` is what sl_script_write() has
 * appended. */
SL_MUST_USE int sl_script_give_back(struct sl_str from, struct sl_buf *out);
SL_MUST_USE int sl_script_eval(struct sl_str from, struct sl_buf *out);

/* What a reply says beside the answers. */
struct sl_script_reply {
    sl_ns now;        /* the server's time */
    uint64_t strange; /* values that were none of ours, and are replaced */
    bool passing;     /* refused, and a hold expires within a second */
};

/* Fill in take->allowed and the answers. False if that is no reply of the
 * script to this take. */
SL_MUST_USE bool sl_script_read(struct sl_take *take, const int64_t *numbers,
                                unsigned count, struct sl_script_reply *ret);

/* What is leased of part `i` of `parts`, and what its answer was. False if that
 * is no reply to leases. */
struct sl_script_leased {
    uint64_t has;
    sl_ns till; /* the server's time */
    bool known; /* the lease that has ended was still there */
    uint64_t remaining;
    sl_ns reset_in;
};
SL_MUST_USE bool sl_script_read_lease(const int64_t *numbers, unsigned count,
                                      unsigned parts, unsigned i,
                                      struct sl_script_leased *ret);

/* Append the name of a part and its numbers, at a cost of 0, as
 * sl_script_end_lease() wants them back. */
SL_MUST_USE int sl_script_keep(const struct sl_store_part *part, sl_ns near,
                               struct sl_buf *out, size_t *ret_name_len);

/* Append the command that ends a lease and does nothing else. */
SL_MUST_USE int sl_script_end_lease(struct sl_str name, struct sl_str numbers,
                                    const struct sl_script_options *how,
                                    const struct sl_lease_request *lease,
                                    struct sl_buf *out);

/* ---- a hold's end as the words of a command, and its reply.
 *
 * Pure, as script.h. The script's part is holds.lua.
 */

#define SL_HOLD_DIGITS 32 /* of an id, in hex */
#define SL_HOLD_NAME   64 /* bytes of a record's name, with its NUL */

void sl_script_hold_digits(struct sl_hold_id id, char out[SL_HOLD_DIGITS + 1]);

/* What the record of a hold is called: "sluice:hold:ID", or in a cluster
 * "sluice:hold:{TAG}:ID", which lies in `slot`. */
void sl_script_hold_name(struct sl_hold_id id, bool in_slots, unsigned slot,
                         char out[SL_HOLD_NAME]);

/* Append the command to `out`; how->record is the record's name. */
SL_MUST_USE int sl_script_hold_write(const struct sl_hold_call *call,
                                     const struct sl_script_options *how,
                                     struct sl_buf *out);

/* Fill in what was found. False if that is no reply of the script. `on_key` is
 * told each key of the hold. */
typedef void sl_script_key_f(void *ctx, struct sl_str key);
SL_MUST_USE bool sl_script_hold_read(struct sl_hold_call *call,
                                     struct sl_str reply,
                                     sl_script_key_f *on_key, void *ctx);

/* ---- leases in the words of the script: what was granted, and
 * how one ends. */

/* The script has answered: with `numbers`, as of sl_script_read(), to what was
 * sent at `sent`. All that was asked for has landed then. */
void sl_script_land(struct sl_lease_cache *leases,
                    struct sl_lease_requests *asks, const int64_t *numbers,
                    unsigned count, sl_ns sent, struct sl_lease_counts *counts);

/* ---- one client and its ops ---- */

struct sl_redis_op {
    struct sl_remote_op base; /* first */
    struct sl_redis_cmd cmd;
    struct sl_buf command;  /* with the script's hash */
    struct sl_buf whole;    /* with the script's text, after NOSCRIPT */
    struct sl_hold_id hold; /* of a take; none: it is not held */
    sl_ns hold_now;
    unsigned repairs;
};

struct sl_redis_client {
    struct sl_remote_client base; /* first */
    struct sl_redis_cluster *cluster;
    struct sl_redis_identity *identity;
};

/* The server's time, as far as known, when ours is `now`. */
sl_ns sl_redis_client_near(const struct sl_redis_client *client, sl_ns now);

/* Logs an error reply. */
void sl_redis_client_error(struct sl_redis_client *client, struct sl_str reply);

/* In op.c: the back end's calls for ops. */
int sl_redis_op_init(struct sl_remote_op *base);
void sl_redis_op_reset(struct sl_remote_op *base);
void sl_redis_op_done(struct sl_remote_op *base);
int sl_redis_op_encode_take(struct sl_remote_op *base, struct sl_take *take,
                            const struct sl_lease_keys *keys);
int sl_redis_op_encode_hold(struct sl_remote_op *base,
                            struct sl_hold_call *call);
int sl_redis_op_encode_refund(struct sl_remote_op *base);
int sl_redis_op_encode_lease_end(struct sl_remote_op *base,
                                 const struct sl_lease_end *end, sl_ns now);
void sl_redis_op_send(struct sl_remote_op *base);

/* ---- the first words to a Redis: who we are, which database, and
 * whether anybody is there. */

struct sl_redis_handshake {
    struct sl_str user, password; /* may be empty */
    unsigned database;
};

/* Append them. *ret_replies will come, none of which may be an error. */
SL_MUST_USE int
sl_redis_conn_handshake(struct sl_buf *out,
                        const struct sl_redis_handshake *handshake,
                        unsigned *ret_replies);

/* ---- asks around: one question to one host after the other, until one
 * of them knows.
 *
 * For the map of a cluster and the master that sentinels watch. It has a
 * connection of its own while it asks, and none otherwise. It is out once at a
 * time, and rests a while when it has come back: however many find that the
 * map is wrong, it is asked for some times a second and no more.
 */

struct sl_redis_discovery_options {
    struct sl_conns *conns;
    struct sl_loop *loop;
    struct sl_tls *tls; /* or NULL */
    struct sl_str user, password;
    struct sl_str command;
    const struct sl_alloc *alloc;
    /* Whom to ask in this turn; turns count up. False: there is nobody. */
    bool (*host)(void *ctx, unsigned turn, struct sl_redis_addr *ret);
    /* What he says. True if that is what we wanted to know. */
    bool (*on_reply)(void *ctx, const struct sl_redis_addr *from,
                     struct sl_str reply);
    void *ctx;
};

struct sl_redis_discovery;

SL_MUST_USE int
sl_redis_discovery_open(const struct sl_redis_discovery_options *options,
                        struct sl_redis_discovery **ret);
void sl_redis_discovery_close(
    struct sl_redis_discovery *discovery); /* NULL is allowed */

/* Go, if it is not out already. */
void sl_redis_discovery_go(struct sl_redis_discovery *discovery);

/* ---- the servers that a fleet knows, and which of them is meant. For
 * fleet.c and nodes.c.
 *
 * One server is one node, for good. Of a cluster, the map says which node has
 * which slot; of sentinels, one node is the master. The scout asks for both
 * when nothing is known yet, when a node is lost, and when one turns out not to
 * be what we took it for.
 */

#define SL_REDIS_NODES_MOST 512

struct sl_redis_node {
    struct sl_redis_addr place;
    struct sl_redis_conn *conn;
    struct sl_redis_nodes *nodes;
    unsigned number; /* its place in the list, from 1 */
    bool wanted;     /* the map has it */
    bool stale;      /* it is a replica: nothing is sent until we know more */
    sl_ns note;      /* the owner's; see sl_redis_cluster_note() */
    sl_ns doubted;   /* steady: since when, and when last */
};

struct sl_redis_nodes {
    const struct sl_redis_cluster_options *options;
    struct sl_conns *conns;
    struct sl_redis_discovery *discovery;            /* NULL: one server */
    struct sl_redis_node *list[SL_REDIS_NODES_MOST]; /* NULL: free */
    struct sl_redis_node *master;                    /* but for clusters */
    uint16_t *slots, *fresh; /* clusters: numbers by slot; the next map */
    const struct sl_redis_addr *asked;
    struct sl_buf question;
    bool known;
};

SL_MUST_USE int
sl_redis_nodes_open(struct sl_redis_nodes *nodes,
                    const struct sl_redis_cluster_options *options);
void sl_redis_nodes_close(struct sl_redis_nodes *nodes);

/* The node that has this slot, or NULL. */
static inline struct sl_redis_node *
sl_redis_nodes_for(const struct sl_redis_nodes *nodes, unsigned slot)
{
    unsigned number;

    if (!nodes->slots)
        return nodes->master;
    number = nodes->slots[slot % SL_CLUSTER_SLOTS];
    return number > 0 ? nodes->list[number - 1] : NULL;
}

/* The node that `from` has sent us to; the map is put right. Or NULL. */
struct sl_redis_node *
sl_redis_nodes_redirect(struct sl_redis_nodes *nodes,
                        const struct sl_redis_redirect *to,
                        const struct sl_redis_node *from);

/* Send the scout, if there is one. */
void sl_redis_nodes_ask(struct sl_redis_nodes *nodes);

/* A node has said that it is a replica. False if it was called anew for that
 * within the last `rest`, and nothing more can be done. */
SL_MUST_USE bool sl_redis_nodes_suspect(struct sl_redis_nodes *nodes,
                                        struct sl_redis_node *node, sl_ns now,
                                        sl_ns rest);

/* Call those anew that are doubted and have nothing on its way any more. Not
 * from within a done(). */
void sl_redis_nodes_reconnect(struct sl_redis_nodes *nodes, sl_ns now,
                              sl_ns rest);

/* Close those that nobody needs any more. Not from within a done(). */
void sl_redis_nodes_prune(struct sl_redis_nodes *nodes, sl_ns now);

bool sl_redis_nodes_are_up(const struct sl_redis_nodes *nodes);
sl_ns sl_redis_nodes_reconnect_in(const struct sl_redis_nodes *nodes);

#endif
