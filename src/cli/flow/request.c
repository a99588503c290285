/* request.c -- what an act says, as a request to the engine. */
#include <string.h>

#include "cli/flow/run.h"

#define DEFAULT_IP "192.0.2.1" /* TEST-NET-1 */

void sl_flow_request_fill(const struct sl_flow_act *act,
                          struct sluice_request *ret)
{
    const struct sl_inputs *in = act->in;

    *ret = (struct sluice_request){
        .user = in->user,
        .org = in->org,
        .plan = in->plan,
        .role = in->role,
        .ip = in->ip ? in->ip : DEFAULT_IP,
        .headers = in->headers,
        .header_count = in->header_count,
        .trusted = 1,
        .has_cost = in->has_cost,
        .cost = in->cost,
        .costs = in->costs,
        .cost_count = in->cost_count,
        .body = in->body,
        .body_len = in->body ? strlen(in->body) : 0,
        .idempotency_key = in->idempotency_key,
        .hold_ns = in->hold,
    };
    if (act->kind == SL_FLOW_ACT_JOB)
        ret->job = act->names[0];
    if (act->kind == SL_FLOW_ACT_TAKE) {
        ret->limit = act->names[0];
        ret->key = act->names[1];
    }
    if (act->kind == SL_FLOW_ACT_REQUEST) {
        ret->method = act->names[0];
        ret->path = act->names[1];
    }
}
