/* counted.h -- what is on the page of metrics. */
#ifndef SL_DOORS_COUNTED_H
#define SL_DOORS_COUNTED_H

#include <stdlib.h>

#include "check.h"
#include "server/metrics.h"

struct counted {
    struct sl_metrics *stats[4]; /* of as many threads */
    unsigned count;
    struct sl_metrics_now now;
    struct sl_buf page; /* the last one, with a NUL behind it */
    bool open_metrics;
};

static const char *const jwks_words[SL_JWKS_WORDS] = {"good", "b", "c", "d",
                                                      "e"};

static inline void counted_open(struct counted *c, unsigned count)
{
    memset(c, 0, sizeof(*c));
    c->count = count;
    c->now.policy_hash = "0123abcd";
    c->now.store = "memory";
    c->now.store_up = true;
    c->now.started_at = 1000 * SL_S;
    c->now.shared.on = true;
    c->now.shared.ahead = -90 * SL_MS;
    c->now.shared.latency = 3 * SL_MS;
    c->now.has_database = true;
    c->now.webhooks.on = true;
    c->now.jwks_on = true;
    c->now.jwks_keys = 2;
    c->now.jwks_age = 90 * SL_S;
    c->now.jwks_words = jwks_words;
    sl_buf_init(&c->page, 16 << 20, &sl_alloc_libc);
    for (unsigned i = 0; i < count; i++)
        if (sl_metrics_open(NULL, &c->stats[i])) {
            printf("Bail out! no memory\n");
            exit(1);
        }
}

static inline void counted_close(struct counted *c)
{
    for (unsigned i = 0; i < c->count; i++)
        sl_metrics_close(c->stats[i]);
    sl_buf_done(&c->page);
}

static inline const char *counted_page(struct counted *c)
{
    sl_buf_clear(&c->page);
    CHECK_EQ(sl_metrics_render(c->stats, c->count, &c->now, c->open_metrics,
                               &c->page),
             0);
    CHECK_EQ(sl_buf_add(&c->page, (struct sl_str){"", 1}), 0);
    return c->page.bytes;
}

/* The line of the page that begins with `sample` and a blank: what stands
 * behind it, until the end of the page; NULL if there is none. By lengths: a
 * page is long, and sanitizers look at all of a text whenever they are asked
 * for a part of it. */
static inline const char *counted_find(const char *page, const char *sample)
{
    size_t len = strlen(sample), left = page ? strlen(page) : 0;

    while (left > len) {
        const char *end = memchr(page, '\n', left);
        size_t line = end ? (size_t)(end - page) + 1 : left;

        if (memcmp(page, sample, len) == 0 && page[len] == ' ')
            return page + len + 1;
        page += line;
        left -= line;
    }
    return NULL;
}

/* The whole number of a sample; -1 if it is not on the page. */
static inline int64_t counted(struct counted *c, const char *sample)
{
    const char *found = counted_find(counted_page(c), sample);

    return found ? strtoll(found, NULL, 10) : -1;
}

/* All samples of a metric added up, by lengths, too. */
static inline int64_t counted_sum(struct counted *c, const char *name)
{
    const char *page = counted_page(c);
    size_t len = strlen(name), left = page ? strlen(page) : 0;
    int64_t sum = 0;

    while (left > 0) {
        const char *end = memchr(page, '\n', left);
        size_t line = end ? (size_t)(end - page) + 1 : left;

        if (line > len + 1 && memcmp(page, name, len) == 0 &&
            (page[len] == '{' || page[len] == ' ')) {
            const char *at = page + line - 1;

            while (at[-1] != ' ')
                at--;
            sum += strtoll(at, NULL, 10);
        }
        page += line;
        left -= line;
    }
    return sum;
}

/* Is the text of the sample exactly `want`? */
static inline bool counted_reads(struct counted *c, const char *sample,
                                 const char *want)
{
    const char *found = counted_find(counted_page(c), sample);
    size_t len = strlen(want);
    bool good = found && strncmp(found, want, len) == 0 && found[len] == '\n';

    if (!good)
        printf("# %s: want %s, got %.40s\n", sample, want,
               found ? found : "nothing");
    return good;
}

#endif
