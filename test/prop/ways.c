/* ways.c -- the same right answer through every way in.
 *
 * A random policy and a list of random acts (checks by route, job and limit,
 * holds and their ends, reports of usage, subjects) go through every way of
 * ways_in.h, and through the flow runner, in virtual time:
 *
 *   (1)  each answer is that of the library: allowed, status, code, message,
 *        limits with their numbers, headers and body, as far as the protocol
 *        has them
 *   (2)  afterwards each key has the same state: each check is repeated at no
 *        cost, and its numbers are the same everywhere
 *   (3)  CL.THROTTLE answers as a token bucket of a policy does
 *
 * A failure is shrunk: lines of the policy, acts and their inputs are dropped
 * as long as the same way differs. It is printed as a policy and a flow.
 */
#include "ways_in.h"

#include <sys/stat.h>
#include <unistd.h>

#include "base/joined.h"
#include "cli/flow/flow.h"
#include "files.h"

static uint64_t accepted, refused, denied, asked;

/* ---- the reference ---- */

struct library {
    struct sluice_policy *policy;
    struct sluice_engine *engine;
    struct sluice_decision *decision;
    struct sluice_ended *ended;
    char holds[WAYS_ACTS][SL_HOLD_TEXT];
};

/* False if the policy is refused. */
static bool library_open(struct library *l, const char *text)
{
    struct sluice_engine_options options = {.size = 1 << 20,
                                            .now = scene_now_ns};

    memset(l, 0, sizeof(*l));
    if (sluice_policy_parse("ways.yaml", text, strlen(text), NULL, &l->policy,
                            NULL))
        return false;
    if (sluice_engine_open(l->policy, &options, &l->engine))
        abort();
    l->engine->engine->store->secret = (struct sl_hash_key){5, 6};
    l->decision = sluice_decision_new();
    l->ended = sluice_ended_new();
    return true;
}

static void library_close(struct library *l)
{
    sluice_decision_free(l->decision);
    sluice_ended_free(l->ended);
    sluice_engine_close(l->engine);
    sluice_policy_release(l->policy);
}

struct subject_room {
    struct sluice_subject subject;
    struct sluice_grant grant;
};

static const struct sluice_subject *
subject_of(struct subject_room *room, const char *scope, const char *id)
{
    const struct registered *r =
        id ? find_subject(sl_str_c(scope), sl_str_c(id)) : NULL;

    if (!r)
        return NULL;
    room->grant = (struct sluice_grant){.limit = r->rate.name,
                                        .rate = r->rate.value,
                                        .until_ns = r->until,
                                        .by = "flow"};
    room->subject =
        (struct sluice_subject){.id = r->id,
                                .plan = r->plan,
                                .expires_ns = r->until,
                                .grants = &room->grant,
                                .grant_count = r->rate.name != NULL};
    return &room->subject;
}

/* The name of a scope in the key of a limit: its value if there are several. */
static const char *name_in_key(const struct library *l, const struct act *a,
                               unsigned scope)
{
    static char names[2][256];
    const struct sl_policy *policy = l->policy->policy;
    int index = a->limit ? sl_policy_rule(policy, sl_str_c(a->limit)) : -1;
    const struct sl_rule *rule = index >= 0 ? &policy->rules[index] : NULL;
    struct sl_str values[SL_PER_MAX], value;
    char *name = names[scope == SL_SCOPE_USER];

    if (!a->key || !rule || rule->per_count < 2 ||
        strlen(a->key) >= sizeof(names[0]) ||
        !sl_str_cut_values(sl_str_c(a->key), rule->per_count, values))
        return a->key;
    for (unsigned i = 0; i < rule->per_count; i++)
        if (rule->per[i] == scope) {
            value = sl_str_unescape(values[i], name);
            name[value.len] = '\0';
            return name;
        }
    return NULL;
}

/* The name of the user: a member, the key of a limit, or a header that the
 * policy reads. */
static const char *user_of(const struct library *l, const struct act *a)
{
    bool read = l->policy->policy->identity.scopes[SL_SCOPE_USER].count > 0;

    if (a->user || a->key)
        return a->user ? a->user : name_in_key(l, a, SL_SCOPE_USER);
    for (unsigned i = 0; read && i < a->header_count; i++)
        if (strcmp(a->headers[i].name, "x-user") == 0)
            return a->headers[i].value;
    return NULL;
}

