/* fuzz_envoy.c -- configurations of envoyproxy/ratelimit of any bytes.
 *
 *   (1) What is refused has a place and a sentence.
 *   (2) What is taken becomes a policy that is taken, too.
 *   (3) Every pattern in it is read, and finding a route for its own entries
 *       gives one that matches.
 */
#include "fuzz.h"

#include "policy/envoy.h"
#include "policy/policy.h"

static struct sl_envoy envoy;

static void check_routes(const struct sl_policy *policy)
{
    for (unsigned i = 0; i < policy->descriptor_count; i++) {
        const struct sl_route *route = &policy->routes[policy->descriptors[i]];
        const struct sl_descriptor *d = &route->descriptor;
        struct sl_descriptor_entry entries[SL_DESCRIPTOR_PARTS];
        unsigned count = 0;

        while (count < d->count && d->parts[count].kind != SL_PART_REST) {
            entries[count] = (struct sl_descriptor_entry){
                d->parts[count].key, d->parts[count].value};
            count++;
        }
        MUST(sl_descriptor_matches(d, d->domain, entries, count));
        MUST(sl_policy_descriptor(policy, d->domain, entries, count) >= 0);
    }
}

static void check_policy(struct sl_buf *text)
{
    struct sl_policy_options options = {0};
    struct sl_policy *policy;
    struct sl_report report;

    sl_report_init(&report, "made", sl_buf_str(text), &sl_alloc_libc);
    if (sl_policy_read(&report, &options, &policy)) {
        fprintf(stderr, "%.*s\n%s\n", SL_STR_ARG(sl_buf_str(text)),
                report.kept ? report.problems[0].diag.sentence : "");
        abort();
    }
    check_routes(policy);
    sl_policy_unref(policy);
    sl_report_done(&report);
}

void fuzz_envoy(struct sl_str text)
{
    struct sl_report report;
    struct sl_arena arena;
    struct sl_buf out;

    sl_arena_init(&arena, 64 << 20, &sl_alloc_libc);
    sl_buf_init(&out, 4 << 20, &sl_alloc_libc);
    sl_report_init(&report, "fuzz.yaml", text, &sl_alloc_libc);
    envoy.arena = &arena;
    envoy.domain_count = envoy.limit_count = 0;
    if (!sl_envoy_read(&envoy, &report)) {
        MUST(report.errors > 0 || report.no_memory);
        for (unsigned i = 0; i < report.kept; i++)
            must_explain(&report.problems[i].diag, SIZE_MAX);
    } else if (sl_envoy_write(&envoy, &out) == 0 && out.len < SL_YAML_BYTES) {
        check_policy(&out);
    }
    sl_report_done(&report);
    sl_buf_done(&out);
    sl_arena_done(&arena);
}
