/* fuzz_dynamo.c -- what DynamoDB answers, of any bytes; and where it is said to
 * be.
 *
 *   (1) A reply means one of the things that there are, and says why in text
 *       that can be shown.
 *   (2) A row that is there has a cell that core may read; one that is not has
 *       none.
 *   (3) Keys that are found are clean, and lie in what was found.
 *   (4) An address that is good has a URL, a host and a table.
 *   (5) A journal that is good has rows that lie in it; any of them can be
 * taken back, from any cell.
 */
#include "fuzz.h"

#include "store/dynamo/aws.h"
#include "store/dynamo/dynamo.h"
#include "store/dynamo/dynamo_int.h"

static void must_be_row(const struct sl_row *row)
{
    if (!row->found)
        MUST(row->cell.w[0] == 0 && row->cell.w[1] == 0); /* (2) */
    MUST(row->cell.w[0] >> SL_CELL_W0_BITS == 0);
    MUST(row->cell.w[1] >> SL_CELL_W1_BITS == 0);
}

static void try_reply(int status, struct sl_str body)
{
    struct sl_row rows[2] = {
        {.name = SL_STR("a"), .is_window = true},
        {.name = SL_STR("b")                  },
    };
    char why[SL_REPLY_WHY], text[16];
    struct sl_dynamo_text texts[] = {
        {"x", text, sizeof(text), false}
    };
    bool told, there;

    memcpy(rows[0].sort, "RATE_LIMIT#0", sizeof("RATE_LIMIT#0"));
    memcpy(rows[1].sort, "CELL#1", sizeof("CELL#1"));
    for (unsigned count = 0; count <= SL_LEN(rows); count++) {
        MUST(sl_dynamo_reply_read(status, body, rows, count, SL_DAY, &told,
                                  why) <= SL_UNSURE); /* (1) */
        MUST(strnlen(why, sizeof(why)) < sizeof(why));
        for (unsigned i = 0; i < count; i++)
            must_be_row(&rows[i]);
    }
    MUST(sl_dynamo_texts(status, body, texts, 1, &there, why) <= SL_UNSURE);
    MUST(strnlen(text, sizeof(text)) < sizeof(text));
}

static void try_journal(struct sl_str text)
{
    struct sl_journal journal = {.count = 0};
    struct sl_cell cell = sl_cell_of(20000 * SL_DAY, 7);
    struct sl_buf after;
    struct sl_row row;

    sl_buf_init(&journal.names, 1 << 16, &sl_alloc_libc);
    sl_buf_init(&after, 1 << 12, &sl_alloc_libc);
    if (sl_journal_read(text, SL_TIME_END - 1, &journal, &after)) {
        MUST(after.len == SL_JOURNAL_ID + 4);                 /* "SET#" */
        MUST(journal.count > 0 && journal.count <= SL_PARTS); /* (5) */
        for (unsigned i = 0; i < journal.count; i++) {
            struct sl_journal_row *one = &journal.rows[i];

            MUST(one->name.at >= journal.names.bytes && one->name.len > 0);
            sl_journal_row_of(one, journal.id, &row);
            cell = sl_journal_undo(one, cell, 20001 * SL_DAY);
            MUST(cell.w[0] >> SL_CELL_W0_BITS == 0);
            MUST(cell.w[1] >> SL_CELL_W1_BITS == 0);
        }
    }
    sl_buf_done(&journal.names);
    sl_buf_done(&after);
}

static void must_be_keys(const struct sl_aws_found *found)
{
    const struct sl_aws_keys *k = &found->keys;

    MUST(k->id.at >= found->text && k->id.len > 0 && k->secret.len > 0);
    MUST(k->token.at + k->token.len <= found->text + sizeof(found->text));
    for (size_t i = 0; i < k->id.len; i++)
        MUST(k->id.at[i] > ' '); /* (3) */
}

void fuzz_dynamo(struct sl_str text)
{
    static struct sl_aws_found found;
    struct sl_dynamo_url where;
    struct sl_arena arena;
    struct sl_diag why;
    sl_ns at;

    try_reply(200, text);
    try_reply(400, text);
    try_journal(text);
    if (!sl_aws_read_document(text, &found, &why))
        must_be_keys(&found);
    if (!sl_aws_read_profile(text, SL_STR("default"), &found, &why))
        must_be_keys(&found);
    if (!sl_date_read(text, &at))
        MUST(at >= 0);
    sl_arena_init(&arena, 1 << 16, &sl_alloc_libc);
    if (!sl_dynamo_url_read(text, &arena, &where, &why))
        MUST(where.endpoint && where.host.len > 0 && where.table.len >= 3 &&
             where.region.len > 0); /* (4) */
    sl_arena_done(&arena);
}
