/* peers.c -- daemons that share a store or a database, for the console.
 *
 * They know each other by the memory that they share (store/repeats.h), where
 * each writes what its console shows, and reads what the others have written:
 *
 *     slot N            who has it: "NONCE NODE NAME". A daemon claims the
 *                       first free one, and writes it before it expires
 *     slot N, step S    its counts of ten seconds (history.h)
 *     slot N, "state"   numbers of its metrics
 *     slot N, "top"     its most refused callers; hashed, unless the policy has
 *                       `denials: ids`
 *
 * Without another daemon only the slot is written. A peer whose slot has
 * expired is gone; its counts of the past stay. What cannot be written or read
 * is tried again. All of this runs on the first worker's loop.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "sluiced/daemon.h"
#include "wire/json.h"

#define PERIOD     SL_S       /* of steps */
#define LOOK       (5 * SL_S) /* for peers, their state and callers */
#define TELL       2 /* of so many looks, the state is written at one, */
#define KEEP       4 /* and the slot */
#define LIFE       (60 * SL_S)
#define STEP_LIFE  (120 * SL_S)
#define STEPS_MOST 6    /* that are written at once, or waited for */
#define AHEAD      3    /* that are looked for at once */
#define FREE_SLOTS 3    /* behind the last one in use that are looked at */
#define TEXT_MOST  5000 /* <= SL_REPEAT_MEMO */
#define TOP_SENT   40
#define TOP_SHOWN  200

/* Metrics of the state. */
static const char *const names[] = {
    "process_start_time_seconds",
    "sluice_config_last_reload_successful",
    "sluice_database_up",
    "sluice_held",
    "sluice_jwks_age_seconds",
    "sluice_jwks_keys",
    "sluice_lease_failures_total",
    "sluice_lease_keys",
    "sluice_lease_unspent_units",
    "sluice_store_uncertain_total",
    "sluice_store_up",
    "sluice_table_capacity",
    "sluice_table_entries",
    "sluice_table_evictions_total",
    "sluice_turn_wait_seconds_bucket",
    "sluice_turn_wait_seconds_count",
    "sluice_upstream_total",
    "sluice_usage_at_risk_units",
    "sluice_usage_lost_units_total",
    "sluice_waiting",
};

/* ---- calls: each frees itself ---- */

enum what { SLOT, STEP, STATE, TOP };

struct call {
    struct sl_repeat_call call; /* first */
    struct sl_daemon *daemon;
    enum what what;
    unsigned slot;
    int64_t step;
    char memo[SL_REPEAT_MEMO];
};

static sl_ns now_of(const struct sl_daemon *daemon)
{
    return sl_loop_now(daemon->workers[0].loop);
}

static struct sl_hash128 add(const struct sl_hash_key *secret,
                             struct sl_hash128 key, struct sl_str text)
{
    char bytes[16 + 64];
    size_t len = text.len < 64 ? text.len : 64;

    memcpy(bytes, &key, 16);
    memcpy(bytes + 16, text.at, len);
    return sl_hash128(secret, (struct sl_str){bytes, 16 + len});
}

/* Not in DynamoDB, where each request is paid for. */
static const struct sl_hash_key *secret_of(const struct sl_daemon *daemon)
{
    const struct sl_repeats *shared = daemon->repeats.shared;

    if (!shared ||
        (daemon->settings.in_dynamo && shared != &daemon->repeats.in_database))
        return NULL;
    return shared->secret(shared);
}

static void on_called(struct sl_repeat_call *call);

static struct call *new_call(struct sl_daemon *daemon, enum what what,
                             unsigned slot, int64_t step)
{
    const struct sl_hash_key *secret = secret_of(daemon);
    struct call *c = secret ? sl_alloc_new(&sl_alloc_libc, sizeof(*c)) : NULL;
    char text[64];

    if (!c)
        return NULL;
    snprintf(text, sizeof(text), "peer %u %d %" PRId64, slot, (int)what, step);
    c->daemon = daemon;
    c->what = what;
    c->slot = slot;
    c->step = step;
    c->call = (struct sl_repeat_call){
        .claim = {.key = add(secret,
                  add(secret, (struct sl_hash128){0, 0},
                  daemon->policy_source.policy->env),
                  sl_str_c(text)),
                  .repeats = UINT32_MAX,
                  .owner = daemon->peers.nonce},
        .now = now_of(daemon),
        .loop = daemon->workers[0].loop,
        .memo = c->memo,
        .patient = true,
        .done = on_called,
    };
    return c;
}

