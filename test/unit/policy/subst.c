/* subst.c -- ${ENV:NAME} and ${FILE:path}. */
#include "policy/yaml.h"

#include "problems.h"
#include "row.h"

static const struct problem rows[] = {
    ROW("a variable, a file",
        "a: \"${ENV:TOKEN}\"\n"
        "b: '<${FILE:./token}>'\n",
        "{a: 's3cret', b: '<s3cret>'}", ""),
    ROW("several, and none",
        "a: \"${ENV:TOKEN}${ENV:NOTHING}-${ENV:TOKEN}\"\n"
        "b: \"$ {} $\"\n",
        "{a: 's3cret-s3cret', b: '$ {} $'}", ""),
    ROW("a dollar that means itself", "a: \"$${ENV:TOKEN} $$ $${\"\n",
        "{a: '${ENV:TOKEN} $$ ${'}", ""),
    ROW("one line end at the end of a file goes",
        "a: \"${FILE:./crlf}|${FILE:./two}|${FILE:./empty}\"\n",
        "{a: 's3cret|a||'}", ""),
    ROW("in a text over several lines",
        "a: |\n"
        "  ${ENV:TOKEN}\n",
        "{a: 's3cret|'}", ""),
    ROW("never without quotes",
        "a: ${ENV:TOKEN}\n"
        "b: x ${FILE:./token}\n"
        "c: ${x}\n",
        "{a: !, b: !, c: ${x}}",
        "p.yaml:1:4: \"${...}\" is replaced only in quotes\n"
        "  a: ${ENV:TOKEN}\n"
        "     ^\n"
        "  write: \"${ENV:TOKEN}\"\n"
        "p.yaml:2:4: \"${...}\" is replaced only in quotes\n"
        "  b: x ${FILE:./token}\n"
        "     ^\n"
        "  write: \"x ${FILE:./token}\"\n"),
    ROW("never in a key", "\"${ENV:TOKEN}\": 1\n", "{${ENV:TOKEN}: 1}", ""),
    ROW("unknown ones are all named",
        "a: \"${ENV:NO} ${FILE:./no} ${ENV:NEITHER}\"\n"
        "b: \"x ${ENV:NO}\"\n",
        "{a: !, b: !}",
        "p.yaml:1:5: Environment variable \"NO\" is not set\n"
        "  a: \"${ENV:NO} ${FILE:./no} ${ENV:NEITHER}\"\n"
        "      ^\n"
        "p.yaml:1:15: Cannot substitute file \"./no\": there is no such file\n"
        "  a: \"${ENV:NO} ${FILE:./no} ${ENV:NEITHER}\"\n"
        "                ^\n"
        "p.yaml:1:28: Environment variable \"NEITHER\" is not set\n"
        "  a: \"${ENV:NO} ${FILE:./no} ${ENV:NEITHER}\"\n"
        "                             ^\n"
        "p.yaml:2:7: Environment variable \"NO\" is not set\n"
        "  b: \"x ${ENV:NO}\"\n"
        "        ^\n"),
    ROW("what is neither",
        "a: \"${TOKEN}\"\n"
        "b: \"${env:TOKEN}\"\n"
        "c: \"${}\"\n",
        "{a: !, b: !, c: !}",
        "p.yaml:1:5: Unknown substitution \"${TOKEN}\". Write ${ENV:NAME} or "
        "${FILE:path}. Write \"$${\" for a literal \"${\"\n"
        "  a: \"${TOKEN}\"\n"
        "      ^\n"
        "  write: ${ENV:TOKEN}\n"
        "p.yaml:2:5: Unknown substitution \"${env:TOKEN}\". Write ${ENV:NAME} "
        "or ${FILE:path}. "
        "Write \"$${\" for a literal \"${\"\n"
        "  b: \"${env:TOKEN}\"\n"
        "      ^\n"
        "p.yaml:3:5: Unknown substitution \"${}\". Write ${ENV:NAME} or "
        "${FILE:path}. Write "
        "\"$${\" for a literal \"${\"\n"
        "  c: \"${}\"\n"
        "      ^\n"),
    ROW("what has no end", "a: \"x ${ENV:TOKEN\"\n", "{a: !}",
        "p.yaml:1:7: Missing \"}\" after \"${\". Write ${ENV:NAME} or "
        "${FILE:path}. Write \"$${\" for a literal \"${\"\n"
        "  a: \"x ${ENV:TOKEN\"\n"
        "        ^\n"),
    ROW("names that can't be",
        "a: \"${ENV:A-B}\"\n"
        "b: \"${ENV:}\"\n"
        "c: \"${ENV:1}\"\n"
        "d: \"${FILE:}\"\n",
        "{a: !, b: !, c: !, d: !}",
        "p.yaml:1:5: Invalid environment variable name \"A-B\". Use letters, "
        "digits and \"_\", as in ${ENV:API_TOKEN}\n"
        "  a: \"${ENV:A-B}\"\n"
        "      ^\n"
        "p.yaml:2:5: Invalid environment variable name \"\". Use letters, "
        "digits and \"_\", as in ${ENV:API_TOKEN}\n"
        "  b: \"${ENV:}\"\n"
        "      ^\n"
        "p.yaml:3:5: Invalid environment variable name \"1\". Use letters, "
        "digits and \"_\", as in ${ENV:API_TOKEN}\n"
        "  c: \"${ENV:1}\"\n"
        "      ^\n"
        "p.yaml:4:5: ${FILE:...} needs a path of 1 to 1023 bytes, as in "
        "${FILE:./token}\n"
        "  d: \"${FILE:}\"\n"
        "      ^\n"),
    ROW("what is put in must be plain text, and is not shown",
        "a: \"${ENV:DIRTY}\"\n"
        "b: \"${FILE:./return}\"\n",
        "{a: !, b: !}",
        "p.yaml:1:5: The environment variable \"DIRTY\" contains the control "
        "character U+0001. Only plain text can be substituted\n"
        "  a: \"${ENV:DIRTY}\"\n"
        "      ^\n"
        "p.yaml:2:5: The file \"./return\" contains a carriage return without "
        "a newline. Only plain text can be substituted\n"
        "  b: \"${FILE:./return}\"\n"
        "      ^\n"),
    ROW("a file that is too large", "a: \"${FILE:./large}\"\n", "{a: !}",
        "p.yaml:1:5: The text has more than 64 KB after substitution\n"
        "  a: \"${FILE:./large}\"\n"
        "      ^\n"),
    ROW("behind an escape the place is that of the string",
        "a: \"\\t${ENV:NO}\"\n", "{a: !}",
        "p.yaml:1:4: Environment variable \"NO\" is not set\n"
        "  a: \"\\t${ENV:NO}\"\n"
        "     ^\n"),
};

