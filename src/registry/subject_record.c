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

static size_t texts_size(const struct sl_subject_draft *d)
{
    size_t size =
        d->scope.len + d->id.len + d->plan.len + d->by.len + d->note.len;

    for (unsigned i = 0; i < d->role_count; i++)
        size += d->roles[i].len;
    for (unsigned i = 0; i < d->alias_count; i++)
        size += d->aliases[i].len;
    for (unsigned i = 0; i < d->rate_count; i++)
        size += d->rates[i].limit.len + d->rates[i].rate.len +
                d->rates[i].by.len + d->rates[i].note.len;
    for (unsigned i = 0; i < d->credit_count; i++)
        size += d->credits[i].limit.len;
    return size;
}

/* Appends a copy of `text`. */
static struct sl_str put(char **at, struct sl_str text)
{
    struct sl_str copy = {*at, text.len};

    if (text.len > 0)
        memcpy(*at, text.at, text.len);
    *at += text.len;
    return copy;
}

static void put_rates(struct sl_subject_override *rates,
                      const struct sl_subject_draft *d, char **at)
{
    for (unsigned i = 0; i < d->rate_count; i++)
        rates[i] = (struct sl_subject_override){
            .limit = put(at, d->rates[i].limit),
            .rate = put(at, d->rates[i].rate),
            .until = d->rates[i].until,
            .by = put(at, d->rates[i].by),
            .note = put(at, d->rates[i].note),
        };
}

static void put_credits(struct sl_credit *credits,
                        const struct sl_subject_draft *d, char **at)
{
    for (unsigned i = 0; i < d->credit_count; i++) {
        credits[i] = d->credits[i];
        credits[i].limit = put(at, d->credits[i].limit);
    }
}

struct sl_subject_record *
sl_subject_record_new(const struct sl_subject_draft *d, bool known,
                      const struct sl_alloc *alloc)
{
    size_t names = d->role_count + d->alias_count;
    size_t size = sizeof(struct sl_subject_record) +
                  d->rate_count * sizeof(struct sl_subject_override) +
                  d->credit_count * sizeof(struct sl_credit) +
                  names * sizeof(struct sl_str) + texts_size(d);
    struct sl_subject_record *entry = sl_alloc_new(alloc, size);
    struct sl_subject_override *rates;
    struct sl_credit *credits;
    struct sl_str *list;
    char *at;

    if (!entry)
        return NULL;
    rates = (struct sl_subject_override *)(entry + 1);
    credits = (struct sl_credit *)(rates + d->rate_count);
    list = (struct sl_str *)(credits + d->credit_count);
    at = (char *)(list + names);
    *entry = (struct sl_subject_record){.alloc = alloc, .size = size};
    entry->subject = (struct sl_subject){
        .refs = 1, .free = free_entry, .known = known, .expires = d->expires};
    entry->subject.id = put(&at, d->id);
    entry->subject.plan = put(&at, d->plan);
    entry->scope = put(&at, d->scope);
    entry->by = put(&at, d->by);
    entry->note = put(&at, d->note);
    entry->updated = d->updated;
    entry->revision = d->revision;
    for (unsigned i = 0; i < d->role_count; i++)
        list[i] = put(&at, d->roles[i]);
    for (unsigned i = 0; i < d->alias_count; i++)
        list[d->role_count + i] = put(&at, d->aliases[i]);
    put_rates(rates, d, &at);
    entry->subject.roles = list;
    entry->subject.role_count = d->role_count;
    entry->aliases = list + d->role_count;
    entry->alias_count = d->alias_count;
    entry->subject.rates = rates;
    entry->subject.rate_count = d->rate_count;
    put_credits(credits, d, &at);
    entry->subject.credits = credits;
    entry->subject.credit_count = d->credit_count;
    return entry;
}

static void copy_all(void *to, const void *from, size_t count, size_t size)
{
    if (count > 0)
        memcpy(to, from, count * size);
}

void sl_subject_draft_of(const struct sl_subject_record *entry,
                         struct sl_subject_draft *ret)
{
    const struct sl_subject *s = &entry->subject;

    memset(ret, 0, sizeof(*ret));
    ret->scope = entry->scope;
    ret->id = s->id;
    ret->plan = s->plan;
    ret->expires = s->expires;
    ret->by = entry->by;
    ret->note = entry->note;
    ret->updated = entry->updated;
    ret->revision = entry->revision;
    ret->role_count = s->role_count;
    copy_all(ret->roles, s->roles, s->role_count, sizeof(*s->roles));
    ret->alias_count = entry->alias_count;
    copy_all(ret->aliases, entry->aliases, entry->alias_count,
             sizeof(*entry->aliases));
    ret->rate_count = s->rate_count;
    copy_all(ret->rates, s->rates, s->rate_count, sizeof(*s->rates));
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
    draft->expires = SL_NS_NONE;
    draft->role_count = draft->alias_count = 0;
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
        !sl_str_eq(a->note, b->note) || a->rate_count != b->rate_count)
        return false;
    for (unsigned i = 0; i < a->rate_count; i++)
        if (!same_rate(&a->rates[i], &b->rates[i]))
            return false;
    return same_names(a->roles, a->role_count, b->roles, b->role_count) &&
           same_names(a->aliases, a->alias_count, b->aliases, b->alias_count);
}

/* ---- as JSON ---- */