static void ask(struct call *c, enum sl_repeat_op op, sl_ns life)
{
    struct sl_repeats *shared = c->daemon->repeats.shared;

    c->call.op = op;
    c->call.claim.until = c->call.now + life;
    c->call.claim.pending = c->call.now + SL_REPEAT_PENDING;
    c->daemon->peers.open++;
    shared->call(shared, &c->call);
}

static void look(struct sl_daemon *daemon, enum what what, unsigned slot,
                 int64_t step)
{
    struct call *c = new_call(daemon, what, slot, step);

    if (c)
        ask(c, SL_REPEAT_LOOK, LIFE);
}

/* Writes a text of printable ASCII. */
static void put(struct sl_daemon *daemon, enum what what, int64_t step,
                struct sl_str text, sl_ns life)
{
    struct call *c = NULL;

    if (text.len <= TEXT_MOST)
        c = new_call(daemon, what, (unsigned)daemon->peers.slot, step);
    if (!c)
        return;
    c->call.len = text.len;
    if (text.len > 0)
        memcpy(c->memo, text.at, text.len);
    ask(c, SL_REPEAT_PUT, life);
}

/* ---- texts of printable ASCII ---- */

/* Appends the text; other bytes are written as %XX. */
static int encode(struct sl_str text, struct sl_buf *out)
{
    struct sl_writer w = {.out = out};

    for (size_t i = 0; i < text.len && !w.err; i++) {
        unsigned char c = (unsigned char)text.at[i];

        sl_writer_addf(&w, c > ' ' && c < 127 && c != '%' ? "%c" : "%%%02X", c);
    }
    return w.err;
}

/* Decodes in place. Returns the length. */
static size_t decode(char *text, size_t len)
{
    size_t to = 0;

    for (size_t i = 0; i < len; i++) {
        int high = i + 2 < len ? sl_hex_value(text[i + 1]) : -1;
        int low = i + 2 < len ? sl_hex_value(text[i + 2]) : -1;

        if (text[i] == '%' && high >= 0 && low >= 0) {
            text[to++] = (char)(high << 4 | low);
            i += 2;
        } else {
            text[to++] = text[i];
        }
    }
    return to;
}

/* ---- the own slot ---- */

/* A name for people: of the machine, and the port of the first listener. */
static void find_name(struct sl_daemon *daemon)
{
    struct sl_daemon_peers *p = &daemon->peers;
    const char *port = NULL;
    char host[100] = "";

    gethostname(host, sizeof(host) - 1);
    for (int i = 0; i < SL_PROTOCOLS && !port; i++)
        if (daemon->listeners[i].open)
            port = strrchr(daemon->listeners[i].where, ':');
    snprintf(p->name, sizeof(p->name), "%s%s", host, port ? port : "");
}

static void put_slot(struct sl_daemon *daemon, struct call *c,
                     enum sl_repeat_op op)
{
    char text[256];
    struct sl_buf out;

    snprintf(text, sizeof(text), "%016" PRIx64 " %s %s", daemon->peers.nonce,
             daemon->denials.node, daemon->peers.name);
    sl_buf_init(&out, TEXT_MOST, &sl_alloc_libc);
    if (encode(sl_str_c(text), &out)) {
        sl_alloc_free(&sl_alloc_libc, c, sizeof(*c));
    } else {
        memcpy(c->memo, out.bytes, out.len);
        c->call.len = out.len;
        ask(c, op, LIFE);
    }
    sl_buf_done(&out);
}

/* Claims a slot, and the next one if it has an owner. */
static void claim(struct sl_daemon *daemon, unsigned slot)
{
    struct call *c =
        slot < SL_PEERS_MOST ? new_call(daemon, SLOT, slot, 0) : NULL;

    if (c)
        ask(c, SL_REPEAT_BEGIN, LIFE);
}

