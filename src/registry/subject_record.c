/* subject_record.c -- subject records, and changes of subjects. */
#include <string.h>

#include "base/timestamp.h"
#include "registry/registry.h"
#include "wire/json.h"

/* ---- packing ---- */

static void free_entry(struct sl_subject *subject)
{
    struct sl_subject_record *entry = (struct sl_subject_record *)subject;

    sl_alloc_free(entry->alloc, entry, entry->size);
}

void sl_subject_records_free(struct sl_subject_record *first)
{
    for (struct sl_subject_record *next; first; first = next) {
        next = first->next;
        sl_subject_unref(&first->subject);
    }
}

/* Adds the length of a text to *size; or, if there is memory, moves the text
 * there. */
static void pack(struct sl_str *text, size_t *size, char **at)
{
    *size += text->len;
    if (!*at)
        return;
    if (text->len > 0)
        memcpy(*at, text->at, text->len);
    text->at = *at;
    *at += text->len;
}

/* Packs all texts of a draft. Returns their size. */
static size_t pack_texts(struct sl_subject_draft *d, char *at)
{
    size_t size = 0;

    pack(&d->scope, &size, &at);
    pack(&d->id, &size, &at);
    pack(&d->plan, &size, &at);
    pack(&d->by, &size, &at);
    pack(&d->note, &size, &at);
    pack(&d->calendar.anchor, &size, &at);
    pack(&d->calendar.zone, &size, &at);
    pack(&d->calendar_before.anchor, &size, &at);
    pack(&d->calendar_before.zone, &size, &at);
    for (unsigned i = 0; i < d->role_count; i++)
        pack(&d->roles[i], &size, &at);
    for (unsigned i = 0; i < d->alias_count; i++)
        pack(&d->aliases[i], &size, &at);
    for (unsigned i = 0; i < d->rate_count; i++) {
        pack(&d->rates[i].limit, &size, &at);
        pack(&d->rates[i].rate, &size, &at);
        pack(&d->rates[i].by, &size, &at);
        pack(&d->rates[i].note, &size, &at);
    }
    for (unsigned i = 0; i < d->credit_count; i++)
        pack(&d->credits[i].limit, &size, &at);
    pack(&d->block.by, &size, &at);
    pack(&d->block.note, &size, &at);
    return size;
}

static struct sl_own_calendar own_of(const struct sl_subject_calendar *c)
{
    struct sl_own_calendar own = sl_own_calendar_read(c->anchor, c->zone);

    own.since = c->since;
    return own;
}

static void *copy_all(void *to, const void *from, size_t count, size_t size)
{
    if (count > 0)
        memcpy(to, from, count * size);
    return (char *)to + count * size;
}

struct sl_subject_record *
sl_subject_record_new(const struct sl_subject_draft *draft, bool known,
                      const struct sl_alloc *alloc)
{
    struct sl_subject_draft d = *draft;
    size_t size = sizeof(struct sl_subject_record) +
                  d.rate_count * sizeof(d.rates[0]) +
                  d.credit_count * sizeof(d.credits[0]) +
                  (d.role_count + d.alias_count) * sizeof(struct sl_str);
    size_t texts = pack_texts(&d, NULL);
    struct sl_subject_record *entry = sl_alloc_new(alloc, size + texts);
    void *at = entry + 1;

    if (!entry)
        return NULL;
    pack_texts(&d, (char *)entry + size);
    *entry = (struct sl_subject_record){
        .subject = {.refs = 1,
                    .free = free_entry,
                    .known = known,
                    .id = d.id,
                    .plan = d.plan,
                    .expires = d.expires,
                    .own = {own_of(&d.calendar), own_of(&d.calendar_before)},
                    .role_count = d.role_count,
                    .rate_count = d.rate_count,
                    .credit_count = d.credit_count,
                    .block = d.block},
        .scope = d.scope,
        .alias_count = d.alias_count,
        .by = d.by,
        .note = d.note,
        .calendar = d.calendar,
        .calendar_before = d.calendar_before,
        .updated = d.updated,
        .revision = d.revision,
        .alloc = alloc,
        .size = size + texts
    };
    entry->subject.rates = at;
    at = copy_all(at, d.rates, d.rate_count, sizeof(d.rates[0]));
    entry->subject.credits = at;
    at = copy_all(at, d.credits, d.credit_count, sizeof(d.credits[0]));
    entry->subject.roles = at;
    at = copy_all(at, d.roles, d.role_count, sizeof(d.roles[0]));
    entry->aliases = at;
    copy_all(at, d.aliases, d.alias_count, sizeof(d.aliases[0]));
    return entry;
}

