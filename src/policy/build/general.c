/* general.c -- the keys at the top of the file, and what several parts have:
 * dialects, statuses, messages. */
#include "policy/build/build.h"

#include <string.h>

#define DIALECTS_PRESET (SL_DIALECT_X_RATELIMIT | SL_DIALECT_IETF)

/* In the order of the bits; `none` is no bit. */
static const char *const dialects[] = {
    "x-ratelimit", "ietf", "ietf-06", "github", "openai", "kong", "none",
};
#define NONE (SL_LEN(dialects) - 1)

/* Which of the dialects; the schema has let no other word through. */
static int find_dialect(const struct sl_node *item)
{
    int i = 0;

    while (i < (int)NONE && !sl_str_eq(item->text, sl_str_c(dialects[i])))
        i++;
    return i;
}

int sl_build_dialects(struct sl_build *b, const struct sl_node *node,
                      int preset)
{
    const struct sl_node *item, *none = NULL;
    int bits = 0;

    if (!node || node->kind == SL_NODE_EMPTY ||
        !sl_build_short(b, node, SL_LEN(dialects), "dialects"))
        return preset;
    for (item = sl_build_first(node); item; item = sl_build_next(node, item)) {
        int i = find_dialect(item);

        if (sl_build_twice(b, node, item, "Dialect"))
            continue;
        if (i == NONE)
            none = item;
        else
            bits |= 1 << i;
    }
    if (none && bits)
        sl_report_error(b->report, SL_AT(none),
                        "\"none\" excludes all other dialects. Remove it, or "
                        "remove the others");
    return bits;
}

int sl_build_status(struct sl_build *b, const struct sl_node *map, int preset)
{
    return (int)sl_build_number(b, map, "status", 400, 599, (uint64_t)preset);
}

void sl_build_message(struct sl_build *b, const struct sl_node *map,
                      struct sl_text *ret)
{
    const struct sl_node *node = sl_build_scalar(map, "message");
    struct sl_diag diag = {0};

    if (node)
        (void)sl_build_ok(
            b, node, sl_text_read(node->text, b->arena, ret, &diag), &diag);
}

void sl_build_general(struct sl_build *b)
{
    const struct sl_node *env = sl_build_scalar(b->root, "env");
    struct sl_policy *policy = b->policy;

    policy->env = SL_STR("default");
    if (env && sl_build_name(b, "an environment", env))
        policy->env = sl_build_keep(b, env->text);
    policy->enabled = sl_build_bool(b->root, "enabled", true);
    policy->mode =
        (enum sl_mode)sl_build_choice(b->root, "mode", sl_mode_words, 3, 0);
    policy->reset =
        (enum sl_reset)sl_build_choice(b->root, "reset", sl_reset_words, 2, 0);
    policy->dialects =
        sl_build_dialects(b, sl_node_get(b->root, "headers"), DIALECTS_PRESET);
    sl_build_hold_max(b);
    policy->file = sl_build_keep(b, sl_str_c(b->report->file));
}
