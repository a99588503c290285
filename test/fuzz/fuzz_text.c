/* fuzz_text.c -- texts with placeholders.
 *
 *   (1) A text is read, or it is refused with a sentence and the output is
 *       untouched.
 *   (2) Put together again, with placeholders in braces and braces doubled, the
 *       pieces of a message are the text that was read.
 *   (3) The pieces of a body, with a value for each placeholder, are one line
 *       of JSON: a string is closed where it ends and nowhere else.
 *   (4) A body is refused exactly if the same message is, but for {message}.
 */
#include "fuzz.h"

#include "policy/template.h"

#define ARENA ((size_t)8 << 20)

static struct sl_buf together;

static void add(struct sl_str bytes)
{
    MUST(sl_buf_add(&together, bytes) == 0);
}

static void add_doubled(struct sl_str literal)
{
    for (size_t i = 0; i < literal.len; i++) {
        add((struct sl_str){literal.at + i, 1});
        if (literal.at[i] == '{' || literal.at[i] == '}')
            add((struct sl_str){literal.at + i, 1});
    }
}

/* (2) */
static void must_be(const struct sl_template *text, struct sl_str read)
{
    sl_buf_clear(&together);
    for (unsigned i = 0; i < text->count; i++) {
        const struct sl_template_piece *p = &text->pieces[i];

        MUST(p->kind == SL_TEMPLATE_PIECE_LITERAL ||
             p->kind == SL_TEMPLATE_PIECE_TEXT);
        MUST(p->holder < SL_HOLDS);
        if (p->kind == SL_TEMPLATE_PIECE_LITERAL) {
            MUST(p->literal.len > 0);
            add_doubled(p->literal);
            continue;
        }
        add(SL_STR("{"));
        add(sl_str_c(sl_holder_names[p->holder]));
        add(SL_STR("}"));
    }
    MUST(sl_str_eq(sl_buf_str(&together), read));
}

/* A JSON string from quote to quote, on one line. */
static void must_be_string(struct sl_str s)
{
    size_t i = 1;

    MUST(s.len >= 2 && s.at[0] == '"' && s.at[s.len - 1] == '"');
    while (i < s.len - 1) {
        MUST((unsigned char)s.at[i] >= 0x20 && s.at[i] != '"');
        i += s.at[i] == '\\' ? 2 : 1;
    }
    MUST(i == s.len - 1); /* the last quote was not escaped */
}

/* (3) */
static void must_be_json(const struct sl_template *text, bool quoted)
{
    struct sl_str all;

    sl_buf_clear(&together);
    for (unsigned i = 0; i < text->count; i++) {
        const struct sl_template_piece *p = &text->pieces[i];

        if (p->kind == SL_TEMPLATE_PIECE_VALUE) {
            MUST(text->count == 1);
            return;
        }
        add(p->kind == SL_TEMPLATE_PIECE_TEXT ? SL_STR("5") : p->literal);
    }
    all = sl_buf_str(&together);
    if (quoted || (all.len > 0 && all.at[0] == '"'))
        must_be_string(all);
    else
        MUST(all.len > 0 && all.len <= 17); /* true, false, null, a number */
}

static int read_body(struct sl_str text, bool quoted, struct sl_arena *arena)
{
    struct sl_yaml_node node = {
        .kind = SL_NODE_SCALAR, .text = text, .quoted = quoted};
    struct sl_template body = {.count = 77};
    struct sl_report report;
    int err;

    sl_report_init(&report, "fuzz.yaml", text, &sl_alloc_libc);
    err = sl_template_read_body(&node, arena, &body, &report);
    MUST(err == 0 || err == SLUICE_ECONF);
    MUST((err != 0) == (report.errors > 0));
    MUST(!err || body.count == 77); /* (1) */
    if (!err)
        must_be_json(&body, quoted);
    sl_report_done(&report);
    return err;
}

void fuzz_text(struct sl_str read)
{
    struct sl_diag diag = {.line = 0};
    struct sl_template text = {.count = 77};
    struct sl_arena arena;
    int err, body_err;

    sl_arena_init(&arena, ARENA, &sl_alloc_libc);
    sl_buf_init(&together, ARENA, &sl_alloc_libc);
    err = sl_template_read(read, &arena, &text, &diag);
    must_agree(err, &diag, read.len);
    MUST(!err || text.count == 77); /* (1) */
    if (!err)
        must_be(&text, read);
    body_err = read_body(read, true, &arena);
    MUST(read_body(read, false, &arena) == body_err);
    MUST(body_err ? err : !err || strstr(diag.sentence, "{message}")); /* (4) */
    sl_buf_done(&together);
    sl_arena_done(&arena);
}
