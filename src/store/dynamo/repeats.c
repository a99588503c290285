/* repeats.c -- the memory of repeats in DynamoDB (store/repeats.h).
 *
 *   userId             dataType  rprint rowner rpending runtil rleft rmemo ttl
 *   sluice:repeat:...  REPEAT    hex    hex    ...ms    ...ms  n     text  ...s
 *
 * Numbers are texts of sixteen digits, so that conditions compare them as
 * texts, and one reader reads all. rpending 0: the claim is complete.
 *
 *     BEGIN   WRITES, if there is no row, or its claim or life is over
 *                | not met
 *             READS --> the row --> USES: one repeat less, if it is as read
 *                                     | not met: WRITES again, at most TRIES
 *     LOOK    READS
 *     FINISH  WRITES, if the row is ours or gone
 *     DROP    DELETES, if it is ours and not complete
 *
 * All requests of a call share its deadline. A BEGIN that is late may claim
 * after its DROP; the key is then blocked until `pending`.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "store/dynamo/dynamo_int.h"

#define DEADLINE (20 * SL_MS)
#define TRIES    4
#define ENDLESS  UINT64_C(1000000000) /* so many repeats are not counted */
#define NUMBER   17
#define KEEP     SL_HOUR /* beyond the life of a row */

struct sl_dynamo_repeat {
    struct sl_dynamo_call http; /* first */
    TAILQ_ENTRY(sl_dynamo_repeat) links;
    struct sl_dynamo_client *client;
    struct sl_repeat_call *call; /* NULL: a DROP */
    enum sl_repeat_op op;
    struct sl_repeat_claim claim;
    enum { WRITES, READS, USES, DELETES } phase;
    sl_ns now; /* wall clock of the call */
    sl_ns deadline;
    unsigned tries;
    /* The row as read. */
    char fingerprint[40], owner[24], pending[NUMBER + 1], until[NUMBER + 1],
        left[NUMBER + 1];
    char memo[SL_REPEAT_MEMO + 1];
};

static void on_done(struct sl_dynamo_call *http);

static void number(char out[NUMBER], uint64_t n)
{
    snprintf(out, NUMBER, "%016" PRIu64, n % UINT64_C(10000000000000000));
}

/* Milliseconds, rounded up: nothing ends early. */
static uint64_t ms_of(sl_ns ns)
{
    return ns > 0 ? (uint64_t)(ns / SL_MS + (ns % SL_MS != 0)) : 0;
}

/* ---- requests ---- */

static void put_key(struct sl_writer *w, const struct sl_dynamo_repeat *r)
{
    sl_writer_addf(w,
                   "\"userId\":{\"S\":\"sluice:repeat:%016" PRIx64 "%016" PRIx64
                   "\"},\"dataType\":{\"S\":\"REPEAT\"}",
                   r->claim.key.hi, r->claim.key.lo);
}

static void put_item(struct sl_writer *w, const struct sl_dynamo_repeat *r)
{
    const struct sl_repeat_claim *claim = &r->claim;
    char pending[NUMBER], until[NUMBER], left[NUMBER];
    bool begins = r->op == SL_REPEAT_BEGIN;

    number(pending, begins ? ms_of(claim->pending) : 0);
    number(until, ms_of(claim->until));
    number(left, claim->repeats);
    put_key(w, r);
    sl_writer_addf(w,
                   ",\"rprint\":{\"S\":\"%016" PRIx64 "%016" PRIx64
                   "\"},\"rowner\":{\"S\":\"%016" PRIx64
                   "\"},\"rpending\":{\"S\":\"%s\"},\"runtil\":{\"S\":\"%s\"},"
                   "\"rleft\":{\"S\":\"%s\"},\"rmemo\":{\"S\":\"%s\"},"
                   "\"ttl\":{\"N\":\"%" PRId64 "\"}",
                   claim->fingerprint.hi, claim->fingerprint.lo, claim->owner,
                   pending, until, left, begins || !r->memo[0] ? "-" : r->memo,
                   (int64_t)((claim->until + KEEP) / SL_S));
}

static void put_write(struct sl_writer *w, const struct sl_dynamo_repeat *r)
{
    char now[NUMBER], none[NUMBER];

    sl_writer_addf(w, "{\"TableName\":\"%.*s\",\"Item\":{",
                   SL_STR_ARG(r->client->options->where.table));
    put_item(w, r);
    sl_writer_add(w, SL_STR("}"));
    number(now, (uint64_t)(r->now / SL_MS));
    number(none, 0);
    if (r->op == SL_REPEAT_BEGIN)
        sl_writer_addf(
            w,
            ",\"ConditionExpression\":\"attribute_not_exists(userId) OR"
            " (rpending > :z AND rpending <= :now) OR (rpending = :z AND"
            " (runtil <= :now OR rleft <= :z))\","
            "\"ExpressionAttributeValues\":{\":z\":{\"S\":\"%s\"},"
            "\":now\":{\"S\":\"%s\"}}",
            none, now);
    else if (r->op == SL_REPEAT_FINISH)
        sl_writer_addf(w,
                       ",\"ConditionExpression\":\"attribute_not_exists(userId)"
                       " OR rowner = :o\",\"ExpressionAttributeValues\":"
                       "{\":o\":{\"S\":\"%016" PRIx64 "\"}}",
                       r->claim.owner);
    sl_writer_add(w, SL_STR("}"));
}

