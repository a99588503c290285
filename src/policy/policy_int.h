/* policy_int.h -- from checked nodes to a policy; for this folder and policy.c.
 *
 * A build goes through the file part by part, in the order of the functions at
 * the end: each needs what those before it have made. Whatever is wrong is put
 * into the report and left out, and the build goes on, so that a file's
 * mistakes are all found at once. In the end a policy that had errors is
 * thrown away; until then it may have holes, but no pointer in it is wild.
 *
 * A node that is empty where it should not be was refused by the schema, which
 * has said so: such nodes are passed over in silence here. So is whatever only
 * follows from a mistake that was said.
 *
 * Without memory `no_memory` is set and stays so. Parts look at it when they
 * have made something that they need; the build ends after the part.
 */
#ifndef SL_POLICY_POLICY_INT_H
#define SL_POLICY_POLICY_INT_H

#include <stdatomic.h>

#include "base/arena.h"
#include "base/parse.h"
#include "base/zone.h"
#include "policy/policy.h"
#include "policy/report.h"

/* ---- names in order, and what they stand for.
 *
 * Filled, then closed, then asked: finding costs a few comparisons however
 * many there are. Plans compare without case, all others exactly.
 */

struct sl_name {
    struct sl_str name; /* NUL-terminated; borrowed */
    unsigned index;
    struct sl_source_pos place;
};

struct sl_names {
    struct sl_name *list; /* once closed: in order, of equals the first first */
    const char **words;   /* as they came, for suggestions */
    unsigned count, room;
    bool nocase;
    bool unsure; /* there may be more that could not be read */
};

/* Make room for `room` names. False without memory. */
SL_MUST_USE bool sl_names_init(struct sl_names *names, unsigned room,
                               bool nocase, struct sl_arena *arena);

/* Add one. Beyond the room nothing happens. */
void sl_names_add(struct sl_names *names, struct sl_str name, unsigned index,
                  struct sl_source_pos place);

/* Put them in order. */
void sl_names_close(struct sl_names *names);

/* What the name stands for, or -1. */
int sl_names_find(const struct sl_names *names, struct sl_str name);

/* Once closed: does list[i] have the name of list[i - 1]? */
bool sl_names_again(const struct sl_names *names, unsigned i);

/* The name that was most likely meant, or NULL. */
const char *sl_names_nearest(const struct sl_names *names, struct sl_str typo);

/* Ceilings, so that a file of a megabyte can neither make a policy of
 * gigabytes nor take minutes to check. */
#define SL_PLANS_MAX      256
#define SL_PLAN_NAMES_MAX 4096 /* plans and aliases */
#define SL_ROUTES_MAX     10000
#define SL_FEATURES_MAX   1024
#define SL_NAME_MAX       64 /* bytes of a name */

/* A zone that the policy's quotas follow. */
struct sl_policy_zone {
    struct sl_policy_zone *next;
    struct sl_str name;
    struct sl_zone zone;
};

/* What is around a policy: the memory it lives in, who uses it, and its names
 * in order. `policy` comes first, so that a pointer to it is one to this. */
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
    struct sl_arena *scratch; /* the nodes'; dies with the build */
    struct sl_report *report;
    const struct sl_yaml_node *root;
    const struct sl_policy_options *options;
    bool no_memory;

    bool has_plans;                   /* some were written */
    struct sl_rule *rules;            /* policy->rules, while they are made */
    const struct sl_yaml_node **keys; /* by rule: `key` as written, or NULL */
    bool *sound;                      /* by rule: its key can be judged */
};

/* ---- memory ---- */

/* `count` things of `size` bytes, zeroed; or NULL, and no_memory is set. */
void *sl_build_take(struct sl_build *b, size_t count, size_t size);

/* The same, for as long as the build lasts. */
void *sl_build_borrow(struct sl_build *b, size_t count, size_t size);

/* A copy with a NUL behind it; empty without memory. */
struct sl_str sl_build_keep(struct sl_build *b, struct sl_str text);

/* ---- values ---- */

/* The child of `map` if it is a scalar, or NULL. */
const struct sl_yaml_node *sl_build_scalar(const struct sl_yaml_node *map,
                                           const char *key);

