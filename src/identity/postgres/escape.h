/* escape.h -- inside the driver: any bytes as a text of PostgreSQL.
 *
 * Names of subjects are whatever their callers sent; a text of PostgreSQL is
 * UTF-8 without NUL. What is no UTF-8, NUL, and the escape itself (ESC, 0x1b)
 * become ESC and two hexadecimal digits; all else stays as it is, so that
 * tables can be read by people. One bad byte must not fail the transaction that
 * it is in, for it would fail again whenever it is tried.
 *
 * An index holds 2,704 bytes of a row. A name that is longer than SL_PG_ID is
 * known by its SHA-256 instead: ESC, '#', 64 digits. It is counted as exactly,
 * and can't be read back.
 *
 * Invariants (test/unit/identity/postgres/escape.c).
 *   (1) What is written can be stored, whatever it was.
 *   (2) Different texts stay different.
 *   (3) What was escaped is read back as it was, unless it was too long.
 */
#ifndef SL_PG_ESCAPE_H
#define SL_PG_ESCAPE_H

#include "base/arena.h"

#define SL_PG_ID 1600 /* bytes, escaped */

/* The text as it is, if it may stay so; else a copy in the arena. `is_id`: keep
 * it short. False: there is no memory. */
SL_MUST_USE bool sl_pg_escape(struct sl_arena *arena, struct sl_str text,
                              bool is_id, struct sl_str *ret);

/* And back. */
SL_MUST_USE bool sl_pg_unescape(struct sl_arena *arena, struct sl_str text,
                                struct sl_str *ret);

#endif
