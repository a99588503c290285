/* subjects_read.c -- reads a subject, from JSON or CSV, to a change.
 *
 *     {"plan":"pro","expires":"2026-12-31","roles":["admin"],
 *      "aliases":["ann@example.org"],"overrides":{"api":"100/min"},
 *      "until":"2h","anchor":"2026-11-17T08:30:12Z","zone":"Europe/Berlin",
 *      "by":"ops","note":"launch week"}
 *
 * null removes a value. `until` is for the overrides of this body. An override
 * may also be {"rate":...,"until":...,"note":...}.
 */
#include <stdio.h>
#include <string.h>

#include "base/parse.h"
#include "base/timestamp.h"
#include "server/http/http_int.h"

#define FORCE "; set force to keep it anyway"
#define UNSET (SL_NS_NONE - 1) /* an `until` that is not given */

void sl_reading_init(struct sl_reading *reading, struct sl_arena *arena,
                     sl_ns now)
{
    *reading = (struct sl_reading){
        .body = {.json.arena = arena, .one = "subject", .inside = ""},
        .now = now,
        .zone = &sl_zone_utc,
    };
}

static bool is(struct sl_str text, const char *word)
{
    return sl_str_eq(text, sl_str_c(word));
}

/* ---- times, texts and lists ---- */

bool sl_reading_time(struct sl_reading *reading, const char *name,
                     struct sl_str text, sl_ns *ret)
{
    int64_t day;
    sl_ns span;

    if (sl_day_read(text, &day)) {
        *ret = day * SL_DAY;
        return true;
    }
    if (sl_timestamp_parse(text, ret, NULL) == 0)
        return true;
    if (sl_parse_duration(text, &span, NULL) == 0 &&
        span < SL_TIME_END - reading->now) {
        *ret = reading->now + span;
        return true;
    }
    return SL_REFUSE(
        reading,
        "\"%s\": \"%.*s\" is not a time; write 2026-12-31T23:59:59Z, "
        "2026-12-31, or a duration from now such as 2h or 30d",
        name, SL_STR_ARG(text));
}

bool sl_reading_end(struct sl_reading *reading, const char *name,
                    struct sl_str text, sl_ns *ret)
{
    int64_t day;

    if (!sl_day_read(text, &day))
        return sl_reading_time(reading, name, text, ret);
    *ret = sl_calendar_day_end(reading->zone, day);
    return true;
}

bool sl_reading_text(struct sl_reading *reading, const char *name,
                     struct sl_str text, size_t most)
{
    if (text.len > most)
        return SL_REFUSE(reading, "\"%s\" has %zu bytes; the maximum is %zu",
                         name, text.len, most);
    while (text.len > 0) {
        size_t len = sl_diag_char_len(text);

        if (len == 0)
            return SL_REFUSE(
                reading, "\"%s\" has control characters or is not valid UTF-8",
                name);
        text = sl_str_from(text, len);
    }
    return true;
}

static bool check_list(struct sl_reading *reading, const char *name,
                       const struct sl_str *list, unsigned count, size_t most)
{
    for (unsigned i = 0; i < count; i++) {
        if (list[i].len == 0)
            return SL_REFUSE(reading,
                             "\"%s\" contains an empty value; remove it", name);
        if (!sl_reading_text(reading, name, list[i], most))
            return false;
    }
    return true;
}

/* Convert aliases to lower case and drop duplicates. */
static bool lower_aliases(struct sl_reading *reading,
                          struct sl_subject_change *c)
{
    struct sl_str *list = (struct sl_str *)c->aliases;
    unsigned kept = 0;

    for (unsigned i = 0; i < c->alias_count; i++) {
        char *room = sl_arena_take(reading->body.json.arena, list[i].len + 1);
        unsigned k = 0;

        if (!room)
            return sl_json_body_no_memory(&reading->body);
        list[kept] = sl_str_lower(list[i], room);
        while (k < kept && !sl_str_eq(list[k], list[kept]))
            k++;
        kept += k == kept;
    }
    c->alias_count = kept;
    return true;
}

