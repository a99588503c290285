/* daemon.h -- the daemon: its structs, and the steps of its life.
 *
 *   main.c             the steps in order
 *   startup.c          process limits, policy, settings, state, engine
 *   listeners.c        sockets, certificates, protocols
 *   worker.c           one thread and one loop each
 *   lifecycle.c        signals, shutdown, watchdog
 *   reload.c           policy reload, and its triggers
 *   jwks.c             keys of tokens
 *   subjects.c         registry and subject caches
 *   usage.c            usage buffers, restore at start
 *   quota_node.c       quota leases of this daemon
 *   hold_ends.c        holds that ended at another daemon
 *   denials.c          denials in the usage database
 *   remote_store.c     remote store (sl_daemon_store_*), node count
 *   repeats.c          memory of repeats, shared backlogs
 *   peers.c            daemons that share it, for the console
 *   health.c           whether the database answers; steps of the clock
 *   admin_ops.c        callbacks of the admin listener
 *   event_publisher.c  events
 *   webhook_notes.c    notes to organisations and to the operator
 *   webhooks.c         webhooks that go out
 *
 * Threads. The first worker's loop runs on the main thread: signals, reloads,
 * the admin listener and shutdown. So struct sl_daemon needs no lock. Other
 * threads use their own worker only, and receive calls by sl_loop_post().
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
#include "server/denial_ring.h"
#include "server/events.h"
#include "server/grpc/grpc.h"
#include "server/http/admin.h"
#include "server/http/http.h"
#include "server/recorder.h"
#include "server/resp/resp.h"
#include "server/server.h"
#include "sluiced/file_watch.h"
#include "sluiced/jwks.h"
#include "sluiced/policy_source.h"
#include "sluiced/settings.h"
#include "sluiced/systemd.h"
#include "store/combined.h"
#include "store/dynamo/dynamo.h"
#include "store/dynamo/dynamo_int.h"
#include "store/quota_lease.h"
#include "store/redis/redis.h"
#include "store/store.h"

struct sl_daemon;
struct sl_fd_watch;
struct sl_timer;
struct sl_webhooks;
struct sl_worker;

/* What all workers share of a listener. To add a protocol: add it to enum
 * sl_protocol_id (settings.h) and to the table in listeners.c. */
struct sl_server_listener {
    bool open;
    struct sl_sockets sockets;
    struct sl_tls *tls;
    char where[128];
    struct sl_server server; /* read-only while workers serve it */
};

/* A worker's part of a listener. */
struct sl_listener_worker {
    struct sl_worker *worker;
    struct sl_server_worker *server; /* NULL: this worker does not serve it */
    struct sl_listener *listener;
    struct sl_proxy_accept *proxy;     /* NULL: clients connect directly */
    _Atomic(struct sl_tls *) next_tls; /* to be used from now on, or NULL */
};

/* Quota leases of this daemon. */
struct sl_quota_node {
    struct sl_quota_lessor lessor; /* first: the two are cast into each other */
    struct sl_store *store; /* of the engine; NULL: quotas are not leased */
    struct sl_daemon *daemon;
    char node[24];               /* name of this node, as old as the state */
    char former[24];             /* likewise, if quotas are not leased */
    struct sl_timer *timer;      /* on the first worker's loop */
    _Atomic bool over;           /* no more requests */
    _Atomic bool lost;           /* another daemon has our name */
    struct sl_quota_watch watch; /* of the other nodes, on that loop */
    bool watching;               /* a list of them is being read */
    unsigned heartbeats;

    /* hold_ends.c, on that loop */
    struct sl_timer *ends_timer;
    bool reading_ends, ends_failed;
    uint64_t ends_mark; /* of the usage buffer, behind the last end */
    sl_ns held_at; /* monotonic: when there was a hold; 0: not looked yet */
    sl_ns ends_read_at; /* monotonic */
    _Atomic uint64_t
        late_units; /* of holds that ended after they had expired */
};

