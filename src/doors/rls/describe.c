/* describe.c -- from descriptors to facts, and from a decision to statuses.
 *
 * An entry whose key has a meaning here says it: who asks (user, org, plan,
 * role, ip or remote_address, and scopes that the policy names), and for what
 * (method and path, or job). `header.NAME` is a header of the request. Entries
 * with other keys say nothing by themselves; a descriptor without path and job
 * asks for the job that is called like the domain. But a route of the policy
 * that is for such descriptors goes before all that.
 */
#include <string.h>

#include "doors/rls/rls.h"
#include "engine/render/face.h"
#include "net/loop.h"

/* Where the facts have a place for the key; NULL if they have none. */
static struct sl_str *place_of(struct sl_facts *facts, struct sl_str key)
{
    const struct {
        const char *key;
        struct sl_str *place;
    } rows[] = {
        {"user",           &facts->user  },
        {"org",            &facts->org   },
        {"plan",           &facts->plan  },
        {"role",           &facts->role  },
        {"ip",             &facts->ip    },
        {"remote_address", &facts->ip    },
        {"method",         &facts->method},
        {"path",           &facts->path  },
        {"job",            &facts->job   },
    };

    for (size_t i = 0; i < SL_LEN(rows); i++)
        if (sl_str_eq(key, sl_str_c(rows[i].key)))
            return rows[i].place;
    return NULL;
}

static bool is_header(struct sl_str key, struct sl_str *name)
{
    static const struct sl_str prefix = {"header.", 7};

    *name = sl_str_from(key, prefix.len);
    return key.len > prefix.len &&
           sl_str_eq((struct sl_str){key.at, prefix.len}, prefix);
}

static void read_entries(const struct sl_rls_descriptor *d,
                         struct sl_facts *facts, struct sl_header *headers,
                         struct sl_descriptor_entry *entries)
{
    for (unsigned i = 0; i < d->entry_count; i++) {
        const struct sl_rls_entry *entry = &d->entries[i];
        struct sl_str *place = place_of(facts, entry->key);
        struct sl_str name;

        entries[i] = (struct sl_descriptor_entry){entry->key, entry->value};
        if (place)
            *place = entry->value;
        else if (is_header(entry->key, &name))
            headers[facts->header_count++] =
                (struct sl_header){name, entry->value};
    }
    facts->headers = headers;
    facts->entries = entries;
    facts->entry_count = d->entry_count;
}

static int take_limit(const struct sl_rls_descriptor *d, struct sl_facts *facts,
                      struct sl_diag *diag)
{
    if (!d->has_limit)
        return 0;
    facts->imposed = (struct sl_imposed){
        .count = d->requests_per_unit,
        .period = sl_rls_unit_length(d->unit),
    };
    if (facts->imposed.period == 0)
        return sl_refuse(diag, SLUICE_EINVAL,
                         "the limit of a descriptor has unit %u; valid are 1 "
                         "(second) to 6 (year)",
                         d->unit);
    return 0;
}

int sl_rls_describe(struct sl_rls_call *call, unsigned index,
                    struct sl_facts *ret, struct sl_diag *diag)
{
    const struct sl_rls_request *request = &call->request;
    const struct sl_rls_descriptor *d = &request->descriptors[index];
    size_t count = d->entry_count + 1;
    struct sl_header *headers =
        sl_arena_take(&call->arena, count * sizeof(*headers));
    struct sl_descriptor_entry *entries =
        sl_arena_take(&call->arena, count * sizeof(*entries));

    if (!headers || !entries)
        return sl_refuse(diag, SLUICE_ENOMEM, "out of memory");
    *ret = (struct sl_facts){
        .trusted = true, /* whoever may use the door may say who asks */
        .domain = request->domain,
        .has_cost = d->has_hits || request->hits > 0,
        .cost = d->has_hits ? d->hits : request->hits,
        .give_back = d->negative,
        .insist = call->each,
        .deadline = call->deadline,
        .now = sl_loop_now(call->loop),
    };
    read_entries(d, ret, headers, entries);
    if (ret->path.len == 0 && ret->job.len == 0)
        ret->job = request->domain;
    return take_limit(d, ret, diag);
}

/* ---- statuses ---- */

static uint32_t fit(uint64_t number)
{
    return number < UINT32_MAX ? (uint32_t)number : UINT32_MAX;
}

static enum sl_rls_unit unit_of(const struct sl_shown *shown)
{
    if (!shown->numbers->calendar)
        return sl_rls_unit_of(shown->numbers->period);
    if (shown->numbers->cal.every > 1)
        return SL_RLS_UNKNOWN;
    switch (shown->numbers->cal.unit) {
    case SL_CALENDAR_DAY:
        return SL_RLS_DAY;
    case SL_CALENDAR_WEEK:
        return SL_RLS_WEEK;
    case SL_CALENDAR_MONTH:
        break;
    }
    return SL_RLS_MONTH;
}

/* Is less of `a` left than of `b`, as a share of what it holds? */
static bool is_tighter(const struct sl_shown *a, const struct sl_shown *b)
{
    return (unsigned __int128)a->answer.remaining * sl_shown_capacity(b) <
           (unsigned __int128)b->answer.remaining * sl_shown_capacity(a);
}

/* The limit whose numbers a side shows: the first that refuses, else the
 * tightest, and what is enforced before what only looks on. */
static const struct sl_shown *choose(const struct sl_decision *d,
                                     const struct sl_side *side)
{
    const struct sl_shown *best = NULL;

    for (unsigned i = 0; i < d->shown_count; i++) {
        const struct sl_shown *s = &d->shown[i];

        if (!(side->shown >> i & 1) || !sl_shown_limited(s) ||
            !sl_shown_answered(s))
            continue;
        if (sl_shown_denies(d, s))
            return s;
        if (!best || s->mode < best->mode ||
            (s->mode == best->mode && is_tighter(s, best)))
            best = s;
    }
    return best;
}

/* Is there a limit, and does it bound nobody? */
static bool is_unlimited(const struct sl_decision *d,
                         const struct sl_side *side)
{
    bool any = false;

    for (unsigned i = 0; i < d->shown_count; i++) {
        if (!(side->shown >> i & 1) || d->shown[i].skipped)
            continue;
        if (d->shown[i].form != SL_RATE_UNLIMITED)
            return false;
        any = true;
    }
    return any;
}

void sl_rls_status_of(const struct sl_decision *d, unsigned index,
                      struct sl_rls_status *ret)
{
    const struct sl_side *side = &d->sides[index];
    const struct sl_shown *s = choose(d, side);
    bool denied = side->refused || (s && sl_shown_denies(d, s));

    *ret = (struct sl_rls_status){
        .code = denied ? SL_RLS_OVER_LIMIT : SL_RLS_OK,
        .reset_in = SL_NS_NONE,
    };
    if (is_unlimited(d, side))
        ret->remaining = UINT32_MAX;
    if (!s)
        return;
    ret->has_limit = true;
    ret->requests_per_unit = fit(sl_shown_count(s));
    ret->unit = unit_of(s);
    ret->name = s->rule->name;
    ret->remaining = fit(s->answer.remaining);
    ret->reset_in = sl_shown_reset_in(d, s);
}