static struct answer decide(struct library *l, struct sluice_request *r,
                            const char *user, const char *org)
{
    struct subject_room rooms[2];
    const char *json;

    r->registry = scene.subject_count > 0;
    r->user_subject = subject_of(&rooms[0], "user", user);
    r->org_subject = subject_of(&rooms[1], "org", org);
    if (sluice_decide(l->engine, r, l->decision))
        return (struct answer){NULL, l->decision};
    json = sluice_decision_json(l->decision);
    return (struct answer){read_json(sl_str_c(json)), l->decision};
}

static struct answer library_ask(struct library *l, const struct act *a,
                                 unsigned i)
{
    struct sluice_header headers[WAYS_HEADERS];
    struct sluice_cost cost = {a->costs.name, 0};
    struct sluice_request r = {.method = a->method,
                               .path = a->path,
                               .job = a->job,
                               .limit = a->limit,
                               .key = a->key,
                               .user = a->user,
                               .org = a->org,
                               .plan = a->plan,
                               .role = a->role,
                               .ip = a->ip,
                               .headers = headers,
                               .header_count = a->header_count,
                               .trusted = 1,
                               .has_cost = a->has_cost,
                               .cost = a->cost,
                               .costs = &cost,
                               .cost_count = a->costs.name != NULL,
                               .idempotency_key = a->repeat_key,
                               .body = a->body,
                               .body_len = a->body ? strlen(a->body) : 0,
                               .hold_ns = a->hold};
    struct answer answer;

    if (a->costs.name)
        cost.cost = strtoull(a->costs.value, NULL, 10);
    for (unsigned h = 0; h < a->header_count; h++)
        headers[h] =
            (struct sluice_header){a->headers[h].name, a->headers[h].value};
    answer = decide(l, &r, user_of(l, a),
                    a->org ? a->org : name_in_key(l, a, SL_SCOPE_ORG));
    snprintf(l->holds[i], sizeof(l->holds[i]), "%s",
             answer.json ? sluice_decision_hold(l->decision) : "");
    return answer;
}

static struct answer library_used(struct library *l, const struct act *a)
{
    bool is_user = strcmp(a->user, "user") == 0;
    struct sluice_request r = {.limit = a->limit,
                               .key = a->key,
                               .user = is_user ? a->key : NULL,
                               .org = is_user ? NULL : a->key,
                               .trusted = 1,
                               .request_id = "r",
                               .has_cost = 1,
                               .cost = a->cost,
                               .used = a->back ? -1 : 1};

    return decide(l, &r, a->key, a->key);
}

static struct answer library_failed(struct library *l, const struct act *a)
{
    struct sluice_request r = {.limit = a->limit,
                               .key = a->key,
                               .trusted = 1,
                               .request_id = "r",
                               .has_cost = 1,
                               .cost = 1,
                               .failed = 1};

    return decide(l, &r, a->key, a->key);
}

static struct answer library_end(struct library *l, const struct act *a)
{
    struct sluice_actual actual = {.has_cost = a->has_cost, .cost = a->cost};
    const char *hold = l->holds[a->of];
    int err;

    if (a->kind == ACT_SETTLE)
        err = sluice_engine_settle(l->engine, hold, &actual, l->ended);
    else if (a->kind == ACT_RELEASE)
        err = sluice_engine_release(l->engine, hold, l->ended);
    else
        err = sluice_engine_extend(l->engine, hold, a->hold, l->ended);
    return (struct answer){
        err ? NULL : read_json(sl_str_c(sluice_ended_json(l->ended))), NULL};
}

static struct answer library_act(struct library *l, const struct act *a,
                                 unsigned i)
{
    if (a->kind == ACT_USED)
        return library_used(l, a);
    if (a->kind == ACT_FAILED)
        return library_failed(l, a);
    return a->kind >= ACT_SETTLE ? library_end(l, a) : library_ask(l, a, i);
}

/* ---- the flow: acts, and the answers of the library as expectations ---- */

#define FLOW_LINE 3000 /* longer ones do not fit into a flow file */

struct flow {
    struct sl_buf text;
    bool over; /* an act cannot be written: the rest is left out */
    unsigned line, acts[4 * WAYS_ACTS]; /* by line: the act */
};

