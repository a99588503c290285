/* bench.h -- the parts of bench-engine. */
#ifndef SL_BENCH_H
#define SL_BENCH_H

int bench_pure(void);
void bench_gate(void);
void bench_table(void);

#endif
