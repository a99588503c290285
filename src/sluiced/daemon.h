/* daemon.h -- the daemon: what it is made of, and the steps of its life.
 *
 *   main.c     up and down the steps
 *   begin.c    limits of the process, policy, settings, state, engine
 *   doors.c    sockets and certificates
 *   doors/     what differs from door to door
 *   proxied.c  doors that balancers stand before
 *   workers.c  one thread and one loop each
 *   living.c   signals, the end, watchdog
 *   reload.c   another policy while it runs
 *   files.c    when files change
 *   tokens.c   whose tokens are believed; jwks/ keeps the keys
 *   registry.c who is registered
 *   usage.c    what was used: books, and what they remember
 *   lending.c  quotas leased from books that other daemons use, too
 *   shared.c   a store that other daemons use, too; roll.c counts them
 *   desk.c     what the admin listener asks
 *   tidings.c  what those who listen are told
 *
 * Threads. The first worker's loop runs on the main thread: signals, reloads,
 * the admin listener and the end happen there, so none of what is in this
 * struct needs a lock. The others touch their own worker only, and are sent
 * errands by sl_loop_post().
 */
#ifndef SL_SLUICED_DAEMON_H
#define SL_SLUICED_DAEMON_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#include "identity/identity.h"
#include "net/listener.h"
#include "net/loop.h"
#include "net/proxy_protocol.h"
#include "registry/subject_cache.h"
#include "registry/usage_buffer.h"
#include "server/events.h"
#include "server/grpc/grpc.h"
#include "server/http/admin.h"
#include "server/http/http.h"
#include "server/resp/resp.h"
#include "server/server.h"
#include "sluiced/file_watch.h"
#include "sluiced/jwks.h"
#include "sluiced/policy_source.h"
#include "sluiced/settings.h"
#include "sluiced/systemd.h"
#include "store/dynamo/dynamo.h"
#include "store/dynamo/dynamo_int.h"
#include "store/quota_lease.h"
#include "store/redis/redis.h"
#include "store/store.h"

/* ---- listeners.
 *
 * A listener has its sockets, its TLS context and its server: what all workers
 * share. Each worker has one struct sl_listener_worker per listener.
 *
 * To add a protocol: add it to enum sl_protocol_id (settings.h) and to the
 * table in listeners.c.
 */

struct sl_daemon;
struct sl_proxy_listener;
struct sl_worker;

struct sl_server_listener {
    bool open;
    struct sl_sockets sockets;
    struct sl_tls *tls;
    char where[128];
    struct sl_server server; /* read-only while workers serve it */
};

struct sl_listener_worker {
    struct sl_server_worker *server; /* NULL: this worker does not serve it */
    struct sl_listener *listener;
    struct sl_proxy_listener *proxy;   /* NULL: clients connect directly */
    _Atomic(struct sl_tls *) next_tls; /* to be used from now on, or NULL */
};

/* The admin listener runs on the first worker only, has its own token and
 * drains last. */
static inline bool sl_listener_is_admin(int id)
{
    return id == SL_PROTOCOL_ADMIN;
}

/* Open and close a worker's part of a listener. `max_conns` is the number of
 * connections at once. */
SL_MUST_USE int sl_listener_worker_open(struct sl_worker *worker, int id,
                                        unsigned max_conns);
void sl_listener_worker_close(struct sl_listener_worker *l);

/* Accept connections from `fd`, and all that are in the queue of `fd`. */
SL_MUST_USE int sl_listener_worker_listen(struct sl_worker *worker, int id);
void sl_listener_worker_accept_queued(struct sl_listener_worker *l, int fd);

/* Open connections, including those without a complete PROXY header. */
unsigned sl_listener_worker_count(const struct sl_listener_worker *l);

/* ---- quotas leased from books that other daemons use, too. */

struct sl_daemon;
struct sl_timer;

