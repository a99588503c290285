/* breaker.c -- when to stop asking, and when to try again. */
#include "store/remote.h"

#include "check.h"

static bool note_many(struct sl_breaker *b, bool good, unsigned count, sl_ns at)
{
    bool changed = false;

    for (unsigned i = 0; i < count; i++)
        changed |= sl_breaker_record(b, good, false, at);
    return changed;
}

TEST(row)
{
    struct sl_breaker b = {.is_open = false};
    bool tries;

    CASE("five failures in a row open it, four do not");
    CHECK_EQ(sl_jitter_init(&b.jitter), 0);
    CHECK(!note_many(&b, false, 4, SL_S));
    CHECK(!note_many(&b, true, 1, SL_S));
    CHECK(!note_many(&b, false, 4, 3 * SL_S));
    CHECK(sl_breaker_allows(&b, 3 * SL_S, &tries) && !tries);
    CHECK(note_many(&b, false, 1, 3 * SL_S));
    CHECK(!sl_breaker_allows(&b, 3 * SL_S, &tries));

    CASE("one tries, within a third of a second; no other until it ends");
    CHECK(sl_breaker_probe_in(&b, 3 * SL_S) >= 150 * SL_MS);
    CHECK(sl_breaker_probe_in(&b, 3 * SL_S) <= 300 * SL_MS);
    CHECK(sl_breaker_allows(&b, 3300 * SL_MS, &tries) && tries);
    CHECK(!sl_breaker_allows(&b, 9 * SL_S, &tries));
    CHECK(!sl_breaker_record(&b, true, false, 9 * SL_S)); /* an old one */
    CHECK(!sl_breaker_record(&b, false, true, 9 * SL_S));
    CHECK(!sl_breaker_allows(&b, 9 * SL_S, &tries));
    CHECK(sl_breaker_allows(&b, 10 * SL_S, &tries) && tries);
    sl_breaker_cancel(&b, tries); /* it was not asked at all */
    CHECK(sl_breaker_allows(&b, 10 * SL_S, &tries) && tries);

    CASE("one that succeeds closes it, and all is forgotten");
    CHECK(sl_breaker_record(&b, true, true, 10 * SL_S));
    CHECK(sl_breaker_allows(&b, 10 * SL_S, &tries) && !tries);
    CHECK_EQ(sl_breaker_probe_in(&b, 10 * SL_S), 0);
    CHECK(!note_many(&b, false, 4, 10 * SL_S));
}

TEST(share)
{
    struct sl_breaker b = {.is_open = false};
    bool opened = false;

    CASE("half of many open it, though none follow each other");
    CHECK_EQ(sl_jitter_init(&b.jitter), 0);
    for (unsigned i = 0; i < 18; i++)
        opened |= sl_breaker_record(&b, i % 2, false, SL_S);
    CHECK(!opened);
    for (unsigned i = 0; i < 4; i++)
        opened |= sl_breaker_record(&b, i % 2, false, SL_S);
    CHECK(opened);

    CASE("a tenth of many does not");
    b = (struct sl_breaker){.jitter = b.jitter};
    opened = false;
    for (unsigned i = 0; i < 5000; i++)
        opened |= sl_breaker_record(&b, i % 10 != 0, false, SL_S + (sl_ns)i);
    CHECK(!opened);

    CASE("each second is counted for itself");
    b = (struct sl_breaker){.jitter = b.jitter};
    opened = false;
    for (unsigned i = 0; i < 60; i++)
        opened |=
            sl_breaker_record(&b, i % 2, false, (sl_ns)(i + 1) * 100 * SL_MS);
    CHECK(!opened);
}

TEST(dice)
{
    struct sl_jitter dice;
    sl_ns least = SL_S, most = 0;

    CASE("chance lies between a half and the whole, and is spread");
    CHECK_EQ(sl_jitter_init(&dice), 0);
    for (unsigned i = 0; i < 1000; i++) {
        sl_ns span = sl_jitter_span(&dice, SL_S);

        CHECK(span >= SL_S / 2 && span <= SL_S);
        least = span < least ? span : least;
        most = span > most ? span : most;
    }
    CHECK(least < 520 * SL_MS && most > 980 * SL_MS);
}

CHECK_MAIN()