/* A key, and what follows it. */
static void put_keyed(struct sl_writer *w, const struct sl_dynamo_repeat *r)
{
    sl_writer_addf(w, "{\"TableName\":\"%.*s\",\"Key\":{",
                   SL_STR_ARG(r->client->options->where.table));
    put_key(w, r);
    sl_writer_add(w, SL_STR("}"));
}

static void put_use(struct sl_writer *w, const struct sl_dynamo_repeat *r)
{
    uint64_t left = 0;
    char less[NUMBER];

    for (const char *c = r->left; *c >= '0' && *c <= '9'; c++)
        left = left * 10 + (uint64_t)(*c - '0');
    number(less, left > 0 ? left - 1 : 0);
    put_keyed(w, r);
    sl_writer_addf(w,
                   ",\"UpdateExpression\":\"SET rleft = :less\","
                   "\"ConditionExpression\":\"rleft = :left AND rowner = :o\","
                   "\"ExpressionAttributeValues\":{\":less\":{\"S\":\"%s\"},"
                   "\":left\":{\"S\":\"%s\"},\":o\":{\"S\":\"%s\"}}}",
                   less, r->left, r->owner);
}

static void put_delete(struct sl_writer *w, const struct sl_dynamo_repeat *r)
{
    char none[NUMBER];

    number(none, 0);
    put_keyed(w, r);
    sl_writer_addf(w,
                   ",\"ConditionExpression\":\"rowner = :o AND rpending > :z\","
                   "\"ExpressionAttributeValues\":{\":o\":{\"S\":\"%016" PRIx64
                   "\"},\":z\":{\"S\":\"%s\"}}}",
                   r->claim.owner, none);
}

/* ---- the end of a call ---- */

static void end(struct sl_dynamo_repeat *r, int err)
{
    struct sl_repeat_call *call = r->call;
    struct sl_dynamo_client *client = r->client;

    TAILQ_REMOVE(&client->repeats, r, links);
    sl_dynamo_call_done(&r->http);
    sl_alloc_free(client->base.options->alloc, r, sizeof(*r));
    if (!call)
        return;
    call->err = err ? SLUICE_ESTORE : 0;
    call->done(call);
}

static void ask(struct sl_dynamo_repeat *r, unsigned phase)
{
    static const char *const operations[] = {"PutItem", "GetItem", "UpdateItem",
                                             "DeleteItem"};
    struct sl_writer w = {&r->http.body, 0};
    sl_ns left = r->deadline - sl_loop_mono(r->client->base.loop);

    r->phase = phase;
    sl_buf_clear(&r->http.body);
    if (phase == WRITES) {
        put_write(&w, r);
    } else if (phase == READS) {
        put_keyed(&w, r);
        sl_writer_add(&w, SL_STR(",\"ConsistentRead\":true}"));
    } else if (phase == USES) {
        put_use(&w, r);
    } else {
        put_delete(&w, r);
    }
    if (left <= 0 || w.err ||
        sl_dynamo_call_send(&r->http, operations[phase], left))
        end(r, SLUICE_ESTORE);
}

/* ---- replies ---- */

static bool is_before(const char *a, const char *b)
{
    return strcmp(a, b) <= 0;
}

/* The row was read. False: it is free, or was never there. */
static bool judge(struct sl_dynamo_repeat *r)
{
    char now[NUMBER], none[NUMBER], own[33];
    bool done, ended;

    number(now, (uint64_t)(r->now / SL_MS));
    number(none, 0);
    done = strcmp(r->pending, none) == 0;
    ended = done ? is_before(r->until, now) || is_before(r->left, none)
                 : is_before(r->pending, now);
    if (ended)
        return false;
    snprintf(own, sizeof(own), "%016" PRIx64 "%016" PRIx64,
             r->claim.fingerprint.hi, r->claim.fingerprint.lo);
    if (strcmp(r->fingerprint, own) != 0)
        r->call->found = SL_REPEAT_OTHER;
    else
        r->call->found = done ? SL_REPEAT_AGAIN : SL_REPEAT_RUNNING;
    return true;
}

