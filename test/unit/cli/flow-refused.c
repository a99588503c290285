/* flow-refused.c -- flow files that are refused, to the letter and the column.
 */
#include <stdlib.h>

#include "check.h"
#include "cli/flow/flow.h"

static int read_text(struct sl_str text, struct sl_diag *diag,
                     struct sl_str *line)
{
    struct sl_flow_file file;
    int err = sl_flow_read("a.flow", text, &sl_alloc_libc, &file, diag, line);

    if (!err)
        sl_flow_file_done(&file);
    return err;
}

/* `line` is the third of a file that is right up to there. */
static void refused(const char *why, const char *line, unsigned column,
                    const char *sentence, const char *hint)
{
    struct sl_diag diag;
    struct sl_str shown;
    char text[256];

    CASE(why);
    snprintf(text, sizeof(text), "flow f\npolicy p\n%s\nGET /", line);
    CHECK_EQ(read_text(sl_str_c(text), &diag, &shown), SLUICE_ECONF);
    CHECK_STR(diag.sentence, sentence);
    CHECK_STR(diag.hint, hint);
    CHECK_STR(diag.file, "a.flow");
    CHECK_EQ(diag.line, 3);
    CHECK_EQ(diag.column, column);
    CHECK(sl_str_eq(shown, sl_str_c(line)));
}

TEST(beginnings)
{
    refused("a slip in the first word", "get /x", 1,
            "no statement begins with \"get\"; write flow, policy, at, METHOD "
            "PATH, "
            "job, take, failed, settle, release, extend, subject, block, "
            "unblock, feature, "
            "backlog, store, reload, webhook, delivery or destination",
            "GET");
    refused("no path", "GET", 4, "missing argument; write METHOD PATH", "");
    refused("an input for a path", "GET user=ann", 5,
            "found \"user=ann\" where METHOD PATH is expected; quote it if "
            "that is intended",
            "");
    refused("no key", "take api -> 200", 9,
            "missing argument; write take LIMIT KEY", "");
}

TEST(inputs)
{
    refused("a slip in an input", "GET / usr=ann", 7,
            "unknown input \"usr\"; valid are user, org, plan, role, ip, "
            "header.NAME, token, cost, cost.LIMIT, hold, body, "
            "idempotency_key and every",
            "user=ann");
    refused("no input at all", "GET / ann", 7,
            "\"ann\" is not an input; write NAME=VALUE, or x8 to repeat eight "
            "times",
            "");
    refused("the same input twice", "GET / user=a user=b", 14,
            "user is given twice", "");
    refused("how often twice", "GET / x2 x3", 10,
            "the number of repeats is given twice", "");
    refused("no repeat", "GET / x0", 7,
            "a line can be repeated 1 to 10000000 times, not 0", "");
    refused("too many repeats", "GET / x10000001", 7,
            "a line can be repeated 1 to 10000000 times, not 10000001", "");
    refused("every without repeats", "GET / every=1s", 1,
            "every= needs a number of repeats, like x8", "");
    refused("a cost that is none", "GET / cost=-1", 12,
            "Expected digits for a count, not \"-1\"", "");
    refused("a duration without a unit", "GET / x2 every=1 -> 200", 17,
            "1 has no unit. Valid units: ns, us, ms, s, min, h, day or week",
            "1s");
}

TEST(times)
{
    refused("a time that is none", "at noon", 4,
            "Expected digits for a duration, not \"noon\"", "");
    refused("no time", "at", 3,
            "missing argument; write at TIME, like 12s, +500ms or "
            "2026-03-31T23:59:59Z",
            "");
    refused("a time beyond the end", "at 60000d", 4,
            "\"60000d\" is after the year 2115", "");
    refused("two times", "at 1s 2s", 7,
            "unexpected \"2s\"; write at TIME, like 12s, +500ms or "
            "2026-03-31T23:59:59Z, and quote values that contain spaces",
            "");
}

