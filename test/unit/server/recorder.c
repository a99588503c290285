/* The last requests of a thread, and what another policy would have decided.
 * The numbers are those of src/server/recorder.h. */
#include "server/recorder.h"

#include <string.h>

#include <jansson.h>

#include "asking.h"
#include "fail.h"
#include "server/what_if.h"

static const char policy[] =
    "sluice: 1\n"
    "identity: { key: header.x-key }\n"
    "limits:\n"
    "  day: { kind: fixed-window, per: user, rate: 3/day }\n"
    "  units: { kind: quota, per: org, rate: 10/month }\n"
    "  keys: { kind: fixed-window, per: key, rate: 2/day }\n"
    "  pair: { kind: fixed-window, per: [org, user], rate: 1/day }\n"
    "routes:\n"
    "  - { match: /day, endpoint: day, limits: [day] }\n"
    "  - { match: /units, endpoint: units, limits: [units] }\n"
    "  - { match: /keys, endpoint: keys, limits: [keys] }\n";

static const char other[] =
    "sluice: 1\n"
    "limits:\n"
    "  day: { kind: fixed-window, per: user, rate: 5/day }\n"
    "  units: { kind: quota, per: org, rate: 5/month }\n"
    "routes:\n"
    "  - { match: /day, endpoint: day, limits: [day] }\n"
    "  - { match: /units, endpoint: units, limits: [units] }\n"
    "default: []\n";

static const struct sl_hash_key secret = {1, 2};
static struct rig rig;
static struct sl_recorder *recorder;
static struct sl_recorded records[SL_RECORDER_RING];

static void begin(void)
{
    rig_open(&rig, policy);
    rig.now = 20000 * SL_DAY;
    CHECK_EQ(sl_recorder_open(NULL, &secret, &recorder), 0);
    sl_recorder_keep(recorder, true);
}

static void end(void)
{
    sl_recorder_close(recorder);
    rig_close(&rig);
}

static void ask(struct sl_request request, unsigned times)
{
    for (unsigned i = 0; i < times; i++) {
        request.now = rig.now;
        CHECK_EQ(rig_decide(&rig, &request, 1, NULL, true), 0);
        /* After the take, tokens and subjects may be gone. */
        memset(&rig.check.caller, 0xa5, sizeof(rig.check.caller));
        sl_recorder_check(recorder, &rig.check);
    }
}

static unsigned copy(unsigned *shift)
{
    *shift = 0;
    return sl_recorder_copy(recorder, 0, records, shift);
}

/* What the candidate `text` would have decided. The caller frees it. */
static json_t *what_if(const char *text)
{
    struct sl_policy *active = rig_policy(policy),
                     *candidate = rig_policy(text);
    struct sl_what_if of = {.recorders = &recorder,
                            .count = 1,
                            .active = active,
                            .candidate = candidate,
                            .alloc = &sl_alloc_libc};
    struct sl_buf out;
    json_t *found;

    sl_buf_init(&out, 1 << 20, &sl_alloc_libc);
    CHECK_EQ(sl_what_if(&of, &out), 0);
    found = json_loadb(out.bytes, out.len, 0, NULL);
    CHECK(found != NULL);
    sl_buf_done(&out);
    sl_policy_unref(active);
    sl_policy_unref(candidate);
    return found;
}

static long long number(const json_t *object, const char *name)
{
    return json_integer_value(json_object_get(object, name));
}

