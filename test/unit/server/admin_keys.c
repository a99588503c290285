/* What the admin listener says of one key, and of the largest; over an engine,
 * without a socket. */
#include "asked.h"
#include "fail.h"
#include "server/http/admin.h"

static const char policy[] =
    "sluice: 1\n"
    "plans: { default: free, free: {}, pro: {}, none: {} }\n"
    "identity: { anonymous: [ip, header.user-agent] }\n"
    "limits:\n"
    "  day: { kind: fixed-window, per: user, on_store_failure: local,\n"
    "    rate: { free: 5/day, pro: 50/day, none: none }, candidate: 4/day }\n"
    "  member: { kind: fixed-window, per: [org, user], rate: 5/day }\n"
    "  address: { kind: fixed-window, per: ip, rate: 5/day }\n"
    "  guard: { kind: fixed-window, per: ip, rate: 1k/day }\n"
    "  all: { kind: fixed-window, per: [], rate: 5/day }\n"
    "  off: { kind: fixed-window, per: user, rate: 5/day, mode: off }\n"
    "routes:\n"
    "  - { match: /day, limits: [day, guard] }\n"
    "  - { match: /member, limits: [member, guard] }\n"
    "  - { match: /address, limits: [address] }\n"
    "default: [all]\n";

static struct asked a;
static struct sl_top_keys *top;
static int top_err;

static int on_top(void *ctx, const struct sl_top_keys_query *query,
                  struct sl_arena *arena, struct sl_top_keys_answer *ret)
{
    (void)ctx;
    return top_err ? top_err : sl_top_keys_read(&top, 1, query, arena, ret);
}

static struct sl_admin admin = {.top = on_top};

static void begin(void)
{
    static const struct sl_hash_key secret = {1, 2};

    asked_open(&a, policy);
    a.door.paths = sl_admin_paths;
    a.door.path_count = sl_admin_path_count;
    a.door.name = "admin";
    a.door.ctx = &admin;
    asked_from(&a, NULL);
    a.rig.now = a.worker.still = 1000 * SL_S;
    CHECK_EQ(sl_top_keys_open(NULL, &secret, 0, &top), 0);
}

static void end(void)
{
    sl_top_keys_close(top);
    asked_close(&a);
}

static void use(struct sl_request facts, unsigned times)
{
    for (unsigned i = 0; i < times; i++)
        sl_top_keys_decision(top, rig_ask(&a.rig, facts));
}

static int get(const char *line)
{
    return asked_get(&a, line, "");
}

static void check_look(void)
{
    CASE("a key's numbers, and looking spends nothing");
    begin();
    use(GET("/day", USER("ann")), 3);
    for (unsigned i = 0; i < 3; i++) {
        CHECK_EQ(get("GET /v1/keys/day/ann"), 200);
        CHECK(asked_says(&a, "\"limit\":5,\"burst\":5,\"remaining\":2,"));
    }
    CHECK(asked_says(&a, "\"name\":\"day\",\"kind\":\"fixed-window\","
                         "\"plan\":\"free\",\"scope\":\"user\""));
    CHECK(asked_says(&a, "\"key\":\"sluice:default:day:user:ann\""));

    CASE("by the numbers of another plan");
    CHECK_EQ(get("GET /v1/keys/day/ann?plan=PRO"), 200);
    CHECK(asked_says(&a, "\"limit\":50,\"burst\":50,\"remaining\":47,"));
    CHECK_EQ(get("GET /v1/keys/day/ann?plan=none"), 200);
    CHECK(asked_says(&a, "\"limit\":null,"));

    CASE("several values, in the order of `per`, with slashes in them");
    use(GET("/member", ORG("a/b"), USER("c d%")), 4);
    CHECK_EQ(get("GET /v1/keys/member/a%2fb/c%20d%25"), 200);
    CHECK(asked_says(&a, "\"remaining\":1,"));
    CHECK_EQ(get("GET /v1/keys/member/c%20d%25/a%2Fb"), 200);
    CHECK(asked_says(&a, "\"remaining\":5,"));

    CASE("one for all has no value");
    use(GET("/x"), 2);
    CHECK_EQ(get("GET /v1/keys/all"), 200);
    CHECK(asked_says(&a, "\"remaining\":3,"));

    CASE("an address in any notation");
    use(FROM("/address", "2001:db8::1"), 2);
    CHECK_EQ(get("GET /v1/keys/address/2001:0db8::ff"), 200);
    CHECK(asked_says(&a, "\"remaining\":3,"));
    CHECK_EQ(get("GET /v1/keys/address/2001:db8::%2F64"), 200);
    CHECK(asked_says(&a, "\"remaining\":3,"));
    CHECK_EQ(get("GET /v1/keys/address/unknown"), 200);

    CASE("a caller without a name, as /v1/top shows him");
    use(GET("/day"), 2);
    CHECK_EQ(get("GET /v1/top?by=allowed&limit=day"), 200);
    CHECK(asked_says(&a, "\"limit\":\"day\",\"scope\":\"anon\",\"key\":\""));
    {
        char line[128] = "GET /v1/keys/day/";
        const char *key = strstr(asked_body(&a), "\"anon\",\"key\":\"");

        snprintf(line + strlen(line), 64, "%.32s?scope=anon",
                 key ? key + 14 : "");
        CHECK_EQ(get(line), 200);
        CHECK(asked_says(&a, "\"scope\":\"anon\",\"limit\":5,\"burst\":5,"
                             "\"remaining\":3,"));
    }
    end();
}

