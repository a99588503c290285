/* main.c -- sluiced: up the steps, serve, and down again.
 *
 * Each step stands on those before it. When one fails, those that came up go
 * down in the other order, and the exit status says what was wrong.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "sluiced/daemon.h"

static const struct {
    sl_step_f *up;
    sl_unstep_f *down;
} steps[] = {
    {sl_process_begin,  sl_process_end }, /* limits of the process, systemd */
    {sl_policy_begin,   sl_policy_end  }, /* policy and settings */
    {sl_state_begin,    sl_state_end   }, /* what is remembered */
    {sl_engine_begin,   sl_engine_end  }, /* the policy in force */
    {sl_subjects_begin, sl_subjects_end}, /* who is registered */
    {sl_tidings_begin,  sl_tidings_end }, /* what others are told */
    {sl_doors_begin,    sl_doors_end   }, /* sockets, certificates */
    {sl_workers_begin,  sl_workers_end }, /* loops, counters */
    {sl_lending_begin,  sl_lending_end }, /* quotas that are leased */
    {sl_tokens_begin,   sl_tokens_end  }, /* keys of tokens */
    {sl_shared_begin,   sl_shared_end  }, /* who shares the store */
    {sl_feed_begin,     sl_feed_end    }, /* who listens */
    {sl_living_begin,   sl_living_end  }, /* signals, watchdog */
    {sl_files_begin,    sl_files_end   }, /* files that change */
    {sl_workers_start,  sl_workers_join}, /* threads */
};

static int complain(const struct sl_diag *why, int status)
{
    if (why->sentence[0])
        fprintf(stderr, "sluiced: %s\n", why->sentence);
    return status;
}

static int serve(struct sl_daemon *daemon)
{
    size_t up = 0;
    int status = 0;

    while (up < SL_LEN(steps) && !status)
        status = steps[up++].up(daemon);
    if (!status)
        sl_living_run(daemon);
    else
        complain(&daemon->why, status);
    while (up-- > 0)
        steps[up].down(daemon);
    return status;
}

/* Everything that can be said without opening anything. */
static int check(struct sl_daemon *daemon)
{
    int status = sl_policy_begin(daemon);

    if (status)
        complain(&daemon->why, status);
    else if (daemon->given.wish == SL_WISH_SHOW)
        sl_settings_show(&daemon->settings, stdout);
    else
        printf("%s: ok\n", daemon->path ? daemon->path : "demo");
    sl_policy_end(daemon);
    return status;
}

static int fulfil(struct sl_daemon *daemon)
{
    switch (daemon->given.wish) {
    case SL_WISH_HELP:
        sl_settings_help(stdout);
        return 0;
    case SL_WISH_VERSION:
        printf("sluiced %s\n", SLUICE_VERSION);
        return 0;
    case SL_WISH_CHECK:
    case SL_WISH_SHOW:
        return check(daemon);
    case SL_WISH_SERVE:
        break;
    }
    return serve(daemon);
}

int main(int argc, char **argv)
{
    static struct sl_daemon daemon;
    int status = sl_given_read(&daemon.given, argc, (const char *const *)argv,
                               (const char *const *)environ, &daemon.why);

    if (status)
        return complain(&daemon.why, status);
    status = fulfil(&daemon);
    if (fflush(stdout) != 0 && status == 0)
        status = SL_EXIT_FAILED; /* a full disk must not look like success */
    return status;
}
