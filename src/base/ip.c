/* ip.c -- IP addresses by their bits.
 *
 * Every notation becomes sixteen bytes, and only these count: "::ffff:102:304"
 * is IPv4, "2001:db8::1.2.3.4" is IPv6. Comparing texts would give one client
 * several limits, or all IPv4 clients one.
 *
 * Proxies add brackets, a port and a zone, which are removed first. inet_pton()
 * would need a copy with a NUL.
 */
#include "base/ip.h"

#include <string.h>

#include "base/str.h"

#define GROUPS 8 /* of sixteen bits */

static const uint8_t v4_prefix[12] = {[10] = 0xff, [11] = 0xff};

/* Read 1 to `most` decimal digits at the start of *text and pass them. The
 * number must not exceed `max` nor, unless `zeros`, begin with a zero. */
static bool read_decimal(struct sl_str *text, size_t most, unsigned max,
                         bool zeros, unsigned *ret)
{
    unsigned n = 0;
    size_t len = 0;

    while (len < text->len && len < most && text->at[len] >= '0' &&
           text->at[len] <= '9')
        n = 10 * n + (unsigned)(text->at[len++] - '0');
    if (len == 0 || n > max || (!zeros && len > 1 && text->at[0] == '0'))
        return false;
    *text = sl_str_from(*text, len);
    *ret = n;
    return true;
}

/* Is the whole text four decimal numbers? */
static bool read_v4(struct sl_str text, uint8_t out[4])
{
    unsigned n;

    for (unsigned i = 0; i < 4; i++) {
        if (i > 0) {
            if (text.len == 0 || text.at[0] != '.')
                return false;
            text = sl_str_from(text, 1);
        }
        if (!read_decimal(&text, 3, 255, false, &n))
            return false;
        out[i] = (uint8_t)n;
    }
    return text.len == 0;
}

/* The groups of an IPv6 address so far. */
struct groups {
    uint8_t bytes[2 * GROUPS];
    unsigned count;
    int gap; /* group that "::" precedes; -1: none */
};

/* One to four hex digits. */
static bool read_group(struct groups *g, struct sl_str *text)
{
    unsigned n = 0;
    size_t len = 0;

    while (len < text->len && sl_hex_value(text->at[len]) >= 0) {
        n = n << 4 | (unsigned)sl_hex_value(text->at[len]);
        if (++len > 4)
            return false;
    }
    if (len == 0 || g->count == GROUPS)
        return false;
    g->bytes[2 * g->count] = (uint8_t)(n >> 8);
    g->bytes[2 * g->count + 1] = (uint8_t)n;
    g->count++;
    *text = sl_str_from(*text, len);
    return true;
}

/* Four decimal numbers in the place of the last two groups. */
static bool read_tail(struct groups *g, struct sl_str text)
{
    if (g->count > GROUPS - 2 || !read_v4(text, g->bytes + 2 * g->count))
        return false;
    g->count += 2;
    return true;
}

static bool starts(struct sl_str text, const char *with, size_t len)
{
    return text.len >= len && memcmp(text.at, with, len) == 0;
}

/* Does the text up to the next colon have a dot in it? */
static bool has_dot(struct sl_str text)
{
    for (size_t i = 0; i < text.len && text.at[i] != ':'; i++)
        if (text.at[i] == '.')
            return true;
    return false;
}

static bool read_groups(struct groups *g, struct sl_str text)
{
    if (starts(text, "::", 2)) {
        g->gap = 0;
        text = sl_str_from(text, 2);
        if (text.len == 0)
            return true;
    }
    for (;;) {
        if (has_dot(text))
            return read_tail(g, text);
        if (!read_group(g, &text))
            return false;
        if (text.len == 0)
            return true;
        if (starts(text, "::", 2)) {
            if (g->gap >= 0)
                return false;
            g->gap = (int)g->count;
            text = sl_str_from(text, 2);
            if (text.len == 0)
                return true;
        } else if (text.at[0] == ':') {
            text = sl_str_from(text, 1);
        } else {
            return false;
        }
    }
}

