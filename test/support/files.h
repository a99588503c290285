/* files.h -- files of a test, in a folder of its own. */
#ifndef SL_TEST_FILES_H
#define SL_TEST_FILES_H

#include <stdio.h>
#include <stdlib.h>

#include "check.h"

static inline void put_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "we");

    CHECK(file && fputs(text, file) >= 0);
    if (file)
        fclose(file);
}

#endif
