/* address.c -- callers by their addresses: by bits, in whatever notation.
 *
 * Limiters that looked at the notation gave one client several allowances, or
 * all clients of IPv4 one: express-rate-limit #667, CVE-2026-30827.
 */
#include "asking.h"
#include "engine/request.h"

static const char policy[] =
    "sluice: 1\n"
    "identity: {trusted_proxies: [10.0.0.0/8], ipv6_prefix: 64}\n"
    "limits: {calls: {kind: fixed-window, per: ip, rate: 1M/day}}\n"
    "default: [calls]\n";

static struct rig rig;

static const char *id_of(const char *ip)
{
    struct sl_request request = {
        .method = SL_STR("GET"), .path = SL_STR("/"), .ip = sl_str_c(ip)};

    return rig_ask(&rig, request)->shown[0].id;
}

static void test_notations(void)
{
    static const struct {
        const char *ip, *id;
    } rows[] = {
        {"1.2.3.4",                  "1.2.3.4"          },
        {"1.2.3.4:443",              "1.2.3.4"          },
        {"::ffff:1.2.3.4",           "1.2.3.4"          },
        {"::FFFF:1.2.3.4",           "1.2.3.4"          },
        {"::ffff:102:304",           "1.2.3.4"          },
        {"0:0:0:0:0:ffff:0102:0304", "1.2.3.4"          },
        {"[::ffff:102:304]:80",      "1.2.3.4"          },
        {"::ffff:1.2.3.5",           "1.2.3.5"          },
        {"64:ff9b::1.2.3.4",         "1.2.3.4"          },
        {"64:ff9b::102:304",         "1.2.3.4"          },
        {"64:ff9b:0:0:0:1:102:304",  "64:ff9b::/64"     },
        {"64:ff9b:1::1.2.3.4",       "64:ff9b:1::/64"   },
        {"2001:db8::1.2.3.4",        "2001:db8::/64"    },
        {"2001:db8::102:304",        "2001:db8::/64"    },
        {"2001:DB8:0:0:ffff:1:2:3",  "2001:db8::/64"    },
        {"2001:db8:0:1::1",          "2001:db8:0:1::/64"},
        {"2002:102:304::1",          "2002:102:304::/64"},
        {"::1.2.3.4",                "::/64"            },
        {"::ffff:0:1.2.3.4",         "::/64"            },
        {"fe80::1%eth0",             "fe80::/64"        },
        {"01.2.3.4",                 "unknown"          },
        {"1.2.3",                    "unknown"          },
        {"localhost",                "unknown"          },
    };

    CASE("a table of notations");
    for (size_t i = 0; i < SL_LEN(rows); i++)
        CHECK_STR(id_of(rows[i].ip), rows[i].id);
}

static void test_rotation(void)
{
    char text[64];

    CASE("all of a /64 is one caller");
    for (unsigned i = 0; i < 1 << 16; i++) {
        snprintf(text, sizeof(text), "2001:db8:0:7:%x:%x::%x",
                 i * 40503 & 65535, i, i ^ 0x5555);
        CHECK_STR(id_of(text), "2001:db8:0:7::/64");
    }
    CASE("each address of IPv4 is its own, however it is written");
    for (unsigned i = 0; i < 1 << 10; i++) {
        char want[16];

        snprintf(want, sizeof(want), "203.%u.%u.9", i >> 8, i & 255);
        snprintf(text, sizeof(text), "::ffff:cb%02x:%02x09", i >> 8, i & 255);
        CHECK_STR(id_of(text), want);
        snprintf(text, sizeof(text), "64:ff9b::203.%u.%u.9", i >> 8, i & 255);
        CHECK_STR(id_of(text), want);
    }
}

/* Its bits are those of a proxy's, but it is not one. */
static void test_trust(void)
{
    struct sl_peer peer = {.has_ip = true};

    CASE("what is behind a translator is not trusted for it");
    rig.active = sl_check_ref_policy(&rig.check);
    CHECK(sl_ip_parse(SL_STR("64:ff9b::10.0.0.1"), &peer.ip));
    CHECK(!sl_peer_trusted(&rig.active->policy->identity, &peer));
    CHECK(sl_ip_parse(SL_STR("::ffff:10.0.0.1"), &peer.ip));
    CHECK(sl_peer_trusted(&rig.active->policy->identity, &peer));
}

int main(void)
{
    rig_open(&rig, policy);
    test_notations();
    test_rotation();
    test_trust();
    rig_close(&rig);
    return CHECK_DONE();
}
