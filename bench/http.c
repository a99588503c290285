/* http.c -- the rows of HTTP: what a decision costs a server.
 *
 * Processor time per request, of sluiced and of nginx that says 200 to
 * everything, in turns of a fraction of a second over the same 64 connections'
 * worth of load; each row is the median of the ratios of neighbouring turns.
 * Server and load have a processor each, where there are two. Beside it: how
 * long requests took, and how busy the server was; figures of servers that
 * were not busy say what they cost, not what they can do.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "http/http.h"

#define ROUNDS  9   /* turns of each */
#define SECONDS 0.4 /* of a turn */
#define ARRAY   32
#define USERS   1024 /* questions, each of another caller */
#define KEYS    1000000
#define AT_ONCE 1000 /* checks in an array that fills the table */
#define MIB     (1024.0 * 1024.0)

#define POLICY                                                                 \
    "sluice: 1\n"                                                              \
    "plans: { default: free, free: {}, pro: {} }\n"                            \
    "identity:\n"                                                              \
    "  user: [header.x-user-id]\n"                                             \
    "  trusted_proxies: [127.0.0.0/8]\n"                                       \
    "limits:\n"                                                                \
    "  per-user:\n"                                                            \
    "    kind: token-bucket\n"                                                 \
    "    per: user\n"                                                          \
    "    rate: { free: 1000k/s, pro: 2000k/s }\n"                              \
    "  daily: { kind: fixed-window, per: user, rate: 1000/day }\n"             \
    "  closed: { kind: quota, per: user, rate: 1/month }\n"                    \
    "routes:\n"                                                                \
    "  - { match: GET /api/v1/things/:id, limits: [per-user] }\n"              \
    "  - { match: /kept, limits: [daily] }\n"                                  \
    "  - { match: /closed, limits: [per-user, closed] }\n"                     \
    "default: [per-user]\n"

static const char policy[] = POLICY;
static const char policy_off[] = POLICY "server: { denials: off }\n";

enum what {
    NGINX,
    AUTH,
    CHECK,
    MANY,
    KNOWN,
    CHECK_OFF,
    REFUSED,
    REFUSED_OFF,
    WHATS
};

/* What is asked of whom, and what the turns came to. */
struct row {
    struct server *server;
    struct sl_buf questions[USERS];
    struct load *load;
    double cost[ROUNDS]; /* ns of processor time per request */
    double p50[ROUNDS], p99[ROUNDS], busy[ROUNDS], rate[ROUNDS];
};

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double median(const double *values)
{
    double sorted[ROUNDS];

    memcpy(sorted, values, sizeof(sorted));
    qsort(sorted, ROUNDS, sizeof(sorted[0]), by_value);
    return sorted[ROUNDS / 2];
}

/* ---- questions ---- */

static void ask_auth(struct sl_buf *out, unsigned user)
{
    if (sl_buf_addf(out,
                    "GET /v1/auth HTTP/1.1\r\nHost: localhost\r\n"
                    "X-Original-Method: GET\r\n"
                    "X-Original-URI: /api/v1/things/%u\r\n"
                    "X-User-Id: user-%u\r\n\r\n",
                    user * 7, user))
        die("there is no memory");
}

/* The same with a token of a registered subject. */
static void ask_known(struct sl_buf *out, unsigned user)
{
    char token[256];

    token_make(user, token);
    if (sl_buf_addf(out,
                    "GET /v1/auth HTTP/1.1\r\nHost: localhost\r\n"
                    "X-Original-Method: GET\r\n"
                    "X-Original-URI: /api/v1/things/%u\r\n"
                    "Authorization: Bearer %s\r\n\r\n",
                    user * 7, token))
        die("there is no memory");
}

static int add_check(struct sl_buf *out, unsigned user)
{
    return sl_buf_addf(out,
                       "{\"method\":\"GET\",\"path\":\"/api/v1/things/%u\","
                       "\"user\":\"user-%u\",\"plan\":\"pro\"}",
                       user * 7, user);
}

static void ask_checks(struct sl_buf *out, unsigned user, unsigned count)
{
    struct sl_buf body;
    int err = 0;

    sl_buf_init(&body, 1 << 20, &sl_alloc_libc);
    if (count > 1)
        err = sl_buf_add(&body, SL_STR("["));
    for (unsigned i = 0; i < count && !err; i++) {
        err = i > 0 ? sl_buf_add(&body, SL_STR(",")) : 0;
        if (!err)
            err = add_check(&body, (user + i * 37) % USERS);
    }
    if (!err && count > 1)
        err = sl_buf_add(&body, SL_STR("]"));
    if (!err)
        err = sl_buf_addf(out,
                          "POST /v1/check HTTP/1.1\r\nHost: localhost\r\n"
                          "Content-Type: application/json\r\n"
                          "Content-Length: %zu\r\n\r\n",
                          body.len);
    if (err || sl_buf_add(out, sl_buf_str(&body)))
        die("there is no memory");
    sl_buf_done(&body);
}

