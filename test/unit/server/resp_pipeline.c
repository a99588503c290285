/* resp_pipeline.c -- checks of one pipeline are decided together, and nobody
 * can tell.
 *
 * What is said in one breath is answered as what is said word by word: the same
 * bytes, in the same order, whatever stands between the checks.
 */
#include "fail.h"
#include "resp_talk.h"

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

    talk_open(&t, "", NULL);
    talk_at(&t, 0);
    for (unsigned i = 0, run; i < LINES; i += run) {
        run = 1 + choose(&seed, most);
        for (unsigned k = i; k < i + run && k < LINES; k++)
            CHECK_EQ(sl_buf_add(&t.in, sl_str_c(lines[k])), 0);
        talk_bytes(&t, SL_STR(""));
        CHECK_EQ(t.served, SL_RESP_EMPTY);
        CHECK_EQ(t.session.check_count, 0);
        CHECK_EQ(sl_buf_add(heard, sl_buf_str(&t.out)), 0);
    }
    talk_close(&t);
}

static void check_same(void)
{
    CASE("in one breath or word by word: the same replies");
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

/* What was deferred is decided before the connection is given up, too. */
static void check_end(void)
{
    struct talk t;

    CASE("checks before the end of a connection are answered");
    talk_open(&t, "", NULL);
    talk(&t, "SLUICE.CHECK LIMIT day a id r\r\n"
             "SLUICE.CHECK LIMIT day a id r\r\nPOST / HTTP/1.1\r\n");
    CHECK_EQ(t.served, SL_RESP_ENDED);
    CHECK(strstr(t.out.bytes, "$9\r\nremaining\r\n:19\r\n") != NULL);
    CHECK(strstr(t.out.bytes, "$9\r\nremaining\r\n:18\r\n") != NULL);
    talk_again(&t);
    sl_buf_clear(&t.in);
    talk(&t, "SLUICE.CHECK LIMIT day a id r\r\n*-5\r\n$x");
    CHECK(strstr(t.out.bytes, "$9\r\nremaining\r\n:17\r\n") != NULL);
    talk_close(&t);
}

/* A guard that is not seen before: repeats of a key in one pipeline. */
static void check_repeats(void)
{
    struct talk t;
    const char *first;

    CASE("a repeat right behind the first is answered as that was");
    talk_open(&t, "", NULL);
    talk(&t, "SLUICE.CHECK LIMIT day b id r\r\n"
             "SLUICE.CHECK LIMIT day a id r idempotency_key k\r\n"
             "SLUICE.CHECK LIMIT day a id r idempotency_key k\r\n"
             "SLUICE.CHECK LIMIT day a id r\r\n");
    first = strstr(t.out.bytes, "remaining\r\n:19\r\n");
    for (int i = 0; i < 2 && first; i++)
        first = strstr(first + 1, "remaining\r\n:19\r\n");
    CHECK(first != NULL && strstr(first, "remaining\r\n:18\r\n") != NULL);
    CHECK(strstr(t.out.bytes, "status\r\n:409") == NULL);
    talk_close(&t);
}

static void check_no_memory(void)
{
    static const char script[] =
        "SLUICE.CHECK GET /x user a\r\nSLUICE.CHECK GET /x user b\r\n"
        "SLUICE.CHECK JOB mail as json\r\nSLUICE.CHECK GET /x user a cost 9\r\n"
        "SLUICE.CHECK GET /free\r\nSLUICE.CHECK LIMIT x y\r\nPING\r\n";
    unsigned nth = 1;

    CASE("without memory each says so, or the connection is given up");
    for (; nth < 200; nth++) {
        struct fail f = {.nth = nth};
        struct sl_alloc alloc = fail_alloc(&f);
        struct talk own;

        talk_open(&own, "", &alloc);
        sl_buf_done(&own.out);
        sl_buf_init(&own.out, 8 << 20, &alloc);
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

/* No more are kept than are decided together, and of the policy before none. */
static void check_spare(void)
{
    struct sl_policy *policy = rig_policy(talk_policy);
    struct talk t;
    struct sl_buf line;

    CASE("what is kept for the next pipeline");
    talk_open(&t, "", NULL);
    sl_buf_init(&line, 1 << 20, &sl_alloc_libc);
    for (int i = 0; i < 100; i++)
        CHECK_EQ(sl_buf_add(&line, SL_STR("SLUICE.CHECK GET /x user a\r\n")),
                 0);
    talk_bytes(&t, sl_buf_str(&line));
    CHECK_EQ(t.worker.base.spare_count, SL_RESP_CHECKS);
    CHECK_EQ(sl_engine_use(t.rig.engine, policy, &t.rig.diag), 0);
    sl_policy_unref(policy);
    talk(&t, "SLUICE.CHECK GET /x user a\r\n");
    CHECK_EQ(t.worker.base.spare_count, 1);
    sl_buf_done(&line);
    talk_close(&t);
}

int main(void)
{
    check_same();
    check_end();
    check_repeats();
    check_no_memory();
    check_spare();
    return CHECK_DONE();
}
