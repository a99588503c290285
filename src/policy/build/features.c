/* features.c -- `features`: kill switches, of the file and the environment. */
#include "policy/build/build.h"

#include <stdio.h>
#include <string.h>

#define VARIABLE     "FEATURE_"
#define VARIABLE_MAX (sizeof(VARIABLE) + SL_NAME_MAX)

/* FEATURE_NAME: in upper case, with _ for - and . */
static void name_variable(struct sl_str name, char out[VARIABLE_MAX])
{
    size_t at = strlen(VARIABLE);

    memcpy(out, VARIABLE, at);
    for (size_t i = 0; i < name.len && at < VARIABLE_MAX - 1; i++) {
        char c = name.at[i];

        if (c >= 'a' && c <= 'z')
            c = (char)(c - 'a' + 'A');
        out[at++] = (char)(c == '-' || c == '.' ? '_' : c);
    }
    out[at] = '\0';
}

/* Is `value` one of the three words? */
static bool is_one(const char *value, const char *const words[3])
{
    for (int i = 0; i < 3; i++)
        if (sl_str_eq_nocase(sl_str_c(value), sl_str_c(words[i])))
            return true;
    return false;
}

/* The environment goes before the file: it is what one reaches for at night. */
static void ask_environment(struct sl_build *b, const struct sl_node *node,
                            struct sl_feature *feature)
{
    static const char *const on[] = {"true", "on", "1"};
    static const char *const off[] = {"false", "off", "0"};
    const struct sl_yaml_options *from = &b->options->substitute;
    char name[VARIABLE_MAX];
    const char *value;

    name_variable(feature->name, name);
    value = from->env ? from->env(from->ctx, name) : NULL;
    if (!value)
        return;
    if (is_one(value, on))
        feature->enabled = true;
    else if (is_one(value, off))
        feature->enabled = false;
    else
        sl_report_error(b->report, SL_AT_KEY(node),
                        "Environment variable %s has the value \"%.40s\". "
                        "Write true or false",
                        name, value);
}

static void read_feature(struct sl_build *b, const struct sl_node *node,
                         struct sl_feature *feature)
{
    bool good = sl_build_key_name(b, "a feature", node);

    feature->name = sl_build_keep(b, node->key);
    feature->enabled = sl_build_bool(node, "enabled", true);
    feature->retry_after =
        sl_build_duration(b, node, "retry_after", SL_NS_NONE);
    sl_build_message(b, node, &feature->message);
    if (good)
        ask_environment(b, node, feature);
}

/* Two features that one variable switches can't be told apart at night. */
static void refuse_same_variables(struct sl_build *b,
                                  const struct sl_node *node)
{
    struct sl_names names;
    char text[VARIABLE_MAX];
    unsigned i = 0;

    if (!sl_names_init(&names, node->count, false, b->scratch)) {
        b->no_memory = true;
        return;
    }
    for (const struct sl_node *n = node->child; n; n = n->next, i++) {
        char *copy;

        name_variable(n->key, text);
        copy = sl_arena_copy(b->scratch, sl_str_c(text));
        if (!copy) {
            b->no_memory = true;
            return;
        }
        sl_names_add(&names, sl_str_c(copy), i, SL_AT_KEY(n));
    }
    sl_names_close(&names);
    for (i = 1; i < names.count; i++)
        if (sl_names_again(&names, i))
            sl_report_error(b->report, names.list[i].place,
                            "Environment variable %s switches this feature "
                            "and the feature on line %u. Rename one of them",
                            names.list[i].name.at,
                            names.list[i - 1].place.line);
}

void sl_build_features(struct sl_build *b)
{
    const struct sl_node *node = sl_node_get(b->root, "features");
    struct sl_feature *list;
    unsigned i = 0;

    b->box->features.unsure = sl_build_refused(node);
    if (!node || node->kind != SL_NODE_MAP)
        return;
    if (node->count > SL_FEATURES_MAX) {
        sl_report_error(b->report, SL_AT_KEY(node),
                        "%u features are too many. The maximum is %d",
                        node->count, SL_FEATURES_MAX);
        b->box->features.unsure = true;
        return;
    }
    list = sl_build_take(b, node->count + 1, sizeof(*list));
    if (!list ||
        !sl_names_init(&b->box->features, node->count, false, b->arena)) {
        b->no_memory = true;
        return;
    }
    for (const struct sl_node *n = node->child; n; n = n->next, i++) {
        read_feature(b, n, &list[i]);
        sl_names_add(&b->box->features, list[i].name, i, SL_AT_KEY(n));
    }
    sl_names_close(&b->box->features);
    b->policy->features = list;
    b->policy->feature_count = i;
    refuse_same_variables(b, node);
}