struct sl_quota_node {
    struct sl_quota_lessor lender; /* first: the two are cast into each other */
    struct sl_store *store; /* the engine's; NULL: quotas are not leased */
    struct sl_daemon *daemon;
    char node[24];          /* who we are, for as long as the state lives */
    struct sl_timer *timer; /* on the first worker's loop */
    _Atomic bool over;      /* nothing more is asked */
    _Atomic bool lost;      /* another has our name */
};

/* ---- how many daemons share a store.
 *
 * Whoever is there signs the roll once in a window of SL_NODE_COUNT, which is a
 * fixed window in the store like any other: it takes one, and shortly before
 * the end it looks how many were taken. So there is one clock, the store's, and
 * nothing to be cleaned up behind a daemon that has died.
 *
 *     |<------ window ------>|
 *     sign              look  sign             look
 *
 * What was counted last counts on while the store is away: that is what it is
 * counted for. A daemon that is started anew within a window is counted twice
 * until the next one.
 */

#define SL_NODE_COUNT (5 * SL_S)

struct sl_node_count {
    struct sl_store *store;
    struct sl_loop *loop;
    struct sl_timer *timer;
    void (*on_count)(void *ctx, unsigned count);
    void *ctx;
    struct sl_limit_binding stored;
    struct sl_limit limit;
    struct sl_take take;
    struct sl_store_part part;
    char name[128];
    unsigned before; /* counted in the window before this one */
    bool reading;    /* otherwise it signs */
    bool ended;
};

/* Begin to sign; `env` parts those who share a store and nothing else. The
 * struct stays where it is until the loop's takes have all been told. */
SL_MUST_USE int sl_node_count_begin(struct sl_node_count *roll,
                                    struct sl_store *store,
                                    struct sl_loop *loop, struct sl_str env);
void sl_node_count_end(struct sl_node_count *roll);

/* The done() of its takes; for tests. */
void sl_node_count_done(struct sl_take *take);

/* ---- a store that other daemons use, too: the daemon's part. */

struct sl_remote_stats;
struct sl_aws_env;

struct sl_remote_state {
    struct sl_store *store; /* the engine's, or NULL: state is not shared */
    struct sl_node_count roll;
    _Atomic unsigned nodes; /* that share it; 0: not counted yet */

    /* Why it went away, by whichever thread saw it. */
    pthread_mutex_t lock;
    char why[256];

    /* What was told of it; the main thread's. */
    bool is_gone;     /* as the log has it */
    sl_ns gone_since; /* steady; 0: it answers */
};

/* What the environment says of keys of AWS. */
void sl_remote_env(struct sl_aws_env *ret);

/* ---- what those who listen are told: the daemon's part. */

struct sl_event_publisher {
    struct sl_events *events;
    struct sl_event_stream *feed;
    struct sl_timer *timer;
    uint64_t degraded; /* decisions without the store, when last looked */
    uint64_t phase;    /* of these, in the phase that lasts; 0: there is none */
    sl_ns last;        /* when the last of them was seen; steady */
    bool is_table_full; /* the table is nearly full */
    struct sl_said {    /* what the log was told of, and when; steady */
        uint64_t count;
        sl_ns at;
    } denied, failed;
};

/* ---- the table that limits are kept in, and that no other daemon uses.
 *
 * A state file can be shared by processes, each with its own engine; but two
 * daemons on one file are a mistake nearly always (a second one started by
 * hand, a unit that was copied), so a daemon locks `PATH.lock` beside it. The
 * lock ends with the process, however that ends.
 */

struct sl_state {
    struct sl_store *store; /* or NULL once an engine has taken it over */
    struct sl_table *table; /* of it */
    int lock;               /* or -1 */
    uint64_t wanted, size;  /* of the table; one that was there keeps its own */
};

/* Open the state that the settings name. `now` is the clock of decisions, as
 * in struct sl_memory_options. 0 or SL_EXIT_STORE with what to do; either way
 * sl_state_close() gives everything back. */
SL_MUST_USE int sl_state_open(struct sl_state *state,
                              const struct sl_settings *settings,
                              sl_ns (*now)(void *ctx), void *now_ctx,
                              struct sl_diag *diag);
void sl_state_close(struct sl_state *state);

struct sl_fd_watch;

