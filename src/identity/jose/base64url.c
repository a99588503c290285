/* base64url.c -- RFC 4648, section 5, strictly. */
#include "identity/jose/base64url.h"

/* What a letter stands for, or -1. */
static int value_of(char c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    if (c == '-')
        return 62;
    return c == '_' ? 63 : -1;
}

bool sl_base64url_decode(struct sl_str text, uint8_t *out, size_t *ret_len)
{
    unsigned bits = 0, held = 0; /* `held` low bits of `bits` are not out yet */
    size_t len = 0;

    if (text.len % 4 == 1)
        return false;
    for (size_t i = 0; i < text.len; i++) {
        int value = value_of(text.at[i]);

        if (value < 0)
            return false;
        bits = (bits << 6 | (unsigned)value) & 0xfff;
        held += 6;
        if (held >= 8) {
            held -= 8;
            out[len++] = (uint8_t)(bits >> held);
        }
    }
    if (bits & ((1u << held) - 1))
        return false; /* bits that stand for nothing */
    *ret_len = len;
    return true;
}

int sl_base64url_copy(struct sl_str text, struct sl_arena *arena,
                      struct sl_str *ret)
{
    uint8_t *bytes = sl_arena_take(arena, SL_BASE64URL_BYTES(text.len));
    size_t len;

    if (!bytes)
        return SLUICE_ENOMEM;
    if (!sl_base64url_decode(text, bytes, &len))
        return SLUICE_ECONF;
    *ret = (struct sl_str){(const char *)bytes, len};
    return 0;
}
