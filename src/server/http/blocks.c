/* blocks.c -- /v1/blocks of the admin listener.
 *
 * No request of a blocked user, organisation, address or network passes,
 * whatever its limits are.
 *
 *   POST    /v1/blocks/SCOPE/ID {"until": "2h", "note": "scraping"}: block it;
 *           without `until` it has no end. Replaces an earlier block. An ID of
 *           the scope `ip` is an address or a network
 *   DELETE  /v1/blocks/SCOPE/ID: end the block, and those by the penalties of
 *           limits per SCOPE, which may be any scope of the policy
 *   GET     /v1/blocks: list the blocks, up to LIST_MOST
 */
#include <stdio.h>
#include <string.h>

#include "base/ip.h"
#include "base/timestamp.h"
#include "engine/engine_int.h"
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
    if (!b->until.at)
        return true;
    if (b->until.len == 0)
        return SL_REFUSE(
            reading, "\"until\" is empty; write a time such as 2h, or leave "
                     "it out for a block without an end");
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

    if (op->job.result == SL_JOB_CONFLICT) {
        sl_http_refuse(call, 409, "CONFLICT", "%s", op->job.diag.sentence);
        return;
    }
    sl_json_open(&w, '{');
    sl_json_member_str(&w, "scope", op->job.scope);
    sl_json_member_str(&w, "id", op->job.id);
    sl_writer_add(&w, SL_STR(",\"blocked\":true"));
    sl_json_member_time(&w, "until", op->job.since);
    sl_json_close(&w, '}');
    sl_admin_answer_json(call, w.err);
}

/* Reads the address or the network in the path: its slash may be written as it
 * is. Returns false after a refusal. */
static bool read_net(struct sl_http_call *call, struct sl_str text,
                     struct sl_str *ret_id)
{
    struct sl_str address;
    struct sl_net net;
    char id[SL_NET_TEXT];
    const char *copy;

    if (sl_admin_decode(&call->arena, text, false, &address) ||
        !sl_identify_net(call->check.active->policy, address, &net))
        return sl_http_refuse(call, 400, "BAD_PATH",
                              "\"%.*s\" is not an IP address or a network; "
                              "write 203.0.113.7 or 203.0.113.0/24",
                              SL_STR_ARG(text));
    sl_net_print(&net, id);
    copy = sl_arena_copy(&call->arena, sl_str_c(id));
    if (!copy)
        return sl_http_no_memory(call);
    *ret_id = sl_str_c(copy);
    return true;
}

