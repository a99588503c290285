/* conditions.c -- `when` and `exempt`: conditions on a request.
 *
 *     when:
 *       - plan: [pro, team]
 *       - header.x-client: mobile*
 *         method: POST
 *     exempt:
 *       - ip: ${FILE:./partners.txt}
 *
 * A condition holds if one of its values matches. An item holds if all of its
 * conditions do. `when` needs all items, `exempt` one.
 */
#include <stdio.h>
#include <string.h>

#include "policy/policy_int.h"

#define CONDITIONS_MAX 16   /* of one list */
#define VALUES_MAX     64   /* of one condition */
#define NETS_MAX       1000 /* of one condition */

static const struct {
    const char *word;
    enum sl_condition_of of;
} subjects[] = {
    {"ip",     SL_CONDITION_IP    },
    {"method", SL_CONDITION_METHOD},
    {"plan",   SL_CONDITION_PLAN  },
    {"role",   SL_CONDITION_ROLE  },
    {"user",   SL_CONDITION_USER  },
    {"org",    SL_CONDITION_ORG   },
};

static bool refuse_claim(struct sl_build *b, const struct sl_yaml_node *node)
{
    return b->policy->identity.jwt.written ||
           sl_build_key_error(b, node,
                              "A claim needs verified tokens. Write "
                              "`identity: jwt`" SL_HINT
                              "jwt: { jwks: \"file:./jwks.json\" }");
}

/* What the key names: plan, header.x-client, jwt.tier. */
static bool read_subject(struct sl_build *b, const struct sl_yaml_node *node,
                         struct sl_condition *ret)
{
    struct sl_yaml_node item = *node;

    item.text = ret->key = sl_build_keep(b, node->key);
    item.place = node->key_place;
    for (size_t i = 0; i < SL_LEN(subjects); i++)
        if (sl_str_eq(node->key, sl_str_c(subjects[i].word))) {
            ret->of = subjects[i].of;
            return true;
        }
    if (sl_str_begins(node->key, SL_STR("header."))) {
        ret->of = SL_CONDITION_HEADER;
        ret->name = sl_build_header(b, &item);
        return ret->name.len > 0;
    }
    if (sl_str_begins(node->key, SL_STR("jwt.")) && node->key.len > 4) {
        ret->of = SL_CONDITION_CLAIM;
        ret->name = sl_str_from(ret->key, 4);
        return refuse_claim(b, node);
    }
    return sl_build_key_error(b, node,
                              "Unknown condition \"%.64s\". Valid conditions: "
                              "ip, method, plan, role, user, org, header.NAME "
                              "and jwt.CLAIM",
                              sl_build_shown(&item).text);
}

/* ---- networks: separated by blanks, commas or new lines; # begins a comment
 * up to the end of the line. ---- */

static bool is_between(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == ',';
}

/* The next word, or an empty slice. */
static struct sl_str next_word(struct sl_str *rest)
{
    struct sl_str word;

    while (rest->len > 0 && (is_between(rest->at[0]) || rest->at[0] == '#')) {
        const char *end =
            rest->at[0] == '#' ? memchr(rest->at, '\n', rest->len) : rest->at;

        *rest =
            sl_str_from(*rest, end ? (size_t)(end - rest->at) + 1 : rest->len);
    }
    word = (struct sl_str){rest->at, 0};
    while (word.len < rest->len && !is_between(rest->at[word.len]) &&
           rest->at[word.len] != '#')
        word.len++;
    *rest = sl_str_from(*rest, word.len);
    return word;
}

static bool read_nets(struct sl_build *b, const struct sl_yaml_node *item,
                      struct sl_condition *ret, struct sl_net *nets)
{
    struct sl_str rest = item->text, word;
    struct sl_yaml_node shown = *item;

    while ((word = next_word(&rest)).len > 0) {
        shown.text = word;
        if (ret->net_count == NETS_MAX)
            return sl_build_error(b, item,
                                  "A condition can have at most %d networks. "
                                  "Join neighbours into larger ones",
                                  NETS_MAX);
        if (sl_net_parse(word, &nets[ret->net_count])) {
            ret->net_count++;
            continue;
        }
        if (item->substituted) /* it is not shown; say where to look */
            return sl_build_error(b, item,
                                  "Entry %u of the list is not an address or a "
                                  "network. Write it like 10.0.0.0/8 or ::1",
                                  ret->net_count + 1);
        return sl_build_error(b, item,
                              "\"%.64s\" is not an address or a network. "
                              "Write it like 10.0.0.0/8 or ::1",
                              sl_build_shown(&shown).text);
    }
    return true;
}

/* ---- values ---- */

static bool read_plan(struct sl_build *b, const struct sl_yaml_node *item,
                      struct sl_condition *ret)
{
    int plan = sl_build_find(b, &b->box->plans, item, "plan");

    if (plan < 0)
        return false;
    ret->plans[plan / 64] |= UINT64_C(1) << plan % 64;
    return true;
}

/* Methods beyond those of routes are accepted: those that IANA has registered,
 * and PURGE of caches. Warns of what is none: its condition never holds. */
