/* yaml.c -- text to nodes: what is read, and what is refused. */
#include "policy/yaml.h"

#include "problems.h"
#include "row.h"

static const struct problem good[] = {
    ROW("nothing", "", "{}", ""),
    ROW("a comment alone", "# nothing\n", "{}", ""),
    ROW("an empty document", "---\n", "{}", ""),
    ROW("scalars are texts",
        "a: 1\n"
        "b: true\n"
        "c: 12:30\n"
        "d: \"x\"\n"
        "e: 'y'\n",
        "{a: 1, b: true, c: 12:30, d: 'x', e: 'y'}", ""),
    ROW("empty values",
        "a:\n"
        "b: ~\n"
        "c: null\n"
        "d: \"\"\n"
        "e: Null\n",
        "{a: ~, b: ~, c: ~, d: '', e: Null}", ""),
    ROW("lists and maps, in blocks and in line",
        "a:\n"
        "  - x\n"
        "  -\n"
        "  - {b: [c, d], e: }\n"
        "f: []\n",
        "{a: [x, ~, {b: [c, d], e: ~}], f: []}", ""),
    ROW("a map in a list in line", "a: [b: c]\n", "{a: [{b: c}]}", ""),
    ROW("brackets may close at the left edge",
        "a: [\n"
        "  b\n"
        "]\n"
        "c: {\n"
        "  d: e\n"
        "}\n",
        "{a: [b], c: {d: e}}", ""),
    ROW("texts over several lines",
        "a: |\n"
        "  x\n"
        "  y\n"
        "b: >-\n"
        "  x\n"
        "  y\n"
        "c: \"x\n"
        "  y\"\n"
        "d: x\n"
        "  y\n",
        "{a: 'x|y|', b: 'x y', c: 'x y', d: x y}", ""),
    ROW("line ends of two bytes",
        "a: 1\r\n"
        "b:\r\n"
        "  - c\r\n",
        "{a: 1, b: [c]}", ""),
    ROW("a byte order mark at the start",
        "\xef\xbb\xbf"
        "a: 1\n",
        "{a: 1}", ""),
    ROW("tabs between, and behind",
        "a:\t1 \t\n"
        "\t\n"
        "b: \"\t\"\n",
        "{a: 1, b: '\t'}", ""),
    ROW("letters of any language",
        "\xc3\xa9: \xc3\xbc \xe6\x97\xa5\xe6\x9c\xac\n",
        "{\xc3\xa9: \xc3\xbc \xe6\x97\xa5\xe6\x9c\xac}", ""),
    ROW("quotes in single quotes",
        "a: ''''''''''''\n"
        "'b''c': ['', '''', 'it''s', '  x  ']\n",
        "{a: ''''''', b'c: ['', ''', 'it's', '  x  ']}", ""),
    ROW("and line ends in them",
        "a: 'x  \n"
        "  y\n"
        "\n"
        "  z''\n"
        "  '\n"
        "b: 'x\r\n"
        "\r\n"
        "  y'\n"
        "c: '\n"
        "  x'\n",
        "{a: 'x y|z' ', b: 'x|y', c: ' x'}", ""),
    ROW("escapes", "a: \"\\u00e9\\n\\\"\\x41\"\n", "{a: '\xc3\xa9|\"A'}", ""),
    ROW("keys in quotes, and with a question mark",
        "\"a\": 1\n"
        "? b\n"
        ": 2\n",
        "{a: 1, b: 2}", ""),
    ROW("the end of a document",
        "---\n"
        "a: 1\n"
        "...\n",
        "{a: 1}", ""),
    ROW("a scalar alone", "foo", "foo", ""),
    ROW("a list alone",
        "- a\n"
        "- b\n",
        "[a, b]", ""),
};