/* Returns a job for what the path names, or NULL after a refusal. */
static struct sl_http_job *begin(struct sl_http_call *call,
                                 void (*answer)(struct sl_http_job *op))
{
    struct sl_str tail = call->rest;
    struct sl_http_job *op;

    if (sl_str_eq(sl_admin_cut(&tail, '/'), SL_IP_SCOPE)) {
        op = sl_http_job_new(call, SL_JOB_BLOCK, answer);
        if (op)
            op->job.scope = SL_IP_SCOPE;
        return op && read_net(call, tail, &op->job.id) ? op : NULL;
    }
    op = sl_http_job_subject(call, SL_JOB_BLOCK, answer, &tail);
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
    struct sl_http_job *op = begin(call, answer_block);
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

/* ---- unblock ---- */

struct unblock {
    struct sl_http_call *call;
    struct sl_http_job *op; /* ends the block by an operator; NULL: there is no
                             * registry, or the scope has no such blocks */
    struct sl_str scope, id;
    struct sl_request request;
    unsigned next; /* the rule that is asked next */
    unsigned ended;
    struct sl_str *names; /* of the limits whose penalty has ended */
};

/* Has the limit a penalty whose keys may be of this scope? Anonymous callers of
 * a limit per user are of other scopes. */
static bool is_of(const struct unblock *u, const struct sl_rule *rule)
{
    const struct sl_identity *identity =
        &u->call->check.active->policy->identity;

    return rule->penalty_rule && rule->per_count == 1 &&
           (sl_str_eq(u->scope, identity->scope_names[rule->per[0]]) ||
            (rule->per[0] == SL_SCOPE_USER &&
             (sl_str_eq(u->scope, SL_STR("ip")) ||
              sl_str_eq(u->scope, SL_STR("anon")))));
}

/* The next limit to ask, or NULL. */
static const struct sl_rule *next_rule(struct unblock *u)
{
    const struct sl_policy *policy = u->call->check.active->policy;

    while (u->next < policy->rule_count && !is_of(u, &policy->rules[u->next]))
        u->next++;
    return u->next < policy->rule_count ? &policy->rules[u->next] : NULL;
}

static void write_unblocked(struct unblock *u)
{
    struct sl_http_call *call = u->call;
    struct sl_writer w = {.out = &call->text};

    if (u->ended == 0 && (!u->op || u->op->job.result == SL_JOB_NOT_FOUND)) {
        sl_http_refuse(call, 404, "NO_SUCH_BLOCK",
                       "%.*s is not blocked; GET /v1/blocks lists the blocks",
                       SL_STR_ARG(call->rest));
        return;
    }
    sl_json_open(&w, '{');
    sl_json_member_str(&w, "scope", u->scope);
    sl_json_member_str(&w, "id", u->id);
    sl_json_key(&w, SL_STR("blocked"));
    sl_json_flag(&w, false);
    if (u->ended > 0 && u->op && u->op->job.result != SL_JOB_NOT_FOUND) {
        sl_json_key(&w, SL_STR("operator"));
        sl_json_flag(&w, true);
    }
    if (u->ended > 0) {
        sl_json_key(&w, SL_STR("penalties"));
        sl_json_open(&w, '[');
        for (unsigned i = 0; i < u->ended; i++)
            sl_json_str(&w, u->names[i]);
        sl_json_close(&w, ']');
    }
    sl_json_close(&w, '}');
    sl_admin_answer_json(call, w.err);
}

static void note_penalties(const struct unblock *u)
{
    sl_http_audit_send(u->call,
                       sl_http_audit(u->call, "unblock", u->scope, u->id));
}

static void answer_unblock(struct sl_http_job *op)
{
    struct unblock *u = op->call->check.ctx;

    write_unblocked(u);
    if (u->ended > 0 && op->job.result == SL_JOB_NOT_FOUND)
        note_penalties(u); /* the job has not recorded it */
}

/* All penalties were asked: end the block by an operator, and answer. */
static void finish(struct unblock *u)
{
    if (u->op) {
        u->op->job.on = 0;
        u->op->job.by = sl_subject_by(u->call, SL_STR(""));
        send_noted(u->op, "unblock");
        if (u->call->status == 200)
            return;
    } else {
        write_unblocked(u);
        if (u->ended > 0)
            note_penalties(u);
    }
    sl_http_resume_finish(u->call);
}

static void ask_penalty(struct unblock *u);

static void on_ended(struct sl_check *check)
{
    struct unblock *u = check->ctx;

    if (!check->err)
        u->names[u->ended++] = check->active->policy->rules[u->next].name;
    u->next++;
    ask_penalty(u);
}

/* A store that does not answer is said, and nothing more is ended. */
static void on_asked(struct sl_check *check)
{
    struct unblock *u = check->ctx;
    const struct sl_decision *d = &check->decision;

    if (check->err || d->no_numbers) {
        sl_http_refuse(u->call, 503, "STORE", "the store does not answer");
        sl_http_resume_finish(u->call);
        return;
    }
    if (d->shown_count > 0 && sl_penalty_blocks(d, &d->shown[0])) {
        check->done = on_ended;
        sl_check_reset(check);
        return;
    }
    u->next++;
    ask_penalty(u);
}

static void ask_penalty(struct unblock *u)
{
    const struct sl_rule *rule = next_rule(u);

    if (!rule) {
        finish(u);
        return;
    }
    u->request.limit = rule->name;
    u->call->check.done = on_asked;
    sl_check_start(&u->call->check, &u->request, 1, false);
}

/* Reads the address whose penalties end: it may be shown with the prefix of its
 * network. Other networks have none. */
static bool read_address(struct unblock *u)
{
    const struct sl_policy *policy = u->call->check.active->policy;
    struct sl_str address = sl_ip_key_address(u->id);
    struct sl_net net, own;

    if (sl_str_eq(address, SL_STR("unknown")))
        return true;
    if (!sl_identify_net(policy, u->id, &net) ||
        !sl_identify_net(policy, address, &own))
        return sl_http_refuse(u->call, 400, "BAD_PATH",
                              "\"%.*s\" is not an IP address or a network",
                              SL_STR_ARG(u->id));
    if (net.bits == own.bits)
        u->id = address;
    else
        u->next = policy->rule_count;
    return true;
}

/* Reads the path, and what there is to end. */
static bool begin_unblock(struct unblock *u)
{
    struct sl_http_call *call = u->call;
    struct sl_str rest = call->rest;
    bool is_ip, by_operators;

    u->scope = sl_admin_cut(&rest, '/');
    is_ip = sl_str_eq(u->scope, SL_IP_SCOPE);
    by_operators = (is_ip && !sl_str_eq(rest, SL_STR("unknown"))) ||
                   sl_str_eq(u->scope, SL_STR("user")) ||
                   sl_str_eq(u->scope, SL_STR("org"));
    if (!by_operators && !next_rule(u))
        return sl_http_refuse(call, 404, "NOT_FOUND",
                              "no limit per %.*s has a penalty; write "
                              "/v1/blocks/user/ID, /v1/blocks/org/ID or "
                              "/v1/blocks/ip/ADDRESS",
                              SL_STR_ARG(u->scope));
    if (!next_rule(u) || (by_operators && sl_admin_of(call)->registry)) {
        u->op = begin(call, answer_unblock);
        if (!u->op)
            return false;
    }
    if (sl_admin_decode(&call->arena, rest, false, &u->id) || u->id.len == 0)
        return sl_http_refuse(call, 400, "BAD_PATH",
                              "write /v1/blocks/SCOPE/ID, with %%2F for a "
                              "slash and %%25 for a %%");
    return !is_ip || read_address(u);
}

void sl_block_end(struct sl_http_call *call)
{
    unsigned rules = call->check.active->policy->rule_count;
    struct unblock *u = sl_http_new(call, sizeof(*u));

    if (!u)
        return;
    u->call = call;
    call->check.ctx = u;
    u->names = sl_http_new(call, (rules + 1) * sizeof(*u->names));
    if (!u->names || !begin_unblock(u))
        return;
    u->request = (struct sl_request){.keys = &u->id,
                                     .key_scopes = &u->scope,
                                     .key_count = 1,
                                     .key = SL_STR(""),
                                     .trusted = true,
                                     .failed = true,
                                     .now = sl_http_now(call)};
    if (sl_str_eq(u->scope, SL_STR("user")))
        u->request.user = u->id;
    else if (sl_str_eq(u->scope, SL_STR("org")))
        u->request.org = u->id;
    sl_http_suspend(call);
    ask_penalty(u);
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
