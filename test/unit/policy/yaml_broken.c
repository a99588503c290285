/* yaml_broken.c -- what is not YAML, and what we say of it. */
#include "problems.h"
#include "row.h"

static const struct problem broken[] = {
    ROW("an open double quote",
        "a: \"open\n"
        "b: 1\n",
        "",
        "p.yaml:1:4: The string that begins here has no closing \". Close it, "
        "and indent its other lines\n"
        "  a: \"open\n"
        "     ^\n"),
    ROW("an open single quote",
        "a: 1\n"
        "b: 'open\n",
        "",
        "p.yaml:2:4: The string that begins here has no closing '. Close it, "
        "and indent its other lines\n"
        "  b: 'open\n"
        "     ^\n"),
    ROW("one in brackets", "a: ['b, c]\n", "",
        "p.yaml:1:5: The string that begins here has no closing '. Close it, "
        "and indent its other lines\n"
        "  a: ['b, c]\n"
        "      ^\n"),
    ROW("an open bracket",
        "a: [1, 2\n"
        "b: 3\n",
        "",
        "p.yaml:1:4: This \"[\" is never closed. Add a \"]\"\n"
        "  a: [1, 2\n"
        "     ^\n"),
    ROW("an open brace",
        "a: {x: 1\n"
        "b: 3\n",
        "",
        "p.yaml:2:2: Missing comma or \"}\" before this. The \"{\" is on line "
        "1, column 4\n"
        "  b: 3\n"
        "   ^\n"),
    ROW("an open brace at the end",
        "{a: 1,\n"
        " b: 2\n",
        "",
        "p.yaml:1:1: This \"{\" is never closed. Add a \"}\"\n"
        "  {a: 1,\n"
        "  ^\n"),
    ROW("a bracket for a brace", "a: {b: c]\n", "",
        "p.yaml:1:9: Missing comma or \"}\" before this. The \"{\" is on line "
        "1, column 4\n"
        "  a: {b: c]\n"
        "          ^\n"),
    ROW("a missing comma", "a: [b c, \"d\" e]\n", "",
        "p.yaml:1:14: Missing comma or \"]\" before this. The \"[\" is on "
        "line 1, column 4\n"
        "  a: [b c, \"d\" e]\n"
        "               ^\n"),
    ROW("a tab that indents",
        "a:\n"
        "\tb: 1\n",
        "",
        "p.yaml:2:1: A tab cannot indent a line in YAML. Use spaces\n"
        "  \tb: 1\n"
        "  ^\n"),
    ROW("one behind blanks",
        "a:\n"
        "  \tb: 1\n"
        "  c: 2\n",
        "",
        "p.yaml:2:3: A tab cannot indent a line in YAML. Use spaces\n"
        "    \tb: 1\n"
        "    ^\n"),
    ROW("a text that is indented by nothing",
        "a: 1\n"
        "b: >-0\n"
        "  c\n",
        "",
        "p.yaml:2:4: A text after \"|\" or \">\" is indented by 1 to 9, not "
        "by 0. Leave the number out\n"
        "  b: >-0\n"
        "     ^\n"),
    ROW("too little indentation",
        "a:\n"
        "  b: 1\n"
        " c: 2\n",
        "",
        "p.yaml:3:2: Wrong indentation. Begin this line in the same column as "
        "the keys or items beside it\n"
        "   c: 2\n"
        "   ^\n"),
    ROW("too much",
        "a: 1\n"
        "  b: 2\n",
        "",
        "p.yaml:1:4: Missing colon and space here, or a line below is "
        "indented too far\n"
        "  a: 1\n"
        "     ^\n"),
    ROW("a missing colon",
        "a 1\n"
        "b: 2\n",
        "",
        "p.yaml:1:1: Missing colon and space here, or a line below is "
        "indented too far\n"
        "  a 1\n"
        "  ^\n"),
    ROW("a missing blank behind the colon",
        "a: 1\n"
        "b:2\n"
        "c: 3\n",
        "",
        "p.yaml:2:1: Expected a key with a colon and a space here, as in "
        "\"kind: quota\"\n"
        "  b:2\n"
        "  ^\n"),
    ROW("a colon in a text", "message: You have: x\n", "",
        "p.yaml:1:18: Second colon and space in one line. Put a text with \": "
        "\" in quotes, or begin a map on its own line\n"
        "  message: You have: x\n"
        "                   ^\n"
        "  write: message: \"You have: x\"\n"),
    ROW("one where quotes are already", "message: You have: \"x\"\n", "",
        "p.yaml:1:18: Second colon and space in one line. Put a text with \": "
        "\" in quotes, or begin a map on its own line\n"
        "  message: You have: \"x\"\n"
        "                   ^\n"),
    ROW("a letter that YAML keeps for itself", "a: @x\n", "",
        "p.yaml:1:4: A text cannot begin with \"@\". Put it in quotes\n"
        "  a: @x\n"
        "     ^\n"),
    ROW("another", "a: %x\n", "",
        "p.yaml:1:4: A text cannot begin with \"%\". Put it in quotes\n"
        "  a: %x\n"
        "     ^\n"),
    ROW("a star that is no alias", "a: * x\n", "",
        "p.yaml:1:5: A policy has no anchors, aliases or tags. Put a text "
        "that begins with \"&\", \"*\" or \"!\" in quotes\n"
        "  a: * x\n"
        "      ^\n"),
    ROW("a bracket that closes nothing", "a: ]\n", "",
        "p.yaml:1:4: This \"]\" closes nothing. Remove it, or put the text in "
        "quotes\n"
        "  a: ]\n"
        "     ^\n"),
    ROW("a brace too many", "a: {b: c}}\n", "",
        "p.yaml:1:10: This \"}\" closes nothing. Remove it, or put the text "
        "in quotes\n"
        "  a: {b: c}}\n"
        "           ^\n"),
    ROW("two commas", "a: [b, , c]\n", "",
        "p.yaml:1:8: There is nothing between these commas. Remove one\n"
        "  a: [b, , c]\n"
        "         ^\n"),
    ROW("a comma alone", "a: , b\n", "",
        "p.yaml:1:4: Expected a value here. If this is text, put it in "
        "quotes\n"
        "  a: , b\n"
        "     ^\n"),
    ROW("text behind quotes", "a: \"x\" y\n", "",
        "p.yaml:1:8: Unexpected text after the value. Put all of it in one "
        "pair of quotes, or remove it\n"
        "  a: \"x\" y\n"
        "         ^\n"),
    ROW("text behind brackets", "a: [x] y\n", "",
        "p.yaml:1:8: Unexpected text after the value. Put all of it in one "
        "pair of quotes, or remove it\n"
        "  a: [x] y\n"
        "         ^\n"),
    ROW("an escape that does not exist", "a: \"\\q\"\n", "",
        "p.yaml:1:5: Unknown escape after the backslash. Write \"\\\\\" for a "
        "backslash, or use single quotes\n"
        "  a: \"\\q\"\n"
        "      ^\n"),
    ROW("a dash in the line of its key", "a: - b\n", "",
        "p.yaml:1:4: A list with dashes must begin on its own line. On one "
        "line, write [a, b]\n"
        "  a: - b\n"
        "     ^\n"),
    ROW("a key among items",
        "- a\n"
        "b: c\n",
        "",
        "p.yaml:2:1: The items of the list above begin with \"- \". This line "
        "does not\n"
        "  b: c\n"
        "  ^\n"),
    ROW("an item among keys",
        "a: 1\n"
        "- b\n",
        "",
        "p.yaml:2:1: Expected a key with a colon and a space here, as in "
        "\"kind: quota\"\n"
        "  - b\n"
        "  ^\n"),
    ROW("text in the line of a bar",
        "a: |x\n"
        " b\n",
        "",
        "p.yaml:1:5: A text after \"|\" or \">\" must begin on the next line, "
        "indented more than its key\n"
        "  a: |x\n"
        "      ^\n"),
    ROW("a comment without a blank", "a: \"b\"#c\n", "",
        "p.yaml:1:7: A comment needs a space before its \"#\". Put a text "
        "with \"#\" in quotes\n"
        "  a: \"b\"#c\n"
        "        ^\n"),
    ROW("characters count, not bytes", "\xc3\xa9: \"\xc3\xa9\" \xc3\xbc\n", "",
        "p.yaml:1:10: Unexpected text after the value. Put all of it in one "
        "pair of quotes, or remove it\n"
        "  \xc3\xa9: \"\xc3\xa9\" \xc3\xbc\n"
        "         ^\n"),
    ROW("what was read before is told too",
        "a: 1\n"
        "a: 2\n"
        "b: [\n",
        "",
        "p.yaml:2:1: Duplicate key \"a\". The first one is on line 1, column "
        "1\n"
        "  a: 2\n"
        "  ^\n"
        "p.yaml:3:4: This \"[\" is never closed. Add a \"]\"\n"
        "  b: [\n"
        "     ^\n"),
};

int main(void)
{
    check_problems(broken, SL_LEN(broken), false);
    return CHECK_DONE();
}