static void expect_decision(struct sl_buf *out, const struct answer *want)
{
    const struct sl_decision *d = &want->d->check.decision;
    int index = d->by >= 0 ? d->by : d->report;
    struct sluice_shown shown;
    char span[32];

    PUTF(out, " -> %d by=%s", sluice_decision_status(want->d),
         d->by >= 0 ? sluice_decision_by(want->d) : "none");
    PUTF(out, " retry=%s",
         sl_format_duration(sluice_decision_retry_in_ns(want->d), span));
    if (index < 0)
        return;
    shown = sluice_decision_limit(want->d, (size_t)index);
    if (!shown.limited) {
        put(out, " limit=none remaining=none reset=none");
        return;
    }
    PUTF(out, " limit=%llu remaining=%llu", (unsigned long long)shown.limit,
         (unsigned long long)shown.remaining);
    PUTF(out, " reset=%s", sl_format_duration(shown.reset_in_ns, span));
}

static void expect_headers(struct sl_buf *out, const struct answer *want)
{
    json_t *headers = json_object_get(want->json, "headers"), *value;
    const char *name;
    char word[96];

    json_object_foreach(headers, name, value)
    {
        snprintf(word, sizeof(word), "header.%s", name);
        if (strcmp(name, "X-Sluice-Hold") != 0)
            put_word(out, word, json_string_value(value));
    }
}

static void flow_add(struct flow *f, const struct act *a, unsigned i,
                     const struct answer *want)
{
    size_t before = f->text.len;
    const char *state;

    if (f->over)
        return;
    put_act(&f->text, a, i);
    if (a->kind == ACT_SUBJECT) {
        put(&f->text, "\n");
    } else if (a->kind >= ACT_SETTLE) {
        state = json_string_value(json_object_get(want->json, "state"));
        PUTF(&f->text, " -> %s\n",
             !want->json                                          ? "unknown"
             : json_is_true(json_object_get(want->json, "again")) ? state
                                                                  : "ok");
    } else if (want->json) {
        expect_decision(&f->text, want);
        if (a->kind <= ACT_LIMIT)
            expect_headers(&f->text, want);
        put(&f->text, "\n");
    }
    if (!want->json && a->kind < ACT_SETTLE)
        f->over = true; /* an error ends a flow */
    if (f->text.len - before > FLOW_LINE)
        f->over = true;
    if (f->over)
        f->text.len = before;
    for (; f->line < SL_LEN(f->acts) && before < f->text.len; before++)
        if (f->text.bytes[before] == '\n')
            f->acts[f->line++] = i;
}

static void flow_open(struct flow *f)
{
    memset(f, 0, sizeof(*f));
    sl_buf_init(&f->text, 1 << 20, &sl_alloc_libc);
    put(&f->text, "flow f\npolicy ways.yaml\nat 2026-02-26T12:00:00Z\n");
    f->line = 4;
}

static const char *place(const char *name)
{
    static char folder[64], path[128];

    if (!folder[0]) {
        snprintf(folder, sizeof(folder), "/tmp/sluice-ways.%d", (int)getpid());
        if (mkdir(folder, 0700))
            abort();
    }
    snprintf(path, sizeof(path), "%s%s%s", folder, name[0] ? "/" : "", name);
    return path;
}

/* Runs the flow. False with the line and the reason in `why`. */
static bool flow_run(struct flow *f, const char *policy, unsigned *ret_act,
                     char *why, size_t size)
{
    struct sl_flow_file file;
    struct sl_flow_outcome out;
    struct sl_arena arena;
    struct sl_diag diag = {.line = 0};
    struct sl_str line;

    put_file(place("ways.yaml"), policy);
    if (f->line <= 4)
        return true;
    if (sl_flow_read(place("ways.flow"), sl_buf_str(&f->text), &sl_alloc_libc,
                     &file, &diag, &line)) {
        snprintf(why, size, "not read: %u:%u: %s: %.*s", diag.line, diag.column,
                 diag.sentence, SL_STR_ARG(line));
        return false;
    }
    sl_arena_init(&arena, 1 << 20, &sl_alloc_libc);
    sl_flow_run(file.flows, place("ways.flow"), NULL, &arena, &out);
    if (out.end != SL_END_PASSED)
        snprintf(why, size, "%s%s%s is %s, not %s", out.message,
                 out.message[0] ? "; " : "",
                 out.misses ? out.misses->label : "",
                 out.misses ? out.misses->got : "",
                 out.misses ? out.misses->want : "");
    *ret_act = out.line < f->line && out.line < SL_LEN(f->acts)
                   ? f->acts[out.line]
                   : 0;
    sl_arena_done(&arena);
    sl_flow_file_done(&file);
    return out.end == SL_END_PASSED;
}

