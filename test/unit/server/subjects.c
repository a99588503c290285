/* subjects.c -- what is read of a subject, and what is said when it is not. */
#include "server/http/subjects.h"

#include "asking.h"
#include "fail.h"

#define NOW (1000 * SL_S)

static const char policy_text[] =
    "sluice: 1\n"
    "plans: { default: free, free: {}, pro: { aliases: [PRO_MONTHLY] } }\n"
    "limits:\n"
    "  api: { kind: fixed-window, per: user, rate: { free: 2/hour, pro: "
    "20/hour } }\n"
    "default: [api]\n";

/* Read, check against the policy: "" or the sentence. */
static const char *json(const char *text, bool force,
                        const struct sl_alloc *alloc)
{
    static struct sl_policy *policy;
    static char said[512];
    struct sl_subject_change change = {.id = SL_STR("ann")};
    struct sl_diag diag = {0};
    struct sl_arena arena;
    struct sl_reading reading = {.arena = &arena, .now = NOW};

    if (!policy)
        policy = rig_policy(policy_text);
    if (!text) {
        sl_policy_unref(policy);
        return "";
    }
    sl_arena_init(&arena, 1 << 20, alloc);
    said[0] = '\0';
    if (!sl_subject_change_read_json(&reading, sl_str_c(text), &change))
        snprintf(said, sizeof(said), "%s", reading.diag.sentence);
    else if (sl_subject_change_check(&change, policy, force, &diag))
        snprintf(said, sizeof(said), "%s", diag.sentence);
    sl_arena_done(&arena);
    return said;
}

/* Rows by a macro, so that their lines stay short. */
#define ROW(text, said)                                                        \
    {                                                                          \
        (text), (said)                                                         \
    }

static const struct {
    const char *text, *said;
} rows[] = {
    ROW("{}", ""),
    ROW("{\"plan\":\"pro_monthly\"}", ""),
    ROW("{\"plan\":null,\"roles\":null,\"aliases\":null,\"overrides\":"
        "null}",
        ""),
    ROW("{\"overrides\":{\"api\":\"5/hour\"},\"until\":\"2h\"}", ""),
    ROW("{\"overrides\":{\"api\":{\"rate\":\"5/hour\",\"until\":null}}}", ""),
    ROW("{\"expires\":\"2026-12-31\"}", ""),
    ROW("{\"expires\":\"2026-12-31T23:59:59.5+02:00\"}", ""),
    ROW("", "invalid JSON at byte 0: the text ends too early"),
    ROW("[]", "\"the body\" must be an object, not an array"),
    ROW("{} x", "invalid JSON at byte 3: there is something after the value"),
    ROW("{\"plan\":1}", "\"plan\" must be a string or null, not a number"),
    ROW("{\"plna\":\"x\"}",
        "unknown member \"plna\" of a subject; did you mean "
        "\"plan\"?"),
    ROW("{\"quite\":1}", "unknown member \"quite\" of a subject"),
    ROW("{\"note\":\"a\",\"note\":\"b\"}", "\"note\" is given twice"),
    ROW("{\"roles\":[1]}", "\"roles\" must be a list of strings, not a number"),
    ROW("{\"roles\":[\"\"]}", "\"roles\" contains an empty value; remove it"),
    ROW("{\"note\":\"a\\nb\"}",
        "\"note\" has control characters or is not valid UTF-8"),
    ROW("{\"plan\":\"free\",\"expires\":\"soon\"}",
        "\"expires\": \"soon\" is not a time; write "
        "2026-12-31T23:59:59Z, 2026-12-31, or a duration from now "
        "such as 2h or 30d"),
    ROW("{\"plan\":null,\"expires\":\"1h\"}", "\"expires\" needs a plan"),
    ROW("{\"plan\":\"pto\"}",
        "the policy has no plan \"pto\"; did you mean \"pro\"?"),
    ROW("{\"plan\":\"enterprise\"}",
        "the policy has no plan \"enterprise\"; set force to keep it anyway"),
    ROW("{\"overrides\":{\"apo\":\"5/hour\"}}",
        "the policy has no limit \"apo\"; did you mean \"api\"?"),
    ROW("{\"overrides\":{\"api\":\"5/min\"}}",
        "\"5/min\" for api: The period of 5/min differs from the plans of "
        "limit \"api\". The usage would be lost"),
    ROW("{\"overrides\":{\"\":\"5/hour\"}}",
        "an override needs the name of a limit"),
    ROW("{\"overrides\":{\"api\":\"5/hour\",\"api\":\"6/hour\"}}",
        "the override of \"api\" is given twice"),
    ROW("{\"overrides\":{\"api\":{\"rat\":\"5/hour\"}}}",
        "unknown member \"rat\" of an override; write rate, until "
        "or note"),
};

static void test_json(void)
{
    for (size_t i = 0; i < SL_LEN(rows); i++) {
        CASE(rows[i].text[0] ? rows[i].text : "nothing");
        CHECK_STR(json(rows[i].text, false, &sl_alloc_libc), rows[i].said);
    }
    CASE("what is forced need not be in the policy, but be a rate");
    CHECK_STR(json("{\"plan\":\"gold\"}", true, &sl_alloc_libc), "");
    CHECK_STR(json("{\"overrides\":{\"x\":\"5/min\"}}", true, &sl_alloc_libc),
              "");
    CHECK(json("{\"overrides\":{\"x\":\"5/mni\"}}", true, &sl_alloc_libc)[0]);
}

static void test_bounds(void)
{
    static char text[4096];
    size_t len = (size_t)snprintf(text, sizeof(text), "{\"roles\":[\"r0\"");

    CASE("so many roles and no more");
    for (int i = 1; i < SL_SUBJECT_RECORD_ROLES; i++)
        len += (size_t)snprintf(text + len, sizeof(text) - len, ",\"r%d\"", i);
    snprintf(text + len, sizeof(text) - len, "]}");
    CHECK_STR(json(text, false, &sl_alloc_libc), "");
    snprintf(text + len, sizeof(text) - len, ",\"x\"]}");
    CHECK_STR(json(text, false, &sl_alloc_libc), "there are more than 32 "
                                                 "roles");

    CASE("and so many bytes of a note");
    len = (size_t)snprintf(text, sizeof(text), "{\"note\":\"");
    memset(text + len, 'x', SL_SUBJECT_RECORD_NOTE + 1);
    snprintf(text + len + SL_SUBJECT_RECORD_NOTE, 8, "\"}");
    CHECK_STR(json(text, false, &sl_alloc_libc), "");
    snprintf(text + len + SL_SUBJECT_RECORD_NOTE, 8, "x\"}");
    CHECK_STR(json(text, false, &sl_alloc_libc),
              "\"note\" has 513 bytes; the maximum is 512");
}

static void test_memory(void)
{
    static const char text[] =
        "{\"aliases\":[\"A\\u0042\"],\"overrides\":{\"api\":\"5/hour\"}}";
    struct fail f = {0};
    struct sl_alloc alloc = fail_alloc(&f);

    CASE("without memory it says so");
    for (unsigned n = 1; n < 50; n++) {
        f = (struct fail){.nth = n};
        const char *said = json(text, false, &alloc);
        bool enough = f.calls < n;

        fail_check(&f);
        CHECK_STR(said, enough ? "" : "out of memory");
        if (enough)
            break;
    }
}

int main(void)
{
    test_json();
    test_bounds();
    test_memory();
    json(NULL, false, &sl_alloc_libc); /* give the policy back */
    return CHECK_DONE();
}
