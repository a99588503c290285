/* ip.c -- addresses by their bits.
 *
 *   (1)  what was printed is read back as the same bytes
 *   (2)  any notation of the same bits gives the same bytes; glibc's reader,
 *        where it reads a notation at all, agrees
 *   (3)  what was printed is what glibc prints, but for dots in IPv6
 *   (4)  a prefix keeps its bits and no others, IPv4 all of them, and it is in
 *        the network of that prefix exactly if it agrees in those bits
 *   (5)  random bytes are refused or read as glibc reads them
 */
#include "base/ip.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include "prop.h"

/* Bits with a liking for runs of zeros and for the edges of IPv4. */
static struct sl_ip random_ip(struct rng *rng)
{
    struct sl_ip ip;

    for (unsigned i = 0; i < 16; i++)
        ip.bytes[i] = rng_once_in(rng, 2) ? 0 : (uint8_t)rng_next(rng);
    if (rng_once_in(rng, 3)) {
        memset(ip.bytes, 0, 12);
        ip.bytes[10] = ip.bytes[11] = 0xff;
        if (rng_once_in(rng, 4)) /* nearly mapped */
            ip.bytes[rng_below(rng, 12)] ^= (uint8_t)(1U << rng_below(rng, 8));
    }
    return ip;
}

/* Append a group in one of its spellings. */
static size_t write_group(struct rng *rng, char *out, unsigned group)
{
    static const char *const forms[] = {"%x", "%X", "%04x", "%02X"};

    return (size_t)snprintf(out, 8, forms[rng_below(rng, 4)], group);
}

/* IPv6 in any notation: a gap over any of its zeros or none, dots at the end
 * or not. */
static size_t write_v6(struct rng *rng, char *out, const struct sl_ip *ip)
{
    const uint8_t *b = ip->bytes;
    bool dots = rng_once_in(rng, 3);
    unsigned groups = dots ? 6 : 8, gap = 8, end = 8, at = 0;
    size_t len = 0;

    if (rng_once_in(rng, 2)) {
        gap = (unsigned)rng_below(rng, groups);
        for (end = gap; end < groups && !b[2 * end] && !b[2 * end + 1];)
            end++;
        if (end == gap)
            gap = end = 8; /* no zero there */
    }
    while (at < groups) {
        if (at == gap) {
            if (at == 0)
                out[len++] = ':';
            out[len++] = ':';
            at = end;
            continue;
        }
        len += write_group(rng, out + len,
                           (unsigned)b[2 * at] << 8 | b[2 * at + 1]);
        at++;
        if (at < 8)
            out[len++] = ':';
    }
    if (dots)
        len += (size_t)snprintf(out + len, 17, "%u.%u.%u.%u", b[12], b[13],
                                b[14], b[15]);
    return len;
}

/* An address as a proxy might write it. Returns whether glibc should read it
 * too. */
static bool write_any(struct rng *rng, char *out, size_t *len,
                      const struct sl_ip *ip)
{
    const uint8_t *b = ip->bytes;
    char inner[64];

    if (sl_ip_is_v4(ip) && rng_once_in(rng, 2)) {
        bool port = rng_once_in(rng, 3);

        *len = (size_t)snprintf(
            out, 96, port ? "%u.%u.%u.%u:%u" : "%u.%u.%u.%u", b[12], b[13],
            b[14], b[15], (unsigned)rng_below(rng, 65536));
        return false; /* four bytes to it, not sixteen */
    }
    inner[write_v6(rng, inner, ip)] = '\0';
    switch (rng_below(rng, 5)) {
    case 0:
        *len = (size_t)snprintf(out, 96, "[%s]", inner);
        return false;
    case 1:
        *len = (size_t)snprintf(out, 96, "[%s]:%u", inner,
                                (unsigned)rng_below(rng, 65536));
        return false;
    case 2:
        *len = (size_t)snprintf(out, 96, "%s%%eth%u", inner,
                                (unsigned)rng_below(rng, 100));
        return false;
    default:
        *len = (size_t)snprintf(out, 96, "%s", inner);
        return true;
    }
}

static bool same(const struct sl_ip *a, const void *b)
{
    return memcmp(a->bytes, b, 16) == 0;
}

