/* main.c -- sluiced: run the steps, serve, undo the steps.
 *
 * When a step fails, those before it are undone in reverse order, and the exit
 * status is that of the failed step.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "sluiced/daemon.h"

static const struct {
    sl_step_f *up;
    sl_unstep_f *down;
} steps[] = {
    {sl_process_begin,         sl_process_end        },
    {sl_policy_begin,          sl_policy_end         },
    {sl_state_begin,           sl_state_end          },
    {sl_engine_begin,          sl_engine_end         },
    {sl_subjects_begin,        sl_subjects_end       },
    {sl_event_publisher_begin, sl_event_publisher_end},
    {sl_denials_begin,         sl_denials_end        },
    {sl_peers_begin,           sl_peers_end          },
    {sl_listeners_begin,       sl_listeners_end      },
    {sl_webhooks_open,         sl_webhooks_close     },
    {sl_workers_begin,         sl_workers_end        },
    {sl_quota_node_begin,      sl_quota_node_end     },
    {sl_hold_ends_begin,       sl_hold_ends_end      },
    {sl_tokens_begin,          sl_tokens_end         },
    {sl_daemon_store_begin,    sl_daemon_store_end   },
    {sl_daemon_repeats_begin,  sl_daemon_repeats_end },
    {sl_event_stream_begin,    sl_event_stream_end   },
    {sl_webhooks_begin,        sl_webhooks_end       },
    {sl_lifecycle_begin,       sl_lifecycle_end      },
    {sl_reload_files_begin,    sl_reload_files_end   },
    {sl_workers_start,         sl_workers_join       },
};

static int print_error(const struct sl_diag *why, int status)
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
        sl_lifecycle_run(daemon);
    else
        print_error(&daemon->why, status);
    while (up-- > 0)
        steps[up].down(daemon);
    return status;
}

/* Checks everything that needs no state, database or socket. */
static int check(struct sl_daemon *daemon)
{
    int status = sl_policy_begin(daemon);

    if (!status && daemon->given.action == SL_ARGS_CHECK &&
        sl_jwks_check(daemon->policy_source.policy, daemon->path, &daemon->why))
        status = SL_EXIT_POLICY;
    if (status)
        print_error(&daemon->why, status);
    else if (daemon->given.action == SL_ARGS_SHOW)
        sl_settings_show(&daemon->settings, stdout);
    else
        printf("%s: ok\n", daemon->path ? daemon->path : "demo");
    sl_policy_end(daemon);
    return status;
}

int main(int argc, char **argv)
{
    static struct sl_daemon daemon;
    int status =
        sl_setting_source_read(&daemon.given, argc, (const char *const *)argv,
                               (const char *const *)environ, &daemon.why);

    if (status)
        return print_error(&daemon.why, status);
    if (daemon.given.action == SL_ARGS_HELP)
        sl_settings_help(stdout);
    else if (daemon.given.action == SL_ARGS_VERSION)
        printf("sluiced %s\n", SLUICE_VERSION);
    else
        status = daemon.given.action == SL_ARGS_SERVE ? serve(&daemon)
                                                      : check(&daemon);
    if ((fflush(stdout) != 0 || ferror(stdout)) && status == 0)
        status = SL_EXIT_FAILED; /* a full disk must not look like success */
    return status;
}
