/* schema_out.c -- the language as a JSON Schema, for editors.
 *
 * Draft 2020-12. Each type and each level is a definition; a key refers to its
 * own and adds its meaning. The schema is a little wider than the language: an
 * editor cannot know what ${ENV:...} stands for, and the patterns of rates and
 * durations are loose. Keys of later versions are false, which nothing fits.
 */
#include <stdio.h>
#include <string.h>

#include "policy/schema.h"
#include "wire/json.h"

#define DRAFT      "https://json-schema.org/draft/2020-12/schema"
#define FROM_ENV   "\\$\\{(ENV|FILE):" /* as a regular expression */
#define NAME_REF   "{\"$ref\":\"#/$defs/name\"}"
#define TEXT_TYPES "[\"string\",\"number\",\"boolean\"]"

static void put(struct sl_writer *w, const char *text)
{
    sl_writer_add(w, sl_str_c(text));
}

static void put_string(struct sl_writer *w, struct sl_str text)
{
    if (!w->err)
        w->err = sl_json_string(w->out, text);
}

/* "name": */
static void put_key(struct sl_writer *out, bool *first, const char *name)
{
    sl_writer_addf(out, "%s\"%s\":", *first ? "" : ",", name);
    *first = false;
}

static void put_ref(struct sl_writer *out, const char *before,
                    const char *definition, const char *behind)
{
    sl_writer_addf(out, "%s\"$ref\":\"#/$defs/%s\"%s", before, definition,
                   behind);
}

/* A scalar, or a string with ${...}. */
static void put_pattern(struct sl_writer *out, const char *types,
                        const char *pattern)
{
    char text[256];

    snprintf(text, sizeof(text), "%s%s%s", pattern, *pattern ? "|" : "",
             FROM_ENV);
    sl_writer_addf(out, "{\"type\":%s,\"pattern\":", types);
    put_string(out, sl_str_c(text));
    put(out, "}");
}

/* One, or a list of them. */
static void put_one_or_list(struct sl_writer *out, const char *one)
{
    sl_writer_addf(out, "{\"anyOf\":[%s,{\"type\":\"array\",\"items\":%s}]}",
                   one, one);
}

/* The definition of a type. Those with choices and levels have none. */
static void put_type(struct sl_writer *out, enum sl_schema_type type)
{
    const char *pattern = sl_schema_kinds[type].pattern;

    switch (type) {
    case SL_TYPE_VERSION:
        put(out, "{\"const\":1}");
        break;
    case SL_TYPE_BOOL:
        put_pattern(out, "[\"boolean\",\"string\"]", pattern);
        break;
    case SL_TYPE_TEXT:
        put(out, "{\"type\":" TEXT_TYPES "}");
        break;
    case SL_TYPE_TEXTS:
    case SL_TYPE_SOURCES:
        put_one_or_list(out, "{\"type\":" TEXT_TYPES "}");
        break;
    case SL_TYPE_NAMES:
        put_one_or_list(out, NAME_REF);
        break;
    case SL_TYPE_RATES:
        put(out, "{\"anyOf\":[{\"$ref\":\"#/$defs/rate\"},{\"type\":\"object\","
                 "\"additionalProperties\":{\"$ref\":\"#/$defs/rate\"}}]}");
        break;
    case SL_TYPE_COSTS:
        put(out, "{\"anyOf\":[{\"type\":" TEXT_TYPES "},{\"type\":\"object\","
                 "\"additionalProperties\":{\"type\":" TEXT_TYPES "}}]}");
        break;
    case SL_TYPE_BODY:
        put(out, "{}");
        break;
    default:
        put_pattern(out, "[\"string\",\"integer\"]", pattern);
        break;
    }
}

static bool has_definition(enum sl_schema_type type)
{
    return type != SL_TYPE_CHOICE && type != SL_TYPE_CHOICES &&
           type != SL_TYPE_MAP && type != SL_TYPE_MAPS && type != SL_TYPE_SHORT;
}

/* The words, with quotes around them and commas between them. */
static void put_words(struct sl_writer *out, const struct sl_schema_key *row,
                      const char *quote, const char *comma)
{
    const char *rest = row->words, *before = "";
    struct sl_str word;

    for (; (word = sl_schema_word(&rest)).len > 0; before = comma)
        sl_writer_addf(out, "%s%s%.*s%s", before, quote, SL_STR_ARG(word),
                       quote);
}

/* "anyOf":[...] for words, or a string with ${...}. */
static void put_choice(struct sl_writer *out, const struct sl_schema_key *row)
{
    put(out, "\"anyOf\":[{\"enum\":[");
    put_words(out, row, "\"", ",");
    put(out, "]},");
    put_pattern(out, "\"string\"", "");
    if (row->type == SL_TYPE_CHOICES) {
        put(out, ",{\"type\":\"array\",\"items\":{\"enum\":[");
        put_words(out, row, "\"", ",");
        put(out, "]}}");
    }
    put(out, "]");
}

/* What a row accepts, and its meaning. */
static void put_row(struct sl_writer *out, const struct sl_schema_key *row)
{
    const char *below =
        row->below < SL_LEVELS ? sl_schema_parts[row->below].word : "";

    if (row->when == SL_WHEN_LATER) {
        put(out, "false");
        return;
    }
    put(out, "{");
    if (row->type == SL_TYPE_CHOICE || row->type == SL_TYPE_CHOICES)
        put_choice(out, row);
    else if (row->type == SL_TYPE_MAP)
        put_ref(out, "", below, "");
    else if (row->type == SL_TYPE_SHORT)
        put_ref(out, "\"anyOf\":[{\"type\":" TEXT_TYPES "},{", below, "}]");
    else if (row->type == SL_TYPE_MAPS)
        put_ref(out, "\"type\":\"array\",\"items\":{", below, "}");
    else
        put_ref(out, "", sl_schema_kinds[row->type].name, "");
    put(out, ",\"description\":");
    put_string(out, sl_str_c(row->meaning));
    put(out, ",\"examples\":[");
    put_string(out, sl_str_c(row->example));
    put(out, "]}");
}

