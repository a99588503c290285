/* command.c -- words, flags, help, and messages about errors. */
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
    prints(0, "--help", "  check        Validate policy files\n");
    CHECK_OUT("  subject      Manage subjects: plans");
    CHECK_STR(sent_err, "");
    prints(0, "help", "usage: sluice COMMAND");
    ends(0, "--version");
    CHECK_STR(sent_out, "sluice " SLUICE_VERSION "\n");
    ends(0, "-V");

    CASE("each command has help with an example");
    for (size_t i = 0; sl_commands[i]; i++) {
        const struct sl_command *e = sl_commands[i];
        char example[64];

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
    ends(2, "chekc");
    CHECK_STR(sent_err,
              "sluice: unknown command \"chekc\"; did you mean check?\n");
    reports(2, "unlike-any", "see 'sluice --help'");
    ends(2, "help chekc");
    reports(2, "--hlp", "a command comes first");

    CASE("slips in flags");
    ends(2, "check --shema");
    CHECK_STR(sent_err, "sluice check: unknown flag --shema; did you mean "
                        "--schema?\n");
    reports(2, "check --unlike=any", "see 'sluice check --help'");
    ends(2, "check -x");
    reports(2, "check --schema=yes", "--schema takes no value");
    ends(2, "check -hx");
    reports(2, "bench --keys", "--keys needs a value: --keys N");
    ends(2, "init -o json");

    CASE("outputs");
    reports(2, "check -o xml",
            "unknown output format \"xml\"; write -o table|json");
    ends(2, "check x -otap");
    ends(2, "check x --output=tap");

    CASE("too few and too many arguments");
    ends(2, "check");
    reports(2, "explain x", "usage: sluice explain POLICY|--url URL");
    reports(2, "completion bash zsh", "unexpected argument \"zsh\"");

    CASE("what could move a cursor is not printed");
    reports(2, "a\033[2Jb\xc2\x9b", "\"a?[2Jb?\"");
}

TEST(completion)
{
    CASE("completion knows commands, flags and outputs");
    prints(0, "completion bash", "complete -F _sluice sluice");
    CHECK_OUT("--print --capacity --memory --schema --reference --output -o "
              "--help -h");
    CHECK_OUT("formats=\"table json tap\"");
    prints(0, "completion zsh", "#compdef sluice");
    CHECK_OUT("'check:Validate policy files'");
    prints(0, "completion fish", "-l threads -x");
    CHECK_OUT("subject");
    reports(2, "completion csh", "write bash, zsh or fish");
}

int main(void)
{
    setenv("NO_COLOR", "1", 1);
    RUN_TESTS();
    send_done();
    return CHECK_DONE();
}
