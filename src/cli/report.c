/* report.c -- how the flows of `sluice test` went: for people, as TAP and as
 * JSON.
 */
#include "cli/report.h"

#include <string.h>

#include "cli/out.h"

/* FILE:LINE: want retry=12s, got retry=11s */
static void print_miss(FILE *out, const char *file, unsigned line,
                       const struct sl_miss *miss)
{
    const char *equals = miss->label[0] ? "=" : "";

    sl_out_clean(out, file);
    fprintf(out, ":%u: want ", line);
    sl_out_clean(out, miss->label);
    fputs(equals, out);
    sl_out_clean(out, miss->want);
    fputs(", got ", out);
    sl_out_clean(out, miss->label);
    fputs(equals, out);
    sl_out_clean(out, miss->got);
    fputc('\n', out);
}

/* What was skipped did not fail. */
static bool is_good(const struct sl_outcome *o)
{
    return o->end == SL_END_PASSED || o->end == SL_END_SKIPPED;
}

/* Why a flow failed, each line behind `prefix`. */
static void print_why(FILE *out, const char *prefix, const char *file,
                      const struct sl_outcome *o)
{
    for (const struct sl_miss *m = o->misses; m; m = m->next) {
        fputs(prefix, out);
        print_miss(out, file, o->line, m);
    }
    if (o->message[0] && o->end != SL_END_BAD_POLICY &&
        o->end != SL_END_SKIPPED) {
        fputs(prefix, out);
        sl_out_clean(out, file);
        fprintf(out, ":%u: ", o->line);
        sl_out_clean(out, o->message);
        fputc('\n', out);
    }
}

static void table_flow(struct sl_test *test, const char *file,
                       const struct sl_flow *flow, const struct sl_outcome *o)
{
    FILE *out = test->call->cli->out;
    bool passed = o->end == SL_END_PASSED;
    bool skipped = o->end == SL_END_SKIPPED;

    sl_out_colour(out, passed ? SL_GREEN : skipped ? SL_YELLOW : SL_RED);
    fputs(passed ? "ok  " : skipped ? "skip" : "FAIL", out);
    sl_out_colour(out, SL_PLAIN);
    fputc(' ', out);
    sl_out_clean(out, file);
    fputs(": ", out);
    sl_out_clean(out, flow->name);
    if (skipped)
        fprintf(out, " (%s)\n", o->message);
    else
        fprintf(out, " (%zu line%s)\n", o->acts, o->acts == 1 ? "" : "s");
    print_why(out, "", file, o);
}

static void tap_flow(struct sl_test *test, const char *file,
                     const struct sl_flow *flow, const struct sl_outcome *o)
{
    FILE *out = test->call->cli->out;

    print_why(out, "# ", file, o);
    if (o->end == SL_END_BAD_POLICY)
        fprintf(out, "# the policy is invalid\n");
    fprintf(out, "%sok %u - ", is_good(o) ? "" : "not ", test->flows);
    sl_out_clean(out, file);
    fputs(": ", out);
    sl_out_clean(out, flow->name);
    if (o->end == SL_END_SKIPPED)
        fprintf(out, " # SKIP %s", o->message);
    fputc('\n', out);
}

static void json_pair(FILE *out, const char *name, const char *value)
{
    fprintf(out, "\"%s\":", name);
    sl_out_json(out, value);
}

static void json_misses(FILE *out, const struct sl_outcome *o)
{
    fputs(",\"misses\":[", out);
    for (const struct sl_miss *m = o->misses; m; m = m->next) {
        fputs(m == o->misses ? "{" : ",{", out);
        json_pair(out, "field", m->label);
        fputc(',', out);
        json_pair(out, "want", m->want);
        fputc(',', out);
        json_pair(out, "got", m->got);
        fputc('}', out);
    }
    fputc(']', out);
}

