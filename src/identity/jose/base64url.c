/* base64url.c -- what is written in base64url, into an arena. */
#include "identity/jose/base64url.h"

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
