/* codecs.c -- HTTP/1.1 and the Redis protocol, as the load generator reads
 * them: only the end of a reply is looked for.
 */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "load/load.h"
#include "wire/resp.h"

#define REPLY_BYTES ((size_t)1 << 20)

static void nothing(struct conn *c)
{
    (void)c;
}

static void put(struct conn *c, struct sl_str request)
{
    if (sl_buf_add(&c->out, request))
        die("there is no memory");
}

/* ---- http ---- */

/* The length of the reply with this head. */
static size_t http_length(const char *head, size_t len)
{
    static const char name[] = "\r\ncontent-length:";

    for (size_t i = 0; i + sizeof(name) < len; i++)
        if (strncasecmp(head + i, name, sizeof(name) - 1) == 0)
            return len + strtoul(head + i + sizeof(name) - 1, NULL, 10);
    die("a reply has no length: %.*s", (int)len, head);
}

static void http_feed(struct conn *c)
{
    while (c->open > 0 && c->in.len > 0) {
        if (c->need == 0) {
            const char *end = memmem(c->in.bytes, c->in.len, "\r\n\r\n", 4);

            if (!end)
                return;
            c->need = http_length(c->in.bytes, (size_t)(end + 4 - c->in.bytes));
        }
        if (c->in.len < c->need)
            return;
        on_reply(c, (struct sl_str){c->in.bytes, c->need});
        sl_buf_drop(&c->in, c->need);
        c->need = 0;
    }
}

const struct codec codec_http = {nothing, nothing, put, http_feed, false};

/* ---- resp ---- */

static void resp_feed(struct conn *c)
{
    struct sl_resp_reply reply;
    size_t used = 0;

    while (c->open > 0 && used < c->in.len) {
        struct sl_str rest = {c->in.bytes + used, c->in.len - used};
        enum sl_resp_result result;

        sl_resp_reply_begin(&reply, REPLY_BYTES);
        result = sl_resp_reply_read(&reply, rest);
        if (result == SL_RESP_REFUSED || rest.at[0] == '-')
            die("an error: %.*s", rest.len < 99 ? (int)rest.len : 99, rest.at);
        if (result == SL_RESP_MORE)
            break;
        on_reply(c, (struct sl_str){rest.at, reply.used});
        used += reply.used;
    }
    sl_buf_drop(&c->in, used);
}

const struct codec codec_resp = {nothing, nothing, put, resp_feed, false};
