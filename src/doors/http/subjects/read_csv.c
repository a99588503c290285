/* read_csv.c -- a line of CSV, to a change.
 *
 *     scope,id,plan,expires,roles,aliases,note,override.api
 *     user,ann,pro,2026-12-31,admin;member,ann@example.org,,100/min
 *
 * Several roles or aliases are separated by blanks or semicolons. An empty
 * cell says nothing: what is there stays.
 */
#include <string.h>

#include "doors/http/subjects/subjects.h"

static const char override_prefix[] = "override.";

static const char *const columns[] = {
    "scope", "id", "plan", "expires", "roles", "aliases", "note", "by", "until",
};

static bool is(struct sl_str text, const char *word)
{
    return sl_str_eq(text, sl_str_c(word));
}

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
    const char *near = sl_str_nearest(name, columns, SL_LEN(columns));
    bool known = is_override(name);

    for (size_t k = 0; k < SL_LEN(columns); k++)
        known = known || is(name, columns[k]);
    for (unsigned k = 0; k < i; k++)
        if (sl_str_eq(head->names[k], name)) {
            sl_refuse(&reading->diag, SLUICE_ECONF,
                      "the column \"%.*s\" is given twice", SL_STR_ARG(name));
            return false;
        }
    if (!known && near)
        sl_refuse(&reading->diag, SLUICE_ECONF,
                  "unknown column \"%.*s\"; did you mean \"%s\"?",
                  SL_STR_ARG(name), near);
    else if (!known)
        sl_refuse(&reading->diag, SLUICE_ECONF,
                  "unknown column \"%.*s\"; valid are scope, id, plan, "
                  "expires, roles, aliases, note, by, until and override.LIMIT",
                  SL_STR_ARG(name));
    return known;
}

bool sl_csv_head_read(struct sl_reading *reading, struct sl_csv *csv,
                      struct sl_csv_head *ret)
{
    bool has_scope = false, has_id = false;

    if (!sl_csv_next(csv, ret->names, SL_CSV_COLUMNS, &ret->count)) {
        sl_refuse(&reading->diag, SLUICE_ECONF, "%s",
                  csv->why ? csv->why
                           : "the first line with the columns is missing");
        return false;
    }
    for (unsigned i = 0; i < ret->count; i++) {
        if (!check_column(reading, ret, i))
            return false;
        has_scope = has_scope || is(ret->names[i], "scope");
        has_id = has_id || is(ret->names[i], "id");
    }
    if (has_scope && has_id)
        return true;
    sl_refuse(&reading->diag, SLUICE_ECONF,
              "the first line must name the columns, including scope and id, "
              "as in: scope,id,plan,expires");
    return false;
}

/* ---- a line ---- */

/* "a;b c" to names in the arena. */
static bool split(struct sl_reading *reading, const char *what,
                  struct sl_str text, unsigned most, const struct sl_str **ret,
                  unsigned *ret_count)
{
    struct sl_str *list = sl_arena_take(reading->arena, most * sizeof(*list));

    if (!list) {
        sl_refuse(&reading->diag, SLUICE_ENOMEM, "out of memory");
        return false;
    }
    *ret = list;
    *ret_count = 0;
    while (text.len > 0) {
        size_t len = 0;

        while (len < text.len && !strchr("; ", text.at[len]))
            len++;
        if (len > 0 && *ret_count == most) {
            sl_refuse(&reading->diag, SLUICE_ECONF, "there are more than %u %s",
                      most, what);
            return false;
        }
        if (len > 0)
            list[(*ret_count)++] = (struct sl_str){text.at, len};
        text = sl_str_from(text, len + 1);
    }
    return true;
}

static bool read_override(struct sl_reading *reading, struct sl_str name,
                          struct sl_str rate, struct sl_change *change)
{
    struct sl_own_rate *rates = (struct sl_own_rate *)change->rates;

    if (change->rate_count == SL_ENTRY_RATES) {
        sl_refuse(&reading->diag, SLUICE_ECONF,
                  "there are more than %d overrides", SL_ENTRY_RATES);
        return false;
    }
    rates[change->rate_count++] = (struct sl_own_rate){
        .limit = sl_str_from(name, strlen(override_prefix)),
        .rate = rate,
        .until = SL_NS_NONE,
    };
    change->has |= SL_HAS_RATES;
    return true;
}

static bool read_cell(struct sl_reading *reading, struct sl_str name,
                      struct sl_str cell, struct sl_change *c, sl_ns *until)
{
    if (is(name, "scope"))
        c->scope = cell;
    else if (is(name, "id"))
        c->id = cell;
    else if (is(name, "by"))
        c->by = cell;
    if (is(name, "plan")) {
        c->plan = cell;
        c->has |= SL_HAS_PLAN;
    } else if (is(name, "note")) {
        c->note = cell;
        c->has |= SL_HAS_NOTE;
    } else if (is(name, "expires")) {
        c->has |= SL_HAS_EXPIRES;
        return sl_reading_time(reading, "expires", cell, &c->expires);
    } else if (is(name, "until")) {
        return sl_reading_time(reading, "until", cell, until);
    } else if (is(name, "roles")) {
        c->has |= SL_HAS_ROLES;
        return split(reading, "roles", cell, SL_ENTRY_ROLES, &c->roles,
                     &c->role_count);
    } else if (is(name, "aliases")) {
        c->has |= SL_HAS_ALIASES;
        return split(reading, "aliases", cell, SL_ENTRY_ALIASES, &c->aliases,
                     &c->alias_count);
    } else if (is_override(name)) {
        return read_override(reading, name, cell, c);
    }
    return true;
}

bool sl_change_read_csv(struct sl_reading *reading,
                        const struct sl_csv_head *head,
                        const struct sl_str *cells, unsigned count,
                        struct sl_change *ret)
{
    struct sl_own_rate *rates =
        sl_arena_take(reading->arena, SL_ENTRY_RATES * sizeof(*rates));
    sl_ns until = SL_NS_NONE;

    if (!rates) {
        sl_refuse(&reading->diag, SLUICE_ENOMEM, "out of memory");
        return false;
    }
    ret->rates = rates;
    ret->expires = SL_NS_NONE;
    if (count != head->count) {
        sl_refuse(&reading->diag, SLUICE_ECONF,
                  "the line has %u cells, but the first line has %u columns",
                  count, head->count);
        return false;
    }
    for (unsigned i = 0; i < count; i++)
        if (cells[i].len > 0 &&
            !read_cell(reading, head->names[i], cells[i], ret, &until))
            return false;
    for (unsigned i = 0; i < ret->rate_count; i++) {
        rates[i].until = until;
        rates[i].by = ret->by;
        rates[i].note = ret->note;
    }
    return sl_reading_finish(reading, ret);
}
