/* url_guard.c -- URLs and addresses that webhooks are sent to, and not sent to.
 */
#include "webhook/url_guard.h"

#include "check.h"
#include "policy/policy.h"
#include "row.h"

static const struct sl_url_rules strict = {.allow = NULL};

/* (1): special ranges, first and last addresses, and other notations. */
static const char *const refused_addresses[] = {
    "0.0.0.0",
    "0.255.255.255",
    "10.0.0.0",
    "10.255.255.255",
    "100.64.0.0",
    "100.100.100.200",
    "100.127.255.255",
    "127.0.0.1",
    "127.255.255.255",
    "168.63.129.16",
    "169.254.0.0",
    "169.254.169.254",
    "169.254.170.2",
    "169.254.170.23",
    "169.254.255.255",
    "172.16.0.0",
    "172.31.255.255",
    "192.0.0.0",
    "192.0.0.192",
    "192.0.0.255",
    "192.0.2.1",
    "192.88.99.1",
    "192.168.0.0",
    "192.168.255.255",
    "198.18.0.0",
    "198.19.255.255",
    "198.51.100.7",
    "203.0.113.9",
    "224.0.0.1",
    "239.255.255.255",
    "240.0.0.0",
    "255.255.255.255",
    "::",
    "::1",
    "::ffff:127.0.0.1",
    "::ffff:7f00:1",
    "::ffff:10.1.2.3",
    "::ffff:a9fe:a9fe",
    "::127.0.0.1",
    "::2",
    "64:ff9b::7f00:1",
    "64:ff9b::8.8.8.8",
    "64:ff9b:1::1",
    "100::1",
    "100:0:0:1::1",
    "1::1",
    "2001::1",
    "2001:0:4136:e378:8000:63bf:3fff:fdd2",
    "2001:2::1",
    "2001:10::1",
    "2001:1ff::1",
    "2001:db8::1",
    "2001:db8:ffff::1",
    "2002::1",
    "2002:7f00:1::1",
    "2002:a9fe:a9fe::1",
    "3fff::1",
    "3fff:fff::1",
    "4000::1",
    "5f00::1",
    "8000::1",
    "fc00::1",
    "fd00:ec2::254",
    "fd20:ce::254",
    "fdff::1",
    "fe80::1",
    "febf::1",
    "fec0::1",
    "feff::1",
    "ff02::1",
    "ffff::1",
};

static const char *const good_addresses[] = {
    "1.1.1.1",
    "8.8.8.8",
    "9.255.255.255",
    "11.0.0.0",
    "100.63.255.255",
    "100.128.0.0",
    "126.255.255.255",
    "128.0.0.0",
    "169.253.255.255",
    "169.255.0.0",
    "172.15.255.255",
    "172.32.0.0",
    "191.255.255.255",
    "192.0.1.0",
    "192.0.3.0",
    "192.88.98.0",
    "192.167.255.255",
    "192.169.0.0",
    "198.17.255.255",
    "198.20.0.0",
    "203.0.114.0",
    "223.255.255.255",
    "::ffff:8.8.8.8",
    "2001:200::1",
    "2001:4860:4860::8888",
    "2003::1",
    "2606:4700::1111",
    "2a00::1",
    "3ffe::1",
    "3fff:1000::1",
};

static struct sl_ip ip_of(const char *text)
{
    struct sl_ip ip = {{0}};

    if (!CHECK(sl_ip_parse(sl_str_c(text), &ip)))
        printf("# %s\n", text);
    return ip;
}

static int judge(const char *text, unsigned port,
                 const struct sl_url_rules *rules)
{
    struct sl_diag diag = {0};
    struct sl_ip ip = ip_of(text);
    int err = sl_url_guard_address(&ip, port, rules, &diag);

    CHECK((err != 0) == (diag.sentence[0] != '\0'));
    return err;
}

