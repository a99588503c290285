/* read_check.c -- the words behind SLUICE.CHECK, EXPLAIN and RESET.
 *
 *     METHOD PATH | JOB name | LIMIT name key     what is asked for
 *     user U  org O  plan P  role R  ip A         who asks
 *     header.NAME value
 *     cost N  cost.LIMIT N                        how much; 0 looks
 *     hold 30s                                    for how long it is held
 *     wait 10s                                    for how long it may wait
 *     id ID                                       the request's
 *     idempotency_key KEY                         repeats have the same
 *     body BYTES                                  of a webhook
 *     as json                                     how it is answered
 *
 * They are those of flow files, parted by blanks instead of '='. Names of
 * fields count in whatever case, and each is there once.
 */
#include <stddef.h>
#include <string.h>

#include "doors/resp/inner.h"

/* Names with their lengths: most differ in that alone, and are not looked at.
 */
static const struct field {
    struct sl_str name;
    size_t place; /* of the slice in the facts */
} fields[] = {
#define FIELD(name, place)                                                     \
    {                                                                          \
        {name, sizeof(name) - 1}, offsetof(struct sl_facts, place)             \
    }
    FIELD("user", user), FIELD("org", org),
    FIELD("plan", plan), FIELD("role", role),
    FIELD("ip", ip),     FIELD("id", request_id),
    FIELD("body", body), FIELD("idempotency_key", idempotency_key),
};

/* Those that are read otherwise, so that they can be guessed too. */
static const char *const others[] = {"cost", "hold",    "wait",
                                     "as",   "header.", "cost."};

#define IS(word, literal) sl_str_eq_nocase(word, SL_STR(literal))

static bool refuse(struct sl_diag *why, const char *sentence,
                   struct sl_str word)
{
    sl_refuse(why, SLUICE_EINVAL, sentence, sl_resp_quote(word).text);
    return false;
}

static bool unknown(struct sl_str word, struct sl_diag *why)
{
    const char *names[SL_LEN(fields) + SL_LEN(others)];
    const char *near;

    for (size_t i = 0; i < SL_LEN(fields); i++)
        names[i] = fields[i].name.at;
    for (size_t i = 0; i < SL_LEN(others); i++)
        names[SL_LEN(fields) + i] = others[i];
    near = sl_str_nearest(word, names, SL_LEN(names));
    sl_refuse(why, SLUICE_EINVAL, "unknown word '%s'%s%s%s",
              sl_resp_quote(word).text, near ? "; did you mean '" : "",
              near ? near
                   : "; valid are user, org, plan, role, ip, id, body, "
                     "idempotency_key, cost, cost.LIMIT, hold, wait, "
                     "header.NAME and as",
              near ? "'?" : "");
    return false;
}

static bool read_amount(struct sl_str word, uint64_t *ret, struct sl_diag *why)
{
    int64_t n;

    if (!sl_resp_integer(word, &n) || n < 0)
        return refuse(why,
                      "the cost must be a whole number of at least 0, not '%s'",
                      word);
    *ret = (uint64_t)n;
    return true;
}

static bool read_cost(struct sl_resp_call *call, struct sl_str name,
                      struct sl_str value, struct sl_diag *why)
{
    struct sl_facts *facts = &call->facts;
    struct sl_cost *cost = &call->costs[facts->cost_count];

    if (name.len == 0) {
        if (facts->has_cost)
            return refuse(
                why, "the cost is given twice, the second time as '%s'", value);
        facts->has_cost = true;
        return read_amount(value, &facts->cost, why);
    }
    for (unsigned i = 0; i < facts->cost_count; i++)
        if (sl_str_eq(call->costs[i].limit, name))
            return refuse(why, "the cost of '%s' is given twice", name);
    if (facts->cost_count == SL_RESP_FACTS)
        return refuse(why, "too many costs, at '%s'", name);
    cost->limit = name;
    facts->cost_count++;
    return read_amount(value, &cost->cost, why);
}

static bool read_header(struct sl_resp_call *call, struct sl_str name,
                        struct sl_str value, struct sl_diag *why)
{
    struct sl_facts *facts = &call->facts;

