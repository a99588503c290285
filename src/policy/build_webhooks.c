/* build_webhooks.c -- `webhooks`: webhooks that go out. */
#include "policy/policy_int.h"
#include "policy/schema.h"

/* Deliveries to a destination are evenly spaced, so that no window of the
 * period has more than the count; with a burst they are not. */
static int make_pace(struct sl_rate rate, struct sl_webhooks_conf *ret,
                     struct sl_diag *diag)
{
    if (rate.form == SL_RATE_UNLIMITED) {
        ret->unlimited = true;
        return 0;
    }
    if (rate.form != SL_RATE_PER)
        return sl_diag_error(diag, SLUICE_ECONF,
                             "it must be a count for a period, or unlimited");
    if (!rate.has_burst) {
        rate.has_burst = true;
        rate.burst = 1;
    }
    ret->unlimited = false;
    return sl_limit_init(&ret->pace, SL_BUCKET, &rate, NULL, diag);
}

void sl_fill_pace(struct sl_build *b, const struct sl_schema_key *row,
                  const struct sl_yaml_node *node, void *into)
{
    struct sl_webhooks_conf *conf = into;
    struct sl_diag diag = {0};
    struct sl_rate rate;
    int err;

    (void)row;
    if (sl_parse_rate(SL_STR("5/10s"), &rate, &diag) ||
        make_pace(rate, conf, &diag))
        b->no_memory = true; /* cannot happen */
    if (!node)
        return;
    err = sl_parse_rate(node->text, &rate, &diag);
    if (!err)
        err = make_pace(rate, conf, &diag);
    if (err)
        sl_build_error(b, node,
                       "`destination`: %s" SL_HINT "destination: 5/10s",
                       diag.sentence);
    conf->destination = sl_build_keep(b, node->text);
}

static bool read_port(struct sl_build *b, const struct sl_yaml_node *item,
                      void *list, unsigned i, const void *ctx)
{
    uint64_t port = 0;

    (void)ctx;
    if (sl_parse_number(item->text, &port, NULL) || port == 0 || port > 65535)
        return sl_build_error(b, item,
                              "\"%.64s\" is not a port. Write a number from 1 "
                              "to 65535" SL_HINT "ports: [8443]",
                              sl_build_shown(item).text);
    ((unsigned *)list)[i] = (unsigned)port;
    return true;
}

static struct sl_str print_port(const void *list, unsigned i, char *room)
{
    return (struct sl_str){room, sl_digits(((const unsigned *)list)[i], room)};
}

const struct sl_list_form sl_list_ports = {
    .most = 64,
    .items = "ports",
    .size = sizeof(unsigned),
    .read = read_port,
    .print = print_port,
};

/* After the limits: `quota` is one of them. */
void sl_build_webhooks(struct sl_build *b)
{
    const struct sl_yaml_node *node =
        sl_build_get(sl_build_get(b->root, "webhooks"), "quota");
    struct sl_webhooks_conf *conf = &b->policy->webhooks;
    int index = node ? sl_build_find(b, &b->box->rules, node, "limit") : -1;
    const struct sl_rule *rule = index >= 0 ? &b->rules[index] : NULL;

    if (!rule)
        return;
    if (rule->per_count != 1 || rule->per[0] != SL_SCOPE_ORG)
        sl_build_error(b, node,
                       "`quota` counts the messages of an organisation, and "
                       "limit \"%.64s\" is not per org. Write `per: org` there",
                       rule->name.at);
    else
        conf->quota_rule = rule;
}
