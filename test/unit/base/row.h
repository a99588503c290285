/* row.h -- a row of a table that is too wide for columns.
 *
 * clang-format lines up the columns of rows in plain braces, past the edge of
 * the page if need be. In this coat it breaks them like calls.
 */
#ifndef SL_TEST_ROW_H
#define SL_TEST_ROW_H

#define ROW(...)                                                               \
    {                                                                          \
        __VA_ARGS__                                                            \
    }

#endif
