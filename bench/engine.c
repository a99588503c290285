/* engine.c -- the rows of the engine: pure decisions, the library and the
 * table. */
#include "bench.h"

int main(void)
{
    int err = bench_pure();

    if (err)
        return err;
    bench_gate();
    bench_table();
    return 0;
}
