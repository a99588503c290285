/* problems.h -- read a policy file and show what became of it, as text.
 *
 * The tree is shown on one line: {key: 'text', list: [a, ~], map: {}}, quotes
 * around what was quoted, ~ for what is empty, ! for what was refused and |
 * for a line end.
 */
#ifndef SL_TEST_PROBLEMS_H
#define SL_TEST_PROBLEMS_H

#include <stdlib.h>

#include "check.h"
#include "policy/schema.h"

struct reading {
    struct sl_report report;
    struct sl_arena arena;
    struct sl_buf shown;
    struct sl_yaml_node *root;
    char tree[4096];
    char text[65536]; /* of the report */
};

static const char *problem_env(void *ctx, const char *name)
{
    (void)ctx;
    if (!strcmp(name, "TOKEN"))
        return "s3cret";
    if (!strcmp(name, "NOTHING"))
        return "";
    if (!strcmp(name, "RATE"))
        return "5/min";
    if (!strcmp(name, "YES"))
        return "true";
    return strcmp(name, "DIRTY") ? NULL : "s3cret\x01";
}

static int problem_fill(struct sl_buf *out, size_t size)
{
    int err = sl_buf_reserve(out, size);

    if (err)
        return err;
    memset(out->bytes + out->len, 'x', size);
    out->len += size;
    return 0;
}

static int problem_file(void *ctx, const char *path, struct sl_buf *out,
                        struct sl_diag *diag)
{
    static const struct {
        const char *path, *text;
    } files[] = {
        {"./admin-token", "s3cret\n"  },
        {"./read-token",  "r3ad\n"    },
        {"./token",       "s3cret\n"  },
        {"./crlf",        "s3cret\r\n"},
        {"./two",         "a\n\n"     },
        {"./empty",       ""          },
        {"./return",      "a\r"       },
    };

    (void)ctx;
    for (size_t i = 0; i < SL_LEN(files); i++)
        if (!strcmp(path, files[i].path))
            return sl_buf_add(out, sl_str_c(files[i].text));
    if (!strcmp(path, "./large"))
        return problem_fill(out, 64 * 1024 + 1);
    if (!strcmp(path, "./half"))
        return problem_fill(out, 32 * 1024);
    return sl_diag_error(diag, SLUICE_ENOENT, "there is no such file");
}

static const struct sl_yaml_options problem_options = {
    .env = problem_env,
    .file = problem_file,
};

static void show_node(struct reading *r, const struct sl_yaml_node *node,
                      size_t *at)
{
    const char *open = node->kind == SL_NODE_LIST ? "[" : "{";
    const char *close = node->kind == SL_NODE_LIST ? "]" : "}";

#define SHOW(...)                                                              \
    (*at += (size_t)snprintf(r->tree + *at, sizeof(r->tree) - *at, __VA_ARGS__))
    if (*at > sizeof(r->tree) - 200)
        return;
    if (node->kind == SL_NODE_EMPTY) {
        SHOW("%s", node->refused ? "!" : "~");
        return;
    }
    if (node->kind == SL_NODE_SCALAR) {
        SHOW(node->quoted ? "'%.40s'" : "%.40s", node->text.at);
        return;
    }
    SHOW("%s", open);
    for (const struct sl_yaml_node *n = node->child; n; n = n->next) {
        if (node->kind == SL_NODE_MAP)
            SHOW("%.40s: ", n->key.at);
        show_node(r, n, at);
        if (n->next)
            SHOW(", ");
    }
    SHOW("%s", close);
#undef SHOW
}

static unsigned count_nodes(const struct sl_yaml_node *node)
{
    unsigned count = 0;

    for (const struct sl_yaml_node *n = node->child; n; n = n->next)
        count++;
    return count;
}

/* Read `text`, and check it against the schema if `schema`. */
static inline void read_with(struct reading *r, struct sl_str text, bool schema,
                             const struct sl_alloc *alloc)
{
    size_t at = 0;

    sl_report_init(&r->report, "p.yaml", text, alloc);
    sl_arena_init(&r->arena, (size_t)64 << 20, alloc);
    sl_buf_init(&r->shown, sizeof(r->text) - 1, alloc);
    r->root = sl_yaml_read(&r->report, &problem_options, &r->arena);
    r->tree[0] = r->text[0] = '\0';
    if (r->root && schema)
        sl_schema_check(r->root, &r->report);
    if (r->root) {
        show_node(r, r->root, &at);
        for (char *p = r->tree; (p = strchr(p, '\n'));)
            *p = '|';
        CHECK_EQ(count_nodes(r->root), r->root->count);
    }
    if (!sl_report_print(&r->report, &r->shown) && r->shown.len) {
        memcpy(r->text, r->shown.bytes, r->shown.len);
        r->text[r->shown.len] = '\0';
    }
}

static inline void read_it(struct reading *r, struct sl_str text, bool schema)
{
    read_with(r, text, schema, &sl_alloc_libc);
}

static inline void read_done(struct reading *r)
{
    sl_buf_done(&r->shown);
    sl_arena_done(&r->arena);
    sl_report_done(&r->report);
}

/* A file, and what must become of it, to the letter. */
struct problem {
    const char *why, *text, *tree, *report;
};

static inline void check_problems(const struct problem *rows, size_t count,
                                  bool schema)
{
    struct reading *r = malloc(sizeof(*r));

    if (!r)
        abort();
    for (size_t i = 0; i < count; i++) {
        size_t len = strlen(rows[i].text);
        char *exact =
            malloc(len ? len : 1); /* so that a byte too far is caught */

        if (!exact)
            abort();
        memcpy(exact, rows[i].text, len);
        CASE(rows[i].why);
        read_it(r, (struct sl_str){exact, len}, schema);
        CHECK_STR(r->tree, rows[i].tree);
        CHECK_STR(r->text, rows[i].report);
        read_done(r);
        free(exact);
    }
    free(r);
}

#endif
