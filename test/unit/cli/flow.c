/* flow.c -- flow files: what the reader returns. */
#include "cli/flow/flow.h"

#include "check.h"
#include "fail.h"

static struct sl_flow_file file;

/* Read `text` as the file dir/a.flow; what was read before is given back. */
static bool read_text(const char *text)
{
    static bool open;
    struct sl_diag diag;
    struct sl_str line;
    int err;

    if (open)
        sl_flow_file_done(&file);
    err = sl_flow_read("dir/a.flow", sl_str_c(text), &sl_alloc_libc, &file,
                       &diag, &line);
    open = err == 0;
    if (err)
        printf("# %u:%u: %s\n", diag.line, diag.column, diag.sentence);
    return CHECK_EQ(err, 0);
}

/* The only act of a flow whose other lines are given. */
static const struct sl_flow_act *read_act(const char *line)
{
    char text[512];

    snprintf(text, sizeof(text), "flow f\npolicy p.yaml\n%s\n", line);
    return read_text(text) ? file.flows->acts : NULL;
}

TEST(shape)
{
    const struct sl_flow_act *act;

    CASE("flows, policies and acts, in order");
    if (!read_text("# a comment\n"
                   "policy all.yaml\n"
                   "\n"
                   "flow \"one\"   # another\n"
                   "at 1s\n"
                   "  GET /a\n"
                   "\tPOST /b -> 200\r\n"
                   "flow two\n"
                   "policy \"/abs/own.yaml\"\n"
                   "job j"))
        return;
    CHECK_EQ(file.count, 2);
    CHECK_STR(file.flows->name, "one");
    CHECK_EQ(file.flows->line, 4);
    CHECK_STR(file.flows->policy, "dir/all.yaml");
    CHECK_EQ(file.flows->act_count, 2);
    act = file.flows->acts;
    CHECK_EQ(act->kind, SL_FLOW_ACT_AT);
    CHECK_EQ(act->when.at, SL_S);
    act = act->next;
    CHECK_EQ(act->kind, SL_FLOW_ACT_REQUEST);
    CHECK_EQ(act->line, 6);
    CHECK_STR(act->names[0], "GET");
    CHECK_STR(act->names[1], "/a");
    CHECK_EQ(act->in->times, 1);
    act = act->next;
    CHECK_STR(act->names[1], "/b");
    CHECK_EQ(act->expect_count, 1);
    CHECK(!act->next);
    CHECK_STR(file.flows->next->name, "two");
    CHECK_STR(file.flows->next->policy, "/abs/own.yaml");
    CHECK_STR(file.flows->next->acts->names[0], "j");

    CASE("a mark at the beginning of the file is passed");
    CHECK(read_text("\xef\xbb\xbf"
                    "flow f\npolicy p\nGET /\n"));
}

TEST(times)
{
    static const struct {
        const char *text;
        bool relative;
        sl_ns at;
    } rows[] = {
        {"0s",                        false, 0            },
        {"1h30m",                     false, 90 * SL_MIN  },
        {"10499ms",                   false, 10499 * SL_MS},
        {"+500ms",                    true,  500 * SL_MS  },
        {"1970-01-02T00:00:00Z",      false, SL_DAY       },
        {"1970-01-01T00:00:00.900Z",  false, 900 * SL_MS  },
        {"1970-01-01T03:00:00+02:00", false, SL_HOUR      },
    };

    for (size_t i = 0; i < SL_LEN(rows); i++) {
        char line[64];
        const struct sl_flow_act *act;

        CASE(rows[i].text);
        snprintf(line, sizeof(line), "at %s\nGET /", rows[i].text);
        act = read_act(line);
        if (!act)
            continue;
        CHECK_EQ(act->when.relative, rows[i].relative);
        CHECK_EQ(act->when.at, rows[i].at);
    }
}

TEST(inputs)
{
    const struct sl_flow_act *act;

    CASE("inputs");
    act = read_act("POST /x?a=b user=ann org=acme plan=FREE role=admin "
                   "ip=2001:db8::1 header.User-Agent=\"a \\\"b\\\" \\\\c\" "
                   "header.x= cost=10k cost.api-day=3 x2000 every=700ms "
                   "token=t hold=5m as=h1");
    if (act) {
        CHECK_STR(act->names[1], "/x?a=b");
        CHECK_STR(act->in->request.user, "ann");
        CHECK_STR(act->in->request.org, "acme");
        CHECK_STR(act->in->request.plan, "FREE");
        CHECK_STR(act->in->request.role, "admin");
        CHECK_STR(act->in->request.ip, "2001:db8::1");
        CHECK_EQ(act->in->request.header_count, 2);
        CHECK_STR(act->in->request.headers[0].name, "User-Agent");
        CHECK_STR(act->in->request.headers[0].value, "a \"b\" \\c");
        CHECK_STR(act->in->request.headers[1].name, "x");
        CHECK_STR(act->in->request.headers[1].value, "");
        CHECK(act->in->request.has_cost);
        CHECK_EQ(act->in->request.cost, 10000);
        CHECK_EQ(act->in->request.cost_count, 1);
        CHECK_STR(act->in->request.costs[0].limit, "api-day");
        CHECK_EQ(act->in->request.costs[0].cost, 3);
        CHECK_EQ(act->in->times, 2000);
        CHECK_EQ(act->in->every, 700 * SL_MS);
        CHECK_STR(act->in->token, "t");
        CHECK_EQ(act->in->request.hold_ns, 300 * SL_S);
        CHECK_STR(act->in->as, "h1");
    }
    CASE("what is not written is not known");
    act = read_act("GET /");
    if (act) {
        CHECK(!act->in->request.user && !act->in->request.plan &&
              !act->in->request.ip);
        CHECK(!act->in->request.has_cost);
        CHECK_EQ(act->in->request.header_count, 0);
        CHECK_EQ(act->expect_count, 0);
    }
    CASE("a quoted word is never an input, and a sharp in a word no comment");
    act = read_act("take \"a=b\" \"c d\" user=x#y # z");
    if (act) {
        CHECK_EQ(act->kind, SL_FLOW_ACT_TAKE);
        CHECK_STR(act->names[0], "a=b");
        CHECK_STR(act->names[1], "c d");
        CHECK_STR(act->in->request.user, "x#y");
    }
    CASE("methods of any name");
    act = read_act("M-SEARCH *");
    if (act)
        CHECK_STR(act->names[0], "M-SEARCH");
}

