/* subjects.c -- `identity: subjects`: the question by which plans are read from
 * tables of others, as far as it can be judged without a server. */
#include "policy/build/build.h"

#include <string.h>

#define QUERY_MOST 8192
#define LIFE       (5 * SL_S)
#define LIFE_MIN   SL_S
#define LIFE_MAX   (3600 * SL_S)

#define EXAMPLE "query: \"SELECT plan, expires FROM accounts WHERE id = $1\""

static bool has(struct sl_str text, const char *what)
{
    return text.len > 0 && memmem(text.at, text.len, what, strlen(what));
}

static void check_query(struct sl_build *b, const struct sl_node *query)
{
    if (query->text.len == 0)
        sl_hint(sl_report_error(b->report, SL_AT(query),
                                "`query` must not be empty. Leave `subjects` "
                                "out, or write a query"),
                EXAMPLE);
    else if (query->text.len > QUERY_MOST)
        sl_report_error(b->report, SL_AT(query),
                        "The query is longer than %d bytes. Create a view in "
                        "the database and query the view",
                        QUERY_MOST);
    else if (!has(query->text, "$1"))
        sl_hint(sl_report_error(b->report, SL_AT(query),
                                "The query does not contain $1. Write $1 for "
                                "the id, without quotes"),
                EXAMPLE);
}

/* Flags and variables may say otherwise, so that nothing is said of a policy
 * that does not say where. */
static void check_usage(struct sl_build *b, const struct sl_node *query)
{
    const struct sl_node *usage =
        sl_build_scalar(sl_node_get(b->root, "server"), "usage");
    static const char scheme[] = "postgres:";
    size_t len = strlen(scheme);

    if (!usage || usage->substituted ||
        (usage->text.len > len && memcmp(usage->text.at, scheme, len) == 0))
        return;
    sl_hint(sl_report_error(b->report, SL_AT_KEY(query),
                            "The query runs in the PostgreSQL of `usage`, but "
                            "`usage` is \"%.64s\"",
                            sl_build_shown(usage).text),
            "usage: \"postgres://sluice@db/app\"");
}

static sl_ns read_life(struct sl_build *b, const struct sl_node *map)
{
    const struct sl_node *node = sl_build_scalar(map, "life");
    sl_ns life = sl_build_duration(b, map, "life", LIFE);

    if (node && (life < LIFE_MIN || life > LIFE_MAX))
        sl_hint(sl_report_error(b->report, SL_AT(node),
                                "`life` must be between 1s and 1h, not "
                                "\"%.64s\"",
                                sl_build_shown(node).text),
                "life: 5s");
    return life;
}

void sl_build_subjects(struct sl_build *b, const struct sl_node *node)
{
    static const char *const scopes[] = {"", "user", "org"};
    const struct sl_node *query = sl_build_scalar(node, "query");
    struct sl_plan_query *subjects = &b->policy->identity.subjects;

    if (!query)
        return; /* the schema has said why, if it was meant */
    check_query(b, query);
    check_usage(b, query);
    subjects->text = sl_build_text(b, node, "query");
    subjects->scope =
        (enum sl_asked)sl_build_choice(node, "scope", scopes, 3, SL_ASKED_ANY);
    subjects->life = read_life(b, node);
}