void sl_subject_draft_of(const struct sl_subject_record *entry,
                         struct sl_subject_draft *ret)
{
    const struct sl_subject *s = &entry->subject;

    *ret = (struct sl_subject_draft){.scope = entry->scope,
                                     .id = s->id,
                                     .plan = s->plan,
                                     .expires = s->expires,
                                     .by = entry->by,
                                     .note = entry->note,
                                     .calendar = entry->calendar,
                                     .calendar_before = entry->calendar_before,
                                     .updated = entry->updated,
                                     .revision = entry->revision,
                                     .role_count = s->role_count,
                                     .alias_count = entry->alias_count,
                                     .rate_count = s->rate_count,
                                     .credit_count = s->credit_count,
                                     .block = s->block};
    copy_all(ret->roles, s->roles, s->role_count, sizeof(*s->roles));
    copy_all(ret->aliases, entry->aliases, entry->alias_count,
             sizeof(*entry->aliases));
    copy_all(ret->rates, s->rates, s->rate_count, sizeof(*s->rates));
    copy_all(ret->credits, s->credits, s->credit_count, sizeof(*s->credits));
}

/* ---- changing ---- */

static bool is_over(sl_ns end, sl_ns now)
{
    return end != SL_NS_NONE && now >= end;
}

static struct sl_subject_override *find_rate(struct sl_subject_draft *draft,
                                             struct sl_str limit)
{
    for (unsigned i = 0; i < draft->rate_count; i++)
        if (sl_str_eq(draft->rates[i].limit, limit))
            return &draft->rates[i];
    return NULL;
}

static bool same_rate(const struct sl_subject_override *a,
                      const struct sl_subject_override *b)
{
    return sl_str_eq(a->limit, b->limit) && sl_str_eq(a->rate, b->rate) &&
           a->until == b->until && sl_str_eq(a->note, b->note);
}

/* Overrides are sorted by limit, as the database returns them. */
static void insert_rate(struct sl_subject_draft *draft,
                        const struct sl_subject_override *rate)
{
    unsigned at = draft->rate_count++;

    while (at > 0) {
        struct sl_str before = draft->rates[at - 1].limit;
        size_t len =
            before.len < rate->limit.len ? before.len : rate->limit.len;
        int order = len ? memcmp(before.at, rate->limit.at, len) : 0;

        if (order < 0 || (order == 0 && before.len < rate->limit.len))
            break;
        draft->rates[at] = draft->rates[at - 1];
        at--;
    }
    draft->rates[at] = *rate;
}

static void remove_rate(struct sl_subject_draft *draft,
                        struct sl_subject_override *rate)
{
    size_t rest = (size_t)(draft->rates + draft->rate_count - rate - 1);

    memmove(rate, rate + 1, rest * sizeof(*rate));
    draft->rate_count--;
}

static bool change_rate(struct sl_subject_draft *draft,
                        const struct sl_subject_override *new,
                        struct sl_diag *diag)
{
    struct sl_subject_override *old = find_rate(draft, new->limit);

    if (old && new->rate.len > 0) {
        if (!same_rate(old, new)) /* otherwise `by` stays */
            *old = *new;
    } else if (old) {
        remove_rate(draft, old);
    } else if (new->rate.len > 0) {
        if (draft->rate_count == SL_SUBJECT_RECORD_RATES) {
            sl_diag_error(
                diag, SLUICE_ECONF,
                "a subject can have at most %d overrides; remove some first",
                SL_SUBJECT_RECORD_RATES);
            return false;
        }
        insert_rate(draft, new);
    }
    return true;
}

/* A PUT removes what it does not mention. An override that it repeats keeps its
 * `by` and `note`. */
