/* pg_text.c -- texts and the plan query of PostgreSQL. */
#include <libpq-fe.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>

#include "registry/pg.h"
#include "wire/json.h"
#include "wire/pb.h"

#define SINCE_2000 (INT64_C(946684800) * SL_S) /* epoch of PostgreSQL */
#define DAY        (INT64_C(86400) * SL_S)
#define UUID_LEN   36

static bool is_text(unsigned type)
{
    return type == SL_PG_TEXT || type == SL_PG_VARCHAR || type == SL_PG_CHAR;
}

static bool is_instant(unsigned type)
{
    return type == SL_PG_TIMESTAMPTZ || type == SL_PG_TIMESTAMP ||
           type == SL_PG_DATE;
}

/* ---- the statement ---- */

static bool is_id(unsigned type)
{
    return is_text(type) || type == SL_PG_INT2 || type == SL_PG_INT4 ||
           type == SL_PG_INT8 || type == SL_PG_UUID;
}

static int read_params(const PGresult *described,
                       struct sl_pg_plan_shape *shape, struct sl_diag *diag)
{
    shape->params = PQnparams(described);
    if (shape->params < 1 || shape->params > 2)
        return sl_diag_error(
            diag, SLUICE_ECONF,
            "the query has %d parameters; $1 is the id, and the "
            "optional $2 is \"user\" or \"org\"",
            shape->params);
    shape->id_type = PQparamtype(described, 0);
    if (!is_id(shape->id_type))
        return sl_diag_error(
            diag, SLUICE_ECONF,
            "$1 must be text, a whole number or a uuid; write id::text = $1");
    if (shape->params > 1 && !is_text(PQparamtype(described, 1)))
        return sl_diag_error(
            diag, SLUICE_ECONF,
            "$2 is \"user\" or \"org\" and must be compared with "
            "text; write $2::text");
    return 0;
}

static int read_plan(const PGresult *described, int column,
                     struct sl_pg_plan_shape *shape, struct sl_diag *diag)
{
    shape->plan = column;
    shape->plan_type = PQftype(described, column);
    if (is_text(shape->plan_type) || shape->plan_type == SL_PG_NAME)
        return 0;
    return sl_diag_error(
        diag, SLUICE_ECONF,
        "the column plan is not text; write plan::text AS plan");
}

static int read_expires(const PGresult *described, int column,
                        struct sl_pg_plan_shape *shape, struct sl_diag *diag)
{
    shape->expires = column;
    shape->expires_type = PQftype(described, column);
    if (is_instant(shape->expires_type))
        return 0;
    return sl_diag_error(diag, SLUICE_ECONF,
                         "the column expires is not a time; write "
                         "expires::timestamptz AS expires");
}

static int read_overrides(const PGresult *described, int column,
                          struct sl_pg_plan_shape *shape, struct sl_diag *diag)
{
    unsigned type = PQftype(described, column);

    shape->overrides = column;
    shape->overrides_type = type;
    if (is_text(type) || type == SL_PG_JSON || type == SL_PG_JSONB)
        return 0;
    return sl_diag_error(diag, SLUICE_ECONF,
                         "the column overrides is not json; write "
                         "json_build_object('LIMIT', rate) AS overrides");
}

int sl_pg_plan_shape(const PGresult *described, struct sl_pg_plan_shape *ret,
                     struct sl_diag *diag)
{
    struct sl_pg_plan_shape shape = {
        .plan = -1, .expires = -1, .overrides = -1};
    int err = read_params(described, &shape, diag);

    for (int i = 0; i < PQnfields(described) && !err; i++) {
        const char *name = PQfname(described, i);

        if (strcmp(name, "plan") == 0 && shape.plan < 0)
            err = read_plan(described, i, &shape, diag);
        else if (strcmp(name, "expires") == 0 && shape.expires < 0)
            err = read_expires(described, i, &shape, diag);
        else if (strcmp(name, "overrides") == 0 && shape.overrides < 0)
            err = read_overrides(described, i, &shape, diag);
        else
            err = sl_diag_error(
                diag, SLUICE_ECONF,
                "unexpected column \"%.48s\"; the query may return plan, "
                "expires and overrides, once each: remove it, or write AS plan",
                name);
    }
    if (!err && shape.plan < 0)
        err = sl_diag_error(diag, SLUICE_ECONF,
                            "it answers no column plan; write SELECT plan, "
                            "expires FROM ... WHERE id = $1");
    if (!err)
        *ret = shape;
    return err;
}