static const char *notations_broken(struct rng *rng, const struct sl_ip *ip,
                                    char text[128])
{
    struct sl_ip back;
    uint8_t theirs[16];
    size_t len;

    len = sl_ip_print(ip, text);
    if (!sl_ip_parse((struct sl_str){text, len}, &back) || !same(ip, &back))
        return "(1)";
    for (unsigned i = 0; i < 4; i++) {
        bool known = write_any(rng, text, &len, ip);

        if (!sl_ip_parse((struct sl_str){text, len}, &back) || !same(ip, &back))
            return "(2)";
        if (known &&
            (inet_pton(AF_INET6, text, theirs) != 1 || !same(ip, theirs)))
            return "(2) glibc";
    }
    return NULL;
}

static const char *print_broken(const struct sl_ip *ip, char text[128])
{
    char theirs[64];

    sl_ip_print(ip, text);
    if (sl_ip_is_v4(ip))
        inet_ntop(AF_INET, ip->bytes + 12, theirs, sizeof(theirs));
    else
        inet_ntop(AF_INET6, ip->bytes, theirs, sizeof(theirs));
    if (!sl_ip_is_v4(ip) && strchr(theirs, '.'))
        return NULL;
    return strcmp(text, theirs) == 0 ? NULL : "(3)";
}

static bool agree(const struct sl_ip *a, const struct sl_ip *b, unsigned bits)
{
    for (unsigned i = 0; i < bits; i++)
        if ((a->bytes[i / 8] ^ b->bytes[i / 8]) >> (7 - i % 8) & 1)
            return false;
    return true;
}

static const char *prefix_broken(struct rng *rng, const struct sl_ip *ip,
                                 char text[128])
{
    unsigned bits = (unsigned)rng_below(rng, 129), wide;
    struct sl_ip masked = sl_ip_prefix(ip, bits), other = *ip;
    struct sl_net net;
    size_t len;

    other.bytes[rng_below(rng, 16)] ^= (uint8_t)(1U << rng_below(rng, 8));
    if (sl_ip_is_v4(ip))
        return same(ip, &masked) ? NULL : "(4) IPv4";
    if (!agree(ip, &masked, bits) || sl_ip_is_v4(&masked))
        return "(4)";
    for (unsigned i = bits; i < 128; i++)
        if (masked.bytes[i / 8] >> (7 - i % 8) & 1)
            return "(4) a bit too many";
    len = sl_ip_print(&masked, text);
    len += (size_t)snprintf(text + len, 8, "/%u", bits);
    if (!sl_net_parse((struct sl_str){text, len}, &net) || net.bits != bits)
        return "(4) network";
    wide = bits < 96 && sl_ip_is_v4(&other);
    if (!sl_net_has(&net, ip) ||
        sl_net_has(&net, &other) != (agree(ip, &other, bits) && !wide))
        return "(4) membership";
    return NULL;
}

/* What could almost be an address. */
static const char *noise_broken(struct rng *rng, char text[128])
{
    static const char letters[] = "0123456789abcdefF:.:.::%[]x/ ";
    size_t len = rng_below(rng, 24);
    struct sl_ip ip;
    uint8_t theirs[16] = {[10] = 0xff, [11] = 0xff};
    bool read, known;

    for (size_t i = 0; i < len; i++)
        text[i] = letters[rng_below(rng, sizeof(letters) - 1)];
    text[len] = '\0';
    read = sl_ip_parse((struct sl_str){text, len}, &ip);
    known = inet_pton(AF_INET6, text, theirs) == 1 ||
            inet_pton(AF_INET, text, theirs + 12) == 1;
    if (known && (!read || !same(&ip, theirs)))
        return "(5)";
    if (read && !known && !strpbrk(text, "[%") && strchr(text, ':') == NULL)
        return "(5) too lax";
    if (sl_ip_is_plain_v4((struct sl_str){text, len}) !=
        (inet_pton(AF_INET, text, theirs) == 1))
        return "(5) plain";
    return NULL;
}

static bool episode(uint64_t seed, uint64_t *steps)
{
    struct rng rng = {seed};
    char text[128] = "";

    for (unsigned i = 0; i < 100; i++) {
        struct sl_ip ip = random_ip(&rng);
        const char *broken = notations_broken(&rng, &ip, text);

        if (!broken)
            broken = print_broken(&ip, text);
        if (!broken)
            broken = prefix_broken(&rng, &ip, text);
        if (!broken)
            broken = noise_broken(&rng, text);
        ++*steps;
        if (broken) {
            printf("# ip %s: %s, step %u\n", broken, text, i);
            return false;
        }
    }
    return true;
}

const struct property prop_ip = {
    .name = "ip",
    .steps = 300000,
    .cases = {{"ip (1) (2) (3) (4) (5) the bits are all that counts", episode}},
};