static void keep_mentioned(struct sl_subject_draft *draft,
                           const struct sl_subject_change *change)
{
    unsigned kept = 0;

    for (unsigned i = 0; i < draft->rate_count; i++) {
        bool again = false;

        for (unsigned k = 0; k < change->rate_count; k++)
            again = again ||
                    sl_str_eq(change->rates[k].limit, draft->rates[i].limit);
        if (again)
            draft->rates[kept++] = draft->rates[i];
    }
    draft->rate_count = kept;
    draft->plan = draft->note = (struct sl_str){"", 0};
    draft->calendar.anchor = draft->calendar.zone = (struct sl_str){"", 0};
    draft->expires = SL_NS_NONE;
    draft->role_count = draft->alias_count = 0;
}

bool sl_subject_calendar_same(const struct sl_subject_calendar *a,
                              const struct sl_subject_calendar *b)
{
    return sl_str_eq(a->anchor, b->anchor) && sl_str_eq(a->zone, b->zone);
}

void sl_subject_draft_turn(const struct sl_subject_draft *old,
                           struct sl_subject_draft *new, bool used, sl_ns now)
{
    static const struct sl_subject_calendar none;
    bool waits = now < old->calendar.since;

    if (sl_subject_calendar_same(&old->calendar, &new->calendar))
        return;
    if (waits &&
        sl_subject_calendar_same(&old->calendar_before, &new->calendar)) {
        new->calendar.since = old->calendar_before.since;
        new->calendar_before = none;
    } else if (used) {
        new->calendar.since = (now / SL_S + 2) * SL_S;
        new->calendar_before = waits ? old->calendar_before : old->calendar;
    } else {
        new->calendar.since = 0;
        new->calendar_before = none;
    }
}

bool sl_subject_draft_change(struct sl_subject_draft *draft,
                             const struct sl_subject_change *change, sl_ns now,
                             struct sl_diag *diag)
{
    draft->scope = change->scope;
    draft->id = change->id;
    draft->by = change->by;
    draft->updated = now;
    if (change->kind == SL_CHANGE_PUT)
        keep_mentioned(draft, change);
    if (change->has & SL_HAS_PLAN) {
        /* A new plan, or the same one after its expiry, does not inherit the
         * expiry. */
        if (!sl_str_eq(draft->plan, change->plan) ||
            is_over(draft->expires, now))
            draft->expires = SL_NS_NONE;
        draft->plan = change->plan;
    }
    if (change->has & SL_HAS_EXPIRES)
        draft->expires = change->expires;
    if (change->has & SL_HAS_NOTE)
        draft->note = change->note;
    if (change->has & SL_HAS_ANCHOR)
        draft->calendar.anchor = change->anchor;
    if (change->has & SL_HAS_ZONE)
        draft->calendar.zone = change->zone;
    if (change->has & SL_HAS_ROLES) {
        draft->role_count = change->role_count;
        copy_all(draft->roles, change->roles, change->role_count,
                 sizeof(*change->roles));
    }
    if (change->has & SL_HAS_ALIASES) {
        draft->alias_count = change->alias_count;
        copy_all(draft->aliases, change->aliases, change->alias_count,
                 sizeof(*change->aliases));
    }
    if (change->no_rates)
        draft->rate_count = 0;
    for (unsigned i = 0; i < change->rate_count; i++)
        if (!change_rate(draft, &change->rates[i], diag))
            return false;
    return true;
}

/* ---- comparing ---- */

/* Compares two lists in any order. */
static bool same_names(const struct sl_str *a, unsigned a_count,
                       const struct sl_str *b, unsigned b_count)
{
    for (unsigned i = 0; i < a_count; i++) {
        unsigned k = 0;

        while (k < b_count && !sl_str_eq(a[i], b[k]))
            k++;
        if (k == b_count)
            return false;
    }
    return a_count == b_count;
}

bool sl_subject_draft_same(const struct sl_subject_draft *a,
                           const struct sl_subject_draft *b)
{
    if (!sl_str_eq(a->plan, b->plan) || a->expires != b->expires ||
        !sl_str_eq(a->note, b->note) ||
        !sl_subject_calendar_same(&a->calendar, &b->calendar) ||
        a->rate_count != b->rate_count)
        return false;
    for (unsigned i = 0; i < a->rate_count; i++)
        if (!same_rate(&a->rates[i], &b->rates[i]))
            return false;
    return same_names(a->roles, a->role_count, b->roles, b->role_count) &&
           same_names(a->aliases, a->alias_count, b->aliases, b->alias_count);
}