/* ---- ids ---- */

/* Accepts a number in its one spelling, of at most `most`. */
static bool is_whole(struct sl_str id, uint64_t most)
{
    bool minus = id.len > 0 && id.at[0] == '-';
    struct sl_str digits = sl_str_from(id, minus);
    uint64_t number = 0;

    if (digits.len == 0 || digits.len > 19 ||
        (digits.at[0] == '0' && (digits.len > 1 || minus)))
        return false;
    for (size_t i = 0; i < digits.len; i++) {
        if (digits.at[i] < '0' || digits.at[i] > '9')
            return false;
        number = 10 * number + (uint64_t)(digits.at[i] - '0');
    }
    return number <= most + minus;
}

static bool is_uuid(struct sl_str id)
{
    for (size_t i = 0; i < id.len && i < UUID_LEN; i++) {
        bool dash = i == 8 || i == 13 || i == 18 || i == 23;
        char c = id.at[i];

        if (dash ? c != '-'
                 : !(c >= '0' && c <= '9') && !(c >= 'a' && c <= 'f'))
            return false;
    }
    return id.len == UUID_LEN;
}

bool sl_pg_can_be(unsigned type, struct sl_str id)
{
    switch (type) {
    case SL_PG_INT2:
        return is_whole(id, INT16_MAX);
    case SL_PG_INT4:
        return is_whole(id, INT32_MAX);
    case SL_PG_INT8:
        return is_whole(id, INT64_MAX);
    case SL_PG_UUID:
        return is_uuid(id);
    default:
        /* char(n) compares "ann " equal to "ann". */
        return id.len > 0 && id.len <= SL_SUBJECT_RECORD_ID &&
               !memchr(id.at, '\0', id.len) && sl_pb_is_utf8(id) &&
               (type != SL_PG_CHAR || id.at[id.len - 1] != ' ');
    }
}

/* ---- answers ---- */

static uint64_t read_big(struct sl_str bytes)
{
    uint64_t number = 0;

    for (size_t i = 0; i < bytes.len; i++)
        number = number << 8 | (unsigned char)bytes.at[i];
    return number;
}

/* `count` units since 2000; the smallest and the largest are infinity. */
static sl_ns instant_of(int64_t count, sl_ns unit)
{
    if (count > (SL_NS_MAX - SINCE_2000) / unit)
        return SL_NS_NONE;
    if (count < -SINCE_2000 / unit)
        return 0;
    return SINCE_2000 + count * unit;
}

int sl_pg_instant(unsigned type, struct sl_str bytes, sl_ns *ret)
{
    bool date = type == SL_PG_DATE;
    uint64_t number = read_big(bytes);

    if (!is_instant(type) || bytes.len != (date ? 4 : 8))
        return SLUICE_ESTORE;
    if (date && number == INT32_MAX)
        *ret = SL_NS_NONE;
    else if (date)
        *ret = instant_of((int32_t)(uint32_t)number, DAY);
    else
        *ret = instant_of((int64_t)number, SL_US);
    return 0;
}

static struct sl_str value(const PGresult *result, int column)
{
    int len = PQgetlength(result, 0, column);

    return (struct sl_str){PQgetvalue(result, 0, column),
                           len > 0 ? (size_t)len : 0};
}

int sl_pg_row(const PGresult *result, const struct sl_pg_plan_shape *shape,
              struct sl_pg_row *ret, struct sl_diag *diag)
{
    struct sl_pg_row row = {.known = true, .expires = SL_NS_NONE};
    struct sl_str plan;

