/* key_collide.c -- could two templates make the same name?
 *
 * Limits with equal names would share a state, so such a policy is refused. A
 * template is a machine that writes names: literals and known texts byte by
 * byte, a value as any bytes that an escaped value can have.
 *
 *     ratelimit:{user_type}:{id}
 *
 *     r a t e l i m i t : FORK u s e r JUMP a n o n : VALUE*
 *
 * Machines collide if both can write the same name. The walk over the pairs of
 * their states only goes forwards: one pass of at most |a| x |b| steps.
 *
 * A thousand limits are half a million pairs, so most are decided without a
 * walk. Bytes that no value has, like a colon, cut both names into sections.
 * Names collide only if they have as many sections and each pair of sections
 * has equal bytes before its first value and behind its last.
 *
 *     ratelimit : {user_type} : a{id}c   a{id}c collides with ab{id}, not b{id}
 */
#include <string.h>

#include "policy/key.h"

#define STATES 512 /* of one machine; a longer one counts as colliding */

enum op {
    BYTE,   /* write `arg`, go on */
    VALUE,  /* write any number of bytes of escaped values */
    VALUES, /* the same with colons */
    DIGITS, /* any number of digits */
    FORK,   /* go on, or go to `arg` */
    JUMP,   /* go to `arg` */
    STOP,
};

struct state {
    uint16_t op; /* as wide as arg: two states are compared byte by byte */
    uint16_t arg;
};

struct machine {
    struct state *states; /* room for STATES while it is made */
    unsigned count;
    bool full; /* it had to be cut */
};

/* States of a machine up to a byte that no value has, or to its end. */
struct section {
    uint16_t from, len;
    uint16_t head, tail; /* bytes at its ends that every name has there */
    bool fixed;          /* it is all head: nothing in it varies */
};

struct sl_key_form {
    struct machine machine;
    struct section *sections;
    unsigned section_count; /* 0: not known */
};

/* Returns the state's number. */
static unsigned add(struct machine *m, enum op op, unsigned arg)
{
    if (m->count == STATES - 1) { /* the last is for STOP */
        m->full = true;
        return m->count - 1;
    }
    m->states[m->count] = (struct state){(uint16_t)op, (uint16_t)arg};
    return m->count++;
}

static void add_bytes(struct machine *m, struct sl_str bytes)
{
    for (size_t i = 0; i < bytes.len && !m->full; i++)
        add(m, BYTE, (unsigned char)bytes.at[i]);
}

/* A known text, escaped; any value if it is empty. */
static void add_known(struct machine *m, struct sl_str text)
{
    if (text.len == 0)
        add(m, VALUE, 0);
    for (size_t i = 0; i < text.len && !m->full; i++) {
        unsigned char c = (unsigned char)text.at[i];

        if (sl_key_is_plain(c)) {
            add(m, BYTE, c);
        } else {
            add(m, BYTE, '%');
            add(m, BYTE, (unsigned char)"0123456789ABCDEF"[c >> 4]);
            add(m, BYTE, (unsigned char)"0123456789ABCDEF"[c & 15]);
        }
    }
}

/* One of several words. */
static void add_choice(struct machine *m, const struct sl_str *words,
                       unsigned count)
{
    unsigned jumps[3] = {0}, fork = 0;

    for (unsigned i = 0; i < count; i++) {
        if (i + 1 < count)
            fork = add(m, FORK, 0);
        add_known(m, words[i]);
        if (i + 1 < count) {
            jumps[i] = add(m, JUMP, 0);
            m->states[fork].arg = (uint16_t)m->count;
        }
    }
    for (unsigned i = 0; i + 1 < count; i++)
        m->states[jumps[i]].arg = (uint16_t)m->count;
}

/* Every request has a value. */
static bool always_there(struct sl_str scope)
{
    return sl_str_eq(scope, SL_STR("ip")) || sl_str_eq(scope, SL_STR("anon")) ||
           sl_str_eq(scope, SL_STR("endpoint"));
}

static void add_scopes(struct machine *m, const struct sl_key_use *use)
{
    struct sl_str words[3] = {
        {NULL, 0},
        SL_STR("ip"), SL_STR("anon")
    };

    if (!use) {
        add(m, VALUES, 0);
        return;
    }
    if (use->scope_count == 0)
        add_bytes(m, SL_STR("all"));
    for (unsigned i = 0; i < use->scope_count; i++) {
        if (i > 0)
            add(m, BYTE, ':');
        words[0] = use->scopes[i];
        add_choice(m, words,
                   use->anonymous && !always_there(use->scopes[i]) ? 3 : 1);
    }
}

