/* reach.h -- the daemon that an errand asks.
 *
 * Where it is: --url or --admin-url, else SLUICE_URL or SLUICE_ADMIN_URL, else
 * where a daemon stands that was told nothing. The token that it wants: in the
 * file of --token-file, else in the variables that the daemon itself reads.
 */
#ifndef SL_DAEMON_REACH_H
#define SL_DAEMON_REACH_H

#include <jansson.h>

#include "cli/cli.h"
#include "cli/client.h"

/* Rows for an errand's table of flags. */
#define SL_DAEMON_REACH_URL                                                    \
    {                                                                          \
        '\0', "url", "URL", "its http door (http://127.0.0.1:8080)"            \
    }
#define SL_DAEMON_REACH_ADMIN_URL                                              \
    {                                                                          \
        '\0', "admin-url", "URL", "its admin listener (http://127.0.0.1:9090)" \
    }
#define SL_DAEMON_REACH_TOKEN                                                  \
    {                                                                          \
        '\0', "token-file", "FILE", "the token that it wants to see"           \
    }

/* Find out whom to ask; nothing is opened yet. 0 or an exit status, and then
 * that was said. Give it back with sl_daemon_client_done() either way. */
SL_MUST_USE int sl_daemon_reach(struct sl_cli_args *call, bool admin,
                                struct sl_daemon_client *client);

/* Ask, and read the JSON of the answer, which is the caller's. 0 or an exit
 * status, and then that was said: nobody there, or a refusal with the daemon's
 * own sentence. */
SL_MUST_USE int sl_daemon_reach_ask(struct sl_cli_args *call,
                                    struct sl_daemon_client *client,
                                    const char *method, const char *path,
                                    struct sl_str body, json_t **ret);

/* Append `text` as it may stand in a path or a query. */
SL_MUST_USE int sl_daemon_reach_encode(struct sl_buf *out, struct sl_str text);

#endif
