/* denials.c -- GET /v1/denials: which requests were denied, and why.
 *
 *   ?request_id=req_...    one request
 *   ?scope=user&id=ann     of a caller
 *   ?from=...&to=...       between these times, both inclusive
 *   ?passed=true           also the recorded share of passed requests
 *   ?before=CURSOR         older than this record: the next page
 *   ?limit=100             at most so many
 *
 * The newest records come first. Those that the database does not have yet are
 * read from memory and merged with its own. Without a database, or if it does
 * not answer, all are from memory.
 */
#include <string.h>

#include "base/parse.h"
#include "engine/engine_int.h"
#include "server/http/admin.h"
#include "server/http/http_int.h"

#define USUAL 100

/* Read "AT-NUMBER". */
static bool parse_cursor(struct sl_str text, sl_ns *ret_at,
                         uint64_t *ret_number)
{
    const char *dash = text.len > 0 ? memchr(text.at, '-', text.len) : NULL;
    struct sl_str first = {text.at, dash ? (size_t)(dash - text.at) : 0};
    uint64_t at, number;

    if (!dash || sl_parse_number(first, &at, NULL) || at > INT64_MAX ||
        sl_parse_number(sl_str_from(text, first.len + 1), &number, NULL))
        return false;
    *ret_at = (sl_ns)at;
    *ret_number = number;
    return true;
}

static bool read_cursor(struct sl_http_call *call, struct sl_str text,
                        struct sl_denial_query *query)
{
    if (text.len == 0 ||
        parse_cursor(text, &query->before, &query->before_number))
        return true;
    return sl_http_refuse(call, 400, "BAD_QUERY",
                          "\"before\" must be the \"cursor\" of a record, "
                          "not \"%.*s\"",
                          SL_STR_ARG(text));
}

static bool read_times(struct sl_http_call *call, struct sl_str from,
                       struct sl_str to, sl_ns now,
                       struct sl_denial_query *query)
{
    struct sl_reading reading;

    sl_reading_init(&reading, &call->arena, now);
    if ((from.len == 0 ||
         sl_reading_time(&reading, "from", from, &query->from)) &&
        (to.len == 0 || sl_reading_time(&reading, "to", to, &query->to)))
        return true;
    return sl_http_refuse(call, 400, "BAD_QUERY", "%s", reading.body.sentence);
}

/* An empty value would find every record. */
static bool check_empty(struct sl_http_call *call)
{
    static const char *const names[] = {"request_id", "scope", "id"};
    struct sl_str query = call->query;

    while (query.len > 0) {
        struct sl_str value = sl_admin_cut(&query, '&');
        struct sl_str name = sl_admin_cut(&value, '=');

        for (unsigned i = 0; i < SL_LEN(names); i++)
            if (value.len == 0 && sl_str_eq(name, sl_str_c(names[i])))
                return sl_http_refuse(
                    call, 400, "BAD_QUERY",
                    "\"%s\" is empty; write ?request_id=req_5n2q8d0w3k7m or "
                    "?scope=user&id=ann, or leave it out for all denials",
                    names[i]);
    }
    return true;
}

/* Records have an address as limits know it. What is not an address stays as it
 * is. */
static bool use_address(struct sl_http_call *call,
                        struct sl_denial_query *query)
{
    const struct sl_policy *policy = sl_check_ref_policy(&call->check)->policy;
    struct sl_str rest = query->id, ip;
    char text[SL_IP_TEXT + 5];

    if (!sl_str_eq(query->scope, policy->identity.scope_names[SL_SCOPE_IP]))
        return true;
    /* IPv6 is shown with the prefix of its network. */
    ip = sl_identify_ip(policy, sl_admin_cut(&rest, '/'), text);
    if (ip.at != text)
        return true;
    query->id = (struct sl_str){sl_arena_copy(&call->arena, ip), ip.len};
    return query->id.at || sl_http_no_memory(call);
}

static bool read_query(struct sl_http_call *call, sl_ns now,
                       struct sl_denial_query *query)
{
    static const char *const flags[] = {"false", "true"};
    struct sl_str from, to, before, limit, passed;
    const struct sl_admin_option options[] = {
        {"request_id", &query->request_id},
        {"scope",      &query->scope     },
        {"id",         &query->id        },
        {"from",       &from             },
        {"to",         &to               },
        {"before",     &before           },
        {"limit",      &limit            },
        {"passed",     &passed           },
    };
    uint64_t most = USUAL;
    unsigned flag = 0;

    *query = (struct sl_denial_query){
        .to = INT64_MAX, .before = INT64_MAX, .before_number = UINT64_MAX};
    if (!sl_admin_options(call, options, SL_LEN(options)) ||
        !check_empty(call) ||
        !sl_admin_number(call, "limit", limit, 1, SL_DENIALS_MOST,
                         "a number of records from 1 to 1000", &most) ||
        !sl_admin_word(call, "passed", passed, flags, 2, "true or false",
                       &flag) ||
        !read_cursor(call, before, query) ||
        !read_times(call, from, to, now, query))
        return false;
    if ((query->scope.len == 0) != (query->id.len == 0))
        return sl_http_refuse(call, 400, "BAD_QUERY",
                              "\"scope\" and \"id\" belong together, as in "
                              "?scope=user&id=ann");
    query->most = (unsigned)most;
    query->passed = flag;
    return use_address(call, query);
}

