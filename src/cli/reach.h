/* reach.h -- the daemon that an errand asks.
 *
 * Where it is: --url or --admin-url, else SLUICE_URL or SLUICE_ADMIN_URL, else
 * where a daemon stands that was told nothing. The token that it wants: in the
 * file of --token-file, else in the variables that the daemon itself reads.
 */
#ifndef SL_REACH_H
#define SL_REACH_H

#include <jansson.h>

#include "cli/client.h"
#include "cli/errand.h"

/* Rows for an errand's table of flags. */
#define SL_REACH_URL                                                           \
    {                                                                          \
        '\0', "url", "URL", "URL of the http listener (http://127.0.0.1:8080)" \
    }
#define SL_REACH_ADMIN_URL                                                     \
    {                                                                          \
        '\0', "admin-url", "URL",                                              \
            "URL of the admin listener (http://127.0.0.1:9090)"                \
    }
#define SL_REACH_TOKEN                                                         \
    {                                                                          \
        '\0', "token-file", "FILE", "file with the token of the listener"      \
    }

/* Find out whom to ask; nothing is opened yet. 0 or an exit status, and then
 * that was said. Give it back with sl_client_done() either way. */
SL_MUST_USE int sl_reach(struct sl_call *call, bool admin,
                         struct sl_client *client);

/* Ask, and read the JSON of the answer, which is the caller's. 0 or an exit
 * status, and then that was said: nobody there, or a refusal with the daemon's
 * own sentence. */
SL_MUST_USE int sl_reach_ask(struct sl_call *call, struct sl_client *client,
                             const char *method, const char *path,
                             struct sl_str body, json_t **ret);

/* Append `text` as it may stand in a path or a query. */
SL_MUST_USE int sl_reach_encode(struct sl_buf *out, struct sl_str text);

#endif
