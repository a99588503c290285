/* scale.c -- a unit with a scale: what answers show, and that the scale of a
 * limit stays. */
#include <unistd.h>

#include "fixture.h"

#define TALK(of_)                                                              \
    "sluice: 1\n"                                                              \
    "headers: [x-ratelimit, ietf, github, kong]\n"                             \
    "limits:\n"                                                                \
    "  talk:\n"                                                                \
    "    kind: quota\n"                                                        \
    "    per: org\n"                                                           \
    "    unit: " of_ "\n"                                                      \
    "    rate: 120/month\n"                                                    \
    "    candidate: 60/month\n"                                                \
    "default: [talk]\n"

static const char minutes[] =
    TALK("{ name: minutes, of: 60, reports: seconds }");
static const char hours[] = TALK("{ name: hours, of: 3600, reports: seconds }");
static const char frames[] = TALK("{ name: minutes, of: 60, reports: frames }");
static const char plain[] = TALK("minutes");

#define REFUSED_IN(where, old, new)                                            \
    "Limit \"talk\" is counted in " old " in " where                           \
    ", and in " new " in the new policy. Write `unit` as before, or give the " \
                    "limit another "                                           \
                    "name and import its usage"
#define REFUSED(old, new) REFUSED_IN("the active policy", old, new)

static struct rig rig;

static void check_verdict(void)
{
    const struct sl_decision *d;
    const char *json;

    CASE("whole minutes, and the exact seconds beside them");
    rig_open(&rig, minutes);
    d = rig_ask(&rig, GET("/", ORG("acme"), COST(301)));
    json = rig_json(d, false);
    CHECK(has(json, "\"limit\":120,\"burst\":120,\"remaining\":114,"));
    CHECK(has(json, ",\"exact\":{\"unit\":\"seconds\",\"scale\":60,"
                    "\"limit\":7200,\"burst\":7200,\"remaining\":6899}"));
    CHECK(has(json, "\"candidate\":{\"limit\":60,\"remaining\":54,"));
    CHECK(has(json, "\"X-RateLimit-Limit\":\"120\""));
    CHECK(has(json, "\"X-RateLimit-Remaining\":\"114\""));
    CHECK(has(json, "\"x-ratelimit-used\":\"6\""));
    CHECK(has(json, "\"X-RateLimit-Remaining-Month\":\"114\""));
    CHECK(has(json, "\"RateLimit\":\"\\\"talk\\\";r=114;"));
    CHECK(has(json, "\"RateLimit-Policy\":\"\\\"talk\\\";q=120\""));
    CHECK(has(rig_explained(d),
              "talk: 120/month (minutes of 60 seconds), cost 301 seconds, "
              "6899 seconds left"));
    rig_close(&rig);

    CASE("a plain unit has no exact numbers");
    rig_open(&rig, plain);
    json = rig_json(rig_ask(&rig, GET("/", ORG("acme"), COST(1))), false);
    CHECK(has(json, "\"limit\":120,\"burst\":120,\"remaining\":119,"));
    CHECK(!strstr(json, "exact"));
    rig_close(&rig);
}

static void check_denials(void)
{
    CASE("a denial names the unit of its numbers");
    rig_open(&rig, minutes);
    CHECK(has(rig_json(rig_ask(&rig, GET("/", ORG("acme"), COST(7201))), false),
              "allows 120 minutes per month. A cost of 7201 seconds can never "
              "pass: the maximum is 7200 seconds.\""));
    rig_ask(&rig, GET("/", ORG("acme"), COST(7141)));
    CHECK(has(rig_json(rig_ask(&rig, GET("/", ORG("acme"), COST(60))), false),
              "\"remaining\":0,"));
    CHECK(rig_ask(&rig, GET("/", ORG("acme"), COST(59)))->allowed);
    rig_close(&rig);
}

static void check_use(const char *old, const char *new, const char *want)
{
    struct sl_policy *policy = rig_policy(new);
    struct sl_diag diag = {.sentence = ""};

    rig_open(&rig, old);
    CHECK_EQ(sl_engine_use(rig.engine, policy, &diag),
             want[0] ? SLUICE_ECONF : 0);
    CHECK_STR(diag.sentence, want);
    sl_policy_unref(policy);
    rig_close(&rig);
}

static void check_reload(void)
{
    CASE("the unit of a limit stays");
    check_use(minutes, minutes, "");
    check_use(minutes, hours,
              REFUSED("units of 60 seconds", "units of 3600 seconds"));
    check_use(plain, minutes, REFUSED("plain units", "units of 60 seconds"));
    check_use(minutes, plain, REFUSED("units of 60 seconds", "plain units"));
    check_use(minutes, frames,
              REFUSED("units of 60 seconds", "units of 60 frames"));
}

/* Opens an engine on the state file, as after a restart. `use`: seconds. */
static void check_start(const char *text, uint64_t use, const char *want)
{
    struct sl_memory_options file = {.size = 1 << 20, .path = "scale-state"};
    struct sl_engine_options options = {.store = NULL};
    struct sl_policy *policy = rig_policy(text);
    struct sl_diag diag = {.sentence = ""};
    struct sl_engine *engine = NULL;
    struct sl_check check;
    struct sl_request request = GET("/", ORG("acme"), COST(use));

    request.now = 20000 * SL_DAY;
    CHECK_EQ(sl_memory_open(&file, &options.store, &diag), 0);
    CHECK_EQ(sl_engine_open(&options, policy, &engine, &diag),
             want[0] ? SLUICE_ECONF : 0);
    CHECK_STR(diag.sentence, want);
    sl_policy_unref(policy);
    if (!engine) {
        sl_store_close(options.store);
        return;
    }
    rig_check(&check, engine, &sl_alloc_libc);
    sl_check_start(&check, &request, 1, true);
    CHECK(check.decision.allowed);
    sl_check_done(&check);
    sl_engine_close(engine);
}

static void check_file(void)
{
    CASE("a state file of another unit is refused");
    unlink("scale-state");
    check_start(minutes, 0, "");
    check_start(hours, 0, "");
    check_start(minutes, 61, "");
    check_start(minutes, 1, "");
    check_start(hours, 1,
                REFUSED_IN("the state", "units of 60", "units of 3600"));
    check_start(plain, 1,
                REFUSED_IN("the state", "units of 60", "plain units"));
    check_start(frames, 1,
                REFUSED_IN("the state", "units of 60", "units of 60"));
    check_start(minutes, 7138, "");
    unlink("scale-state");
    check_start(plain, 1, "");
    check_start(minutes, 1,
                REFUSED_IN("the state", "plain units", "units of 60"));
    unlink("scale-state");
}

int main(void)
{
    check_verdict();
    check_denials();
    check_reload();
    check_file();
    return CHECK_DONE();
}
