/* proxy2_say.h -- headers of the PROXY protocol, version 2, to be read. */
#ifndef SL_TEST_PROXY2_SAY_H
#define SL_TEST_PROXY2_SAY_H

#include <string.h>

/* vc and fp as in proxy2.h; `addresses` and `tlvs` are appended as they are. */
static inline size_t proxy2_say(unsigned char *out, unsigned vc, unsigned fp,
                                const void *addresses, size_t len, size_t tlvs)
{
    memcpy(out, "\r\n\r\n\0\r\nQUIT\n", 12);
    out[12] = (unsigned char)vc;
    out[13] = (unsigned char)fp;
    out[14] = (unsigned char)((len + tlvs) >> 8);
    out[15] = (unsigned char)(len + tlvs);
    if (len > 0)
        memcpy(out + 16, addresses, len);
    memset(out + 16 + len, 0xee, tlvs);
    return 16 + len + tlvs;
}

/* 203.0.113.9:4711 -> 10.0.0.1:80; 2001:db8::9, port 4711 -> ::1, port 80 */
#define PROXY2_TCP4 "\xcb\x00\x71\x09\x0a\x00\x00\x01\x12\x67\x00\x50"
#define PROXY2_TCP6                                                            \
    "\x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\x09"                               \
    "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x01\x12\x67\x00\x50"

#endif