static bool check_rates(struct sl_reading *reading,
                        const struct sl_subject_change *c)
{
    for (unsigned i = 0; i < c->rate_count; i++) {
        const struct sl_subject_override *rate = &c->rates[i];

        for (unsigned k = 0; k < i; k++)
            if (sl_str_eq(c->rates[k].limit, rate->limit))
                return SL_REFUSE(reading,
                                 "the override of \"%.*s\" is given twice",
                                 SL_STR_ARG(rate->limit));
        if (rate->limit.len == 0)
            return SL_REFUSE(reading, "an override needs the name of a limit");
        if (!sl_reading_text(reading, "overrides", rate->limit,
                             SL_SUBJECT_RECORD_NAME) ||
            !sl_reading_text(reading, "overrides", rate->rate,
                             SL_SUBJECT_RECORD_RATE) ||
            !sl_reading_text(reading, "note", rate->note,
                             SL_SUBJECT_RECORD_NOTE))
            return false;
    }
    return true;
}

/* Check the anchor and write it in its one form. */
static bool check_anchor(struct sl_reading *reading,
                         struct sl_subject_change *c)
{
    char *text = sl_arena_take(reading->body.json.arena, SL_ANCHOR_TEXT);
    struct sl_anchor anchor;
    struct sl_diag why = {0};

    if (c->anchor.len == 0)
        return true;
    if (!text)
        return sl_json_body_no_memory(&reading->body);
    if (sl_anchor_parse(c->anchor, &anchor, &why))
        return SL_REFUSE(reading, "\"anchor\": \"%.*s\": %s",
                         SL_STR_ARG(c->anchor), why.sentence);
    c->anchor = (struct sl_str){text, sl_anchor_print(&anchor, text)};
    return true;
}

static bool check_zone(struct sl_reading *reading,
                       const struct sl_subject_change *c)
{
    struct sl_diag why = {0};

    if (c->zone.len == 0)
        return true;
    if (!sl_reading_text(reading, "zone", c->zone, SL_SUBJECT_RECORD_ZONE))
        return false;
    return sl_zone_shared(c->zone, &why) ||
           SL_REFUSE(reading, "\"zone\": %s", why.sentence);
}

static bool check_names(struct sl_reading *reading,
                        const struct sl_subject_change *c)
{
    if (!is(c->scope, "user") && !is(c->scope, "org"))
        return SL_REFUSE(
            reading, "the scope of a subject must be user or org, not \"%.*s\"",
            SL_STR_ARG(c->scope));
    return c->id.len > 0 || SL_REFUSE(reading, "a subject needs an id");
}

/* Check names and texts, and convert the aliases to lower case. */
static bool check_change(struct sl_reading *reading,
                         struct sl_subject_change *c)
{
    if (reading->named && !check_names(reading, c))
        return false;
    if ((c->has & SL_HAS_EXPIRES) && c->expires != SL_NS_NONE &&
        (c->has & SL_HAS_PLAN) && c->plan.len == 0)
        return SL_REFUSE(reading, "\"expires\" needs a plan");
    return sl_reading_text(reading, "id", c->id, SL_SUBJECT_RECORD_ID) &&
           sl_reading_text(reading, "plan", c->plan, SL_SUBJECT_RECORD_NAME) &&
           sl_reading_text(reading, "note", c->note, SL_SUBJECT_RECORD_NOTE) &&
           sl_reading_text(reading, "by", c->by, SL_SUBJECT_RECORD_BY) &&
           check_list(reading, "roles", c->roles, c->role_count,
                      SL_SUBJECT_RECORD_NAME) &&
           check_list(reading, "aliases", c->aliases, c->alias_count,
                      SL_SUBJECT_RECORD_ID) &&
           check_rates(reading, c) && lower_aliases(reading, c) &&
           check_anchor(reading, c) && check_zone(reading, c);
}

/* ---- JSON ---- */

