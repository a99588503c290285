/* proxy2.c -- the header of the PROXY protocol, version 2. */
#include "net/proxy2.h"

#include <string.h>

#define SIGNATURE_LEN 12

static const unsigned char signature[SIGNATURE_LEN + 1] =
    "\r\n\r\n\0\r\nQUIT\n";
static const char version1[] = "PROXY ";

/* Families and protocols: two digits of one byte. */
enum {
    UNSPEC = 0x00,
    TCP4 = 0x11,
    TCP6 = 0x21,
    UNIX = 0x31,
};

static enum sl_proxy2_result refuse(struct sl_proxy2 *ret, const char *why)
{
    ret->why = why;
    return SL_PROXY2_REFUSED;
}

static enum sl_proxy2_result want(struct sl_proxy2 *ret, size_t need)
{
    ret->need = need;
    return SL_PROXY2_MORE;
}

/* Is what is there of `bytes` the beginning of `text`? */
static bool may_be(const unsigned char *bytes, size_t len, const void *text,
                   size_t size)
{
    return memcmp(bytes, text, len < size ? len : size) == 0;
}

/* The signature is not there. */
static enum sl_proxy2_result refuse_other(const unsigned char *bytes,
                                          size_t len, struct sl_proxy2 *ret)
{
    size_t size = sizeof(version1) - 1;

    if (!may_be(bytes, len, version1, size))
        return refuse(ret, "missing PROXY header; let the load balancer send "
                           "it, or remove this listener from proxy_protocol");
    if (len < size)
        return want(ret, SL_PROXY2_HEAD);
    return refuse(ret, "version 1 of the PROXY protocol is not supported; let "
                       "the load balancer send version 2 (send-proxy-v2)");
}

static unsigned number(const unsigned char *bytes)
{
    return (unsigned)bytes[0] << 8 | bytes[1];
}

/* Bytes of both addresses and ports; -1 if the family is none of ours. */
static int addresses_size(unsigned char family)
{
    switch (family) {
    case UNSPEC:
        return 0;
    case TCP4:
        return 2 * (4 + 2);
    case TCP6:
        return 2 * (16 + 2);
    case UNIX:
        return 2 * 108;
    default:
        return -1;
    }
}

/* The first address is the client's; ours is between them and the ports. */
static void read_client(const unsigned char *at, unsigned char family,
                        struct sl_proxy2 *ret)
{
    static const struct sl_ip mapped = {
        {[10] = 0xff, [11] = 0xff}
    };

    ret->ip = mapped;
    ret->has_ip = family == TCP4 || family == TCP6;
    if (family == TCP4) {
        memcpy(ret->ip.bytes + 12, at, 4);
        ret->port = number(at + 2 * 4);
    } else if (family == TCP6) {
        memcpy(ret->ip.bytes, at, 16);
        ret->port = number(at + 2 * 16);
    }
}

enum sl_proxy2_result sl_proxy2_read(const unsigned char *bytes, size_t len,
                                     struct sl_proxy2 *ret)
{
    size_t behind;
    int addresses;

    *ret = (struct sl_proxy2){.need = 0};
    if (!may_be(bytes, len, signature, SIGNATURE_LEN))
        return refuse_other(bytes, len, ret);
    if (len < SL_PROXY2_HEAD)
        return want(ret, SL_PROXY2_HEAD);
    if (bytes[12] >> 4 != 2 || (bytes[12] & 15) > 1)
        return refuse(ret, "the PROXY header is neither LOCAL nor PROXY of "
                           "version 2");
    behind = number(bytes + 14);
    ret->local = (bytes[12] & 15) == 0;
    ret->size = SL_PROXY2_HEAD + behind;
    if (ret->size > SL_PROXY2_MOST)
        return refuse(ret, "the PROXY header is longer than 4096 bytes");
    if (ret->local) /* whatever it says of addresses */
        return SL_PROXY2_DONE;
    addresses = addresses_size(bytes[13]);
    if (addresses < 0)
        return refuse(ret, "the PROXY header does not describe a TCP or unix "
                           "socket connection");
    if (behind < (size_t)addresses)
        return refuse(ret, "the PROXY header ends within its addresses");
    if (len < SL_PROXY2_HEAD + (size_t)addresses)
        return want(ret, SL_PROXY2_HEAD + (size_t)addresses);
    read_client(bytes + SL_PROXY2_HEAD, bytes[13], ret);
    return SL_PROXY2_DONE;
}
