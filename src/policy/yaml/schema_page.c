/* schema_page.c -- the language as a page of the reference, in Markdown. */
#include "policy/yaml/schema.h"

#include <string.h>

#include "policy/yaml/schema_table.h"

static const char head[] =
    "# The policy file\n"
    "\n"
    "<!-- Printed from src/policy/yaml/schema.def; change that file instead, "
    "then run\n"
    "     unit-policy-schema page > docs/reference/policy.md -->\n"
    "\n"
    "A policy is one YAML document without anchors, aliases, tags and merge "
    "keys. It\n"
    "has at most 1 MB, 32 levels and 100,000 values. Unknown keys are errors. "
    "The key\n"
    "decides the type of a value: `5`, `true` and `12:30` are texts where a "
    "text is\n"
    "expected.\n"
    "\n"
    "In quotes, `${ENV:NAME}` is replaced by an environment variable, and "
    "`${FILE:path}`\n"
    "by the text of a file without its last line end. A path is relative to "
    "the policy.\n"
    "Write `$${` for a literal `${`. A string has at most 64 KB. Messages "
    "never show a\n"
    "substituted value.\n"
    "\n"
    "Keys marked *later* are reserved. This version refuses them.\n";

/* Where it goes, and what went wrong first; then nothing is added any more. */
struct out {
    struct sl_buf *buf;
    int err;
};

static void put(struct out *out, const char *text)
{
    if (!out->err)
        out->err = sl_buf_add(out->buf, sl_str_c(text));
}

/* A text in a cell, where a bar would end it. */
static void put_cell(struct out *out, const char *text)
{
    for (const char *p = text; *p; p++) {
        if (*p == '|')
            put(out, "\\");
        if (!out->err)
            out->err = sl_buf_add(out->buf, (struct sl_str){p, 1});
    }
}

static void put_code(struct out *out, const char *text)
{
    put(out, "`");
    put_cell(out, text);
    put(out, "`");
}

static void put_words(struct out *out, const struct sl_schema_key *row)
{
    const char *rest = row->words;
    struct sl_str word;
    bool first = true;

    while ((word = sl_schema_word(&rest)).len > 0) {
        put(out, first ? "`" : ", `");
        if (!out->err)
            out->err = sl_buf_add(out->buf, word);
        put(out, "`");
        first = false;
    }
    put(out, row->type == SL_TYPE_CHOICES ? ", or a list of them" : "");
}

static void put_row(struct out *out, const struct sl_schema_key *row)
{
    bool any = !strcmp(row->name, "*");

    put(out, "| ");
    if (any)
        put(out, "*any other*");
    else
        put_code(out, row->name);
    put(out, " | ");
    if (row->words[0])
        put_words(out, row);
    else
        put(out, sl_schema_kinds[row->type].name);
    put(out, " | ");
    put_cell(out, row->meaning);
    if (row->when == SL_WHEN_MUST)
        put(out, " Required.");
    if (row->when == SL_WHEN_LATER)
        put(out, " *Later.*");
    put(out, " | ");
    put_code(out, row->example);
    put(out, " |\n");
}

static void put_level(struct out *out, enum sl_schema_level level)
{
    const struct sl_schema_key *row = NULL;

    put(out, "\n## ");
    put(out, sl_schema_parts[level].title);
    put(out, "\n\n");
    put(out, sl_schema_parts[level].meaning);
    put(out, "\n\n| key | value | meaning | example |\n|---|---|---|---|\n");
    while ((row = sl_schema_next(level, row)))
        put_row(out, row);
}

static void put_types(struct out *out)
{
    put(out, "\n## Values\n\n| value | is |\n|---|---|\n");
    for (unsigned t = 0; t < SL_TYPES; t++) {
        put(out, "| ");
        put(out, sl_schema_kinds[t].name);
        put(out, " | ");
        put_cell(out, sl_schema_kinds[t].meaning);
        put(out, " |\n");
    }
}

int sl_schema_page(struct sl_buf *ret)
{
    struct out out = {.buf = ret};

    put(&out, head);
    for (unsigned l = 0; l < SL_LEVELS; l++)
        put_level(&out, (enum sl_schema_level)l);
    put_types(&out);
    return out.err;
}