static void check_same(void)
{
    const struct sl_header key = {SL_STR("x-key"), SL_STR("k")};
    const struct sl_str keys[] = {SL_STR("acme"), SL_STR("ann")};
    const struct sl_cost costs[] = {
        {SL_STR("units"), 4}
    };
    json_t *found;

    begin();
    CASE("(1) the same policy decides the requests as it did");
    ask(GET("/day", USER("ann")), 5);
    ask(GET("/day", USER("bob")), 2);
    ask(GET("/units", ORG("acme"), .costs = costs, .cost_count = 1), 3);
    ask(GET("/units", ORG("acme"), COST(2)), 2);
    ask(GET("/keys", .headers = &key, .header_count = 1, .trusted = true), 4);
    ask((struct sl_request){.limit = SL_STR("day"), .key = SL_STR("eve")}, 4);
    ask((struct sl_request){.limit = SL_STR("pair"),
                            .keys = keys,
                            .key_count = 2},
        3);
    found = what_if(policy);
    CHECK_EQ(number(found, "requests"), 23);
    CHECK_EQ(number(found, "denied"), 2 + 1 + 1 + 2 + 1 + 2);
    CHECK_EQ(number(found, "active"), number(found, "denied"));
    CHECK_EQ(number(found, "candidate"), number(found, "denied"));
    CHECK_EQ(number(found, "newly_denied") + number(found, "newly_allowed"), 0);
    json_decref(found);
    end();
}

static void check_other(void)
{
    const json_t *endpoints;
    json_t *found;

    begin();
    CASE("another policy decides otherwise");
    ask(GET("/day", USER("ann")), 6);
    ask(GET("/units", ORG("acme")), 10);
    found = what_if(other);
    CHECK_EQ(number(found, "active"), 3);
    CHECK_EQ(number(found, "newly_allowed"), 2);
    CHECK_EQ(number(found, "newly_denied"), 5);
    CHECK_EQ(number(found, "candidate"), 6);
    endpoints = json_object_get(found, "endpoints");
    CHECK_EQ(json_array_size(endpoints), 2);
    CHECK_EQ(number(json_array_get(endpoints, 0), "candidate"), 1);
    CHECK_EQ(number(json_array_get(endpoints, 1), "candidate"), 5);
    json_decref(found);

    CASE("a limit that the candidate does not have passes");
    ask((struct sl_request){.limit = SL_STR("keys"), .key = SL_STR("k")}, 3);
    found = what_if(other);
    CHECK_EQ(number(found, "newly_allowed"), 2 + 1);
    json_decref(found);
    end();
}

static void check_erase(void)
{
    unsigned shift;

    begin();
    CASE("(3) an erased name is not there");
    ask(GET("/day", USER("ann"), ORG("acme")), 2);
    ask(GET("/day", USER("bob"), ORG("acme")), 3);
    sl_recorder_erase(recorder, SL_STR("ann"));
    CHECK_EQ(copy(&shift), 3);
    sl_recorder_erase(recorder, SL_STR("acme"));
    CHECK_EQ(copy(&shift), 0);

    CASE("nothing is recorded, and all is forgotten, when it is off");
    ask(GET("/day", USER("bob")), 1);
    sl_recorder_keep(recorder, false);
    ask(GET("/day", USER("bob")), 1);
    CHECK_EQ(copy(&shift), 0);
    end();
}

/* A request of each of 64 organisations. */
static void ask_all(void)
{
    char name[16];

    for (unsigned i = 0; i < 64; i++) {
        snprintf(name, sizeof(name), "org-%u", i);
        ask(GET("/units", .org = sl_str_c(name)), 1);
    }
}