static const struct problem dirty[] = {
    ROW("a control character", "a: b\x01\n", "",
        "p.yaml:1:5: Found the control character U+0001. A policy must be "
        "plain text in UTF-8\n"
        "  a: b?\n"
        "      ^\n"),
    ROW("one of eight bits", "a: \xc2\x85\n", "",
        "p.yaml:1:4: Found the control character U+0085. A policy must be "
        "plain text in UTF-8\n"
        "  a: ??\n"
        "     ^\n"),
    ROW("an escape character", "a: \x1b[31m\n", "",
        "p.yaml:1:4: Found the control character U+001B. A policy must be "
        "plain text in UTF-8\n"
        "  a: ?[31m\n"
        "     ^\n"),
    ROW("a byte that begins nothing", "a: \xff\n", "",
        "p.yaml:1:4: Found the byte 0xFF, which is not UTF-8. A policy must "
        "be plain text in UTF-8\n"
        "  a: ?\n"
        "     ^\n"),
    ROW("a character cut short", "a: \xe2\x82", "",
        "p.yaml:1:4: Found the byte 0xE2, which is not UTF-8. A policy must "
        "be plain text in UTF-8\n"
        "  a: ??\n"
        "     ^\n"),
    ROW("one that is longer than needed", "a: \xc0\xaf\n", "",
        "p.yaml:1:4: Found the byte 0xC0, which is not UTF-8. A policy must "
        "be plain text in UTF-8\n"
        "  a: ??\n"
        "     ^\n"),
    ROW("half of a pair", "a: \xed\xa0\x80\n", "",
        "p.yaml:1:4: Found the byte 0xED, which is not UTF-8. A policy must "
        "be plain text in UTF-8\n"
        "  a: ???\n"
        "     ^\n"),
    ROW("UTF-16",
        "\xff\xfe"
        "a\n",
        "",
        "p.yaml:1:1: The file is UTF-16. Save it as UTF-8\n"
        "  ??a\n"
        "  ^\n"),
    ROW("a return alone", "a: 1\rb: 2\n", "",
        "p.yaml:1:5: Found a carriage return without a newline. A policy must "
        "be plain text in UTF-8\n"
        "  a: 1?b: 2\n"
        "      ^\n"),
    ROW("a byte order mark in the middle",
        "a: 1\n"
        "\xef\xbb\xbf"
        "b: 2\n",
        "",
        "p.yaml:2:1: Found a byte order mark (U+FEFF). A policy must be plain "
        "text in UTF-8\n"
        "  \xef\xbb\xbf"
        "b: 2\n"
        "  ^\n"),
    ROW("places count bytes behind the mark",
        "\xef\xbb\xbf"
        "a: \xc3\xa9 \x01\n",
        "",
        "p.yaml:1:7: Found the control character U+0001. A policy must be "
        "plain text in UTF-8\n"
        "  a: \xc3\xa9 ?\n"
        "       ^\n"),
    ROW("a directive",
        "%YAML 1.1\n"
        "---\n"
        "a: 1\n",
        "",
        "p.yaml:1:1: A policy has no YAML directives. Remove this line\n"
        "  %YAML 1.1\n"
        "  ^\n"),
};

static const struct problem refused[] = {
    ROW("an anchor and an alias",
        "a: &x 1\n"
        "b: *x\n"
        "c: {}\n",
        "{a: 1, b: !, c: {}}",
        "p.yaml:1:4: A policy has no anchors. Repeat the value where it is "
        "needed\n"
        "  a: &x 1\n"
        "     ^\n"
        "p.yaml:2:4: A policy has no aliases. Repeat the value here\n"
        "  b: *x\n"
        "     ^\n"),
    ROW("of a map and a list",
        "a: &x {b: c}\n"
        "d: &y\n"
        "  - 1\n",
        "{a: {b: c}, d: [1]}",
        "p.yaml:1:4: A policy has no anchors. Repeat the value where it is "
        "needed\n"
        "  a: &x {b: c}\n"
        "     ^\n"
        "p.yaml:2:4: A policy has no anchors. Repeat the value where it is "
        "needed\n"
        "  d: &y\n"
        "     ^\n"),
    ROW("a tag",
        "a: !!str 1\n"
        "b: !x\n",
        "{a: 1, b: ~}",
        "p.yaml:1:4: A policy has no tags. Put the text in quotes\n"
        "  a: !!str 1\n"
        "     ^\n"
        "p.yaml:2:4: A policy has no tags. Put the text in quotes\n"
        "  b: !x\n"
        "     ^\n"),
    ROW("an alias for a key",
        "*x : 1\n"
        "b: 2\n",
        "{b: 2}",
        "p.yaml:1:1: A policy has no aliases. Repeat the value here\n"
        "  *x : 1\n"
        "  ^\n"),
    ROW("a merge key", "a: {<<: {b: 1}, c: 2}\n", "{a: {c: 2}}",
        "p.yaml:1:5: A policy has no merge keys. Write the keys out\n"
        "  a: {<<: {b: 1}, c: 2}\n"
        "      ^\n"),
    ROW("a second document",
        "a: 1\n"
        "---\n"
        "b: 2\n",
        "{a: 1}",
        "p.yaml:2:1: A second document begins here. A policy must be one "
        "document\n"
        "  ---\n"
        "  ^\n"),
    ROW("a third is not looked at",
        "---\n"
        "---\n"
        "---\n",
        "{}",
        "p.yaml:2:1: A second document begins here. A policy must be one "
        "document\n"
        "  ---\n"
        "  ^\n"),
    ROW("keys that are no texts",
        "[1, 2]: 3\n"
        "{a: b}: 4\n"
        "? - x\n"
        ": 5\n"
        "d: 6\n",
        "{d: 6}",
        "p.yaml:1:1: A key must be a text, not a list or a map\n"
        "  [1, 2]: 3\n"
        "  ^\n"
        "p.yaml:2:1: A key must be a text, not a list or a map\n"
        "  {a: b}: 4\n"
        "  ^\n"
        "p.yaml:3:3: A key must be a text, not a list or a map\n"
        "  ? - x\n"
        "    ^\n"),
    ROW("a key that is missing",
        ": x\n"
        "b: {: y}\n"
        "\"\": z\n",
        "{b: {}}",
        "p.yaml:1:1: Missing key before the colon\n"
        "  : x\n"
        "  ^\n"
        "p.yaml:2:5: Missing key before the colon\n"
        "  b: {: y}\n"
        "      ^\n"
        "p.yaml:3:1: Missing key before the colon\n"
        "  \"\": z\n"
        "  ^\n"),
    ROW("a key with a control character",
        "\"a\\tb\": 1\n"
        "\"a\\u0001\": 2\n",
        "{}",
        "p.yaml:1:1: A key must be on one line, without control characters\n"
        "  \"a\\tb\": 1\n"
        "  ^\n"
        "p.yaml:2:1: A key must be on one line, without control characters\n"
        "  \"a\\u0001\": 2\n"
        "  ^\n"),
    ROW("the same key twice",
        "a: 1\n"
        "b: 2\n"
        "a: 3\n",
        "{a: 1, b: 2}",
        "p.yaml:3:1: Duplicate key \"a\". The first one is on line 1, column "
        "1\n"
        "  a: 3\n"
        "  ^\n"),
    ROW("and a third time, at another depth",
        "x:\n"
        "  a: 1\n"
        "  a: 2\n"
        "  b: 0\n"
        "  a: {a: 1, \"a\": 2}\n",
        "{x: {a: 1, b: 0}}",
        "p.yaml:3:3: Duplicate key \"a\". The first one is on line 2, column "
        "3\n"
        "    a: 2\n"
        "    ^\n"
        "p.yaml:5:3: Duplicate key \"a\". The first one is on line 2, column "
        "3\n"
        "    a: {a: 1, \"a\": 2}\n"
        "    ^\n"
        "p.yaml:5:13: Duplicate key \"a\". The first one is on line 5, column "
        "7\n"
        "    a: {a: 1, \"a\": 2}\n"
        "              ^\n"),
    ROW("control characters by escapes",
        "a: \"\\0\"\n"
        "b: \"\\x1b\"\n"
        "c: \"\\ufeff\"\n"
        "d: 1\n",
        "{a: !, b: !, c: !, d: 1}",
        "p.yaml:1:4: This string contains a NUL byte, written as an escape. A "
        "policy must be plain text\n"
        "  a: \"\\0\"\n"
        "     ^\n"
        "p.yaml:2:4: This string contains the control character U+001B, "
        "written as an escape. A policy must be plain text\n"
        "  b: \"\\x1b\"\n"
        "     ^\n"
        "p.yaml:3:4: This string contains a byte order mark (U+FEFF), written "
        "as an escape. A policy must be plain text\n"
        "  c: \"\\ufeff\"\n"
        "     ^\n"),
};

