/* servers.h -- the http, admin and resp server over one engine, and the program
 * around the admin listener, whose answers the test chooses. */
#ifndef SL_DOORS_SERVERS_H
#define SL_DOORS_SERVERS_H

#include "holding.h"
#include "registry/usage_buffer.h"
#include "serve.h"
#include "server/http/admin.h"
#include "server/resp/resp.h"

static struct served s;
static struct {
    bool open;
    struct sl_server admin_door;
    struct sl_server_worker admin_worker;
    struct sl_server resp_door;
    struct sl_resp_worker resp_worker;
    struct holding *holding; /* the store, or NULL: it is in memory */
    struct sl_top_keys *top;
    struct sl_registry *registry;
    struct sl_usage_buffer *keeper;
    struct sl_engine_ctx engine_ctx;
    char folder[64]; /* of the registry */
} servers;

/* The program around the admin listener. */
static struct {
    bool ready;
    int err;
    char why[256], report[1024];
} program;

/* ---- the program ---- */

static bool on_ready(void *ctx, struct sl_buf *why)
{
    (void)ctx;
    return sl_buf_add(why, sl_str_c(program.why)) == 0 && program.ready;
}

/* Without a report of its own it reports the policy that came. */
static int on_reload(void *ctx, struct sl_str text, struct sl_buf *report)
{
    (void)ctx;
    if (sl_buf_add(report, program.report[0] ? sl_str_c(program.report) : text))
        return SLUICE_ENOMEM;
    return program.err;
}

static int on_policy(void *ctx, struct sl_buf *out)
{
    (void)ctx;
    return sl_buf_add(out, SL_STR("sluice: 1\n"));
}

static int on_metrics(void *ctx, bool open_metrics, struct sl_buf *out)
{
    struct sl_active_policy *active = sl_engine_ref_policy(s.rig.engine, NULL);
    int err = program.err;

    (void)ctx;
    s.counted.now.active = active;
    s.counted.now.now = sl_loop_now(s.loop);
    if (!err)
        err = sl_metrics_render(s.counted.stats, 1, &s.counted.now,
                                open_metrics, out);
    s.counted.now.active = NULL;
    sl_active_policy_unref(active);
    return err;
}

static int on_top(void *ctx, const struct sl_top_keys_query *query,
                  struct sl_arena *arena, struct sl_top_keys_answer *ret)
{
    (void)ctx;
    return program.err ? program.err
                       : sl_top_keys_read(&servers.top, 1, query, arena, ret);
}

static int on_feature(void *ctx, struct sl_str name, int on,
                      struct sl_diag *diag)
{
    (void)ctx;
    return program.err ? sl_diag_error(diag, program.err, "it is stuck")
                       : sl_engine_switch(s.rig.engine, name, on, diag);
}

static int on_clock(void *ctx, sl_ns now)
{
    (void)ctx;
    (void)now;
    return program.err;
}

static struct sl_admin admin = {
    .ready = on_ready,
    .reload = on_reload,
    .policy = on_policy,
    .metrics = on_metrics,
    .top = on_top,
    .feature = on_feature,
    .set_clock = on_clock,
    .node = "",
};

/* ---- the servers ---- */

static inline void open_registry(void)
{
    struct sl_usage_buffer_options keeping = {
        .node = {"", 0}
    };
    struct sl_registry_options options = {0};
    struct sl_diag diag = {.sentence = ""};
    char path[96];

    snprintf(servers.folder, sizeof(servers.folder), "/tmp/sluice-talk-XXXXXX");
    if (!mkdtemp(servers.folder))
        must(SLUICE_ESYS, "folder", NULL);
    snprintf(path, sizeof(path), "%s/sluice.db", servers.folder);
    options.path = path;
    must(sl_registry_open(&options, &servers.registry, &diag), "registry",
         &diag);
    must(sl_usage_buffer_open(servers.registry, s.loop, &keeping,
                              &servers.keeper, &diag),
         "books", &diag);
    servers.engine_ctx.meter = sl_usage_buffer_sink(servers.keeper);
    admin.registry = servers.registry;
}

static inline void close_registry(void)
{
    char command[128];

    if (!servers.registry)
        return;
    sl_registry_close(servers.registry);
    turn(&s);
    sl_usage_buffer_close(servers.keeper);
    snprintf(command, sizeof(command), "rm -rf %s", servers.folder);
    if (system(command))
        printf("# %s stays\n", servers.folder);
    servers.registry = admin.registry = NULL;
    servers.engine_ctx.meter = NULL;
}

