/* url_guard.c -- which URLs and addresses a webhook may be sent to. */
#include "webhook/url_guard.h"

#include <arpa/inet.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/parse.h"
#include "policy/policy.h"

/* ---- addresses ---- */

struct range {
    const char *net;
    const char *is; /* "ADDRESS is IS" */
    bool always;    /* also if the operator allows the range */
};

#define METADATA "the address of a metadata service"

/* IANA's special-purpose registries, and metadata services of clouds. The first
 * that matches is named. IPv4 inside of IPv6 (mapped) is IPv4: base/ip.h. */
static const struct range ranges[] = {
    {"169.254.169.254", METADATA,                              true },
    {"169.254.170.2",   METADATA,                              true },
    {"169.254.170.23",  METADATA,                              true },
    {"100.100.100.200", METADATA,                              true },
    {"168.63.129.16",   METADATA,                              true },
    {"192.0.0.192",     METADATA,                              true },
    {"169.254.0.23",    METADATA,                              true },
    {"169.254.42.42",   METADATA,                              true },
    {"fd00:42::42",     METADATA,                              true },
    {"fd00:ec2::/32",   METADATA,                              true },
    {"fd20:ce::254",    METADATA,                              true },
    {"0.0.0.0/8",       "in 0.0.0.0/8 (this network)",         false},
    {"10.0.0.0/8",      "private (10.0.0.0/8)",                false},
    {"100.64.0.0/10",   "shared (100.64.0.0/10)",              false},
    {"127.0.0.0/8",     "loopback (127.0.0.0/8)",              false},
    {"169.254.0.0/16",  "link-local (169.254.0.0/16)",         false},
    {"172.16.0.0/12",   "private (172.16.0.0/12)",             false},
    {"192.0.0.0/24",    "for protocols (192.0.0.0/24)",        false},
    {"192.0.2.0/24",    "for documentation (192.0.2.0/24)",    false},
    {"192.88.99.0/24",  "a 6to4 relay (192.88.99.0/24)",       false},
    {"192.168.0.0/16",  "private (192.168.0.0/16)",            false},
    {"198.18.0.0/15",   "for benchmarks (198.18.0.0/15)",      false},
    {"198.51.100.0/24", "for documentation (198.51.100.0/24)", false},
    {"203.0.113.0/24",  "for documentation (203.0.113.0/24)",  false},
    {"224.0.0.0/4",     "multicast (224.0.0.0/4)",             false},
    {"240.0.0.0/4",     "reserved (240.0.0.0/4)",              false},
    {"::/128",          "unspecified (::)",                    false},
    {"::1/128",         "loopback (::1)",                      false},
    {"::/96",           "IPv4 in IPv6 (::/96)",                false},
    {"64:ff9b::/96",    "translated (64:ff9b::/96, NAT64)",    false},
    {"64:ff9b:1::/48",  "translated (64:ff9b:1::/48, NAT64)",  false},
    {"100::/64",        "for discarding (100::/64)",           false},
    {"2001::/23",       "for protocols (2001::/23, Teredo)",   false},
    {"2001:db8::/32",   "for documentation (2001:db8::/32)",   false},
    {"2002::/16",       "a 6to4 address (2002::/16)",          false},
    {"3fff::/20",       "for documentation (3fff::/20)",       false},
    {"5f00::/16",       "for segment routing (5f00::/16)",     false},
    {"fc00::/7",        "private (fc00::/7)",                  false},
    {"fe80::/10",       "link-local (fe80::/10)",              false},
    {"fec0::/10",       "site-local (fec0::/10)",              false},
    {"ff00::/8",        "multicast (ff00::/8)",                false},
};

/* Each attempt is judged, so the ranges are parsed once. */
static struct sl_net nets[SL_LEN(ranges)], unicast;
static pthread_once_t parsed = PTHREAD_ONCE_INIT;

static void parse_ranges(void)
{
    bool good = sl_net_parse(SL_STR("2000::/3"), &unicast);

    for (size_t i = 0; i < SL_LEN(ranges); i++)
        good &= sl_net_parse(sl_str_c(ranges[i].net), &nets[i]);
    if (!good)
        abort(); /* a typing error above */
}

static const struct range *find_range(const struct sl_ip *ip)
{
    static const struct range other = {"", "not a global unicast address",
                                       false};

    pthread_once(&parsed, parse_ranges);
    for (size_t i = 0; i < SL_LEN(ranges); i++)
        if (sl_net_has(&nets[i], ip))
            return &ranges[i];
    return sl_ip_is_v4(ip) || sl_net_has(&unicast, ip) ? NULL : &other;
}

