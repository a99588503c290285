/* codes.c -- which errors of PostgreSQL pass, and how messages name them. */
#include "registry/pg.h"

#include <string.h>

#include "check.h"

TEST(which_pass)
{
    static const struct {
        const char *why, *code;
        bool want, of_plans; /* of our tables; of the query of plans */
    } rows[] = {
        {"a lost connection",          "08006", true,  true },
        {"a deadlock",                 "40P01", true,  true },
        {"no resources",               "53000", true,  true },
        {"a full disk",                "53100", true,  true },
        {"no memory",                  "53200", true,  true },
        {"no connection left",         "53300", true,  true },
        {"too large temporary files",  "53400", true,  false},
        {"a server that starts",       "57P03", true,  true },
        {"a lock that others have",    "55P03", true,  true },
        {"a timeout of the statement", "57014", true,  false},
        {"a write to a standby",       "25006", true,  false},
        {"a wrong password",           "28P01", false, false},
        {"an unknown database",        "3D000", false, false},
        {"a missing right",            "42501", false, false},
    };

    for (size_t i = 0; i < SL_LEN(rows); i++) {
        CASE(rows[i].why);
        CHECK_EQ(sl_pg_is_temporary(rows[i].code, false), rows[i].want);
        CHECK_EQ(sl_pg_is_temporary(rows[i].code, true), rows[i].of_plans);
    }
}

TEST(codes_of_messages)
{
#define FATAL   "FATAL:  "
#define RUSSIAN "\xd0\x92\xd0\x90\xd0\x96\xd0\x9d\xd0\x9e:  "
#define TO      "connection to server at \"db\", port 5432 failed: "
#define TWO     TO FATAL "28P01\n" RUSSIAN
    static const struct {
        const char *why, *want, *message;
    } rows[] = {
        {"an English server",       "53300", TO FATAL "53300\n"           },
        {"a Russian one",           "53300", TO RUSSIAN "53300\n"         },
        {"letters, and no newline", "57P03", TO FATAL "57P03"             },
        {"the last of two",         "53300", TWO "53300\n"                },
        {"a text instead",          "",      TO FATAL "too many clients\n"},
        {"a longer word",           "",      TO FATAL "533000\n"          },
        {"a shorter one",           "",      TO FATAL "5330\n"            },
        {"no server",               "",      TO "Connection refused\n"    },
        {"nothing",                 "",      ""                           },
    };

    for (size_t i = 0; i < SL_LEN(rows); i++) {
        const char *code = sl_pg_refusal_code(rows[i].message);

        CASE(rows[i].why);
        CHECK_EQ(code ? strncmp(code, rows[i].want, 5) : rows[i].want[0], 0);
    }
}

int main(void)
{
    RUN_TESTS();
    return CHECK_DONE();
}
