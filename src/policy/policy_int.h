/* policy_int.h -- from checked nodes to a policy, and back to text.
 *
 * The build reads the file part by part, in the order of sl_build_general() and
 * the functions below it. An invalid value is reported and left out, and the
 * build goes on. A policy with errors is freed at the end; until then it is
 * incomplete, but has no invalid pointer.
 *
 * The schema has reported invalid nodes and made them empty. The build does not
 * report them again, nor errors that only follow from them.
 *
 * Without memory, `no_memory` is set, and the build ends after the part.
 */
#ifndef SL_POLICY_POLICY_INT_H
#define SL_POLICY_POLICY_INT_H

#include <stdatomic.h>

#include "base/arena.h"
#include "base/parse.h"
#include "base/zone.h"
#include "policy/diagnostics.h"
#include "policy/policy.h"
#include "policy/schema.h"

/* ---- sorted names and their indices: added, closed, then searched. Plans
 * ignore case. */

struct sl_name {
    struct sl_str name; /* NUL-terminated; borrowed */
    unsigned index;
    struct sl_source_pos place;
};

struct sl_names {
    struct sl_name *list; /* once closed: sorted by name, then position */
    const char **words;   /* for suggestions */
    unsigned count, room;
    bool nocase;
    bool unsure; /* some could not be read */
};

/* Make room for `room` names. False without memory; b->no_memory is set. */
SL_MUST_USE bool sl_names_init(struct sl_names *names, struct sl_build *b,
                               struct sl_arena *arena, unsigned room,
                               bool nocase);

/* Does nothing without room. */
void sl_names_add(struct sl_names *names, struct sl_str name, unsigned index,
                  struct sl_source_pos place);

void sl_names_close(struct sl_names *names);

/* The index of the name, or -1. */
int sl_names_find(const struct sl_names *names, struct sl_str name);

/* Once closed: does one begin with `prefix`? */
bool sl_names_begin(const struct sl_names *names, struct sl_str prefix);

/* Once closed: does list[i] have the name of list[i - 1]? */
bool sl_names_again(const struct sl_names *names, unsigned i);

/* Limits of the memory and the time that a file of 1 MB can take. */
#define SL_PLANS_MAX      256
#define SL_PLAN_NAMES_MAX 4096 /* plans and aliases */
#define SL_ROUTES_MAX     10000
#define SL_FEATURES_MAX   1024
#define SL_NAME_MAX       64 /* bytes of a name */

struct sl_policy_zone {
    struct sl_policy_zone *next;
    struct sl_str name;
    struct sl_zone zone;
};

/* A policy, its memory and its names. `policy` is the first member: pointers
 * are converted. */
struct sl_policy_box {
    struct sl_policy policy;
    atomic_uint refs;
    struct sl_alloc alloc;
    struct sl_arena arena;
    struct sl_policy_zone *zones; /* shifts from alloc, the rest in arena */
    struct sl_names plans, rules, features, jobs, scopes;
};

struct sl_build {
    struct sl_policy_box *box;
    struct sl_policy *policy; /* &box->policy */
    struct sl_arena *arena;   /* &box->arena */
    struct sl_arena *scratch; /* of the nodes; freed after the build */
    struct sl_report *report;
    const struct sl_yaml_node *root;
    const struct sl_policy_options *options;
    bool no_memory;

    bool has_plans;                    /* some were written */
    struct sl_rule *rules;             /* policy->rules, while they are made */
    const struct sl_yaml_node **keys;  /* by rule: `key` as written, or NULL */
    bool *sound;                       /* by rule: its key can be judged */
    const struct sl_yaml_node *limits; /* of the route that is read */
};

/* ---- memory ---- */

/* `count` items of `size` bytes, zeroed; NULL: no_memory is set. */
void *sl_build_take(struct sl_build *b, size_t count, size_t size);

/* The same, until the build ends. */
void *sl_build_borrow(struct sl_build *b, size_t count, size_t size);

/* A NUL-terminated copy; empty without memory. */
struct sl_str sl_build_keep(struct sl_build *b, struct sl_str text);

/* ---- values ---- */

/* The child of `map`, or NULL if it is missing or was refused. */
const struct sl_yaml_node *sl_build_get(const struct sl_yaml_node *map,
                                        const char *key);

/* Did the schema refuse the node? */
bool sl_build_refused(const struct sl_yaml_node *node);

/* The scalar for a message; "..." if it came from ENV or FILE. */
struct sl_quoted sl_build_shown(const struct sl_yaml_node *node);

/* Did a parser that read `node` succeed? If not, its error is reported. */
bool sl_build_ok(struct sl_build *b, const struct sl_yaml_node *node, int err,
                 const struct sl_diag *diag);

/* A number in [least, most]; `preset` if the node is NULL or invalid. */
uint64_t sl_build_number(struct sl_build *b, const struct sl_yaml_node *node,
                         uint64_t least, uint64_t most, uint64_t preset);

/* A duration; `preset` if the node is NULL or invalid. */
sl_ns sl_build_duration(struct sl_build *b, const struct sl_yaml_node *node,
                        sl_ns preset);