static void add_ids(struct machine *m, const struct sl_key_use *use)
{
    if (!use)
        add(m, VALUES, 0);
    for (unsigned i = 0; use && i < use->scope_count; i++) {
        if (i > 0)
            add(m, BYTE, ':');
        add(m, VALUE, 0);
    }
}

static bool is_per_endpoint(const struct sl_key_use *use)
{
    for (unsigned i = 0; use && i < use->scope_count; i++)
        if (sl_str_eq(use->scopes[i], SL_STR("endpoint")))
            return true;
    return false;
}

static void add_hold(struct machine *m, enum sl_key_hold hold,
                     const struct sl_key_context *context)
{
    static const struct sl_str types[] = {
        {"user", 4},
        {"anon", 4}
    };

    switch (hold) {
    case SL_KEY_ENV:
        add_known(m, context->env);
        break;
    case SL_KEY_ENDPOINT:
        add_known(m, is_per_endpoint(context->use) ? (struct sl_str){NULL, 0}
                                                   : context->endpoint);
        break;
    case SL_KEY_NAME:
        add_known(m, context->name);
        break;
    case SL_KEY_SCOPE:
        add_scopes(m, context->use);
        break;
    case SL_KEY_ID:
        add_ids(m, context->use);
        break;
    case SL_KEY_USER_TYPE:
        add_choice(m, types, 2);
        break;
    case SL_KEY_WINDOW_START:
        add(m, DIGITS, 0);
        break;
    default:
        add(m, VALUE, 0);
        break;
    }
}

static void make_machine(struct machine *m, const struct sl_key_template *key,
                         const struct sl_key_context *context)
{
    m->count = 0;
    m->full = false;
    for (unsigned i = 0; i < key->count && !m->full; i++) {
        if (key->pieces[i].is_literal)
            add_bytes(m, key->pieces[i].literal);
        else
            add_hold(m, key->pieces[i].hold, context);
    }
    m->states[m->count++] = (struct state){STOP, 0};
}

static bool writes(enum op op, unsigned arg, unsigned char c)
{
    switch (op) {
    case BYTE:
        return arg == c;
    case VALUE:
        return sl_key_is_plain(c) || c == '%';
    case VALUES:
        return sl_key_is_plain(c) || c == '%' || c == ':';
    case DIGITS:
        return c >= '0' && c <= '9';
    default:
        return false;
    }
}

static bool is_row(enum op op)
{
    return op == VALUE || op == VALUES || op == DIGITS;
}

/* The pairs that can be reached. */
struct pairs {
    unsigned lines, columns; /* nothing is reached beyond these */
    uint8_t reached[STATES][STATES / 8];
};

static void reach(struct pairs *p, unsigned i, unsigned j)
{
    for (; p->lines <= i; p->lines++)
        memset(p->reached[p->lines], 0, sizeof(p->reached[0]));
    if (p->columns <= j)
        p->columns = j + 1;
    p->reached[i][j / 8] |= (uint8_t)(1U << j % 8);
}

static bool is_reached(const struct pairs *p, unsigned i, unsigned j)
{
    return p->reached[i][j / 8] >> j % 8 & 1;
}

/* Reach all pairs behind (i, j). Two rows that write together stay; the end of
 * a row is a step of its own. */
static void leave(struct pairs *p, const struct machine *a, unsigned i,
                  const struct machine *b, unsigned j)
{
    const struct state *s = &a->states[i], *t = &b->states[j];

    if (s->op == FORK || s->op == JUMP)
        reach(p, s->arg, j);
    if (s->op == FORK || is_row(s->op))
        reach(p, i + 1, j);
    if (t->op == FORK || t->op == JUMP)
        reach(p, i, t->arg);
    if (t->op == FORK || is_row(t->op))
        reach(p, i, j + 1);
    if (s->op == BYTE && writes(t->op, t->arg, (unsigned char)s->arg))
        reach(p, i + 1, is_row(t->op) ? j : j + 1);
    if (t->op == BYTE && is_row(s->op) &&
        writes(s->op, s->arg, (unsigned char)t->arg))
        reach(p, i, j + 1);
}

static bool walk(const struct machine *m, const struct machine *n)
{
    struct pairs pairs; /* 32 KB, of which little is touched */

    pairs.lines = pairs.columns = 0;
    reach(&pairs, 0, 0);
    for (unsigned i = 0; i < pairs.lines; i++)
        for (unsigned j = 0; j < pairs.columns; j++)
            if (is_reached(&pairs, i, j))
                leave(&pairs, m, i, n, j);
    return pairs.lines == m->count &&
           is_reached(&pairs, m->count - 1, n->count - 1);
}

/* ---- sections ---- */

/* A byte that only a template can have. */
static bool is_cut(const struct state *s)
{
    return s->op == BYTE && !writes(VALUE, 0, (unsigned char)s->arg);
}

