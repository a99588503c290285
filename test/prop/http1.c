/* http1.c -- requests that are nearly good, made by damaging good ones.
 *
 *   (1)  what the reader says does not depend on how the bytes were cut
 *   (2)  what it takes, http-parser takes in the same way
 *   (3)  what follows a request is left as it was
 *   (4)  a reader that asks for more has room for it
 */

#include "http1_diff.h"
#include "prop.h"
#include "rows.h"

#define TEXT_MOST 2048

/* Texts that are put into a request. */
static const struct sl_str words[] = {
    SLICE("\r\n"),
    SLICE("\n"),
    SLICE("\r"),
    SLICE("\0"),
    SLICE(" "),
    SLICE("\t"),
    SLICE(":"),
    SLICE(","),
    SLICE("/"),
    SLICE("?"),
    SLICE("0"),
    SLICE("1"),
    SLICE("a"),
    SLICE(";"),
    SLICE("\177"),
    SLICE("\303\244"),
    SLICE("\r\n\r\n"),
    SLICE("http://a"),
    SLICE("HEAD "),
    SLICE("0\r\n\r\n"),
    SLICE("3\r\nabc\r\n"),
    SLICE("close"),
    SLICE("keep-alive"),
    SLICE("chunked"),
    SLICE("Content-Length: 3\r\n"),
    SLICE("Content-Length: 0\r\n"),
    SLICE("Transfer-Encoding: chunked\r\n"),
    SLICE("Connection: close\r\n"),
    SLICE("Connection: Keep-Alive, Upgrade\r\n"),
    SLICE("Connection: te, upgrade ,close\r\n"),
    SLICE("Proxy-Connection: close\r\n"),
    SLICE("Upgrade: h2c\r\n"),
    SLICE("Expect: 100-continue\r\n"),
    SLICE("Host: a\r\n"),
    SLICE("X-Some: thing  \r\n"),
    SLICE(GET HOST "\r\n"),
};

static uint64_t taken, refused, pending; /* results */

struct text {
    char bytes[TEXT_MOST];
    size_t len;
};

/* Put `with` in the place of `count` bytes at `at`. */
static void replace(struct text *t, size_t at, size_t count, struct sl_str with)
{
    if (t->len - count + with.len > TEXT_MOST)
        return;
    memmove(t->bytes + at + with.len, t->bytes + at + count,
            t->len - at - count);
    memcpy(t->bytes + at, with.at, with.len);
    t->len = t->len - count + with.len;
}

static void append(struct text *t, struct sl_str with)
{
    replace(t, t->len, 0, with);
}

static struct sl_str random_row(struct rng *rng)
{
    if (rng_once_in(rng, 4))
        return refused_rows[rng_below(rng, SL_LEN(refused_rows))].text;
    return accepted_rows[rng_below(rng, SL_LEN(accepted_rows))].text;
}

/* The place behind a random line of the text: most of what matters is said by
 * whole lines. */
static size_t random_line(struct rng *rng, const struct text *t)
{
    size_t at = rng_below(rng, t->len + 1);
    const char *lf = memchr(t->bytes + at, '\n', t->len - at);

    return lf ? (size_t)(lf - t->bytes) + 1 : t->len;
}

static void damage(struct rng *rng, struct text *t)
{
    size_t at = rng_below(rng, t->len + 1);
    size_t count = rng_log(rng, t->len - at < 8 ? t->len - at : 8);
    struct sl_str word = words[rng_below(rng, SL_LEN(words))];
    char byte = (char)rng_below(rng, 256);

    switch (rng_below(rng, 6)) {
    case 0:
        replace(t, at, count, (struct sl_str){"", 0});
        break;
    case 1:
        replace(t, at, count, (struct sl_str){&byte, 1});
        break;
    case 2:
        replace(t, at, 0, word);
        break;
    case 3:
        replace(t, at, count, word);
        break;
    default:
        replace(t, random_line(rng, t), 0, word);
    }
}

static void random_text(struct rng *rng, struct text *t)
{
    uint64_t times = rng_below(rng, 4);

    t->len = 0;
    append(t, random_row(rng));
    while (times-- > 0)
        damage(rng, t);
    if (rng_once_in(rng, 8))
        t->len = rng_below(rng, t->len + 1);
    else
        while (rng_once_in(rng, 2))
            append(t, random_row(rng));
}

static bool holds(bool good, const char *what, const struct text *t)
{
    if (good)
        return true;
    printf("# http1 %s:\n# ", what);
    for (size_t i = 0; i < t->len; i++)
        printf(t->bytes[i] >= ' ' && t->bytes[i] < 127 ? "%c" : "\\%03o",
               (uint8_t)t->bytes[i]);
    printf("\n");
    return false;
}

/* Now and then less than the usual is allowed. */
static struct sl_http1_limits random_limits(struct rng *rng)
{
    if (!rng_once_in(rng, 4))
        return run_limits;
    return (struct sl_http1_limits){
        .line = rng_between(rng, 10, 60),
        .head = rng_between(rng, 20, 120),
        .body = rng_below(rng, 12),
    };
}

static bool episode(uint64_t seed, uint64_t *steps)
{
    struct rng rng = {seed};
    struct sl_http1_limits limits = random_limits(&rng);
    struct run whole, cut;
    struct sl_str text;
    struct text t;
    uint8_t cuts[4];
    const char *differs;
    bool good = true;

    random_text(&rng, &t);
    text = (struct sl_str){t.bytes, t.len};
    for (size_t i = 0; i < SL_LEN(cuts); i++)
        cuts[i] = (uint8_t)rng_log(&rng, 255);
    run_cut(&whole, text, &limits, NULL, 0);
    run_cut(&cut, text, &limits, cuts, SL_LEN(cuts));

    differs = run_differ(&whole, &cut);
    good &= holds(!differs, "(1)", &t);
    differs = diff(&whole, text);
    if (differs)
        printf("# differs in %s\n", differs);
    good &= holds(!differs, "(2)", &t);
    if (whole.result == SL_HTTP1_DONE)
        good &= holds(run_rest_is(&whole, text), "(3)", &t) &&
                holds(run_rest_is(&cut, text), "(3)", &t);
    if (whole.result == SL_HTTP1_MORE)
        good &= holds(whole.in.len < SL_HTTP1_CEILING(limits), "(4)", &t) &&
                holds(cut.in.len < SL_HTTP1_CEILING(limits), "(4)", &t);
    taken += whole.result == SL_HTTP1_DONE;
    refused += whole.result == SL_HTTP1_REFUSED;
    pending += whole.result == SL_HTTP1_MORE;
    run_done(&whole);
    run_done(&cut);
    *steps += 1;
    return good;
}

static void finish(uint64_t steps)
{
    uint64_t all = taken + refused + pending;

    (void)steps;
    CASE("http1: there were enough of each kind to learn from");
    printf("# %" PRIu64 " taken, %" PRIu64 " refused, %" PRIu64 " unfinished\n",
           taken, refused, pending);
    CHECK(taken > all / 10);
    CHECK(refused > all / 10);
    CHECK(pending > all / 100);
}

const struct property prop_http1 = {
    .name = "http1",
    .steps = 500000,
    .cases =
        {{"http1 (1) (2) (3) (4) damaged requests, in pieces and elsewhere",
          episode}},
    .finish = finish,
};
