/* template.c -- how messages and bodies are cut into pieces. */
#include "policy/template.h"

#include "check.h"
#include "fail.h"
#include "row.h"

#define ARENA (1024 * 1024)

/* The pieces as text: literals as they are, <name> for a placeholder as text,
 * [name] for one as a value. Two literals side by side are shown by a '|',
 * which is never right. */
static const char *shown(const struct sl_template *text)
{
    static char out[2048];
    size_t len = 0;

    out[0] = '\0';
    for (unsigned i = 0; i < text->count; i++) {
        const struct sl_template_piece *p = &text->pieces[i];
        const char *name = sl_holder_names[p->holder];

        if (i > 0 && p->kind == SL_TEMPLATE_PIECE_LITERAL &&
            p[-1].kind == SL_TEMPLATE_PIECE_LITERAL)
            out[len++] = '|';
        if (p->kind == SL_TEMPLATE_PIECE_LITERAL)
            len += (size_t)snprintf(out + len, sizeof(out) - len, "%.*s",
                                    SL_STR_ARG(p->literal));
        else
            len += (size_t)snprintf(
                out + len, sizeof(out) - len,
                p->kind == SL_TEMPLATE_PIECE_TEXT ? "<%s>" : "[%s]", name);
    }
    return out;
}

/* ---- messages ---- */

static const struct {
    const char *why, *text, *want;
    unsigned pieces;
} messages[] = {
    ROW("nothing", "", "", 0),
    ROW("no placeholder", "Try again later.", "Try again later.", 1),
    ROW("one", "{limit}", "<limit>", 1),
    ROW("one inside", "Daily limit of {limit} exceeded.",
        "Daily limit of <limit> exceeded.", 3),
    ROW("two side by side", "{name}{id}", "<name><id>", 2),
    ROW("the longer of two names", "{retry_after}/{retry_after_ms}",
        "<retry_after>/<retry_after_ms>", 3),
    ROW("a brace", "a {{ b", "a { b", 1),
    ROW("the other brace", "a }} b", "a } b", 1),
    ROW("a placeholder's name in braces", "{{limit}}", "{limit}", 1),
    ROW("a placeholder in braces", "{{{limit}}}", "{<limit>}", 3),
    ROW("quotes stay as they are", "the \"{name}\" limit",
        "the \"<name>\" limit", 3),
    ROW("other tongues", "\xc3\xbc{unit}\xc3\xbc", "\xc3\xbc<unit>\xc3\xbc", 3),
};

#define TWICE(what)                                                            \
    "Unknown placeholder \"" what "\". Write a literal brace twice"

static const struct {
    const char *why, *text;
    size_t at;
    const char *sentence, *hint;
} refused[] = {
    ROW("a typo", "of {limt} it", 3, TWICE("{limt}"), "{limit}"),
    ROW("another case", "{Limit}", 0, TWICE("{Limit}"), "{limit}"),
    ROW("no such name", "a {window_start} b", 2, TWICE("{window_start}"),
        "{{window_start}}"),
    ROW("no name", "a {} b", 2, TWICE("{}"), "{{}}"),
    ROW("blanks", "{ limit }", 0, TWICE("{"), "{{"),
    ROW("a dollar's habits", "${limit", 1, TWICE("{limit"), "{limit}"),
    ROW("nothing behind it", "a {", 2, TWICE("{"), "{{"),
    ROW("closed before it was opened", "a } b", 2,
        "\"}\" closes nothing. Write a literal brace twice", "}}"),
    ROW("opened twice, closed once", "{{limit}", 7,
        "\"}\" closes nothing. Write a literal brace twice", "}}"),
    ROW("the message in itself", "no: {message}", 4,
        "A message must not contain {message}. Write {message} only in a body",
        ""),
};

static void read_messages(struct sl_arena *arena)
{
    for (size_t i = 0; i < SL_LEN(messages); i++) {
        struct sl_template text = {.count = 77};
        struct sl_diag diag = {.line = 0};

        CASE(messages[i].why);
        CHECK_EQ(
            sl_template_read(sl_str_c(messages[i].text), arena, &text, &diag),
            0);
        CHECK_STR(shown(&text), messages[i].want);
        CHECK_EQ(text.count, messages[i].pieces);
        CHECK_STR(diag.sentence, "");
    }
    for (size_t i = 0; i < SL_LEN(refused); i++) {
        struct sl_template text = {.count = 77};
        struct sl_diag diag = {.line = 0};
        struct sl_str in = sl_str_c(refused[i].text);

        CASE(refused[i].why);
        CHECK_EQ(sl_template_read(in, arena, &text, &diag), SLUICE_ECONF);
        CHECK_EQ(sl_template_read(in, arena, &text, NULL), SLUICE_ECONF);
        CHECK_EQ(text.count, 77);
        CHECK_EQ(diag.at, refused[i].at);
        CHECK_STR(diag.sentence, refused[i].sentence);
        CHECK_STR(diag.hint, refused[i].hint);
    }
}

