/* memory.c -- the store in DynamoDB when memory is short: at each allocation in
 * turn. Every take is told once, nothing is leaked. The table is a server of
 * our own that says yes to everything. */
#include <arpa/inet.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include "check.h"
#include "fail.h"
#include "limit.h"
#include "store/dynamo/dynamo.h"

/* ---- a table that says yes ---- */

static struct {
    int fd;
    unsigned port;
    pthread_t thread;
} table;

static const char *reply_to(const char *text)
{
    if (strstr(text, "sluice:secret"))
        return "{\"Item\":{\"secret\":{\"S\":"
               "\"0123456789abcdef0123456789abcdef\"}}}";
    if (strstr(text, "ALL_NEW"))
        return "{\"Attributes\":{\"count\":{\"N\":\"100\"}}}";
    return strstr(text, "DynamoDB_20120810.BatchGetItem")
               ? "{\"Responses\":{\"jobseek-users\":[]}}"
               : "{}";
}

/* One request. */
static void serve(int fd)
{
    static char text[65536];
    const char *body, *length;
    size_t len = 0;
    char out[512];
    ssize_t got;
    int size;

    do {
        got = recv(fd, text + len, sizeof(text) - 1 - len, 0);
        len += got > 0 ? (size_t)got : 0;
        text[len] = '\0';
        body = strstr(text, "\r\n\r\n");
        length = strstr(text, "Content-Length: ");
    } while (got > 0 && (!body || !length ||
                         strlen(body + 4) < strtoul(length + 16, NULL, 10)));
    size = snprintf(out, sizeof(out),
                    "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\n"
                    "Connection: close\r\n\r\n%s",
                    strlen(reply_to(text)), reply_to(text));
    if (got > 0 && send(fd, out, (size_t)size, MSG_NOSIGNAL) != size)
        printf("# no server listens\n");
}

static void *run_table(void *ctx)
{
    int fd;

    while ((fd = accept(table.fd, NULL, NULL)) >= 0) {
        serve(fd);
        close(fd);
    }
    return ctx;
}

static bool start_table(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(at);

    table.fd = socket(AF_INET, SOCK_STREAM, 0);
    if (table.fd < 0 || bind(table.fd, (struct sockaddr *)&at, len) ||
        listen(table.fd, 64) ||
        getsockname(table.fd, (struct sockaddr *)&at, &len))
        return false;
    table.port = ntohs(at.sin_port);
    return !pthread_create(&table.thread, NULL, run_table, NULL);
}

static void stop_table(void)
{
    shutdown(table.fd, SHUT_RDWR);
    pthread_join(table.thread, NULL);
    close(table.fd);
}

/* ---- takes ---- */

struct world {
    struct sl_loop *loop;
    struct sl_arena arena;
    struct sl_dynamo_options options;
    struct sl_store *store;
    struct sl_limit window, bucket;
    struct sl_limit_binding leased;
    unsigned told;
};

static void on_tick(void *ctx)
{
    sl_loop_stop(ctx);
}

static void on_done(struct sl_take *take)
{
    struct world *w = take->ctx;

    w->told++;
    sl_loop_stop(w->loop);
}

static void wait_ready(struct world *w)
{
    struct sl_timer *timer;

    if (!CHECK_EQ(sl_timer_new(w->loop, on_tick, w->loop, &timer), 0))
        return;
    for (unsigned i = 0; i < 3000 && !sl_remote_store_is_ready(w->store); i++) {
        sl_timer_start(timer, SL_MS);
        sl_loop_run(w->loop);
    }
    sl_timer_free(timer);
    CHECK(sl_remote_store_is_ready(w->store));
}

static void take(struct world *w, enum sl_take_op op, unsigned parts,
                 const struct sl_limit *limit)
{
    struct sl_part list[] = {
        {.binding = &w->leased, .limit = limit, .name = SL_STR("a"), .cost = 1},
        {.binding = &w->leased, .limit = limit, .name = SL_STR("b"), .cost = 1},
    };
    struct sl_take take = {.op = op,
                           .parts = list,
                           .count = parts,
                           .now = 20000 * SL_DAY,
                           .loop = w->loop,
                           .done = on_done,
                           .ctx = w};

    list[0].taken_at = list[1].taken_at = take.now;
    w->told = 0;
    sl_store_take(w->store, &take);
    while (w->told == 0)
        sl_loop_run(w->loop);
    CHECK_EQ(w->told, 1);
    CHECK(take.err == 0 || take.err == SLUICE_ESTORE);
    CHECK(take.err == 0 || !take.allowed);
}

static void take_all(struct world *w)
{
    wait_ready(w);
    for (unsigned i = 0; i < 3; i++) {
        take(w, SL_TAKE_OP_TAKE, 1, &w->window);
        take(w, SL_TAKE_OP_TAKE, 1, &w->bucket);
    }
    take(w, SL_TAKE_OP_TAKE, 2, &w->bucket);
    take(w, SL_TAKE_OP_REFUND, 1, &w->window);
    take(w, SL_TAKE_OP_RESET, 1, &w->bucket);
    sl_remote_store_drain(w->store, w->loop, 20000 * SL_DAY);
    take(w, SL_TAKE_OP_PEEK, 1, &w->window);
}

/* False if the nth allocation was never asked for. */
static bool run(struct world *w, unsigned nth)
{
    struct fail f = {.nth = nth};
    struct sl_alloc alloc = fail_alloc(&f);
    struct sl_diag diag = {.sentence = ""};
    int err;

    w->options.remote.alloc = &alloc;
    err = sl_dynamo_open(&w->options, &w->store, &diag);
    if (!err) {
        err = sl_remote_store_attach(w->store, w->loop, &diag);
        if (!err) {
            take_all(w);
            sl_remote_store_detach(w->store, w->loop);
        }
        sl_store_close(w->store);
    }
    CHECK(!err || err == SLUICE_ENOMEM);
    CHECK(!err || diag.sentence[0]);
    fail_check(&f);
    return f.calls >= nth;
}

int main(void)
{
    struct world w = {
        .leased = {.name = "leased", .lease = 50}
    };
    unsigned nth = 0;
    char where[128];

    w.options = (struct sl_dynamo_options){
        .env = {.key_id = "id", .secret = "secret"},
        .remote.own_now = true,
        .remote.deadline = 10 * SL_S,
    };
    CASE("memory that is short at any one place");
    CHECK(start_table());
    sl_arena_init(&w.arena, 1 << 16, &sl_alloc_libc);
    snprintf(where, sizeof(where),
             "dynamodb://eu-west-1?endpoint=http://127.0.0.1:%u", table.port);
    CHECK_EQ(
        sl_dynamo_url_read(sl_str_c(where), &w.arena, &w.options.where, NULL),
        0);
    w.window = rate_of(SL_FIXED, "1000/hour");
    w.bucket = rate_of(SL_BUCKET, "1000/hour");
    CHECK_EQ(sl_loop_open(NULL, &w.loop, NULL), 0);
    while (nth < 500 && run(&w, ++nth))
        continue;
    printf("# %u allocations\n", nth - 1);
    CHECK(nth > 10 && nth < 500);
    sl_loop_close(w.loop);
    sl_arena_done(&w.arena);
    stop_table();
    return CHECK_DONE();
}