TEST(acts)
{
    static const struct {
        const char *line;
        enum sl_flow_act_kind kind;
        const char *first, *last;
    } rows[] = {
        {"job transcribe org=a",    SL_FLOW_ACT_JOB,     "transcribe", NULL},
        {"take api ann",            SL_FLOW_ACT_TAKE,    "api",        NULL},
        {"usage org acme api 5",    SL_FLOW_ACT_USAGE,   "org",        "5" },
        {"settle h1 cost=12 -> ok", SL_FLOW_ACT_SETTLE,  "h1",         NULL},
        {"release h1",              SL_FLOW_ACT_RELEASE, "h1",         NULL},
        {"extend h1 hold=5m",       SL_FLOW_ACT_EXTEND,  "h1",         NULL},
        {"feature x off",           SL_FLOW_ACT_FEATURE, "x",          NULL},
        {"store fails -> ok",       SL_FLOW_ACT_STORE,   "fails",      NULL},
        {"reload q.yaml",           SL_FLOW_ACT_RELOAD,  "q.yaml",     NULL},
    };
    const struct sl_flow_act *act;

    for (size_t i = 0; i < SL_LEN(rows); i++) {
        CASE(rows[i].line);
        act = read_act(rows[i].line);
        if (!act)
            continue;
        CHECK_EQ(act->kind, rows[i].kind);
        CHECK_STR(act->names[0], rows[i].first);
        CHECK_STR(act->names[3], rows[i].last);
    }
    CASE("a subject");
    act = read_act("subject org acme plan=pro until=+30d api=\"5/min burst 8\" "
                   "n=unlimited");
    if (act) {
        CHECK_STR(act->names[1], "acme");
        CHECK_STR(act->record->plan, "pro");
        CHECK(act->record->has_until && act->record->until.relative);
        CHECK_EQ(act->record->until.at, 30 * SL_DAY);
        CHECK_EQ(act->record->override_count, 2);
        CHECK_STR(act->record->overrides[0].limit, "api");
        CHECK_STR(act->record->overrides[0].rate, "5/min burst 8");
        CHECK_STR(act->record->overrides[1].rate, "unlimited");
    }
}

TEST(expects)
{
    const struct sl_flow_act *act;
    const struct sl_expect *e;

    CASE("expectations");
    act = read_act("GET / x2 -> 429 by=ai limit=5 remaining=none retry=1h30m "
                   "reset=none wait=0s quota=10k allowed=1 denied=1 "
                   "header.X-A=\"b c\" body.error.code=x");
    if (act && CHECK_EQ(act->expect_count, 12)) {
        e = act->expects;
        CHECK_EQ(e[0].field, SL_FIELD_STATUS);
        CHECK_EQ(e[0].number, 429);
        CHECK_STR(e[0].label, "");
        CHECK_EQ(e[1].field, SL_FIELD_BY);
        CHECK_STR(e[1].want, "ai");
        CHECK_EQ(e[2].number, 5);
        CHECK(e[3].none);
        CHECK_EQ(e[4].field, SL_FIELD_RETRY);
        CHECK_EQ(e[4].span, 90 * SL_MIN);
        CHECK_STR(e[4].want, "1h30m");
        CHECK(e[5].none && !e[6].none);
        CHECK_EQ(e[7].number, 10000);
        CHECK_EQ(e[8].field, SL_FIELD_ALLOWED);
        CHECK_EQ(e[9].field, SL_FIELD_DENIED);
        CHECK_STR(e[10].name, "X-A");
        CHECK_STR(e[10].want, "b c");
        CHECK_STR(e[11].label, "body.error.code");
        CHECK_STR(e[11].name, "error.code");
    }
    CASE("words");
    act = read_act("GET / -> never");
    if (act) {
        CHECK_EQ(act->expects[0].field, SL_FIELD_OUTCOME);
        CHECK_STR(act->expects[0].want, "never");
    }
}

/* A failing allocation is an error; nothing leaks. */
TEST(memory)
{
    static const char text[] =
        "flow \"f\"\npolicy p.yaml\nat 0s\n"
        "GET /x header.a=b cost.l=1 user=u x2 -> 200 header.a=b body.c=d\n"
        "subject user ann plan=pro api=5/min\n";
    unsigned nth = 1;
    int err;

    CASE("without memory");
    do {
        struct fail f = {.nth = nth};
        struct sl_alloc alloc = fail_alloc(&f);
        struct sl_flow_file got;
        struct sl_diag diag;
        struct sl_str line;

        err = sl_flow_read("a", sl_str_c(text), &alloc, &got, &diag, &line);
        CHECK(err == 0 || err == SLUICE_ENOMEM);
        if (!err)
            sl_flow_file_done(&got);
        fail_check(&f);
    } while (err && nth++ < 1000);
    CHECK_EQ(err, 0);
    CHECK(nth > 1);
}

int main(void)
{
    RUN_TESTS();
    sl_flow_file_done(&file);
    return CHECK_DONE();
}
