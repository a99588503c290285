/* address.c -- reads and prints addresses to listen on.
 *
 * Names are not looked up, since they may resolve to several addresses. `*` is
 * the IPv6 address `::` that also accepts IPv4; "[::]" is IPv6 alone. Both are
 * the same bytes; listener.c tells them apart by the text.
 */
#include "net/address.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include "base/parse.h"

#define UNIX_PREFIX SL_STR("unix:")

/* sun_path with its NUL. */
#define PATH_MOST (sizeof(((struct sockaddr_un *)0)->sun_path) - 1)

static const uint8_t v4_prefix[12] = {[10] = 0xff, [11] = 0xff};

static void set_unix(struct sl_address *ret, struct sl_str path)
{
    struct sockaddr_un sun = {.sun_family = AF_UNIX};

    memcpy(sun.sun_path, path.at, path.len);
    memcpy(&ret->bytes, &sun, sizeof(sun));
    ret->len =
        (socklen_t)(offsetof(struct sockaddr_un, sun_path) + path.len + 1);
}

static void set_v4(struct sl_address *ret, const uint8_t bytes[4],
                   uint16_t port)
{
    struct sockaddr_in sin = {.sin_family = AF_INET, .sin_port = htons(port)};

    memcpy(&sin.sin_addr, bytes, 4);
    memcpy(&ret->bytes, &sin, sizeof(sin));
    ret->len = sizeof(sin);
}

static void set_v6(struct sl_address *ret, const uint8_t bytes[16],
                   uint16_t port)
{
    struct sockaddr_in6 sin6 = {
        .sin6_family = AF_INET6,
        .sin6_port = htons(port),
    };

    memcpy(&sin6.sin6_addr, bytes, 16);
    memcpy(&ret->bytes, &sin6, sizeof(sin6));
    ret->len = sizeof(sin6);
}

static int parse_unix(struct sl_str text, struct sl_address *ret,
                      struct sl_diag *diag)
{
    struct sl_str path = sl_str_from(text, UNIX_PREFIX.len);

    if (path.len == 0)
        return sl_diag_error(diag, SLUICE_ECONF,
                             "a unix socket needs a path; write one like "
                             "unix:/run/sluice/http.sock");
    if (path.at[0] == '@')
        return sl_diag_error_at(
            diag, SLUICE_ECONF, UNIX_PREFIX.len,
            "abstract unix sockets have no owner and no mode, "
            "so every local user could connect; write a path");
    if (memchr(path.at, '\0', path.len) || path.at[path.len - 1] == '/')
        return sl_diag_error_at(diag, SLUICE_ECONF, UNIX_PREFIX.len,
                                "\"%.*s\" is not the path of a file",
                                SL_STR_ARG(path));
    if (path.len > PATH_MOST)
        return sl_diag_error_at(
            diag, SLUICE_ECONF, UNIX_PREFIX.len,
            "the path of a unix socket has at most %zu bytes, "
            "not %zu; write a shorter path",
            PATH_MOST, path.len);
    set_unix(ret, path);
    return 0;
}

static int parse_port(struct sl_str text, size_t at, uint16_t *ret,
                      struct sl_diag *diag)
{
    struct sl_str port = sl_str_from(text, at);
    uint64_t n;

    if (sl_parse_number(port, &n, NULL) || n > UINT16_MAX)
        return sl_diag_error_at(
            diag, SLUICE_ECONF, at,
            "a port must be a number from 0 to 65535, not \"%.*s\"",
            SL_STR_ARG(port));
    *ret = (uint16_t)n;
    return 0;
}

/* No port: suggest what may have been meant. */
static int refuse_no_port(struct sl_str text, struct sl_diag *diag)
{
    struct sl_ip ip;
    uint64_t n;

    sl_diag_error(diag, SLUICE_ECONF,
                  "\"%.*s\" is not an address with a port; write one like "
                  "127.0.0.1:8080, [::1]:8080, *:8080 or unix:/run/sluice.sock",
                  SL_STR_ARG(text));
    if (sl_parse_number(text, &n, NULL) == 0 && n <= UINT16_MAX)
        sl_diag_hint(diag, "127.0.0.1:%.*s", SL_STR_ARG(text));
    else if (sl_str_eq(text, SL_STR("*")) ||
             sl_str_eq(text, SL_STR("localhost")))
        sl_diag_hint(diag, "%.*s:8080", SL_STR_ARG(text));
    else if (sl_ip_parse(text, &ip))
        sl_diag_hint(diag,
                     text.at[0] != '[' && !sl_ip_is_v4(&ip) ? "[%.*s]:8080"
                                                            : "%.*s:8080",
                     SL_STR_ARG(text));
    return SLUICE_ECONF;
}

static int refuse_host(struct sl_str host, struct sl_str port,
                       struct sl_diag *diag)
{
    struct sl_ip ip;

    if (host.len == 0) {
        sl_diag_error(
            diag, SLUICE_ECONF,
            "the address before the port is missing; write 127.0.0.1 for "
            "this machine only, or * for all addresses");
        sl_diag_hint(diag, "127.0.0.1:%.*s", SL_STR_ARG(port));
    } else if (memchr(host.at, '%', host.len)) {
        sl_diag_error(diag, SLUICE_ECONF,
                      "\"%.*s\" has a zone, which is not supported; write the "
                      "address without it, or [::] for all IPv6 addresses",
                      SL_STR_ARG(host));
    } else if (host.at[0] != '[' && sl_ip_parse(host, &ip)) {
        sl_diag_error(diag, SLUICE_ECONF,
                      "an IPv6 address with a port needs brackets");
        sl_diag_hint(diag, "[%.*s]:%.*s", SL_STR_ARG(host), SL_STR_ARG(port));
    } else {
        sl_diag_error(
            diag, SLUICE_ECONF,
            "\"%.*s\" is not a numeric address, and names are not looked up; "
            "write a numeric address, localhost, or * for all addresses",
            SL_STR_ARG(host));
    }
    return SLUICE_ECONF;
}