TEST(addresses)
{
    CASE("(1) addresses of special ranges are refused");
    for (size_t i = 0; i < SL_LEN(refused_addresses); i++)
        if (!CHECK_EQ(judge(refused_addresses[i], 443, &strict), SLUICE_ECONF))
            printf("# %s\n", refused_addresses[i]);
    CASE("others are allowed");
    for (size_t i = 0; i < SL_LEN(good_addresses); i++)
        if (!CHECK_EQ(judge(good_addresses[i], 443, &strict), 0))
            printf("# %s\n", good_addresses[i]);
    CASE("only on the usual ports");
    CHECK_EQ(judge("8.8.8.8", 80, &strict), 0);
    CHECK_EQ(judge("8.8.8.8", 22, &strict), SLUICE_ECONF);
    CHECK_EQ(judge("8.8.8.8", 8443, &strict), SLUICE_ECONF);
}

TEST(allow)
{
    struct sl_net nets[4];
    const unsigned ports[] = {8443};
    struct sl_url_rules rules = {.allow = nets, .allow_count = 4};
    struct sl_url_rules listed = {.ports = ports, .port_count = 1};

    CASE("(3) allow opens ranges with all ports, but no metadata service");
    CHECK(sl_net_parse(SL_STR("127.0.0.0/8"), &nets[0]));
    CHECK(sl_net_parse(SL_STR("169.254.0.0/16"), &nets[1]));
    CHECK(sl_net_parse(SL_STR("fd00::/8"), &nets[2]));
    CHECK(sl_net_parse(SL_STR("64:ff9b::/96"), &nets[3]));
    CHECK_EQ(judge("127.0.0.1", 9999, &rules), 0);
    CHECK_EQ(judge("::ffff:127.0.0.1", 9999, &rules), 0);
    CHECK_EQ(judge("fd12::1", 80, &rules), 0);
    CHECK_EQ(judge("169.254.1.1", 80, &rules), 0);
    CHECK_EQ(judge("169.254.169.254", 80, &rules), SLUICE_ECONF);
    CHECK_EQ(judge("169.254.42.42", 80, &rules), SLUICE_ECONF);
    CHECK_EQ(judge("fd00:ec2::254", 80, &rules), SLUICE_ECONF);
    CHECK_EQ(judge("64:ff9b::a9fe:a9fe", 80, &rules), SLUICE_ECONF);
    CHECK_EQ(judge("64:ff9b::808:808", 80, &rules), 0);
    CHECK_EQ(judge("10.0.0.1", 80, &rules), SLUICE_ECONF);
    CHECK_EQ(judge("::1", 80, &rules), SLUICE_ECONF);
    CHECK_EQ(judge("8.8.8.8", 9999, &rules), SLUICE_ECONF);
    CASE("ports opens ports of public addresses");
    CHECK_EQ(judge("8.8.8.8", 8443, &listed), 0);
    CHECK_EQ(judge("8.8.8.8", 8444, &listed), SLUICE_ECONF);
    CHECK_EQ(judge("10.0.0.1", 8443, &listed), SLUICE_ECONF);
}

