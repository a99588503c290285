/* turns.h -- a row of the group `holds`: what a turn costs when many wait. */
#ifndef SL_BENCH_TURNS_H
#define SL_BENCH_TURNS_H

void bench_turns(void);

#endif