/* Refused, but for the first of a user. */
static void ask_refused(struct sl_buf *out, unsigned user)
{
    char body[128];
    int len = snprintf(body, sizeof(body),
                       "{\"path\":\"/closed\",\"user\":\"user-%u\","
                       "\"ip\":\"192.0.2.77\"}",
                       user);

    if (sl_buf_addf(out,
                    "POST /v1/check HTTP/1.1\r\nHost: localhost\r\n"
                    "Content-Type: application/json\r\n"
                    "Content-Length: %d\r\n\r\n%s",
                    len, body))
        die("there is no memory");
}

static void open_row(struct row *row, enum what what, struct server *server)
{
    row->server = server;
    for (unsigned i = 0; i < USERS; i++) {
        sl_buf_init(&row->questions[i], 1 << 20, &sl_alloc_libc);
        if (what == NGINX || what == AUTH)
            ask_auth(&row->questions[i], i);
        else if (what == KNOWN)
            ask_known(&row->questions[i], i);
        else if (what == REFUSED || what == REFUSED_OFF)
            ask_refused(&row->questions[i], i);
        else
            ask_checks(&row->questions[i], i, what == MANY ? ARRAY : 1);
    }
    row->load = load_open(server->port, row->questions, USERS);
}

/* ---- turns ---- */

static void take_turn(struct row *row, unsigned round)
{
    uint64_t before = server_cpu(row->server);
    struct slice slice = load_run(row->load, SECONDS);
    double cpu = (double)(server_cpu(row->server) - before);

    row->cost[round] = cpu / (double)slice.requests;
    row->busy[round] = cpu / 1e9 / slice.seconds * 100;
    row->rate[round] = (double)slice.requests / slice.seconds;
    row->p50[round] = slice.p50;
    row->p99[round] = slice.p99;
}

static void measure(struct row *rows, bool has_nginx)
{
    for (unsigned what = !has_nginx; what < WHATS; what++)
        load_run(rows[what].load, SECONDS / 2); /* warm */
    for (unsigned round = 0; round < ROUNDS; round++) {
        fprintf(stderr, "bench: http, turn %u of %d\n", round + 1, ROUNDS);
        for (unsigned what = !has_nginx; what < WHATS; what++)
            take_turn(&rows[what], round);
    }
}

/* ---- rows ---- */

static void print_row(const char *name, double ratio, double budget,
                      const char *detail)
{
    printf("%s\t%.2f\t<= %.2f\t%s\t%s\n", name, ratio, budget,
           ratio <= budget ? "ok" : "short", detail);
    fflush(stdout);
}

/* `row` against `reference`; a request of `row` is `parts` decisions. */
static void compare(const char *name, const struct row *row,
                    const struct row *reference, double parts, double budget,
                    const char *what)
{
    double ratios[ROUNDS];
    char detail[512];

    for (unsigned i = 0; i < ROUNDS; i++)
        ratios[i] = row->cost[i] / parts / reference->cost[i];
    snprintf(detail, sizeof(detail),
             "%s; %.2f us against %.2f us; %.0f/s, p50 %.0f us, p99 %.0f us, "
             "server %.0f %% busy (%.0f/s, %.0f us, %.0f us, %.0f %%)",
             what, median(row->cost) / parts / 1e3,
             median(reference->cost) / 1e3, median(row->rate), median(row->p50),
             median(row->p99), median(row->busy), median(reference->rate),
             median(reference->p50), median(reference->p99),
             median(reference->busy));
    print_row(name, median(ratios), budget, detail);
}

/* ---- memory ---- */

static void fill(const struct server *s)
{
    struct sl_buf body, answer;
    int err = 0;

    sl_buf_init(&body, 1 << 20, &sl_alloc_libc);
    sl_buf_init(&answer, 64 << 20, &sl_alloc_libc);
    for (unsigned key = 0; key < KEYS; key += AT_ONCE) {
        sl_buf_clear(&body);
        for (unsigned i = 0; i < AT_ONCE && !err; i++)
            err = sl_buf_addf(&body, "%s{\"path\":\"/kept\",\"user\":\"k%u\"}",
                              i > 0 ? "," : "[", key + i);
        if (err || sl_buf_add(&body, SL_STR("]")))
            die("there is no memory");
        ask(s->port, "POST", "/v1/check", sl_buf_str(&body), &answer);
    }
    sl_buf_done(&body);
    sl_buf_done(&answer);
}

