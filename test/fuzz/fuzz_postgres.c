/* fuzz_postgres.c -- what PostgreSQL says: texts, ids, rows of others' tables,
 * and what other daemons tell by NOTIFY.
 *
 * The first byte says which.
 *
 *   (1) Any bytes escaped are UTF-8 without NUL, and are read back as they
 * were. (2) Any text can be unescaped; what comes out is no longer than it. (3)
 * A number is an id in the one spelling that it is printed in. (4) An instant
 * is none, or never before 1970. (5) A row has a plan within its bounds, or is
 * refused with a sentence. (6) A message names a feature in itself, or raises a
 * stamp, or all. (7) Overrides are within their bounds, or there are none.
 */
#include "fuzz.h"

#include <libpq-fe.h>

#include "registry/pg.h"
#include "registry/registry_int.h"
#include "wire/pb.h"

#define SAMPLES 64

/* ---- texts ---- */

static void read_text(struct sl_str text)
{
    struct sl_arena arena;
    struct sl_str once, back;

    sl_arena_init(&arena, 1 << 20, &sl_alloc_libc);
    MUST(sl_pg_escape(&arena, text, false, &once)); /* (1) */
    MUST(sl_pb_is_utf8(once));
    MUST(once.len == 0 || !memchr(once.at, '\0', once.len));
    MUST(sl_pg_unescape(&arena, once, &back));
    MUST(sl_str_eq(back, text));
    MUST(sl_pg_escape(&arena, text, true, &once));
    MUST(once.len <= SL_PG_ID && sl_pb_is_utf8(once));
    MUST(sl_pg_unescape(&arena, text, &back)); /* (2) */
    MUST(back.len <= text.len);
    sl_arena_done(&arena);
}

/* ---- ids and instants ---- */

static bool is_printed(struct sl_str id, int64_t least, int64_t most)
{
    char copy[32], again[32];
    long long number;

    if (id.len == 0 || id.len >= sizeof(copy))
        return false;
    memcpy(copy, id.at, id.len);
    copy[id.len] = '\0';
    number = strtoll(copy, NULL, 10);
    snprintf(again, sizeof(again), "%lld", number);
    return strlen(again) == id.len && memcmp(again, id.at, id.len) == 0 &&
           number >= least && number <= most;
}

static void read_id(struct sl_str id)
{
    MUST(sl_pg_can_be(SL_PG_INT2, id) ==
         is_printed(id, INT16_MIN, INT16_MAX)); /* (3) */
    MUST(sl_pg_can_be(SL_PG_INT4, id) == is_printed(id, INT32_MIN, INT32_MAX));
    MUST(sl_pg_can_be(SL_PG_INT8, id) == is_printed(id, INT64_MIN, INT64_MAX));
    MUST(!sl_pg_can_be(SL_PG_UUID, id) || id.len == 36);
    MUST(!sl_pg_can_be(SL_PG_TEXT, id) || sl_pb_is_utf8(id));
    MUST(!sl_pg_can_be(SL_PG_CHAR, id) || sl_pg_can_be(SL_PG_TEXT, id));
}

static void read_instant(struct sl_str bytes)
{
    static const unsigned types[] = {SL_PG_DATE, SL_PG_TIMESTAMP,
                                     SL_PG_TIMESTAMPTZ, SL_PG_TEXT};

    for (size_t i = 0; i < SL_LEN(types); i++) {
        sl_ns at = 0;

        if (sl_pg_instant(types[i], bytes, &at) == 0) /* (4) */
            MUST((at >= 0 || at == SL_NS_NONE) && i < 3 &&
                 bytes.len == (i == 0 ? 4 : 8));
    }
}

/* ---- rows ---- */

static void read_overrides(struct sl_str json)
{
    struct sl_subject_draft draft = {.rate_count = 1};
    struct sl_diag diag = {.sentence = ""};
    struct sl_arena arena;
    int err;

    sl_arena_init(&arena, 8 * SL_PG_OVERRIDES, &sl_alloc_libc);
    err = sl_pg_overrides(json, &arena, &draft, &diag);
    MUST(err != SLUICE_ENOMEM && (err != 0) == (diag.sentence[0] != '\0'));
    MUST(draft.rate_count <= (err ? 1 : SL_SUBJECT_RECORD_RATES)); /* (7) */
    for (unsigned i = 1; i < draft.rate_count; i++) {
        MUST(draft.rates[i].limit.len <= SL_SUBJECT_RECORD_NAME);
        MUST(draft.rates[i].rate.len > 0 &&
             draft.rates[i].rate.len <= SL_SUBJECT_RECORD_RATE);
    }
    sl_arena_done(&arena);
}

