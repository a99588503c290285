/* now.c -- what is not counted here but asked of others: keys of tokens, and a
 * store that is shared. */
#include "doors/stats/page.h"

static void put_ends(struct sl_metrics_write *page, const char *name,
                     const struct sl_metrics_now *now)
{
    for (unsigned i = 0; i < SL_JWKS_WORDS; i++) {
        sl_metrics_write_add(page, name);
        sl_metrics_write_label(page, '{', "result",
                               sl_str_c(now->jwks_words[i]));
        sl_metrics_write_add(page, "}");
        sl_metrics_write_number(page, now->jwks_results[i]);
    }
}

static void put_jwks(struct sl_metrics_write *page, const char *name,
                     unsigned which, const struct sl_metrics_now *now)
{
    if (!now->jwks_on || (which == SL_JWKS_AGE && now->jwks_age < 0))
        return;
    if (which == SL_JWKS_ENDS) {
        put_ends(page, name, now);
        return;
    }
    sl_metrics_write_add(page, name);
    if (which == SL_JWKS_AGE)
        sl_metrics_write_seconds(page, (uint64_t)now->jwks_age);
    else
        sl_metrics_write_number(page, now->jwks_keys);
}

/* ---- backlogs ---- */

/* The longest that a route believes a report of it. */
static sl_ns stale_of(const struct sl_policy *policy, unsigned index)
{
    sl_ns stale = 0;

    for (const struct sl_prechecks *g = policy->guarded; g; g = g->next)
        if (g->backlog.written && g->backlog.index == index &&
            g->backlog.stale > stale)
            stale = g->backlog.stale;
    return stale;
}

static void put_backlogs(struct sl_metrics_write *page, const char *name,
                         const struct sl_metrics_now *now)
{
    const struct sl_policy *policy = now->live ? now->live->policy : NULL;

    for (unsigned i = 0; policy && i < policy->backlog_count; i++) {
        const struct sl_depth *depth = &now->live->depths[i];
        sl_ns at = atomic_load_explicit(&depth->at, memory_order_acquire);

        if (at == SL_NS_NONE || now->now - at > stale_of(policy, i))
            continue;
        sl_metrics_write_add(page, name);
        sl_metrics_write_label(page, '{', "backlog", policy->backlogs[i]);
        sl_metrics_write_add(page, "}");
        sl_metrics_write_number(page, atomic_load(&depth->depth));
    }
}

void sl_metrics_write_asked(struct sl_metrics_write *page, const char *name,
                            unsigned which, const struct sl_metrics_now *now)
{
    if (which == SL_BACKLOG_DEPTHS)
        put_backlogs(page, name, now);
    else
        put_jwks(page, name, which, now);
}

/* ---- a store that is shared ---- */

struct word {
    unsigned which;
    const char *text;
};

static void put_words(struct sl_metrics_write *page, const char *name,
                      const struct sl_metrics_shared *shared,
                      const struct word *words, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        sl_metrics_write_add(page, name);
        sl_metrics_write_label(page, '{', "result", sl_str_c(words[i].text));
        sl_metrics_write_add(page, "}");
        sl_metrics_write_number(page, shared->numbers[words[i].which]);
    }
}

/* It may be behind ours. */
static void put_clock(struct sl_metrics_write *page, const char *name,
                      sl_ns ahead)
{
    if (ahead == SL_NS_NONE)
        return;
    sl_metrics_write_add(page, name);
    if (ahead < 0) {
        sl_metrics_write_addf(page, " -%lld.%09lld\n",
                              (long long)(-ahead / SL_S),
                              (long long)(-ahead % SL_S));
        return;
    }
    sl_metrics_write_seconds(page, (uint64_t)ahead);
}

void sl_metrics_write_shared(struct sl_metrics_write *page, const char *name,
                             unsigned which,
                             const struct sl_metrics_shared *shared)
{
    static const struct word takes[] = {
        {SL_STORE_NUM_ANSWERED,   "answered"  },
        {SL_STORE_NUM_FAILED,     "failed"    },
        {SL_STORE_NUM_LATE,       "late"      },
        {SL_STORE_NUM_LEASED,     "leased"    },
        {SL_STORE_NUM_REMEMBERED, "remembered"},
        {SL_STORE_NUM_SPANNING,   "crossing"  },
    };
    static const struct word redirects[] = {
        {SL_STORE_NUM_REDIRECTED, "followed"},
        {SL_STORE_NUM_STORMS,     "storm"   },
    };

    if (!shared->on)
        return;
    if (which == SL_STORE_NUM_CLOCK) {
        put_clock(page, name, shared->ahead);
    } else if (which == SL_STORE_NUM_TAKES) {
        put_words(page, name, shared, takes, SL_LEN(takes));
    } else if (which == SL_STORE_NUM_REDIRECTS) {
        put_words(page, name, shared, redirects, SL_LEN(redirects));
    } else {
        sl_metrics_write_add(page, name);
        sl_metrics_write_number(page, shared->numbers[which]);
    }
}