static int json_text(struct sl_buf *out, const char *name, struct sl_str text)
{
    int err = sl_buf_addf(out, ",\"%s\":", name);

    return err ? err : sl_json_string(out, text);
}

static int json_time(struct sl_buf *out, const char *name, sl_ns at)
{
    char text[SL_TIMESTAMP_TEXT];

    if (at == SL_NS_NONE)
        return sl_buf_addf(out, ",\"%s\":null", name);
    sl_timestamp_print(at, at % SL_S != 0, text);
    return sl_buf_addf(out, ",\"%s\":\"%s\"", name, text);
}

static int json_names(struct sl_buf *out, const char *name,
                      const struct sl_str *list, unsigned count)
{
    int err = sl_buf_addf(out, ",\"%s\":[", name);

    for (unsigned i = 0; i < count && !err; i++) {
        if (i > 0)
            err = sl_buf_add(out, SL_STR(","));
        if (!err)
            err = sl_json_string(out, list[i]);
    }
    return err ? err : sl_buf_add(out, SL_STR("]"));
}

static int json_rates(struct sl_buf *out, const struct sl_subject_draft *d)
{
    int err = sl_buf_add(out, SL_STR(",\"overrides\":{"));

    for (unsigned i = 0; i < d->rate_count && !err; i++) {
        if (i > 0)
            err = sl_buf_add(out, SL_STR(","));
        if (!err)
            err = sl_json_string(out, d->rates[i].limit);
        if (!err)
            err = sl_buf_add(out, SL_STR(":"));
        if (!err)
            err = sl_json_string(out, d->rates[i].rate);
    }
    return err ? err : sl_buf_add(out, SL_STR("}"));
}

/* Returns the common end of all overrides, or SL_NS_NONE. */
static sl_ns common_end(const struct sl_subject_draft *d)
{
    for (unsigned i = 1; i < d->rate_count; i++)
        if (d->rates[i].until != d->rates[0].until)
            return SL_NS_NONE;
    return d->rate_count > 0 ? d->rates[0].until : SL_NS_NONE;
}

static int json_detail(struct sl_buf *out,
                       const struct sl_subject_override *rate, sl_ns now)
{
    int err = sl_buf_add(out, SL_STR("{\"limit\":"));

    if (!err)
        err = sl_json_string(out, rate->limit);
    if (!err)
        err = json_text(out, "rate", rate->rate);
    if (!err)
        err = json_time(out, "until", rate->until);
    if (!err)
        err = sl_buf_addf(out, ",\"over\":%s",
                          is_over(rate->until, now) ? "true" : "false");
    if (!err)
        err = json_text(out, "by", rate->by);
    if (!err)
        err = json_text(out, "note", rate->note);
    return err ? err : sl_buf_add(out, SL_STR("}"));
}

static int json_details(struct sl_buf *out, const struct sl_subject_draft *d,
                        sl_ns now)
{
    int err = sl_buf_add(out, SL_STR(",\"override_details\":["));

    for (unsigned i = 0; i < d->rate_count && !err; i++) {
        if (i > 0)
            err = sl_buf_add(out, SL_STR(","));
        if (!err)
            err = json_detail(out, &d->rates[i], now);
    }
    return err ? err : sl_buf_add(out, SL_STR("]"));
}

static int json_plan(struct sl_buf *out, const struct sl_subject_draft *d,
                     sl_ns now)
{
    int err = d->plan.len > 0 ? json_text(out, "plan", d->plan)
                              : sl_buf_add(out, SL_STR(",\"plan\":null"));

    if (!err)
        err = json_time(out, "expires", d->expires);
    return err ? err
               : sl_buf_addf(out, ",\"expired\":%s",
                             is_over(d->expires, now) ? "true" : "false");
}

static int json_overrides(struct sl_buf *out, const struct sl_subject_draft *d,
                          sl_ns now)
{
    int err = json_rates(out, d);

    if (!err)
        err = json_time(out, "until", common_end(d));
    return err ? err : json_details(out, d, now);
}

int sl_subject_draft_json(const struct sl_subject_draft *d, sl_ns now,
                          bool brief, struct sl_buf *out)
{
    int err = sl_buf_add(out, SL_STR("\"scope\":"));

    if (!err)
        err = sl_json_string(out, d->scope);
    if (!err)
        err = json_text(out, "id", d->id);
    if (!err && !(brief && d->plan.len == 0))
        err = json_plan(out, d, now);
    if (!err && !(brief && d->role_count == 0))
        err = json_names(out, "roles", d->roles, d->role_count);
    if (!err && !(brief && d->alias_count == 0))
        err = json_names(out, "aliases", d->aliases, d->alias_count);
    if (!err && !(brief && d->rate_count == 0))
        err = json_overrides(out, d, now);
    if (!err && !(brief && d->note.len == 0))
        err = json_text(out, "note", d->note);
    if (!err && !brief)
        err = json_text(out, "by", d->by);
    if (!err && !brief)
        err = json_time(out, "updated", d->updated);
    return err || brief ? err
                        : sl_buf_addf(out, ",\"revision\":%llu",
                                      (unsigned long long)d->revision);
}

struct sl_str sl_str_lower(struct sl_str text, char *out)
{
    for (size_t i = 0; i < text.len; i++) {
        char c = text.at[i];

        out[i] = (char)(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
    }
    return (struct sl_str){out, text.len};
}
