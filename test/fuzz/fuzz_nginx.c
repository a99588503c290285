/* fuzz_nginx.c -- configurations of nginx of any bytes.
 *
 *   (1) What is refused has a line of the file and a sentence.
 *   (2) Notes have a line of the file.
 *   (3) What is taken becomes a policy that is taken, too.
 */
#include "fuzz.h"

#include "cli/nginx.h"
#include "policy/policy.h"

static struct sl_nginx nginx;

static void on_tell(void *ctx, const char *file, unsigned line,
                    const char *sentence)
{
    MUST(line >= 1 && line <= *(size_t *)ctx && file); /* (2) */
    MUST(sentence[0]);
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
    sl_policy_unref(policy);
    sl_report_done(&report);
}

void fuzz_nginx(struct sl_str text)
{
    struct sl_diag diag = {.line = 0};
    struct sl_arena arena;
    struct sl_buf out;
    size_t lines = 1;
    int err;

    for (size_t i = 0; i < text.len; i++)
        lines += text.at[i] == '\n';
    sl_arena_init(&arena, 64 << 20, &sl_alloc_libc);
    sl_buf_init(&out, 1 << 20, &sl_alloc_libc);
    nginx = (struct sl_nginx){.arena = &arena, .tell = on_tell, .ctx = &lines};
    sl_nginx_init(&nginx);
    err = sl_nginx_read(&nginx, &nginx.top, "fuzz.conf", text, &diag);
    if (err) {
        MUST(err == SLUICE_ECONF || err == SLUICE_EFULL); /* (1) */
        must_explain(&diag, SIZE_MAX);
        MUST(diag.line >= 1 && diag.line <= lines);
    } else {
        err = sl_nginx_write(&nginx, &out);
        MUST(err == 0 || err == SLUICE_ENOENT || err == SLUICE_EFULL);
        if (!err && out.len < SL_YAML_BYTES)
            check_policy(&out); /* (3) */
    }
    sl_buf_done(&out);
    sl_arena_done(&arena);
}