/* (2) and (1), as URLs. `why` is a part of the sentence; NULL: accepted. */
static const struct {
    const char *url, *why;
} urls[] = {
    ROW("https://example.com/hook", NULL),
    ROW("https://example.com", NULL),
    ROW("https://example.com?a=b", NULL),
    ROW("HTTPS://EXAMPLE.com/Hook?a=%20b&c", NULL),
    ROW("https://hooks.example.com:443/x", NULL),
    ROW("https://example.com:80/", NULL),
    ROW("https://xn--bcher-kva.example/", NULL),
    ROW("https://a_b.example.com/", NULL),
    ROW("https://8.8.8.8/", NULL),
    ROW("https://[2606:4700::1111]/", NULL),
    ROW("https://[2606:4700::1111]:443/", NULL),
    ROW("https://127.0.0.1.example.com/", NULL),
    ROW("https://example.com/@x", NULL),
    ROW("https://example.com/http://10.0.0.1/", NULL),

    ROW("", "must begin"),
    ROW("example.com", "must begin"),
    ROW("//example.com", "must begin"),
    ROW("https:/example.com", "must begin"),
    ROW("https:example.com", "must begin"),
    ROW("ftp://example.com", "must begin"),
    ROW("file:///etc/passwd", "must begin"),
    ROW("gopher://example.com/", "must begin"),
    ROW("javascript:alert(1)", "must begin"),
    ROW("http://example.com/", "webhooks.insecure"),
    ROW("HTTP://example.com/", "webhooks.insecure"),
    ROW("https://", "no host"),
    ROW("https:///hook", "no host"),
    ROW("https://?x", "no host"),
    ROW("https://:443/", "no host"),

    ROW("https://user@example.com/", "credentials"),
    ROW("https://user:pass@example.com/", "credentials"),
    ROW("https://@example.com/", "credentials"),
    ROW("https://example.com:443@10.0.0.1/", "credentials"),
    ROW("https://example.com%40x@10.0.0.1/", "credentials"),
    ROW("https://example.com#@10.0.0.1/", "fragment"),
    ROW("https://example.com/#x", "fragment"),

    ROW("https://example.com:22/", "port 22"),
    ROW("https://example.com:8443/", "port 8443"),
    ROW("https://example.com:0/", "not a port"),
    ROW("https://example.com:65536/", "not a port"),
    ROW("https://example.com:/", "not a port"),
    ROW("https://example.com:44a/", "not a port"),
    ROW("https://example.com:+443/", "not a port"),
    ROW("https://example.com:0443/", "not a port"),
    ROW("https://example.com:443:443/", "not a port"),

    ROW("https://127.0.0.1/", "loopback"),
    ROW("https://10.0.0.1/", "private"),
    ROW("https://169.254.169.254/latest/meta-data/", "metadata"),
    ROW("https://0.0.0.0/", "this network"),
    ROW("https://100.64.0.1/", "shared"),
    ROW("https://224.0.0.1/", "multicast"),
    ROW("https://255.255.255.255/", "reserved"),

    ROW("https://2130706433/", "looks like an address"),
    ROW("https://017700000001/", "looks like an address"),
    ROW("https://0x7f000001/", "looks like an address"),
    ROW("https://0X7F000001/", "looks like an address"),
    ROW("https://0x7f.0.0.1/", "looks like an address"),
    ROW("https://0177.0.0.1/", "looks like an address"),
    ROW("https://127.1/", "looks like an address"),
    ROW("https://127.0.1/", "looks like an address"),
    ROW("https://127.0.0.01/", "looks like an address"),
    ROW("https://127.0.0.1.1/", "looks like an address"),
    ROW("https://256.0.0.1/", "looks like an address"),
    ROW("https://1.2.3.0x4/", "looks like an address"),
    ROW("https://example.0/", "looks like an address"),
    ROW("https://a.b.1e3/", "looks like an address"),
    ROW("https://127.0.0.1./", "ends in a dot"),
    ROW("https://2130706433./", "ends in a dot"),
    ROW("https://example.com./", "ends in a dot"),
    ROW("https://./", "ends in a dot"),

    ROW("https://[::1]/", "loopback"),
    ROW("https://[::]/", "unspecified"),
    ROW("https://[::ffff:127.0.0.1]/", "loopback"),
    ROW("https://[::ffff:7f00:1]/", "loopback"),
    ROW("https://[0:0:0:0:0:ffff:7f00:0001]/", "loopback"),
    ROW("https://[::ffff:169.254.169.254]/", "metadata"),
    ROW("https://[::7f00:1]/", "IPv4 in IPv6"),
    ROW("https://[64:ff9b::a9fe:a9fe]/", "metadata"),
    ROW("https://[64:ff9b::7f00:1]/", "translated"),
    ROW("https://[2002:7f00:1::]/", "6to4"),
    ROW("https://[fd00:ec2::254]/", "metadata"),
    ROW("https://[fe80::1]/", "link-local"),
    ROW("https://[fe80::1%25eth0]/", "without a zone"),
    ROW("https://[fe80::1%eth0]/", "without a zone"),
    ROW("https://[2606:4700::1111%251]/", "without a zone"),
    ROW("https://[::1/", "brackets"),
    ROW("https://[]/", "brackets"),
    ROW("https://[127.0.0.1]/", "brackets"),
    ROW("https://[47.0.0.145:800]/", "brackets"),
    ROW("https://[[::1]]/", "brackets"),
    ROW("https://[::1]x/", "not a port"),
    ROW("https://[v1.x]/", "brackets"),
    ROW("https://::1/", "no host"),
    ROW("https://1::1/", "looks like an address"),

    ROW("https://localhost/", "inner network"),
    ROW("https://LOCALHOST/", "inner network"),
    ROW("https://a.localhost/", "inner network"),
    ROW("https://metadata/", "inner network"),
    ROW("https://intranet:443/", "inner network"),

    ROW("https://b\xc3\xbc"
        "cher.example/",
        "punycode"),
    ROW("https://\xef\xbc\x91\xef\xbc\x92\xef\xbc\x97.0.0.1/", "punycode"),
    ROW("https://127\xe3\x80\x82"
        "0.0.1/",
        "punycode"),
    ROW("https://exam\xc2\xadple.com/", "punycode"),
    ROW("https://example.com/\xff", "punycode"),
    ROW("https://example.com\\@10.0.0.1/", "not allowed"),
    ROW("https://example.com\\.evil/", "not allowed"),
    ROW("https://example.com/a b", "not allowed"),
    ROW(" https://example.com/", "not allowed"),
    ROW("https://example.com/ ", "not allowed"),
    ROW("https://exa\tmple.com/", "not allowed"),
    ROW("https://example.com/\r\nHost: x", "not allowed"),
    ROW("https://example.com/{x}", "not allowed"),
    ROW("https://%31%32%37.0.0.1/", "looks like an address"),
    ROW("https://%6c%6fcalhost.x/", "not a host name"),
    ROW("https://exa$mple.com/", "not a host name"),
    ROW("https://-a.example/", "not a host name"),
    ROW("https://a-.example/", "not a host name"),
    ROW("https://a..example/", "not a host name"),
    ROW("https://.example/", "not a host name"),
    ROW("https://exa,mple.com/", "not a host name"),
};

