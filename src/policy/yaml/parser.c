/* parser.c -- libfyaml, and what it does without memory.
 *
 * It does not always say that it has none: a text comes out empty or halved, a
 * value is missing, or the parser stops without a word. Each of these would be
 * another policy, or a complaint about a file that is right. malloc() says so
 * in errno, which is cleared before every step and looked at behind it.
 */
#include <errno.h>

#include "policy/yaml/reader.h"

/* libfyaml 0.7.12 follows NULL when there is no memory for the few hundred
 * bytes that it needs to take a string. So that much is taken and given back
 * right before, and the C library has it at hand. */
static bool lay_in(void)
{
    const size_t size = (size_t)16 * 1024;
    volatile char *piece = sl_alloc_new(&sl_alloc_libc, size);

    if (!piece)
        return false;
    piece[0] = 0; /* lest the compiler finds that nobody needs it */
    sl_alloc_free(&sl_alloc_libc, (void *)piece, size);
    return true;
}

bool sl_reader_open(struct sl_reader *r)
{
    struct fy_diag_cfg diag;
    struct fy_parse_cfg config = {
        .flags = FYPCF_QUIET | FYPCF_COLLECT_DIAG | FYPCF_JSON_NONE |
                 FYPCF_DEFAULT_VERSION_1_2 | FYPCF_SLOPPY_FLOW_INDENTATION,
    };

    fy_diag_cfg_default(&diag);
    diag.fp = NULL;
    diag.output_fn = NULL;
    r->diag = fy_diag_create(&diag);
    if (!r->diag)
        return false;
    fy_diag_set_collect_errors(r->diag, true);
    config.diag = r->diag;
    r->parser = fy_parser_create(&config);
    return r->parser && lay_in() &&
           !fy_parser_set_string(r->parser, r->text.at, r->text.len);
}

void sl_reader_close(struct sl_reader *r)
{
    if (r->parser)
        fy_parser_destroy(r->parser);
    if (r->diag)
        fy_diag_destroy(r->diag);
}

/* The one thing that it refuses without a word: a block whose indentation is
 * given as 0. Returns where it is, or the end of the text. */
static size_t find_unindented(const struct sl_reader *r)
{
    for (size_t i = r->seen; i + 1 < r->text.len; i++) {
        size_t digit = i + 1;

        if (r->text.at[i] != '|' && r->text.at[i] != '>')
            continue;
        if (r->text.at[digit] == '-' || r->text.at[digit] == '+')
            digit++;
        if (digit < r->text.len && r->text.at[digit] == '0')
            return i;
    }
    return r->text.len;
}

/* It has stopped, and nothing was said. */
static void explain_silence(struct sl_reader *r)
{
    size_t at = find_unindented(r);

    if (at < r->text.len)
        sl_report_error(r->report, sl_reader_place(r, at),
                        "A text after \"|\" or \">\" is indented by 1 to 9, "
                        "not by 0. Leave the number out");
    else
        r->report->no_memory = true;
    r->stop = true;
}

struct fy_event *sl_reader_next(struct sl_reader *r)
{
    struct fy_event *event;
    void *walk = NULL;

    errno = 0;
    event = fy_parser_parse(r->parser);
    if (errno == ENOMEM)
        r->report->no_memory = r->stop = true;
    else if (!event && !fy_diag_errors_iterate(r->diag, &walk))
        explain_silence(r);
    return event;
}

bool sl_reader_text(struct fy_token *token, struct sl_str *ret)
{
    errno = 0;
    ret->at = fy_token_get_text(token, &ret->len);
    return ret->at && errno != ENOMEM &&
           ret->len == fy_token_get_text_length(token);
}
