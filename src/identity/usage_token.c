/* usage_token.c -- makes and verifies usage tokens. */
#include "identity/usage_token.h"

#include <inttypes.h>
#include <string.h>

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include "wire/json.h"

#define VERSION "slu1."
#define MAC     32 /* bytes of a signature */

static bool sign(const uint8_t key[SL_USAGE_TOKEN_KEY], struct sl_str text,
                 uint8_t mac[MAC])
{
    unsigned len = 0;

    return HMAC(EVP_sha256(), key, SL_USAGE_TOKEN_KEY,
                (const unsigned char *)text.at, text.len, mac, &len) &&
           len == MAC;
}

/* ---- writing ---- */

/* Base64 with the two other letters, and without padding. */
static void add_base64url(struct sl_writer *w, struct sl_str bytes)
{
    size_t letters = SL_BASE64_LETTERS(bytes.len);
    size_t from = w->out->len;

    if (!w->err)
        w->err = sl_buf_reserve(w->out, letters);
    if (w->err)
        return;
    sl_base64_encode(bytes, w->out->bytes + from);
    while (letters > 0 && w->out->bytes[from + letters - 1] == '=')
        letters--;
    for (size_t i = from; i < from + letters; i++) {
        char *c = &w->out->bytes[i];

        *c = *c == '+' ? '-' : *c == '/' ? '_' : *c;
    }
    w->out->len += letters;
}

static void write_payload(const struct sl_usage_claims *claims,
                          struct sl_writer *w)
{
    sl_json_open(w, '{');
    sl_json_member_str(w, "org", claims->org);
    sl_writer_addf(w, ",\"exp\":%" PRId64, claims->expires / SL_S);
    if (claims->name.len > 0)
        sl_json_member_str(w, "name", claims->name);
    if (claims->upgrade_url.len > 0)
        sl_json_member_str(w, "upgrade_url", claims->upgrade_url);
    sl_json_close(w, '}');
}

int sl_usage_token_write(const uint8_t key[static SL_USAGE_TOKEN_KEY],
                         const struct sl_usage_claims *claims,
                         struct sl_buf *out)
{
    struct sl_buf payload;
    struct sl_writer json = {.out = &payload}, w = {.out = out};
    size_t from = out->len;
    uint8_t mac[MAC];

    sl_buf_init(&payload, SL_USAGE_TOKEN_MOST, out->alloc);
    write_payload(claims, &json);
    if (json.err)
        goto out;
    sl_writer_add(&w, SL_STR(VERSION));
    add_base64url(&w, sl_buf_str(&payload));
    if (w.err)
        goto out;
    if (!sign(key, sl_str_from(sl_buf_str(out), from), mac))
        w.err = SLUICE_ENOMEM;
    sl_writer_add(&w, SL_STR("."));
    add_base64url(&w, (struct sl_str){(const char *)mac, sizeof(mac)});
out:
    sl_buf_done(&payload);
    if (json.err == SLUICE_EFULL ||
        (!w.err && out->len - from > SL_USAGE_TOKEN_MOST))
        w.err = SLUICE_EINVAL;
    else if (json.err)
        w.err = json.err;
    if (w.err)
        out->len = from;
    return w.err;
}

/* ---- reading ---- */

/* Cut the token into the signed text and the signature. */
static bool split(struct sl_str token, struct sl_str *text, struct sl_str *mac)
{
    size_t at = token.len;

    if (token.len > SL_USAGE_TOKEN_MOST || token.len <= sizeof(VERSION) - 1 ||
        memcmp(token.at, VERSION, sizeof(VERSION) - 1) != 0)
        return false;
    while (at > 0 && token.at[at - 1] != '.')
        at--;
    *text = (struct sl_str){token.at, at > 0 ? at - 1 : 0};
    *mac = sl_str_from(token, at);
    return text->len > sizeof(VERSION) - 1;
}

bool sl_usage_token_has_form(struct sl_str token)
{
    struct sl_str text, mac;

    return split(token, &text, &mac) && mac.len > 0;
}

static bool is_signed(const uint8_t key[SL_USAGE_TOKEN_KEY], struct sl_str text,
                      struct sl_str mac)
{
    uint8_t said[SL_BASE64URL_BYTES(MAC * 2)], own[MAC];
    size_t len = 0;

    return mac.len < MAC * 2 && sl_base64url_decode(mac, said, &len) &&
           len == MAC && sign(key, text, own) &&
           CRYPTO_memcmp(said, own, MAC) == 0; /* (2) */
}

static bool keep(struct sl_json_reader *json, struct sl_arena *arena,
                 struct sl_str *ret)
{
    struct sl_str text;

    if (!sl_json_text(json, &text))
        return false;
    ret->at = sl_arena_copy(arena, text);
    ret->len = text.len;
    return ret->at != NULL;
}

/* The payload is ours: a member that is missing or wrong is an error of the
 * writer. */
static bool read_payload(struct sl_str payload, struct sl_arena *arena,
                         struct sl_usage_claims *ret)
{
    struct sl_json_reader json;
    struct sl_str name;
    uint64_t seconds = 0;

    sl_json_begin(&json, payload, arena);
    if (!sl_json_enter(&json, '{'))
        return false;
    while (sl_json_member(&json, &name)) {
        bool good = false;

        if (sl_str_eq(name, SL_STR("org")))
            good = keep(&json, arena, &ret->org);
        else if (sl_str_eq(name, SL_STR("exp")))
            good = sl_json_whole(&json, &seconds);
        else if (sl_str_eq(name, SL_STR("name")))
            good = keep(&json, arena, &ret->name);
        else if (sl_str_eq(name, SL_STR("upgrade_url")))
            good = keep(&json, arena, &ret->upgrade_url);
        if (!good)
            return false;
    }
    if (!sl_json_end(&json) || ret->org.len == 0 || seconds > INT64_MAX / SL_S)
        return false;
    ret->expires = (sl_ns)seconds * SL_S;
    return true;
}

enum sl_usage_token_fault
sl_usage_token_read(const uint8_t key[static SL_USAGE_TOKEN_KEY],
                    struct sl_str token, sl_ns now, struct sl_arena *arena,
                    struct sl_usage_claims *ret)
{
    struct sl_usage_claims claims = {
        .org = {"", 0},
          .name = {"", 0},
          .upgrade_url = {"", 0}
    };
    struct sl_str text, mac, coded;
    size_t len = 0;
    char *bytes;

    if (!split(token, &text, &mac) || !is_signed(key, text, mac)) /* (1) */
        return SL_USAGE_TOKEN_WRONG;
    coded = sl_str_from(text, sizeof(VERSION) - 1);
    bytes = sl_arena_take(arena, SL_BASE64URL_BYTES(coded.len));
    if (!bytes)
        return SL_USAGE_TOKEN_NO_MEMORY;
    if (!sl_base64url_decode(coded, (uint8_t *)bytes, &len) || /* (3) */
        !read_payload((struct sl_str){bytes, len}, arena, &claims))
        return SL_USAGE_TOKEN_WRONG;
    *ret = claims;
    return now < claims.expires ? SL_USAGE_TOKEN_GOOD : SL_USAGE_TOKEN_EXPIRED;
}