    *ret = (struct sl_pg_row){.expires = SL_NS_NONE};
    if (PQntuples(result) == 0)
        return 0;
    if (PQntuples(result) > 1)
        return sl_diag_error(
            diag, SLUICE_ESTORE,
            "identity.subjects.query: the query returned %d rows "
            "for one id; order them, and write LIMIT 1",
            PQntuples(result));
    plan = value(result, shape->plan); /* null is empty */
    while (shape->plan_type == SL_PG_CHAR && plan.len > 0 &&
           plan.at[plan.len - 1] == ' ')
        plan.len--;
    if (plan.len > sizeof(row.plan))
        return sl_diag_error(
            diag, SLUICE_ESTORE,
            "identity.subjects.query: a plan has %zu bytes; the maximum is %d",
            plan.len, SL_SUBJECT_RECORD_NAME);
    if (plan.len > 0)
        memcpy(row.plan, plan.at, plan.len);
    row.plan_len = plan.len;
    if (shape->expires >= 0 && !PQgetisnull(result, 0, shape->expires) &&
        sl_pg_instant(shape->expires_type, value(result, shape->expires),
                      &row.expires))
        return sl_diag_error(diag, SLUICE_ESTORE,
                             "identity.subjects.query: expires is not a time");
    if (shape->overrides >= 0)
        row.overrides = value(result, shape->overrides); /* null is empty */
    if (shape->overrides_type == SL_PG_JSONB) /* a version, and the text */
        row.overrides = sl_str_from(row.overrides, row.overrides.len > 0);
    row.is_date =
        shape->expires_type == SL_PG_DATE && row.expires != SL_NS_NONE;
    *ret = row;
    return 0;
}

/* ---- overrides ---- */

#define DIGITS  24
#define IGNORED "; all overrides of this row are ignored"

/* Reads a rate. "": null. Returns false for other values. */
static bool read_rate(struct sl_json_reader *json, struct sl_str *ret)
{
    char *digits = NULL;
    uint64_t number;

    switch (sl_json_peek(json)) {
    case SL_JSON_NULL:
        *ret = (struct sl_str){"", 0};
        return sl_json_null(json);
    case SL_JSON_STRING:
        return sl_json_text(json, ret) && ret->len > 0 &&
               ret->len <= SL_SUBJECT_RECORD_RATE;
    case SL_JSON_NUMBER:
        if (sl_json_whole(json, &number))
            digits = sl_arena_take(json->arena, DIGITS);
        json->no_memory = !digits && !json->why;
        if (digits)
            *ret = (struct sl_str){
                digits, (size_t)snprintf(digits, DIGITS, "%" PRIu64, number)};
        return digits;
    default:
        return false;
    }
}

/* Reads the override of one limit. `first`: the first of the row. */
static int add_override(struct sl_json_reader *json, struct sl_str limit,
                        unsigned first, struct sl_subject_draft *draft,
                        struct sl_diag *diag)
{
    struct sl_str rate = {"", 0};
    struct sl_str shown = {limit.at, limit.len < 48 ? limit.len : 48};

    for (unsigned i = first; i < draft->rate_count; i++)
        if (sl_str_eq(draft->rates[i].limit, limit))
            return sl_diag_error(diag, SLUICE_ESTORE,
                                 "overrides has \"%.*s\" twice" IGNORED,
                                 SL_STR_ARG(shown));
    if (!read_rate(json, &rate))
        return sl_diag_error(diag, SLUICE_ESTORE,
                             "the override of \"%.*s\" is not a rate like "
                             "\"100/min\"" IGNORED,
                             SL_STR_ARG(shown));
    if (rate.len == 0 || limit.len > SL_SUBJECT_RECORD_NAME)
        return 0; /* a policy has no such name */
    if (draft->rate_count == SL_SUBJECT_RECORD_RATES)
        return sl_diag_error(
            diag, SLUICE_ESTORE,
            "a subject can have at most %d overrides, with those of the "
            "registry" IGNORED,
            SL_SUBJECT_RECORD_RATES);
    draft->rates[draft->rate_count++] =
        (struct sl_subject_override){.limit = limit,
                                     .rate = rate,
                                     .until = SL_NS_NONE,
                                     .by = SL_STR("query")};
    return 0;
}

int sl_pg_overrides(struct sl_str json, struct sl_arena *arena,
                    struct sl_subject_draft *draft, struct sl_diag *diag)
{
    unsigned first = draft->rate_count;
    struct sl_json_reader reader;
    struct sl_str limit;
    int err = 0;