/* The scalars of a list; a scalar is a list of itself. */
const struct sl_yaml_node *sl_build_first(const struct sl_yaml_node *node);
const struct sl_yaml_node *sl_build_next(const struct sl_yaml_node *node,
                                         const struct sl_yaml_node *item);

/* The maximum number of these scalars. */
unsigned sl_build_most(const struct sl_yaml_node *node);

/* Has the list at most `most` items? If not, it is reported; `what` is
 * "roles". */
bool sl_build_short(struct sl_build *b, const struct sl_yaml_node *list,
                    unsigned most, const char *what);

/* Is the text of `item` in the list before it? Then it is reported; `what` is
 * "Role". */
bool sl_build_twice(struct sl_build *b, const struct sl_yaml_node *list,
                    const struct sl_yaml_node *item, const char *what);

/* The items of a list as an array; NULL if the node is NULL or too long.
 * `*count` is increased. `ctx` is passed to form->read(). */
void *sl_build_list(struct sl_build *b, const struct sl_yaml_node *node,
                    const struct sl_list_form *form, const void *ctx,
                    unsigned *count);

/* Is the scalar, or the key, [A-Za-z0-9][A-Za-z0-9._-]{0,63}? If not, it is
 * reported; `what` is "a limit". Names are used in headers, metrics and keys.
 */
bool sl_build_name(struct sl_build *b, const char *what,
                   const struct sl_yaml_node *node);
bool sl_build_key_name(struct sl_build *b, const char *what,
                       const struct sl_yaml_node *node);

/* The index of the name in `item`; -1 if there is none, which is reported
 * unless the names are unsure. `what` is "limit". */
int sl_build_find(struct sl_build *b, const struct sl_names *names,
                  const struct sl_yaml_node *item, const char *what);

/* The name that was probably meant; "" if there is none, or if the report is
 * full. */
const char *sl_build_guess(struct sl_build *b, const struct sl_names *names,
                           struct sl_str typo);

/* Report an error at the node, or at its key. Returns false. */
bool sl_build_error(struct sl_build *b, const struct sl_yaml_node *node,
                    const char *fmt, ...) SL_PRINTF(3, 4);
bool sl_build_key_error(struct sl_build *b, const struct sl_yaml_node *node,
                        const char *fmt, ...) SL_PRINTF(3, 4);

/* ---- shared by several parts ---- */

/* The same limit without a maximum, for overage. */
struct sl_limit sl_build_open(const struct sl_limit *limit);

/* The attribute of a list of sources decides which kinds are valid. */
enum sl_sources_of {
    SL_OF_NAMES,
    SL_OF_ANONYMOUS,
    SL_OF_TOKENS,
    SL_OF_PLAN,
    SL_OF_ROLE,
    SL_OF_PRECHECKS, /* headers only */
};

/* The name in "header.NAME"; "" if it is invalid, which is reported. */
struct sl_str sl_build_header(struct sl_build *b,
                              const struct sl_yaml_node *item);

/* The bits of a list of words, by the order of the words in the row; form->read
 * is not used. False if the node is NULL or the list is too long. */
bool sl_build_bits(struct sl_build *b, const struct sl_schema_key *row,
                   const struct sl_yaml_node *node,
                   const struct sl_list_form *form, unsigned *ret);

/* ---- the parts, in their order: checks of several parts and external values
 * come last. */

void sl_build_general(struct sl_build *b);
void sl_build_plans(struct sl_build *b);
void sl_build_identity(struct sl_build *b);
void sl_build_features(struct sl_build *b);
void sl_build_limits(struct sl_build *b);
void sl_build_routes(struct sl_build *b);
void sl_build_errors(struct sl_build *b);
void sl_build_webhooks(struct sl_build *b);
void sl_build_checks(struct sl_build *b);
void sl_build_outside(struct sl_build *b);

/* ---- the reload diff ---- */

struct sl_changes {
    const struct sl_policy *old, *new;
    struct sl_writer w;
};

/* Append a line. A long line is cut and ends in "...". */
void sl_diff_line(struct sl_changes *c, const char *fmt, ...) SL_PRINTF(2, 3);

/* The JSON pointer of `body.POINTER`; "" after an error. */
struct sl_str sl_build_pointer(struct sl_build *b,
                               const struct sl_yaml_node *node,
                               struct sl_str pointer);

/* Warn if a request costs more than a plan can ever hold: it never passes. */
/* Refuses values of a posted policy that are substituted, but by the active
 * policy under the same key. */
void sl_build_posted(struct sl_build *b, struct sl_yaml_node *root);

void sl_build_warn_of_cost(struct sl_build *b, const struct sl_yaml_node *node,
                           const struct sl_rule *rule, uint64_t cost);

/* `cost` of a route; route_cost.c. */
void sl_build_costs(struct sl_build *b, const struct sl_yaml_node *node,
                    const struct sl_route *route, struct sl_prechecks *guards);
void sl_print_costs(struct sl_printer *p, const struct sl_prechecks *guards);

/* ---- hooks of schema.def: see struct sl_schema_key ---- */

