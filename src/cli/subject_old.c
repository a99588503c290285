/* subject.c -- sluice subject: who is registered in a daemon that runs. */
#include <stdlib.h>
#include <string.h>

#include "cli/subject.c"

static const struct verb {
    const char *name;
    size_t least, most; /* words behind it */
    const char *usage;
    sl_subject_f *run;
} verbs[] = {
    {"get",    2, 2,  "SCOPE ID",                 sl_subject_get   },
    {"set",    3, 90, "SCOPE ID NAME=VALUE...",   sl_subject_set   },
    {"rm",     2, 2,  "SCOPE ID",                 sl_subject_rm    },
    {"list",   0, 0,  "[--scope S] [--prefix P]", sl_subject_list  },
    {"import", 1, 1,  "FILE",                     sl_subject_import},
};

const char *sl_subject_by(struct sl_cli_args *call)
{
    const char *by = sl_cli_args_flag(call, "by");

    if (!by)
        by = getenv("SUDO_USER");
    if (!by || !by[0])
        by = getenv("USER");
    return by && by[0] ? by : NULL;
}

static int refuse_verb(struct sl_cli_args *call, const char *word)
{
    const char *names[SL_LEN(verbs)];
    const char *near;

    for (size_t i = 0; i < SL_LEN(verbs); i++)
        names[i] = verbs[i].name;
    near = sl_str_nearest(sl_str_c(word), names, SL_LEN(names));
    return sl_cli_error(call, SL_EXIT_USAGE,
                        "\"%s\" can't be done with subjects; write %s", word,
                        near ? near : "get, set, rm, list or import");
}

static int carry_out(struct sl_cli_args *call, const struct verb *verb)
{
    size_t count = call->word_count - 1;
    struct sl_daemon_client client;
    int status;

    if (count < verb->least || count > verb->most)
        return sl_cli_error(call, SL_EXIT_USAGE, "write: sluice subject %s %s",
                            verb->name, verb->usage);
    status = sl_daemon_reach(call, true, &client);
    if (!status)
        status = verb->run(call, &client, call->words + 1, count);
    sl_daemon_client_done(&client);
    return status;
}

static int run(struct sl_cli_args *call)
{
    for (size_t i = 0; i < SL_LEN(verbs); i++)
        if (strcmp(call->words[0], verbs[i].name) == 0)
            return carry_out(call, &verbs[i]);
    return refuse_verb(call, call->words[0]);
}

static const struct sl_flag flags[] = {
    {'\0', "scope",   "SCOPE",  "list: user or org"                      },
    {'\0', "prefix",  "PREFIX", "list: ids that begin so"                },
    {'\0', "by",      "NAME",   "who does it; else who is logged in"     },
    {'\0', "replace", NULL,     "set: what is not written is gone"       },
    {'\0', "force",   NULL,     "keep plans and limits not in the policy"},
    {'\0', "from",    "LINE",   "import: leave out what is before it"    },
    SL_DAEMON_REACH_ADMIN_URL,
    SL_DAEMON_REACH_TOKEN,
    {'\0', NULL,      NULL,     NULL                                     },
};

const struct sl_command sl_command_subject = {
    .name = "subject",
    .usage = "get|set|rm|list|import [WORD...]",
    .summary = "Show and change who has which plan, in a daemon that runs",
    .help = "A subject is `user ID` or `org ID`. What is set counts from the "
            "next request on, and\nkeeps what was used.\n"
            "\n"
            "  sluice subject set user ann plan=pro expires=2026-12-31\n"
            "  sluice subject set org acme search=100/min until=2h "
            "note=\"launch\"\n"
            "  sluice subject set user ann roles=admin,member "
            "aliases=ann@example.org\n"
            "  sluice subject set org acme search=      takes the override "
            "away\n"
            "  sluice subject get user ann@example.org\n"
            "  sluice subject list --scope org -o json > backup.jsonl\n"
            "  sluice subject import users.csv          CSV with a head, or "
            "JSON lines\n"
            "\n"
            "TIME is 2026-12-31T23:59:59Z, 2026-12-31, or a duration from now "
            "(2h, 30d).\n"
            "Columns of a CSV: scope,id,plan,expires,roles,aliases,note,by,"
            "until,override.LIMIT.\n",
    .words = "get|set|rm|list|import",
    .formats = "table|json",
    .flags = flags,
    .least = 1,
    .most = 93,
    .run = run,
};