/* ---- as JSON ---- */

static void json_flag(struct sl_writer *w, const char *name, bool flag)
{
    sl_json_key(w, sl_str_c(name));
    sl_json_flag(w, flag);
}

static void json_names(struct sl_writer *w, const char *name,
                       const struct sl_str *list, unsigned count)
{
    sl_json_key(w, sl_str_c(name));
    sl_json_open(w, '[');
    for (unsigned i = 0; i < count; i++)
        sl_json_str(w, list[i]);
    sl_json_close(w, ']');
}

/* Returns the common end of all overrides, or SL_NS_NONE. */
static sl_ns common_end(const struct sl_subject_draft *d)
{
    for (unsigned i = 1; i < d->rate_count; i++)
        if (d->rates[i].until != d->rates[0].until)
            return SL_NS_NONE;
    return d->rate_count > 0 ? d->rates[0].until : SL_NS_NONE;
}

static void json_text(struct sl_writer *w, const char *name, struct sl_str text)
{
    sl_json_key(w, sl_str_c(name));
    if (text.len > 0)
        sl_json_str(w, text);
    else
        sl_json_nothing(w);
}

static void json_calendar(struct sl_writer *w,
                          const struct sl_subject_calendar *c)
{
    json_text(w, "anchor", c->anchor);
    json_text(w, "zone", c->zone);
    sl_json_member_time(w, "periods_from",
                        c->since > 0 ? c->since : SL_NS_NONE);
}

static void json_overrides(struct sl_writer *w,
                           const struct sl_subject_draft *d, sl_ns now)
{
    sl_json_key(w, SL_STR("overrides"));
    sl_json_open(w, '{');
    for (unsigned i = 0; i < d->rate_count; i++) {
        sl_json_key(w, d->rates[i].limit);
        sl_json_str(w, d->rates[i].rate);
    }
    sl_json_close(w, '}');
    sl_json_member_time(w, "until", common_end(d));
    sl_json_key(w, SL_STR("override_details"));
    sl_json_open(w, '[');
    for (unsigned i = 0; i < d->rate_count; i++) {
        const struct sl_subject_override *rate = &d->rates[i];

        sl_json_open(w, '{');
        sl_json_member_str(w, "limit", rate->limit);
        sl_json_member_str(w, "rate", rate->rate);
        sl_json_member_time(w, "until", rate->until);
        json_flag(w, "over", is_over(rate->until, now));
        sl_json_member_str(w, "by", rate->by);
        sl_json_member_str(w, "note", rate->note);
        sl_json_close(w, '}');
    }
    sl_json_close(w, ']');
}

void sl_subject_draft_json(const struct sl_subject_draft *d, sl_ns now,
                           bool brief, struct sl_writer *w)
{
    sl_json_member_str(w, "scope", d->scope);
    sl_json_member_str(w, "id", d->id);
    if (!brief || d->plan.len > 0) {
        json_text(w, "plan", d->plan);
        sl_json_member_time(w, "expires", d->expires);
        json_flag(w, "expired", is_over(d->expires, now));
    }
    if (!brief || d->role_count > 0)
        json_names(w, "roles", d->roles, d->role_count);
    if (!brief || d->alias_count > 0)
        json_names(w, "aliases", d->aliases, d->alias_count);
    if (!brief || d->rate_count > 0)
        json_overrides(w, d, now);
    if (d->calendar.anchor.len > 0 || d->calendar.zone.len > 0 ||
        d->calendar.since > 0)
        json_calendar(w, &d->calendar);
    if (!brief || d->note.len > 0)
        sl_json_member_str(w, "note", d->note);
    if (brief)
        return;
    sl_json_member_str(w, "by", d->by);
    sl_json_member_time(w, "updated", d->updated);
    sl_json_key(w, SL_STR("revision"));
    sl_json_uint(w, d->revision);
}

struct sl_str sl_str_lower(struct sl_str text, char *out)
{
    for (size_t i = 0; i < text.len; i++) {
        char c = text.at[i];

        out[i] = (char)(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
    }
    return (struct sl_str){out, text.len};
}