/* ---- node count: how many daemons share a store, and a limit.
 *
 * The store has a counter for itself, and one for each limit that the local
 * table may decide. Each daemon takes one unit in every window of
 * SL_NODE_COUNT, which is a fixed window in the store, and reads the count
 * shortly before its end. So there is one clock, the store's, and a dead daemon
 * needs no clean-up.
 *
 *     |<------ window ------>|
 *     take              read  take             read
 *
 * The last count stays valid while the store is down. A restarted daemon counts
 * twice until the next window.
 */

#define SL_NODE_COUNT (5 * SL_S)

/* Daemons that share a limit, or the store. */
struct sl_node_counter {
    char limit[96];        /* "": the store */
    unsigned seen, before; /* in this window, and in the one before; 0: not
                            * read */
    bool taken;            /* this daemon is counted in this window */
};

struct sl_node_counters {
    struct sl_node_counter *list;
    unsigned count;
};

struct sl_node_count {
    struct sl_store *store;
    struct sl_loop *loop;
    struct sl_timer *timer;
    void (*on_count)(void *ctx, struct sl_str limit, unsigned count);
    void *ctx;
    struct sl_limit_binding stored;
    struct sl_limit limit;
    struct sl_take take;
    struct sl_part part;
    char env[96];
    char name[256]; /* of the counter in the take */
    struct sl_node_counters all;
    struct sl_node_counters next; /* of a new policy; NULL: none */
    unsigned at;                  /* the counter of the next take */
    sl_ns window_end;             /* 0: it is over */
    bool reading;                 /* otherwise it takes */
    bool busy;                    /* a take is under way */
    bool ended;
};

/* Begins to count. `env` of the policy separates daemons that share nothing but
 * the store. The struct must stay in place until all its takes are done. */
SL_MUST_USE int sl_node_count_begin(struct sl_node_count *n,
                                    struct sl_store *store,
                                    struct sl_loop *loop,
                                    const struct sl_policy *policy);

/* Counts for the limits of a new policy. Before the begin it does nothing. On
 * the loop. SLUICE_ENOMEM: those of the old one stay. */
SL_MUST_USE int sl_node_count_use(struct sl_node_count *n,
                                  const struct sl_policy *policy);
void sl_node_count_end(struct sl_node_count *n);

/* What its timer calls; for tests. */
void sl_node_count_step(struct sl_node_count *n);

/* The done() of its takes; for tests. */
void sl_node_count_done(struct sl_take *take);

/* The remote store. */
struct sl_daemon_store {
    struct sl_store *store;    /* or NULL: state is local */
    struct sl_store *combined; /* in front of it: of the engine; NULL: no quotas
                                * are leased */
    struct sl_node_count node_count;
    _Atomic unsigned nodes; /* that share the store; 0: not counted yet */

    /* Why the store failed; written by any thread. */
    pthread_mutex_t lock;
    char why[256];

    /* Main thread only. */
    bool is_gone;     /* as logged */
    bool is_slow;     /* as logged */
    sl_ns gone_since; /* monotonic; 0: it answers */
};

/* Main thread only. */
struct sl_health {
    struct sl_job job; /* a ping of the database */
    bool pinging;
    bool is_down;
    char why[256];     /* while it is down */
    sl_ns pinged, now; /* monotonic */
    sl_ns down_since;
    sl_ns offset;    /* of the wall clock, against the monotonic one */
    bool no_address; /* it was logged that a request had none */
    uint64_t clock_steps;
    struct sl_job retain; /* deletes old rows */
    bool retaining;
    sl_ns retained; /* wall clock: when it was last asked; 0: never */
};

/* The memory of repeats and backlogs. */
struct sl_daemon_repeats {
    struct sl_repeats in_database; /* first: the two are cast into each other */
    struct sl_repeats *shared;     /* in the store or database; NULL: local */
    struct sl_daemon *daemon;
    struct sl_hash_key secret; /* of the database: written once... */
    _Atomic bool has_secret;   /* ...before this */
    struct sl_timer *timer;    /* reads the secret and the backlogs; on the
                                * first worker's loop */
    bool asking;               /* for the secret */
    char path[4096];           /* of the file; "": none */
};

