/* no_memory.c -- malloc() fails inside libfyaml, which does not always say so.
 *
 * The policy library's own allocations go through an allocator that tests can
 * replace; libfyaml's don't. So this program has a malloc() of its own, whose
 * nth call fails while a policy is read. The answer must be that there is no
 * memory, or the very policy that the text says: never another one, never
 * complaints about the text, never a crash.
 *
 * This runs in three ways:
 *   plain    the nth call fails and sets errno, as it should
 *   silent   the nth call fails, and errno stays as it was; only where texts
 *            are short, since half of a long one looks like all of it then
 *   bounded  there are n bytes and not one more. Only here does
 *            fy_parser_set_string() run out of memory: in 0.7.12 it follows
 *            NULL when malloc() fails inside it, and all that can be done is to
 *            see before that there is enough
 */
#include <dlfcn.h>
#include <errno.h>
#include <libfyaml.h>
#include <limits.h>
#include <malloc.h>
#include <stdlib.h>

#include "check.h"
#include "policy/policy.h"

#define TEXT_MAX ((size_t)1 << 20)
#define STEP     128 /* bytes, from one bound to the next */

enum way { PLAIN, SILENT, BOUNDED, WAYS };

static const char *const way_names[WAYS] = {"plain", "silent", "bounded"};

static struct {
    bool armed;
    enum way way;
    unsigned nth, calls;
    long bytes; /* BOUNDED: still to be had */
    bool failed;
} fail;

/* ---- an allocator that fails ---- */

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *old, size_t size);
void __libc_free(void *piece);

/* Does this allocation of `size` bytes for the block `old` fail? */
static bool fails(size_t size, void *old)
{
    long more = (long)size - (long)(old ? malloc_usable_size(old) : 0);

    if (!fail.armed)
        return false;
    if (fail.way == BOUNDED ? more <= fail.bytes : ++fail.calls != fail.nth)
        return false;
    if (fail.way != SILENT)
        errno = ENOMEM;
    return fail.failed = true;
}

static void *count(void *piece)
{
    if (fail.armed && piece)
        fail.bytes -= (long)malloc_usable_size(piece);
    return piece;
}

void *malloc(size_t size)
{
    return fails(size, NULL) ? NULL : count(__libc_malloc(size));
}

void *calloc(size_t n, size_t size)
{
    return fails(n * size, NULL) ? NULL : count(__libc_calloc(n, size));
}

void *realloc(void *old, size_t size)
{
    if (fails(size, old))
        return NULL;
    if (fail.armed && old)
        fail.bytes += (long)malloc_usable_size(old);
    return count(__libc_realloc(old, size));
}

void free(void *piece)
{
    if (fail.armed && piece)
        fail.bytes += (long)malloc_usable_size(piece);
    __libc_free(piece);
}

int fy_parser_set_string(struct fy_parser *parser, const char *text, size_t len)
{
    int (*real)(struct fy_parser *, const char *, size_t);
    bool armed = fail.armed;
    int err;

    fail.armed = armed && fail.way == BOUNDED;
    *(void **)&real = dlsym(RTLD_NEXT, "fy_parser_set_string");
    err = real(parser, text, len);
    fail.armed = armed;
    return err;
}

/* ---- policies ---- */

/* Whatever libfyaml has to make a text of. */
static const char every_style[] = "sluice: 1\n"
                                  "env: 'prod'\n"
                                  "limits:\n"
                                  "  a:\n"
                                  "    kind: token-bucket\n"
                                  "    per: [user, org]\n"
                                  "    rate: 5/min burst 8\n"
                                  "    deny:\n"
                                  "      message: \"a \\\"b\\\" c \\\"d\\\" e "
                                  "\\\"f\\\" g \\\"h\\\" i \\\"j\\\"\n"
                                  "        and \\x41 more\"\n"
                                  "  b:\n"
                                  "    kind: quota\n"
                                  "    per: user\n"
                                  "    rate: 5/day\n"
                                  "    unit: 'it''s'\n"
                                  "    deny:\n"
                                  "      message: |\n"
                                  "        one\n"
                                  "\n"
                                  "        two\n"
                                  "default: [a, b]\n"
                                  "errors:\n"
                                  "  rate_limited:\n"
                                  "    body: { x: \"\", y: this goes\n"
                                  "      on, z: [1, true, ~] }\n";

/* The policy as it prints, to be freed; NULL if it can't be read. */
static char *print(const struct sl_policy *policy)
{
    struct sl_buf out;
    char *text;

    sl_buf_init(&out, TEXT_MAX, &sl_alloc_libc);
    CHECK_EQ(sl_policy_print(policy, &out), 0);
    text = strndup(out.bytes ? out.bytes : "", out.len);
    sl_buf_done(&out);
    return text;
}

/* Read it with the nth allocation failing, or with n steps of memory. */
static int read_once(const char *text, unsigned nth, struct sl_policy **ret)
{
    struct sl_report report;
    int err;

    sl_report_init(&report, "policy", sl_str_c(text), &sl_alloc_libc);
    fail.nth = nth;
    fail.calls = 0;
    fail.bytes = nth > 0 ? (long)nth * STEP : LONG_MAX;
    fail.failed = false;
    fail.armed = true;
    err = sl_policy_read(&report, NULL, ret);
    fail.armed = false;
    if (err && err != SLUICE_ENOMEM && report.kept > 0)
        printf("# %u: %s\n", nth, report.problems[0].diag.sentence);
    sl_report_done(&report);
    return err;
}

static void read_failing(const char *name, const char *text, enum way way)
{
    struct sl_policy *policy = NULL;
    char *want, *got;
    unsigned n = 0, failures = 0;

    printf("# %s, %s\n", name, way_names[way]);
    fail.way = way;
    CHECK_EQ(read_once(text, 0, &policy), 0);
    want = policy ? print(policy) : NULL;
    sl_policy_unref(policy);
    do {
        int err = read_once(text, ++n, &policy);

        CHECK(err == 0 || err == SLUICE_ENOMEM);
        failures += err == SLUICE_ENOMEM;
        if (err)
            continue;
        got = print(policy);
        CHECK_STR(got, want);
        free(got);
        sl_policy_unref(policy);
    } while (fail.failed);
    CHECK(failures > 10);
    free(want);
}

static char *read_file(const char *path)
{
    char *text = calloc(1, TEXT_MAX);
    FILE *file = fopen(path, "rb");

    if (!CHECK(text && file))
        return text;
    CHECK(fread(text, 1, TEXT_MAX - 1, file) > 0);
    fclose(file);
    return text;
}

int main(void)
{
    char *preset = read_file(SL_ROOT "/presets/unraveldocs.yaml");

    for (int way = 0; way < WAYS; way++) {
        CASE(way_names[way]);
        if (way != SILENT)
            read_failing("every style", every_style, (enum way)way);
        read_failing("unraveldocs", preset, (enum way)way);
    }
    free(preset);
    return CHECK_DONE();
}