/* Its text, kept; empty if it is not there. */
struct sl_str sl_build_text(struct sl_build *b, const struct sl_yaml_node *map,
                            const char *key);

bool sl_build_bool(const struct sl_yaml_node *map, const char *key,
                   bool preset);

/* Which of the words it is; `preset` if it is not there. */
int sl_build_choice(const struct sl_yaml_node *map, const char *key,
                    const char *const *words, int count, int preset);

/* Was it there, and the schema has emptied it? */
bool sl_build_refused(const struct sl_yaml_node *node);

/* The scalar, fit to be quoted; what came from ENV or FILE is not shown. */
struct sl_quoted sl_build_shown(const struct sl_yaml_node *node);

/* Did a parser that read `node` succeed? If not, say what it said. */
bool sl_build_ok(struct sl_build *b, const struct sl_yaml_node *node, int err,
                 const struct sl_diag *diag);

/* A number in [least, most]; `preset` if it is not there or was refused. */
uint64_t sl_build_number(struct sl_build *b, const struct sl_yaml_node *map,
                         const char *key, uint64_t least, uint64_t most,
                         uint64_t preset);

/* A span of time; `preset` if it is not there. */
sl_ns sl_build_duration(struct sl_build *b, const struct sl_yaml_node *map,
                        const char *key, sl_ns preset);

/* The scalars of a list; a scalar is a list of itself. */
const struct sl_yaml_node *sl_build_first(const struct sl_yaml_node *node);
const struct sl_yaml_node *sl_build_next(const struct sl_yaml_node *node,
                                         const struct sl_yaml_node *item);

/* How many nodes that walk can pass at most. */
unsigned sl_build_most(const struct sl_yaml_node *node);

/* Has the list at most `most` items? If not, say so. */
bool sl_build_short(struct sl_build *b, const struct sl_yaml_node *list,
                    unsigned most, const char *what);

/* Was the same text in the (short) list before `item`? Then say so; `what` is
 * what the list has, "limit". */
bool sl_build_twice(struct sl_build *b, const struct sl_yaml_node *list,
                    const struct sl_yaml_node *item, const char *what);

/* Is the scalar, or the key, [A-Za-z0-9][A-Za-z0-9._-]{0,63}? Names go into
 * headers, metrics and keys. If not, say so; `what` is "a limit". */
bool sl_build_name(struct sl_build *b, const char *what,
                   const struct sl_yaml_node *node);
bool sl_build_key_name(struct sl_build *b, const char *what,
                       const struct sl_yaml_node *node);

/* The index of what `item` names, or -1 after saying that there is no such
 * `what` ("limit") and which was meant; silent if the names are unsure. */
int sl_build_find(struct sl_build *b, const struct sl_names *names,
                  const struct sl_yaml_node *item, const char *what);

/* Add what was meant and return it; or NULL, also if so many problems were
 * found that nobody would read it. */
const char *sl_build_meant(struct sl_build *b, struct sl_diag *diag,
                           const struct sl_names *names, struct sl_str typo);

/* Like sl_report_error(): at the node's place, or at that of its key. */
#define SL_AT(node)     ((node)->place)
#define SL_AT_KEY(node) ((node)->key_place)

/* ---- shared by several parts ---- */

/* The bits of a list of dialects; `preset` if there is none. */
int sl_build_dialects(struct sl_build *b, const struct sl_yaml_node *node,
                      int preset);

/* A status from 400 to 599; `preset` if it is not there. */
int sl_build_status(struct sl_build *b, const struct sl_yaml_node *map,
                    int preset);

/* A message; no pieces if it is not there. */
void sl_build_message(struct sl_build *b, const struct sl_yaml_node *map,
                      struct sl_template *ret);

/* Numbers for each plan, from the child `key` of `limit`: `rate` or
 * `candidate` (rates.c). NULL if they can't be had; what is wrong was said. */
const struct sl_plan_limit *sl_build_rates(struct sl_build *b,
                                           const struct sl_rule *rule,
                                           const struct sl_yaml_node *limit,
                                           const char *key);

/* `thresholds` of a limit (marks.c). */
void sl_build_marks(struct sl_build *b, const struct sl_yaml_node *limit,
                    struct sl_rule *rule);

