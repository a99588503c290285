/* fuzz_journal.c -- segments of a usage journal.
 *
 * A good segment is made once. The input is a list of patches to it:
 *
 *   byte         sealed (bit 0)
 *   patches      4 bytes each: where (3), what
 *
 *   (1) What is accepted can be read: every text is inside the segment.
 *   (2) Good lines come before damage, and end where they say.
 *   (3) A segment without a patch is good.
 */
#include "fuzz.h"

#include "registry/usage_journal.h"

#define LINES 20

static union {
    char bytes[SL_JOURNAL_SEGMENT];
    struct sl_usage_segment head;
} good[2], tried;

static void make(void)
{
    struct sl_usage_journal_options options = {.size = SL_JOURNAL_LEAST};
    struct sl_usage_journal *journal = NULL;
    struct sl_usage_segment *segment;
    static char id[SL_USAGE_ID];

    MUST(sl_usage_journal_open(&options, &journal, NULL) == 0);
    segment = sl_usage_segment_open(journal, 1, 2, 0);
    memset(id, 'x', sizeof(id));
    for (size_t i = 0; i < LINES; i++) {
        struct sl_usage_entry u = {
            .limit = SL_STR("minutes"),
            .scope = SL_STR("org"),
            .id = {id, i * i},
            .key = {id, i    },
            .amount = (int64_t)i,
            .act = (enum sl_usage_act)(i % 5),
            .cap = 100
        };

        MUST(sl_usage_segment_add(segment, &u, i, i % 2));
    }
    memcpy(&good[0], segment, sizeof(good[0]));
    sl_usage_segment_seal(segment);
    memcpy(&good[1], segment, sizeof(good[1]));
    sl_usage_journal_close(journal);
}

static void read_all(unsigned lines)
{
    const struct sl_usage_line *line = NULL;
    const char *end = tried.bytes + sizeof(tried);
    unsigned sum = 0;

    while ((line = sl_usage_segment_next(&tried.head, line))) {
        struct sl_usage_entry u;
        const struct sl_str *texts[] = {&u.limit, &u.scope, &u.id,
                                        &u.key,   &u.name,  &u.node};

        sl_usage_line_read(line, &u);
        MUST(u.amount <= SL_USAGE_MOST && u.amount >= -SL_USAGE_MOST);
        MUST(u.thresholds.count <= SL_THRESHOLDS);
        for (size_t i = 0; i < SL_LEN(texts); i++)
            MUST(texts[i]->at > tried.bytes &&
                 texts[i]->at + texts[i]->len <= end); /* (1) */
        sum++;
    }
    MUST(sum == lines); /* (2) */
}

void fuzz_journal(struct sl_str text, unsigned choice)
{
    bool damaged;
    uint32_t end;
    unsigned lines;

    if (!good[0].head.magic)
        make();
    memcpy(&tried, &good[choice & 1], sizeof(tried));
    for (; text.len >= 4; text = sl_str_from(text, 4)) {
        const unsigned char *p = (const unsigned char *)text.at;
        size_t at = ((size_t)p[0] << 16 | (size_t)p[1] << 8 | p[2]);

        tried.bytes[at % sizeof(tried)] = (char)p[3];
    }
    lines = sl_usage_segment_check(&tried.head, &end, &damaged);
    MUST(lines <= SL_JOURNAL_LINES && end <= sizeof(tried));
    if (memcmp(&tried, &good[choice & 1], sizeof(tried)) == 0)
        MUST(lines == LINES && !damaged); /* (3) */
    atomic_store(&tried.head.used, end);
    if (lines > 0)
        read_all(lines);
}
