/* shape.h -- what a question of others is about, and what it answers.
 *
 *     SELECT plan, expires FROM accounts WHERE id = $1
 *            |     |                              |
 *            |     timestamptz, timestamp, date   text, varchar, char, uuid,
 *            text, varchar, char, name            smallint, integer, bigint
 *
 * Texts of other types are written `::text`: a type that we do not know may
 * take two spellings of an id for the same, and each would have an allowance of
 * its own. For the same reason a number is asked for in its one spelling only:
 * "07" and "+7" are nobody.
 *
 * Answers come in PostgreSQL's binary form, which no setting changes. A
 * timestamp without a zone is UTC, a date is its first instant.
 */
#ifndef SL_PG_SHAPE_H
#define SL_PG_SHAPE_H

#include "base/diag.h"
#include "base/str.h"
#include "identity/registry/entry.h"

struct pg_result;

/* Types, by the numbers that PostgreSQL has for them. */
enum sl_pg_type {
    SL_PG_NAME = 19,
    SL_PG_INT8 = 20,
    SL_PG_INT2 = 21,
    SL_PG_INT4 = 23,
    SL_PG_TEXT = 25,
    SL_PG_CHAR = 1042,
    SL_PG_VARCHAR = 1043,
    SL_PG_DATE = 1082,
    SL_PG_TIMESTAMP = 1114,
    SL_PG_TIMESTAMPTZ = 1184,
    SL_PG_UUID = 2950,
};

struct sl_pg_plan_shape {
    int params;        /* 1, or 2 with the scope */
    unsigned id_type;  /* of $1 */
    int plan, expires; /* columns; the second may be -1 */
    unsigned plan_type, expires_type;
};

struct sl_pg_row {
    bool known; /* false: there was none */
    size_t plan_len;
    char plan[SL_SUBJECT_RECORD_NAME];
    sl_ns expires; /* SL_NS_NONE: never */
};

/* Of a statement that was described. SLUICE_ECONF with what to write. */
SL_MUST_USE int sl_pg_plan_shape(const struct pg_result *described,
                                 struct sl_pg_plan_shape *ret,
                                 struct sl_diag *diag);

/* Can anybody be called that in a column of the type? */
bool sl_pg_can_be(unsigned type, struct sl_str id);

/* An instant in binary form; 0 is any of the time before 1970, and what lies
 * behind the end of our time never comes. SLUICE_ESTORE: it is none. */
SL_MUST_USE int sl_pg_instant(unsigned type, struct sl_str bytes, sl_ns *ret);

/* The one row, or none. SLUICE_ESTORE with a sentence. */
SL_MUST_USE int sl_pg_row(const struct pg_result *result,
                          const struct sl_pg_plan_shape *shape,
                          struct sl_pg_row *ret, struct sl_diag *diag);

#endif
