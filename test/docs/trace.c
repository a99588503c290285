/* trace.c -- writes the order in which the functions of a program are called.
 *
 * The compiler calls the two functions below on each entry and exit, if the
 * file was compiled with -finstrument-functions. An entry is one line in the
 * file that SL_TRACE names: the address in the program, in hexadecimal.
 * addr2line turns it into a function and a file. Without SL_TRACE nothing is
 * written. A line is one write(2), so lines of several threads do not mix.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

extern const char __executable_start[]; /* of the linker */

#define NOT_TRACED __attribute__((no_instrument_function))

NOT_TRACED void __cyg_profile_func_enter(void *function, void *caller);
NOT_TRACED void __cyg_profile_func_exit(void *function, void *caller);

static int out = -1;

__attribute__((constructor)) NOT_TRACED static void open_trace(void)
{
    const char *path = getenv("SL_TRACE");

    if (path)
        out = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
}

void __cyg_profile_func_enter(void *function, void *caller)
{
    char line[24];
    int length;

    (void)caller;
    if (out < 0)
        return;
    length = snprintf(
        line, sizeof(line), "%jx\n",
        (uintmax_t)((uintptr_t)function - (uintptr_t)__executable_start));
    if (write(out, line, (size_t)length) != length)
        abort();
}

void __cyg_profile_func_exit(void *function, void *caller)
{
    (void)function;
    (void)caller;
}