    if (json.len > SL_PG_OVERRIDES)
        return sl_diag_error(diag, SLUICE_ESTORE,
                             "overrides has %zu bytes, the maximum is "
                             "%d" IGNORED,
                             json.len, SL_PG_OVERRIDES);
    sl_json_begin(&reader, json, arena);
    if (!sl_json_enter(&reader, '{'))
        err = sl_diag_error(diag, SLUICE_ESTORE,
                            "overrides is not an object like "
                            "{\"LIMIT\": \"100/min\"}");
    while (!err && sl_json_member(&reader, &limit))
        err = add_override(&reader, limit, first, draft, diag);
    if (!err && !sl_json_end(&reader))
        err =
            sl_diag_error(diag, SLUICE_ESTORE, "overrides is not JSON" IGNORED);
    if (reader.no_memory)
        err = sl_diag_error(diag, SLUICE_ENOMEM, "out of memory");
    if (err)
        draft->rate_count = first;
    return err;
}

/* ---- escaping. */

#define ESC '\x1b'

static bool has(struct sl_str text, char c)
{
    return text.len > 0 && memchr(text.at, c, text.len);
}

/* Returns the length of the character at `at`, or 0 if it must be escaped. */
static size_t clean_len(struct sl_str text, size_t at)
{
    if (text.at[at] == '\0' || text.at[at] == ESC)
        return 0;
    for (size_t len = 1; len <= 4 && len <= text.len - at; len++)
        if (sl_pb_is_utf8((struct sl_str){text.at + at, len}))
            return len;
    return 0;
}

static size_t add_escape(char *out, unsigned char byte)
{
    static const char digits[] = "0123456789abcdef";

    out[0] = ESC;
    out[1] = digits[byte >> 4];
    out[2] = digits[byte & 15];
    return 3;
}

static bool escape(struct sl_arena *arena, struct sl_str text,
                   struct sl_str *ret)
{
    char *out = sl_arena_take(arena, 3 * text.len);
    size_t len = 0;

    if (!out)
        return false;
    for (size_t at = 0, clean; at < text.len; at += clean ? clean : 1) {
        clean = clean_len(text, at);
        if (clean)
            memcpy(out + len, text.at + at, clean);
        len +=
            clean ? clean : add_escape(out + len, (unsigned char)text.at[at]);
    }
    *ret = (struct sl_str){out, len};
    return true;
}

static bool shorten(struct sl_arena *arena, struct sl_str text,
                    struct sl_str *ret)
{
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned size = 0;
    char *out = sl_arena_take(arena, 2 + 2 * sizeof(digest) + 1);

    if (!out ||
        !EVP_Digest(text.at, text.len, digest, &size, EVP_sha256(), NULL))
        return false;
    out[0] = ESC;
    out[1] = '#';
    for (unsigned i = 0; i < size; i++)
        snprintf(out + 2 + 2 * (size_t)i, 3, "%02x", digest[i]);
    *ret = (struct sl_str){out, 2 + 2 * (size_t)size};
    return true;
}

bool sl_pg_escape(struct sl_arena *arena, struct sl_str text, bool is_id,
                  struct sl_str *ret)
{
    struct sl_str out = text;

    if ((!sl_pb_is_utf8(text) || has(text, '\0') || has(text, ESC)) &&
        !escape(arena, text, &out))
        return false;
    if (is_id && out.len > SL_PG_ID)
        return shorten(arena, text, ret);
    *ret = out;
    return true;
}

static int digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool sl_pg_unescape(struct sl_arena *arena, struct sl_str text,
                    struct sl_str *ret)
{
    size_t len = 0;
    char *out;

    *ret = text;
    if (!has(text, ESC))
        return true;
    out = sl_arena_take(arena, text.len);
    if (!out)
        return false;
    for (size_t at = 0; at < text.len; at++) {
        int high = -1, low = -1;

        if (text.at[at] == ESC && text.len - at > 2) {
            high = digit(text.at[at + 1]);
            low = digit(text.at[at + 2]);
        }
        out[len++] = text.at[at];
        if (high < 0 || low < 0) /* a shortened id */
            continue;
        out[len - 1] = (char)(16 * high + low);
        at += 2;
    }
    *ret = (struct sl_str){out, len};
    return true;
}
