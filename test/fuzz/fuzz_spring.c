/* fuzz_spring.c -- settings of Java programs: the first byte says which form.
 *
 *   (1) A file is read, or it is refused with a sentence and a line.
 *   (2) Every setting has a key and a value, and a line that is in the file.
 *   (3) What is imported is text without control characters.
 */
#include "fuzz.h"

#include "base/buf.h"
#include "cli/spring.h"

static void on_tell(void *ctx, unsigned line, const char *sentence)
{
    MUST(line <= *(size_t *)ctx);
    MUST(sentence[0]);
}

static void must_import(const struct sl_properties *props, size_t lines)
{
    struct sl_spring spring = {.props = props, .tell = on_tell, .ctx = &lines};
    struct sl_buf out;
    int err;

    sl_buf_init(&out, 1 << 20, &sl_alloc_libc);
    err = sl_spring_write(&spring, &out);
    MUST(err == 0 || err == SLUICE_ECONF || err == SLUICE_ENOENT);
    MUST((err == SLUICE_ECONF) == (spring.errors > 0));
    for (size_t i = 0; !err && i < out.len; i++)
        MUST(out.bytes[i] == '\n' || (unsigned char)out.bytes[i] >= ' ');
    sl_buf_done(&out);
}

void fuzz_spring(struct sl_str text, unsigned choice)
{
    struct sl_diag diag = {.line = 0};
    struct sl_arena arena;
    struct sl_properties props = {.arena = &arena};
    size_t lines = 1;
    int err;

    for (size_t i = 0; i < text.len; i++)
        lines += text.at[i] == '\n';
    sl_arena_init(&arena, 64 << 20, &sl_alloc_libc);
    if (choice & 2)
        props.families = sl_spring_families; /* passing over the others */
    err = choice % 2 ? sl_properties_read_yml(text, &props, &diag)
                     : sl_properties_read(text, &props, &diag);
    MUST(err == 0 || err == SLUICE_ECONF || err == SLUICE_EFULL);
    if (err == SLUICE_ECONF) { /* (1) */
        must_explain(&diag, text.len);
        MUST(diag.line >= 1 && diag.line <= lines);
    }
    for (struct sl_prop *p = props.first; p; p = p->next)
        MUST(p->key && p->value && p->line >= 1 && p->line <= lines); /* (2) */
    if (!err)
        must_import(&props, lines); /* (3) */
    sl_arena_done(&arena);
}