/* One loop, and all that is touched on it. */
struct sl_worker {
    struct sl_daemon *daemon;
    unsigned index;
    struct sl_clock clock;
    struct sl_loop *loop;
    struct sl_metrics *stats;
    struct sl_top_keys *top;
    struct sl_denial_batch *denials;
    struct sl_engine_ctx station;               /* passed to every check */
    struct sl_wait_timer waiting;               /* wait queue of its checks */
    struct sl_subject_cache *subject_cache;     /* or NULL: no subjects */
    struct sl_usage_buffer *usage_buffer;       /* or NULL: no registry */
    struct sl_dynamo_subjects *dynamo_subjects; /* or NULL: not in DynamoDB */
    struct sl_listener_worker listeners[SL_PROTOCOLS];
    struct sl_timer *drain_timer; /* polls until connections are gone */
    bool idle_closed;
    pthread_t thread;
    bool has_thread;

    /* Between threads. */
    _Atomic bool empty;              /* drained: no connection is left */
    _Atomic uint64_t heartbeat_seen; /* the last beat that was answered */
    _Atomic uint64_t paused;         /* how often accepting had to */
};

struct sl_daemon {
    struct sl_setting_source given;
    const char *path;            /* of the policy; NULL is the demo */
    bool compat;                 /* it is a folder of another program's */
    struct sl_settings settings; /* with which it was started */
    struct sl_settings latest;   /* of the policy in force */
    struct sl_policy_source policy_source; /* the policy in force */
    struct sl_notify notify;
    struct sl_activated activated;
    struct sl_state state;
    struct sl_remote_state remote;   /* if others use it, too */
    struct sl_quota_node quota_node; /* if the books are shared */
    struct sl_engine *engine;
    struct sl_registry *registry;  /* or NULL */
    struct sl_pg_plan *plan_query; /* or NULL: no tables of others are asked */
    struct sl_clock stopped;       /* the virtual clock, if it was asked for */
    struct sl_admin desk;
    struct sl_hash_key top_secret; /* all workers' */
    struct sl_event_publisher tidings;
    struct sl_server_listener listeners[SL_PROTOCOLS];
    struct sl_worker *workers;
    unsigned worker_count;
    struct sl_file_watch *watch;
    struct sl_jwks *jwks; /* on the first worker's loop */

    /* living.c */
    int signals;
    struct sl_fd_watch *signal_watch;
    struct sl_timer *watchdog;
    uint64_t heartbeat;
    bool draining, admin_draining;
    sl_ns drain_until;  /* steady */
    sl_ns settle_until; /* and what is on its way to the store comes back */

    /* reload.c */
    bool reload_good, certificates_good;
    sl_ns started_at, reloaded_at;
    uint64_t reloads_good, reloads_bad;

    struct sl_diag why; /* the sentence of a step that failed */
};

/* A step returns 0 or an exit status, with a sentence in daemon->why unless it
 * has said everything itself. What goes down may never have come up. */
typedef int sl_step_f(struct sl_daemon *daemon);
typedef void sl_unstep_f(struct sl_daemon *daemon);

/* begin.c */
sl_step_f sl_process_begin, sl_policy_begin, sl_state_begin, sl_engine_begin;
sl_unstep_f sl_process_end, sl_policy_end, sl_state_end, sl_engine_end;

#ifdef SL_VIRTUAL_CLOCK
/* The policy in force over an empty state, at 1970. The state must be one of
 * memory alone, or in a Redis, of which nothing stays; on failure everything
 * does. */
SL_MUST_USE int sl_engine_reset(struct sl_daemon *daemon);
#endif

/* shared.c */

/* A store that is shared becomes daemon->state.store. 0 or an exit status. */
SL_MUST_USE int sl_remote_open(struct sl_daemon *daemon);

/* A seat at it for the worker's loop, if it is shared. Whatever is on its way
 * is told before it is gone. */
SL_MUST_USE int sl_remote_attach(struct sl_worker *worker);
/* It ends: what it has taken in advance goes back. On its thread. */
void sl_remote_drain(struct sl_worker *worker);
/* Is something on its way to the store, or may it be? One that `tells` knows.
 */
