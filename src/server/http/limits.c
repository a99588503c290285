/* limits.c -- GET /v1/limits: the limits of the active policy as JSON.
 *
 *     {"policy":"sluice.yaml","mode":"enforce","limits":[{"name":"api",
 *      "kind":"token-bucket","per":["user"],"mode":"enforce","unit":"",
 *      "rates":{"free":"60/min"},"candidates":{},"queue":0,"line":12}],
 *      "waiting":0,"backlogs":[{"name":"transcribe","depth":12}]}
 */
#include "server/http/http_int.h"

static int add_rates(struct sl_writer *w, const struct sl_policy *policy,
                     const struct sl_plan_limit *rates,
                     const struct sl_alloc *alloc)
{
    struct sl_buf text;

    sl_buf_init(&text, 4096, alloc);
    sl_json_open(w, '{');
    for (unsigned i = 0; rates && i < policy->plans.count && !w->err; i++) {
        sl_buf_clear(&text);
        w->err = sl_rate_print(&rates[i], &text);
        sl_json_key(w, policy->plans.list[i].name);
        sl_json_str(w, sl_buf_str(&text));
    }
    sl_json_close(w, '}');
    sl_buf_done(&text);
    return w->err;
}

static void add_limit(struct sl_writer *w, const struct sl_policy *policy,
                      const struct sl_rule *rule, const struct sl_alloc *alloc)
{
    sl_json_open(w, '{');
    sl_json_member_str(w, "name", rule->name);
    sl_json_member_text(w, "kind", sl_kind_name(rule->kind));
    sl_json_key(w, SL_STR("per"));
    sl_json_open(w, '[');
    for (unsigned i = 0; i < rule->per_count; i++)
        sl_json_str(w, policy->identity.scope_names[rule->per[i]]);
    sl_json_close(w, ']');
    sl_json_member_text(w, "mode", sl_mode_words[rule->mode]);
    sl_json_member_str(w, "unit", rule->unit);
    sl_json_key(w, SL_STR("queue"));
    sl_json_uint(w, rule->queue);
    sl_json_key(w, SL_STR("line"));
    sl_json_uint(w, rule->place.line);
    sl_json_key(w, SL_STR("rates"));
    if (!add_rates(w, policy, rule->plans, alloc))
        sl_json_key(w, SL_STR("candidates"));
    if (!w->err)
        add_rates(w, policy, rule->has_candidate ? rule->candidates : NULL,
                  alloc);
    sl_json_close(w, '}');
}

static void add_backlogs(struct sl_writer *w,
                         const struct sl_active_policy *active)
{
    sl_json_key(w, SL_STR("backlogs"));
    sl_json_open(w, '[');
    for (unsigned i = 0; i < active->policy->backlog_count; i++) {
        const struct sl_depth *depth = &active->depths[i];

        sl_json_open(w, '{');
        sl_json_member_str(w, "name", active->policy->backlogs[i]);
        sl_json_key(w, SL_STR("depth"));
        if (atomic_load_explicit(&depth->at, memory_order_acquire) ==
            SL_NS_NONE)
            sl_json_nothing(w);
        else
            sl_json_uint(w, atomic_load(&depth->depth));
        sl_json_close(w, '}');
    }
    sl_json_close(w, ']');
}

void sl_limit_list(struct sl_http_call *call)
{
    const struct sl_active_policy *active = sl_check_ref_policy(&call->check);
    const struct sl_policy *policy = active->policy;
    struct sl_writer w = {.out = &call->text};

    sl_json_open(&w, '{');
    sl_json_member_str(&w, "policy", policy->file);
    sl_json_member_text(&w, "mode", sl_mode_words[policy->mode]);
    sl_json_key(&w, SL_STR("waiting"));
    sl_json_uint(&w, sl_queues_count(sl_engine_queues(call->worker->engine)));
    sl_json_key(&w, SL_STR("limits"));
    sl_json_open(&w, '[');
    for (unsigned i = 0; i < policy->rule_count; i++)
        add_limit(&w, policy, &policy->rules[i], call->worker->alloc);
    sl_json_close(&w, ']');
    add_backlogs(&w, active);
    sl_json_close(&w, '}');
    sl_admin_answer_json(call, w.err);
}