static void on_row(struct sl_dynamo_repeat *r, bool found)
{
    struct sl_repeat_call *call = r->call;
    char endless[NUMBER];

    call->found = SL_REPEAT_FIRST;
    if (!found || !judge(r)) {
        if (r->op == SL_REPEAT_LOOK)
            end(r, 0);
        else if (++r->tries < TRIES)
            ask(r, WRITES);
        else
            end(r, SLUICE_ESTORE);
        return;
    }
    number(endless, ENDLESS);
    if (call->found == SL_REPEAT_AGAIN) {
        call->len = strcmp(r->memo, "-") == 0 ? 0 : strlen(r->memo);
        if (call->memo && call->len > 0)
            memcpy(call->memo, r->memo, call->len);
        if (r->op == SL_REPEAT_BEGIN && strcmp(r->left, endless) < 0) {
            ask(r, USES);
            return;
        }
    }
    end(r, 0);
}

static void on_read(struct sl_dynamo_repeat *r)
{
    struct sl_dynamo_text texts[] = {
        {"rprint",   r->fingerprint, sizeof(r->fingerprint), false},
        {"rowner",   r->owner,       sizeof(r->owner),       false},
        {"rpending", r->pending,     sizeof(r->pending),     false},
        {"runtil",   r->until,       sizeof(r->until),       false},
        {"rleft",    r->left,        sizeof(r->left),        false},
        {"rmemo",    r->memo,        sizeof(r->memo),        false},
    };
    char why[SL_REPLY_WHY] = "";
    bool found = false;
    enum sl_dynamo_status status = sl_dynamo_texts(
        r->http.status, r->http.reply, texts, SL_LEN(texts), &found, why);

    for (size_t i = 0; i < SL_LEN(texts); i++)
        found = found && texts[i].found;
    if (status == SL_DYNAMO_ANSWERED) {
        on_row(r, found);
        return;
    }
    sl_dynamo_client_error(r->client, status, why);
    end(r, SLUICE_ESTORE);
}

static void on_written(struct sl_dynamo_repeat *r, enum sl_dynamo_status status,
                       const char *why)
{
    bool unmet = status == SL_UNMET;

    if (!unmet && status != SL_DYNAMO_ANSWERED) {
        sl_dynamo_client_error(r->client, status, why);
        end(r, SLUICE_ESTORE);
    } else if (unmet && r->phase == WRITES && r->op == SL_REPEAT_BEGIN) {
        ask(r, READS);
    } else if (unmet && r->phase == USES) {
        if (++r->tries < TRIES)
            ask(r, WRITES);
        else
            end(r, SLUICE_ESTORE);
    } else {
        if (r->call && r->phase == WRITES) /* or the row is not ours */
            r->call->found = unmet ? SL_REPEAT_OTHER : SL_REPEAT_FIRST;
        end(r, 0);
    }
}

static void on_done(struct sl_dynamo_call *http)
{
    struct sl_dynamo_repeat *r = (struct sl_dynamo_repeat *)http;
    char why[SL_REPLY_WHY] = "";
    bool has_rows;

    if (http->status == 0)
        end(r, SLUICE_ESTORE);
    else if (r->phase == READS)
        on_read(r);
    else
        on_written(r,
                   sl_dynamo_reply_read(http->status, http->reply, NULL, 0,
                                        r->now, &has_rows, why),
                   why);
}

/* ---- calls ---- */

void sl_dynamo_repeat(struct sl_remote_client *base,
                      struct sl_repeat_call *call)
{
    struct sl_dynamo_client *client = (struct sl_dynamo_client *)base;
    sl_ns mono = sl_loop_mono(base->loop);
    struct sl_dynamo_repeat *r = sl_alloc_new(base->options->alloc, sizeof(*r));

    if (!r) {
        call->err = SLUICE_ESTORE;
        if (call->op != SL_REPEAT_DROP)
            call->done(call);
        return;
    }
    memset(r, 0, sizeof(*r));
    sl_dynamo_call_init(&r->http, client->http);
    r->http.done = on_done;
    r->client = client;
    r->call = call->op == SL_REPEAT_DROP ? NULL : call;
    r->op = call->op;
    r->claim = call->claim;
    r->now = call->now;
    r->deadline =
        mono + (base->options->deadline ? base->options->deadline : DEADLINE);
    if (call->deadline > 0 && call->deadline < r->deadline)
        r->deadline = call->deadline;
    if ((r->op == SL_REPEAT_FINISH || r->op == SL_REPEAT_PUT) && call->len > 0)
        memcpy(r->memo, call->memo, call->len);
    TAILQ_INSERT_TAIL(&client->repeats, r, links);
    if (r->op == SL_REPEAT_LOOK)
        ask(r, READS);
    else
        ask(r, r->op == SL_REPEAT_DROP ? DELETES : WRITES);
}

void sl_dynamo_repeats_stop(struct sl_dynamo_client *client)
{
    struct sl_dynamo_repeat *r;

    while ((r = TAILQ_FIRST(&client->repeats)) != NULL)
        end(r, SLUICE_ESTORE);
}