static void on_claimed(struct call *c)
{
    struct sl_daemon_peers *p = &c->daemon->peers;
    struct sl_repeats *shared = c->daemon->repeats.shared;
    struct call *next;

    if (c->call.err) { /* it may be claimed: it is tried again later */
        c->call.op = SL_REPEAT_DROP;
        shared->call(shared, &c->call);
        return;
    }
    if (p->slot >= 0)
        return;
    if (c->call.found != SL_REPEAT_FIRST) {
        claim(c->daemon, c->slot + 1);
        return;
    }
    next = new_call(c->daemon, SLOT, c->slot, 0);
    if (!next)
        return;
    p->slot = (int)c->slot;
    put_slot(c->daemon, next, SL_REPEAT_FINISH);
}

static void keep_slot(struct sl_daemon *daemon)
{
    struct call *c;

    if (daemon->peers.slot < 0) {
        claim(daemon, 0);
        return;
    }
    c = new_call(daemon, SLOT, (unsigned)daemon->peers.slot, 0);
    if (c)
        put_slot(daemon, c, SL_REPEAT_PUT);
}

/* ---- the others ---- */

static void forget(struct sl_peer_daemon *peer)
{
    peer->is_there = false;
    sl_buf_clear(&peer->state);
    sl_buf_clear(&peer->top);
    sl_history_close(peer->history);
    peer->history = NULL;
}

/* Reads "NONCE NODE NAME". */
static bool read_slot(char *text, uint64_t *ret_nonce, const char **ret_node,
                      const char **ret_name)
{
    char *node = strchr(text, ' ');
    char *name = node ? strchr(node + 1, ' ') : NULL;

    if (!name || sscanf(text, "%16" SCNx64, ret_nonce) != 1)
        return false;
    *name = '\0';
    *ret_node = node + 1;
    *ret_name = name + 1;
    return true;
}

static void hear_slot(struct call *c)
{
    struct sl_daemon_peers *p = &c->daemon->peers;
    struct sl_peer_daemon *peer = &p->peers[c->slot];
    size_t len = decode(c->memo, c->call.len);
    const char *node, *name;
    uint64_t nonce = 0;

    c->memo[len < sizeof(c->memo) ? len : sizeof(c->memo) - 1] = '\0';
    if (c->call.found != SL_REPEAT_AGAIN ||
        !read_slot(c->memo, &nonce, &node, &name)) {
        forget(peer);
        return;
    }
    if ((int)c->slot == p->slot && nonce != p->nonce)
        p->slot = -1; /* it expired, and another daemon has it */
    if (nonce == p->nonce)
        return; /* this one, or the slot from which it moved */
    if (strcmp(peer->name, name) != 0) {
        sl_history_close(peer->history);
        peer->history = NULL;
    }
    snprintf(peer->name, sizeof(peer->name), "%s", name);
    snprintf(peer->node, sizeof(peer->node), "%s", node);
    if (!peer->is_there || peer->nonce != nonce)
        peer->step = c->call.now / (10 * SL_S) - 1;
    peer->nonce = nonce;
    peer->is_there = true;
    if (c->slot + 1 > p->used)
        p->used = c->slot + 1;
}

/* Steps are written in order. One that is missing, with a later one there, was
 * never written; it is looked for once more, because it may have come in
 * between. */
static bool is_next(const struct sl_daemon_peers *p,
                    struct sl_peer_daemon *peer, int64_t step)
{
    if (step == peer->step)
        return true;
    if (step < peer->step)
        return false;
    if (peer->gap == peer->step && peer->gap_at < p->ticked)
        return true;
    peer->gap = peer->step;
    peer->gap_at = p->ticked;
    return false;
}

static void hear_step(const struct call *c)
{
    struct sl_daemon_peers *p = &c->daemon->peers;
    struct sl_peer_daemon *peer = &p->peers[c->slot];
    struct sl_str text = {c->memo, c->call.len};

    if (!peer->is_there || c->call.found != SL_REPEAT_AGAIN ||
        !is_next(p, peer, c->step))
        return;
    peer->step = c->step + 1;
    if (!peer->history && sl_history_open(&sl_alloc_libc, &peer->history))
        return;
    sl_history_step_add(peer->history, c->step, text);
    sl_history_step_add(p->all, c->step, text);
}