static bool has_required(enum sl_schema_level level)
{
    const struct sl_schema_key *row = NULL;

    while ((row = sl_schema_next(level, row)))
        if (row->when == SL_WHEN_MUST)
            return true;
    return false;
}

static void put_required(struct sl_writer *out, enum sl_schema_level level)
{
    const struct sl_schema_key *row = NULL;
    const char *before = ",\"required\":[";

    while ((row = sl_schema_next(level, row)))
        if (row->when == SL_WHEN_MUST) {
            sl_writer_addf(out, "%s\"%s\"", before, row->name);
            before = ",";
        }
    put(out, has_required(level) ? "]" : "");
}

/* The inside of the definition of a level. */
static void put_level(struct sl_writer *out, enum sl_schema_level level)
{
    const struct sl_schema_key *row = NULL, *any = sl_schema_any(level);
    bool first = true;

    /* A level without keys that must be there may be left empty. */
    put(out, has_required(level)
                 ? "\"type\":\"object\",\"description\":"
                 : "\"type\":[\"object\",\"null\"],\"description\":");
    put_string(out, sl_str_c(sl_schema_parts[level].meaning));
    put(out, ",\"properties\":{");
    while ((row = sl_schema_next(level, row)))
        if (row != any) {
            put_key(out, &first, row->name);
            put_row(out, row);
        }
    put(out, "},\"additionalProperties\":");
    if (any)
        put_row(out, any);
    else
        put(out, "false");
    put_required(out, level);
}

static void put_definitions(struct sl_writer *out)
{
    bool first = true;

    put(out, ",\"$defs\":{");
    for (unsigned t = 0; t < SL_TYPES; t++)
        if (has_definition((enum sl_schema_type)t)) {
            put_key(out, &first, sl_schema_kinds[t].name);
            put_type(out, (enum sl_schema_type)t);
        }
    for (unsigned l = SL_LEVEL_TOP + 1; l < SL_LEVELS; l++) {
        put_key(out, &first, sl_schema_parts[l].word);
        put(out, "{");
        put_level(out, (enum sl_schema_level)l);
        put(out, "}");
    }
    put(out, "}");
}

int sl_schema_json(struct sl_buf *ret)
{
    struct sl_writer out = {ret, 0};

    put(&out, "{\"$schema\":\"" DRAFT "\",\"$id\":\"urn:sluice:policy:1\","
              "\"title\":\"Sluice policy\",");
    put_level(&out, SL_LEVEL_TOP);
    put_definitions(&out);
    put(&out, "}\n");
    return out.err;
}

/* ---- the language as a page of the reference, in Markdown. */

static const char head[] =
    "# The policy file\n\n"
    "<!-- Printed from src/policy/schema.def; change that file instead, "
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
    "`${ENV:NAME:-text}` is the text if the variable is not set or empty.\n"
    "Write `$${` for a literal `${`. A string has at most 64 KB. Messages "
    "never show a\n"
    "substituted value.\n"
    "\n"
    "Keys marked *later* are reserved. This version refuses them.\n";

/* A text in a cell, where a bar would end it. */
static void put_cell(struct sl_writer *out, const char *text)
{
    for (const char *p = text; *p; p++) {
        if (*p == '|')
            put(out, "\\");
        sl_writer_add(out, (struct sl_str){p, 1});
    }
}

static void put_code(struct sl_writer *out, const char *text)
{
    put(out, "`");
    put_cell(out, text);
    put(out, "`");
}

static void page_put_row(struct sl_writer *out, const struct sl_schema_key *row)
{
    put(out, "| ");
    if (strcmp(row->name, "*") == 0)
        put(out, "*any other*");
    else
        put_code(out, row->name);
    put(out, " | ");
    put_words(out, row, "`", ", ");
    if (!row->words[0])
        put(out, sl_schema_kinds[row->type].name);
    put(out, row->type == SL_TYPE_CHOICES ? ", or a list of them | " : " | ");
    put_cell(out, row->meaning);
    put(out, row->when == SL_WHEN_MUST    ? " Required. | "
             : row->when == SL_WHEN_LATER ? " *Later.* | "
                                          : " | ");
    put_code(out, row->example);
    put(out, " |\n");
}

int sl_schema_page(struct sl_buf *ret)
{
    struct sl_writer out = {ret, 0};

    put(&out, head);
    for (unsigned l = 0; l < SL_LEVELS; l++) {
        const struct sl_schema_key *row = NULL;

        sl_writer_addf(&out,
                       "\n## %s\n\n%s\n\n| key | value | meaning | example "
                       "|\n|---|---|---|---|\n",
                       sl_schema_parts[l].title, sl_schema_parts[l].meaning);
        while ((row = sl_schema_next((enum sl_schema_level)l, row)))
            page_put_row(&out, row);
    }
    put(&out, "\n## Values\n\n| value | is |\n|---|---|\n");
    for (unsigned t = 0; t < SL_TYPES; t++) {
        sl_writer_addf(&out, "| %s | ", sl_schema_kinds[t].name);
        put_cell(&out, sl_schema_kinds[t].meaning);
        put(&out, " |\n");
    }
    return out.err;
}
