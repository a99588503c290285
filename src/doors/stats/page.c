/* page.c -- how numbers and labels look in both formats. */
#include "doors/stats/page.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

void sl_metrics_write_add(struct sl_metrics_write *page, const char *text)
{
    if (!page->err)
        page->err = sl_buf_add(page->out, sl_str_c(text));
}

void sl_metrics_write_addf(struct sl_metrics_write *page, const char *fmt, ...)
{
    char text[256];
    va_list args;

    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    sl_metrics_write_add(page, text);
}

/* The value of a label, as both formats want it. */
static void put_escaped(struct sl_metrics_write *page, struct sl_str text)
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

void sl_metrics_write_label(struct sl_metrics_write *page, char before,
                            const char *name, struct sl_str value)
{
    sl_metrics_write_addf(page, "%c%s=\"", before, name);
    put_escaped(page, value);
    sl_metrics_write_add(page, "\"");
}

void sl_metrics_write_number(struct sl_metrics_write *page, uint64_t number)
{
    sl_metrics_write_addf(page, " %" PRIu64 "\n", number);
}

void sl_metrics_write_seconds(struct sl_metrics_write *page, uint64_t ns)
{
    char text[48];
    int len = snprintf(text, sizeof(text), " %" PRIu64 ".%09" PRIu64, ns / SL_S,
                       ns % SL_S);

    while (text[len - 1] == '0' && text[len - 2] != '.')
        len--;
    text[len] = '\0';
    sl_metrics_write_add(page, text);
    sl_metrics_write_add(page, "\n");
}

void sl_metrics_write_histogram(struct sl_metrics_write *page, const char *name,
                                const char *label, struct sl_str value,
                                const uint64_t *values,
                                const struct sl_bound *bounds, unsigned count)
{
    uint64_t total = 0;

    for (unsigned i = 0; i <= count; i++) {
        total += values[i];
        sl_metrics_write_addf(page, "%s_bucket", name);
        sl_metrics_write_label(page, '{', label, value);
        sl_metrics_write_addf(page, ",le=\"%s\"}",
                              i < count ? bounds[i].le : "+Inf");
        sl_metrics_write_number(page, total);
    }
    sl_metrics_write_addf(page, "%s_sum", name);
    sl_metrics_write_label(page, '{', label, value);
    sl_metrics_write_add(page, "}");
    sl_metrics_write_seconds(page, values[count + 1]);
    sl_metrics_write_addf(page, "%s_count", name);
    sl_metrics_write_label(page, '{', label, value);
    sl_metrics_write_add(page, "}");
    sl_metrics_write_number(page, total);
}
