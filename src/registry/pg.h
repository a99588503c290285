/* driver.h -- the registry in PostgreSQL: the address of one for
 * sl_registry_open().
 *
 * Several daemons share it. Before a transaction writes, it locks the slots of
 * all whom it is about, in their order, so that what it reads stays so until it
 * is committed and no two wait for each other. Every change is told to the
 * others by NOTIFY.
 *
 * If the connection is lost while a transaction is committed, its outcome is
 * asked for by its number on the next connection. As long as that is not
 * possible it is not known, and nothing is acknowledged.
 */
#ifndef SL_PG_DRIVER_H
#define SL_PG_DRIVER_H

struct sl_driver;
extern const struct sl_driver sl_driver_postgres;

#endif