TEST(urls)
{
    CASE("(2) URLs");
    for (size_t i = 0; i < SL_LEN(urls); i++) {
        struct sl_webhook_url url = {.port = 7};
        struct sl_diag diag = {0};
        int err =
            sl_url_guard_read(sl_str_c(urls[i].url), &strict, &url, &diag);

        if (!CHECK_EQ(err, urls[i].why ? SLUICE_ECONF : 0) ||
            (urls[i].why && !CHECK(strstr(diag.sentence, urls[i].why))))
            printf("# %s: %s\n", urls[i].url, diag.sentence);
        CHECK((err != 0) == (url.port == 7));
    }
    printf("# %zu addresses and URLs\n",
           SL_LEN(urls) + SL_LEN(good_addresses) + SL_LEN(refused_addresses));
    CHECK(SL_LEN(urls) + SL_LEN(refused_addresses) >= 120);
}

TEST(parts)
{
    struct sl_net loopback;
    struct sl_url_rules rules = {
        .allow = &loopback, .allow_count = 1, .insecure = true};
    struct sl_webhook_url url;
    struct sl_diag diag = {0};

    CASE("scheme, host and port are read");
    CHECK(sl_net_parse(SL_STR("127.0.0.0/8"), &loopback));
    CHECK_EQ(sl_url_guard_read(SL_STR("http://127.0.0.1:8080/x"), &rules, &url,
                               &diag),
             0);
    CHECK(!url.is_tls && url.is_ip);
    CHECK_EQ(url.port, 8080);
    CHECK_EQ(
        sl_url_guard_read(SL_STR("http://inner:99/x"), &rules, &url, &diag), 0);
    CHECK(!url.is_ip && sl_str_eq(url.host, SL_STR("inner")));
    CHECK_EQ(url.port, 99);
    CHECK_EQ(
        sl_url_guard_read(SL_STR("https://a.example/x"), &rules, &url, &diag),
        0);
    CHECK_EQ(url.port, 443);
}