/* ---- one run of a tale ---- */

struct difference {
    int way; /* -1: none; -2: the policy is refused */
    unsigned act;
    bool after; /* in the state, after all acts */
    char want[4096], got[4096];
};

struct stage {
    struct library library;
    struct side sides[WAYS];
    struct flow flow;
};

static void note(struct difference *ret, int way, unsigned act,
                 const struct answer *want, const char *got)
{
    char *text =
        want && want->json ? json_dumps(want->json, JSON_COMPACT) : NULL;

    ret->way = way;
    ret->act = act;
    snprintf(ret->want, sizeof(ret->want), "%s", text ? text : "an error");
    snprintf(ret->got, sizeof(ret->got), "%s", got);
    free(text);
}

/* Asks all ways. False at the first difference. */
static bool ask_all(struct stage *g, const struct act *a, unsigned i,
                    struct difference *ret)
{
    struct answer want = library_act(&g->library, a, i);
    bool good = true;

    asked++;
    denied += json_is_false(json_object_get(want.json, "allowed"));
    for (unsigned way = 0; way < WAYS && good; way++) {
        good = side_act(&g->sides[way], a, i, &want);
        if (!good)
            note(ret, (int)way, i, &want, g->sides[way].why);
    }
    flow_add(&g->flow, a, i, &want);
    by_way[WAYS] += !g->flow.over;
    json_decref(want.json);
    return good;
}

/* Does it end a hold of an act that takes none, or fail at a limit without a
 * penalty or with several scopes? */
static bool is_idle(const struct stage *g, const struct tale *t,
                    const struct act *a)
{
    const struct sl_policy *policy = g->library.policy->policy;
    const struct act *of = &t->acts[a->of];

    if (a->kind == ACT_FAILED) {
        int index = sl_policy_rule(policy, sl_str_c(a->limit));

        return index < 0 || !policy->rules[index].penalty_rule ||
               policy->rules[index].per_count != 1;
    }
    return a->kind >= ACT_SETTLE && a->kind <= ACT_EXTEND &&
           (of->off || of->kind > ACT_LIMIT);
}

static bool run_acts(struct stage *g, const struct tale *t,
                     struct difference *ret)
{
    static const struct answer none;

    for (unsigned i = 0; i < t->count; i++) {
        const struct act *a = &t->acts[i];

        if (a->off || is_idle(g, t, a))
            continue;
        scene.now += a->after;
        sl_clock_set(&scene.clock, scene.now);
        if (a->kind == ACT_SUBJECT) {
            set_subject(a);
            flow_add(&g->flow, a, i, &none);
        } else if (!ask_all(g, a, i, ret)) {
            return false;
        }
    }
    return true;
}

/* (2): the checks once more, at no cost, by HTTP on each engine. */
static bool same_state(struct stage *g, const struct tale *t,
                       struct difference *ret)
{
    for (unsigned way = 0; way < WAYS; way++)
        g->sides[way].way = WAY_HTTP;
    for (unsigned i = 0; i < t->count; i++) {
        struct act peek = t->acts[i];
        bool good;

        if (peek.off || peek.kind > ACT_LIMIT)
            continue;
        peek.after = peek.hold = 0;
        peek.repeat_key = NULL;
        peek.has_cost = true;
        peek.cost = 0;
        peek.costs = (struct pair){NULL, NULL};
        good = ask_all(g, &peek, i, ret);
        ret->after = !good;
        if (!good)
            return false;
    }
    return true;
}

