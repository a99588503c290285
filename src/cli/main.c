/* main.c -- the program `sluice`. What it can be sent for is in command.c. */
#include "cli/cli.h"

int main(int argc, char **argv)
{
    struct sl_cli cli = {.in = stdin, .out = stdout, .err = stderr};

    return sl_cli_run(&cli, argc, argv);
}