/* A metadata service is one behind NAT64, too, which `allow` may open. */
static const struct range *find_judged(const struct sl_ip *ip)
{
    const struct range *range = find_range(ip), *inner = NULL;
    struct sl_ip v4 = sl_ip_untranslated(ip);

    if (range && !sl_ip_is_v4(ip) && sl_ip_is_v4(&v4))
        inner = find_range(&v4);
    return inner && inner->always ? inner : range;
}

static bool is_allowed(const struct sl_ip *ip, const struct sl_url_rules *rules)
{
    for (unsigned i = 0; i < rules->allow_count; i++)
        if (sl_net_has(&rules->allow[i], ip))
            return true;
    return false;
}

static bool is_usual_port(unsigned port, const struct sl_url_rules *rules)
{
    for (unsigned i = 0; i < rules->port_count; i++)
        if (rules->ports[i] == port)
            return true;
    return port == 443 || port == 80;
}

static int refuse_port(unsigned port, struct sl_diag *diag)
{
    return sl_diag_error(diag, SLUICE_ECONF,
                         "port %u is not allowed; use port 443, or let the "
                         "operator list the port in webhooks.ports of the "
                         "policy",
                         port);
}

int sl_url_guard_address(const struct sl_ip *ip, unsigned port,
                         const struct sl_url_rules *rules, struct sl_diag *diag)
{
    const struct range *range = find_judged(ip);
    bool allowed = is_allowed(ip, rules) && !(range && range->always);
    char text[SL_IP_TEXT];

    if (range && !allowed) {
        sl_ip_print(ip, text);
        return sl_diag_error(diag, SLUICE_ECONF,
                             "%s is %s, and webhooks are not sent there%s",
                             text, range->is,
                             range->always ? ""
                                           : "; the operator can open it by "
                                             "webhooks.allow of the policy");
    }
    if (!allowed && !is_usual_port(port, rules))
        return refuse_port(port, diag);
    return 0;
}

bool sl_url_guard_is_public(const struct sl_ip *ip)
{
    return !find_range(ip);
}

/* ---- the URL ---- */

/* Refuses bytes that some readers of URLs drop, replace or end at. */
static int check_bytes(struct sl_str url, struct sl_diag *diag)
{
    if (url.len > SL_WEBHOOK_URL)
        return sl_diag_error(diag, SLUICE_ECONF,
                             "the URL has %zu bytes; at most %d are allowed",
                             url.len, SL_WEBHOOK_URL);
    for (size_t i = 0; i < url.len; i++) {
        unsigned char c = (unsigned char)url.at[i];

        if (c > 0x7e)
            return sl_diag_error(diag, SLUICE_ECONF,
                                 "the URL has a character that is not ASCII at "
                                 "byte %zu; write the host in punycode "
                                 "(xn--...) and the path in %%XX",
                                 i);
        if (c <= ' ' || strchr("\\\"<>^`{|}", c))
            return sl_diag_error(diag, SLUICE_ECONF,
                                 "the URL has a blank or a character that is "
                                 "not allowed at byte %zu; write it as %%%02X",
                                 i, c);
    }
    return 0;
}

/* Cuts off the scheme. */
static int read_scheme(struct sl_str *rest, const struct sl_url_rules *rules,
                       struct sl_webhook_url *ret, struct sl_diag *diag)
{
    struct sl_str https = SL_STR("https://"), http = SL_STR("http://");
    struct sl_str head = {rest->at, rest->len < 8 ? rest->len : 8};

    ret->is_tls = sl_str_eq_nocase(head, https);
    head.len = head.len < 7 ? head.len : 7;
    if (!ret->is_tls && !sl_str_eq_nocase(head, http))
        return sl_diag_error(diag, SLUICE_ECONF,
                             "the URL must begin with https://");
    if (!ret->is_tls && !rules->insecure)
        return sl_diag_error(diag, SLUICE_ECONF,
                             "the URL must begin with https://; http is sent "
                             "in the clear, and only allowed with "
                             "webhooks.insecure of the policy");
    *rest = sl_str_from(*rest, ret->is_tls ? https.len : http.len);
    return 0;
}

/* Reads ":8443", or nothing. */
static int read_port(struct sl_str text, struct sl_webhook_url *ret,
                     struct sl_diag *diag)
{
    uint64_t port = 0;