typedef void sl_fill_f(struct sl_build *b, const struct sl_schema_key *row,
                       const struct sl_yaml_node *node, void *into);
typedef void sl_print_f(struct sl_printer *p, const struct sl_schema_key *row,
                        const void *from);

sl_fill_f sl_fill_address, sl_fill_algorithms, sl_fill_anonymous, sl_fill_bound,
    sl_fill_age, sl_fill_code, sl_fill_conditions, sl_fill_cost,
    sl_fill_deadline, sl_fill_dialects, sl_fill_feature, sl_fill_header,
    sl_fill_hold, sl_fill_jwt, sl_fill_later, sl_fill_lease, sl_fill_listen,
    sl_fill_message, sl_fill_mode, sl_fill_pace, sl_fill_permit_hold,
    sl_fill_pick, sl_fill_penalty, sl_fill_prefix, sl_fill_proxied,
    sl_fill_hosts, sl_fill_span, sl_fill_subjects, sl_fill_thresholds,
    sl_fill_tls, sl_fill_token, sl_fill_token_sources, sl_fill_unit,
    sl_fill_url;

/* sl_fill_later does nothing: other code fills the field. */

sl_print_f sl_print_anchor, sl_print_backlog_name, sl_print_bits,
    sl_print_bound, sl_print_conditions, sl_print_cost, sl_print_dedupe_key,
    sl_print_default, sl_print_error_body, sl_print_errors, sl_print_feature,
    sl_print_features, sl_print_header, sl_print_inherited, sl_print_jwt_secret,
    sl_print_kind, sl_print_lease, sl_print_limits, sl_print_message,
    sl_print_per, sl_print_pick, sl_print_plans, sl_print_prechecks,
    sl_print_joined, sl_print_rates, sl_print_routes, sl_print_scopes,
    sl_print_target, sl_print_thresholds, sl_print_token, sl_print_unit,
    sl_print_url, sl_print_webhook_secret, sl_print_zone;

extern const struct sl_list_form sl_list_aliases, sl_list_audiences,
    sl_list_fingerprint, sl_list_limits, sl_list_nets, sl_list_ports,
    sl_list_replaces, sl_list_roles, sl_list_sources, sl_list_tenants,
    sl_list_trusted;

/* ---- the printer: keys, values and lists as YAML.
 *
 * A printer has a position in the file, by which external values are found and
 * shown as written. The first error stays in `w`.
 */

#define SL_PRINT_PATH 512 /* six names and separators */

#define SL_PRINT_SECRET "(secret)"

struct sl_printer {
    const struct sl_policy *policy;
    struct sl_writer w;
    unsigned depth; /* of maps */
    bool item;      /* the next key is the first of an item of a list */
    bool any_order; /* the next list does not have the order of the file */
    bool raw;       /* print values, not ${...}, and secrets, to compare */
    char path[SL_PRINT_PATH];
    size_t path_len;
};

/* Append a text, with quotes if it needs them; inside of `flow` brackets more
 * texts do. */
void sl_print_scalar(struct sl_writer *w, struct sl_str text, bool flow);

/* Append a body as YAML on one line. */
void sl_print_body(struct sl_writer *w, const struct sl_yaml_node *node);

/* Begin and end the map `key`. */
void sl_print_open(struct sl_printer *p, struct sl_str key);
void sl_print_close(struct sl_printer *p);

/* The same for a map of the list that was opened last. */
void sl_print_open_item(struct sl_printer *p, unsigned index);
void sl_print_close_item(struct sl_printer *p);

/* `key: value`: a text, a number, or YAML. */
void sl_print_text(struct sl_printer *p, const char *key, struct sl_str text);
void sl_print_number(struct sl_printer *p, const char *key, uint64_t number);
void sl_print_yaml(struct sl_printer *p, struct sl_str key, struct sl_str yaml);

/* A list of texts, on one line if it fits. item(ctx, i, room) is the ith; it
 * can use `room`. */
#define SL_PRINT_ITEM 320
typedef struct sl_str sl_print_item_f(const void *ctx, unsigned i, char *room);
void sl_print_list(struct sl_printer *p, const char *key, sl_print_item_f *item,
                   const void *ctx, unsigned count);

/* `ctx` is an array of texts. */
sl_print_item_f sl_print_text_item;

/* "header.NAME", in room[SL_PRINT_ITEM]. */
struct sl_str sl_print_header_name(struct sl_str name, char *room);

/* `key: ` and what was written. */
void sl_print_from(struct sl_printer *p, struct sl_str key,
                   const struct sl_external_value *from);

/* The external value at the printer's position, or at `key` there; or NULL. */
const struct sl_external_value *sl_print_here(const struct sl_printer *p);
const struct sl_external_value *sl_print_at(struct sl_printer *p,
                                            struct sl_str key);

/* Is `key` external at the top of the file, and not here? Then a value that is
 * equal to it is left out. */
bool sl_print_follows(struct sl_printer *p, const char *key);

/* The external values below the printer's position, by path. */
const struct sl_external_value *sl_print_below(const struct sl_printer *p,
                                               unsigned *count);

#endif