/* A body before it is a change. */
struct draft {
    struct sl_subject_change change;
    struct sl_subject_override *details; /* as shown */
    unsigned detail_count;
    sl_ns until; /* of overrides without their own */
};

static struct sl_reading *reading_of(struct sl_json_body *r)
{
    return (struct sl_reading *)r; /* its first field */
}

/* Of a plan or an override: when it ends. */
static bool read_end(struct sl_json_body *r, struct sl_str member, void *at)
{
    struct sl_str text;

    return sl_json_body_text(r, member, &text) &&
           (text.len == 0 ||
            sl_reading_end(reading_of(r), member.at, text, at));
}

/* Read scope or id. Without `named` they are in the path. */
static bool read_name(struct sl_json_body *r, struct sl_str member, void *at)
{
    struct sl_str ignored;

    return sl_json_body_text(r, member, reading_of(r)->named ? at : &ignored);
}

static bool too_many(struct sl_json_body *r, const char *what, unsigned most)
{
    return sl_json_body_refuse(r, "BAD_REQUEST", "there are more than %u %s",
                               most, what);
}

static bool read_names(struct sl_json_body *r, struct sl_str member,
                       unsigned most, const struct sl_str **ret,
                       unsigned *ret_count)
{
    struct sl_str *list = sl_arena_take(r->json.arena, most * sizeof(*list));

    if (!list)
        return sl_json_body_no_memory(r);
    *ret = list;
    if (!sl_json_enter(&r->json, '['))
        return sl_json_body_wrong(r, member, "a list of strings");
    while (sl_json_item(&r->json)) {
        if (*ret_count == most)
            return too_many(r, member.at, most);
        if (!sl_json_text(&r->json, &list[*ret_count]))
            return sl_json_body_wrong(r, member, "a list of strings");
        ++*ret_count;
    }
    return !r->json.why || sl_json_body_broken(r);
}

static bool read_roles(struct sl_json_body *r, struct sl_str member, void *at)
{
    struct sl_subject_change *c = at;

    return read_names(r, member, SL_SUBJECT_RECORD_ROLES, &c->roles,
                      &c->role_count);
}

static bool read_aliases(struct sl_json_body *r, struct sl_str member, void *at)
{
    struct sl_subject_change *c = at;

    return read_names(r, member, SL_SUBJECT_RECORD_ALIASES, &c->aliases,
                      &c->alias_count);
}

/* Skip a member that is only shown. */
static bool skip(struct sl_json_body *r, struct sl_str member, void *at)
{
    struct sl_str text;
    uint64_t number;
    bool flag;

    (void)at;
    switch (sl_json_peek(&r->json)) {
    case SL_JSON_BOOL:
        return sl_json_body_flag(r, member, &flag);
    case SL_JSON_NUMBER:
        return sl_json_body_whole(r, member, &number);
    case SL_JSON_ARRAY:
        if (!sl_json_enter(&r->json, '['))
            return sl_json_body_broken(r);
        while (sl_json_item(&r->json))
            if (!sl_json_body_text(r, member, &text))
                return false;
        return !r->json.why || sl_json_body_broken(r);
    default:
        return sl_json_body_text(r, member, &text);
    }
}

/* ---- overrides ---- */

enum { RATE_UNTIL, RATE_NOTE };

/* Read {"rate":"5/min","until":"2h","note":"..."}. `limit`, `by` and `over` are
 * shown in details. */
static bool read_rate_object(struct sl_json_body *r,
                             struct sl_subject_override *rate)
{
#define RATE(name) offsetof(struct sl_subject_override, name)
    static const struct sl_json_field members[] = {
        [RATE_UNTIL] = SL_JSON_FIELD("until", RATE(until), read_end),
        [RATE_NOTE] = SL_JSON_FIELD("note", RATE(note), sl_json_body_text),
        SL_JSON_FIELD("rate", RATE(rate), sl_json_body_text),
        SL_JSON_FIELD("limit", RATE(limit), sl_json_body_text),
        SL_JSON_FIELD("by", 0, skip),
        SL_JSON_FIELD("over", 0, skip),
    };