TEST(expectations)
{
    refused("an arrow to nowhere", "GET / ->", 7,
            "no expectation after the arrow; write one, or remove the arrow",
            "");
    refused("a slip in a word", "GET / -> alow", 10,
            "\"alow\" is not an expectation; write a status, allow, deny, "
            "never, ok or "
            "NAME=VALUE",
            "allow");
    refused("a word that is not the first", "GET / -> by=x deny", 15,
            "\"deny\" is not an expectation; write a status or a word first, "
            "then NAME=VALUE",
            "");
    refused("no status", "GET / -> 700", 10,
            "700 is not an HTTP status; write 100 to 599", "");
    refused("a slip in a field", "GET / -> retri=1s", 10,
            "unknown expectation \"retri\"; valid are by, limit, "
            "remaining, retry, reset, wait, quota, allowed, denied, tries, "
            "header.NAME and body.FIELD",
            "retry=1s");
    refused("the same field twice", "GET / -> by=a by=b", 15,
            "by is given twice", "");
    refused("a span that is a number", "GET / -> retry=12", 18,
            "12 has no unit. Valid units: ns, us, ms, s, min, h, day or week",
            "12s");
    refused("a number that is a span", "GET / -> limit=5s", 17,
            "Unknown suffix \"s\" of a count. Write k for a thousand or M for "
            "a million, directly after the digits",
            "");
}

static const char of_webhook[] =
    "for a webhook, expect a state (delivered, paced, retrying, held, "
    "disabled), deny, 202, 402, by, limit, remaining, retry, tries, allowed or "
    "denied; none is dead before its last attempt: write as=NAME, let 1h12m35s "
    "pass, and expect delivery NAME -> dead";

TEST(webhooks)
{
    static const char sentence[] =
        "for a delivery, expect a state (delivered, paced, retrying, held, "
        "dead, disabled), retry or tries";

    refused("a webhook without a URL", "webhook acme", 13,
            "missing argument; write webhook ORG URL", "");
    refused("an input for a URL", "webhook acme url=x", 14,
            "found \"url=x\" where webhook ORG URL is expected; quote it if "
            "that is intended",
            "");
    refused("an input that a webhook does not have",
            "webhook acme https://a.example?b=c plan=free", 36,
            "unexpected \"plan=free\"; write webhook ORG URL, and as=NAME or "
            "x8 every=TIME",
            "");
    refused("a delivery is not repeated", "delivery m x2", 12,
            "unexpected \"x2\"; write delivery NAME", "");
    refused("a status that is none", "destination https://a.example 99", 31,
            "write destination URL STATUS", "");
    refused("a status that ends nothing", "destination https://a.example 100",
            31, "write destination URL STATUS", "");
    refused("a destination answers nothing",
            "destination https://a.example 500 -> 500", 1,
            "destination has no answer to check; remove the expectations", "");
    refused("a state of a hold", "delivery m -> settled", 1, sentence, "");
    refused("a field of a request", "delivery m -> dead limit=1", 1, sentence,
            "");
    refused("a webhook is never settled", "webhook a https://b -> never", 1,
            of_webhook, "");
    refused("a webhook that is dead at once", "webhook a https://b -> dead", 1,
            of_webhook, "");
    refused("a state of a webhook", "GET / -> paced", 1,
            "\"paced\" is a state of a webhook; write allow, deny or never",
            "");
    refused("the attempts of a request", "GET / -> 200 tries=1", 1,
            "tries= is of webhooks", "");
    refused("a state of a hold, for a request", "GET / -> settled", 1,
            "\"settled\" is a state of a hold; write allow, deny or never", "");
    refused("a state of a webhook, for a hold", "release h -> paced", 1,
            "for a hold, expect ok, a state (settled, released, expired, "
            "held, unknown) or body.FIELD",
            "");
}

TEST(quotes)
{
    refused("a quote that stays open", "GET / user=\"ann", 12,
            "the quote is not closed on this line", "");
    refused("a quote that opens too late", "GET / user=a\"b\"", 13,
            "quote in the middle of a word; quote the whole value, and write "
            "\\\" for a quote in it",
            "");
    refused("a quote that closes too soon", "GET / user=\"a\"b", 15,
            "missing space after the closing quote", "");
    refused("an escape that is none", "GET / user=\"a\\nb\"", 14,
            "inside quotes, a backslash must be followed by a quote or a "
            "backslash; write \\\\ for a backslash",
            "");
}