    ret->port = ret->is_tls ? 443 : 80;
    if (text.len == 0)
        return 0;
    if (text.at[0] != ':' || text.len > 6 ||
        sl_parse_number(sl_str_from(text, 1), &port, NULL) || port == 0 ||
        port > 65535)
        return sl_diag_error(diag, SLUICE_ECONF,
                             "\"%.*s\" is not a port; write a number from 1 to "
                             "65535 behind the colon",
                             SL_STR_ARG(text));
    ret->port = (unsigned)port;
    return 0;
}

/* Would some reader take the host for an IPv4 address? The last label begins
 * with a digit then: 127.1, 0x7f.0.0.1, 2130706433, 1.2.3.0xff. */
static bool ends_in_number(struct sl_str host)
{
    size_t at = host.len;

    while (at > 0 && host.at[at - 1] != '.')
        at--;
    return at < host.len && host.at[at] >= '0' && host.at[at] <= '9';
}

static bool is_label(struct sl_str label)
{
    if (label.len == 0 || label.len > 63 || label.at[0] == '-' ||
        label.at[label.len - 1] == '-')
        return false;
    for (size_t i = 0; i < label.len; i++) {
        char c = label.at[i];

        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
              (c >= '0' && c <= '9') || c == '-' || c == '_'))
            return false;
    }
    return true;
}

static int check_name(struct sl_str host, struct sl_diag *diag)
{
    struct sl_str rest = host;

    if (host.len == 0)
        return sl_diag_error(diag, SLUICE_ECONF, "the URL has no host");
    if (host.len > SL_WEBHOOK_HOST)
        return sl_diag_error(diag, SLUICE_ECONF,
                             "the host name is longer than %d bytes",
                             SL_WEBHOOK_HOST);
    if (host.at[host.len - 1] == '.')
        return sl_diag_error(diag, SLUICE_ECONF,
                             "the host name ends in a dot; leave it out");
    while (rest.len > 0) {
        const char *dot = memchr(rest.at, '.', rest.len);
        struct sl_str label = {rest.at,
                               dot ? (size_t)(dot - rest.at) : rest.len};

        if (!is_label(label))
            return sl_diag_error(diag, SLUICE_ECONF,
                                 "\"%.*s\" is not a host name",
                                 SL_STR_ARG(host));
        rest = sl_str_from(rest, label.len + 1);
    }
    return 0;
}

static int read_host(struct sl_str host, struct sl_webhook_url *ret,
                     struct sl_diag *diag)
{
    ret->host = host;
    ret->is_ip = false;
    if (host.len > 0 && ends_in_number(host)) {
        if (memchr(host.at, ':', host.len) || !sl_ip_parse(host, &ret->ip))
            return sl_diag_error(diag, SLUICE_ECONF,
                                 "\"%.*s\" looks like an address; write it as "
                                 "four decimal numbers without leading zeros, "
                                 "or use a name",
                                 SL_STR_ARG(host));
        ret->is_ip = true;
        return 0;
    }
    return check_name(host, diag);
}

/* Is it an IPv6 address and nothing else? sl_ip_parse() also reads ports and
 * zones. */
static bool is_v6(struct sl_str text)
{
    char copy[INET6_ADDRSTRLEN];
    struct in6_addr bytes;

    if (text.len >= sizeof(copy))
        return false;
    memcpy(copy, text.at, text.len);
    copy[text.len] = '\0';
    return inet_pton(AF_INET6, copy, &bytes) == 1;
}

/* Reads "[2001:db8::1]"; *ret_len is its length. */
static int read_brackets(struct sl_str text, struct sl_webhook_url *ret,
                         size_t *ret_len, struct sl_diag *diag)
{
    const char *end = memchr(text.at, ']', text.len);
    struct sl_str inside = {text.at + 1, end ? (size_t)(end - text.at - 1) : 0};

    if (inside.len == 0 || !is_v6(inside) || !sl_ip_parse(inside, &ret->ip))
        return sl_diag_error(diag, SLUICE_ECONF,
                             "the brackets of the URL do not have an IPv6 "
                             "address without a zone");
    ret->host = inside;
    ret->is_ip = true;
    *ret_len = inside.len + 2;
    return 0;
}

static int read_authority(struct sl_str authority, struct sl_webhook_url *ret,
                          struct sl_diag *diag)
{
    const char *colon;
    size_t len = 0;
    int err;