bool sl_remote_is_busy(const struct sl_daemon *daemon);
bool sl_remote_has_count(const struct sl_daemon *daemon);
void sl_remote_detach(struct sl_worker *worker);

/* Those who share it are counted. */
sl_step_f sl_remote_begin;
sl_unstep_f sl_remote_end;

/* Now and then: has it gone, has it come back? */
void sl_remote_poll(struct sl_daemon *daemon);

/* Does it answer? Otherwise `why` gets a sentence. */
bool sl_remote_answers(struct sl_daemon *daemon, struct sl_buf *why);

void sl_remote_count(struct sl_daemon *daemon, struct sl_metrics_shared *ret);

/* registry.c */
sl_step_f sl_subjects_begin;
sl_unstep_f sl_subjects_end;

/* Let a worker find subjects. */
SL_MUST_USE int sl_worker_open_subjects(struct sl_worker *worker);

/* No loop runs any more: tell what the registry has answered, and ask no
 * further. */
void sl_subjects_stop(struct sl_daemon *daemon);

void sl_subjects_count(const struct sl_daemon *daemon,
                       struct sl_metrics_subjects *ret);

/* usage.c */

/* When the daemon starts: each row of the books that was written since then is
 * told, and the table is to know of it. */
sl_ns sl_usage_since(struct sl_daemon *daemon);
sl_usage_db_f sl_usage_restore;

/* Whose row it is; `values` and `id` are room for it. False: nobody's. */
SL_MUST_USE bool sl_usage_spent(const struct sl_usage_entry *usage,
                                struct sl_str values[SL_PER_MAX],
                                char id[SL_USAGE_ID],
                                struct sl_usage_delta *ret);

/* Let a worker keep books, and let all that it has on its slip be put down. */
SL_MUST_USE int sl_worker_open_usage(struct sl_worker *worker);
void sl_worker_close_usage(struct sl_worker *worker);

void sl_usage_count(const struct sl_daemon *daemon,
                    struct sl_metrics_subjects *ret);

/* lending.c */

/* The table gets leases before it, if the books are shared. 0 or an exit
 * status. */
SL_MUST_USE int sl_quota_node_wrap(struct sl_daemon *daemon);

/* When the daemon starts: what this node had leased. */
sl_lease_f sl_quota_node_resume;

/* The wall clock, or the virtual one. */
sl_ns sl_quota_node_now(struct sl_daemon *daemon);

sl_step_f sl_quota_node_begin;
sl_unstep_f sl_quota_node_end;

/* No loop runs any more: what is leased goes back, and nothing more is
 * asked. */
void sl_quota_node_drain(struct sl_daemon *daemon);

/* listeners.c */
sl_step_f sl_listeners_begin;
sl_unstep_f sl_listeners_end;

/* Load the certificates that `settings` name and pass them to the workers. On
 * failure the old ones stay. */
SL_MUST_USE int sl_listeners_set_tls(struct sl_daemon *daemon,
                                     const struct sl_settings *settings,
                                     struct sl_diag *diag);

/* worker.c */
sl_step_f sl_workers_begin, sl_workers_start;
sl_unstep_f sl_workers_end, sl_workers_join;

/* From the main thread: use `tls` for new connections of this listener. */
void sl_worker_set_tls(struct sl_worker *worker, enum sl_protocol_id id,
                       struct sl_tls *tls);

/* From the main thread: accept no more connections and drain. */
void sl_worker_drain(struct sl_worker *worker);

/* tokens.c */
sl_step_f sl_tokens_begin;
sl_unstep_f sl_tokens_end;

#ifdef SL_VIRTUAL_CLOCK
/* Whoever verifies on the only worker remembers nobody any more. */
SL_MUST_USE int sl_tokens_reset(struct sl_daemon *daemon);
#endif

/* Believe the tokens that `policy` says, which was perhaps posted. On failure
 * (SLUICE_ECONF if its keys can't be read) everything stays. */