    rate->until = SL_NS_NONE;
    if (sl_json_peek(&r->json) != SL_JSON_OBJECT)
        return sl_json_body_wrong(r, SL_STR("override_details"),
                                  "a list of objects");
    if (!sl_json_body_fields(r, members, SL_LEN(members),
                             " of an override; write rate, until or note",
                             rate))
        return false;
    if (!(r->seen & 1u << RATE_UNTIL))
        rate->until = UNSET;
    if (r->seen & 1u << RATE_NOTE && !rate->note.at)
        rate->note = SL_STR(""); /* null */
    return true;
}

static struct sl_subject_override *new_rates(struct sl_json_body *r)
{
    size_t size = SL_SUBJECT_RECORD_RATES * sizeof(struct sl_subject_override);
    void *rates = sl_arena_take(r->json.arena, size);

    if (rates)
        memset(rates, 0, size);
    else
        sl_json_body_no_memory(r);
    return rates;
}

static bool read_rates(struct sl_json_body *r, struct sl_str member, void *at)
{
    struct sl_subject_change *c = at;
    struct sl_subject_override *rates = new_rates(r);
    struct sl_str limit;

    if (!rates)
        return false;
    c->rates = rates;
    c->no_rates = false;
    if (!sl_json_enter(&r->json, '{'))
        return sl_json_body_wrong(r, member, "a map of limits to rates");
    while (sl_json_member(&r->json, &limit)) {
        struct sl_subject_override *rate = &rates[c->rate_count];

        if (c->rate_count == SL_SUBJECT_RECORD_RATES)
            return too_many(r, "overrides", SL_SUBJECT_RECORD_RATES);
        rate->until = UNSET;
        if (!(sl_json_peek(&r->json) == SL_JSON_OBJECT
                  ? read_rate_object(r, rate)
                  : sl_json_null(&r->json) ||
                        sl_json_body_text(r, member, &rate->rate)))
            return false;
        rate->limit = limit;
        c->rate_count++;
    }
    return !r->json.why || sl_json_body_broken(r);
}

/* Read the details as an answer shows them, so that it can be sent back. */
static bool read_details(struct sl_json_body *r, struct sl_str member, void *at)
{
    struct draft *d = at;

    d->details = new_rates(r);
    if (!d->details)
        return false;
    if (!sl_json_enter(&r->json, '['))
        return sl_json_body_wrong(r, member, "a list");
    while (sl_json_item(&r->json)) {
        if (d->detail_count == SL_SUBJECT_RECORD_RATES)
            return too_many(r, member.at, SL_SUBJECT_RECORD_RATES);
        if (!read_rate_object(r, &d->details[d->detail_count]))
            return false;
        d->detail_count++;
    }
    return !r->json.why || sl_json_body_broken(r);
}

/* Keep the shown details of an override that is the same. */
static void fill_rates(struct draft *d)
{
    struct sl_subject_change *c = &d->change;

    for (unsigned i = 0; i < c->rate_count; i++) {
        struct sl_subject_override *rate =
            (struct sl_subject_override *)&c->rates[i];
        const struct sl_subject_override *was = NULL;

        for (unsigned k = 0; k < d->detail_count && !was; k++)
            if (sl_str_eq(d->details[k].limit, rate->limit) &&
                sl_str_eq(d->details[k].rate, rate->rate))
                was = &d->details[k];
        if (rate->until == UNSET)
            rate->until = was ? was->until : d->until;
        if (rate->until == UNSET)
            rate->until = SL_NS_NONE;
        if (!rate->note.at)
            rate->note = was ? was->note : c->note;
        rate->by = c->by;
    }
}

/* ---- the object ---- */

#define CHANGE(name) offsetof(struct draft, change.name)