/* Daemons that share a store or a database. Main thread only. */
#define SL_PEERS_MOST 64

struct sl_peer_daemon {
    bool is_there;
    char name[128], node[128];
    uint64_t nonce;             /* of its process */
    int64_t step;               /* of its counts that is read next */
    int64_t gap;                /* a step that was missing, */
    sl_ns gap_at;               /* and when that was seen */
    struct sl_history *history; /* NULL: no step was read yet */
    struct sl_buf state, top;   /* as it wrote them */
};

struct sl_daemon_peers {
    int slot; /* of this daemon; -1: none yet */
    uint64_t nonce;
    char name[128];
    unsigned open; /* calls that are not answered */
    sl_ns ticked, looked;
    unsigned looks;
    int64_t step;           /* that is written next, */
    int64_t added;          /* and added to: */
    struct sl_history *all; /* the counts of all daemons, with this one */
    unsigned used;          /* slots that others have, or have had */
    struct sl_peer_daemon peers[SL_PEERS_MOST]; /* by slot */
};

/* The denial history. Main thread only. */
struct sl_daemon_denials {
    struct sl_daemon *daemon;
    struct sl_job job; /* writes the batch */
    bool writing;
    bool erased;                /* a name, since the batch was taken */
    struct sl_denial_job batch; /* of `copies`; it stays until it is written */
    struct sl_denial_copies *copies;
    sl_ns flushed;          /* monotonic */
    uint64_t skipped;       /* records that were never written */
    struct sl_hash_key key; /* of names in answers from memory: random until
                             * the first batch is written, then that of the
                             * database */
    char node[65];          /* name of this daemon */
};

struct sl_event_publisher {
    struct sl_events *events;
    struct sl_event_stream *stream;
    struct sl_timer *timer;
    uint64_t degraded;  /* decisions without the store, at the last poll */
    uint64_t phase;     /* of these, in the current outage; 0: none */
    sl_ns last;         /* when the last of them was seen; monotonic */
    bool is_table_full; /* nearly */
    struct sl_logged {  /* counts already logged, and when; monotonic */
        uint64_t count;
        sl_ns at;
    } denied, failed;
};

/* The table of this daemon. A state file can be shared by processes, each with
 * its own engine. Two daemons on one file are nearly always a mistake, so a
 * daemon locks `PATH.lock` beside it. The lock ends with the process. */
struct sl_state {
    struct sl_store *store; /* or NULL once an engine owns it */
    struct sl_table *table; /* of the store */
    int lock;               /* or -1 */
};

/* One thread with its loop. */
struct sl_worker {
    struct sl_daemon *daemon;
    unsigned index;
    struct sl_clock clock;
    struct sl_loop *loop;
    struct sl_metrics *stats;
    struct sl_top_keys *top;
    struct sl_denial_batch *denials;
    struct sl_denial_ring *ring;
    struct sl_recorder *recorder;
    struct sl_engine_ctx engine_ctx;            /* passed to every check */
    struct sl_wait_timer waiting;               /* wait queue of its checks */
    struct sl_subject_cache *subject_cache;     /* or NULL: no subjects */
    struct sl_usage_buffer *usage_buffer;       /* or NULL: no registry */
    struct sl_dynamo_subjects *dynamo_subjects; /* or NULL: not in DynamoDB */
    struct sl_listener_worker listeners[SL_PROTOCOLS];
    struct sl_timer *drain_timer; /* polls until connections are gone */
    bool idle_closed;
    pthread_t thread;
    bool has_thread;

    /* Shared between threads. */
    _Atomic bool empty;              /* drained: no connections left */
    _Atomic uint64_t heartbeat_seen; /* the last heartbeat answered */
    _Atomic uint64_t paused;         /* how often accepting paused */
};

/* Errors of the database that were logged. */
struct sl_daemon_faults {
    pthread_mutex_t lock;
    struct {
        uint64_t hash; /* of the sentence */
        sl_ns at;      /* monotonic; 0: none */
    } list[64];
    uint64_t omitted; /* since the last one */
};