static void test_places(void)
{
    static const char text[] = "a: \"x\"\n"
                               "\xc3\xa9: \xc3\xbc\n"
                               "b: # |\n"
                               "  |\n"
                               "  text\n"
                               "c:\n"
                               "d: [x: y]\n"
                               "e:\n"
                               "  - f: 1\n"
                               "    g: 'z'\n";
    static const struct {
        const char *why, *key;
        unsigned line, column, key_line, key_column;
    } rows[] = {
        {"a string begins at its quote",      "a",        1, 4, 1, 1},
        {"columns count bytes",               "\xc3\xa9", 2, 5, 2, 1},
        {"a block begins at its bar",         "b",        4, 3, 3, 1},
        {"nothing is where its key is",       "c",        6, 1, 6, 1},
        {"a list in line at its bracket",     "d",        7, 4, 7, 1},
        {"a list in lines at its first dash", "e",        9, 3, 8, 1},
    };
    struct reading *r = malloc(sizeof(*r));
    struct sl_yaml_node *node;

    read_it(r, (struct sl_str){text, sizeof(text) - 1}, false);
    for (size_t i = 0; i < SL_LEN(rows); i++) {
        CASE(rows[i].why);
        node = sl_yaml_node_get(r->root, rows[i].key);
        CHECK_EQ(node->place.line, rows[i].line);
        CHECK_EQ(node->place.column, rows[i].column);
        CHECK_EQ(node->key_place.line, rows[i].key_line);
        CHECK_EQ(node->key_place.column, rows[i].key_column);
    }
    CASE("a map in a list begins at its first key");
    node = sl_yaml_node_get(r->root, "d")->child;
    CHECK_EQ(node->place.column, 5);
    CHECK_STR(node->child->key.at, "x");
    CASE("what is not there is NULL");
    CHECK(!sl_yaml_node_get(r->root, "z"));
    CHECK(!sl_yaml_node_get(NULL, "a"));
    CHECK(!sl_yaml_node_get(node->child, "a"));
    read_done(r);
    free(r);
}

int main(void)
{
    check_problems(good, SL_LEN(good), false);
    check_problems(dirty, SL_LEN(dirty), false);
    check_problems(refused, SL_LEN(refused), false);
    test_places();
    return CHECK_DONE();
}
