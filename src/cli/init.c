/* init.c -- sluice init: a policy to begin with. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "cli/errand.h"
#include "cli/out.h"

#define DEFAULT_FILE "sluice.yaml"

/* It passes `sluice check` without a warning; a test sees to that. */
static const char starter[] =
    "# A policy for sluice: who may do what, how often.\n"
    "#\n"
    "#   sluice check sluice.yaml\n"
    "#   sluice explain sluice.yaml 'GET /api/search' user=ann plan=pro\n"
    "#\n"
    "# 'sluice check --reference' has every key.\n"
    "sluice: 1\n"
    "\n"
    "plans:\n"
    "  default: free      # for callers whose plan is not known\n"
    "  free: {}\n"
    "  pro: {}\n"
    "\n"
    "# Who is asking. A header counts only if a trusted proxy sent it.\n"
    "identity:\n"
    "  user: [header.x-user-id]\n"
    "  plan: [header.x-plan]\n"
    "  trusted_proxies: [127.0.0.0/8, \"::1\"]\n"
    "\n"
    "limits:\n"
    "  # Refills all the time; up to `burst` can be spent at once.\n"
    "  api:\n"
    "    kind: token-bucket\n"
    "    per: user\n"
    "    missing: anonymous     # without a user: one bucket per address\n"
    "    rate: { free: 60/min burst 20, pro: 600/min burst 100 }\n"
    "\n"
    "  # So many in a calendar month, in UTC.\n"
    "  exports:\n"
    "    kind: quota\n"
    "    per: user\n"
    "    missing: deny          # 401 without a user\n"
    "    rate: { free: 10/month, pro: 1k/month }\n"
    "    deny:\n"
    "      status: 402\n"
    "      code: PLAN_LIMIT_EXCEEDED\n"
    "      message: \"You have used your {limit} exports of this month.\"\n"
    "\n"
    "# The first route that matches counts; the order of its limits says "
    "which\n"
    "# refusal is reported first. All of them are taken together, or none.\n"
    "routes:\n"
    "  - match: POST /api/exports\n"
    "    limits: [exports, api]\n"
    "    report: api            # whose numbers the headers show\n"
    "  - match: /api/**\n"
    "    limits: [api]\n"
    "\n"
    "# Whatever no route matches.\n"
    "default: [api]\n";

static int write_file(struct sl_call *call, const char *path)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    size_t len = strlen(starter);
    ssize_t n;

    if (fd < 0 && errno == EEXIST)
        return sl_complain(call, SL_EXIT_NO,
                           "%s already exists and was not changed; name "
                           "another file, or - to print the policy",
                           path);
    if (fd < 0)
        return sl_complain(call, SL_EXIT_NO, "%s: %s", path, strerror(errno));
    n = write(fd, starter, len);
    if (close(fd) || n != (ssize_t)len)
        return sl_complain(call, SL_EXIT_NO, "%s could not be written: %s",
                           path, strerror(errno));
    fprintf(call->cli->out,
            "Wrote %s. Next steps:\n"
            "\n"
            "  sluice check %s\n"
            "  sluiced -c %s\n",
            path, path, path);
    return SL_EXIT_OK;
}

static int run(struct sl_call *call)
{
    const char *path = call->word_count ? call->words[0] : DEFAULT_FILE;

    if (strcmp(path, "-") != 0)
        return write_file(call, path);
    fputs(starter, call->cli->out);
    return SL_EXIT_OK;
}

const struct sl_errand sl_errand_init = {
    .name = "init",
    .usage = "[FILE]",
    .summary = "Write a sample policy",
    .help = "Writes a commented policy to FILE (default: sluice.yaml). It does "
            "not overwrite\n"
            "an existing file. '-' prints the policy.\n"
            "\n"
            "  sluice init\n"
            "  sluice init limits/api.yaml\n"
            "  sluice init - | sluice check -\n",
    .words = "file",
    .most = 1,
    .run = run,
};
