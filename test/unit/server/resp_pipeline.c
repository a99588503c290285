/* resp_pipeline.c -- checks of one pipeline are decided together, and the
 * replies do not show it: the same bytes come in the same order as for commands
 * that are sent one by one.
 */
#include "asking.h"
#include "fail.h"
#include "server/resp/resp_int.h"

static const char policy[] =
    "sluice: 1\n"
    "env: t\n"
    "plans: { default: free, free: {}, pro: {} }\n"
    "identity: { user: [header.x-user] }\n"
    "limits:\n"
    "  minute:\n"
    "    { kind: token-bucket, per: user, rate: { free: 5/min, pro: 9/min } }\n"
    "  day:\n"
    "    kind: quota\n"
    "    per: user\n"
    "    rate: 20/day\n"
    "    deny: { status: 402, code: NO_MORE, message: \"That was {limit}.\" }\n"
    "routes:\n"
    "  - { match: /free, limits: [] }\n"
    "  - { job: mail, limits: [day] }\n"
    "default: [minute, day]\n";

/* A session without a connection. */
struct talk {
    struct rig rig;
    struct sl_server door;
    struct sl_resp_worker worker;
    struct sl_resp_conn session;
    struct sl_buf in, out;
    enum sl_resp_served served;
};

static void talk_again(struct talk *t)
{
    sl_resp_conn_init(&t->session, &t->worker, &t->out);
}

static void talk_open(struct talk *t, const struct sl_alloc *alloc)
{
    memset(t, 0, sizeof(*t));
    rig_open(&t->rig, policy);
    t->door = (struct sl_server){
        .protocol = &sl_protocol_resp, .name = "resp", .token = SL_STR("")};
    sl_server_worker_init(&t->worker.base, &t->door, t->rig.engine, NULL,
                          alloc);
    sl_buf_init(&t->in, 1 << 20, &sl_alloc_libc);
    sl_buf_init(&t->out, 8 << 20, alloc ? alloc : &sl_alloc_libc);
    talk_again(t);
}

static void talk_close(struct talk *t)
{
    if (t->session.call)
        sl_resp_call_done(t->session.call);
    sl_server_worker_close(&t->worker.base);
    sl_buf_done(&t->in);
    sl_buf_done(&t->out);
    rig_close(&t->rig);
}

/* Say bytes, and hear the replies: a text until the next call. */
static const char *talk(struct talk *t, const char *text)
{
    sl_buf_clear(&t->out);
    if (sl_buf_add(&t->in, sl_str_c(text)))
        abort();
    t->served = sl_resp_serve(&t->session, &t->in, 10000);
    if (sl_buf_reserve(&t->out, 1))
        abort();
    t->out.bytes[t->out.len] = '\0';
    return t->out.bytes;
}

#define LINES 400

static const char *const samples[] = {
    "SLUICE.CHECK GET /x user %c id %u\r\n",
    "SLUICE.CHECK GET /x user %c id %u\r\n",
    "SLUICE.CHECK GET /free user %c id %u\r\n",
    "SLUICE.CHECK JOB mail user %c cost 3 id %u\r\n",
    "SLUICE.CHECK JOB mail user %c cost 0 id %u as json\r\n",
    "SLUICE.CHECK LIMIT minute %c id %u\r\n",
    "SLUICE.CHECK LIMIT nowhere %c id %u\r\n",
    "SLUICE.CHECK GET /x user %c idempotency_key k id %u\r\n",
    "SLUICE.CHECK GET /x user %c id %u plan\r\n",
    "SLUICE.CHECK GET /x usr %c id %u\r\n",
    "SLUICE.EXPLAIN GET /x user %c id %u\r\n",
    "SLUICE.RESET LIMIT minute %c id %u\r\n",
    "CL.THROTTLE %c %u 10 60\r\n",
    "SLUICE.CHECK %c%u\r\n",
    "ECHO %c%u\r\n",
    "CLIENT SETNAME %c%u\r\n",
};

static char lines[LINES][128];

/* xorshift64*, Marsaglia: any good mixture will do. */
static unsigned choose(uint64_t *state, unsigned below)
{
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return (unsigned)((*state * UINT64_C(2685821657736338717)) >> 33) % below;
}

static void make_lines(uint64_t seed)
{
    for (unsigned i = 0; i < LINES; i++) {
        unsigned which = choose(&seed, SL_LEN(samples));

        if (choose(&seed, 3) > 0) /* mostly checks in a row */
            which = choose(&seed, 5);
        snprintf(lines[i], sizeof(lines[i]), samples[which],
                 'a' + (int)choose(&seed, 4), i);
    }
}

/* Say all lines, up to `most` at once; hear everything. */
static void say_all(unsigned most, uint64_t seed, struct sl_buf *heard)
{
    struct talk t;

    talk_open(&t, NULL);
    for (unsigned i = 0, run; i < LINES; i += run) {
        run = 1 + choose(&seed, most);
        for (unsigned k = i; k < i + run && k < LINES; k++)
            CHECK_EQ(sl_buf_add(&t.in, sl_str_c(lines[k])), 0);
        talk(&t, "");
        CHECK_EQ(t.served, SL_RESP_EMPTY);
        CHECK_EQ(t.session.check_count, 0);
        CHECK_EQ(sl_buf_add(heard, sl_buf_str(&t.out)), 0);
    }
    talk_close(&t);
}