SL_MUST_USE int sl_tokens_use(struct sl_daemon *daemon,
                              struct sl_policy *policy, bool posted,
                              struct sl_diag *diag);

/* living.c */
sl_step_f sl_lifecycle_begin;
sl_unstep_f sl_lifecycle_end;

/* Serve until the end. */
void sl_lifecycle_run(struct sl_daemon *daemon);

/* A worker has no connections left, or it is time to look again. */
void sl_lifecycle_drained(struct sl_daemon *daemon);

/* files.c */
sl_step_f sl_reload_files_begin;
sl_unstep_f sl_reload_files_end;

/* Other files count from now on: those of daemon->latest. */
void sl_reload_files_again(struct sl_daemon *daemon);

/* reload.c */

/* Why a policy is read again. */
enum sl_reload_cause {
    SL_RELOAD_SIGNAL,
    SL_RELOAD_FILE,
    SL_RELOAD_ASKED, /* by the admin listener */
    SL_RELOAD_POSTED,
};

/* Put the policy's file in force again, or `posted`. What changed, or what is
 * wrong, is appended to `report` (may be NULL), a line each, and logged. 0 or
 * SLUICE_ECONF: the old one stays. */
int sl_reload(struct sl_daemon *daemon, enum sl_reload_cause cause,
              const struct sl_str *posted, struct sl_buf *report);

/* tidings.c: events.h from the beginning, the feed once there are loops. */
sl_step_f sl_event_publisher_begin, sl_event_stream_begin;
sl_unstep_f sl_event_publisher_end, sl_event_stream_end;

/* Tell that a policy was put in force, or refused; `report` is what changed or
 * what is wrong, a line each. */
void sl_event_publisher_policy(struct sl_daemon *daemon, bool good,
                               const char *cause, struct sl_str report);
void sl_event_publisher_feature(struct sl_daemon *daemon, struct sl_str name,
                                bool on);

/* desk.c */
void sl_admin_ops_open(struct sl_daemon *daemon);

/* ---- what runs when nobody has written a policy yet.
 */

/* YAML; it passes `sluice check` without a warning, which a test sees to. */
extern const char sl_demo_policy[];

/* Say what there is to try. The addresses are "127.0.0.1:8080" or "unix:PATH";
 * NULL if that door is closed. `state` is the file of the state, or NULL. */
void sl_demo_print(FILE *out, const char *http, const char *resp,
                   const char *admin, const char *state);

/* ---- an empty Redis for the next flow; test builds only. */

/* Delete everything in the database of a Redis without a password. 0 or
 * SLUICE_ESTORE. */
SL_MUST_USE int sl_test_reset(const struct sl_redis_url *where);

/* Only of the DynamoDB of our tests: it has a word for that. */
SL_MUST_USE int sl_test_reset_dynamo(const struct sl_dynamo_url *where);

/* ---- the plans of subjects in a table of DynamoDB.
 *
 *   userId   dataType   subscriptionTier   subscriptionExpiry
 *   123      PROFILE    premium            2026-12-31T23:59:59Z
 *
 * The table belongs to the application and is only read. An organisation has
 * the key "org:" and its id. A tier without a valid date has ended: its subject
 * has the default plan. A source belongs to one loop; subject_cache.h caches
 * its answers.
 */

struct sl_dynamo_subjects_options {
    struct sl_dynamo_url where; /* its texts and those of env outlive this */
    struct sl_aws_env env;
    struct sl_loop *loop;
    const struct sl_alloc *alloc;
    sl_ns timeout; /* of the endpoint */
    void (*on_fault)(void *ctx, const char *sentence);
    void *ctx;
};

struct sl_dynamo_subjects;

SL_MUST_USE int
sl_dynamo_subjects_open(const struct sl_dynamo_subjects_options *options,
                        struct sl_dynamo_subjects **ret);

/* Close the cache first: it cancels open jobs. NULL is allowed. */
void sl_dynamo_subjects_close(struct sl_dynamo_subjects *subjects);

struct sl_subject_source
sl_dynamo_subjects_source(struct sl_dynamo_subjects *subjects);

#endif