static int parse_host(struct sl_str host, struct sl_str port_text,
                      uint16_t port, struct sl_address *ret,
                      struct sl_diag *diag)
{
    static const uint8_t any[16], loopback[4] = {127, 0, 0, 1};
    bool bracketed = host.len > 0 && host.at[0] == '[';
    struct sl_ip ip;

    if (sl_str_eq(host, SL_STR("*"))) {
        set_v6(ret, any, port);
        return 0;
    }
    if (sl_str_eq_nocase(host, SL_STR("localhost"))) {
        set_v4(ret, loopback, port);
        return 0;
    }
    /* sl_ip_parse() also accepts a port and a zone. */
    if (!sl_ip_parse(host, &ip) || memchr(host.at, '%', host.len) ||
        (bracketed ? host.at[host.len - 1] != ']'
                   : memchr(host.at, ':', host.len) != NULL))
        return refuse_host(host, port_text, diag);
    if (sl_ip_is_v4(&ip))
        set_v4(ret, ip.bytes + 12, port);
    else
        set_v6(ret, ip.bytes, port);
    return 0;
}

/* "::1" has colons but no port. */
static const char *find_port(struct sl_str text)
{
    const char *colon = memrchr(text.at, ':', text.len);
    const char *bracket = memrchr(text.at, ']', text.len);
    bool bare =
        text.at[0] != '[' && colon && colon > text.at && colon[-1] == ':';

    return bare || (colon && bracket > colon) ? NULL : colon;
}

int sl_address_parse(struct sl_str text, struct sl_address *ret,
                     struct sl_diag *diag)
{
    struct sl_address address = {.len = 0};
    const char *colon;
    size_t at;
    uint16_t port = 0;
    int err;

    if (text.len == 0)
        return sl_diag_error(diag, SLUICE_ECONF,
                             "the address is missing; write one like "
                             "127.0.0.1:8080 or unix:/run/sluice.sock");
    if (sl_str_begins(text, UNIX_PREFIX)) {
        err = parse_unix(text, &address, diag);
    } else if (!(colon = find_port(text))) {
        err = refuse_no_port(text, diag);
    } else {
        at = (size_t)(colon - text.at);
        err = parse_port(text, at + 1, &port, diag);
        if (!err)
            err = parse_host((struct sl_str){text.at, at},
                             sl_str_from(text, at + 1), port, &address, diag);
    }
    if (err)
        return err;
    /* It fits: a path has at most 107 bytes. */
    memcpy(address.text, text.at, text.len);
    *ret = address;
    return 0;
}

bool sl_address_is_unix(const struct sl_address *address)
{
    return address->bytes.ss_family == AF_UNIX;
}

bool sl_address_ip(const struct sl_address *address, struct sl_ip *ret)
{
    struct sockaddr_in sin;
    struct sockaddr_in6 sin6;

    switch (address->bytes.ss_family) {
    case AF_INET:
        memcpy(&sin, &address->bytes, sizeof(sin));
        memcpy(ret->bytes, v4_prefix, 12);
        memcpy(ret->bytes + 12, &sin.sin_addr, 4);
        return true;
    case AF_INET6:
        memcpy(&sin6, &address->bytes, sizeof(sin6));
        memcpy(ret->bytes, &sin6.sin6_addr, 16);
        return true;
    default:
        return false;
    }
}

bool sl_address_is_local(const struct sl_address *address)
{
    static const struct sl_ip one = {{[15] = 1}};
    struct sl_ip ip;

    if (!sl_address_ip(address, &ip))
        return sl_address_is_unix(address);
    return (sl_ip_is_v4(&ip) && ip.bytes[12] == 127) ||
           memcmp(&ip, &one, sizeof(ip)) == 0;
}

unsigned sl_address_port(const struct sl_address *address)
{
    struct sockaddr_in sin;

    if (address->bytes.ss_family != AF_INET &&
        address->bytes.ss_family != AF_INET6)
        return 0;
    memcpy(&sin, &address->bytes, sizeof(sin)); /* the same place in both */
    return ntohs(sin.sin_port);
}

void sl_address_print(const struct sl_address *address, char *out, size_t size)
{
    const struct sockaddr_un *sun = (const void *)&address->bytes;
    size_t head = offsetof(struct sockaddr_un, sun_path);
    unsigned port = sl_address_port(address);
    char text[SL_IP_TEXT];
    struct sl_ip ip;

    if (sl_address_is_unix(address)) {
        /* The socket of a client is unnamed. */
        int len = address->len > head ? (int)(address->len - head) : 0;

        snprintf(out, size, "unix:%.*s", len, sun->sun_path);
    } else if (!sl_address_ip(address, &ip)) {
        snprintf(out, size, "unknown");
    } else if (address->text[0] == '*') {
        snprintf(out, size, "*:%u", port);
    } else {
        sl_ip_print(&ip, text);
        snprintf(out, size, sl_ip_is_v4(&ip) ? "%s:%u" : "[%s]:%u", text, port);
    }
}
