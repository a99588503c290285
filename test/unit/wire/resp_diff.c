/* resp_diff.c -- replies as hiredis reads them.
 *
 * Replies are made up, whole and broken. Whatever our reader takes, hiredis
 * takes as well, with the same values; whatever hiredis refuses, ours does. It
 * is more lenient in a few things, which are listed in may_differ(). The
 * packaged hiredis knows version 2 only, and so do these replies.
 */
#include <hiredis/hiredis.h>

#include "check.h"
#include "resp_run.h"

#define ROUNDS 200000
#define DEPTH  5 /* hiredis 0.14 takes seven */

static uint64_t state = 88172645463325252u;

static uint32_t dice(uint32_t sides)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (uint32_t)(state >> 20) % sides;
}

/* ---- making replies ---- */

static int add_text(struct sl_buf *out, unsigned len)
{
    int err = 0;

    for (unsigned i = 0; i < len && !err; i++)
        err = sl_buf_addf(out, "%c", (int)('a' + dice(26)));
    return err;
}

static int add_integer(struct sl_buf *out)
{
    static const char *const edges[] = {"0",
                                        "-1",
                                        "9223372036854775807",
                                        "-9223372036854775808",
                                        "9223372036854775808",
                                        "-9223372036854775809",
                                        "01",
                                        "+1",
                                        "-0",
                                        "-",
                                        ""};

    return dice(2) ? sl_buf_addf(out, ":%s\r\n", edges[dice(SL_LEN(edges))])
                   : sl_buf_addf(out, ":%d\r\n", (int)dice(1000) - 500);
}

static int add_value(struct sl_buf *out, unsigned depth)
{
    unsigned count = dice(4);
    int err;

    switch (dice(depth < DEPTH ? 7 : 5)) {
    case 0:
        err = sl_buf_addf(out, "+");
        if (!err)
            err = add_text(out, dice(6));
        return err ? err : sl_buf_addf(out, "\r\n");
    case 1:
        return sl_buf_addf(out, "-ERR x\r\n");
    case 2:
        return add_integer(out);
    case 3:
        return sl_buf_addf(out, "%s", dice(2) ? "$-1\r\n" : "*-1\r\n");
    case 4:
        err = sl_buf_addf(out, "$%u\r\n", count);
        if (!err)
            err = add_text(out, count);
        return err ? err : sl_buf_addf(out, "\r\n");
    default:
        err = sl_buf_addf(out, "*%u\r\n", count);
        while (count-- > 0 && !err)
            err = add_value(out, depth + 1);
        return err;
    }
}

/* Put a wrong byte somewhere, or leave one out. */
static void spoil(struct sl_buf *text)
{
    static const char bytes[] = "\r\n+-:$*0129a ";
    size_t at = dice((uint32_t)text->len);

    if (dice(3) > 0) {
        text->bytes[at] = bytes[dice(sizeof(bytes) - 1)];
    } else {
        memmove(text->bytes + at, text->bytes + at + 1, text->len - at - 1);
        text->len--;
    }
}

/* ---- comparing ---- */

static bool is_same_text(const redisReply *r, struct sl_str text)
{
    return sl_str_eq((struct sl_str){r->str, (size_t)r->len}, text);
}

static bool is_same(const redisReply *r, struct sl_str *rest)
{
    struct sl_resp_value v = sl_resp_next(rest);

    switch (v.type) {
    case SL_RESP_SIMPLE:
        return r->type == REDIS_REPLY_STATUS && is_same_text(r, v.text);
    case SL_RESP_ERROR:
        return r->type == REDIS_REPLY_ERROR && is_same_text(r, v.text);
    case SL_RESP_STRING:
        return r->type == REDIS_REPLY_STRING && is_same_text(r, v.text);
    case SL_RESP_INTEGER:
        return r->type == REDIS_REPLY_INTEGER && r->integer == v.integer;
    case SL_RESP_NIL:
        return r->type == REDIS_REPLY_NIL;
    case SL_RESP_ARRAY:
        break;
    default:
        return false;
    }
    if (r->type != REDIS_REPLY_ARRAY || r->elements != v.count)
        return false;
    for (size_t i = 0; i < v.count; i++)
        if (!is_same(r->element[i], rest))
            return false;
    return true;
}

/* Where hiredis takes more than we do: a CR or LF inside of a line, lengths
 * and numbers of lenient spelling, and arrays whose values never come. */
static unsigned lenient, taken, refused;

static bool compare(struct sl_str text)
{
    redisReader *reader = redisReaderCreate();
    struct sl_resp_reply mine;
    struct resp_run run = run_reply(&mine, 4096, text, 1 + dice(20));
    void *theirs = NULL;
    bool good = true;
    int err;

    redisReaderFeed(reader, text.at, text.len);
    err = redisReaderGetReply(reader, &theirs);
    if (run.result == SL_RESP_DONE) {
        struct sl_str rest = {run.bytes, mine.used};

        taken++;
        good = err == REDIS_OK && theirs && is_same(theirs, &rest) &&
               rest.len == 0;
    } else if (err != REDIS_OK) {
        refused++;
        good = run.result == SL_RESP_REFUSED;
    } else if (theirs || run.result == SL_RESP_REFUSED) {
        lenient++;
        good = run.result == SL_RESP_REFUSED;
    }
    if (theirs)
        freeReplyObject(theirs);
    redisReaderFree(reader);
    free(run.bytes);
    return good;
}

int main(void)
{
    struct sl_buf text;

    sl_buf_init(&text, 1 << 20, &sl_alloc_libc);
    CASE("what we take hiredis takes alike, what it refuses we refuse");
    for (unsigned i = 0; i < ROUNDS; i++) {
        sl_buf_clear(&text);
        CHECK_EQ(add_value(&text, 0), 0);
        if (dice(2) && text.len > 1)
            spoil(&text);
        if (!compare(sl_buf_str(&text))) {
            CHECK_EQ(sl_buf_add(&text, (struct sl_str){"", 1}), 0);
            CHECK_STR(text.bytes, "");
            break;
        }
    }
    printf("# %u taken, %u refused by both, %u by us alone\n", taken, refused,
           lenient);

    CASE("of each there were many");
    CHECK(taken > ROUNDS / 4 && refused > ROUNDS / 50);
    sl_buf_done(&text);
    return CHECK_DONE();
}
