/* blocks.c -- /v1/blocks of the admin listener.
 *
 * No request of a blocked subject passes, whatever its limits are.
 *
 *   POST    /v1/blocks/SCOPE/ID {"until": "2h", "note": "scraping"}: block it;
 *           without `until` it has no end. Replaces an earlier block
 *   DELETE  /v1/blocks/SCOPE/ID: end the block
 *   GET     /v1/blocks: list the blocks, up to LIST_MOST
 */
#include <stdio.h>
#include <string.h>

#include "base/timestamp.h"
#include "server/http/http_int.h"

#define LIST_MOST 10000
#define LIKE      "{\"until\":\"2h\",\"note\":\"scraping\"}"

struct block {
    struct sl_str until, note, by;
    sl_ns end;
};

#define BLOCK(name) offsetof(struct block, name)

static const struct sl_json_field fields[] = {
    SL_JSON_FIELD("until", BLOCK(until), sl_json_body_text),
    SL_JSON_FIELD("note", BLOCK(note), sl_json_body_text),
    SL_JSON_FIELD("by", BLOCK(by), sl_json_body_text),
};

static bool read_end(struct sl_reading *reading, struct block *b)
{
    b->end = SL_NS_NONE;
    if (b->until.len == 0)
        return true;
    if (!sl_reading_end(reading, "until", b->until, &b->end))
        return false;
    return b->end > reading->now ||
           SL_REFUSE(reading,
                     "\"until\": \"%.*s\" has passed; write a later time, or "
                     "leave it out for a block without an end",
                     SL_STR_ARG(b->until));
}

/* Reads the body. An empty one is a block without an end. */
static bool read_block(struct sl_reading *reading, struct block *b)
{
    struct sl_json_body *r = &reading->body;

    if (r->json.text.len > SL_ADMIN_BODY)
        return SL_REFUSE(reading,
                         "the body has more than %zu bytes; send " LIKE,
                         SL_ADMIN_BODY);
    if (r->json.text.len > 0 &&
        !sl_json_body_fields(r, fields, SL_LEN(fields),
                             ": a block may only have until, note and by; "
                             "send " LIKE,
                             b))
        return false;
    if (r->json.text.len > 0 && !sl_json_end(&r->json))
        return sl_json_body_broken(r);
    return read_end(reading, b) &&
           sl_reading_text(reading, "note", b->note, SL_SUBJECT_RECORD_NOTE) &&
           sl_reading_text(reading, "by", b->by, SL_SUBJECT_RECORD_BY);
}

static void answer_block(struct sl_http_job *op)
{
    struct sl_http_call *call = op->call;
    struct sl_writer w = {.out = &call->text};

    if (op->job.result == SL_JOB_NOT_FOUND) {
        sl_http_refuse(call, 404, "NO_SUCH_BLOCK",
                       "%.*s is not blocked; GET /v1/blocks lists the blocks",
                       SL_STR_ARG(call->rest));
        return;
    }
    sl_json_open(&w, '{');
    sl_json_member_str(&w, "scope", op->job.scope);
    sl_json_member_str(&w, "id", op->job.id);
    sl_json_key(&w, SL_STR("blocked"));
    sl_json_flag(&w, op->job.on);
    if (op->job.on)
        sl_json_member_time(&w, "until", op->job.since);
    sl_json_close(&w, '}');
    sl_admin_answer_json(call, w.err);
}

/* Returns a job for the subject in the path, or NULL after a refusal. */
static struct sl_http_job *begin(struct sl_http_call *call)
{
    struct sl_str tail;
    struct sl_http_job *op =
        sl_http_job_subject(call, SL_JOB_BLOCK, answer_block, &tail);

    if (op && tail.len > 0) {
        sl_http_refuse(call, 404, "NOT_FOUND",
                       "unknown path %.*s; write a slash in an id as %%2F",
                       SL_STR_ARG(call->path));
        return NULL;
    }
    return op;
}

/* Sends the job with its row of the audit. */
static void send_noted(struct sl_http_job *op, const char *what)
{
    struct sl_audit_note *note =
        sl_http_audit(op->call, what, op->job.scope, op->job.id);
    char end[SL_TIMESTAMP_TEXT], text[SL_TIMESTAMP_TEXT + 32];
    const char *copy;

    if (!note) {
        sl_http_no_memory(op->call);
        return;
    }
    if (op->job.on && op->job.since != SL_NS_NONE) {
        sl_timestamp_print(op->job.since, false, end);
        snprintf(text, sizeof(text), "{\"until\":\"%s\"}", end);
        copy = sl_arena_copy(&op->call->arena, sl_str_c(text));
        if (copy)
            note->after = sl_str_c(copy);
    }
    note->by = op->job.by;
    if (op->job.note.len > 0)
        note->note = op->job.note;
    else
        op->job.note = note->note;
    op->job.audit = note;
    sl_http_job_send(op);
}

void sl_block_set(struct sl_http_call *call)
{
    struct sl_http_job *op = begin(call);
    struct sl_reading reading = {
        .now = sl_http_now(call),
        .zone = sl_policy_date_zone(call->check.active->policy)};
    struct block block = {.end = SL_NS_NONE};

    if (!op)
        return;
    sl_json_body_begin(&reading.body, call, "block");
    if (!read_block(&reading, &block)) {
        sl_json_body_answer(&reading.body);
        return;
    }
    op->job.on = 1;
    op->job.since = block.end;
    op->job.by = sl_subject_by(call, block.by);
    op->job.note = block.note;
    send_noted(op, "block");
}

void sl_block_end(struct sl_http_call *call)
{
    struct sl_http_job *op = begin(call);

    if (!op)
        return;
    op->job.on = 0;
    op->job.by = sl_subject_by(call, SL_STR(""));
    send_noted(op, "unblock");
}

void sl_blocks_get(struct sl_http_call *call)
{
    struct sl_http_job *op =
        sl_http_job_new(call, SL_JOB_BLOCKS, sl_http_job_rows);

    if (!op)
        return;
    op->rows = "blocks";
    op->job.most = LIST_MOST;
    sl_http_job_send(op);
}