TEST(rules_of)
{
    static const unsigned ports[] = {8443, 9443};
    struct sl_net nets[1];
    struct sl_webhooks_conf conf = {.allow = nets,
                                    .allow_count = 1,
                                    .ports = ports,
                                    .port_count = 2,
                                    .insecure = true};
    struct sl_url_rules rules = sl_url_rules_of(&conf);
    struct sl_webhook_url url;
    struct sl_diag diag = {0};

    CASE("the rules are those of the policy");
    CHECK(sl_net_parse(SL_STR("10.0.0.0/8"), &nets[0]));
    CHECK_EQ(sl_url_guard_read(SL_STR("http://10.1.1.1/"), &rules, &url, &diag),
             0);
    CHECK_EQ(
        sl_url_guard_read(SL_STR("https://8.8.8.8:9443/"), &rules, &url, &diag),
        0);
    conf = (struct sl_webhooks_conf){.allow = NULL};
    rules = sl_url_rules_of(&conf);
    CHECK_EQ(sl_url_guard_read(SL_STR("http://10.1.1.1/"), &rules, &url, &diag),
             SLUICE_ECONF);
    CHECK_EQ(
        sl_url_guard_read(SL_STR("https://8.8.8.8:9443/"), &rules, &url, &diag),
        SLUICE_ECONF);
}

TEST(length)
{
    char text[SL_WEBHOOK_URL + 2];
    struct sl_webhook_url url;
    struct sl_diag diag = {0};

    CASE("a URL has at most 2048 bytes");
    memset(text, 'a', sizeof(text));
    memcpy(text, "https://example.com/", 20);
    CHECK_EQ(sl_url_guard_read((struct sl_str){text, SL_WEBHOOK_URL}, &strict,
                               &url, &diag),
             0);
    CHECK_EQ(sl_url_guard_read((struct sl_str){text, SL_WEBHOOK_URL + 1},
                               &strict, &url, &diag),
             SLUICE_ECONF);
}

static const struct {
    const char *url, *canonical;
} spellings[] = {
    {"https://example.com/hook",       "https://example.com/hook"  },
    {"HTTPS://Example.COM:443/Hook?",  "https://example.com/Hook"  },
    {"https://example.com",            "https://example.com/"      },
    {"https://example.com?a=B",        "https://example.com/?a=B"  },
    {"https://example.com/?a=?",       "https://example.com/?a=?"  },
    {"http://example.com:443/",        "http://example.com:443/"   },
    {"http://example.com:80/",         "http://example.com/"       },
    {"https://[2606:4700:0:0::1111]/", "https://[2606:4700::1111]/"},
    {"https://[::ffff:8.8.8.8]:80/a",  "https://8.8.8.8:80/a"      },
    {"https://8.8.8.8/",               "https://8.8.8.8/"          },
};

TEST(spellings)
{
    struct sl_url_rules rules = {.insecure = true};

    CASE("a destination has one spelling");
    for (size_t i = 0; i < SL_LEN(spellings); i++) {
        struct sl_str url = sl_str_c(spellings[i].url);
        struct sl_webhook_url parts;
        struct sl_diag diag = {0};
        struct sl_buf out;

        sl_buf_init(&out, 4096, &sl_alloc_libc);
        CHECK_EQ(sl_url_guard_read(url, &rules, &parts, &diag), 0);
        CHECK_EQ(sl_url_canonical(url, &parts, &out), 0);
        CHECK(sl_str_eq(sl_buf_str(&out), sl_str_c(spellings[i].canonical)));
        CHECK_EQ(sl_url_guard_read(sl_buf_str(&out), &rules, &parts, &diag), 0);
        sl_buf_done(&out);
    }
}

CHECK_MAIN()
