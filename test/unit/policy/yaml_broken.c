/* yaml_broken.c -- what is not YAML, and what we say of it. */
#include "problems.h"
#include "row.h"

static const struct problem broken[] = {
    ROW("an open double quote",
        "a: \"open\n"
        "b: 1\n",
        "",
        "p.yaml:1:4: the string that begins here has no closing \"; close it, "
        "and indent the lines in which it goes on\n"
        "  a: \"open\n"
        "     ^\n"),
    ROW("an open single quote",
        "a: 1\n"
        "b: 'open\n",
        "",
        "p.yaml:2:4: the string that begins here has no closing '; close it, "
        "and indent the lines in which it goes on\n"
        "  b: 'open\n"
        "     ^\n"),
    ROW("one in brackets", "a: ['b, c]\n", "",
        "p.yaml:1:5: the string that begins here has no closing '; close it, "
        "and indent the lines in which it goes on\n"
        "  a: ['b, c]\n"
        "      ^\n"),
    ROW("an open bracket",
        "a: [1, 2\n"
        "b: 3\n",
        "",
        "p.yaml:1:4: the \"[\" here is never closed; a \"]\" is missing\n"
        "  a: [1, 2\n"
        "     ^\n"),
    ROW("an open brace",
        "a: {x: 1\n"
        "b: 3\n",
        "",
        "p.yaml:2:2: a comma or \"}\" is missing before this; the \"{\" is on "
        "line 1, column 4\n"
        "  b: 3\n"
        "   ^\n"),
    ROW("an open brace at the end",
        "{a: 1,\n"
        " b: 2\n",
        "",
        "p.yaml:1:1: the \"{\" here is never closed; a \"}\" is missing\n"
        "  {a: 1,\n"
        "  ^\n"),
    ROW("a bracket for a brace", "a: {b: c]\n", "",
        "p.yaml:1:9: a comma or \"}\" is missing before this; the \"{\" is on "
        "line 1, column 4\n"
        "  a: {b: c]\n"
        "          ^\n"),
    ROW("a missing comma", "a: [b c, \"d\" e]\n", "",
        "p.yaml:1:14: a comma or \"]\" is missing before this; the \"[\" is on "
        "line 1, column 4\n"
        "  a: [b c, \"d\" e]\n"
        "               ^\n"),
    ROW("a tab that indents",
        "a:\n"
        "\tb: 1\n",
        "",
        "p.yaml:2:1: a tab can't indent a line in YAML; use spaces\n"
        "  \tb: 1\n"
        "  ^\n"),
    ROW("one behind blanks",
        "a:\n"
        "  \tb: 1\n"
        "  c: 2\n",
        "",
        "p.yaml:2:3: a tab can't indent a line in YAML; use spaces\n"
        "    \tb: 1\n"
        "    ^\n"),
    ROW("a text that is indented by nothing",
        "a: 1\n"
        "b: >-0\n"
        "  c\n",
        "",
        "p.yaml:2:4: a text after \"|\" or \">\" is indented by 1 to 9, not "
        "by 0; leave the number out\n"
        "  b: >-0\n"
        "     ^\n"),
    ROW("too little indentation",
        "a:\n"
        "  b: 1\n"
        " c: 2\n",
        "",
        "p.yaml:3:2: this is indented unlike anything above it; begin it in "
        "the same column as what it stands beside\n"
        "   c: 2\n"
        "   ^\n"),
    ROW("too much",
        "a: 1\n"
        "  b: 2\n",
        "",
        "p.yaml:1:4: this runs into the key on a line below; is a colon with a "
        "blank behind it missing here, or is that line indented too far?\n"
        "  a: 1\n"
        "     ^\n"),
    ROW("a missing colon",
        "a 1\n"
        "b: 2\n",
        "",
        "p.yaml:1:1: this runs into the key on a line below; is a colon with a "
        "blank behind it missing here, or is that line indented too far?\n"
        "  a 1\n"
        "  ^\n"),
    ROW("a missing blank behind the colon",
        "a: 1\n"
        "b:2\n"
        "c: 3\n",
        "",
        "p.yaml:2:1: a key with a colon and a blank is expected here, as in "
        "\"kind: quota\"\n"
        "  b:2\n"
        "  ^\n"),
    ROW("a colon in a text", "message: You have: x\n", "",
        "p.yaml:1:18: a second colon with a blank behind it; put a text with "
        "\": \" in quotes, or begin a map on its own line\n"
        "  message: You have: x\n"
        "                   ^\n"
        "  write: message: \"You have: x\"\n"),
    ROW("one where quotes are already", "message: You have: \"x\"\n", "",
        "p.yaml:1:18: a second colon with a blank behind it; put a text with "
        "\": \" in quotes, or begin a map on its own line\n"
        "  message: You have: \"x\"\n"
        "                   ^\n"),
    ROW("a letter that YAML keeps for itself", "a: @x\n", "",
        "p.yaml:1:4: a text can't begin with \"@\"; put it in quotes\n"
        "  a: @x\n"
        "     ^\n"),
    ROW("another", "a: %x\n", "",
        "p.yaml:1:4: a text can't begin with \"%\"; put it in quotes\n"
        "  a: %x\n"
        "     ^\n"),
    ROW("a star that is no alias", "a: * x\n", "",
        "p.yaml:1:5: a policy has no anchors, aliases or tags; put a text that "
        "begins with \"&\", \"*\" or \"!\" in quotes\n"
        "  a: * x\n"
        "      ^\n"),
    ROW("a bracket that closes nothing", "a: ]\n", "",
        "p.yaml:1:4: this \"]\" closes nothing; remove it, or put the text in "
        "quotes\n"
        "  a: ]\n"
        "     ^\n"),
    ROW("a brace too many", "a: {b: c}}\n", "",
        "p.yaml:1:10: this \"}\" closes nothing; remove it, or put the text in "
        "quotes\n"
        "  a: {b: c}}\n"
        "           ^\n"),
    ROW("two commas", "a: [b, , c]\n", "",
        "p.yaml:1:8: there is nothing between these commas; remove one\n"
        "  a: [b, , c]\n"
        "         ^\n"),
    ROW("a comma alone", "a: , b\n", "",
        "p.yaml:1:4: a value is expected here; if this is meant as text, put "
        "it in quotes\n"
        "  a: , b\n"
        "     ^\n"),
    ROW("text behind quotes", "a: \"x\" y\n", "",
        "p.yaml:1:8: this is left over behind the value; put all of it in one "
        "pair of quotes, or remove it\n"
        "  a: \"x\" y\n"
        "         ^\n"),
    ROW("text behind brackets", "a: [x] y\n", "",
        "p.yaml:1:8: this is left over behind the value; put all of it in one "
        "pair of quotes, or remove it\n"
        "  a: [x] y\n"
        "         ^\n"),
    ROW("an escape that does not exist", "a: \"\\q\"\n", "",
        "p.yaml:1:5: the backslash here begins no escape that YAML knows; "
        "write \"\\\\\" for a backslash, or use single quotes\n"
        "  a: \"\\q\"\n"
        "      ^\n"),
    ROW("a dash in the line of its key", "a: - b\n", "",
        "p.yaml:1:4: a list with dashes begins on a line of its own; on one "
        "line, write [a, b]\n"
        "  a: - b\n"
        "     ^\n"),
    ROW("a key among items",
        "- a\n"
        "b: c\n",
        "",
        "p.yaml:2:1: the items of the list above begin with \"- \"; this line "
        "does not\n"
        "  b: c\n"
        "  ^\n"),
    ROW("an item among keys",
        "a: 1\n"
        "- b\n",
        "",
        "p.yaml:2:1: a key with a colon and a blank is expected here, as in "
        "\"kind: quota\"\n"
        "  - b\n"
        "  ^\n"),
    ROW("text in the line of a bar",
        "a: |x\n"
        " b\n",
        "",
        "p.yaml:1:5: a text after \"|\" or \">\" begins on the next line, "
        "indented deeper than its key\n"
        "  a: |x\n"
        "      ^\n"),
    ROW("a comment without a blank", "a: \"b\"#c\n", "",
        "p.yaml:1:7: a comment needs a blank before its \"#\"; a text with "
        "\"#\" in it is put in quotes\n"
        "  a: \"b\"#c\n"
        "        ^\n"),
    ROW("characters count, not bytes", "\xc3\xa9: \"\xc3\xa9\" \xc3\xbc\n", "",
        "p.yaml:1:10: this is left over behind the value; put all of it in one "
        "pair of quotes, or remove it\n"
        "  \xc3\xa9: \"\xc3\xa9\" \xc3\xbc\n"
        "         ^\n"),
    ROW("what was read before is told too",
        "a: 1\n"
        "a: 2\n"
        "b: [\n",
        "",
        "p.yaml:2:1: the key \"a\" is here a second time; the first is on line "
        "1, column 1\n"
        "  a: 2\n"
        "  ^\n"
        "p.yaml:3:4: the \"[\" here is never closed; a \"]\" is missing\n"
        "  b: [\n"
        "     ^\n"),
};

int main(void)
{
    check_problems(broken, SL_LEN(broken), false);
    return CHECK_DONE();
}