static void check_many(void)
{
    unsigned shift, count, kept = 0, seen[64] = {0}, callers = 0;

    begin();
    CASE("(4) many requests: fewer callers, and the ring goes back far enough");
    for (unsigned i = 0; i < 3600; i++) {
        rig.now += SL_S;
        ask_all();
    }
    count = copy(&shift);
    CHECK(shift >= 3 && shift <= 6);
    CHECK(rig.now - records[0].at >= SL_RECORDER_SPAN);

    CASE("(2) all requests of a caller, or none");
    for (unsigned i = 0; i < count; i++)
        if (sl_recorded_is_in(&records[i], shift)) {
            struct sl_str org = sl_recorded_text(&records[i], SL_RECORDED_ORG);

            kept++;
            seen[strtoul(org.at + 4, NULL, 10) % 64]++;
        }
    for (unsigned i = 0; i < 64; i++)
        callers += seen[i] > 0;
    for (unsigned i = 0; i < 64; i++)
        CHECK(seen[i] == 0 || seen[i] + 1 >= kept / callers);

    CASE("(4) few requests: more callers again");
    for (unsigned i = 0; i < 200; i++) {
        rig.now += SL_MIN;
        ask_all();
    }
    count = copy(&shift);
    CHECK(records[count - 1].shift < 3);
    end();

    begin();
    CASE("(4) a clock that goes back by years says nothing about the callers");
    for (unsigned i = 0; i < SL_RECORDER_RING / 64; i++) {
        rig.now += SL_MIN;
        ask_all();
    }
    rig.now -= 15000 * SL_DAY;
    ask_all();
    copy(&shift);
    CHECK_EQ(shift, 0);
    end();
}

static void check_callers(void)
{
    char name[16];
    uint64_t hash;
    unsigned shift, count, same = 0;

    begin();
    CASE("(2) users of an organisation are one caller, others are not");
    for (unsigned i = 0; i < 64; i++) {
        snprintf(name, sizeof(name), "user-%u", i);
        ask(GET("/units", .org = SL_STR("acme"), .user = sl_str_c(name)), 1);
        ask(GET("/units", .user = sl_str_c(name)), 1);
    }
    count = copy(&shift);
    CHECK_EQ(count, 128);
    hash = records[0].hash;
    for (unsigned i = 0; i < count; i++)
        same += records[i].hash == hash;
    CHECK_EQ(same, 64);

    CASE("(2) about half of the users are in a half of the callers");
    for (unsigned i = same = 0; i < count; i++)
        same += records[i].hash != hash && sl_recorded_is_in(&records[i], 1);
    CHECK(same > 12 && same < 52);
    end();
}

static void check_long(void)
{
    static char path[1000];
    unsigned shift;

    begin();
    CASE("a request with too long a text is left out");
    memset(path, 'a', sizeof(path) - 1);
    path[0] = '/';
    ask((struct sl_request){.method = SL_STR("GET"), .path = sl_str_c(path)},
        1);
    ask(GET("/day", USER("ann")), 1);
    CHECK_EQ(copy(&shift), 1);
    end();
}

/* Each allocation of a replay fails once. */
static void check_memory(void)
{
    struct fail f = {.nth = 1};
    struct sl_alloc alloc = fail_alloc(&f);
    struct sl_recorder *none = NULL;
    struct sl_what_if of = {
        .recorders = &recorder, .count = 1, .alloc = &alloc};
    struct sl_buf out;
    int err = SLUICE_ENOMEM;

    CASE("without memory there is none");
    CHECK_EQ(sl_recorder_open(&alloc, &secret, &none), SLUICE_ENOMEM);
    CHECK(!none);
    sl_recorder_close(none);

    CASE("a replay without memory fails, and leaks nothing");
    begin();
    ask(GET("/day", USER("ann")), 2);
    of.active = rig_policy(policy);
    of.candidate = rig_policy(other);
    sl_buf_init(&out, 1 << 20, &sl_alloc_libc);
    for (f.nth = 1; err && f.nth < 200; f.nth++) {
        f.calls = 0;
        sl_buf_clear(&out);
        err = sl_what_if(&of, &out);
        CHECK(err == 0 || err == SLUICE_ENOMEM);
    }
    CHECK_EQ(err, 0);
    fail_check(&f);
    sl_buf_done(&out);
    sl_policy_unref(of.active);
    sl_policy_unref(of.candidate);
    end();
}

int main(void)
{
    check_same();
    check_other();
    check_erase();
    check_many();
    check_callers();
    check_long();
    check_memory();
    return CHECK_DONE();
}
