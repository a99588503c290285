/* row.h -- a row of a table that is too wide for columns.
 *
 * clang-format lines up the columns of rows in plain braces, past 80 columns if
 * need be. It breaks the rows of this macro like calls.
 */
#ifndef SL_TEST_ROW_H
#define SL_TEST_ROW_H

#define ROW(...)                                                               \
    {                                                                          \
        __VA_ARGS__                                                            \
    }

#endif
