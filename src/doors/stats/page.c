/* page.c -- how numbers and labels look in both formats. */
#include "doors/stats/page.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

void sl_page_add(struct sl_page *page, const char *text)
{
    if (!page->err)
        page->err = sl_buf_add(page->out, sl_str_c(text));
}

void sl_page_addf(struct sl_page *page, const char *fmt, ...)
{
    char text[256];
    va_list args;

    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    sl_page_add(page, text);
}

/* The value of a label, as both formats want it. */
static void put_escaped(struct sl_page *page, struct sl_str text)
{
    for (size_t i = 0; i < text.len && !page->err; i++) {
        struct sl_str piece = {text.at + i, 1};

        if (text.at[i] == '\n')
            piece = SL_STR("\\n");
        else if (text.at[i] == '"')
            piece = SL_STR("\\\"");
        else if (text.at[i] == '\\')
            piece = SL_STR("\\\\");
        page->err = sl_buf_add(page->out, piece);
    }
}

void sl_page_label(struct sl_page *page, char before, const char *name,
                   struct sl_str value)
{
    sl_page_addf(page, "%c%s=\"", before, name);
    put_escaped(page, value);
    sl_page_add(page, "\"");
}

void sl_page_number(struct sl_page *page, uint64_t number)
{
    sl_page_addf(page, " %" PRIu64 "\n", number);
}

void sl_page_seconds(struct sl_page *page, uint64_t ns)
{
    char text[48];
    int len = snprintf(text, sizeof(text), " %" PRIu64 ".%09" PRIu64, ns / SL_S,
                       ns % SL_S);

    while (text[len - 1] == '0' && text[len - 2] != '.')
        len--;
    text[len] = '\0';
    sl_page_add(page, text);
    sl_page_add(page, "\n");
}

void sl_page_histogram(struct sl_page *page, const char *name,
                       const char *label, struct sl_str value,
                       const uint64_t *values, const struct sl_bound *bounds,
                       unsigned count)
{
    uint64_t total = 0;

    for (unsigned i = 0; i <= count; i++) {
        total += values[i];
        sl_page_addf(page, "%s_bucket", name);
        sl_page_label(page, '{', label, value);
        sl_page_addf(page, ",le=\"%s\"}", i < count ? bounds[i].le : "+Inf");
        sl_page_number(page, total);
    }
    sl_page_addf(page, "%s_sum", name);
    sl_page_label(page, '{', label, value);
    sl_page_add(page, "}");
    sl_page_seconds(page, values[count + 1]);
    sl_page_addf(page, "%s_count", name);
    sl_page_label(page, '{', label, value);
    sl_page_add(page, "}");
    sl_page_number(page, total);
}
