/* send.h -- run a command of the program in this process. */
#ifndef SL_TEST_SEND_H
#define SL_TEST_SEND_H

#include <stdlib.h>

#include "check.h"
#include "cli/cli.h"

#define SEND_WORDS 16

/* The output of the last command. */
static char *sent_out, *sent_err;

/* Send `sluice WORD...` with `in` on standard input; a NULL ends the words.
 * Returns the exit status. */
static int send_with(const char *in, const char *const *words)
{
    size_t out_len, err_len;
    char *argv[SEND_WORDS + 2] = {NULL};
    struct sl_cli cli;
    int argc = 0, status;

    free(sent_out);
    free(sent_err);
    cli.in = fmemopen(NULL, 4096, "w+");
    cli.out = open_memstream(&sent_out, &out_len);
    cli.err = open_memstream(&sent_err, &err_len);
    if (!cli.in || !cli.out || !cli.err)
        abort();
    fputs(in, cli.in);
    rewind(cli.in);
    argv[argc++] = strdup("sluice");
    for (; words[argc - 1] && argc <= SEND_WORDS; argc++)
        argv[argc] = strdup(words[argc - 1]);
    /* The program reorders argv: free the copies. */
    {
        char *copies[SEND_WORDS + 2];

        memcpy(copies, argv, sizeof(copies));
        status = sl_cli_run(&cli, argc, argv);
        for (int i = 0; i < argc; i++)
            free(copies[i]);
    }
    fclose(cli.in);
    fclose(cli.out);
    fclose(cli.err);
    return status;
}

/* The same for words in one line: split at blanks, '...' is one word. */
static inline int send_line(const char *in, const char *line)
{
    const char *words[SEND_WORDS + 1] = {NULL};
    char *text = strdup(line), *at = text;
    int status;

    for (size_t i = 0; i < SEND_WORDS && *at; i++) {
        char end = *at == '\'' ? '\'' : ' ';

        at += end == '\'';
        words[i] = at;
        at = strchrnul(at, end);
        if (*at)
            *at++ = '\0';
        at += strspn(at, " ");
    }
    status = send_with(in, words);
    free(text);
    return status;
}

#define SEND(...) send_with("", (const char *const[]){__VA_ARGS__, NULL})
#define SEND_IN(in, ...)                                                       \
    send_with((in), (const char *const[]){__VA_ARGS__, NULL})

static inline bool says(const char *text, const char *what)
{
    bool found = strstr(text, what) != NULL;

    if (!found)
        printf("# not in it: %s\n# it is: %s\n", what, text);
    return found;
}

#define CHECK_OUT(what) CHECK(says(sent_out, (what)))
#define CHECK_ERR(what) CHECK(says(sent_err, (what)))

/* Run a line. Check its status, and what it prints on out or err. */
#define ends(status, line)         CHECK_EQ(send_line("", line), status)
#define prints(status, line, what) (void)(ends(status, line) && CHECK_OUT(what))
#define reports(status, line, what)                                            \
    (void)(ends(status, line) && CHECK_ERR(what))
#define ends_in(in, status, line) CHECK_EQ(send_line(in, line), status)
#define prints_in(in, status, line, what)                                      \
    (void)(ends_in(in, status, line) && CHECK_OUT(what))
#define reports_in(in, status, line, what)                                     \
    (void)(ends_in(in, status, line) && CHECK_ERR(what))

static inline void send_done(void)
{
    free(sent_out);
    free(sent_err);
    sent_out = sent_err = NULL;
}

#endif