static void run(const struct tale *t, struct difference *ret)
{
    static struct stage g;

    *ret = (struct difference){.way = -2};
    scene.now = INT64_C(1772107200) * SL_S; /* 2026-02-26T12:00:00Z */
    scene.subject_count = 0;
    sl_clock_set(&scene.clock, scene.now);
    if (!library_open(&g.library, t->policy))
        return;
    ret->way = -1;
    for (unsigned way = 0; way < WAYS; way++)
        side_open(&g.sides[way], (enum way)way, g.library.policy->policy);
    flow_open(&g.flow);
    if (run_acts(&g, t, ret) && same_state(&g, t, ret)) {
        static char why[4096];
        unsigned act = 0;

        if (!flow_run(&g.flow, t->policy, &act, why, sizeof(why)))
            note(ret, WAYS, act, NULL, why);
    }
    for (unsigned way = 0; way < WAYS; way++) {
        g.sides[way].way = (enum way)way;
        side_close(&g.sides[way]);
    }
    sl_buf_done(&g.flow.text);
    library_close(&g.library);
}

/* ---- shrinking ---- */

static bool still(const struct tale *t, int way)
{
    static struct difference d;

    run(t, &d);
    return d.way == way;
}

static size_t indent_of(const char *line)
{
    return strspn(line, " ");
}

/* Drops a line of the policy and the deeper ones below it. */
static bool drop_line(struct tale *t, size_t at, int way)
{
    char *whole = t->policy, *copy = keep(t, whole);
    size_t end = at, indent = indent_of(copy + at);

    do
        end += strcspn(copy + end, "\n") + 1;
    while (copy[end] && indent_of(copy + end) > indent);
    memmove(copy + at, copy + end, strlen(copy + end) + 1);
    t->policy = copy;
    if (still(t, way))
        return true;
    t->policy = whole;
    return false;
}

static bool shrink_policy(struct tale *t, int way)
{
    bool any = false;

    for (size_t at = 0; t->policy[at];) {
        if (drop_line(t, at, way)) {
            any = true;
            continue;
        }
        at += strcspn(t->policy + at, "\n") + 1;
    }
    return any;
}

#define INPUTS 12

/* Drops the act, or one of its inputs. */
static void drop_input(struct act *a, unsigned input)
{
    const char **texts[] = {&a->org,  &a->plan,       &a->role,
                            &a->body, &a->repeat_key, &a->costs.name};

    if (input == 0)
        a->off = true;
    else if (input <= SL_LEN(texts))
        *texts[input - 1] = NULL;
    else if (input == 7)
        a->after = a->until = 0;
    else if (input == 8)
        a->has_cost = false;
    else if (input == 9)
        a->hold = 0;
    else if (input == 10)
        a->header_count -= a->header_count > 1;
    else if (a->kind <= ACT_LIMIT)
        a->user = NULL;
}

/* Tries an act with one input less. */
static bool without(struct tale *t, unsigned i, unsigned input, int way)
{
    struct act *a = &t->acts[i], before = *a;

    drop_input(a, input);
    if (memcmp(a, &before, sizeof(before)) == 0)
        return false;
    if (still(t, way))
        return true;
    *a = before;
    return false;
}

static void shrink(struct tale *t, int way)
{
    bool any = true;

    for (unsigned round = 0; any && round < 4; round++) {
        any = shrink_policy(t, way);
        for (unsigned i = t->count; i-- > 0;)
            for (unsigned input = 0; input < INPUTS && !t->acts[i].off; input++)
                any |= without(t, i, input, way);
    }
}

static void tell(struct tale *t, uint64_t seed)
{
    static struct difference d;
    struct sl_buf out;

    run(t, &d);
    sl_buf_init(&out, 1 << 20, &sl_alloc_libc);
    for (unsigned i = 0; i < t->count; i++)
        if (!t->acts[i].off) {
            put_act(&out, &t->acts[i], i);
            PUTF(&out, "%s\n", i == d.act ? "   # <--" : "");
        }
    printf("# seed %" PRIu64 ": %s differs from the library at h%u%s\n"
           "# library: %s\n# %s: %s\n# ---- the policy:\n%s# ---- the "
           "flow:\n%.*s# ----\n",
           seed, way_names[d.way], d.act, d.after ? ", in its state" : "",
           d.want, way_names[d.way], d.got, t->policy,
           SL_STR_ARG(sl_buf_str(&out)));
    sl_buf_done(&out);
}

static bool episode(uint64_t seed, uint64_t *steps)
{
    static struct difference d;
    static struct tale t;
    bool good;

    memset(&t, 0, sizeof(t));
    make_tale(&t, seed);
    run(&t, &d);
    good = d.way < 0;
    *steps += 1 + (d.way == -2 ? 0 : t.count);
    refused += d.way == -2;
    accepted += d.way != -2;
    if (!good) {
        shrink(&t, d.way);
        tell(&t, seed);
    }
    sl_arena_done(&t.arena);
    return good;
}

