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
#ifndef SL_DAEMON_H
#define SL_DAEMON_H

#include <pthread.h>
#include <stdatomic.h>

#include "registry/subject_cache.h"
#include "registry/usage_buffer.h"
#include "server/http/admin.h"
#include "server/server.h"
#include "sluiced/compat.h"
#include "sluiced/door.h"
#include "sluiced/file_watch.h"
#include "sluiced/jwks.h"
#include "sluiced/lending.h"
#include "sluiced/policy_source.h"
#include "sluiced/shared.h"
#include "sluiced/state.h"
#include "sluiced/systemd.h"
#include "sluiced/tidings.h"

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
    struct sl_engine_ctx station;        /* what its doors have at hand */
    struct sl_wait_timer waiting;        /* where its questions wait */
    struct sl_subject_cache *finder;     /* or NULL: no registry */
    struct sl_usage_buffer *keeper;      /* likewise */
    struct sl_dynamo_subjects *profiles; /* or NULL: subjects are not there */
    struct sl_listener_worker
        stands[SL_PROTOCOLS];  /* admin: on the first only */
    struct sl_timer *emptying; /* looks whether connections are gone */
    bool idle_closed;
    pthread_t thread;
    bool has_thread;

    /* Between threads. */
    _Atomic bool empty;      /* drained: no connection is left */
    _Atomic uint64_t pulse;  /* the last beat that was answered */
    _Atomic uint64_t paused; /* how often accepting had to */
};

struct sl_daemon {
    struct sl_setting_source given;
    const char *path;                /* of the policy; NULL is the demo */
    bool compat;                     /* it is a folder of another program's */
    struct sl_settings settings;     /* with which it was started */
    struct sl_settings latest;       /* of the policy in force */
    struct sl_policy_source written; /* the policy in force */
    struct sl_notify notify;
    struct sl_activated activated;
    struct sl_state state;
    struct sl_remote_state common; /* if others use it, too */
    struct sl_quota_node lending;  /* if the books are shared */
    struct sl_engine *engine;
    struct sl_registry *registry; /* or NULL */
    struct sl_pg_plan *plans;     /* or NULL: no tables of others are asked */
    struct sl_clock stopped;      /* the virtual clock, if it was asked for */
    struct sl_admin desk;
    struct sl_hash_key top_secret; /* all workers' */
    struct sl_event_publisher tidings;
    struct sl_server_listener doors[SL_PROTOCOLS];
    struct sl_worker *workers;
    unsigned worker_count;
    struct sl_file_watch *watch;
    struct sl_jwks *jwks; /* on the first worker's loop */

    /* living.c */
    int signals;
    struct sl_fd_watch *ear;
    struct sl_timer *watchdog;
    uint64_t beat;
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
SL_MUST_USE int sl_engine_again(struct sl_daemon *daemon);
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
bool sl_remote_tells(const struct sl_daemon *daemon);
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

/* doors.c */
sl_step_f sl_listeners_begin;
sl_unstep_f sl_listeners_end;

/* Make contexts of the certificates that `settings` name and hand them to the
 * workers. On failure the old ones stay. */
SL_MUST_USE int sl_listeners_set_tls(struct sl_daemon *daemon,
                                     const struct sl_settings *settings,
                                     struct sl_diag *diag);

/* workers.c */
sl_step_f sl_workers_begin, sl_workers_start;
sl_unstep_f sl_workers_end, sl_workers_join;

/* From the main thread: use `tls` at this door from now on. */
void sl_worker_set_tls(struct sl_worker *worker, enum sl_protocol_id door,
                       struct sl_tls *tls);

/* From the main thread: take no more connections, finish those there are. */
void sl_worker_drain(struct sl_worker *worker);

/* tokens.c */
sl_step_f sl_tokens_begin;
sl_unstep_f sl_tokens_end;

#ifdef SL_VIRTUAL_CLOCK
/* Whoever verifies on the only worker remembers nobody any more. */
SL_MUST_USE int sl_tokens_again(struct sl_daemon *daemon);
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
void sl_lifecycle_emptied(struct sl_daemon *daemon);

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

#endif