static void hear_text(struct call *c, struct sl_buf *to)
{
    size_t len = decode(c->memo, c->call.len);

    if (c->call.found != SL_REPEAT_AGAIN)
        return;
    sl_buf_clear(to);
    if (sl_buf_add(to, (struct sl_str){c->memo, len}))
        sl_buf_clear(to);
}

static void on_called(struct sl_repeat_call *call)
{
    struct call *c = (struct call *)call;
    struct sl_peer_daemon *peer = &c->daemon->peers.peers[c->slot];

    c->daemon->peers.open--;
    if (!c->daemon->peers.all || c->daemon->draining)
        ; /* the daemon ends */
    else if (call->op == SL_REPEAT_BEGIN)
        on_claimed(c);
    else if (call->op == SL_REPEAT_LOOK && !call->err && c->what == SLOT)
        hear_slot(c);
    else if (call->op == SL_REPEAT_LOOK && !call->err && c->what == STEP)
        hear_step(c);
    else if (call->op == SL_REPEAT_LOOK && !call->err)
        hear_text(c, c->what == TOP ? &peer->top : &peer->state);
    sl_alloc_free(&sl_alloc_libc, c, sizeof(*c));
}

static bool has_peers(const struct sl_daemon_peers *p)
{
    for (unsigned i = 0; i < p->used; i++)
        if (p->peers[i].is_there)
            return true;
    return false;
}

/* ---- what is written ---- */

static bool is_shown(struct sl_str line)
{
    for (size_t i = 0; i < SL_LEN(names); i++) {
        size_t len = strlen(names[i]);

        if (line.len > len && memcmp(line.at, names[i], len) == 0 &&
            (line.at[len] == ' ' || line.at[len] == '{'))
            return true;
    }
    return false;
}

/* Appends at most `bytes` bytes. */
static int write_state(struct sl_daemon *daemon, size_t bytes,
                       struct sl_buf *out)
{
    const struct sl_admin *admin = &daemon->admin;
    struct sl_buf text;
    struct sl_str rest;
    int err;

    sl_buf_init(&text, (size_t)64 << 20, &sl_alloc_libc);
    err = admin->metrics(admin->ctx, false, &text);
    rest = sl_buf_str(&text);
    while (rest.len > 0 && !err) {
        const char *end = memchr(rest.at, '\n', rest.len);
        struct sl_str line = {rest.at,
                              end ? (size_t)(end - rest.at) : rest.len};

        rest = sl_str_from(rest, line.len + 1);

        if (is_shown(line) && out->len + line.len < bytes)
            err = sl_buf_addf(out, "%.*s\n", SL_STR_ARG(line));
    }
    sl_buf_done(&text);
    return err;
}

/* A caller, by name, by hash, or by both. */
static void write_caller(struct sl_writer *w, const struct sl_top_keys_row *row,
                         const struct sl_hash_key *secret, bool has_name)
{
    struct sl_denial_name name = {row->scope, row->key};
    char hash[SL_DENIAL_HASH];

    sl_json_open(w, '{');
    sl_json_member_str(w, "limit", row->limit);
    sl_json_member_str(w, "scope", row->scope);
    if (has_name) {
        sl_json_member_str(w, "key", row->key);
        sl_json_key(w, SL_STR("cut"));
        sl_json_flag(w, row->cut);
    }
    if (secret) {
        sl_denial_hash(secret, name, hash);
        sl_json_member_text(w, "hash", hash);
    }
    sl_json_key(w, SL_STR("denied"));
    sl_json_uint(w, row->count[SL_DENIED]);
    sl_json_key(w, SL_STR("allowed"));
    sl_json_uint(w, row->count[SL_ALLOWED]);
    sl_json_close(w, '}');
}

/* Appends the most refused callers as an array of at most `bytes` bytes. */
static int write_top(struct sl_daemon *daemon, unsigned most, bool has_names,
                     size_t bytes, struct sl_buf *out)
{
    const struct sl_admin *admin = &daemon->admin;
    struct sl_top_keys_query query = {
        .by = SL_DENIED, .most = most, .now = now_of(daemon)};
    struct sl_writer w = {.out = out};
    struct sl_top_keys_answer found;
    struct sl_arena arena;

    sl_arena_init(&arena, (size_t)1 << 20, &sl_alloc_libc);
    w.err = admin->top(admin->ctx, &query, &arena, &found);
    sl_json_open(&w, '[');
    for (unsigned i = 0; !w.err && i < found.count; i++) {
        size_t before = out->len;

        write_caller(&w, &found.rows[i], secret_of(daemon), has_names);
        if (out->len >= bytes) {
            out->len = before;
            break;
        }
    }
    sl_json_close(&w, ']');
    sl_arena_done(&arena);
    return w.err;
}

