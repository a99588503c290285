/* schema.c -- the schema as JSON and as a page.
 *
 *     unit-policy-schema POLICY.md     the tests; the page must be that file
 *     unit-policy-schema page          print the page
 *     unit-policy-schema json          print the JSON Schema
 */
#include "policy/schema.h"

#include <stdlib.h>

#include "fail.h"
#include "problems.h"

typedef int print_f(struct sl_buf *out);

static char *print(print_f *print_it, size_t *len)
{
    struct sl_buf out;
    char *text;

    sl_buf_init(&out, 1 << 20, &sl_alloc_libc);
    CHECK_EQ(print_it(&out), 0);
    text = malloc(out.len + 1);
    memcpy(text, out.bytes, out.len);
    text[out.len] = '\0';
    *len = out.len;
    sl_buf_done(&out);
    return text;
}

static void test_page(const char *path)
{
    FILE *file = fopen(path, "r");
    size_t len, size = 0;
    char *text = print(sl_schema_page, &len), *kept = malloc(1 << 20);

    CASE("the page in docs/ is the one that is printed");
    if (CHECK(file != NULL)) {
        size = fread(kept, 1, 1 << 20, file);
        fclose(file);
    }
    CHECK(size == len && !memcmp(text, kept, len));
    CASE("it has every key, and none that comes later");
    for (unsigned i = 0; i < sl_schema_key_count; i++)
        CHECK(strstr(text, sl_schema_keys[i].example));
    CHECK(strstr(text, "| `backlog` |"));
    CHECK(!strstr(text, "*Later.* |"));
    free(kept);
    free(text);
}

/* The text at a path of keys, or NULL. */
static const char *at(const struct sl_yaml_node *node, const char *const *path)
{
    for (; node && *path; path++)
        node = sl_yaml_node_get(node, *path);
    return node && node->kind == SL_NODE_SCALAR ? node->text.at : NULL;
}

#define AT(...) at(r->root, (const char *const[]){__VA_ARGS__, NULL})

TEST(json)
{
    size_t len;
    char *text = print(sl_schema_json, &len);
    struct reading *r = malloc(sizeof(*r));

    /* JSON is YAML, so our own reader tells whether it is well-formed. */
    CASE("the JSON Schema is well-formed, and no key is there twice");
    read_it(r, (struct sl_str){text, len}, false);
    CHECK_STR(r->text, "");
    CHECK_STR(AT("$schema"), "https://json-schema.org/draft/2020-12/schema");
    CHECK_STR(AT("$id"), "urn:sluice:policy:1");

    CASE("it is strict where the language is");
    CHECK_STR(AT("additionalProperties"), "false");
    CHECK_STR(AT("$defs", "limit", "additionalProperties"), "false");
    CHECK_STR(AT("$defs", "limits", "additionalProperties", "$ref"),
              "#/$defs/limit");
    CHECK_STR(AT("$defs", "subjects", "additionalProperties"), "false");
    CHECK_STR(AT("$defs", "jwt", "additionalProperties"), "false");
    CHECK_STR(AT("$defs", "version", "const"), "1");
    CHECK(strstr(text, "\"required\":[\"sluice\"]"));
    CHECK(strstr(text, "\"required\":[\"kind\",\"rate\"]"));
    CHECK(strstr(text, "{\"enum\":[\"enforce\",\"shadow\",\"off\"]}"));

    CASE("keys carry their meaning");
    CHECK_STR(AT("properties", "sluice", "description"),
              "The version of the policy language.");
    read_done(r);
    free(r);
    free(text);
}

/* Every reference leads somewhere. */
TEST(references)
{
    size_t len;
    char *text = print(sl_schema_json, &len), *p = text;
    unsigned count = 0;

    CASE("every reference of the JSON Schema leads to a definition");
    while ((p = strstr(p, "\"#/$defs/"))) {
        char name[64], defined[80];

        p += strlen("\"#/$defs/");
        snprintf(name, sizeof(name), "%.*s", (int)strcspn(p, "\""), p);
        snprintf(defined, sizeof(defined), "\"%s\":{", name);
        CHECK(strstr(strstr(text, "\"$defs\":{"), defined));
        count++;
    }
    CHECK(count > 50);
    free(text);
}

/* A key that is not in the order of its level would never be printed. */
TEST(order)
{
    CASE("the print order of a level has each of its keys once");
    for (unsigned l = 0; l < SL_LEVELS; l++) {
        const char *rest = sl_schema_parts[l].order;
        const struct sl_schema_key *row = NULL;
        unsigned words = 0, rows = 0;

        if (!rest)
            continue;
        while (sl_schema_word(&rest).len > 0)
            words++;
        while ((row = sl_schema_next((enum sl_schema_level)l, row))) {
            struct sl_str word = {"", 0};

            rows++;
            rest = sl_schema_parts[l].order;
            do
                word = sl_schema_word(&rest);
            while (word.len > 0 && !sl_str_eq(word, sl_str_c(row->name)));
            CHECK(word.len > 0);
        }
        CHECK_EQ(words, rows);
    }
}

/* Each example, put where it belongs, must be accepted. */
TEST(examples)
{
    struct reading *r = malloc(sizeof(*r));

    for (unsigned i = 0; i < sl_schema_key_count; i++) {
        const struct sl_schema_key *row = &sl_schema_keys[i];
        char text[300];
        int len;

        if (row->when == SL_WHEN_LATER)
            continue;
        CASE(row->name);
        len =
            snprintf(text, sizeof(text), "%s: %s\n",
                     strcmp(row->name, "*") ? row->name : "any", row->example);
        read_it(r, (struct sl_str){text, (size_t)len}, false);
        if (CHECK(r->root != NULL))
            sl_schema_check_value(r->root->child, row, &r->report);
        for (unsigned k = 0; k < r->report.kept; k++)
            CHECK_STR(r->report.problems[k].diag.sentence, "");
        read_done(r);
    }
    free(r);
}

static void test_failures(print_f *print_it)
{
    bool printed = false;
    unsigned n;

    CASE("without memory or room the printers say so");
    for (n = 1; !printed; n++) {
        struct fail f = {.nth = n};
        struct sl_alloc alloc = fail_alloc(&f);
        struct sl_buf out;
        int err;

        sl_buf_init(&out, 1 << 20, &alloc);
        err = print_it(&out);
        printed = !err;
        CHECK(printed || err == SLUICE_ENOMEM);
        sl_buf_done(&out);
        sl_buf_init(&out, 100, &sl_alloc_libc);
        CHECK_EQ(print_it(&out), SLUICE_EFULL);
        sl_buf_done(&out);
        fail_check(&f);
    }
    CHECK(n > 4);
}

static int show(print_f *print_it)
{
    size_t len;
    char *text = print(print_it, &len);

    fwrite(text, 1, len, stdout);
    free(text);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc == 2 && !strcmp(argv[1], "page"))
        return show(sl_schema_page);
    if (argc == 2 && !strcmp(argv[1], "json"))
        return show(sl_schema_json);
    if (argc == 2)
        test_page(argv[1]);
    RUN_TESTS();
    test_failures(sl_schema_page);
    test_failures(sl_schema_json);
    return CHECK_DONE();
}
