/* errors.c -- `errors`: what a refusal looks like. */
#include "policy/build/build.h"

void sl_build_errors(struct sl_build *b)
{
    static const char *const names[SL_ERRORS] = {
        [SL_ERROR_RATE_LIMITED] = "rate_limited",
        [SL_ERROR_PLAN_LIMIT] = "plan_limit",
        [SL_ERROR_FORBIDDEN] = "forbidden",
        [SL_ERROR_UNAUTHORIZED] = "unauthorized",
        [SL_ERROR_CONFLICT] = "conflict",
        [SL_ERROR_UNAVAILABLE] = "unavailable",
    };
    const struct sl_node *errors = sl_node_get(b->root, "errors");

    for (int i = 0; i < SL_ERRORS; i++) {
        const struct sl_node *node = sl_node_get(errors, names[i]);
        const struct sl_node *body = sl_node_get(node, "body");
        struct sl_error_form *form = &b->policy->errors[i];
        int err;

        form->status = sl_build_status(b, node, 0);
        if (!body || body->kind == SL_NODE_EMPTY)
            continue;
        err = sl_text_read_body(body, b->arena, &form->body, b->report);
        if (err == SLUICE_ENOMEM)
            b->no_memory = true;
        form->has_body = !err;
    }
}
