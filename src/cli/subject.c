/* subject.c -- sluice subject: who is registered in a daemon that runs. */
#include <stdlib.h>
#include <string.h>

#include "cli/subject/subject.h"

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

const char *sl_subject_by(struct sl_call *call)
{
    const char *by = sl_call_flag(call, "by");

    if (!by)
        by = getenv("SUDO_USER");
    if (!by || !by[0])
        by = getenv("USER");
    return by && by[0] ? by : NULL;
}

static int refuse_verb(struct sl_call *call, const char *word)
{
    const char *names[SL_LEN(verbs)];
    const char *near;

    for (size_t i = 0; i < SL_LEN(verbs); i++)
        names[i] = verbs[i].name;
    near = sl_str_nearest(sl_str_c(word), names, SL_LEN(names));
    return sl_complain(call, SL_EXIT_USAGE, "unknown action \"%s\"; write %s",
                       word, near ? near : "get, set, rm, list or import");
}

static int carry_out(struct sl_call *call, const struct verb *verb)
{
    size_t count = call->word_count - 1;
    struct sl_client client;
    int status;

    if (count < verb->least || count > verb->most)
        return sl_complain(call, SL_EXIT_USAGE, "usage: sluice subject %s %s",
                           verb->name, verb->usage);
    status = sl_reach(call, true, &client);
    if (!status)
        status = verb->run(call, &client, call->words + 1, count);
    sl_client_done(&client);
    return status;
}

static int run(struct sl_call *call)
{
    for (size_t i = 0; i < SL_LEN(verbs); i++)
        if (strcmp(call->words[0], verbs[i].name) == 0)
            return carry_out(call, &verbs[i]);
    return refuse_verb(call, call->words[0]);
}

static const struct sl_flag flags[] = {
    {'\0', "scope",   "SCOPE",  "list: only this scope, user or org"},
    {'\0', "prefix",  "PREFIX", "list: only ids with this prefix"   },
    {'\0', "by",      "NAME",   "author of the change (you)"        },
    {'\0', "replace", NULL,     "set: replace, do not merge"        },
    {'\0', "force",   NULL,     "accept names not in the policy"    },
    {'\0', "from",    "LINE",   "import: start at this line"        },
    SL_REACH_ADMIN_URL,
    SL_REACH_TOKEN,
    {'\0', NULL,      NULL,     NULL                                },
};

const struct sl_errand sl_errand_subject = {
    .name = "subject",
    .usage = "get|set|rm|list|import [WORD...]",
    .summary = "Manage subjects: plans, roles, overrides",
    .help = "A subject is `user ID` or `org ID`. A change applies to the next "
            "request and\n"
            "keeps the usage so far.\n"
            "\n"
            "  sluice subject set user ann plan=pro expires=2026-12-31\n"
            "  sluice subject set org acme search=100/min until=2h "
            "note=\"launch\"\n"
            "  sluice subject set user ann roles=admin,member "
            "aliases=ann@example.org\n"
            "  sluice subject set org acme search=      removes the override\n"
            "  sluice subject get user ann@example.org\n"
            "  sluice subject list --scope org -o json > backup.jsonl\n"
            "  sluice subject import users.csv          CSV with a header "
            "line, or JSON lines\n"
            "\n"
            "TIME is 2026-12-31T23:59:59Z, 2026-12-31, or a duration from now "
            "(2h, 30d).\n"
            "Columns of a CSV file: "
            "scope,id,plan,expires,roles,aliases,note,by,until and\n"
            "override.LIMIT.\n",
    .words = "get|set|rm|list|import",
    .formats = "table|json",
    .flags = flags,
    .least = 1,
    .most = 93,
    .run = run,
};
