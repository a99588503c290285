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
            "no line begins with \"get\"; write flow, policy, at, METHOD PATH, "
            "job, take, settle, release, extend, subject, feature, "
            "backlog, store or reload",
            "GET");
    refused("no path", "GET", 4, "something is missing; write METHOD PATH", "");
    refused("an input for a path", "GET user=ann", 5,
            "\"user=ann\" stands where METHOD PATH is expected; quote it if it "
            "is meant",
            "");
    refused("no key", "take api -> 200", 9,
            "something is missing; write take LIMIT KEY", "");
}

TEST(inputs)
{
    refused("a slip in an input", "GET / usr=ann", 7,
            "no input is called \"usr\"; there are user, org, plan, role, ip, "
            "header.NAME, token, cost, cost.LIMIT, hold, body, "
            "idempotency_key and every",
            "user=ann");
    refused("no input at all", "GET / ann", 7,
            "\"ann\" is no input; write NAME=VALUE, or x8 for eight times", "");
    refused("the same input twice", "GET / user=a user=b", 14,
            "user is given twice", "");
    refused("how often twice", "GET / x2 x3", 10, "how often is given twice",
            "");
    refused("no repeat", "GET / x0", 7,
            "an act is repeated 1 to 10000000 times, not 0", "");
    refused("too many repeats", "GET / x10000001", 7,
            "an act is repeated 1 to 10000000 times, not 10000001", "");
    refused("every without repeats", "GET / every=1s", 1,
            "every= is between repeats; write how many, like x8", "");
    refused("a cost that is none", "GET / cost=-1", 12,
            "a count needs digits, not \"-1\"", "");
    refused("a duration without a unit", "GET / x2 every=1 -> 200", 17,
            "1 needs a unit; write ns, us, ms, s, min, h, day or week", "1s");
}

TEST(times)
{
    refused("a time that is none", "at noon", 4,
            "a duration needs digits, not \"noon\"", "");
    refused("no time", "at", 3,
            "something is missing; write at TIME, like 12s, +500ms or "
            "2026-03-31T23:59:59Z",
            "");
    refused("a time beyond the end", "at 60000d", 4,
            "\"60000d\" is beyond the year 2115", "");
    refused("two times", "at 1s 2s", 7,
            "\"2s\" is one too many; write at TIME, like 12s, +500ms or "
            "2026-03-31T23:59:59Z, in quotes if it has blanks",
            "");
}

TEST(expectations)
{
    refused("an arrow to nowhere", "GET / ->", 7,
            "nothing is expected behind the arrow; write what, or leave the "
            "arrow away",
            "");
    refused("a slip in a word", "GET / -> alow", 10,
            "\"alow\" is neither a status nor allow, deny, never or ok, nor "
            "NAME=VALUE",
            "allow");
    refused("a word that is not the first", "GET / -> by=x deny", 15,
            "\"deny\" is no expectation; a status or a word comes first, and "
            "behind it NAME=VALUE",
            "");
    refused("no status", "GET / -> 700", 10,
            "700 is no status; they go from 100 to 599", "");
    refused("a slip in a field", "GET / -> retri=1s", 10,
            "no expectation is called \"retri\"; there are by, limit, "
            "remaining, retry, reset, wait, quota, allowed, denied, "
            "header.NAME and body.FIELD",
            "retry=1s");
    refused("the same field twice", "GET / -> by=a by=b", 15,
            "by is given twice", "");
    refused("a span that is a number", "GET / -> retry=12", 18,
            "12 needs a unit; write ns, us, ms, s, min, h, day or week", "12s");
    refused("a number that is a span", "GET / -> limit=5s", 17,
            "\"s\" is no suffix of a count; write k for a thousand or M for a "
            "million, right behind the digits",
            "");
}

TEST(quotes)
{
    refused("a quote that stays open", "GET / user=\"ann", 12,
            "the quote is not closed on this line", "");
    refused("a quote that opens too late", "GET / user=a\"b\"", 13,
            "a quote in the middle of a word; quote the whole value, and write "
            "\\\" for a quote in it",
            "");
    refused("a quote that closes too soon", "GET / user=\"a\"b", 15,
            "a blank is missing behind the closing quote", "");
    refused("an escape that is none", "GET / user=\"a\\nb\"", 14,
            "a backslash in quotes stands before a quote or a backslash; write "
            "\\\\ for one of its own",
            "");
}

TEST(acts)
{
    refused("a scope that has no subjects", "subject ip 1.2.3.4", 9,
            "write subject user|org ID plan=NAME", "");
    refused("a word about a subject", "subject user ann pro", 18,
            "\"pro\" says nothing about a subject; write plan=NAME, until=TIME "
            "or LIMIT=RATE",
            "");
    refused("a switch with a third position", "feature x maybe", 11,
            "write feature NAME on|off", "");
    refused("a store that does something else", "store sulks", 7,
            "write store fails|slow|heals", "");
    refused("a store with an input", "store fails user=ann", 13,
            "\"user=ann\" is one too many; write store fails|slow|heals", "");
    refused("an act that answers nothing", "feature x on -> 200", 1,
            "feature answers nothing that can be checked; leave the "
            "expectations away",
            "");
    refused("a second policy", "policy q.yaml", 1, "there is a policy already",
            "");
    refused("a flow without a name", "flow", 5,
            "something is missing; write flow \"what is shown\"", "");
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
    refused_file(
        "nothing", "", 0, 0,
        "there is no flow in the file; begin one with flow \"what is shown\"");
    refused_file(
        "an act before a flow", "policy p\nGET /\n", 2, 1,
        "an act outside of a flow; write flow \"what is shown\" before it");
    refused_file(
        "a flow without policy", "flow f\nGET /\n", 2, 1,
        "the flow has no policy; write policy PATH before its first act");
    refused_file("a flow without an act", "flow f\npolicy p\nat 1s\n", 1, 0,
                 "the flow \"f\" does nothing");
    refused_file("a policy in the middle",
                 "flow f\npolicy p\nGET /\npolicy q\n", 4, 1,
                 "the policy comes before the first act; write reload to "
                 "change it in the middle");
    refused_file("two policies for all", "policy p\npolicy q\n", 2, 1,
                 "there is a policy already");
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
    CHECK_STR(diag.sentence, "the line has more than 4096 bytes");

    CASE("a file of 1 MB");
    CHECK_EQ(read_text(stuffed(room, SL_FLOW_BYTES - 23, '\n'), &diag, &line),
             0);
    CHECK_EQ(read_text(stuffed(room, SL_FLOW_BYTES - 22, '\n'), &diag, &line),
             SLUICE_ECONF);
    CHECK_STR(diag.sentence, "the file has more than 1 MB; split it");

    CASE("a NUL");
    CHECK_EQ(read_text(SL_STR("flow f\npolicy p\nGET /\0x"), &diag, &line),
             SLUICE_ECONF);
    CHECK_STR(diag.sentence, "a NUL byte; a flow file is text");
    CHECK_EQ(diag.column, 6);

    CASE("too many words");
    stuffed(room, 600, ' ');
    for (size_t i = 0; i < 300; i++)
        room[16 + 6 + 2 * i] = 'x';
    CHECK_EQ(read_text((struct sl_str){room, 622}, &diag, &line), SLUICE_ECONF);
    CHECK_STR(diag.sentence, "the line has more than 256 words");
    free(room);
}

CHECK_MAIN()