static const struct sl_json_field members[] = {
    /* These have a bit in `has`, in this order. */
    SL_JSON_FIELD("plan", CHANGE(plan), sl_json_body_text),
    SL_JSON_FIELD("expires", CHANGE(expires), read_end),
    SL_JSON_FIELD("roles", 0, read_roles),
    SL_JSON_FIELD("aliases", 0, read_aliases),
    SL_JSON_FIELD("note", CHANGE(note), sl_json_body_text),
    SL_JSON_FIELD("overrides", 0, read_rates),
    SL_JSON_FIELD("anchor", CHANGE(anchor), sl_json_body_text),
    SL_JSON_FIELD("zone", CHANGE(zone), sl_json_body_text),
    SL_JSON_FIELD("until", offsetof(struct draft, until), read_end),
    SL_JSON_FIELD("by", CHANGE(by), sl_json_body_text),
    SL_JSON_FIELD("scope", CHANGE(scope), read_name),
    SL_JSON_FIELD("id", CHANGE(id), read_name),
    SL_JSON_FIELD("override_details", 0, read_details),
    SL_JSON_FIELD("expired", 0, skip),
    SL_JSON_FIELD("periods_from", 0, skip),
    SL_JSON_FIELD("updated", 0, skip),
    SL_JSON_FIELD("revision", 0, skip),
    SL_JSON_FIELD("warnings", 0, skip),
};

static const unsigned has_bits[] = {
    SL_HAS_PLAN, SL_HAS_EXPIRES, SL_HAS_ROLES,  SL_HAS_ALIASES,
    SL_HAS_NOTE, SL_HAS_RATES,   SL_HAS_ANCHOR, SL_HAS_ZONE};

/* Without an override the end would have no effect, and a plan that was meant
 * to end would not. */
static bool check_until(struct sl_reading *reading, sl_ns until,
                        const struct sl_subject_change *change)
{
    return until == SL_NS_NONE || change->rate_count > 0 ||
           SL_REFUSE(reading,
                     "\"until\" is the end of overrides, and there is none; "
                     "write \"expires\" for the end of a plan");
}

bool sl_subject_change_read_json(struct sl_reading *reading, struct sl_str text,
                                 struct sl_subject_change *ret)
{
    struct sl_json_body *r = &reading->body;
    struct draft d = {.change = *ret, .until = SL_NS_NONE};

    d.change.expires = SL_NS_NONE;
    d.change.no_rates = true; /* unless they are read */
    sl_json_begin(&r->json, text, r->json.arena);
    if (!sl_json_body_fields(r, members, SL_LEN(members), NULL, &d))
        return false;
    if (!sl_json_end(&r->json))
        return sl_json_body_broken(r);
    for (unsigned i = 0; i < SL_LEN(has_bits); i++)
        if (r->seen & 1u << i)
            d.change.has |= has_bits[i];
    d.change.no_rates = d.change.no_rates && d.change.has & SL_HAS_RATES;
    fill_rates(&d);
    *ret = d.change;
    return check_until(reading, d.until, ret) && check_change(reading, ret);
}

/* ---- CSV ----
 *
 *     scope,id,plan,expires,roles,aliases,note,override.api
 *     user,ann,pro,2026-12-31,admin;member,ann@example.org,,100/min
 *
 * Roles and aliases are separated by blanks or semicolons. An empty cell
 * changes nothing.
 */

static const char override_prefix[] = "override.";

static const char *const columns[] = {
    "scope", "id", "plan",  "expires", "roles", "aliases",
    "note",  "by", "until", "anchor",  "zone",
};

static bool is_override(struct sl_str name)
{
    return name.len > strlen(override_prefix) &&
           memcmp(name.at, override_prefix, strlen(override_prefix)) == 0;
}

/* ---- the first line ---- */

