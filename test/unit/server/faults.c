/* faults.c -- the nth allocation fails, n = 1, 2, ... until everything
 * succeeds: an error or an answer, never a crash, and nothing is left over.
 *
 * Linked statically, with malloc and realloc of our rooms wrapped; libfyaml's
 * own are not.
 */
#include <sluice_policy.h>
#include <stdlib.h>

#include "check.h"

static unsigned calls, fails_at;
static long out; /* pieces that our rooms have and have not given back */

void *__real_malloc(size_t size);
void *__real_realloc(void *old, size_t size);
void __real_free(void *piece);
void *__wrap_malloc(size_t size);
void *__wrap_realloc(void *old, size_t size);
void __wrap_free(void *piece);

void *__wrap_malloc(size_t size)
{
    if (++calls == fails_at)
        return NULL;
    out++;
    return __real_malloc(size);
}

void *__wrap_realloc(void *old, size_t size)
{
    if (++calls == fails_at)
        return NULL;
    out += !old;
    return __real_realloc(old, size);
}

void __wrap_free(void *piece)
{
    out -= piece != NULL;
    __real_free(piece);
}

static const char text[] =
    "sluice: 1\n"
    "plans: { default: free, free: {}, pro: {} }\n"
    "limits:\n"
    "  minute: { kind: token-bucket, per: user, rate: { free: 1/min, pro: "
    "2/min },\n"
    "            deny: { message: \"At most {limit} a minute.\" } }\n"
    "  month: { kind: quota, per: org, rate: 10/month, zone: Europe/Berlin }\n"
    "routes:\n"
    "  - { match: /ask, limits: [month, minute] }\n"
    "default: [minute]\n";

/* A file that is not there: 0 if that, and nothing else, was told. */
static int no_file(void)
{
    struct sluice_problems *problems = NULL;
    struct sluice_policy *policy = NULL;
    int err = sluice_policy_load("no/such.yaml", NULL, &policy, &problems);

    if (err == SLUICE_ESYS)
        err = *sluice_problems_text(problems) ? 0 : SLUICE_ESYS;
    sluice_problems_free(problems);
    return err;
}

/* Everything once. 0 only if all of it went well. */
static int everything(void)
{
    struct sluice_request check = {
        .path = "/ask", .user = "ann", .org = "acme"};
    struct sluice_engine_options options = {.size = 1 << 20};
    struct sluice_decision *d = sluice_decision_new();
    struct sluice_problems *problems = NULL;
    struct sluice_policy *policy = NULL;
    struct sluice_engine *engine = NULL;
    int err = d ? 0 : SLUICE_ENOMEM;

    if (!err)
        err = sluice_policy_parse("f.yaml", text, strlen(text), NULL, &policy,
                                  &problems);
    if (!err)
        err = sluice_engine_open(policy, &options, &engine);
    for (int i = 0; !err && i < 2; i++)
        err = sluice_decide(engine, &check, d);
    if (!err && (sluice_decision_allowed(d) ||
                 strcmp(sluice_decision_message(d), "At most 1 a minute.") ||
                 !sluice_decision_json(d) || !sluice_decision_text(d) ||
                 !*sluice_decision_header(d, 0).name ||
                 !*sluice_decision_limit(d, 0).key))
        err = SLUICE_ENOMEM;
    if (!err)
        err = sluice_engine_use(engine, policy);
    if (!err)
        err = no_file();
    sluice_problems_free(problems);
    sluice_policy_release(policy);
    sluice_engine_close(engine);
    sluice_decision_free(d);
    return err;
}

int main(void)
{
    int err;

    CASE("the nth allocation fails: an error, and nothing is left over");
    do {
        calls = 0;
        out = 0;
        fails_at++;
        err = everything();
        if (!CHECK_EQ(out, 0) || (err && !CHECK_EQ(err, SLUICE_ENOMEM)))
            printf("# at allocation %u\n", fails_at);
    } while (calls >= fails_at && fails_at < 10000);
    CHECK_EQ(err, 0);
    CHECK(fails_at > 20);
    fails_at = 0; /* what counts lines of code allocates at the exit */
    return CHECK_DONE();
}
