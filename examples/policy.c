/* policy.c -- limits from a policy file, in your own program.
 *
 *     cc policy.c $(pkg-config --cflags --libs libsluice-policy)
 *     ./a.out policy.yaml
 *
 * The clock is constant here, so that the output is the same each time. Without
 * `now` the system clock is used.
 */
#include <sluice_policy.h>
#include <stdio.h>

static int64_t stands_still(void *ctx)
{
    (void)ctx;
    return INT64_C(1790000000) * 1000000000;
}

static int ask(struct sluice_engine *engine, struct sluice_decision *decision,
               const char *user)
{
    struct sluice_request request = {
        .method = "POST", .path = "/api/v1/ai/extract", .user = user};

    if (sluice_decide(engine, &request, decision))
        return -1;
    printf("%s: %d", user, sluice_decision_status(decision));
    for (size_t i = 0; i < sluice_decision_headers(decision); i++) {
        struct sluice_header h = sluice_decision_header(decision, i);

        if (h.name[0] == 'X' && h.name[2] == 'R' && h.name[3] == 'a')
            printf("  %s: %s", h.name, h.value);
    }
    printf("\n");
    if (!sluice_decision_allowed(decision))
        printf("     %s\n", sluice_decision_message(decision));
    return 0;
}

int main(int argc, char **argv)
{
    struct sluice_engine_options options = {.now = stands_still};
    struct sluice_decision *decision = sluice_decision_new();
    struct sluice_problems *problems = NULL;
    struct sluice_policy *policy = NULL;
    struct sluice_engine *engine = NULL;
    int err;

    err = sluice_policy_load(argc > 1 ? argv[1] : "policy.yaml", NULL, &policy,
                             &problems);
    fputs(sluice_problems_text(problems), stderr);
    sluice_problems_free(problems);
    if (!err)
        err = sluice_engine_open(policy, &options, &engine);
    sluice_policy_release(policy); /* the engine has its own reference */

    for (int i = 0; !err && i < 3; i++)
        err = ask(engine, decision, "ann");
    if (!err)
        err = ask(engine, decision, "bob");
    if (err)
        fprintf(stderr, "%s\n", sluice_why());

    sluice_decision_free(decision);
    sluice_engine_close(engine);
    return err ? 1 : 0;
}
