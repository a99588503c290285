/* fuzz_proxy2.c -- the header of the PROXY protocol, as anybody writes it.
 *
 *   (1) However it is cut, it says the same.
 *   (2) It never wants more than it keeps, nor less than it has.
 *   (3) What follows the header changes nothing.
 *   (4) A refusal has a sentence, and an address only a client has.
 */
#include "fuzz.h"

#include "net/proxy_protocol.h"

/* Byte by byte, up to the first answer. */
static enum sl_proxy_header_result trickle(const uint8_t *data, size_t size,
                                           struct sl_proxy_header *ret)
{
    for (size_t len = 0;; len++) {
        enum sl_proxy_header_result result =
            sl_proxy_header_read(data, len, ret);

        if (result != SL_PROXY_HEADER_MORE)
            return result;
        MUST(ret->need > len && ret->need <= SL_PROXY_HEADER_KEPT); /* (2) */
        if (len == size)
            return result;
    }
}

void fuzz_proxy2(struct sl_str text)
{
    struct sl_proxy_header whole, cut;
    enum sl_proxy_header_result result =
        sl_proxy_header_read((const uint8_t *)text.at, text.len, &whole);

    MUST(trickle((const uint8_t *)text.at, text.len, &cut) ==
         result); /* (1), (3) */
    if (result == SL_PROXY_HEADER_REFUSED) {
        MUST(whole.why && whole.why[0] && strcmp(whole.why, cut.why) == 0);
    } else if (result == SL_PROXY_HEADER_DONE) {
        MUST(whole.size >= SL_PROXY_HEADER_HEAD &&
             whole.size <= SL_PROXY_HEADER_MOST);
        MUST(whole.size == cut.size && whole.local == cut.local);
        MUST(whole.has_ip == cut.has_ip && whole.port == cut.port);
        MUST(memcmp(&whole.ip, &cut.ip, sizeof(cut.ip)) == 0);
        MUST(!(whole.local && whole.has_ip)); /* (4) */
    }
}
