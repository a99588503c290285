/* show.c -- what became of a hold, in words and as JSON. */
#include "engine/hold_op.h"
#include "engine/render/face.h"
#include "engine/render/ink.h"

static const char *const states[] = {
    [SL_HOLD_UNKNOWN] = "unknown", [SL_HOLD_HELD] = "held",
    [SL_HOLD_SETTLED] = "settled", [SL_HOLD_RELEASED] = "released",
    [SL_HOLD_EXPIRED] = "expired",
};

bool sl_hold_is_again(const struct sl_hold_op *ask)
{
    return ask->call.state != SL_HOLD_HELD;
}

const char *sl_hold_state_word(const struct sl_hold_op *ask)
{
    enum sl_hold_state state = ask->call.state;

    if (state == SL_HOLD_HELD && ask->verb == SL_VERB_SETTLE)
        state = SL_HOLD_SETTLED;
    if (state == SL_HOLD_HELD && ask->verb == SL_VERB_RELEASE)
        state = SL_HOLD_RELEASED;
    return states[state];
}

const struct sl_rule *sl_hold_rule(const struct sl_hold_op *ask, unsigned i)
{
    const struct sl_limit_binding *of = ask->call.parts[i].of;

    return of ? &ask->live->policy->rules[(of - ask->call.limits) / 2] : NULL;
}

static void write_bool(struct sl_writer *ink, bool value)
{
    sl_writer_raw(ink, value ? SL_STR("true") : SL_STR("false"));
}

/* A limit that is no longer in the policy has neither name nor numbers. */
static void write_part(struct sl_writer *ink, const struct sl_hold_op *ask,
                       unsigned i)
{
    const struct sl_held_part *part = &ask->call.parts[i];
    const struct sl_rule *rule = sl_hold_rule(ask, i);

    sl_writer_raw(ink, i > 0 ? SL_STR(",{\"name\":") : SL_STR("{\"name\":"));
    if (rule)
        sl_writer_string(ink, rule->name);
    else
        sl_writer_raw(ink, SL_STR("null"));
    sl_writer_raw(ink, SL_STR(",\"held\":"));
    sl_writer_number(ink, part->held);
    sl_writer_raw(ink, SL_STR(",\"cost\":"));
    if (ask->verb == SL_VERB_EXTEND)
        sl_writer_raw(ink, SL_STR("null"));
    else
        sl_writer_number(ink, part->cost);
    sl_writer_raw(ink, SL_STR(",\"remaining\":"));
    if (rule)
        sl_writer_number(ink, part->answer.remaining);
    else
        sl_writer_raw(ink, SL_STR("null"));
    sl_writer_raw(ink, SL_STR(",\"over\":"));
    write_bool(ink, part->over);
    sl_writer_raw(ink, SL_STR("}"));
}

int sl_hold_render(const struct sl_hold_op *ask, struct sl_buf *out)
{
    struct sl_writer ink = {.out = out, .json = true};
    size_t before = out->len;
    bool held = ask->verb == SL_VERB_EXTEND && !sl_hold_is_again(ask);
    char name[SL_HOLD_TEXT];

    sl_hold_name_write(&ask->name, name);
    sl_writer_raw(&ink, SL_STR("{\"hold\":"));
    sl_writer_string(&ink, sl_str_c(name));
    sl_writer_raw(&ink, SL_STR(",\"state\":"));
    sl_writer_string(&ink, sl_str_c(sl_hold_state_word(ask)));
    sl_writer_raw(&ink, SL_STR(",\"again\":"));
    write_bool(&ink, sl_hold_is_again(ask));
    sl_writer_raw(&ink, SL_STR(",\"expires_ms\":"));
    if (held)
        sl_writer_number(&ink, sl_span_in(ask->call.expires_in, SL_MS));
    else
        sl_writer_raw(&ink, SL_STR("null"));
    sl_writer_raw(&ink, SL_STR(",\"limits\":["));
    for (unsigned i = 0; i < ask->call.count; i++)
        write_part(&ink, ask, i);
    sl_writer_raw(&ink, SL_STR("]}"));
    if (ink.err)
        out->len = before;
    return ink.err;
}
