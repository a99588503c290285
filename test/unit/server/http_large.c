/* http_large.c -- arrays of checks whose answer has no end. */
#include "asked.h"

#define MESSAGE ((size_t)60 << 10)
#define CHECKS  900

/* A denial says 60 KiB, twice. */
static char *long_policy(void)
{
    static char text[MESSAGE + 512];
    int len = snprintf(text, sizeof(text), "%s",
                       "sluice: 1\n"
                       "limits:\n"
                       "  a:\n"
                       "    kind: fixed-window\n"
                       "    per: user\n"
                       "    rate: 1/day\n"
                       "    deny: { message: \"");

    memset(text + len, 'm', MESSAGE);
    snprintf(text + len + MESSAGE, sizeof(text) - (size_t)len - MESSAGE,
             "\" }\ndefault: [a]\n");
    return text;
}

/* Many checks of somebody who has used his up, and one of `last`. */
static struct sl_str many(struct sl_buf *out, const char *last)
{
    CHECK_EQ(sl_buf_add(out, SL_STR("[")), 0);
    for (unsigned i = 0; i < CHECKS; i++)
        CHECK_EQ(sl_buf_add(out, SL_STR("{\"path\":\"/x\",\"user\":\"ann\"},")),
                 0);
    CHECK_EQ(sl_buf_addf(out, "{\"path\":\"/x\",\"user\":\"%s\"}]", last), 0);
    return sl_buf_str(out);
}

static unsigned count(struct sl_str text, const char *word)
{
    const char *at = text.at, *end = text.at + text.len;
    unsigned n = 0;

    while ((at = memmem(at, (size_t)(end - at), word, strlen(word))) != NULL) {
        n++;
        at++;
    }
    return n;
}

int main(void)
{
    struct asked a;
    struct sl_buf body;
    unsigned decided, left;

    asked_open(&a, long_policy());
    sl_buf_init(&body, 1 << 20, &sl_alloc_libc);
    CASE("an answer that becomes too large ends");
    CHECK_EQ(asked_check(&a, "{\"path\":\"/x\",\"user\":\"ann\"}"), 200);
    CHECK_EQ(asked_send(&a, "POST /v1/check", "", many(&body, "bob")), 200);
    decided = count(a.call->body, "\"by\":\"a\"");
    left = count(a.call->body, "\"code\":\"ANSWER_TOO_LARGE\"");
    CHECK(decided > 100 && left > 100);
    CHECK_EQ(decided + left, CHECKS + 1);
    CHECK(a.call->body.len > (48 << 20) && a.call->body.len < (64 << 20));
    CHECK(a.call->body.at[a.call->body.len - 1] == ']');
    CHECK_EQ(count(a.call->body, "{\"allowed\":true"), 0);

    CASE("and what was left has spent nothing");
    CHECK_EQ(asked_check(&a, "{\"path\":\"/x\",\"user\":\"bob\"}"), 200);
    CHECK_EQ(count(a.call->body, "{\"allowed\":true"), 1);

    CASE("one that fits is answered as ever");
    CHECK_EQ(asked_check(&a, "[{\"path\":\"/x\",\"user\":\"ann\"},"
                             "{\"path\":\"/x\",\"user\":\"eve\"}]"),
             200);
    CHECK_EQ(count(a.call->body, "{\"allowed\":true"), 1);
    CHECK_EQ(count(a.call->body, "ANSWER_TOO_LARGE"), 0);
    sl_buf_done(&body);
    asked_close(&a);
    return CHECK_DONE();
}