/* Texts of 64 KB, again and again: more than all of them may have. */
TEST(total)
{
    struct reading *r = malloc(sizeof(*r));
    char text[2000] = "a:\n";
    size_t len = strlen(text);

    CASE("all that is put in has a ceiling");
    for (unsigned i = 0; i < 17; i++)
        len += (size_t)snprintf(text + len, sizeof(text) - len,
                                "- \"${FILE:./half}${FILE:./half}\"\n");
    read_it(r, (struct sl_str){text, len}, false);
    CHECK_STR(r->text, "p.yaml:18:4: The text has more than 1024 KB after "
                       "substitution\n"
                       "  - \"${FILE:./half}${FILE:./half}\"\n"
                       "     ^\n");
    read_done(r);
    free(r);
}

TEST(flags)
{
    static const char text[] = "a: \"${ENV:TOKEN}\"\nb: \"$${\"\nc: \"x\"\n";
    struct reading *r = malloc(sizeof(*r));

    CASE("a text says whether something was put in");
    read_it(r, (struct sl_str){text, sizeof(text) - 1}, false);
    CHECK(sl_yaml_node_get(r->root, "a")->substituted);
    CHECK(!sl_yaml_node_get(r->root, "b")->substituted);
    CHECK(!sl_yaml_node_get(r->root, "c")->substituted);
    read_done(r);
    free(r);
}

TEST(unknown_variables)
{
    static const char text[] = "a: \"${ENV:TOKEN}\"\nb: \"${FILE:./token}\"\n";
    static const struct sl_yaml_options none;
    const struct sl_yaml_options *options[] = {NULL, &none};

    CASE("without functions nothing is known");
    for (size_t i = 0; i < SL_LEN(options); i++) {
        struct sl_report report;
        struct sl_arena arena;

        sl_report_init(&report, "p", (struct sl_str){text, sizeof(text) - 1},
                       &sl_alloc_libc);
        sl_arena_init(&arena, 65536, &sl_alloc_libc);
        CHECK(sl_yaml_read(&report, options[i], &arena) != NULL);
        CHECK_EQ(report.errors, 2);
        CHECK_STR(report.problems[0].diag.sentence,
                  "Environment variable \"TOKEN\" is not set");
        CHECK_STR(report.problems[1].diag.sentence,
                  "Cannot substitute file \"./token\"");
        sl_arena_done(&arena);
        sl_report_done(&report);
    }
}

int main(void)
{
    check_problems(rows, SL_LEN(rows), false);
    RUN_TESTS();
    return CHECK_DONE();
}