/* The smallest count and capacity over the plans that have numbers; false if
 * none has. */
bool sl_build_strictest(const struct sl_policy *policy,
                        const struct sl_plan_limit *plans,
                        struct sl_limit *ret);

/* The same limit without a ceiling, for overage. */
struct sl_limit sl_build_open(const struct sl_limit *limit);

/* A name for the endpoint of a pattern (endpoints.c). */
struct sl_str sl_build_endpoint(struct sl_build *b,
                                const struct sl_pattern *pattern);

/* A name made of any text. */
struct sl_str sl_build_name_of(struct sl_build *b, struct sl_str text);

/* `descriptor` and `replaces` of a route, and the list of those that have the
 * first (descriptors.c). */
void sl_build_descriptor(struct sl_build *b, const struct sl_yaml_node *list,
                         struct sl_route *route);
void sl_build_replaces(struct sl_build *b, const struct sl_yaml_node *list,
                       struct sl_route *route);
void sl_build_index_descriptors(struct sl_build *b, const struct sl_route *list,
                                unsigned count);

/* Give different endpoints different names, where nobody wrote one. */
void sl_build_tell_apart(struct sl_build *b, struct sl_route *list,
                         unsigned count);

/* The sources of an attribute (identity.c). Not all kinds of them may be
 * everywhere. */
enum sl_sources_of {
    SL_OF_NAMES,
    SL_OF_ANONYMOUS,
    SL_OF_TOKENS,
    SL_OF_PLAN,
    SL_OF_ROLE,
    SL_OF_PRECHECKS, /* headers of anybody's */
};
void sl_build_sources(struct sl_build *b, const struct sl_yaml_node *node,
                      enum sl_sources_of of, struct sl_sources *ret);

/* What a route asks before its limits (guards.c). */
void sl_build_guards(struct sl_build *b, const struct sl_yaml_node *node,
                     struct sl_route *route);

/* `guard` of a route, and the rule behind all others by which guards are kept
 * (guard.c). */
void sl_build_guard(struct sl_build *b, const struct sl_yaml_node *node,
                    const struct sl_route *route, struct sl_guard *ret);

/* `identity: jwt` (tokens.c). */
void sl_build_jwt(struct sl_build *b, const struct sl_yaml_node *identity);

/* `identity: subjects` (subjects.c). NULL is allowed. */
void sl_build_subjects(struct sl_build *b, const struct sl_yaml_node *node);

/* `hold_max`, and `hold` of a limit (holds.c). */
void sl_build_hold_max(struct sl_build *b);
void sl_build_hold(struct sl_build *b, const struct sl_yaml_node *node,
                   struct sl_rule *rule);

/* `hold` of a limit of permits, or of a guard (holds.c). */
sl_ns sl_build_hold_span(struct sl_build *b, const struct sl_yaml_node *node);

/* `wait` of a route (holds.c). */
void sl_build_wait(struct sl_build *b, const struct sl_yaml_node *node,
                   struct sl_route *route);

/* ---- the parts, in their order ---- */

void sl_build_general(struct sl_build *b);
void sl_build_plans(struct sl_build *b);
void sl_build_identity(struct sl_build *b);
void sl_build_features(struct sl_build *b);
void sl_build_limits(struct sl_build *b);
void sl_build_routes(struct sl_build *b);
void sl_build_errors(struct sl_build *b);
void sl_build_server(struct sl_build *b);

/* What concerns several parts: keys that meet, ways round. */
void sl_build_checks(struct sl_build *b);

/* What routes do with what was used before signing in; called by the checks. */
void sl_build_sign_in(struct sl_build *b);

/* What is allowed, but was perhaps not meant; called by the checks. */
void sl_build_warnings(struct sl_build *b);

/* What came from the environment or from files, and from where. */
void sl_build_outside(struct sl_build *b);

/* ---- keys, values and lists of a policy's print; for print.c, this
 * folder and build/errors.c.
 *
 * A printer knows where in the file it is, so that a value from outside is
 * shown as it was written there. It remembers the first error: whoever prints
 * goes on and looks at `err` in the end.
 */

#define SL_PRINT_PATH 512 /* six names, and what is between them */

#define SL_PRINT_SECRET "(secret)"

