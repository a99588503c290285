/* ping.c -- `sluice ping`: is a daemon ready? For health checks. */
#include "cli/cli.h"

/* GET /readyz: 200 and "ok", or 503 with the checks that fail. Neither is JSON,
 * so the answer is printed as it is. */
static int ask_ping(struct sl_cli_request *r)
{
    struct sl_str text = SL_STR("");
    int code = 0;
    int err = sl_daemon_client_ask(&r->client, "GET", "/readyz", SL_STR(""),
                                   &code, &text);

    if (err)
        return sl_cli_error(r->args,
                            err == SLUICE_ENOMEM ? SL_EXIT_FAILED
                                                 : SL_EXIT_UNREACHABLE,
                            "%s", r->diag.sentence);
    if (code == 200) {
        sl_out_print(r->args->cli->out, "%s is ready\n", r->client.where);
        return SL_EXIT_OK;
    }
    return sl_cli_fail(r->args, "%s is not ready: status %d: %.*s",
                       r->client.where, code, SL_STR_ARG(sl_str_trim(text)));
}

const struct sl_command sl_command_ping = {
    .name = "ping",
    .usage = "[FLAG...]",
    .summary = "Ask a daemon whether it is ready, for health checks",
    .help = "Exits with 0 if the daemon takes requests, with 1 if it is\n"
            "starting, stopping or without its store, with 4 if it does not\n"
            "answer.\n"
            "\n"
            "  sluice ping\n"
            "  sluice ping --admin-url http://127.0.0.1:8082\n",
    .listener = SL_LISTENER_ADMIN,
    .ask = ask_ping,
};
