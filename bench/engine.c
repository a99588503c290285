/* engine.c -- the rows of the engine: pure decisions, and the table. */
#include "bench.h"

int main(void)
{
    int err = bench_pure();

    if (!err)
        bench_table();
    return err;
}