struct sl_daemon {
    struct sl_setting_source given;
    const char *path; /* of the policy, or of the folder; NULL is the demo */
    bool compat;      /* a folder of another program's configuration */
    struct sl_settings settings;           /* at start */
    struct sl_settings latest;             /* of the active policy */
    struct sl_policy_source policy_source; /* the active policy */
    struct sl_notify notify;
    struct sl_activated activated;
    struct sl_state state;
    struct sl_daemon_store remote; /* if the state is in a remote store */
    struct sl_health health;
    struct sl_quota_node quota_node; /* if the usage database is shared */
    struct sl_daemon_repeats repeats;
    struct sl_daemon_peers peers;
    struct sl_daemon_denials denials;
    struct sl_history *history;    /* for the console */
    struct sl_webhooks *webhooks;  /* or NULL: no registry */
    struct sl_loop *webhooks_loop; /* to wake it, or NULL; see webhooks.c */
    struct {
        uint64_t omitted; /* beyond their rate */
        bool looking, more;
        sl_ns looked, ended; /* overrides: when, and up to which end */
        uint64_t skip;       /* that many after it are told, too */
    } notes;                 /* first loop; see webhook_notes.c */
    struct {
        struct sl_usage_reached *_Atomic list; /* not reported; see usage.c */
        _Atomic bool has_loop;                 /* of the first worker */
        _Atomic uint64_t count;                /* reported */
    } reached; /* thresholds, by lines of an earlier process */
    struct sl_daemon_faults faults;
    struct sl_engine *engine;
    struct sl_registry *registry;     /* or NULL */
    struct sl_usage_journal *journal; /* or NULL: no registry */
    struct sl_pg_plan *plan_query;    /* or NULL: no query for plans */
    struct sl_clock stopped;          /* the virtual clock, in test builds */
    struct sl_admin admin;
    struct sl_usage_page usage_page;
    struct sl_hash_key top_secret; /* of all workers */
    struct sl_event_publisher publisher;
    struct sl_server_listener listeners[SL_PROTOCOLS];
    struct sl_worker *workers;
    unsigned worker_count;
    struct sl_file_watch *watch;
    struct sl_jwks *jwks; /* on the first worker's loop */

    /* lifecycle.c */
    int signals;
    struct sl_fd_watch *signal_watch;
    struct sl_timer *watchdog;
    uint64_t heartbeat;
    bool draining, admin_draining;
    sl_ns drain_until;  /* monotonic */
    sl_ns settle_until; /* when waiting for the store ends */

    /* reload.c */
    bool reload_good, certificates_good;
    bool files_good; /* the last policy that was read from files is active, or
                      * a later one */
    sl_ns started_at, reloaded_at;
    uint64_t reloads_good, reloads_bad;

    struct sl_diag why; /* the sentence of a step that failed */
};

/* A step returns 0 or an exit status, with a sentence in daemon->why unless it
 * has printed everything itself. An end step must also work if its begin step
 * did not run. */
typedef int sl_step_f(struct sl_daemon *daemon);
typedef void sl_unstep_f(struct sl_daemon *daemon);

/* Returns SL_EXIT_FAILED, with a sentence. */
static inline int sl_daemon_no_memory(struct sl_daemon *daemon)
{
    return sl_diag_error(&daemon->why, SL_EXIT_FAILED, "out of memory");
}

/* The wall clock, or the virtual one. */
static inline sl_ns sl_daemon_now(struct sl_daemon *daemon)
{
    return daemon->settings.virtual_clock ? sl_clock_now(&daemon->stopped)
                                          : sl_clock_wall();
}

/* startup.c */
sl_step_f sl_process_begin, sl_policy_begin, sl_state_begin, sl_engine_begin;
sl_unstep_f sl_process_end, sl_policy_end, sl_state_end, sl_engine_end;

#ifdef SL_VIRTUAL_CLOCK
/* Restarts the active policy with an empty state, at 1970. The state must be in
 * memory, or in a remote store, which is emptied. On failure nothing changes.
 */
SL_MUST_USE int sl_engine_reset(struct sl_daemon *daemon);