static void put_encoded(struct sl_daemon *daemon, enum what what,
                        struct sl_str text)
{
    struct sl_buf out;

    sl_buf_init(&out, (size_t)3 << 20, &sl_alloc_libc);
    if (!encode(text, &out))
        put(daemon, what, 0, sl_buf_str(&out), LIFE);
    sl_buf_done(&out);
}

static void put_texts(struct sl_daemon *daemon)
{
    struct sl_str denials = daemon->policy_source.policy->server.denials;
    bool ids = sl_str_eq(denials, SL_STR("ids"));
    bool off = sl_str_eq(denials, SL_STR("off"));
    struct sl_buf out;

    sl_buf_init(&out, (size_t)1 << 20, &sl_alloc_libc);
    if (!write_state(daemon, TEXT_MOST * 3 / 4, &out))
        put_encoded(daemon, STATE, sl_buf_str(&out));
    sl_buf_clear(&out);
    if (!off && !write_top(daemon, TOP_SENT, ids,
                           (size_t)TEXT_MOST / (ids ? 3 : 1) - 1, &out))
        put_encoded(daemon, TOP, sl_buf_str(&out));
    sl_buf_done(&out);
}

/* The own steps: to the others at once, and to the sum a step later, when the
 * others have come. */
static void put_steps(struct sl_daemon *daemon)
{
    struct sl_daemon_peers *p = &daemon->peers;
    int64_t last = sl_history_last(daemon->history);
    struct sl_buf out;

    if (p->step == 0 || p->step < last - STEPS_MOST)
        p->step = last - STEPS_MOST;
    if (p->added == 0 || p->added < last - 360)
        p->added = last - 360;
    sl_buf_init(&out, (size_t)1 << 20, &sl_alloc_libc);
    for (; p->added < last; p->added++) {
        sl_buf_clear(&out);
        if (sl_history_has(daemon->history, p->added) &&
            !sl_history_step_write(daemon->history, p->added, SIZE_MAX, &out))
            sl_history_step_add(p->all, p->added, sl_buf_str(&out));
    }
    for (; p->slot >= 0 && has_peers(p) && p->step <= last; p->step++) {
        sl_buf_clear(&out);
        if (sl_history_has(daemon->history, p->step) &&
            !sl_history_step_write(daemon->history, p->step, TEXT_MOST, &out))
            put(daemon, STEP, p->step, sl_buf_str(&out), STEP_LIFE);
    }
    sl_buf_done(&out);
}

/* ---- the tick ---- */

static void look_for_all(struct sl_daemon *daemon)
{
    struct sl_daemon_peers *p = &daemon->peers;
    unsigned end = p->used + FREE_SLOTS;

    for (unsigned i = 0; i < end && i < SL_PEERS_MOST; i++) {
        look(daemon, SLOT, i, 0);
        if (p->peers[i].is_there) {
            look(daemon, STATE, i, 0);
            look(daemon, TOP, i, 0);
        }
    }
    if (p->slot >= 0 && has_peers(p) && p->looks % TELL == 0)
        put_texts(daemon);
}

static void look_for_steps(struct sl_daemon *daemon)
{
    struct sl_daemon_peers *p = &daemon->peers;
    int64_t now = now_of(daemon) / (10 * SL_S);

    for (unsigned i = 0; i < p->used; i++) {
        struct sl_peer_daemon *peer = &p->peers[i];

        if (!peer->is_there)
            continue;
        if (peer->step < now - STEPS_MOST) /* they have expired */
            peer->step = now - STEPS_MOST;
        for (int64_t step = peer->step; step < now && step < peer->step + AHEAD;
             step++)
            look(daemon, STEP, i, step);
    }
}

