/* demo.c -- the algorithms at work: takes on a virtual clock, drawn as a
 * table.
 *
 * Each scene is a limit and a list of moments. Nothing waits: a month passes
 * as fast as a millisecond, because time is an argument.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/algorithm.h"

#define BAR 20 /* cells of the drawn bucket */

/* At `at`, take `cost`, `times` times over. */
struct moment {
    const char *at;
    uint64_t cost;
    unsigned times; /* 0 ends the list */
};

struct scene {
    const char *title;
    const char *rate;
    enum sl_kind kind;
    struct moment moments[8];
};

static const struct scene scenes[] = {
    {"a full bucket bursts, refuses, and grows back token by token",
     "5/min burst 8", SL_BUCKET,
     {{"0s", 1, 8},
      {"0s", 1, 1},
      {"11999ms", 1, 1},
      {"12s", 1, 1},
      {"30s", 3, 1},
      {"1m36s", 9, 1},
      {"5m", 0, 1}}                                                        },
    {"a leaky bucket paces: it says how long to hold each request back",
     "5/10s queue 3", SL_LEAKY,
     {{"0s", 1, 1}, {"0s", 1, 1}, {"0s", 1, 2}, {"0s", 1, 1}, {"2s", 1, 1}}},
    {"a fixed window gives everything back at its edge",
     "100/h",         SL_FIXED,
     {{"59m59s", 60, 1}, {"59m59s", 41, 1}, {"1h", 41, 1}}                 },
    {"a sliding window lets the past fade",
     "10/10s",        SL_SLIDING,
     {{"9900ms", 1, 10}, {"10s", 1, 1}, {"11s", 1, 1}, {"15s", 1, 5}}      },
    {"a quota follows the calendar: January has 31 days, February 28",
     "120/month",     SL_QUOTA,
     {{"30d", 100, 1}, {"30d", 30, 1}, {"31d", 30, 1}}                     },
    {"refilled by the interval: the tokens of a minute come at once",
     "5/min burst 8", SL_INTERVAL,
     {{"30s", 1, 8}, {"59s", 1, 1}, {"1m", 1, 5}, {"1m", 1, 1}}            },
    {"permits are out until they are given back; no clock helps",
     "2",             SL_PERMITS,
     {{"0s", 1, 2}, {"0s", 1, 1}, {"30d", 1, 1}}                           },
};

static const struct style {
    const char *bold, *good, *bad, *dim, *off;
} plain = {"", "", "", "", ""},
  colour = {"\x1b[1m", "\x1b[32m", "\x1b[31m", "\x1b[2m", "\x1b[0m"};

/* The demo's own texts are never refused; if one is, say so and stop. */
static void must(int err, const struct sl_diag *diag)
{
    if (!err)
        return;
    fprintf(stderr, "sluice-demo: %s\n", diag->sentence);
    exit(1);
}

static const char *span(sl_ns ns, char out[32])
{
    return ns == SL_NS_NONE ? "" : sl_format_duration(ns, out);
}

static void draw_bar(uint64_t left, uint64_t of, const struct style *style)
{
    unsigned full = of ? (unsigned)(left * BAR / of) : 0;

    printf("%s", style->good);
    for (unsigned i = 0; i < BAR; i++) {
        if (i == full)
            printf("%s", style->dim);
        fputs(i < full ? "█" : "░", stdout);
    }
    printf("%s", style->off);
}

static void draw_row(const struct moment *m, unsigned allowed,
                     const struct sl_answer *a, const struct style *style)
{
    static const char *const words[] = {"allowed", "denied", "never"};
    char takes[32], retry[32], reset[32], wait[32];
    bool good = a->outcome == SL_ALLOW;

    if (m->times > 1)
        snprintf(takes, sizeof(takes), "%u x %" PRIu64, allowed, m->cost);
    else
        snprintf(takes, sizeof(takes), "%" PRIu64, m->cost);
    printf("  %-8s %7s  %s%-8s%s ", m->at, takes,
           good ? style->good : style->bad,
           m->cost ? words[a->outcome] : "looked", style->off);
    draw_bar(a->remaining, a->capacity, style);
    printf(" %4" PRIu64 "  %-7s %-9s %s\n", a->remaining,
           span(a->retry_in, retry), span(a->reset_in, reset),
           a->wait ? span(a->wait, wait) : "");
}

static void play(const struct scene *scene, const struct style *style)
{
    struct sl_diag diag = {0};
    struct sl_cell cell = {{0}};
    struct sl_limit limit;
    struct sl_rate rate;

    must(sl_parse_rate(sl_str_c(scene->rate), &rate, &diag), &diag);
    must(sl_limit_init(&limit, scene->kind, &rate, NULL, &diag), &diag);
    printf("\n%s%s %s%s: %s\n", style->bold, sl_kind_name(scene->kind),
           scene->rate, style->off, scene->title);
    printf("%s  at          take  verdict  left%*sretry   reset     wait%s\n",
           style->dim, BAR + 3, "", style->off);

    for (const struct moment *m = scene->moments; m->times; m++) {
        struct sl_take_result t = {.next = cell};
        unsigned allowed = 0;
        sl_ns now;

        must(sl_parse_duration(sl_str_c(m->at), &now, &diag), &diag);
        for (unsigned i = 0; i < m->times; i++) {
            t = sl_take(&limit, t.next, m->cost, now);
            allowed += t.answer.outcome == SL_ALLOW;
        }
        cell = t.next;
        draw_row(m, allowed, &t.answer, style);
    }
}

int main(int argc, char **argv)
{
    const char *no_color = getenv("NO_COLOR");
    bool colours = isatty(STDOUT_FILENO) && !(no_color && *no_color);

    if (argc > 1) {
        fprintf(stderr, "%s: it takes no arguments\n", argv[0]);
        return 2;
    }
    printf("Sluice: limits on a virtual clock. Nothing waits; time is an "
           "argument.\n");
    for (size_t i = 0; i < SL_LEN(scenes); i++)
        play(&scenes[i], colours ? &colour : &plain);
    return fflush(stdout) ? 1 : 0;
}