/* test_answers.c: what records answers, or NULL. */
void (*sl_test_answers(void))(const struct sl_http_call *);
#endif

/* The policy that runs without a policy file: YAML without warnings. */
extern const char sl_demo_policy[];

/* Prints what to try. The addresses are "127.0.0.1:8080" or "unix:PATH", or
 * NULL if the listener is closed. `state` is the state file, or NULL. */
void sl_demo_print(FILE *out, const char *http, const char *resp,
                   const char *admin, const char *state);

/* test_reset.c, for test builds: empty the database of a Redis without a
 * password, or the DynamoDB of our tests. Return 0 or SLUICE_ESTORE. */
SL_MUST_USE int sl_test_reset(const struct sl_redis_url *where);
SL_MUST_USE int sl_test_reset_dynamo(const struct sl_dynamo_url *where);

/* remote_store.c */
sl_step_f sl_daemon_store_begin; /* the node count */
sl_unstep_f sl_daemon_store_end;

/* Opens the remote store as daemon->state.store, combined with the quotas of
 * the table, if one is open. Returns 0 or an exit status. */
SL_MUST_USE int sl_daemon_store_open(struct sl_daemon *daemon);

/* Returns whether operations are in flight, or may be: Redis has no count. */
bool sl_daemon_store_is_busy(const struct sl_daemon *daemon);

/* Logs outages and recoveries; called from time to time. */
void sl_daemon_store_poll(struct sl_daemon *daemon);

/* ---- health.c ---- */

void sl_health_begin(struct sl_daemon *daemon);

/* Asks the database whether it answers, and looks for steps of the clock; some
 * times a second. */
void sl_health_poll(struct sl_daemon *daemon);

/* Returns whether the database answers, and if not, why; -1: there is none.
 * `why` may be NULL. */
int sl_health_database(const struct sl_daemon *daemon, struct sl_buf *why);

/* Adds a sentence if the store does not answer. */
void sl_daemon_store_explain(struct sl_daemon *daemon, struct sl_buf *why);
void sl_daemon_store_count(struct sl_daemon *daemon,
                           struct sl_metrics_shared *ret);

/* Reads the AWS credentials from the environment. */
struct sl_aws_env sl_daemon_aws_env(void);

/* subjects.c */
sl_step_f sl_subjects_begin;
sl_unstep_f sl_subjects_end;

/* Records the units of a new policy in the usage database. Returns 0, or an
 * error with a sentence: there is usage in another unit, or the database does
 * not answer. */
SL_MUST_USE int sl_subjects_use(struct sl_daemon *daemon,
                                const struct sl_policy *policy,
                                struct sl_diag *why);

/* Opens the subject cache of a worker. */
SL_MUST_USE int sl_worker_open_subjects(struct sl_worker *worker);

/* Call it when no loop runs: delivers the last answers of the registry, and
 * closes the subject caches. */
void sl_subjects_stop(struct sl_daemon *daemon);
void sl_subjects_count(struct sl_daemon *daemon,
                       struct sl_metrics_subjects *ret);

/* usage.c */

/* At start: each row of the usage database written since then is passed on and
 * charged to the table. */
sl_ns sl_usage_since(struct sl_daemon *daemon);
sl_usage_db_f sl_usage_restore;

/* The secret of the table, if it is compared with the usage database at each
 * start and we alone write to that; or NULL. */
const struct sl_hash_key *sl_usage_secret(const struct sl_daemon *daemon);

/* The usage of a row of the usage database; `values` and `id` are buffers.
 * Returns false if its scope and id do not fit together. */
SL_MUST_USE bool sl_usage_delta_of(const struct sl_usage_entry *usage,
                                   struct sl_str values[SL_PER_MAX],
                                   char id[SL_USAGE_ID],
                                   struct sl_usage_delta *ret);

/* Opens the journal, before the registry. Returns 0 or an exit status. */
SL_MUST_USE int sl_usage_journal_begin(struct sl_daemon *daemon);
/* A line of an earlier process has reached thresholds: they are reported when
 * the loop of the first worker is there. On the registry's thread, too. */
