/* sqlite_fail.h -- makes SQLite's nth allocation fail, in any thread.
 *
 *     take_over();                  once, before SQLite is used
 *     atomic_store(&sqlite_calls, 0);
 *     atomic_store(&sqlite_nth, n); 0: none fails
 */
#ifndef TEST_SQLITE_FAIL_H
#define TEST_SQLITE_FAIL_H

#include <sqlite3.h>
#include <stdatomic.h>

#include "check.h"

static sqlite3_mem_methods real;
static _Atomic unsigned sqlite_calls, sqlite_nth;

static bool fails(void)
{
    return atomic_fetch_add(&sqlite_calls, 1) + 1 == atomic_load(&sqlite_nth);
}

static void *fail_malloc(int size)
{
    return fails() ? NULL : real.xMalloc(size);
}

static void *fail_realloc(void *old, int size)
{
    return fails() ? NULL : real.xRealloc(old, size);
}

static void take_over(void)
{
    sqlite3_mem_methods mine;

    sqlite3_config(SQLITE_CONFIG_GETMALLOC, &real);
    mine = real;
    mine.xMalloc = fail_malloc;
    mine.xRealloc = fail_realloc;
    CHECK_EQ(sqlite3_config(SQLITE_CONFIG_MALLOC, &mine), SQLITE_OK);
}

#endif