/* Lengths and values of three columns, of a row or more. */
static void read_row(struct sl_str bytes)
{
    static char plan_name[] = "plan", expires_name[] = "expires",
                overrides_name[] = "overrides";
    PGresAttDesc columns[3] = {
        {.name = plan_name,      .format = 1},
        {.name = expires_name,   .format = 1},
        {.name = overrides_name, .format = 1}
    };
    PGresult *result = PQmakeEmptyPGresult(NULL, PGRES_TUPLES_OK);
    struct sl_pg_plan_shape shape = {.plan = 0,
                                     .expires = 1,
                                     .overrides = 2,
                                     .overrides_type = SL_PG_JSONB,
                                     .plan_type = SL_PG_CHAR,
                                     .expires_type = SL_PG_TIMESTAMPTZ};
    struct sl_diag diag = {.sentence = ""};
    struct sl_pg_row row;

    MUST(result && PQsetResultAttrs(result, 3, columns));
    for (int i = 0; bytes.len > 0 && i < 6; i++) {
        int len = (unsigned char)bytes.at[0];

        bytes = sl_str_from(bytes, 1);
        if (len == 255)
            len = -1; /* null */
        else if ((size_t)len > bytes.len)
            len = (int)bytes.len;
        MUST(PQsetvalue(result, i / 3, i % 3, len < 0 ? NULL : (char *)bytes.at,
                        len));
        bytes = sl_str_from(bytes, len > 0 ? (size_t)len : 0);
    }
    if (sl_pg_row(result, &shape, &row, &diag)) { /* (5) */
        MUST(diag.sentence[0] != '\0');
    } else {
        MUST(row.plan_len <= sizeof(row.plan));
        MUST(row.expires >= 0 || row.expires == SL_NS_NONE);
        MUST(row.known == (PQntuples(result) == 1));
        read_overrides(row.overrides);
    }
    PQclear(result);
}

/* ---- messages ---- */

static struct sl_registry registry;
static sl_notified_f *heard;
static void *heard_by;
static struct sl_str said;
static unsigned switched;

static int listen_to(struct sl_database *db, sl_notified_f *f, void *ctx,
                     struct sl_diag *diag)
{
    (void)db;
    (void)diag;
    heard = f;
    heard_by = ctx;
    return 0;
}

static void on_switch(void *ctx, struct sl_str name, int on)
{
    (void)ctx;
    MUST(on >= -1 && on <= 1);
    MUST(name.len == 0 ||
         (name.at > said.at && name.at + name.len == said.at + said.len));
    switched++;
}

/* Of some: all of them would take most of the time. */
static uint64_t sum_versions(void)
{
    uint64_t sum = 0;

    for (unsigned i = 0; i < SL_REGISTRY_VERSIONS;
         i += SL_REGISTRY_VERSIONS / SAMPLES)
        sum +=
            atomic_load_explicit(&registry.versions[i], memory_order_relaxed);
    return sum;
}

static void read_message(struct sl_str message)
{
    static const struct sl_driver driver = {.listen = listen_to};
    uint64_t before;

    registry.db.driver = &driver;
    registry.on_switch = on_switch;
    MUST(sl_sharing_listen(&registry, NULL) == 0);
    said = message;
    switched = 0;
    before = sum_versions();
    heard(heard_by, message);
    if (switched) /* (6) */
        MUST(sum_versions() == before);
    else
        MUST(sum_versions() <= before + 1 ||
             sum_versions() == before + SAMPLES);
}

void fuzz_postgres(struct sl_str rest, unsigned choice)
{
    static void (*const readers[])(struct sl_str) = {
        read_text, read_id,      read_instant,
        read_row,  read_message, read_overrides};

    readers[choice % SL_LEN(readers)](rest);
}