static void check_reset(void)
{
    CASE("a key that is reset has used nothing, others keep what they used");
    begin();
    use(GET("/day", USER("ann")), 7);
    use(GET("/day", USER("bob")), 7);
    CHECK_EQ(get("DELETE /v1/keys/day/ann"), 200);
    CHECK(asked_says(&a, "\"remaining\":5,"));
    CHECK(rig_ask(&a.rig, GET("/day", USER("ann")))->allowed);
    CHECK(!rig_ask(&a.rig, GET("/day", USER("bob")))->allowed);

    CASE("its candidate, and what the local table has, are reset too");
    CHECK_EQ(a.rig.d.shown[0].candidate_answer.remaining, 0);
    a.rig.fault = 1;
    use(GET("/day", USER("bob")), 7);
    CHECK(!a.rig.d.allowed && a.rig.d.degraded);
    a.rig.fault = 0;
    CHECK_EQ(get("DELETE /v1/keys/day/bob"), 200);
    CHECK_EQ(rig_ask(&a.rig, GET("/day", USER("bob")))
                 ->shown[0]
                 .candidate_answer.remaining,
             3);
    a.rig.fault = 1;
    CHECK(rig_ask(&a.rig, GET("/day", USER("bob")))->allowed);
    a.rig.fault = 0;

    CASE("also where the plan has no numbers");
    use(GET("/day", USER("eve")), 5);
    CHECK_EQ(get("DELETE /v1/keys/day/eve?plan=none"), 200);
    CHECK(rig_ask(&a.rig, GET("/day", USER("eve")))->allowed);

    CASE("a store that fails is said so");
    a.rig.fault = 1;
    CHECK_EQ(get("DELETE /v1/keys/member/acme/ann"), 503);
    CHECK(asked_says(&a, "the store does not answer"));
    CHECK_EQ(get("GET /v1/keys/member/acme/ann"), 503);
    end();
}

