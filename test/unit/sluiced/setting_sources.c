/* setting_sources.c -- flags and variables, and mistakes in them. */
#include "check.h"
#include "row.h"
#include "sluiced/settings.h"

static struct sl_setting_source given;
static struct sl_diag why;

static int give(const char *const *argv, const char *const *environment)
{
    int argc = 0;

    while (argv[argc])
        argc++;
    why = (struct sl_diag){0};
    return sl_setting_source_read(&given, argc, argv, environment, &why);
}

#define GIVE(...)                                                              \
    give((const char *[]){"sluiced", ##__VA_ARGS__, NULL},                     \
         (const char *[]){NULL})
#define ENV(...)                                                               \
    give((const char *[]){"sluiced", NULL}, (const char *[]){__VA_ARGS__, NULL})

TEST(flags)
{
    CASE("no flags serve the demo");
    CHECK_EQ(GIVE(), 0);
    CHECK_EQ(given.action, SL_ARGS_SERVE);
    for (size_t i = 0; i < SL_SETTINGS; i++)
        CHECK(!given.flags[i] && !given.variables[i]);

    CASE("a value follows its flag, its = or its letter");
    CHECK_EQ(GIVE("-c", "a.yaml", "--store=memory:", "--threads", "2"), 0);
    CHECK_STR(given.flags[SL_SET_policy], "a.yaml");
    CHECK_STR(given.flags[SL_SET_store], "memory:");
    CHECK_STR(given.flags[SL_SET_threads], "2");
    CHECK_EQ(GIVE("-cb.yaml"), 0);
    CHECK_STR(given.flags[SL_SET_policy], "b.yaml");

    CASE("every setting has a flag and a variable");
    for (size_t i = 0; i < SL_SETTINGS; i++) {
        char flag[64], variable[96];

        snprintf(flag, sizeof(flag), "--%s", sl_setting_rows[i].flag);
        CHECK_EQ(GIVE(flag, "x"), 0);
        CHECK_STR(given.flags[i], "x");
        snprintf(variable, sizeof(variable), "%s=y",
                 sl_setting_variable((enum sl_setting)i, false).text);
        CHECK_EQ(ENV(variable), 0);
        CHECK_STR(given.variables[i], "y");
        CHECK_STR(given.warning, "");
    }

    CASE("actions");
    CHECK(!GIVE("--check", "-c", "x") && given.action == SL_ARGS_CHECK);
    CHECK(!GIVE("--show-settings") && given.action == SL_ARGS_SHOW);
    CHECK(!GIVE("-h") && given.action == SL_ARGS_HELP);
    CHECK(!GIVE("-V") && given.action == SL_ARGS_VERSION);
}

TEST(mistakes)
{
    static const struct {
        const char *word, *value, *says;
    } rows[] = {
        ROW("--listen-htp", NULL,
            "unknown flag --listen-htp; did you mean --listen-http?"),
        ROW("--config", "x", "unknown flag --config; did you mean --policy?"),
        ROW("--access-token", "s",
            "unknown flag --access-token; did you mean "
            "--access-token-file?"),
        ROW("--nonsense", NULL, "unknown flag --nonsense; see sluiced --help"),
        ROW("-x", NULL, "unknown flag -x; see sluiced --help"),
        ROW("--store", NULL, "--store needs a value: --store URL"),
        ROW("--store=", NULL, "--store needs a value: --store URL"),
        ROW("--check=yes", NULL,
            "--check takes no value, but \"yes\" was given"),
        ROW("sluice.yaml", NULL,
            "unexpected argument \"sluice.yaml\"; name the policy with -c: "
            "sluiced -c "
            "sluice.yaml"),
        ROW("-", NULL,
            "unexpected argument \"-\"; name the policy with -c: sluiced -c -"),
    };

    CASE("mistakes are refused, with a suggestion");
    for (size_t i = 0; i < SL_LEN(rows); i++) {
        CHECK_EQ(GIVE(rows[i].word, rows[i].value), SL_EXIT_USAGE);
        CHECK_STR(why.sentence, rows[i].says);
    }
}

TEST(variables)
{
    CASE("names of variables");
    CHECK_STR(sl_setting_variable(SL_SET_listen_http, false).text,
              "SLUICE_LISTEN_HTTP");
    CHECK_STR(sl_setting_variable(SL_SET_admin_token, false).text,
              "SLUICE_ADMIN_TOKEN_FILE");
    CHECK_STR(sl_setting_variable(SL_SET_admin_token, true).text,
              "SLUICE_ADMIN_TOKEN");

    CASE("a token can be in a variable of its own");
    CHECK_EQ(ENV("SLUICE_ACCESS_TOKEN=abc"), 0);
    CHECK_STR(given.secrets[SL_SET_access_token], "abc");
    CHECK(!given.variables[SL_SET_access_token]);

    CASE("an empty variable is unset");
    CHECK_EQ(ENV("SLUICE_STORE="), 0);
    CHECK(!given.variables[SL_SET_store]);

    CASE("but an empty token would disable the check");
    CHECK_EQ(ENV("SLUICE_ADMIN_TOKEN="), SL_EXIT_USAGE);
    CHECK_STR(why.sentence,
              "SLUICE_ADMIN_TOKEN is empty, which would disable the token "
              "check; set a value, or unset the variable");
    CHECK_EQ(ENV("SLUICE_ACCESS_TOKEN_FILE="), SL_EXIT_USAGE);

    CASE("a misspelt name is reported, an unrelated one is not");
    CHECK_EQ(ENV("SLUICE_LISTN_HTTP=x", "PATH=/bin"), 0);
    CHECK_STR(given.warning,
              "the environment variable SLUICE_LISTN_HTTP is unknown; did "
              "you mean SLUICE_LISTEN_HTTP?");
    CHECK_EQ(ENV("SLUICE_UNKNOWN_SETTING=x", "SLUICE_STORE=memory:"), 0);
    CHECK_STR(given.warning, "");

    CASE("nor are those of the command line and the clients");
    CHECK_EQ(ENV("SLUICE_URL=x", "SLUICE_ADMIN_URL=x", "SLUICE_CA=x",
                 "SLUICE_TOKEN=x", "SLUICE_DEADLINE_MS=x"),
             0);
    CHECK_STR(given.warning, "");
}

CHECK_MAIN()
