/* fuzz_zone.c -- TZif files.
 *
 *   (1) The file is read, or it is refused with a sentence and the output is
 *       untouched.
 *   (2) Shifts strictly increase, and none repeats the offset before it.
 *   (3) No offset is 26 hours or more.
 *   (4) The search finds what a walk finds.
 *   (5) What was handed out is given back in the same size.
 *
 * The bytes are copied to a piece of their own size, so that a read past the
 * end is one.
 */
#include "fuzz.h"

#include "base/zone.h"

#define UNTIL INT64_C(7258118400) /* 2200 */

static void must_be_sound(const struct sl_zone *zone)
{
    int32_t offset = zone->before;

    MUST(zone->count <= 20000);
    MUST(offset > -26 * 3600 && offset < 26 * 3600);
    for (size_t i = 0; i < zone->count; i++) {
        const struct sl_shift *shift = &zone->shifts[i];

        MUST(i == 0 || zone->shifts[i - 1].at < shift->at);
        MUST(shift->offset != offset);
        MUST(sl_zone_offset(zone, shift->at - 1) == offset); /* (4) */
        offset = shift->offset;
        MUST(sl_zone_offset(zone, shift->at) == offset);
        MUST(offset > -26 * 3600 && offset < 26 * 3600);
    }
    MUST(sl_zone_offset(zone, INT64_MIN) == zone->before);
    MUST(sl_zone_offset(zone, INT64_MAX) == offset);
}

void fuzz_zone(struct sl_str text)
{
    struct sl_diag diag = {.line = 0};
    struct sl_zone zone = {.before = 77};
    char *copy = malloc(text.len ? text.len : 1);
    int err;

    MUST(copy);
    if (text.len > 0)
        memcpy(copy, text.at, text.len);
    err = sl_zone_parse((struct sl_str){copy, text.len}, UNTIL, &fuzz_alloc,
                        &zone, &diag);
    free(copy); /* the zone must not need it any more */
    must_agree(err == SLUICE_EFULL ? SLUICE_ECONF : err, &diag, text.len);
    if (err)
        MUST(zone.before == 77 && zone.count == 0 && !zone.shifts);
    else
        must_be_sound(&zone);
    if (!err)
        sl_zone_done(&zone, &fuzz_alloc);
}
