/* leave_journal.c -- writes a usage journal as a killed daemon leaves it:
 * `daemon-leave_journal FILE LINES AMOUNT`. Line n is usage of AMOUNT units of
 * the limit "minutes" by the organisation "org-n", in this month. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "registry/usage_journal.h"

static sl_ns month_start(time_t now)
{
    struct tm tm;

    gmtime_r(&now, &tm);
    tm.tm_mday = 1;
    tm.tm_hour = tm.tm_min = tm.tm_sec = 0;
    return timegm(&tm) * SL_S;
}

int main(int argc, char **argv)
{
    struct sl_usage_journal_options options = {.size = (uint64_t)64 << 20};
    struct sl_usage_journal *journal = NULL;
    struct sl_usage_segment *segment = NULL;
    struct sl_usage_entry u = {
        .limit = SL_STR("minutes"),
        .scope = SL_STR("org"),
        .cap = 10,
        .thresholds = {.list = {100}, .count = 1}
    };
    struct sl_diag diag = {0};
    time_t now = (time_t)(sl_clock_wall() / SL_S);
    uint64_t stream, sequence = 0;
    char id[24];

    if (argc != 4)
        return 2;
    options.path = argv[1];
    if (sl_usage_journal_open(&options, &journal, &diag)) {
        fprintf(stderr, "%s\n", diag.sentence);
        return 1;
    }
    stream = sl_usage_journal_stream(journal);
    u.amount = strtoll(argv[3], NULL, 10);
    u.start = month_start(now);
    u.at = now * SL_S;
    for (long i = 0; i < strtol(argv[2], NULL, 10); i++) {
        u.id =
            (struct sl_str){id, (size_t)snprintf(id, sizeof(id), "org-%ld", i)};
        if (segment && sl_usage_segment_add(segment, &u, (uint64_t)i, 0))
            continue;
        segment = sl_usage_segment_open(journal, stream, ++sequence, u.at);
        if (!segment || !sl_usage_segment_add(segment, &u, (uint64_t)i, 0))
            return 1;
    }
    sl_usage_journal_close(journal);
    return 0;
}