/* ---- the answer ---- */

/* A call, which may wait for the database. */
struct listing {
    struct sl_http_call *call;
    struct sl_job job;
    struct sl_denial_job denials;
};

/* The first record of a list, which has one per line. */
struct row {
    struct sl_str text; /* without its newline; "": the list is empty */
    sl_ns at;
    uint64_t number;
};

static struct row first_of(struct sl_str list)
{
    static const struct sl_str begin = {"{\"cursor\":\"", 11};
    const char *end = list.len > 0 ? memchr(list.at, '\n', list.len) : NULL;
    struct row row = {
        .text = {list.at, end ? (size_t)(end - list.at) : 0},
          .at = -1
    };
    struct sl_str cursor;
    const char *quote;

    if (row.text.len <= begin.len)
        return row;
    cursor = sl_str_from(row.text, begin.len);
    quote = memchr(cursor.at, '"', cursor.len);
    cursor.len = quote ? (size_t)(quote - cursor.at) : 0;
    if (!parse_cursor(cursor, &row.at, &row.number))
        row.text.len = 0;
    return row;
}

/* > 0: `a` comes first; 0: it is the same record. */
static int compare(const struct row *a, const struct row *b)
{
    if (a->at != b->at)
        return a->at > b->at ? 1 : -1;
    return (a->number > b->number) - (a->number < b->number);
}

/* Two sorted lists as one: a record that is in both comes once. */
static void merge(struct sl_writer *w, struct sl_str a, struct sl_str b,
                  unsigned most)
{
    for (unsigned i = 0; i < most; i++) {
        struct row x = first_of(a), y = first_of(b);
        int order = compare(&x, &y);
        const struct row *next = order >= 0 ? &x : &y;

        if (next->text.len == 0)
            return;
        if (i > 0)
            sl_writer_add(w, SL_STR(","));
        sl_writer_add(w, next->text);
        if (order >= 0)
            a = sl_str_from(a, x.text.len + 1);
        if (order <= 0)
            b = sl_str_from(b, y.text.len + 1);
    }
}

/* The records of memory are in call->text. */
static void answer(struct listing *l, struct sl_str from_database,
                   bool from_memory)
{
    struct sl_http_call *call = l->call;
    struct sl_str rows = sl_buf_str(&call->text);
    struct sl_writer w = {.out = &call->text};
    struct sl_str copy = {sl_arena_copy(&call->arena, rows), rows.len};

    if (!copy.at) {
        sl_http_no_memory(call);
        return;
    }
    sl_buf_clear(&call->text);
    sl_writer_add(&w, SL_STR("{\"denials\":["));
    merge(&w, copy, from_database, l->denials.query.most);
    sl_writer_addf(&w, "],\"from\":\"%s\"}",
                   from_memory ? "memory" : "database");
    sl_admin_answer_json(call, w.err);
}

/* Add what is in memory: all of it, or what the database does not have. Returns
 * the number of records, or -1 after a refusal. */
static int add_memory(struct listing *l, bool all)
{
    const struct sl_admin *admin = sl_admin_of(l->call);
    int found =
        admin->denials(admin->ctx, &l->denials.query, all, &l->call->text);

    if (found >= 0)
        return found;
    sl_admin_answer_json(l->call, found);
    return -1;
}

static void on_read(struct sl_job *job)
{
    struct listing *l = job->ctx;
    struct sl_http_call *call = l->call;

    if (job->err) {
        sl_buf_clear(&call->text);
        if (add_memory(l, true) >= 0)
            answer(l, SL_STR(""), true);
    } else {
        answer(l, sl_buf_str(&job->text), false);
    }
    sl_job_clear(job);
    sl_http_resume_finish(call);
}

void sl_denial_list(struct sl_http_call *call)
{
    const struct sl_admin *admin = sl_admin_of(call);
    struct listing *l = sl_http_new(call, sizeof(*l));
    struct sl_denial_query *query = l ? &l->denials.query : NULL;
    bool all;
    int found;

    if (!l || !read_query(call, sl_http_now(call), query))
        return;
    l->call = call;
    all = !admin->registry || query->request_id.len > 0;
    found = add_memory(l, all);
    if (found < 0)
        return;
    /* A request that is in memory need not be looked for elsewhere. */
    if (!admin->registry || (query->request_id.len > 0 && found > 0)) {
        answer(l, SL_STR(""), true);
        return;
    }
    sl_http_job_init(&l->job, call, SL_JOB_DENIALS, on_read, l);
    l->job.denials = &l->denials;
    sl_http_suspend(call);
    sl_registry_ask(admin->registry, &l->job);
}