/* The number of sections; 0 if a value can contain cuts. */
static unsigned count_sections(const struct machine *m)
{
    unsigned count = 1;

    for (unsigned i = 0; i < m->count; i++) {
        if (m->states[i].op == VALUES)
            return 0;
        count += is_cut(&m->states[i]);
    }
    return count;
}

/* The tail begins behind the last row or choice. */
static void measure(const struct machine *m, struct section *s)
{
    const struct state *states = m->states + s->from;
    unsigned tail_from = 0;

    while (s->head < s->len && states[s->head].op == BYTE)
        s->head++;
    s->fixed = s->head == s->len;
    for (unsigned i = s->head; i < s->len; i++) {
        if (states[i].op == FORK || states[i].op == JUMP)
            tail_from = states[i].arg - (unsigned)s->from;
        else if (states[i].op != BYTE)
            tail_from = i + 1;
    }
    s->tail = (uint16_t)(s->len - tail_from);
}

/* Each section but the last ends with its cut. */
static void cut(const struct machine *m, struct section *sections)
{
    unsigned from = 0;

    for (unsigned i = 0; i < m->count; i++) {
        if (!is_cut(&m->states[i]) && m->states[i].op != STOP)
            continue;
        *sections = (struct section){
            .from = (uint16_t)from,
            .len = (uint16_t)(i - from + (m->states[i].op != STOP)),
        };
        measure(m, sections++);
        from = i + 1;
    }
}

static unsigned least(unsigned a, unsigned b)
{
    return a < b ? a : b;
}

/* Do the sections certainly have no text in common? */
static bool sections_differ(const struct machine *m, const struct section *s,
                            const struct machine *n, const struct section *t)
{
    const struct state *a = m->states + s->from, *b = n->states + t->from;
    unsigned head = least(s->head, t->head), tail = least(s->tail, t->tail);

    if ((s->fixed && t->fixed && s->len != t->len) ||
        (s->fixed && !t->fixed && s->len < t->head + t->tail) ||
        (t->fixed && !s->fixed && t->len < s->head + s->tail))
        return true;
    return memcmp(a, b, head * sizeof(*a)) != 0 ||
           memcmp(a + s->len - tail, b + t->len - tail, tail * sizeof(*a)) != 0;
}

static bool forms_differ(const struct sl_key_form *a,
                         const struct sl_key_form *b)
{
    if (a->section_count == 0 || b->section_count == 0)
        return false;
    if (a->section_count != b->section_count)
        return true;
    for (unsigned i = 0; i < a->section_count; i++)
        if (sections_differ(&a->machine, &a->sections[i], &b->machine,
                            &b->sections[i]))
            return true;
    return false;
}

/* For the largest machine, which has at most as many sections as states. */
struct room {
    struct state states[STATES];
    struct section sections[STATES];
};

static struct sl_key_form make_form(const struct sl_key_template *key,
                                    const struct sl_key_context *context,
                                    struct room *room)
{
    struct sl_key_form form = {
        .machine = {.states = room->states},
        .sections = room->sections,
    };

    make_machine(&form.machine, key, context);
    form.section_count = count_sections(&form.machine);
    if (form.section_count > 0)
        cut(&form.machine, form.sections);
    return form;
}

struct sl_key_form *sl_key_form(const struct sl_key_template *key,
                                const struct sl_key_context *context,
                                struct sl_arena *arena)
{
    struct room room;
    struct sl_key_form form = make_form(key, context, &room);
    size_t states = form.machine.count * sizeof(struct state);
    size_t sections = form.section_count * sizeof(struct section);
    struct sl_key_form *ret = sl_arena_take(arena, sizeof(*ret));

    form.machine.states = sl_arena_take(arena, states);
    form.sections = sl_arena_take(arena, sections);
    if (!ret || !form.machine.states || !form.sections)
        return NULL;
    memcpy(form.machine.states, room.states, states);
    if (sections > 0)
        memcpy(form.sections, room.sections, sections);
    *ret = form;
    return ret;
}

bool sl_key_forms_collide(const struct sl_key_form *a,
                          const struct sl_key_form *b)
{
    if (a->machine.full || b->machine.full)
        return true;
    return !forms_differ(a, b) && walk(&a->machine, &b->machine);
}

bool sl_key_templates_collide(const struct sl_key_template *a,
                              const struct sl_key_context *a_context,
                              const struct sl_key_template *b,
                              const struct sl_key_context *b_context)
{
    struct room a_room, b_room;
    struct sl_key_form m = make_form(a, a_context, &a_room);
    struct sl_key_form n = make_form(b, b_context, &b_room);

    return sl_key_forms_collide(&m, &n);
}