/* ---- (3) CL.THROTTLE ---- */

static int64_t seconds_up(int64_t ns)
{
    return ns < 0 ? -1 : (ns + SL_S - 1) / SL_S;
}

static bool same_throttle(struct side *s, const char *key, unsigned burst,
                          unsigned count, unsigned cost, struct library *l)
{
    struct sluice_request r = {
        .limit = "a", .key = key, .has_cost = 1, .cost = cost};
    struct sluice_shown shown;
    char words[4][16], want[128];
    struct sl_str reply;

    if (sluice_decide(l->engine, &r, l->decision))
        abort();
    shown = sluice_decision_limit(l->decision, 0);
    snprintf(want, sizeof(want),
             "*5\r\n:%d\r\n:%u\r\n:%llu\r\n:%lld\r\n:%lld\r\n", !shown.allowed,
             burst + 1, (unsigned long long)shown.remaining,
             (long long)seconds_up(shown.retry_in_ns),
             (long long)seconds_up(shown.reset_in_ns));
    snprintf(words[0], sizeof(words[0]), "%u", burst);
    snprintf(words[1], sizeof(words[1]), "%u", count);
    snprintf(words[2], sizeof(words[2]), "%u", 60);
    snprintf(words[3], sizeof(words[3]), "%u", cost);
    sl_buf_clear(&s->in);
    put_arg(s, "CL.THROTTLE", key);
    for (unsigned i = 0; i < 4; i++)
        put_arg(s, "", words[i]);
    reply = send_resp(s);
    if (sl_str_eq(reply, sl_str_c(want)))
        return true;
    printf("# CL.THROTTLE %s %u %u 60 %u: %s# the limit: %s", key, burst, count,
           cost, reply.at, want);
    return false;
}

static bool throttle_episode(uint64_t seed, uint64_t *steps)
{
    struct rng rng = {seed};
    unsigned burst = (unsigned)rng_below(&rng, 20);
    unsigned count = 1 + (unsigned)rng_below(&rng, 30);
    static struct library l;
    static struct side s;
    char policy[256];
    bool good = true;

    snprintf(policy, sizeof(policy),
             "sluice: 1\nlimits:\n  a: { kind: token-bucket, per: user, rate: "
             "%u/min burst %u }\ndefault: [a]\n",
             count, burst + 1);
    scene.now = INT64_C(1772107200) * SL_S;
    scene.subject_count = 0;
    if (!library_open(&l, policy))
        abort();
    side_open(&s, WAY_RESP, l.policy->policy);
    for (unsigned i = 0; i < 30 && good; i++) {
        if (rng_once_in(&rng, 2))
            scene.now += (sl_ns)rng_log(&rng, 30 * SL_S);
        good = same_throttle(&s, some_name(&rng), burst, count,
                             (unsigned)rng_below(&rng, 5), &l);
        ++*steps;
    }
    *steps += !good;
    side_close(&s);
    library_close(&l);
    return good;
}

/* ---- the property ---- */

static bool open_scene(void)
{
    struct sl_diag diag;

    sl_clock_init_virtual(&scene.clock, 0);
    return sl_loop_open(&scene.clock, &scene.loop, &diag) == 0;
}

static void finish(uint64_t steps)
{
    CASE("and there was something to decide");
    printf("# %" PRIu64 " policies, %" PRIu64 " refused; %" PRIu64
           " answers, %" PRIu64 " of them denials\n",
           accepted, refused, asked, denied);
    CHECK((accepted > 2 * refused && denied > asked / 20) || steps < 1000);
    for (unsigned way = WAY_LIMIT; way <= WAYS; way++) {
        printf("# %" PRIu64 " by %s\n", by_way[way], way_names[way]);
        CHECK(by_way[way] > steps / 50 || steps < 1000);
    }
    remove(place("ways.yaml"));
    CHECK_EQ(rmdir(place("")), 0);
    sl_loop_close(scene.loop);
}

const struct property prop_ways = {
    .name = "ways",
    .steps = 6000,
    .cases = {{"ways (1) (2) each way in gives the same answer", episode, 0},
              {"ways (3) a throttle answers as a limit does", throttle_episode,
               4}},
    .open = open_scene,
    .finish = finish,
};
