/* fuzz_resp.c -- commands and replies of any bytes, cut anywhere.
 *
 * The first byte chooses the reader, and how the bytes are cut.
 *
 *   (1) What a reader says does not depend on the cuts.
 *   (2) Slices lie inside of what was used.
 *   (3) A refusal says why, and stays one.
 *   (4) A command that was read and written again is read as the same.
 *   (5) A walk over a reply ends where the reader ended, with no more
 *       values than bytes.
 *   (6) A reader that asks for more has room for it.
 */
#include "fuzz.h"

#include "resp_run.h"

static void must_be_inside(struct sl_str s, const char *bytes, size_t used)
{
    MUST(s.at >= bytes && s.at + s.len <= bytes + used); /* (2) */
}

static void must_be_same(const struct sl_resp_command *a,
                         const struct sl_resp_command *b)
{
    MUST(a->count == b->count);
    for (unsigned i = 0; i < a->count; i++)
        MUST(sl_str_eq(a->args[i], b->args[i]));
}

/* (4) */
static void must_repeat(const struct sl_resp_command *c)
{
    struct sl_resp_command again;
    struct sl_buf out;

    if (c->count == 0)
        return;
    sl_buf_init(&out, 4 << 20, &sl_alloc_libc);
    MUST(sl_resp_command_write(&out, c->args, c->count) == 0);
    sl_resp_command_begin(&again);
    if (out.len <= SL_RESP_COMMAND) {
        MUST(sl_resp_command_read(&again, out.bytes, out.len) == SL_RESP_DONE);
        MUST(again.used == out.len);
        must_be_same(c, &again);
    }
    sl_buf_done(&out);
}

static void must_hold_command(struct sl_resp_command *c,
                              const struct resp_run *run)
{
    if (run->result == SL_RESP_REFUSED) {
        MUST(c->why && c->why[0]); /* (3) */
        MUST(sl_resp_command_read(c, run->bytes, run->len) == SL_RESP_REFUSED);
    } else if (run->result == SL_RESP_MORE) {
        MUST(run->len < SL_RESP_COMMAND); /* (6) */
    } else {
        MUST(c->count <= SL_RESP_ARGS && c->used <= run->len);
        for (unsigned i = 0; i < c->count; i++)
            must_be_inside(c->args[i], run->bytes, c->used);
        must_repeat(c);
    }
}

static void try_command(struct sl_str text, size_t step)
{
    struct sl_resp_command whole, cut;
    struct resp_run a = run_command(&whole, text, text.len);
    struct resp_run b = run_command(&cut, text, step);

    MUST(a.result == b.result); /* (1) */
    if (a.result == SL_RESP_DONE) {
        MUST(whole.used == cut.used);
        must_be_same(&whole, &cut);
    }
    must_hold_command(&whole, &a);
    must_hold_command(&cut, &b);
    free(a.bytes);
    free(b.bytes);
}

/* (5) */
static void must_walk(struct sl_str reply)
{
    struct sl_str skipped = reply, rest = reply;
    size_t values = 0;

    sl_resp_skip(&skipped);
    MUST(skipped.len == 0);
    for (; rest.len > 0; values++) {
        struct sl_resp_value v = sl_resp_next(&rest);

        if (v.text.len > 0)
            must_be_inside(v.text, reply.at, reply.len);
    }
    MUST(values * 3 <= reply.len);
}

static void try_reply(struct sl_str text, size_t step, size_t most)
{
    struct sl_resp_reply whole, cut;
    struct resp_run a = run_reply(&whole, most, text, text.len);
    struct resp_run b = run_reply(&cut, most, text, step);

    MUST(a.result == b.result); /* (1) */
    if (a.result == SL_RESP_DONE) {
        MUST(whole.used == cut.used && whole.used <= most);
        must_walk((struct sl_str){a.bytes, whole.used});
    } else if (a.result == SL_RESP_REFUSED) {
        MUST(whole.why && cut.why); /* (3) */
    } else {
        MUST(text.len < most); /* (6) */
    }
    free(a.bytes);
    free(b.bytes);
}

void fuzz_resp(struct sl_str text, unsigned choice)
{
    size_t step = 1 + (choice >> 2 & 15);

    if (text.len == 0)
        return;
    if (choice & 1)
        try_command(text, step);
    else
        try_reply(text, step, choice & 2 ? 64 : SL_RESP_REPLY);
}
