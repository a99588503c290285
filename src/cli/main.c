/* main.c -- the program `sluice`; its commands are in command.c. */
#include "cli/cli.h"

int main(int argc, char **argv)
{
    struct sl_cli cli = {.in = stdin, .out = stdout, .err = stderr};

    return sl_cli_run(&cli, argc, argv);
}
