/* fuzz_yaml.c -- policy files as YAML, and the schema.
 *
 *   (1) There is a root, or an error that says why not.
 *   (2) The tree is sound: places lie in the file, counts are right, keys are
 *       unlike each other, texts are plain and end in NUL, and neither depth
 *       nor number passes its bound.
 *   (3) What the schema leaves is nothing that it would refuse again, but for
 *       keys that are missing.
 *   (4) Whatever is said can be printed, and never shows a secret.
 */
#include "fuzz.h"

#include "policy/schema.h"
#include "policy/yaml.h"

static const char secret[] = "zQ9-secret-zQ9";

static const char *on_env(void *ctx, const char *name)
{
    (void)ctx;
    return strcmp(name, "A") ? NULL : secret;
}

static int on_file(void *ctx, const char *path, struct sl_buf *out,
                   struct sl_diag *diag)
{
    (void)ctx;
    if (strcmp(path, "a"))
        return sl_diag_error(diag, SLUICE_ENOENT, "there is no such file");
    return sl_buf_add(out, sl_str_c(secret));
}

static void must_be_text(struct sl_str text)
{
    MUST(text.at && text.at[text.len] == '\0');
    MUST(sl_utf8_check(text).fault == SL_FAULT_NONE);
    MUST(strlen(text.at) == text.len);
}

static void must_be_place(const struct sl_report *report,
                          struct sl_source_pos place)
{
    MUST(place.line > 0 && place.column > 0);
    MUST(place.line <= report->text.len + 1);
    MUST(place.column <= report->text.len + 1);
}

/* (2); returns how many nodes there are. */
static unsigned must_be_sound(const struct sl_report *report,
                              const struct sl_yaml_node *node, unsigned depth)
{
    unsigned count = 0, all = 1;

    MUST(depth <= SL_YAML_DEPTH + 1);
    must_be_place(report, node->place);
    if (node->kind == SL_NODE_SCALAR)
        must_be_text(node->text);
    MUST(!node->refused || node->kind == SL_NODE_EMPTY);
    for (const struct sl_yaml_node *n = node->child; n; n = n->next) {
        MUST(node->kind == SL_NODE_LIST || node->kind == SL_NODE_MAP);
        if (node->kind == SL_NODE_MAP) {
            must_be_text(n->key);
            must_be_place(report, n->key_place);
            MUST(count > 200 || sl_yaml_node_get(node, n->key.at) == n);
        }
        all += must_be_sound(report, n, depth + 1);
        count++;
    }
    MUST(count == node->count);
    return all;
}

/* (4) */
static void must_print(const struct sl_report *report)
{
    struct sl_buf out;

    sl_buf_init(&out, (size_t)16 << 20, &sl_alloc_libc);
    MUST(sl_report_print(report, &out) == 0);
    MUST((out.len > 0) == (report->errors + report->warnings > 0));
    MUST(!out.len || !memmem(out.bytes, out.len, secret, strlen(secret)) ||
         memmem(report->text.at, report->text.len, secret, strlen(secret)));
    for (unsigned i = 0; i < report->kept; i++) {
        must_explain(&report->problems[i].diag, report->text.len);
        MUST(i == 0 || report->problems[i - 1].diag.line <=
                           report->problems[i].diag.line);
    }
    sl_buf_done(&out);
}

void fuzz_yaml(struct sl_str text)
{
    static const struct sl_yaml_options options = {.env = on_env,
                                                   .file = on_file};
    struct sl_report report, again;
    struct sl_arena arena;
    struct sl_yaml_node *root;

    sl_report_init(&report, "p.yaml", text, &sl_alloc_libc);
    again = report;
    sl_arena_init(&arena, (size_t)64 << 20, &sl_alloc_libc);
    root = sl_yaml_read(&report, &options, &arena);
    MUST(!report.no_memory);
    MUST(root || report.errors > 0); /* (1) */
    if (root) {
        MUST(must_be_sound(&report, root, 0) <= SL_YAML_NODES);
        sl_schema_check(root, &report);
        must_be_sound(&report, root, 0);
        sl_schema_check(root, &again); /* (3) */
        for (unsigned i = 0; i < again.kept; i++)
            MUST(strstr(again.problems[i].diag.sentence, "Missing key in "));
    }
    must_print(&report);
    sl_report_done(&again);
    sl_report_done(&report);
    sl_arena_done(&arena);
}