static void every_name(struct sl_arena *arena)
{
    CASE("every placeholder has a name that is read");
    for (unsigned h = 0; h < SL_HOLDS; h++) {
        char words[64];
        struct sl_template text;

        snprintf(words, sizeof(words), "{%s}", sl_holder_names[h]);
        if (h == SL_HOLD_MESSAGE)
            continue;
        CHECK_EQ(sl_template_read(sl_str_c(words), arena, &text, NULL), 0);
        CHECK_EQ(text.count, 1);
        CHECK_EQ(text.pieces[0].holder, h);
    }
}

/* ---- bodies ---- */

/* Nodes by hand: m("a", x, y) is a map under the key a. */
static struct sl_yaml_node pool[64];
static unsigned pool_used;

static struct sl_yaml_node *node(enum sl_yaml_node_kind kind, const char *key)
{
    struct sl_yaml_node *n = &pool[pool_used++];

    *n = (struct sl_yaml_node){.kind = kind, .key = sl_str_c(key)};
    n->place = (struct sl_source_pos){pool_used, 5};
    return n;
}

static struct sl_yaml_node *plain(const char *key, const char *text)
{
    struct sl_yaml_node *n = node(SL_NODE_SCALAR, key);

    n->text = sl_str_c(text);
    return n;
}

static struct sl_yaml_node *quoted(const char *key, const char *text)
{
    struct sl_yaml_node *n = plain(key, text);

    n->quoted = true;
    return n;
}

static struct sl_yaml_node *with(struct sl_yaml_node *parent,
                                 struct sl_yaml_node *child)
{
    struct sl_yaml_node **at = &parent->child;

    while (*at)
        at = &(*at)->next;
    *at = child;
    parent->count++;
    return parent;
}

static int read_body(struct sl_yaml_node *root, struct sl_arena *arena,
                     struct sl_template *ret, struct sl_report *report)
{
    sl_report_init(report, "policy.yaml", SL_STR(""), &sl_alloc_libc);
    return sl_template_read_body(root, arena, ret, report);
}

static void check_body(struct sl_yaml_node *root, struct sl_arena *arena,
                       const char *want)
{
    struct sl_template text = {.count = 77};
    struct sl_report report;

    CHECK_EQ(read_body(root, arena, &text, &report), 0);
    CHECK_STR(shown(&text), want);
    CHECK_EQ(report.errors + report.warnings, 0);
    sl_report_done(&report);
    pool_used = 0;
}

static void scalars(struct sl_arena *arena)
{
    static const struct {
        const char *why, *text, *plain, *quoted;
    } rows[] = {
        ROW("a word", "RATE_LIMITED", "\"RATE_LIMITED\"", "\"RATE_LIMITED\""),
        ROW("true", "true", "true", "\"true\""),
        ROW("false", "false", "false", "\"false\""),
        ROW("null", "null", "null", "\"null\""),
        ROW("yes is a word", "yes", "\"yes\"", "\"yes\""),
        ROW("a number", "429", "429", "\"429\""),
        ROW("zero", "0", "0", "\"0\""),
        ROW("below zero", "-7", "-7", "\"-7\""),
        ROW("a fraction", "0.25", "0.25", "\"0.25\""),
        ROW("a leading zero is no number", "007", "\"007\"", "\"007\""),
        ROW("a minus alone", "-", "\"-\"", "\"-\""),
        ROW("a dot at the end", "1.", "\"1.\"", "\"1.\""),
        ROW("a dot at the front", ".5", "\".5\"", "\".5\""),
        ROW("a minus and a dot", "-.5", "\"-.5\"", "\"-.5\""),
        ROW("a version", "1.2.3", "\"1.2.3\"", "\"1.2.3\""),
        ROW("a minus between", "1-2", "\"1-2\"", "\"1-2\""),
        ROW("fifteen digits", "123456789012345", "123456789012345",
            "\"123456789012345\""),
        ROW("more than readers keep", "1234567890123456",
            "\"1234567890123456\"", "\"1234567890123456\""),
        ROW("nothing", "", "\"\"", "\"\""),
        ROW("a placeholder keeps its type", "{limit}", "[limit]", "[limit]"),
        ROW("the message may be in it", "{message}", "[message]", "[message]"),
        ROW("in a longer string it is text", "{limit}x", "\"<limit>x\"",
            "\"<limit>x\""),
        ROW("two are a string", "{limit}{limit}", "\"<limit><limit>\"",
            "\"<limit><limit>\""),
        ROW("braces", "{{limit}}", "\"{limit}\"", "\"{limit}\""),
        ROW("what JSON escapes", "a\"b\\c\n", "\"a\\\"b\\\\c\\n\"",
            "\"a\\\"b\\\\c\\n\""),
    };

    for (size_t i = 0; i < SL_LEN(rows); i++) {
        CASE(rows[i].why);
        check_body(plain(NULL, rows[i].text), arena, rows[i].plain);
        check_body(quoted(NULL, rows[i].text), arena, rows[i].quoted);
    }
}