static double metric(const struct server *s, const char *name)
{
    struct sl_buf page;
    const char *at;
    double value;

    sl_buf_init(&page, 16 << 20, &sl_alloc_libc);
    ask(s->admin_port, "GET", "/metrics", SL_STR(""), &page);
    if (sl_buf_add(&page, (struct sl_str){"", 1}))
        die("there is no memory");
    at = strstr(page.bytes, name);
    if (!at)
        die("the metrics have no %s", name + 1);
    value = strtod(at + strlen(name), NULL);
    sl_buf_done(&page);
    return value;
}

static void measure_memory(const struct server *s)
{
    double before, after, keys;
    char state[128], detail[256];

    fprintf(stderr, "bench: http, a million keys\n");
    snprintf(state, sizeof(state), "%s/state", work_folder());
    before = (double)server_resident(s, state) / MIB;
    fill(s);
    after = (double)server_resident(s, state) / MIB;
    keys = metric(s, "\nsluice_table_entries ");
    if (keys < 0.999 * KEYS)
        die("only %.0f keys are live", keys);
    snprintf(detail, sizeof(detail),
             "MiB resident beyond the region, %.0f live keys; %.1f MiB before "
             "them; region 128 MiB",
             keys, before);
    print_row("memory", after, 64, detail);
}

/* ---- those who are known ---- */

/* A server that believes tokens, and has all users in its registry. */
static void start_known(struct server *s)
{
    static const char source[] = "  user: [header.x-user-id]\n";
    const char *at = strstr(policy, source);
    struct sl_buf text, answer;
    int err;

    sl_buf_init(&text, 1 << 20, &sl_alloc_libc);
    sl_buf_init(&answer, 1 << 20, &sl_alloc_libc);
    err = sl_buf_addf(&text, "%.*s  user: [jwt.sub]\n  jwt: %s\n%s%c",
                      (int)(at - policy), policy, token_rules(),
                      at + strlen(source), 0);
    if (err)
        die("there is no memory");
    start_sluiced_registry(s, text.bytes);
    sl_buf_clear(&text);
    for (unsigned i = 0; i < USERS && !err; i++)
        err = sl_buf_addf(&text,
                          "{\"scope\":\"user\",\"id\":\"user-%u\","
                          "\"plan\":\"pro\"}\n",
                          i);
    if (err)
        die("there is no memory");
    ask(s->admin_port, "POST", "/v1/subjects", sl_buf_str(&text), &answer);
    sl_buf_done(&text);
    sl_buf_done(&answer);
}

/* Were they? Else the row would say nothing. */
static void check_known(const struct server *s)
{
    if (metric(s, "\nsluice_tokens_total{result=\"good\"} ") < USERS ||
        metric(s, "\nsluice_subject_lookups_total{result=\"hit\"} ") < USERS)
        die("tokens or subjects were not at hand");
}

int main(void)
{
    static struct row rows[WHATS];
    static struct server sluiced, known, off, nginx;
    bool has_nginx = start_nginx(&nginx, "");

    start_sluiced(&sluiced, policy);
    start_known(&known);
    start_sluiced_store(&off, policy_off, "memory:");
    if (!stay_aside())
        fprintf(stderr, "bench: there is one processor; load and server share "
                        "it\n");
    if (has_nginx)
        open_row(&rows[NGINX], NGINX, &nginx);
    for (unsigned what = AUTH; what < WHATS; what++)
        open_row(&rows[what], what,
                 what == KNOWN                              ? &known
                 : what == CHECK_OFF || what == REFUSED_OFF ? &off
                                                            : &sluiced);
    measure(rows, has_nginx);
    if (has_nginx) {
        compare("auth", &rows[AUTH], &rows[NGINX], 1, 1.0,
                "/v1/auth against nginx's return 200, 64 connections");
        compare("check", &rows[CHECK], &rows[NGINX], 1, 1.25,
                "/v1/check, JSON in and out, against nginx's return 200");
    }
    compare("array of 32", &rows[MANY], &rows[CHECK], ARRAY, 0.2,
            "a decision of an array against a single check");
    check_known(&known);
    compare("token and subject", &rows[KNOWN], &rows[AUTH], 1, 1.25,
            "/v1/auth with a token and its subject's plan, both at hand, "
            "against a header that says who it is");
    compare("denials, passes", &rows[CHECK], &rows[CHECK_OFF], 1, 1.03,
            "/v1/check that passes, against `denials: off`");
    compare("denials, refusals", &rows[REFUSED], &rows[REFUSED_OFF], 1, 1.03,
            "/v1/check that is refused, with an address, against "
            "`denials: off`");
    measure_memory(&sluiced);
    if (!has_nginx)
        die("there is no nginx to compare with: scripts/setup installs it");
    return 0;
}