static bool check_column(struct sl_reading *reading,
                         const struct sl_csv_head *head, unsigned i)
{
    struct sl_str name = head->names[i];
    bool known = is_override(name);

    for (size_t k = 0; k < SL_LEN(columns); k++)
        known = known || is(name, columns[k]);
    for (unsigned k = 0; k < i; k++)
        if (sl_str_eq(head->names[k], name))
            return SL_REFUSE(reading, "the column \"%.*s\" is given twice",
                             SL_STR_ARG(name));
    return known ||
           SL_REFUSE(reading, "unknown column \"%.*s\"%s", SL_STR_ARG(name),
                     sl_hint_of(sl_str_nearest(name, columns, SL_LEN(columns)),
                                "; valid are scope, id, plan, expires, roles, "
                                "aliases, note, by, until, anchor, zone and "
                                "override.LIMIT")
                         .text);
}

bool sl_csv_head_read(struct sl_reading *reading, struct sl_csv *csv,
                      struct sl_csv_head *ret)
{
    bool has_scope = false, has_id = false;

    if (!sl_csv_next(csv, ret->names, SL_CSV_COLUMNS, &ret->count))
        return SL_REFUSE(
            reading, "%s",
            csv->why ? csv->why : "the first line with the columns is missing");
    for (unsigned i = 0; i < ret->count; i++) {
        if (!check_column(reading, ret, i))
            return false;
        has_scope = has_scope || is(ret->names[i], "scope");
        has_id = has_id || is(ret->names[i], "id");
    }
    if (has_scope && has_id)
        return true;
    return SL_REFUSE(
        reading,
        "the first line must name the columns, including scope and id, "
        "as in: scope,id,plan,expires");
}

/* ---- a line ---- */

/* Split "a;b c" to names in the arena. */
static bool split(struct sl_reading *reading, const char *what,
                  struct sl_str text, unsigned most, const struct sl_str **ret,
                  unsigned *ret_count)
{
    struct sl_str *list =
        sl_arena_take(reading->body.json.arena, most * sizeof(*list));

    if (!list)
        return sl_json_body_no_memory(&reading->body);
    *ret = list;
    *ret_count = 0;
    while (text.len > 0) {
        size_t len = 0;

        while (len < text.len && !strchr("; ", text.at[len]))
            len++;
        if (len > 0 && *ret_count == most)
            return too_many(&reading->body, what, most);
        if (len > 0)
            list[(*ret_count)++] = (struct sl_str){text.at, len};
        text = sl_str_from(text, len + 1);
    }
    return true;
}

static bool read_override(struct sl_reading *reading, struct sl_str name,
                          struct sl_str rate, struct sl_subject_change *change)
{
    struct sl_subject_override *rates =
        (struct sl_subject_override *)change->rates;

    if (change->rate_count == SL_SUBJECT_RECORD_RATES)
        return too_many(&reading->body, "overrides", SL_SUBJECT_RECORD_RATES);
    rates[change->rate_count++] = (struct sl_subject_override){
        .limit = sl_str_from(name, strlen(override_prefix)),
        .rate = rate,
        .until = SL_NS_NONE,
    };
    change->has |= SL_HAS_RATES;
    return true;
}

static bool read_cell(struct sl_reading *reading, struct sl_str name,
                      struct sl_str cell, struct sl_subject_change *c,
                      sl_ns *until)
{
    static const struct {
        const char *name;
        unsigned has;
        size_t offset;
    } texts[] = {
        {"scope",  0,             offsetof(struct sl_subject_change, scope) },
        {"id",     0,             offsetof(struct sl_subject_change, id)    },
        {"by",     0,             offsetof(struct sl_subject_change, by)    },
        {"plan",   SL_HAS_PLAN,   offsetof(struct sl_subject_change, plan)  },
        {"note",   SL_HAS_NOTE,   offsetof(struct sl_subject_change, note)  },
        {"anchor", SL_HAS_ANCHOR, offsetof(struct sl_subject_change, anchor)},
        {"zone",   SL_HAS_ZONE,   offsetof(struct sl_subject_change, zone)  },
    };

    for (size_t i = 0; i < SL_LEN(texts); i++)
        if (is(name, texts[i].name)) {
            *(struct sl_str *)((char *)c + texts[i].offset) = cell;
            c->has |= texts[i].has;
            return true;
        }
    if (is(name, "until"))
        return sl_reading_end(reading, "until", cell, until);
    if (is(name, "expires")) {
        c->has |= SL_HAS_EXPIRES;
        return sl_reading_end(reading, "expires", cell, &c->expires);
    }
    if (is(name, "roles")) {
        c->has |= SL_HAS_ROLES;
        return split(reading, "roles", cell, SL_SUBJECT_RECORD_ROLES, &c->roles,
                     &c->role_count);
    }
    if (is(name, "aliases")) {
        c->has |= SL_HAS_ALIASES;
        return split(reading, "aliases", cell, SL_SUBJECT_RECORD_ALIASES,
                     &c->aliases, &c->alias_count);
    }
    return read_override(reading, name, cell, c);
}