sl_usage_seen_f sl_usage_replayed;
void sl_usage_reached_start(struct sl_daemon *daemon);
void sl_usage_reached_end(struct sl_daemon *daemon);

/* Open and close the usage buffer of a worker. */
SL_MUST_USE int sl_worker_open_usage(struct sl_worker *worker);
void sl_worker_close_usage(struct sl_worker *worker);
void sl_usage_count(struct sl_daemon *daemon, struct sl_metrics_subjects *ret);

/* Returns whether the table has holds: held units may be refunded. */
SL_MUST_USE bool sl_daemon_has_holds(const struct sl_daemon *daemon);

/* quota_node.c */
sl_step_f sl_quota_node_begin;
sl_unstep_f sl_quota_node_end;

/* Wraps the table in a store with quota leases, if the usage database is
 * shared. Returns 0 or an exit status. */
SL_MUST_USE int sl_quota_node_wrap(struct sl_daemon *daemon);

/* Returns whether a limit is decided by quota leases if there are any: limits
 * with sign-in carry are not. */
SL_MUST_USE bool sl_quota_node_can_lease(const struct sl_daemon *daemon,
                                         struct sl_str limit);

/* At start: the leases that this node had. */
sl_lease_f sl_quota_node_resume;

/* Call it when no loop runs: returns all leases. No requests follow. */
void sl_quota_node_drain(struct sl_daemon *daemon);

/* hold_ends.c: holds of this node that ended at another daemon. */
sl_step_f sl_hold_ends_begin;
sl_unstep_f sl_hold_ends_end;

/* repeats.c */

/* Chooses the memory of repeats for the engine: the remote store, a database
 * that is shared, a file beside the state file, or this process. */
void sl_daemon_repeats_choose(struct sl_daemon *daemon,
                              struct sl_engine_options *options);
sl_step_f sl_daemon_repeats_begin;
sl_unstep_f sl_daemon_repeats_end;

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

/* After the threads have ended: runs the calls that were posted to their
 * loops. */
void sl_workers_run_posts(struct sl_daemon *daemon);

/* From the main thread: use `tls` for new connections of this listener. */
void sl_worker_set_tls(struct sl_worker *worker, int id, struct sl_tls *tls);

/* From the main thread: accept no more connections and drain. */
void sl_worker_drain(struct sl_worker *worker);

/* jwks.c */
sl_step_f sl_tokens_begin;
sl_unstep_f sl_tokens_end;

/* Opens a new verifier for the tokens of a worker, with an empty cache. */
SL_MUST_USE int sl_tokens_reset(struct sl_daemon *daemon,
                                struct sl_worker *worker);

/* lifecycle.c */
sl_step_f sl_lifecycle_begin;
sl_unstep_f sl_lifecycle_end;

/* Serves until shutdown. */
void sl_lifecycle_run(struct sl_daemon *daemon);

/* A worker has no connections left, or it is time to check again. */
void sl_lifecycle_drained(struct sl_daemon *daemon);

/* reload.c */
sl_step_f sl_reload_files_begin; /* the file watch */
sl_unstep_f sl_reload_files_end;

enum sl_reload_cause {
    SL_RELOAD_SIGNAL,
    SL_RELOAD_FILE,
    SL_RELOAD_ASKED, /* by the admin listener */
    SL_RELOAD_POSTED,
};

/* Records a change in the audit; in the log without a registry. */
void sl_daemon_audit(struct sl_daemon *daemon,
                     const struct sl_audit_note *note);

/* Reloads the policy file, or uses `posted`. Appends changes or errors to
 * `report` (may be NULL), one per line, and logs them. Returns 0, or
 * SLUICE_ECONF: the policy is unchanged. */
int sl_reload(struct sl_daemon *daemon, enum sl_reload_cause cause,
              const struct sl_str *posted, struct sl_buf *report);

/* Appends what sl_reload() with `text` would change, with warnings, or its
 * errors; and with `minutes` what it would have decided since then. Activates
 * nothing. Returns 0, SLUICE_ECONF: it has errors, or SLUICE_ENOMEM. */