static void trees(struct sl_arena *arena)
{
    struct sl_yaml_node *inner;

    CASE("a map");
    check_body(
        with(with(with(node(SL_NODE_MAP, NULL), plain("code", "RATE_LIMITED")),
                  quoted("retryAfterSec", "{retry_after}")),
             quoted("say", "in {retry_after} s")),
        arena,
        "{\"code\":\"RATE_LIMITED\",\"retryAfterSec\":[retry_after],"
        "\"say\":\"in <retry_after> s\"}");
    CASE("nothing is null, an empty map and an empty list are themselves");
    check_body(
        with(with(with(node(SL_NODE_MAP, NULL), node(SL_NODE_EMPTY, "a")),
                  node(SL_NODE_MAP, "b")),
             node(SL_NODE_LIST, "c")),
        arena, "{\"a\":null,\"b\":{},\"c\":[]}");
    CASE("a list");
    inner = with(with(node(SL_NODE_LIST, "list"), plain(NULL, "1")),
                 quoted(NULL, "{id}"));
    check_body(with(node(SL_NODE_MAP, NULL), inner), arena,
               "{\"list\":[1,[id]]}");
    CASE("names are escaped, and braces in them are nothing special");
    check_body(with(with(node(SL_NODE_MAP, NULL), plain("a\"{limit}", "x")),
                    plain("{", "y")),
               arena, "{\"a\\\"{limit}\":\"x\",\"{\":\"y\"}");
}

static void refused_bodies(struct sl_arena *arena)
{
    struct sl_template text = {.count = 77};
    struct sl_yaml_node *root = node(SL_NODE_MAP, NULL);
    struct sl_report report;

    CASE("every problem of a body is put down, at its place");
    with(root, quoted("a", "x {limt}"));
    with(root, quoted("b", "{retry_after}"));
    with(root, quoted("c", "}"));
    CHECK_EQ(read_body(root, arena, &text, &report), SLUICE_ECONF);
    CHECK_EQ(text.count, 77);
    if (CHECK_EQ(report.errors, 2)) {
        CHECK_STR(report.problems[0].diag.sentence, TWICE("{limt}"));
        CHECK_STR(report.problems[0].diag.hint, "{limit}");
        CHECK_EQ(report.problems[0].diag.line, 2);
        CHECK_EQ(report.problems[1].diag.line, 4);
    }
    sl_report_done(&report);
    pool_used = 0;

    CASE("a placeholder without quotes is warned of");
    CHECK_EQ(read_body(with(node(SL_NODE_MAP, NULL),
                            with(node(SL_NODE_MAP, "limit"),
                                 node(SL_NODE_EMPTY, "limit"))),
                       arena, &text, &report),
             0);
    CHECK_STR(shown(&text), "{\"limit\":{\"limit\":null}}");
    CHECK_EQ(report.errors, 0);
    if (CHECK_EQ(report.warnings, 1)) {
        CHECK_STR(report.problems[0].diag.sentence,
                  "{limit} without quotes is a map with an empty \"limit\". "
                  "Put a placeholder in quotes");
        CHECK_STR(report.problems[0].diag.hint, "\"{limit}\"");
    }
    sl_report_done(&report);
    pool_used = 0;
}

static void no_memory(void)
{
    bool done = false;

    CASE("without memory nothing is given and nothing is lost");
    for (unsigned nth = 1; !done && nth < 100; nth++) {
        struct fail f = {.nth = nth};
        struct sl_alloc alloc = fail_alloc(&f);
        struct sl_template text = {.count = 77}, body = {.count = 77};
        struct sl_yaml_node *root = with(
            node(SL_NODE_MAP, NULL), quoted("a", "{limit} and {remaining}"));
        struct sl_report report;
        struct sl_arena arena;
        int err, body_err;

        sl_arena_init(&arena, ARENA, &alloc);
        sl_report_init(&report, "policy.yaml", SL_STR(""), &alloc);
        err = sl_template_read(SL_STR("a {limit} b"), &arena, &text, NULL);
        body_err = sl_template_read_body(root, &arena, &body, &report);
        CHECK(err == 0 || (err == SLUICE_ENOMEM && text.count == 77));
        CHECK(body_err == 0 || (body_err == SLUICE_ENOMEM && body.count == 77));
        done = !err && !body_err;
        sl_report_done(&report);
        sl_arena_done(&arena);
        fail_check(&f);
        pool_used = 0;
    }
    CHECK(done);
}

int main(void)
{
    struct sl_arena arena;

    sl_arena_init(&arena, ARENA, &sl_alloc_libc);
    read_messages(&arena);
    every_name(&arena);
    scalars(&arena);
    trees(&arena);
    refused_bodies(&arena);
    sl_arena_done(&arena);
    no_memory();
    return CHECK_DONE();
}