TEST(acts)
{
    refused("a scope that has no subjects", "subject ip 1.2.3.4", 9,
            "write subject user|org ID plan=NAME", "");
    refused(
        "a word about a subject", "subject user ann pro", 18,
        "\"pro\" is not a setting of a subject; write plan=NAME, until=TIME, "
        "anchor=DATE, zone=ZONE or LIMIT=RATE",
        "");
    refused("an anchor that is no date", "subject org acme anchor=17", 25,
            "it is not a date since 1970; write the day on which a billing "
            "period begins, as 2026-11-17, or the instant, as "
            "2026-11-17T08:30:12Z",
            "");
    refused("a switch with a third position", "feature x maybe", 11,
            "write feature NAME on|off", "");
    refused("two words of a choice", "feature x on|off", 11,
            "write feature NAME on|off", "");
    refused("a store that does something else", "store sulks", 7,
            "write store fails|slow|heals", "");
    refused("a store with an input", "store fails user=ann", 13,
            "unexpected \"user=ann\"; write store fails|slow|heals", "");
    refused("an act that answers nothing", "feature x on -> 200", 1,
            "feature has no answer to check; remove the expectations", "");
    refused("a second policy", "policy q.yaml", 1,
            "the flow already has a policy", "");
    refused("a flow without a name", "flow", 5,
            "missing argument; write flow \"description\"", "");
}

static void refused_file(const char *why, const char *text, unsigned line,
                         unsigned column, const char *sentence)
{
    struct sl_diag diag;
    struct sl_str shown;

    CASE(why);
    CHECK_EQ(read_text(sl_str_c(text), &diag, &shown), SLUICE_ECONF);
    CHECK_STR(diag.sentence, sentence);
    CHECK_EQ(diag.line, line);
    CHECK_EQ(diag.column, column);
}

TEST(files)
{
    refused_file("nothing", "", 0, 0,
                 "the file has no flow; begin with flow \"description\"");
    refused_file(
        "an act before a flow", "policy p\nGET /\n", 2, 1,
        "this line is outside of a flow; write flow \"description\" before it");
    refused_file(
        "a flow without policy", "flow f\nGET /\n", 2, 1,
        "the flow has no policy; write policy PATH before its first request");
    refused_file("a flow without an act", "flow f\npolicy p\nat 1s\n", 1, 0,
                 "the flow \"f\" is empty");
    refused_file("a policy in the middle",
                 "flow f\npolicy p\nGET /\npolicy q\n", 4, 1,
                 "the policy line must come before the first request; use "
                 "reload to change the policy later");
    refused_file("two policies for all", "policy p\npolicy q\n", 2, 1,
                 "the flow already has a policy");
}

/* A file of `len` times `c` behind a good beginning. */
static struct sl_str stuffed(char *room, size_t len, char c)
{
    static const char good[] = "flow f\npolicy p\nGET / #";
    size_t head = strlen(good);

    memcpy(room, good, head);
    memset(room + head, c, len);
    return (struct sl_str){room, head + len};
}

TEST(bounds)
{
    char *room = malloc(SL_FLOW_BYTES + 100);
    struct sl_diag diag;
    struct sl_str line;

    if (!room)
        abort();
    CASE("a line of 4096 bytes");
    CHECK_EQ(read_text(stuffed(room, SL_FLOW_LINE - 7, 'x'), &diag, &line), 0);
    CHECK_EQ(read_text(stuffed(room, SL_FLOW_LINE - 6, 'x'), &diag, &line),
             SLUICE_ECONF);
    CHECK_STR(diag.sentence, "the line is longer than 4096 bytes");

    CASE("a file of 1 MB");
    CHECK_EQ(read_text(stuffed(room, SL_FLOW_BYTES - 23, '\n'), &diag, &line),
             0);
    CHECK_EQ(read_text(stuffed(room, SL_FLOW_BYTES - 22, '\n'), &diag, &line),
             SLUICE_ECONF);
    CHECK_STR(diag.sentence, "the file is larger than 1 MB; split it");

    CASE("a NUL");
    CHECK_EQ(read_text(SL_STR("flow f\npolicy p\nGET /\0x"), &diag, &line),
             SLUICE_ECONF);
    CHECK_STR(diag.sentence, "NUL byte found; a flow file must be text");
    CHECK_EQ(diag.column, 6);

    CASE("too many arguments");
    stuffed(room, 600, ' ');
    for (size_t i = 0; i < 300; i++)
        room[16 + 6 + 2 * i] = 'x';
    CHECK_EQ(read_text((struct sl_str){room, 622}, &diag, &line), SLUICE_ECONF);
    CHECK_STR(diag.sentence, "the line has more than 256 words");
    free(room);
}

CHECK_MAIN()