static bool read_v6(struct sl_str text, struct sl_ip *ret)
{
    struct groups g = {.gap = -1};
    size_t before, behind;

    if (!read_groups(&g, text))
        return false;
    if (g.gap < 0 ? g.count != GROUPS : g.count == GROUPS)
        return false; /* "::" is at least one group */
    before = 2 * (size_t)(g.gap < 0 ? GROUPS : g.gap);
    behind = 2 * (size_t)g.count - (g.gap < 0 ? 2 * GROUPS : before);
    memset(ret->bytes, 0, sizeof(ret->bytes));
    memcpy(ret->bytes, g.bytes, before);
    memcpy(ret->bytes + 2 * GROUPS - behind, g.bytes + before, behind);
    return true;
}

/* An address without brackets, port and zone. */
static bool read_bare(struct sl_str text, struct sl_ip *ret)
{
    uint8_t v4[4];

    if (text.len > 0 && memchr(text.at, ':', text.len))
        return read_v6(text, ret);
    if (!read_v4(text, v4))
        return false;
    memcpy(ret->bytes, v4_prefix, 12);
    memcpy(ret->bytes + 12, v4, 4);
    return true;
}

/* Names of interfaces: anything printable that ends no address. */
static bool is_zone(struct sl_str zone)
{
    for (size_t i = 0; i < zone.len; i++)
        if (zone.at[i] <= ' ' || zone.at[i] >= 0x7f ||
            strchr("[]/,;\"", zone.at[i]))
            return false;
    return zone.len > 0;
}

/* IPv6, perhaps with a zone behind it. */
static bool read_zoned(struct sl_str text, struct sl_ip *ret)
{
    const char *percent = text.len ? memchr(text.at, '%', text.len) : NULL;
    struct sl_str address = text;

    if (percent) {
        address.len = (size_t)(percent - text.at);
        if (!is_zone(sl_str_from(text, address.len + 1)))
            return false;
    }
    return read_v6(address, ret);
}

/* ":443", or nothing. */
static bool is_port(struct sl_str text)
{
    unsigned port;

    if (text.len == 0)
        return true;
    if (text.at[0] != ':')
        return false;
    text = sl_str_from(text, 1);
    return read_decimal(&text, 5, 65535, true, &port) && text.len == 0;
}

bool sl_ip_parse(struct sl_str text, struct sl_ip *ret)
{
    struct sl_ip ip;
    const char *end;
    struct sl_str inner = text;

    if (text.len == 0)
        return false;
    if (text.at[0] == '[') {
        end = memchr(text.at, ']', text.len);
        if (!end)
            return false;
        inner = (struct sl_str){text.at + 1, (size_t)(end - text.at) - 1};
        if (!read_zoned(inner, &ip) ||
            !is_port(sl_str_from(text, inner.len + 2)))
            return false;
    } else if (!read_zoned(text, &ip)) {
        end = memchr(text.at, ':', text.len);
        if (end)
            inner.len = (size_t)(end - text.at);
        if (!read_bare(inner, &ip) || !is_port(sl_str_from(text, inner.len)))
            return false;
    }
    *ret = ip;
    return true;
}

bool sl_ip_is_plain_v4(struct sl_str text)
{
    unsigned dots = 0, digits = 0, value = 0;

    for (size_t i = 0; i < text.len; i++) {
        unsigned digit = (unsigned char)text.at[i] - (unsigned)'0';

        if (text.at[i] == '.') {
            if (digits == 0 || ++dots > 3)
                return false;
            digits = value = 0;
            continue;
        }
        if (digit > 9 || (digits > 0 && value == 0))
            return false;
        digits++;
        value = value * 10 + digit;
        if (value > 255)
            return false;
    }
    return dots == 3 && digits > 0;
}

bool sl_ip_is_v4(const struct sl_ip *ip)
{
    return memcmp(ip->bytes, v4_prefix, sizeof(v4_prefix)) == 0;
}

struct sl_ip sl_ip_untranslated(const struct sl_ip *ip)
{
    static const uint8_t nat64[12] = {0x00, 0x64, 0xff, 0x9b};
    struct sl_ip native = *ip;

    if (memcmp(ip->bytes, nat64, sizeof(nat64)) == 0)
        memcpy(native.bytes, v4_prefix, sizeof(v4_prefix));
    return native;
}

/* Clear all but the first `bits`. */
static void keep_bits(struct sl_ip *ip, unsigned bits)
{
    for (unsigned i = 0; i < sizeof(ip->bytes); i++) {
        unsigned kept = bits > 8 * i ? bits - 8 * i : 0;

        if (kept < 8)
            ip->bytes[i] &= (uint8_t)(0xff00U >> kept);
    }
}

