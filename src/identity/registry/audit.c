/* audit.c -- who changed what, when, from what to what.
 *
 * A line has the whole subject before and after, as JSON: whoever reads it
 * needs no other line. The number of the line is the revision of the subject,
 * so that revisions grow also over a removal. A subject keeps its latest
 * SL_AUDIT_KEPT lines, also when it is gone.
 */
#include "base/instant.h"
#include "identity/registry/database.h"
#include "wire/json.h"

#define PICTURE_MOST ((size_t)1 << 20)

/* {"scope":...} as a text in the arena; NULL stays NULL. */
static int picture(struct sl_database *db, const struct sl_draft *draft,
                   sl_ns now, struct sl_str *ret)
{
    struct sl_buf text;
    int err;

    ret->at = NULL;
    ret->len = 0;
    if (!draft)
        return 0;
    sl_buf_init(&text, PICTURE_MOST, db->arena.alloc);
    err = sl_buf_add(&text, SL_STR("{"));
    if (!err)
        err = sl_draft_json(draft, now, true, &text);
    if (!err)
        err = sl_buf_add(&text, SL_STR("}"));
    if (!err) {
        ret->len = text.len;
        ret->at = sl_arena_copy(&db->arena, sl_buf_str(&text));
    }
    sl_buf_done(&text);
    return !err && ret->at
               ? 0
               : sl_refuse(&db->diag, SLUICE_ENOMEM, "out of memory");
}

static int trim(struct sl_database *db, const struct sl_draft *of)
{
    const enum sl_query q = SL_QUERY_TRIM_AUDIT;

    sl_query_text(db, q, 1, of->scope);
    sl_query_text(db, q, 2, of->id);
    sl_query_number(db, q, 3, SL_AUDIT_KEPT);
    return sl_database_run(db, q);
}

int sl_database_note(struct sl_database *db, const struct sl_draft *old,
                     const struct sl_draft *new, struct sl_str by, sl_ns now,
                     uint64_t *ret_line)
{
    const enum sl_query q = SL_QUERY_PUT_AUDIT;
    const struct sl_draft *of = new ? new : old;
    const char *what = !old ? "create" : new ? "change" : "remove";
    struct sl_str before, after;
    int err = picture(db, old, now, &before);

    SL_HOLDS(of);
    if (!err)
        err = picture(db, new, now, &after);
    if (err)
        return err;
    sl_query_text(db, q, 1, of->scope);
    sl_query_text(db, q, 2, of->id);
    sl_query_number(db, q, 3, now);
    sl_query_text(db, q, 4, by);
    sl_query_text(db, q, 5, sl_str_c(what));
    if (before.at) /* what is not bound is NULL */
        sl_query_text(db, q, 6, before);
    if (after.at)
        sl_query_text(db, q, 7, after);
    err = sl_query_step(db, q);
    if (err == 1)
        *ret_line = (uint64_t)sl_query_integer(db, q, 0);
    sl_query_reset(db, q);
    if (err < 0)
        return err;
    return old ? trim(db, of) : 0;
}

static int json_or_null(struct sl_buf *out, const char *name,
                        struct sl_str text)
{
    int err = sl_buf_addf(out, ",\"%s\":", name);

    return err ? err : sl_buf_add(out, text.len ? text : SL_STR("null"));
}

static int write_line(struct sl_database *db, struct sl_buf *out)
{
    const enum sl_query q = SL_QUERY_AUDIT;
    char at[SL_INSTANT_TEXT];
    int err;

    sl_instant_print(sl_query_integer(db, q, 1), true, at);
    err = sl_buf_addf(out, "{\"revision\":%lld,\"at\":\"%s\",\"by\":",
                      (long long)sl_query_integer(db, q, 0), at);
    if (!err)
        err = sl_json_string(out, sl_query_column(db, q, 2));
    if (!err)
        err = sl_buf_add(out, SL_STR(",\"what\":"));
    if (!err)
        err = sl_json_string(out, sl_query_column(db, q, 3));
    if (!err)
        err = json_or_null(out, "before", sl_query_column(db, q, 4));
    if (!err)
        err = json_or_null(out, "after", sl_query_column(db, q, 5));
    return err ? err : sl_buf_add(out, SL_STR("}"));
}

int sl_database_audit(struct sl_database *db, struct sl_str scope,
                      struct sl_str id, uint64_t before, unsigned most,
                      struct sl_buf *out)
{
    const enum sl_query q = SL_QUERY_AUDIT;
    bool first = true;
    int err;

    sl_query_text(db, q, 1, scope);
    sl_query_text(db, q, 2, id);
    sl_query_number(db, q, 3, (int64_t)before);
    sl_query_number(db, q, 4, most);
    while ((err = sl_query_step(db, q)) == 1) {
        err = first ? 0 : sl_buf_add(out, SL_STR(","));
        if (!err)
            err = write_line(db, out);
        if (err)
            break;
        first = false;
    }
    sl_query_reset(db, q);
    return err;
}
