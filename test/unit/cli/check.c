/* check.c -- commands that ask a daemon: output and errors before the request.
 * Their answers are tested by test/daemon/operate.sh. */

#include "cli/cli.h"
#include "send.h"

TEST(columns)
{
    static const char *const rows[][3] = {
        {"key",                    "n",  "more"},
        {"\xc3\xa4nn",             "10", "a"   },
        {"a\nb\tc\033[2J\xc2\x9b", "7",  ""    },
    };
    struct sl_columns columns;
    size_t len;
    char *text;
    struct sl_cli cli = {.out = open_memstream(&text, &len)};
    struct sl_cli_args args = {.cli = &cli};

    CASE("columns are as wide as their widest cell; each row is one line");
    sl_columns_init(&columns, 3, rows[0]);
    for (size_t i = 1; i < SL_LEN(rows); i++)
        sl_columns_add(&columns, rows[i]);
    CHECK_EQ(sl_columns_finish(&columns, &args), 0);
    fclose(cli.out);
    CHECK_STR(text, "key         n   more\n"
                    "\xc3\xa4nn         10  a\n"
                    "a?b?c?[2J?  7   \n");
    free(text);
}

TEST(encode)
{
    struct sl_buf out;
    struct sl_writer w = {.out = &out};

    CASE("a value in a path is one segment of it");
    sl_buf_init(&out, 64, &sl_alloc_libc);
    sl_url_encode(&w, SL_STR("a/b c%?&=+~.-_\xff\0z"));
    CHECK_EQ(w.err, 0);
    CHECK_EQ(sl_buf_add(&out, (struct sl_str){"", 1}), 0);
    CHECK_STR(out.bytes, "a%2Fb%20c%25%3F%26%3D%2B~.-_%FF%00z");
    sl_buf_done(&out);
}

TEST(spans)
{
    static const struct {
        sl_ns span;
        const char *text;
    } rows[] = {
        {0,                         "0s"    },
        {1500 * SL_MS,              "1500ms"},
        {10 * SL_S,                 "10s"   },
        {10 * SL_S + 1,             "11s"   },
        {SL_HOUR,                   "1h"    },
        {SL_HOUR + 1,               "1h1m"  },
        {13 * SL_HOUR + 650 * SL_S, "13h11m"},
        {SL_NS_MAX,                 "none"  },
    };
    char out[32];

    CASE("durations are rounded up");
    for (size_t i = 0; i + 1 < SL_LEN(rows); i++)
        CHECK_STR(sl_span_print(rows[i].span, out), rows[i].text);
    CHECK(sl_span_print(SL_NS_MAX, out)[0] != '\0');
}

TEST(usage)
{
    static const struct {
        const char *words[5], *says;
    } rows[] = {
        {{"take"},                                   "missing argument"    },
        {{"take", "api"},                            "or LIMIT KEY"        },
        {{"take", "GET"},                            "is not a request"    },
        {{"take", "/x", "usr=ann"},                  "user"                },
        {{"take", "/x", "x3"},                       "xN cannot be used"   },
        {{"take", "/x", "hold=0s"},                  "duration above 0"    },
        {{"take", "/x", "hold=3s", "--hold", "1s"},  "remove one"          },
        {{"take", "/x", "--hold", "soon"},           "--hold soon:"        },
        {{"take", "/x", "--hold", "0s"},             "duration above 0"    },
        {{"hold", "settle"},                         "missing argument"    },
        {{"hold", "keep", "a"},                      "action \"keep\""     },
        {{"hold", "settle", "a", "cost"},            "unknown argument"    },
        {{"hold", "settle", "a", "cost.=1"},         "unknown argument"    },
        {{"hold", "settle", "a", "cost=x"},          "needs a whole number"},
        {{"hold", "extend", "a"},                    "missing duration"    },
        {{"hold", "extend", "a", "soon"},            "soon"                },
        {{"hold", "release", "a", "b"},              "and nothing else"    },
        {{"take", "/x", "cost=1", "cost.a=2"},       "not both"            },
        {{"take", "/x", "--url", "x"},               "the URL of a server" },
        {{"take", "/x", "--url", "unix:"},           "the URL of a server" },
        {{"take", "/x", "--token-file", "."},        "."                   },
        {{"reset"},                                  "missing argument"    },
        {{"reset", "a", "--admin-url", "https://x"}, "URL of a server"     },
        {{"top", "ann"},                             "unexpected argument" },
        {{"top", "--bye", "cost"},                   "did you mean --by?"  },
    };

    CASE("errors before a request is sent");
    for (size_t i = 0; i < SL_LEN(rows); i++) {
        const char *words[8] = {NULL};

        memcpy(words, rows[i].words, sizeof(rows[i].words));
        CHECK_EQ(send_with("", words), 2);
        CHECK_ERR(rows[i].says);
    }

    CASE("an invalid token");
    setenv("SLUICE_ADMIN_TOKEN", "two words", 1);
    reports(2, "top",
            "SLUICE_ADMIN_TOKEN contains a character that is not allowed in "
            "a token");
    setenv("SLUICE_ADMIN_TOKEN", " ", 1);
    reports(2, "top", "contains no token");
    unsetenv("SLUICE_ADMIN_TOKEN");

    CASE("the daemon is unreachable");
    reports(4, "take a b --url http://127.0.0.1:1",
            "cannot connect to 127.0.0.1:1");
    reports(4, "top --admin-url unix:/nowhere/at.all",
            "cannot connect to /nowhere/at.all: No such file");
    ends(4, "reset a b --admin-url http://127.0.0.1:1");
}

int main(void)
{
    unsetenv("SLUICE_URL");
    unsetenv("SLUICE_ADMIN_URL");
    RUN_TESTS();
    send_done();
    return CHECK_DONE();
}