SL_MUST_USE int sl_reload_check(struct sl_daemon *daemon, struct sl_str text,
                                unsigned minutes, struct sl_buf *report,
                                struct sl_buf *what_if);

/* event_publisher.c: the events first, the stream when there are loops. */
sl_step_f sl_event_publisher_begin, sl_event_stream_begin;
sl_unstep_f sl_event_publisher_end, sl_event_stream_end;

/* peers.c */
sl_step_f sl_peers_begin;
sl_unstep_f sl_peers_end;
void sl_peers_poll(struct sl_daemon *daemon);

/* Appends {"daemons":[{"id":0,"name":"a","self":true,"state":METRICS,
 * "top":ARRAY}]}; state and top are texts. */
SL_MUST_USE int sl_peers_write(struct sl_daemon *daemon, struct sl_buf *out);

/* The counts of all daemons, of this one, or of the one with this id; NULL:
 * there is none. */
const struct sl_history *sl_peers_history(struct sl_daemon *daemon, int id);

/* Brings daemon->history up to date. */
void sl_event_publisher_history(struct sl_daemon *daemon);

/* ---- denials.c ---- */

sl_step_f sl_denials_begin;
sl_unstep_f sl_denials_end;

/* Records denials from now on, or not, as the active policy says. */
void sl_denials_keep(struct sl_daemon *daemon);

/* Several times a second. */
void sl_denials_poll(struct sl_daemon *daemon);

/* Begins to write what is not written, unless it is writing. */
void sl_denials_flush(struct sl_daemon *daemon);

/* Appends what a query finds in memory, one record per line: all records, or
 * only those that the database does not have. Returns their number, or an
 * error. */
SL_MUST_USE int sl_denials_find(struct sl_daemon *daemon,
                                const struct sl_denial_query *query, bool all,
                                struct sl_buf *out);

/* Deletes the records of a name from memory. */
void sl_denials_forget(struct sl_daemon *daemon, struct sl_str scope,
                       struct sl_str id);

/* ---- webhooks.c ---- */

/* Opened with the loops; closed when the registry has stopped. */
sl_step_f sl_webhooks_open, sl_webhooks_begin;
sl_unstep_f sl_webhooks_end, sl_webhooks_close;

/* There may be something to send. Any thread. */
void sl_webhooks_wake(struct sl_daemon *daemon);

/* Several times a second. */
void sl_webhooks_poll(struct sl_daemon *daemon);
void sl_webhooks_count(struct sl_daemon *daemon,
                       struct sl_metrics_webhooks *ret);

/* Is something being sent? */
bool sl_webhooks_is_busy(const struct sl_daemon *daemon);

/* ---- webhook_notes.c ---- */

/* Sends {"type":TYPE,"timestamp":...,"data":{MEMBERS}} to the contact endpoints
 * of an organisation ("": none) and of the operator, if there are any. TYPE is
 * a constant. Any worker. */
void sl_webhooks_notify(struct sl_worker *worker, struct sl_str org,
                        const char *type, struct sl_str members);

/* The same for a threshold that was crossed. */
void sl_webhooks_notify_usage(struct sl_worker *worker,
                              const struct sl_usage_entry *u,
                              unsigned threshold, struct sl_str members);

/* Several times a second: looks for overrides that have ended. */
void sl_webhook_notes_poll(struct sl_daemon *daemon);

/* Writes an event: its members, and then its type. Without memory it has its
 * time and type only. On the worker's thread. */
struct sl_writer sl_event_begin(struct sl_buf *members);
void sl_event_publish(struct sl_worker *worker, const char *type,
                      struct sl_writer *w);

/* Publishes that a policy was loaded or refused; `report` has the changes or
 * errors, one per line. */
void sl_event_publisher_policy(struct sl_daemon *daemon, bool good,
                               const char *cause, struct sl_str report);
void sl_event_publisher_feature(struct sl_daemon *daemon, struct sl_str name,
                                bool on);

/* admin_ops.c */
void sl_admin_ops_open(struct sl_daemon *daemon);

#endif
