/* fuzz_http1.c -- requests of any bytes, cut anywhere.
 *
 * The first byte chooses how it is cut and how much is allowed.
 *
 *   (1) What the reader says does not depend on the cuts.
 *   (2) Nothing beyond the buffer is read, and slices lie inside it.
 *   (3) What follows a request is as it was sent.
 *   (4) A refusal has a status and says why; it stays one.
 *   (5) A reader that asks for more has room for it.
 *   (6) An answer that repeats what was read has as many fields as were put
 *       in, and no more lines.
 */
#include "fuzz.h"

#include "http1_run.h"

static const struct sl_http1_limits choices[] = {
    {8 << 10, 16 << 10, 1 << 20},
    {8 << 10, 16 << 10, 1 << 20},
    {64,      128,      16     },
    {20,      50,       0      },
};

static void must_be_inside(const struct run *run, struct sl_str slice)
{
    const char *end = run->in.bytes + run->http1.used;

    MUST(slice.at == NULL ||
         (slice.at >= run->in.bytes && slice.at + slice.len <= end));
    MUST(slice.at || slice.len == 0);
}

static void must_be_whole(const struct run *run)
{
    const struct sl_http1 *p = &run->http1;

    MUST(p->used <= run->in.len);
    must_be_inside(run, p->method);
    must_be_inside(run, p->target);
    must_be_inside(run, p->host);
    must_be_inside(run, p->body);
    MUST(p->field_count <= SL_HTTP1_FIELDS);
    for (unsigned i = 0; i < p->field_count; i++) {
        must_be_inside(run, p->fields[i].name);
        must_be_inside(run, p->fields[i].value);
    }
    MUST(p->method.len > 0 && p->method.len <= 32);
    MUST(p->target.at[0] == '/' || p->target.at[0] == '*');
    MUST(p->body.len <= p->limits.body);
    MUST(!p->expect_continue);
}

static void must_answer(struct run *run)
{
    struct sl_http1 *p = &run->http1;
    struct sl_http1_answer answer = {
        .status = 200,
        .fields = p->fields,
        .field_count = p->field_count,
        .content_type = p->target,
        .body = p->body,
        .date = p->method,
        .minor = 1,
    };
    unsigned lines = 0, framing = 0;
    struct sl_buf out;

    sl_buf_init(&out, 4 << 20, &sl_alloc_libc);
    MUST(sl_http1_write(&out, &answer) == 0);
    for (size_t i = 0; i + p->body.len < out.len; i++)
        lines += out.bytes[i] == '\n';
    for (unsigned i = 0; i < p->field_count; i++)
        framing +=
            sl_str_eq_nocase(p->fields[i].name, SL_STR("content-length")) ||
            sl_str_eq_nocase(p->fields[i].name, SL_STR("connection")) ||
            sl_str_eq_nocase(p->fields[i].name, SL_STR("transfer-encoding"));
    MUST(lines == 6 + p->field_count - framing); /* (6) */
    sl_buf_done(&out);
}

static void must_hold(struct run *run, struct sl_str text)
{
    const struct sl_http1 *p = &run->http1;

    if (run->result == SL_HTTP1_DONE) {
        must_be_whole(run);           /* (2) */
        MUST(run_rest_is(run, text)); /* (3) */
        must_answer(run);
    } else if (run->result == SL_HTTP1_REFUSED) {
        MUST(p->status >= 400 && p->status < 600 && p->why); /* (4) */
        MUST(sl_http1_read(&run->http1, &run->in) == SL_HTTP1_REFUSED);
    } else {
        MUST(run->in.len < SL_HTTP1_CEILING(p->limits)); /* (5) */
    }
}

void fuzz_http1(struct sl_str text, unsigned choice)
{
    const struct sl_http1_limits *limits;
    struct run whole, cut;
    uint8_t cuts[3];

    limits = &choices[choice & 3];
    cuts[0] = (uint8_t)(1 + (choice >> 2 & 3));
    cuts[1] = (uint8_t)(1 + (choice >> 4 & 3) * 9);
    cuts[2] = (uint8_t)(1 + (choice >> 6 & 3) * 50);

    run_cut(&whole, text, limits, NULL, 0);
    must_hold(&whole, text);
    for (size_t count = 1; count <= 3; count += 2) {
        run_cut(&cut, text, limits, cuts, count);
        must_hold(&cut, text);
        MUST(run_differ(&whole, &cut) == NULL); /* (1) */
        run_done(&cut);
    }
    run_done(&whole);
}
