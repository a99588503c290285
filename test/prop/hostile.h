/* hostile.h -- decisions with hostile texts everywhere, for render.c.
 *
 * Texts are made of pieces. In JSON valid characters stay, and bytes that are
 * no UTF-8 become U+FFFD.
 */
#ifndef SL_PROP_HOSTILE_H
#define SL_PROP_HOSTILE_H

#include "rng.h"
#include "stage.h"

static struct stage s;
static uint64_t seed_now;
static bool good;

#define HOLDS(invariant, cond)                                                 \
    do {                                                                       \
        if (!(cond) && good) {                                                 \
            printf("# %s, seed %" PRIu64 ": not true: %s\n", (invariant),      \
                   seed_now, #cond);                                           \
            good = false;                                                      \
        }                                                                      \
    } while (0)

/* ---- hostile texts ---- */

struct hostile {
    char raw[160], want[512]; /* as sent, and as JSON must give it back */
    size_t raw_len, want_len;
};

static const struct {
    const char *raw;
    bool bad; /* no UTF-8 */
} pieces[] = {
    {"a",                 false},
    {"Z9_-.:",            false},
    {" ",                 false},
    {"\"",                false},
    {"\\",                false},
    {"/",                 false},
    {"%",                 false},
    {"%41",               false},
    {"{limit}",           false},
    {"{",                 false},
    {"}",                 false},
    {",",                 false},
    {";q=1",              false},
    {"\r\n",              false},
    {"\r\nSet-Cookie: x", false},
    {"\t",                false},
    {"\x01",              false},
    {"\x1b[31m",          false},
    {"\x7f",              false},
    {"\xc3\xa4",          false},
    {"\xe2\x80\xa8",      false},
    {"\xe2\x80\xa9",      false},
    {"\xef\xbf\xbf",      false},
    {"\xf0\x9f\x92\xa7",  false},
    {"\x80",              true },
    {"\xbf",              true },
    {"\xc0",              true },
    {"\xff",              true },
};

/* Half of all texts are harmless. */
static void make(struct rng *rng, struct hostile *h, bool utf8)
{
    unsigned count = (unsigned)rng_below(rng, 9);
    bool harmless = rng_once_in(rng, 2);

    h->raw_len = h->want_len = 0;
    for (unsigned i = 0; i < count; i++) {
        size_t k = rng_below(rng, harmless ? 2 : SL_LEN(pieces));
        size_t len = strlen(pieces[k].raw);

        if (utf8 && pieces[k].bad)
            continue;
        memcpy(h->raw + h->raw_len, pieces[k].raw, len);
        h->raw_len += len;
        if (pieces[k].bad)
            memcpy(h->want + h->want_len, "\xef\xbf\xbd", len = 3);
        else
            memcpy(h->want + h->want_len, pieces[k].raw, len);
        h->want_len += len;
    }
    h->raw[h->raw_len] = h->want[h->want_len] = '\0';
}

static struct sl_str raw(const struct hostile *h)
{
    return (struct sl_str){h->raw, h->raw_len};
}

/* ---- decisions ---- */

static struct hostile names[SL_PARTS], plan, scope, id, request_id, words, code;

static void random_limit(struct rng *rng, unsigned i)
{
    static const char *const rates[][2] = {
        {"5/min burst 8",         "0"},
        {"1/500ms",               "0"},
        {"120/month",             "5"},
        {"9007199254740992/2day", "5"},
        {"2",                     "6"},
        {"9007199254740992",      "7"},
    };
    size_t k = rng_below(rng, SL_LEN(rates));
    struct sl_limit_view *shown;

    make(rng, &names[i], false);
    shown = stage_limit(&s, raw(&names[i]),
                        (enum sl_kind)(rates[k][1][0] - '0'), rates[k][0]);
    shown->plan_name = raw(&plan);
    shown->scope = raw(&scope);
    shown->id = id.raw;
    shown->answer.remaining = rng_log(rng, UINT64_MAX);
    if (shown->answer.reset_in >= 0)
        shown->answer.reset_in = (sl_ns)rng_log(rng, SL_NS_MAX);
    shown->next_in = (sl_ns)rng_log(rng, SL_NS_MAX);
    shown->cost = rng_log(rng, UINT64_MAX);
    s.rules[i].unit = rng_once_in(rng, 3) ? SL_STR("tokens") : SL_STR("");
    if (rng_once_in(rng, 6))
        shown->form = SL_RATE_UNLIMITED;
    if (rng_once_in(rng, 6))
        shown->mode = SL_MODE_SHADOW;
}

static void random_denial(struct rng *rng)
{
    struct sl_limit_view *by;

    if (s.d.shown_count == 0 || rng_once_in(rng, 5)) {
        stage_refuse(&s, (enum sl_reason)rng_between(rng, 1, 7),
                     rng_once_in(rng, 2) ? 403 : 503, raw(&code));
        s.d.missing_scope = raw(&scope);
        return;
    }
    by = &s.d.shown[rng_below(rng, s.d.shown_count)];
    by->form = by->answer.reset_in < 0 ? SL_RATE_PLAIN : SL_RATE_PER;
    by->mode = SL_MODE_ENFORCE;
    stage_deny(&s, by,
               rng_once_in(rng, 4) ? -1 : (sl_ns)rng_log(rng, SL_NS_MAX));
    s.d.code = raw(&code);
}

/* A message of the policy: the hostile words, and three values. */
static void random_message(struct rng *rng)
{
    char text[512];
    size_t len = 0;

    if (!rng_once_in(rng, 2))
        return;
    for (size_t i = 0; i < words.raw_len; i++) {
        text[len++] = words.raw[i];
        if (words.raw[i] == '{' || words.raw[i] == '}')
            text[len++] = words.raw[i];
    }
    len += (size_t)snprintf(text + len, sizeof(text) - len,
                            "|{name}|{id}|{request_id}");
    for (unsigned i = 0; i < s.d.shown_count; i++) {
        HOLDS("setup", sl_template_read((struct sl_str){text, len}, &s.texts,
                                        &s.rules[i].deny.message, NULL) == 0);
    }
}

static void random_decision(struct rng *rng)
{
    unsigned count = (unsigned)rng_below(rng, 5);

    stage_open(&s);
    make(rng, &plan, false);
    make(rng, &scope, false);
    make(rng, &id, false);
    make(rng, &words, true);
    make(rng, &code, true);
    do {
        make(rng, &request_id, false);
    } while (request_id.raw_len > SL_REQUEST_ID);
    memcpy(s.d.request_id, request_id.raw, request_id.raw_len + 1);
    s.plan.name = raw(&plan);
    s.route.dialects = (int)rng_below(rng, 64);
    s.route.reset = rng_once_in(rng, 2) ? SL_RESET_NEXT : SL_RESET_FULL;
    s.d.now = (sl_ns)rng_log(rng, SL_TIME_END - 1);
    s.d.degraded = rng_once_in(rng, 4);
    for (unsigned i = 0; i < count; i++)
        random_limit(rng, i);
    if (count > 0 && rng_once_in(rng, 2))
        s.d.quota = (int)rng_below(rng, count);
    if (rng_once_in(rng, 2))
        random_denial(rng);
    random_message(rng);
}

#endif