static void check_method(struct sl_build *b, const struct sl_yaml_node *item)
{
    static const char *const usual[] = {"GET",     "HEAD",    "POST",
                                        "PUT",     "DELETE",  "PATCH",
                                        "OPTIONS", "CONNECT", "TRACE"};
    static const char *const others[] = {"ACL",
                                         "BASELINE-CONTROL",
                                         "BIND",
                                         "CHECKIN",
                                         "CHECKOUT",
                                         "COPY",
                                         "LABEL",
                                         "LINK",
                                         "LOCK",
                                         "MERGE",
                                         "MKACTIVITY",
                                         "MKCALENDAR",
                                         "MKCOL",
                                         "MKREDIRECTREF",
                                         "MKWORKSPACE",
                                         "MOVE",
                                         "ORDERPATCH",
                                         "PRI",
                                         "PROPFIND",
                                         "PROPPATCH",
                                         "PURGE",
                                         "QUERY",
                                         "REBIND",
                                         "REPORT",
                                         "SEARCH",
                                         "UNBIND",
                                         "UNCHECKOUT",
                                         "UNLINK",
                                         "UNLOCK",
                                         "UPDATE",
                                         "UPDATEREDIRECTREF",
                                         "VERSION-CONTROL"};
    const char *meant;

    if (sl_method_of(item->text) != SL_METHOD_OTHER)
        return;
    for (size_t i = 0; i < SL_LEN(others); i++)
        if (sl_str_eq_nocase(item->text, sl_str_c(others[i])))
            return;
    meant = sl_str_nearest(item->text, usual, SL_LEN(usual));
    sl_report_warning(b->report, item->place,
                      "Unknown method \"%.64s\", so the condition never holds "
                      "for usual clients" SL_HINT "%s",
                      sl_build_shown(item).text, meant ? meant : "GET");
}

/* The values as they are written, for the print. */
static void read_values(struct sl_build *b, const struct sl_yaml_node *node,
                        struct sl_condition *ret)
{
    struct sl_str *values;
    struct sl_net *nets = NULL;

    if (!sl_build_short(b, node, VALUES_MAX, "values of one condition"))
        return;
    values = sl_build_take(b, sl_build_most(node) + 1, sizeof(*values));
    if (ret->of == SL_CONDITION_IP)
        nets = sl_build_take(b, NETS_MAX, sizeof(*nets));
    if (!values || (ret->of == SL_CONDITION_IP && !nets))
        return;
    ret->values = values;
    ret->nets = nets;
    for (const struct sl_yaml_node *item = sl_build_first(node); item;
         item = sl_build_next(node, item)) {
        if (ret->of == SL_CONDITION_PLAN && !read_plan(b, item, ret))
            continue;
        if (nets && !read_nets(b, item, ret, nets))
            continue;
        if (ret->of == SL_CONDITION_METHOD)
            check_method(b, item);
        ret->is_hidden |= item->substituted;
        values[ret->value_count++] = sl_build_keep(b, item->text);
    }
    if (!sl_build_first(node))
        sl_build_error(b, node, "A condition without values never holds");
}

/* ---- lists ---- */

static void read_item(struct sl_build *b, const struct sl_yaml_node *item,
                      unsigned index, struct sl_conditions *ret)
{
    struct sl_condition *list = (struct sl_condition *)(uintptr_t)ret->list;

    if (item->kind == SL_NODE_MAP && item->count == 0)
        sl_build_error(b, item,
                       "An item without conditions always holds. Name what "
                       "must hold" SL_HINT "- plan: [pro]");
    for (const struct sl_yaml_node *n = item->child; n; n = n->next) {
        struct sl_condition *condition = &list[ret->count];

        if (ret->count == CONDITIONS_MAX) {
            sl_build_key_error(b, n, "At most %d conditions are possible",
                               CONDITIONS_MAX);
            return;
        }
        *condition = (struct sl_condition){.item = index};
        if (!read_subject(b, n, condition))
            continue;
        if (!sl_build_refused(n))
            read_values(b, n, condition);
        ret->count++;
    }
}

void sl_fill_conditions(struct sl_build *b, const struct sl_schema_key *row,
                        const struct sl_yaml_node *node, void *into)
{
    struct sl_conditions *ret = sl_schema_field(row, into);
    unsigned index = 0;

    if (!node)
        return;
    ret->list = sl_build_take(b, CONDITIONS_MAX, sizeof(*ret->list));
    if (!ret->list)
        return;
    for (const struct sl_yaml_node *item = node->child; item; item = item->next)
        read_item(b, item, index++, ret);
    ret->next = b->policy->conditions;
    b->policy->conditions = ret;
}

void sl_print_conditions(struct sl_printer *p, const struct sl_schema_key *row,
                         const void *from)
{
    const struct sl_conditions *conditions = sl_schema_const_field(row, from);
    const struct sl_condition *list = conditions->list;
    char key[SL_NAME_MAX + 16];

    if (conditions->count == 0)
        return;
    sl_print_open(p, sl_str_c(row->name));
    for (unsigned i = 0; i < conditions->count; i++) {
        if (i == 0 || list[i].item != list[i - 1].item)
            sl_print_open_item(p, list[i].item);
        snprintf(key, sizeof(key), "%.*s", SL_STR_ARG(list[i].key));
        sl_print_list(p, key, sl_print_text_item, list[i].values,
                      list[i].value_count);
        if (i + 1 == conditions->count || list[i].item != list[i + 1].item)
            sl_print_close_item(p);
    }
    sl_print_close(p);
}
