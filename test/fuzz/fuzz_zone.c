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

static size_t held;

/* libc's, with the sizes checked. (5) */
static void *resize(void *ctx, void *old, size_t old_size, size_t new_size)
{
    MUST(held == old_size);
    held = new_size;
    return sl_alloc_libc.resize(ctx, old, old_size, new_size);
}

static const struct sl_alloc alloc = {.resize = resize};

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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct sl_diag diag = {.line = 0};
    struct sl_zone zone = {.before = 77};
    char *copy = malloc(size ? size : 1);
    int err;

    MUST(copy);
    if (size > 0)
        memcpy(copy, data, size);
    err =
        sl_zone_parse((struct sl_str){copy, size}, UNTIL, &alloc, &zone, &diag);
    free(copy); /* the zone must not need it any more */
    must_agree(err == SLUICE_EFULL ? SLUICE_ECONF : err, &diag, size);
    if (err)
        MUST(zone.before == 77 && zone.count == 0 && !zone.shifts);
    else
        must_be_sound(&zone);
    if (!err)
        sl_zone_done(&zone, &alloc);
    MUST(held == 0);
    return 0;
}
