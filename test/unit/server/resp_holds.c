/* resp_holds.c -- SLUICE.CHECK with a hold, SETTLE, RELEASE and EXTEND. */
#include "fail.h"
#include "holding.h"
#include "resp_talk.h"

static const char policy[] =
    "sluice: 1\n"
    "limits:\n"
    "  calls: { kind: fixed-window, per: org, rate: 100/day, cost: 1 }\n"
    "  tokens: { kind: quota, per: org, rate: 1000/day }\n"
    "  sem: { kind: concurrency, per: org, rate: 2 }\n"
    "routes:\n"
    "  - { match: /llm, endpoint: llm, limits: [calls, tokens] }\n"
    "  - { match: /work, endpoint: work, limits: [sem] }\n"
    "default: []\n";

static struct holding store;
static struct talk t;

/* The name behind "hold" in a reply. */
static const char *hold_in(const char *reply)
{
    static char name[SL_HOLD_TEXT];
    const char *at = strstr(reply, "$4\r\nhold\r\n$40\r\n");

    snprintf(name, sizeof(name), "%.40s", at ? at + 15 : "");
    return name;
}

static const char *say(const char *fmt, const char *hold)
{
    char line[256];

    snprintf(line, sizeof(line), fmt, hold);
    return talk(&t, line);
}

static void check_map(void)
{
    char hold[SL_HOLD_TEXT];
    const char *reply;

    CASE("a hold is named in the map, and settled");
    reply = talk(&t, "SLUICE.CHECK GET /llm org acme cost.tokens 500 hold "
                     "30s\r\n");
    CHECK(strncmp(reply, "*28\r\n", 5) == 0);
    CHECK(strstr(reply, "$15\r\nhold_expires_ms\r\n:30000\r\n"));
    memcpy(hold, hold_in(reply), sizeof(hold));
    CHECK_EQ(strlen(hold), 40);
    CHECK_STR(say("SLUICE.SETTLE %s 350\r\n", hold),
              "*8\r\n$5\r\nstate\r\n$7\r\nsettled\r\n$5\r\nagain\r\n:0\r\n"
              "$10\r\nexpires_ms\r\n:-1\r\n$6\r\nlimits\r\n*2\r\n"
              "*5\r\n$5\r\ncalls\r\n:1\r\n:1\r\n:99\r\n:0\r\n"
              "*5\r\n$6\r\ntokens\r\n:500\r\n:350\r\n:650\r\n:0\r\n");
    CHECK_STR(say("SLUICE.SETTLE %s tokens 1\r\n", hold),
              "*8\r\n$5\r\nstate\r\n$7\r\nsettled\r\n$5\r\nagain\r\n:1\r\n"
              "$10\r\nexpires_ms\r\n:-1\r\n$6\r\nlimits\r\n*0\r\n");

    CASE("version 3 has maps and booleans; as json is what HTTP says");
    talk(&t, "HELLO 3\r\n");
    reply = talk(&t, "SLUICE.CHECK GET /work org acme\r\n");
    CHECK(strncmp(reply, "%14\r\n", 5) == 0);
    memcpy(hold, hold_in(reply), sizeof(hold));
    CHECK_STR(say("SLUICE.EXTEND %s 2m\r\n", hold),
              "%4\r\n$5\r\nstate\r\n$4\r\nheld\r\n$5\r\nagain\r\n#f\r\n"
              "$10\r\nexpires_ms\r\n:120000\r\n$6\r\nlimits\r\n*1\r\n"
              "*5\r\n$3\r\nsem\r\n:1\r\n:-1\r\n:1\r\n#f\r\n");
    reply = say("sluice.release %s as json\r\n", hold);
    CHECK(strstr(reply, "\"state\":\"released\",\"again\":false"));
    reply = talk(&t, "SLUICE.CHECK GET /work org acme as json\r\n");
    CHECK(strstr(reply, "\"hold_expires_ms\":60000"));
    talk(&t, "HELLO 2\r\n");
}

static void check_refused(void)
{
    static const struct {
        const char *line, *reply;
    } rows[] = {
        {"SLUICE.SETTLE x\r\n",          "-UNKNOWNHOLD it never was"     },
        {"SLUICE.RELEASE x\r\n",         "-UNKNOWNHOLD it never was"     },
        {"SLUICE.SETTLE x y\r\n",
         "-ERR a cost is a whole number from 0 on, not 'y'"              },
        {"SLUICE.SETTLE x -1\r\n",
         "-ERR a cost is a whole number from 0 on, not '-1'"             },
        {"SLUICE.SETTLE x tokens y\r\n", "-ERR write LIMIT COST"         },
        {"SLUICE.SETTLE x a 1 a 2\r\n",  "-ERR write LIMIT COST"         },
        {"SLUICE.SETTLE x a 1 b\r\n",    "-ERR 'b' has no cost behind it"},
        {"SLUICE.RELEASE x 1\r\n",       "-ERR write SLUICE.RELEASE id"  },
        {"SLUICE.EXTEND x 0s\r\n",       "-ERR 0 is no time at all"      },
        {"SLUICE.EXTEND x soon\r\n",     "-ERR "                         },
        {"SLUICE.EXTEND x as json\r\n",  "-ERR for how long?"            },
    };
    char hold[SL_HOLD_TEXT];

    CASE("what is wrong is said, and changes nothing");
    for (size_t i = 0; i < SL_LEN(rows); i++) {
        const char *got = talk(&t, rows[i].line);

        if (!CHECK(strncmp(got, rows[i].reply, strlen(rows[i].reply)) == 0))
            printf("# %s# got %s", rows[i].line, got);
    }
    CHECK(strstr(talk(&t, "SLUICE.CHECK GET /x hold 0s\r\n"),
                 "-ERR 0 is no time at all"));
    CHECK(strstr(talk(&t, "SLUICE.CHECK GET /x hold 1s hold 2s\r\n"),
                 "-ERR 'hold' is there twice"));
    memcpy(hold, hold_in(talk(&t, "SLUICE.CHECK GET /work org b\r\n")),
           sizeof(hold));
    CHECK(strstr(say("SLUICE.SETTLE %s tokns 1\r\n", hold),
                 "-ERR the policy has no limit \"tokns\""));
    store.fails = true;
    CHECK(strstr(say("SLUICE.RELEASE %s\r\n", hold),
                 "-ERR the store did not answer in time"));
    store.fails = false;
    CHECK(strstr(say("SLUICE.RELEASE %s\r\n", hold), "released"));
}

int main(void)
{
    struct sl_memory_options memory = {
        .size = 1 << 20, .now = rig_now, .now_ctx = &t.rig};

    holding_open(&store, &memory);
    talk_begin_on(&t, policy, &store.store, "", NULL);
    check_map();
    check_refused();
    talk_close(&t);
    return CHECK_DONE();
}
