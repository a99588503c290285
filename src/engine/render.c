/* render.c -- a decision as status, headers and body.
 *
 * The way of an allowed decision is short: one piece of the arena, written
 * from front to back. A denial adds a body, in a buffer that grows inside the
 * arena.
 */
#include "engine/render.h"

#include "engine/render/head.h"
#include "engine/render/message.h"

#define BODY_MAX ((size_t)16 * 1024 * 1024)

/* Most bodies fit, and so nothing of the arena is outgrown. */
#define BODY_USUAL 512

/* Memory for a buffer from an arena: what is outgrown dies with the rest. */
static void *arena_resize(void *ctx, void *old, size_t old_size,
                          size_t new_size)
{
    void *fresh;

    if (new_size == 0)
        return NULL;
    fresh = sl_arena_take(ctx, new_size);
    if (fresh && old_size > 0)
        memcpy(fresh, old, old_size < new_size ? old_size : new_size);
    return fresh;
}

static int render_body(const struct sl_decision *decision,
                       struct sl_arena *arena, struct sl_str *ret)
{
    struct sl_alloc alloc = {.resize = arena_resize, .ctx = arena};
    struct sl_buf out;
    int err;

    sl_buf_init(&out, BODY_MAX, &alloc);
    err = sl_buf_reserve(&out, BODY_USUAL);
    if (!err)
        err = sl_message_body_write(decision, &out);
    if (!err)
        err = sl_buf_add(&out, (struct sl_str){"", 1}); /* a NUL */
    if (!err)
        *ret = (struct sl_str){out.bytes, out.len - 1};
    return err;
}

static int render_head(const struct sl_decision *decision,
                       struct sl_arena *arena, struct sl_header_writer *head)
{
    size_t room = sl_headers_room(decision);

    head->count = 0;
    head->seen = 0;
    head->full = false;
    head->at = sl_arena_take(arena, room);
    if (!head->at)
        return SLUICE_ENOMEM;
    head->end = head->at + room;
    sl_headers_write(head, decision);
    return head->full ? SLUICE_EFULL : 0;
}

static struct sl_str content_type(const struct sl_decision *decision)
{
    return sl_decision_form(decision)->has_body
               ? SL_STR("application/json")
               : SL_STR("application/problem+json");
}

int sl_render(const struct sl_decision *decision, struct sl_arena *arena,
              struct sl_rendered *ret)
{
    bool denied = !decision->allowed;
    struct sl_str body = {"", 0};
    struct sl_header_writer head;
    int err = render_head(decision, arena, &head);

    if (!err && denied)
        err = render_body(decision, arena, &body);
    if (err)
        return err;
    ret->status = sl_decision_status(decision);
    ret->header_count = head.count;
    memcpy(ret->headers, head.list, head.count * sizeof(head.list[0]));
    ret->content_type = denied ? content_type(decision) : SL_STR("");
    ret->body = body;
    return 0;
}