void sl_peers_poll(struct sl_daemon *daemon)
{
    struct sl_daemon_peers *p = &daemon->peers;
    sl_ns mono = sl_loop_mono(daemon->workers[0].loop);

    if (!secret_of(daemon) || daemon->draining || !p->all ||
        mono - p->ticked < PERIOD || p->open > 0)
        return;
    p->ticked = mono;
    put_steps(daemon);
    look_for_steps(daemon);
    if (mono - p->looked < LOOK)
        return;
    p->looked = mono;
    find_name(daemon);
    if (p->slot < 0 || p->looks % KEEP == 0)
        keep_slot(daemon);
    look_for_all(daemon);
    p->looks++;
}

/* ---- for the console ---- */

static void write_daemon(struct sl_writer *w, unsigned id, const char *name,
                         const char *node, bool is_self,
                         const struct sl_buf *state, const struct sl_buf *top)
{
    sl_json_open(w, '{');
    sl_json_key(w, SL_STR("id"));
    sl_json_uint(w, id);
    sl_json_member_text(w, "name", name);
    sl_json_member_text(w, "node", node);
    sl_json_key(w, SL_STR("self"));
    sl_json_flag(w, is_self);
    sl_json_member_str(w, "state", sl_buf_str(state));
    sl_json_member_str(w, "top", sl_buf_str(top));
    sl_json_close(w, '}');
}

int sl_peers_write(struct sl_daemon *daemon, struct sl_buf *out)
{
    const struct sl_daemon_peers *p = &daemon->peers;
    struct sl_writer w = {.out = out};
    struct sl_buf state, top;

    find_name(daemon);
    sl_buf_init(&state, (size_t)1 << 20, &sl_alloc_libc);
    sl_buf_init(&top, (size_t)1 << 20, &sl_alloc_libc);
    w.err = write_state(daemon, (size_t)1 << 20, &state);
    if (!w.err)
        w.err = write_top(daemon, TOP_SHOWN, true, (size_t)1 << 20, &top);
    sl_writer_add(&w, SL_STR("{\"daemons\":["));
    write_daemon(&w, p->slot >= 0 ? (unsigned)p->slot : 0, p->name,
                 daemon->denials.node, true, &state, &top);
    for (unsigned i = 0; i < p->used; i++) {
        const struct sl_peer_daemon *peer = &p->peers[i];

        if (peer->is_there)
            write_daemon(&w, i, peer->name, peer->node, false, &peer->state,
                         &peer->top);
    }
    sl_writer_add(&w, SL_STR("]}"));
    sl_buf_done(&state);
    sl_buf_done(&top);
    return w.err;
}

const struct sl_history *sl_peers_history(struct sl_daemon *daemon, int id)
{
    const struct sl_daemon_peers *p = &daemon->peers;

    sl_event_publisher_history(daemon);
    if (id == SL_DAEMON_SELF || (id == SL_DAEMON_ALL && !has_peers(p)) ||
        id == p->slot)
        return daemon->history;
    if (id == SL_DAEMON_ALL)
        return p->all;
    return (unsigned)id < SL_PEERS_MOST ? p->peers[id].history : NULL;
}

int sl_peers_begin(struct sl_daemon *daemon)
{
    struct sl_daemon_peers *p = &daemon->peers;
    struct sl_hash_key nonce;

    p->slot = -1;
    if (sl_hash_key_make(&nonce))
        return sl_daemon_no_memory(daemon);
    p->nonce = nonce.k0;
    for (unsigned i = 0; i < SL_PEERS_MOST; i++) {
        sl_buf_init(&p->peers[i].state, SL_REPEAT_MEMO, &sl_alloc_libc);
        sl_buf_init(&p->peers[i].top, SL_REPEAT_MEMO, &sl_alloc_libc);
    }
    return sl_history_open(&sl_alloc_libc, &p->all)
               ? sl_daemon_no_memory(daemon)
               : 0;
}

void sl_peers_end(struct sl_daemon *daemon)
{
    struct sl_daemon_peers *p = &daemon->peers;

    sl_history_close(p->all);
    p->all = NULL;
    for (unsigned i = 0; i < SL_PEERS_MOST; i++) {
        sl_history_close(p->peers[i].history);
        p->peers[i].history = NULL;
        sl_buf_done(&p->peers[i].state);
        sl_buf_done(&p->peers[i].top);
    }
}