struct sl_ip sl_ip_prefix(const struct sl_ip *ip, unsigned v6_prefix)
{
    struct sl_ip masked = *ip;

    if (!sl_ip_is_v4(ip))
        keep_bits(&masked, v6_prefix);
    return masked;
}

static unsigned group_of(const struct sl_ip *ip, unsigned i)
{
    return (unsigned)ip->bytes[2 * i] << 8 | ip->bytes[2 * i + 1];
}

/* RFC 5952: the longest run of two or more zero groups, the first of equals.
 * Returns its length and puts its start into *ret. */
static unsigned longest_gap(const struct sl_ip *ip, unsigned *ret)
{
    unsigned best = 1, run = 0;

    *ret = GROUPS;
    for (unsigned i = 0; i < GROUPS; i++) {
        run = group_of(ip, i) == 0 ? run + 1 : 0;
        if (run > best) {
            best = run;
            *ret = i + 1 - run;
        }
    }
    return best;
}

static char *put_number(char *at, unsigned n, unsigned base)
{
    char digits[5];
    unsigned count = 0;

    do
        digits[count++] = "0123456789abcdef"[n % base];
    while ((n /= base) > 0);
    while (count > 0)
        *at++ = digits[--count];
    return at;
}

static char *put_v4(char *at, const uint8_t bytes[4])
{
    for (unsigned i = 0; i < 4; i++) {
        if (i > 0)
            *at++ = '.';
        at = put_number(at, bytes[i], 10);
    }
    return at;
}

size_t sl_ip_print(const struct sl_ip *ip, char out[SL_IP_TEXT])
{
    unsigned gap, len = longest_gap(ip, &gap);
    char *at = out;

    if (sl_ip_is_v4(ip)) {
        at = put_v4(at, ip->bytes + 12);
    } else {
        for (unsigned i = 0; i < GROUPS; i++) {
            if (i == gap) {
                *at++ = ':';
                i += len - 1;
                if (i == GROUPS - 1)
                    *at++ = ':';
                continue;
            }
            if (i > 0)
                *at++ = ':';
            at = put_number(at, group_of(ip, i), 16);
        }
    }
    *at = '\0';
    return (size_t)(at - out);
}

bool sl_net_parse(struct sl_str text, struct sl_net *ret)
{
    const char *slash = text.len ? memchr(text.at, '/', text.len) : NULL;
    struct sl_str address = text, rest;
    struct sl_net net = {.bits = 128};
    struct sl_ip masked;

    if (slash)
        address.len = (size_t)(slash - text.at);
    if (address.len == 0 || !read_bare(address, &net.ip))
        return false;
    if (slash) {
        bool dotted = !memchr(address.at, ':', address.len);

        rest = sl_str_from(text, address.len + 1);
        if (!read_decimal(&rest, 3, dotted ? 32 : 128, false, &net.bits) ||
            rest.len > 0)
            return false;
        net.bits += dotted ? 96 : 0;
    }
    masked = net.ip;
    keep_bits(&masked, net.bits);
    if (memcmp(&masked, &net.ip, sizeof(masked)) != 0)
        return false;
    *ret = net;
    return true;
}

struct sl_net sl_net_of(const struct sl_ip *ip, unsigned bits)
{
    struct sl_net net = {*ip, bits};

    keep_bits(&net.ip, bits);
    return net;
}

size_t sl_net_print(const struct sl_net *net, char out[SL_NET_TEXT])
{
    bool v4 = sl_ip_is_v4(&net->ip) && net->bits >= 96;
    size_t len = sl_ip_print(&net->ip, out);
    char *at = out + len;

    if (v4 && net->bits == 128)
        return len;
    *at++ = '/';
    at = put_number(at, net->bits - (v4 ? 96 : 0), 10);
    *at = '\0';
    return (size_t)(at - out);
}

bool sl_net_has(const struct sl_net *net, const struct sl_ip *ip)
{
    struct sl_ip masked = *ip;

    /* ::/0 means IPv6. By its bits it would contain all of IPv4, which would
     * surprise in a list of trusted proxies. */
    if (net->bits < 96 && sl_ip_is_v4(ip))
        return false;
    keep_bits(&masked, net->bits);
    return memcmp(&masked, &net->ip, sizeof(masked)) == 0;
}