static void check_same(void)
{
    CASE("together or one by one: the same replies");
    for (uint64_t seed = 1; seed <= 40; seed++) {
        static const unsigned mosts[] = {3, 12, LINES};
        struct sl_buf alone, together;

        sl_buf_init(&alone, 8 << 20, &sl_alloc_libc);
        sl_buf_init(&together, 8 << 20, &sl_alloc_libc);
        make_lines(seed * UINT64_C(0x9e3779b97f4a7c15));
        say_all(1, seed, &alone);
        CHECK(alone.len > LINES);
        for (unsigned i = 0; i < SL_LEN(mosts); i++) {
            sl_buf_clear(&together);
            say_all(mosts[i], seed, &together);
            if (!CHECK(sl_str_eq(sl_buf_str(&alone), sl_buf_str(&together))))
                printf("# seed %u, up to %u\n", (unsigned)seed, mosts[i]);
        }
        sl_buf_done(&alone);
        sl_buf_done(&together);
    }
}

static void check_no_memory(const char *script)
{
    unsigned nth = 1;

    for (; nth < 200; nth++) {
        struct fail f = {.nth = nth};
        struct sl_alloc alloc = fail_alloc(&f);
        struct talk own;

        talk_open(&own, &alloc);
        CHECK_EQ(sl_buf_add(&own.in, sl_str_c(script)), 0);
        own.served = sl_resp_serve(&own.session, &own.in, 100);
        CHECK(own.served == SL_RESP_EMPTY ||
              (own.served == SL_RESP_ENDED && own.session.broken));
        CHECK_EQ(own.session.check_count, 0);
        talk_close(&own);
        fail_check(&f);
        if (f.calls < nth)
            break;
    }
    CHECK(nth > 5 && nth < 200);
}

/* Three hundred throttles in one piece, more than are asked at once. */
static void check_throttles(void)
{
    struct sl_buf send, want;
    struct talk t;

    CASE("a pipeline of throttles is answered in order, however long");
    talk_open(&t, NULL);
    sl_buf_init(&send, 1 << 20, &sl_alloc_libc);
    sl_buf_init(&want, 1 << 20, &sl_alloc_libc);
    for (int i = 0; i < 300; i++) {
        CHECK_EQ(sl_buf_addf(&send, "CL.THROTTLE k%d 2 1 60\r\n%s", i % 75,
                             i % 50 == 49 ? "ECHO x\r\n" : ""),
                 0);
        CHECK_EQ(sl_buf_addf(&want,
                             "*5\r\n:%d\r\n:3\r\n:%d\r\n:%d\r\n:%d\r\n"
                             "%s",
                             i >= 225, i < 225 ? 2 - i / 75 : 0,
                             i >= 225 ? 60 : -1,
                             i < 225 ? 60 * (i / 75 + 1) : 180,
                             i % 50 == 49 ? "$1\r\nx\r\n" : ""),
                 0);
    }
    CHECK_EQ(sl_buf_add(&send, (struct sl_str){"", 1}), 0);
    CHECK_EQ(sl_buf_add(&want, (struct sl_str){"", 1}), 0);
    CHECK_STR(talk(&t, send.bytes), want.bytes);
    sl_buf_done(&send);
    sl_buf_done(&want);
    talk_close(&t);
}

/* No more are kept than are decided together, and of the policy before none. */
static void check_spare(void)
{
    struct sl_policy *same = rig_policy(policy);
    struct talk t;
    struct sl_buf line;

    CASE("what is kept for the next pipeline");
    talk_open(&t, NULL);
    sl_buf_init(&line, 1 << 20, &sl_alloc_libc);
    for (int i = 0; i < 100; i++)
        CHECK_EQ(sl_buf_add(&line, SL_STR("SLUICE.CHECK GET /x user a\r\n")),
                 0);
    CHECK_EQ(sl_buf_add(&line, (struct sl_str){"", 1}), 0);
    talk(&t, line.bytes);
    CHECK_EQ(t.worker.base.spare_count, SL_RESP_CHECKS);
    CHECK_EQ(sl_engine_use(t.rig.engine, same, &t.rig.diag), 0);
    sl_policy_unref(same);
    talk(&t, "SLUICE.CHECK GET /x user a\r\n");
    CHECK_EQ(t.worker.base.spare_count, 1);
    sl_buf_done(&line);
    talk_close(&t);
}

int main(void)
{
    check_same();
    CASE("without memory each reply is an error, or the connection is closed");
    check_no_memory(
        "SLUICE.CHECK GET /x user a\r\nSLUICE.CHECK GET /x user b\r\n"
        "SLUICE.CHECK JOB mail as json\r\nSLUICE.CHECK GET /x user a cost 9\r\n"
        "SLUICE.CHECK GET /free\r\nSLUICE.CHECK LIMIT x y\r\nPING\r\n");
    check_no_memory(
        "HELLO 3\r\nCL.THROTTLE a 1 1 1\r\nTHROTTLE b 1 1 1\r\n"
        "SLUICE.CHECK GET /x user ann\r\nSLUICE.CHECK JOB mail as json\r\n"
        "SLUICE.EXPLAIN GET /x\r\nSLUICE.RESET THROTTLE a\r\n"
        "SLUICE.RESET LIMIT day ann\r\nCOMMAND\r\n");
    check_throttles();
    check_spare();
    return CHECK_DONE();
}