static void json_flow(struct sl_test *test, const char *file,
                      const struct sl_flow *flow, const struct sl_outcome *o)
{
    FILE *out = test->call->cli->out;
    bool passed = is_good(o);

    fputs(test->flows > 1 ? ",{" : "{", out);
    json_pair(out, "file", file);
    fputc(',', out);
    json_pair(out, "name", flow ? flow->name : "");
    fprintf(out, ",\"ok\":%s%s,\"lines\":%zu,\"line\":%u",
            passed ? "true" : "false",
            o->end == SL_END_SKIPPED ? ",\"skipped\":true" : "", o->acts,
            passed ? 0 : o->line);
    json_misses(out, o);
    fputc(',', out);
    json_pair(out, "message", o->message);
    fputc('}', out);
}

void sl_test_begin(struct sl_test *test)
{
    if (test->call->format == SL_FORMAT_JSON)
        fputs("{\"flows\":[", test->call->cli->out);
}

/* What is not understood goes before what was refused, and that before what
 * failed: it has to be mended first. */
static void set_status(struct sl_test *test, int status)
{
    static const int order[] = {SL_EXIT_NO, SL_EXIT_STORE, SL_EXIT_NOBODY,
                                SL_EXIT_POLICY, SL_EXIT_USAGE};
    int old = 0, new = 0;

    for (int i = 0; i < (int)SL_LEN(order); i++) {
        if (order[i] == test->status)
            old = i + 1;
        if (order[i] == status)
            new = i + 1;
    }
    if (new > old)
        test->status = status;
}

/* On err, with an end of line, and not twice in a row: many flows share one
 * bad policy. */
static void tell(struct sl_test *test, const char *text)
{
    size_t len = strlen(text);

    if (strcmp(test->told, text) == 0)
        return;
    snprintf(test->told, sizeof(test->told), "%s", text);
    fputs(text, test->call->cli->err);
    if (len == 0 || text[len - 1] != '\n')
        fputc('\n', test->call->cli->err);
}

void sl_test_flow(struct sl_test *test, const char *file,
                  const struct sl_flow *flow, const struct sl_outcome *out)
{
    static const int status[] = {
        [SL_END_PASSED] = SL_EXIT_OK,         [SL_END_FAILED] = SL_EXIT_NO,
        [SL_END_BAD_POLICY] = SL_EXIT_POLICY, [SL_END_BROKEN] = SL_EXIT_STORE,
        [SL_END_NOBODY] = SL_EXIT_NOBODY,     [SL_END_SKIPPED] = SL_EXIT_OK,
    };

    test->flows++;
    test->failed += !is_good(out);
    test->skipped += out->end == SL_END_SKIPPED;
    set_status(test, status[out->end]);
    if (out->end == SL_END_BAD_POLICY)
        tell(test, out->message);
    if (test->call->format == SL_FORMAT_JSON)
        json_flow(test, file, flow, out);
    else if (test->call->format == SL_FORMAT_TAP)
        tap_flow(test, file, flow, out);
    else
        table_flow(test, file, flow, out);
}

void sl_test_refused(struct sl_test *test, const char *file, const char *why)
{
    struct sl_outcome out = {.end = SL_END_FAILED, .message = why};
    FILE *to = test->call->cli->out;

    test->flows++;
    test->failed++;
    set_status(test, SL_EXIT_USAGE);
    tell(test, why);
    if (test->call->format == SL_FORMAT_JSON) {
        json_flow(test, file, NULL, &out);
    } else if (test->call->format == SL_FORMAT_TAP) {
        fprintf(to, "not ok %u - ", test->flows);
        sl_out_clean(to, file);
        fputs(": cannot be read\n", to);
    }
}

void sl_test_end(struct sl_test *test)
{
    FILE *out = test->call->cli->out;
    unsigned passed = test->flows - test->failed - test->skipped;
    char skipped[48] = "";

    if (test->call->format == SL_FORMAT_JSON) {
        if (test->skipped > 0)
            snprintf(skipped, sizeof(skipped), ",\"skipped\":%u",
                     test->skipped);
        fprintf(out, "],\"passed\":%u,\"failed\":%u%s}\n", passed, test->failed,
                skipped);
    } else if (test->call->format == SL_FORMAT_TAP) {
        fprintf(out, "1..%u\n", test->flows);
    } else {
        if (test->skipped > 0)
            snprintf(skipped, sizeof(skipped), ", %u skipped", test->skipped);
        fprintf(out, "%u passed, %u failed%s\n", passed, test->failed, skipped);
    }
}
