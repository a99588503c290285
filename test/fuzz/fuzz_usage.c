/* fuzz_usage.c -- reports and imports of usage, ids in the usage database, and
 * cursors of exports.
 *
 * The first byte says which: a body of POST /v1/usage, the text of an id, a
 * cursor, or a body of POST /v1/usage/import.
 *
 *   (1) A body is read, or it is refused with a status and a sentence.
 *   (2) What was read is within its bounds: a limit of the policy, a value for
 *       each that it is kept per, an amount, texts of so many bytes.
 *   (3) What was read is JSON for jansson too.
 *   (4) An id that can be split joins again to something that splits alike.
 *   (5) A cursor that was read is within its bounds.
 *   (6) Rows of an import are quotas or levels, with a line that is there.
 */
#include "engine.h"

#include <jansson.h>

#include "server/http/http_int.h"

static const char policy_text[] =
    "sluice: 1\n"
    "limits:\n"
    "  minutes: { kind: quota, per: org, rate: 3/month }\n"
    "  words: { kind: quota, per: [org, user], rate: 3/month }\n"
    "  links: { kind: level, per: org, rate: 4 }\n"
    "  slots: { kind: concurrency, per: org, rate: 4 }\n"
    "default: [minutes]\n";

static struct sl_engine *engine;

static void must_be_bounded(const struct sl_usage_report_item *use)
{
    MUST(use->rule && use->rule->kind != SL_PERMITS);
    MUST(use->amount <= SL_AMOUNT_MAX);
    MUST(use->key.len <= SL_USAGE_KEY && use->name.len <= SL_USAGE_KEY);
    MUST(use->request.key_count == use->rule->per_count);
    for (unsigned i = 0; i < use->request.key_count; i++)
        MUST(use->keys[i].len > 0 && use->keys[i].len <= SL_VALUE_MAX);
}

static void must_be_import(const struct sl_usage_report_items *uses,
                           struct sl_str body)
{
    unsigned lines = 1;

    for (size_t i = 0; i < body.len; i++)
        lines += body.at[i] == '\n';
    for (unsigned i = 0; i < uses->count; i++) {
        const struct sl_usage_report_item *use = &uses->list[i];

        must_be_bounded(use);
        MUST(use->rule->kind == SL_QUOTA || use->rule->kind == SL_LEVEL);
        MUST(use->line >= 1 && use->line <= lines);
        MUST(i == 0 || use->line > use[-1].line);
    }
}

static void read_body(struct sl_str body, bool is_import)
{
    static const struct sl_server server = {.protocol = &sl_protocol_http,
                                            .name = "http"};
    struct sl_http1 request = {.body = body};
    struct sl_usage_report_items uses;
    struct sl_server_worker worker;
    struct sl_http_call *call;
    json_t *root;

    sl_server_worker_init(&worker, &server, engine, NULL, NULL);
    call = sl_http_call_new(&worker);
    MUST(call != NULL);
    call->request = &request;
    call->status = 200;
    (void)sl_check_ref_policy(&call->check);
    if (is_import && sl_usage_import_read(call, &uses)) {
        must_be_import(&uses, body);
    } else if (!is_import && sl_uses_read(call, &uses)) {
        for (unsigned i = 0; i < uses.count; i++)
            must_be_bounded(&uses.list[i]);
        root = json_loadb(body.at, body.len, JSON_REJECT_DUPLICATES, NULL);
        MUST(root != NULL);
        json_decref(root);
    } else {
        MUST(call->status >= 400 && call->body.len > 0);
    }
    sl_http_call_done(call);
    sl_server_worker_close(&worker);
}

static void read_id(struct sl_str text)
{
    struct sl_str once[SL_PER_MAX], twice[SL_PER_MAX];
    char copy[SL_USAGE_ID], again[3 * SL_USAGE_ID];
    unsigned count = text.len > 0 ? (unsigned)text.at[0] % SL_PER_MAX + 1 : 1;
    struct sl_buf out;

    text = sl_str_from(text, 1);
    if (text.len > sizeof(copy))
        return;
    memcpy(copy, text.len ? text.at : "", text.len);
    if (!sl_usage_split(copy, text.len, count, once))
        return;
    sl_buf_init(&out, sizeof(again), &sl_alloc_libc);
    if (sl_usage_join(once, count, &out)) {
        memcpy(again, out.len ? out.bytes : "", out.len);
        MUST(sl_usage_split(again, out.len, count, twice));
        for (unsigned i = 0; i < count; i++)
            MUST(sl_str_eq(once[i], twice[i]));
    }
    sl_buf_done(&out);
}

static void read_cursor(struct sl_str text)
{
    struct sl_usage_export e = {.number = 0};
    char copy[4096];

    if (text.len > sizeof(copy))
        return;
    memcpy(copy, text.len ? text.at : "", text.len);
    if (!sl_export_cursor_read(copy, text.len, &e))
        return;
    MUST(e.number > 0 && e.from > 0 && e.to >= 0 && e.after.day >= 0);
    MUST(e.after.start >= 0 && e.after.id.len <= SL_USAGE_ID);
    MUST(e.after.limit.len + e.after.scope.len + e.after.id.len <= text.len);
}

void fuzz_usage(struct sl_str rest, unsigned choice)
{
    if (!engine)
        engine = fuzz_engine(policy_text);
    if (choice % 4 == 1)
        read_id(rest);
    else if (choice % 4 == 2)
        read_cursor(rest);
    else
        read_body(rest, choice % 4 == 3);
}