    for (unsigned i = 0; i < facts->header_count; i++)
        if (sl_str_eq_nocase(call->headers[i].name, name))
            return refuse(why, "the header '%s' is given twice", name);
    if (facts->header_count == SL_RESP_FACTS)
        return refuse(why, "too many headers, at '%s'", name);
    call->headers[facts->header_count++] = (struct sl_header){name, value};
    return true;
}

static bool read_span(sl_ns *span, struct sl_str name, struct sl_str value,
                      int (*read)(struct sl_str, sl_ns *, struct sl_diag *),
                      struct sl_diag *why)
{
    if (*span != 0)
        return refuse(why, "'%s' is given twice", name);
    return !read(value, span, why);
}

/* What stands behind `prefix`; false if it is not there. */
static bool is_below(struct sl_str word, struct sl_str prefix,
                     struct sl_str *rest)
{
    *rest = sl_str_from(word, prefix.len);
    return word.len > prefix.len &&
           sl_str_eq_nocase((struct sl_str){word.at, prefix.len}, prefix);
}

static bool read_field(struct sl_resp_call *call, struct sl_str name,
                       struct sl_str value, struct sl_diag *why)
{
    struct sl_str rest = {NULL, 0};

    for (size_t i = 0; i < SL_LEN(fields); i++) {
        struct sl_str *at =
            (struct sl_str *)(void *)((char *)&call->facts + fields[i].place);

        if (!sl_str_eq_nocase(name, fields[i].name))
            continue;
        if (at->at)
            return refuse(why, "'%s' is given twice", name);
        *at = value;
        return true;
    }
    if (IS(name, "cost") || is_below(name, SL_STR("cost."), &rest))
        return read_cost(call,
                         IS(name, "cost") ? (struct sl_str){NULL, 0} : rest,
                         value, why);
    if (is_below(name, SL_STR("header."), &rest))
        return read_header(call, rest, value, why);
    if (IS(name, "hold"))
        return read_span(&call->facts.hold, name, value, sl_hold_span, why);
    if (IS(name, "wait"))
        return read_span(&call->facts.wait, name, value, sl_wait_span, why);
    if (!IS(name, "as"))
        return unknown(name, why);
    call->json = IS(value, "json");
    return call->json ||
           refuse(why, "the answer can be requested 'as json', not as '%s'",
                  value);
}

/* A word of ours where a method should be: the path was forgotten. */
static bool is_field(struct sl_str word)
{
    for (size_t i = 0; i < SL_LEN(fields); i++)
        if (sl_str_eq_nocase(word, fields[i].name))
            return true;
    return IS(word, "cost") || IS(word, "hold") || IS(word, "wait") ||
           IS(word, "as");
}

/* The first words: how many they are, or 0. A path may be spelt in whatever
 * way a server would take it. */
static unsigned read_subject(struct sl_facts *facts,
                             const struct sl_resp_command *c)
{
    if (IS(c->args[1], "job")) {
        facts->job = c->args[2];
        return 3;
    }
    if (!IS(c->args[1], "limit")) {
        facts->method = c->args[1];
        facts->path = c->args[2];
        return facts->path.len > 0 && !is_field(facts->method) ? 3 : 0;
    }
    facts->limit = c->args[2];
    facts->key = c->count > 3 ? c->args[3] : (struct sl_str){NULL, 0};
    return facts->key.len > 0 ? 4 : 0;
}

bool sl_resp_read_check(struct sl_resp_call *call,
                        const struct sl_resp_command *c, struct sl_diag *why)
{
    struct sl_facts *facts = &call->facts;
    const struct sl_live *before = call->ask.live;
    unsigned at;

    if (sl_ask_hold(&call->ask) != before && before)
        sl_resp_calls_trim(call->worker);
    *facts = (struct sl_facts){
        .trusted = true, /* he has the password, or sits on this machine */
        .headers = call->headers,
        .costs = call->costs,
        .now = sl_resp_now(call->worker),
    };
    call->json = false;
    at = read_subject(facts, c);
    if (at == 0)
        return refuse(
            why, "write METHOD /path, JOB name or LIMIT name key, not '%s'",
            c->args[1]);
    for (; at + 1 < c->count; at += 2)
        if (!read_field(call, c->args[at], c->args[at + 1], why))
            return false;
    if (at < c->count)
        return refuse(why, "'%s' has no value after it", c->args[at]);
    facts->has_body = facts->body.at != NULL;
    return sl_facts_check(call->ask.live->policy, facts, why) == 0;
}