    if (authority.len == 0)
        return sl_diag_error(diag, SLUICE_ECONF, "the URL has no host");
    if (memchr(authority.at, '@', authority.len))
        return sl_diag_error(diag, SLUICE_ECONF,
                             "the URL has credentials; leave out what is "
                             "before the @");
    if (authority.at[0] == '[') {
        err = read_brackets(authority, ret, &len, diag);
    } else {
        colon = memchr(authority.at, ':', authority.len);
        len = colon ? (size_t)(colon - authority.at) : authority.len;
        err = read_host((struct sl_str){authority.at, len}, ret, diag);
    }
    return err ? err : read_port(sl_str_from(authority, len), ret, diag);
}

/* A name without a dot is of the operator's network. */
static int check_inner(const struct sl_webhook_url *url, struct sl_diag *diag)
{
    static const struct sl_str local = {".localhost", 10};
    struct sl_str host = url->host, tail = host;

    if (host.len > local.len)
        tail = sl_str_from(host, host.len - local.len);
    if (host.len > 0 && memchr(host.at, '.', host.len) &&
        !sl_str_eq_nocase(tail, local))
        return 0;
    return sl_diag_error(diag, SLUICE_ECONF,
                         "\"%.*s\" is a name of the inner network; use a "
                         "public name, or let the operator open the network by "
                         "webhooks.allow of the policy",
                         SL_STR_ARG(host));
}

struct sl_url_rules sl_url_rules_of(const struct sl_webhooks_conf *conf)
{
    return (struct sl_url_rules){.allow = conf->allow,
                                 .allow_count = conf->allow_count,
                                 .ports = conf->ports,
                                 .port_count = conf->port_count,
                                 .insecure = conf->insecure};
}

int sl_url_guard_read(struct sl_str url, const struct sl_url_rules *rules,
                      struct sl_webhook_url *ret, struct sl_diag *diag)
{
    struct sl_webhook_url made = {0};
    struct sl_str rest = url;
    size_t len = 0;
    int err = check_bytes(url, diag);

    if (!err)
        err = read_scheme(&rest, rules, &made, diag);
    if (err)
        return err;
    if (memchr(url.at, '#', url.len))
        return sl_diag_error(diag, SLUICE_ECONF,
                             "the URL has a fragment; leave out what is behind "
                             "the #");
    while (len < rest.len && rest.at[len] != '/' && rest.at[len] != '?')
        len++;
    err = read_authority((struct sl_str){rest.at, len}, &made, diag);
    if (!err && made.is_ip)
        err = sl_url_guard_address(&made.ip, made.port, rules, diag);
    else if (!err && rules->allow_count == 0)
        err = check_inner(&made, diag);
    /* A name may be of a network that is allowed, with all its ports. */
    if (!err && !made.is_ip && rules->allow_count == 0 &&
        !is_usual_port(made.port, rules))
        err = refuse_port(made.port, diag);
    if (!err)
        *ret = made;
    return err;
}

int sl_url_canonical(struct sl_str url, const struct sl_webhook_url *parts,
                     struct sl_buf *out)
{
    struct sl_writer w = {.out = out};
    struct sl_str tail = sl_str_from(url, parts->is_tls ? 8 : 7);
    bool is_v6 = parts->is_ip && !sl_ip_is_v4(&parts->ip);
    char text[SL_IP_TEXT];
    size_t len = 0;

    while (len < tail.len && tail.at[len] != '/' && tail.at[len] != '?')
        len++;
    tail = sl_str_from(tail, len);
    if (tail.len > 0 && tail.at[tail.len - 1] == '?' &&
        memchr(tail.at, '?', tail.len) == tail.at + tail.len - 1)
        tail.len--;
    sl_writer_addf(&w, "%s", parts->is_tls ? "https://" : "http://");
    if (parts->is_ip) {
        sl_ip_print(&parts->ip, text);
        sl_writer_addf(&w, is_v6 ? "[%s]" : "%s", text);
    } else {
        for (size_t i = 0; i < parts->host.len; i++) {
            char c = parts->host.at[i];

            c = (char)(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
            sl_writer_add(&w, (struct sl_str){&c, 1});
        }
    }
    if (parts->port != (parts->is_tls ? 443 : 80))
        sl_writer_addf(&w, ":%u", parts->port);
    if (tail.len == 0 || tail.at[0] != '/')
        sl_writer_add(&w, SL_STR("/"));
    sl_writer_add(&w, tail);
    return w.err;
}