struct sl_printer {
    const struct sl_policy *policy;
    struct sl_buf *out;
    unsigned depth; /* of maps */
    bool item;      /* the next key is the first of an item of a list */
    char path[SL_PRINT_PATH];
    size_t path_len;
    int err;
};

/* ---- scalars (scalar.c) ---- */

/* Append a text, without quotes where it is safe to leave them out; inside of
 * `flow` brackets fewer are. */
SL_MUST_USE int sl_print_scalar(struct sl_buf *out, struct sl_str text,
                                bool flow);

/* The same for a key. */
SL_MUST_USE int sl_print_key(struct sl_buf *out, struct sl_str key);

/* Append a text that has ${...} to be replaced. */
SL_MUST_USE int sl_print_written(struct sl_buf *out, struct sl_str written);

/* Append a body as YAML on one line that is read back as the same. */
SL_MUST_USE int sl_print_body(struct sl_buf *out,
                              const struct sl_yaml_node *node);

/* ---- the printer (printer.c) ---- */

/* Begin the map `key`, end it. */
void sl_print_open(struct sl_printer *p, struct sl_str key);
void sl_print_close(struct sl_printer *p);

/* The same for the `index`th map of the list that was opened last. */
void sl_print_open_item(struct sl_printer *p, unsigned index);
void sl_print_close_item(struct sl_printer *p);

/* `key: value`: a text of the user's, a word of ours, a number, ... */
void sl_print_text(struct sl_printer *p, const char *key, struct sl_str text);
void sl_print_word(struct sl_printer *p, const char *key, const char *word);
void sl_print_number(struct sl_printer *p, const char *key, uint64_t number);
void sl_print_bool(struct sl_printer *p, const char *key, bool value);
void sl_print_duration(struct sl_printer *p, const char *key, sl_ns span);

/* A text with its placeholders; nothing if it has no pieces. */
void sl_print_message(struct sl_printer *p, const char *key,
                      const struct sl_template *message);

/* `key: ` of the user's, and what is YAML already. */
void sl_print_yaml(struct sl_printer *p, struct sl_str key, struct sl_str yaml);

/* A list of texts, on one line if it fits. item(ctx, i, room) is the ith; it
 * may use `room`. */
#define SL_PRINT_ITEM 320
typedef struct sl_str sl_print_item_f(const void *ctx, unsigned i,
                                      char room[SL_PRINT_ITEM]);
struct sl_print_list {
    sl_print_item_f *item;
    const void *ctx;
    unsigned count;
    bool in_any_order; /* the items are not in the order of the file */
};
void sl_print_list(struct sl_printer *p, const char *key,
                   const struct sl_print_list *list);

/* `headers`. */
void sl_print_dialects(struct sl_printer *p, int dialects);

/* `key: ` and what was written for it. */
void sl_print_from(struct sl_printer *p, struct sl_str key,
                   const struct sl_external_value *from);

/* What was written where the printer is, or at `key` there, if that came from
 * outside; else NULL. */
const struct sl_external_value *sl_print_here(const struct sl_printer *p);
const struct sl_external_value *sl_print_at(struct sl_printer *p,
                                            struct sl_str key);

/* `key` has the value that it has at the top of the file. Did that come from
 * outside, and this not? Then it is better left out. */
bool sl_print_follows(struct sl_printer *p, const char *key);

/* What came from outside and is below the place where the printer is: the
 * first of them, by path, and how many. */
const struct sl_external_value *sl_print_below(const struct sl_printer *p,
                                               unsigned *count);

/* ---- parts of a policy ---- */

/* Has the policy only the plan that those without plans have? No other can be
 * called `default`, which is a key of `plans`. */
bool sl_print_only_plan(const struct sl_printer *p);

/* A list of sources (tokens.c). */
void sl_print_sources(struct sl_printer *p, const char *key,
                      const struct sl_sources *sources);

/* What a route asks before its limits. */
void sl_print_guards(struct sl_printer *p, const struct sl_prechecks *guards);

void sl_print_jwt(struct sl_printer *p); /* `identity: jwt` */
void sl_print_limits(struct sl_printer *p);
void sl_print_server(struct sl_printer *p);

#endif
