/* ngx_http_sluice.h -- the parts of the nginx module.
 *
 *   module.c   directives, and the life of workers
 *   state.c    the state that workers share, and its policies
 *   check.c    one request: decide, delay, refuse, end its hold
 *   filter.c   headers of the answer, and variables
 *   pass.c     ask sluiced instead
 */
#ifndef NGX_HTTP_SLUICE_H
#define NGX_HTTP_SLUICE_H

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "embed/embed.h"
#include "embed/pass.h"

/* ---- configuration ---- */

/* A policy file. All blocks that name it share it. */
typedef struct {
    ngx_str_t path; /* ends in NUL */
    struct sluice_policy *policy;
    struct sl_embed *embed; /* in workers; NULL: it could not be opened */
} ngx_http_sluice_policy_t;

typedef struct ngx_http_sluice_pass_s ngx_http_sluice_pass_t;

/* A connection that is kept, or a place for one. */
typedef struct {
    ngx_queue_t queue;
    ngx_connection_t *connection;
    ngx_http_sluice_pass_t *pass;
} ngx_http_sluice_idle_t;

#define SLUICE_IDLE 32 /* connections that a worker keeps */

/* Where sluiced is. */
struct ngx_http_sluice_pass_s {
    ngx_addr_t *address;
    ngx_msec_t timeout;
    ngx_uint_t is_closed; /* without an answer: refuse, instead of pass */
    ngx_str_t token;
    ngx_queue_t idle;   /* in workers: connections */
    ngx_queue_t places; /* for more of them */
    ngx_http_sluice_idle_t all[SLUICE_IDLE];
};

typedef struct {
    ngx_array_t policies;  /* of ngx_http_sluice_policy_t * */
    ngx_array_t passes;    /* of ngx_http_sluice_pass_t * */
    ngx_uint_t is_closing; /* the worker exits */
    ngx_str_t file;        /* of the state; empty: in the zone */
    ngx_shm_zone_t *zone;
    size_t size;         /* of the state */
    ngx_uint_t has_size; /* it is written; else a file may have another */
    ngx_cycle_t *cycle;
    void *memory;        /* of the state, in the zone */
    ngx_event_t refresh; /* in workers: token keys */
    ngx_queue_t held;    /* in workers: contexts with a hold */
    time_t full;         /* in workers: when a full state was logged */
} ngx_http_sluice_main_conf_t;

/* NAME=VALUE; the name may be empty. */
typedef struct {
    ngx_str_t name;
    ngx_http_complex_value_t value;
} ngx_http_sluice_pair_t;

enum { SLUICE_MODE_OFF, SLUICE_MODE_ON, SLUICE_MODE_DRY_RUN };

typedef struct {
    ngx_uint_t mode;
    ngx_http_sluice_policy_t *policy; /* at most one of the two */
    ngx_http_sluice_pass_t *pass;
    ngx_array_t *identity; /* of pairs; NULL: none */
    ngx_array_t *cost;
    ngx_array_t *settle;
    ngx_uint_t status; /* 0: the policy's answer */
    ngx_uint_t log_level;
} ngx_http_sluice_loc_conf_t;

extern ngx_module_t ngx_http_sluice_module;
extern ngx_module_t ngx_http_sluice_filter_module;

/* ---- asking sluiced; pass.c ---- */

typedef struct ngx_http_sluice_call_s ngx_http_sluice_call_t;

/* The reply; NULL: there is none. Perhaps before call_start() returns. */
typedef void (*ngx_http_sluice_done_pt)(void *data,
                                        const struct sl_pass_reply *reply);

char *ngx_http_sluice_set_pass(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);

/* Makes a call. Write its request, and start or drop it. NULL without
 * memory. */
ngx_http_sluice_call_t *ngx_http_sluice_call_new(ngx_http_sluice_pass_t *pass);
struct sl_buf *ngx_http_sluice_call_text(ngx_http_sluice_call_t *call);
void ngx_http_sluice_call_drop(ngx_http_sluice_call_t *call);

/* Memory that lives until `done` has returned. NULL without memory. */
void *ngx_http_sluice_call_alloc(ngx_http_sluice_call_t *call, size_t size);

/* The call frees itself. `done` may be NULL. */
void ngx_http_sluice_call_start(ngx_http_sluice_call_t *call,
                                ngx_http_sluice_done_pt done, void *data);

/* A function that gets a reply that comes after the timeout, when `done` has
 * been told that there is none. */
void ngx_http_sluice_call_late(ngx_http_sluice_call_t *call,
                               ngx_http_sluice_done_pt late, void *data);

/* Another function gets the reply of a call that was started. */
void ngx_http_sluice_call_turn(ngx_http_sluice_call_t *call,
                               ngx_http_sluice_done_pt done, void *data);

/* ---- one request ---- */

enum {
    SLUICE_NONE, /* not decided */
    SLUICE_PASSED,
    SLUICE_DELAYED,
    SLUICE_REJECTED,
    SLUICE_DELAYED_DRY_RUN,
    SLUICE_REJECTED_DRY_RUN,
    SLUICE_DEGRADED /* passed, without the state */
};

typedef struct {
    ngx_http_request_t *request;
    ngx_http_sluice_loc_conf_t *conf;
    ngx_uint_t status;        /* see above */
    ngx_table_elt_t *headers; /* to be added; names in lower case, too */
    ngx_uint_t header_count;
    ngx_uint_t headers_added; /* once */
    ngx_uint_t http_status;   /* of a refusal */
    ngx_str_t content_type, body;
    ngx_str_t by, code, plan, request_id;
    ngx_uint_t has_numbers;
    uint64_t limit, remaining;
    ngx_int_t retry_after; /* seconds; -1: none */
    ngx_msec_t wait;

    ngx_http_sluice_call_t *call; /* under way */
    ngx_uint_t is_starting;       /* the call */
    ngx_uint_t is_decided, is_applied;
    ngx_uint_t has_failed; /* sluiced has not answered */

    struct sl_embed *embed; /* that has the hold; NULL: sluiced has it */
    ngx_str_t hold;         /* empty: none, or it has ended */
    int64_t hold_life;      /* ns */
    ngx_event_t extend;
    ngx_queue_t queue; /* of main_conf->held */
} ngx_http_sluice_ctx_t;

/* The context of the main request, also after an internal redirect; NULL. */
ngx_http_sluice_ctx_t *ngx_http_sluice_ctx(ngx_http_request_t *r);

ngx_int_t ngx_http_sluice_handler(ngx_http_request_t *r);
ngx_int_t ngx_http_sluice_log_handler(ngx_http_request_t *r);

/* Ends the hold of a request, if it has one. `actual` may be NULL. */
void ngx_http_sluice_end(ngx_http_sluice_ctx_t *ctx,
                         const struct sl_embed_actual *actual);

/* ---- filter.c ---- */

ngx_int_t ngx_http_sluice_add_variables(ngx_conf_t *cf);

/* ---- state.c ---- */

char *ngx_http_sluice_set_policy(ngx_conf_t *cf, ngx_command_t *cmd,
                                 void *conf);
char *ngx_http_sluice_set_state(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);

/* After all directives: a zone, if there is a policy. */
ngx_int_t ngx_http_sluice_prepare_state(ngx_conf_t *cf,
                                        ngx_http_sluice_main_conf_t *main);

/* In a worker: open and close the state. */
void ngx_http_sluice_open_state(ngx_http_sluice_main_conf_t *main,
                                ngx_log_t *log);
void ngx_http_sluice_close_state(ngx_http_sluice_main_conf_t *main);

#endif
