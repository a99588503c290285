/* command.c -- words, flags, help, and what is said about slips. */
#include "send.h"

TEST(help)
{
    CASE("alone: three examples, and it is no success");
    CHECK_EQ(send_with("", (const char *const[]){NULL}), 2);
    CHECK_STR(sent_out, "");
    CHECK_ERR("sluice init");
    CHECK_ERR("sluice check sluice.yaml");
    CHECK_ERR("sluice explain");

    CASE("help and version are data");
    CHECK_EQ(SEND("--help"), 0);
    CHECK_OUT("  check        Validate policy files\n");
    CHECK_OUT("  subject      Manage subjects: plans");
    CHECK_STR(sent_err, "");
    CHECK_EQ(SEND("help"), 0);
    CHECK_OUT("usage: sluice COMMAND");
    CHECK_EQ(SEND("--version"), 0);
    CHECK_STR(sent_out, "sluice " SLUICE_VERSION "\n");
    CHECK_EQ(SEND("-V"), 0);

    CASE("each command has help with an example");
    for (size_t i = 0; sl_commands[i]; i++) {
        const struct sl_command *e = sl_commands[i];
        char example[64];

        if (!e->run)
            continue;
        CHECK_EQ(SEND(e->name, "--help"), 0);
        snprintf(example, sizeof(example), "  %ssluice %s",
                 strcmp(e->name, "completion") ? "" : "source <(", e->name);
        CHECK_OUT(example);
        CHECK_EQ(SEND(e->name, "-h"), 0);
        CHECK_EQ(SEND("help", e->name), 0);
        CHECK_STR(sent_err, "");
    }
}

TEST(slips)
{
    CASE("slips in commands");
    CHECK_EQ(SEND("chekc"), 2);
    CHECK_STR(sent_err,
              "sluice: unknown command \"chekc\"; did you mean check?\n");
    CHECK_EQ(SEND("unlike-any"), 2);
    CHECK_ERR("see 'sluice --help'");
    CHECK_EQ(SEND("help", "chekc"), 2);
    CHECK_EQ(SEND("--hlp"), 2);
    CHECK_ERR("a command comes first");

    CASE("slips in flags");
    CHECK_EQ(SEND("check", "--shema"), 2);
    CHECK_STR(sent_err, "sluice check: unknown flag --shema; did you mean "
                        "--schema?\n");
    CHECK_EQ(SEND("check", "--unlike=any"), 2);
    CHECK_ERR("see 'sluice check --help'");
    CHECK_EQ(SEND("check", "-x"), 2);
    CHECK_EQ(SEND("check", "--schema=yes"), 2);
    CHECK_ERR("--schema takes no value");
    CHECK_EQ(SEND("check", "-hx"), 2);
    CHECK_EQ(SEND("bench", "--keys"), 2);
    CHECK_ERR("--keys needs a value: --keys N");
    CHECK_EQ(SEND("init", "-o", "json"), 2);

    CASE("outputs");
    CHECK_EQ(SEND("check", "-o", "xml"), 2);
    CHECK_ERR("unknown output format \"xml\"; write -o table|json");
    CHECK_EQ(SEND("check", "x", "-otap"), 2);
    CHECK_EQ(SEND("check", "x", "--output=tap"), 2);

    CASE("too few and too many arguments");
    CHECK_EQ(SEND("check"), 2);
    CHECK_EQ(SEND("explain", "x"), 2);
    CHECK_ERR("usage: sluice explain POLICY");
    CHECK_EQ(SEND("completion", "bash", "zsh"), 2);
    CHECK_ERR("unexpected argument \"zsh\"");

    CASE("what could move a cursor is not printed");
    CHECK_EQ(SEND("a\033[2Jb\xc2\x9b"), 2);
    CHECK_ERR("\"a?[2Jb?\"");
}

TEST(completion)
{
    CASE("completion knows commands, flags and outputs");
    CHECK_EQ(SEND("completion", "bash"), 0);
    CHECK_OUT("complete -F _sluice sluice");
    CHECK_OUT("--print --schema --reference --output -o --help -h");
    CHECK_OUT("formats=\"table json tap\"");
    CHECK_EQ(SEND("completion", "zsh"), 0);
    CHECK_OUT("#compdef sluice");
    CHECK_OUT("'check:Validate policy files'");
    CHECK_EQ(SEND("completion", "fish"), 0);
    CHECK_OUT("-l threads -x");
    CHECK_OUT("subject");
    CHECK_EQ(SEND("completion", "csh"), 2);
    CHECK_ERR("write bash, zsh or fish");
}

int main(void)
{
    setenv("NO_COLOR", "1", 1);
    RUN_TESTS();
    send_done();
    return CHECK_DONE();
}