static inline void close_servers(void)
{
    if (!servers.open)
        return;
    sl_server_worker_close(&s.worker);
    sl_server_worker_close(&servers.admin_worker);
    sl_server_worker_close(&servers.resp_worker.base);
    close_registry();
    sl_top_keys_close(servers.top);
    rig_close(&s.rig);
    serve_end(&s);
    free(servers.holding);
    memset(&servers, 0, sizeof(servers));
}

/* All listeners over one engine, from 1970 on. */
static inline void open_servers(const char *policy, bool holding)
{
    struct sl_memory_options memory = {
        .size = 1 << 20, .now = rig_now, .now_ctx = &s.rig};
    static const struct sl_hash_key secret = {1, 2};
    struct sl_metrics *stats;

    serve_begin(&s, 0);
    stats = s.counted.stats[0];
    if (holding) {
        servers.holding = calloc(1, sizeof(*servers.holding));
        holding_open(servers.holding, &memory);
    }
    rig_open_on(&s.rig, policy,
                servers.holding ? &servers.holding->store : NULL);
    must(sl_top_keys_open(NULL, &secret, 0, &servers.top), "top", NULL);
    sl_metrics_watch(stats, servers.top, NULL, NULL, NULL);
    serve_http(&s, 100);
    s.worker.engine_ctx = &servers.engine_ctx;
    servers.admin_door = (struct sl_server){.protocol = &sl_protocol_http,
                                            .paths = sl_admin_paths,
                                            .path_count = sl_admin_path_count,
                                            .name = "admin",
                                            .sessions = true,
                                            .ctx = &admin};
    must(open_worker(&servers.admin_worker, &servers.admin_door, &s, stats,
                     NULL, 100),
         "admin", NULL);
    servers.resp_door = (struct sl_server){
        .protocol = &sl_protocol_resp, .name = "resp", .token = SL_STR("")};
    must(open_worker(&servers.resp_worker.base, &servers.resp_door, &s, stats,
                     NULL, 100),
         "resp", NULL);
    admin.set_clock = on_clock;
    memset(&program, 0, sizeof(program));
    program.ready = true;
    servers.open = true;
}

/* ---- what the test chooses ---- */

static inline void set_store(const char *word)
{
    s.rig.fault = strcmp(word, "down") == 0;
    if (servers.holding) {
        servers.holding->fails = s.rig.fault;
        servers.holding->full = strcmp(word, "full") == 0;
    }
}

/* "ready no", "why TEXT", "report TEXT" with \n for a line end, "fails ENOMEM",
 * "clock no". False if it is none of them. */
static inline bool set_program(const char *line)
{
    static const char *const names[] = {"nothing", "EFULL", "ENOMEM",
                                        "ECONF",   "ESYS",  "ESTORE"};
    static const int errs[] = {
        0,           SLUICE_EFULL, SLUICE_ENOMEM, SLUICE_ECONF,
        SLUICE_ESYS, SLUICE_ESTORE};
    const char *rest = line + strcspn(line, " ");
    size_t len = 0;

    rest += *rest == ' ';
    if (strncmp(line, "ready ", 6) == 0)
        program.ready = strcmp(rest, "yes") == 0;
    else if (strncmp(line, "clock ", 6) == 0)
        admin.set_clock = strcmp(rest, "yes") == 0 ? on_clock : NULL;
    else if (strncmp(line, "why", 3) == 0)
        snprintf(program.why, sizeof(program.why), "%s", rest);
    else if (strncmp(line, "fails ", 6) == 0)
        for (size_t i = 0; i < SL_LEN(names); i++)
            program.err = strcmp(names[i], rest) == 0 ? errs[i] : program.err;
    else if (strncmp(line, "report", 6) != 0)
        return false;
    if (line[0] != 'r' || line[2] != 'p')
        return true;
    memset(program.report, 0, sizeof(program.report));
    for (; *rest && len < sizeof(program.report) - 1; rest++) {
        bool is_end = rest[0] == '\\' && rest[1] == 'n';

        program.report[len++] = is_end ? '\n' : *rest;
        rest += is_end;
    }
    return true;
}

#endif
