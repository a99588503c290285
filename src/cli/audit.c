/* audit.c -- `sluice audit`: who changed what on a daemon. */
#include <stdio.h>

#include "cli/cli.h"

static int print_audit(struct sl_cli_args *args, json_t *answer)
{
    static const char *const members[] = {"number", "at",    "by", "origin",
                                          "what",   "scope", "id", "note"};

    return sl_columns_print(args, json_object_get(answer, "audit"), members,
                            SL_LEN(members));
}

/* GET /v1/audit */
static int ask_audit(struct sl_cli_request *r)
{
    static const char *const names[] = {"since", "before", "limit"};

    sl_writer_add(&r->path, SL_STR("/v1/audit"));
    for (size_t i = 0; i < SL_LEN(names); i++)
        sl_cli_request_option(r, names[i], sl_cli_flag(r->args, names[i]));
    return sl_cli_request_print(
        r, "GET", "the values of the flags are too long", print_audit);
}

static const struct sl_flag flags[] = {
    {'\0', "since",  "TIME",   "changes at this time or later"      },
    {'\0', "before", "NUMBER", "changes before this one: older page"},
    {'\0', "limit",  "N",      "at most so many (100)"              },
    {'\0', NULL,     NULL,     NULL                                 },
};

const struct sl_command sl_command_audit = {
    .name = "audit",
    .usage = "[FLAG...]",
    .summary = "Show who changed what",
    .help = "Prints the changes that operators made, the newest first:\n"
            "subjects, credits, features, resets, released leases and\n"
            "policies, with the author and the address. With -o json also\n"
            "the values before and after.\n"
            "\n"
            "  sluice audit --since 2026-11-01\n"
            "  sluice audit --limit 20 -o json\n",
    .formats = "table|json",
    .flags = flags,
    .listener = SL_LISTENER_ADMIN,
    .ask = ask_audit,
};
