/* shared-file.c -- two processes share one state file.
 *
 * A parent starts two children. Each opens the same file and takes as much as
 * it can of 1000 requests a day. Together they get exactly 1000: they share one
 * state, without a server. Then the parent opens the file and finds nothing
 * left: the state persists.
 *
 *     cc shared-file.c $(pkg-config --cflags --libs libsluice)
 *     ./a.out /tmp/example.state
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <sluice.h>

#define CHILDREN 2
#define REQUESTS 2000 /* of each child */

static const struct sluice_limit limits[] = {
    {.name = "per-tenant", .kind = SLUICE_TOKEN_BUCKET, .rate = "1000/day"},
};

/* Every process that names the file has the same state. */
static struct sluice *open_file(const char *path)
{
    struct sluice_options options = {
        .limits = limits, .limit_count = 1, .path = path, .size = 1 << 20};
    struct sluice *gate;

    if (sluice_open(&options, &gate)) {
        fprintf(stderr, "shared-file: %s\n", sluice_why());
        exit(1);
    }
    if (sluice_notice(gate)) /* a damaged file was set aside */
        fprintf(stderr, "shared-file: %s\n", sluice_notice(gate));
    return gate;
}

static unsigned take_what_there_is(struct sluice *gate)
{
    struct sluice_part part = {.key = "acme", .key_len = 4, .cost = 1};
    unsigned passed = 0;

    for (unsigned i = 0; i < REQUESTS; i++)
        if (sluice_take(gate, &part, 1, NULL) == 0 &&
            part.answer.outcome == SLUICE_ALLOW)
            passed++;
    return passed;
}

/* A child opens its own gate: a gate cannot be used after fork(). */
static void be_a_child(const char *path, int report)
{
    struct sluice *gate = open_file(path);
    unsigned passed = take_what_there_is(gate);

    sluice_close(gate);
    if (write(report, &passed, sizeof(passed)) != sizeof(passed))
        exit(1);
    exit(0);
}

int main(int argc, char **argv)
{
    const char *path = argc > 1 ? argv[1] : "shared-file.state";
    unsigned passed, all = 0;
    struct sluice *gate;
    int ends[2];

    unlink(path); /* start with an empty state */
    if (pipe(ends))
        return 1;
    for (unsigned i = 0; i < CHILDREN; i++)
        if (fork() == 0)
            be_a_child(path, ends[1]);
    close(ends[1]);
    for (unsigned i = 1; read(ends[0], &passed, sizeof(passed)) > 0; i++) {
        printf("child %u: %u of %u passed\n", i, passed, REQUESTS);
        all += passed;
    }
    while (wait(NULL) > 0)
        ;
    printf("together: %u passed\n", all);

    gate = open_file(path);
    printf("afterwards: %u passed\n", take_what_there_is(gate));
    sluice_close(gate);
    unlink(path);
    return all == 1000 ? 0 : 1;
}