static void check_refusals(void)
{
    static const struct {
        const char *line;
        int status;
        const char *says;
    } rows[] = {
        {"GET /v1/keys/",                    400, "is not a valid value"   },
        {"GET /v1/keys/dai/ann",             404, "mean \\\"day\\\"?"      },
        {"GET /v1/keys/day",                 400, "/v1/keys/day/user"      },
        {"GET /v1/keys/day/",                400, "/v1/keys/day/user"      },
        {"GET /v1/keys/day/ann/bob",         400, "has 1 `per` value"      },
        {"GET /v1/keys/day/a/b/c/d/e",       400, "has 1 `per` value"      },
        {"GET /v1/keys/member/ann",          400, "keys/member/org/user"   },
        {"GET /v1/keys/day/%",               400, "is not a valid value"   },
        {"GET /v1/keys/day/%4",              400, "is not a valid value"   },
        {"GET /v1/keys/day/%00",             400, "is not a valid value"   },
        {"GET /v1/keys/day/a%zz",            400, "is not a valid value"   },
        {"GET /v1/keys/address/ann",         400, "is not an IP address"   },
        {"GET /v1/keys/day/ann?plan=gold",   400, "no plan \\\"gold\\\""   },
        {"GET /v1/keys/day/ann?plane=pro",   400, "mean \\\"plan\\\"?"     },
        {"GET /v1/keys/day/ann?x=1",         400, "valid are: plan, scope" },
        {"GET /v1/keys/day/ann?scope=moon",  400, "is not in the policy"   },
        {"GET /v1/keys/day/a?scope=ip:user", 400, "is not in the policy"   },
        {"GET /v1/keys/all?scope=user",      400, "is not in the policy"   },
        {"GET /v1/keys/day/a?plan=a&plan=b", 400, "is given twice"         },
        {"GET /v1/keys/day/a?plan=%",        400, "is not encoded"         },
        {"GET /v1/keys/off/ann",             409, "is switched off"        },
        {"DELETE /v1/keys/off/ann",          409, "is switched off"        },
        {"POST /v1/keys/day/ann",            405, "GET, HEAD, DELETE"      },
        {"GET /v1/top?by=size",              400, "denied, allowed or cost"},
        {"GET /v1/top?n=0",                  400, "from 1 to 1000"         },
        {"GET /v1/top?n=1001",               400, "from 1 to 1000"         },
        {"GET /v1/top?n=many",               400, "from 1 to 1000"         },
        {"GET /v1/top?window=hour",          400, "start or recent"        },
        {"GET /v1/top?limits=a",             400, "mean \\\"limit\\\""     },
        {"DELETE /v1/top",                   405, "it supports GET"        },
    };

    CASE("what is wrong, and what to write");
    begin();
    for (size_t i = 0; i < SL_LEN(rows); i++) {
        if (!CHECK_EQ(get(rows[i].line), rows[i].status))
            printf("# %s\n", rows[i].line);
        CHECK(asked_says(&a, rows[i].says));
    }

    CASE("a page in a browser may not reset");
    asked_from(&a, LOCAL);
    CHECK_EQ(asked_get(&a, "DELETE /v1/keys/day/ann",
                       "Origin: http://evil.example\r\n"),
             403);
    CHECK_EQ(asked_get(&a, "GET /v1/top", "Origin: http://evil.example\r\n"),
             403);
    end();
}

static void check_top(void)
{
    CASE("who is refused most");
    begin();
    use(GET("/day", USER("a\"n\n")), 7);
    use(GET("/day", USER("bob")), 6);
    CHECK_EQ(get("GET /v1/top?n=1"), 200);
    CHECK_STR(asked_body(&a),
              "{\"by\":\"denied\",\"window\":\"start\",\"from\":"
              "\"1970-01-01T00:00:00.000Z\",\"to\":\"1970-01-01T00:16:40.000Z\""
              ",\"totals\":{\"denied\":3,\"allowed\":20,\"cost\":20},\"rows\":["
              "{\"limit\":\"day\",\"scope\":\"user\",\"key\":\"a\\\"n\\n\","
              "\"cut\":false,\"denied\":2,\"allowed\":5,\"cost\":5,\"error\":{"
              "\"denied\":0,\"allowed\":0,\"cost\":0}}]}");
    CHECK_STR(asked_field(&a, "Cache-Control"), "no-store");

    CASE("of late, at one endpoint, of one limit");
    CHECK_EQ(get("GET /v1/top?window=recent&endpoint=day&limit=day&by=cost"),
             200);
    CHECK(asked_says(&a, "\"key\":\"bob\""));
    CHECK_EQ(get("GET /v1/top?endpoint=night&"), 200);
    CHECK(asked_says(&a, "\"rows\":[]"));

    CASE("without memory it says so");
    top_err = SLUICE_ENOMEM;
    CHECK_EQ(get("GET /v1/top"), 503);
    top_err = 0;
    end();
}

static void check_memory(void)
{
    static const char *const lines[] = {
        "GET /v1/keys/member/acme/ann?plan=pro", "DELETE /v1/keys/day/ann",
        "GET /v1/keys/dai/ann", "GET /v1/top?limit=day"};
    struct fail fail = {.nth = 0};
    struct sl_alloc alloc = fail_alloc(&fail);
    unsigned failed = 0;
    int status;

    CASE("any allocation may fail");
    begin();
    use(GET("/day", USER("ann")), 1);
    for (size_t i = 0; i < SL_LEN(lines); i++) {
        fail.nth = 0;
        do {
            fail.nth++;
            fail.calls = 0;
            asked_forget(&a, &alloc);
            a.worker.still = a.rig.now;
            status = get(lines[i]);
            failed += status == 503;
            CHECK(status == 200 || status == 404 || status == 503 ||
                  fail.nth == 1);
        } while (fail.calls >= fail.nth && fail.nth < 100);
        CHECK(status == 200 || status == 404);
    }
    CHECK(failed > 8);
    asked_forget(&a, NULL);
    fail_check(&fail);
    end();
}

int main(void)
{
    check_look();
    check_reset();
    check_refusals();
    check_top();
    check_memory();
    return CHECK_DONE();
}