bool sl_subject_change_read_csv(struct sl_reading *reading,
                                const struct sl_csv_head *head,
                                const struct sl_str *cells, unsigned count,
                                struct sl_subject_change *ret)
{
    struct sl_subject_override *rates = sl_arena_take(
        reading->body.json.arena, SL_SUBJECT_RECORD_RATES * sizeof(*rates));
    sl_ns until = SL_NS_NONE;

    if (!rates)
        return sl_json_body_no_memory(&reading->body);
    ret->rates = rates;
    ret->expires = SL_NS_NONE;
    if (count != head->count)
        return SL_REFUSE(
            reading, "the line has %u cells, but the first line has %u columns",
            count, head->count);
    for (unsigned i = 0; i < count; i++)
        if (cells[i].len > 0 &&
            !read_cell(reading, head->names[i], cells[i], ret, &until))
            return false;
    for (unsigned i = 0; i < ret->rate_count; i++) {
        rates[i].until = until;
        rates[i].by = ret->by;
        rates[i].note = ret->note;
    }
    return check_until(reading, until, ret) && check_change(reading, ret);
}

/* ---- the policy ---- */

static bool check_rate(struct sl_reading *reading,
                       const struct sl_subject_override *own,
                       const struct sl_policy *policy, bool force)
{
    int index = sl_policy_rule(policy, own->limit);
    struct sl_plan_limit limit;
    struct sl_diag why = {0};
    struct sl_rate rate;
    int err;

    if (own->rate.len == 0)
        return true; /* the override is removed */
    if (index < 0 && !force)
        return SL_REFUSE(reading, "the policy has no limit \"%.*s\"%s",
                         SL_STR_ARG(own->limit),
                         sl_hint_limit(policy, own->limit, FORCE).text);
    err = index < 0
              ? sl_parse_rate(own->rate, &rate, &why)
              : sl_rule_rate(&policy->rules[index], own->rate, &limit, &why);
    return !err ||
           SL_REFUSE(reading, "\"%.*s\" for %.*s: %s%s%s",
                     SL_STR_ARG(own->rate), SL_STR_ARG(own->limit),
                     why.sentence, why.hint[0] ? "; write " : "", why.hint);
}

static bool refuse_plan(struct sl_reading *reading, struct sl_str name,
                        const struct sl_policy *policy)
{
    const char *names[256];
    unsigned count = 0;

    for (; count < policy->plans.count && count < SL_LEN(names); count++)
        names[count] = policy->plans.list[count].name.at;
    return SL_REFUSE(
        reading, "the policy has no plan \"%.*s\"%s", SL_STR_ARG(name),
        sl_hint_of(sl_str_nearest(name, names, count), FORCE).text);
}

bool sl_subject_change_check(struct sl_reading *reading,
                             const struct sl_subject_change *change,
                             const struct sl_policy *policy, bool force)
{
    if (change->plan.len > 0 && !force &&
        sl_policy_plan(policy, change->plan) < 0)
        return refuse_plan(reading, change->plan, policy);
    for (unsigned i = 0; i < change->rate_count; i++)
        if (!check_rate(reading, &change->rates[i], policy, force))
            return false;
    return true;
}
