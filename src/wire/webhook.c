/* webhook.c -- the headers of signed webhooks.
 *
 * A header is untrusted until its signature is verified. Each is read once,
 * strictly, into a struct of fixed size.
 */
#include "wire/webhook.h"

#include "base/str.h"

#define SECONDS_DIGITS 11 /* more digits are beyond SL_TIME_END */
#define ID_MAX         256

/* ---- helpers ---- */

/* Read whole seconds since 1970, digits only. */
static bool read_seconds(struct sl_str text, struct sl_webhook_said *ret)
{
    int64_t seconds = 0;

    if (text.len == 0 || text.len > SECONDS_DIGITS)
        return false;
    for (size_t i = 0; i < text.len; i++) {
        if (text.at[i] < '0' || text.at[i] > '9')
            return false;
        seconds = 10 * seconds + (text.at[i] - '0');
    }
    if (seconds >= SL_TIME_END / SL_S)
        return false;
    ret->timed = true;
    ret->seconds = text;
    ret->at = seconds * SL_S;
    return true;
}

static bool read_hex(struct sl_str text, struct sl_webhook_sign *ret)
{
    if (text.len != 2 * (size_t)SL_WEBHOOK_MAC)
        return false;
    for (size_t i = 0; i < SL_WEBHOOK_MAC; i++) {
        int high = sl_hex_value(text.at[2 * i]);
        int low = sl_hex_value(text.at[2 * i + 1]);

        if (high < 0 || low < 0)
            return false;
        ret->bytes[i] = (uint8_t)(high << 4 | low);
    }
    return true;
}

static bool read_base64(struct sl_str text, struct sl_webhook_sign *ret)
{
    uint8_t bytes[SL_BASE64_BYTES(SL_BASE64_LETTERS(SL_WEBHOOK_MAC))];
    size_t len;

    if (text.len != SL_BASE64_LETTERS(SL_WEBHOOK_MAC) ||
        !sl_base64_decode(text, bytes, &len) || len != SL_WEBHOOK_MAC)
        return false;
    memcpy(ret->bytes, bytes, SL_WEBHOOK_MAC);
    return true;
}

/* Add a signature. Invalid ones are ignored: a sender may add others. */
static bool add(struct sl_webhook_said *said, struct sl_str text,
                bool (*read)(struct sl_str text, struct sl_webhook_sign *ret))
{
    if (said->count == SL_WEBHOOK_SIGNS)
        return false;
    if (read(text, &said->signs[said->count]))
        said->count++;
    return true;
}

/* Remove the first item of a list. False if it is empty. */
static bool cut(struct sl_str *list, char between, struct sl_str *ret)
{
    const char *end;

    if (list->len == 0)
        return false;
    end = memchr(list->at, between, list->len);
    *ret = *list;
    if (end)
        ret->len = (size_t)(end - list->at);
    *list = sl_str_from(*list, ret->len + 1);
    *ret = sl_str_trim(*ret);
    return true;
}

/* ---- the schemes ---- */

/* An id with a dot is refused: it would make the signed text ambiguous. No
 * sender uses one. */
static bool is_id(struct sl_str id)
{
    for (size_t i = 0; i < id.len; i++)
        if (id.at[i] <= ' ' || id.at[i] > '~' || id.at[i] == '.')
            return false;
    return id.len > 0 && id.len <= ID_MAX;
}

/* More than so many, and invalid ones, are ignored. */
static void add_keyed(struct sl_webhook_said *said, struct sl_str text)
{
    uint8_t bytes[SL_WEBHOOK_ED_SIGN + 2];
    size_t len = 0;

    if (said->keyed_count == SL_WEBHOOK_KEYED ||
        text.len != SL_BASE64_LETTERS(SL_WEBHOOK_ED_SIGN) ||
        !sl_base64_decode(text, bytes, &len) || len != SL_WEBHOOK_ED_SIGN)
        return;
    memcpy(said->keyed[said->keyed_count++], bytes, SL_WEBHOOK_ED_SIGN);
}

static bool read_standard(const struct sl_webhook *message,
                          struct sl_webhook_said *ret)
{
    struct sl_str list = message->signature, piece;

    if (!is_id(message->id) || !read_seconds(message->timestamp, ret))
        return false;
    while (cut(&list, ' ', &piece)) {
        if (sl_str_begins(piece, SL_STR("v1,")) &&
            !add(ret, sl_str_from(piece, 3), read_base64))
            return false;
        if (sl_str_begins(piece, SL_STR("v1a,")))
            add_keyed(ret, sl_str_from(piece, 4));
    }
    return true;
}

/* A repeated member is refused: it would be unclear which one was signed. */
static bool read_stripe(const struct sl_webhook *message,
                        struct sl_webhook_said *ret)
{
    struct sl_str list = message->signature, piece;

    while (cut(&list, ',', &piece)) {
        if (sl_str_begins(piece, SL_STR("t=")) &&
            (ret->timed || !read_seconds(sl_str_from(piece, 2), ret)))
            return false;
        if (sl_str_begins(piece, SL_STR("v1=")) &&
            !add(ret, sl_str_from(piece, 3), read_hex))
            return false;
    }
    return ret->timed;
}

static bool read_hmac(const struct sl_webhook *message,
                      struct sl_webhook_said *ret)
{
    struct sl_str text = sl_str_trim(message->signature);

    if (sl_str_begins(text, SL_STR("sha256=")))
        text = sl_str_from(text, 7);
    return add(ret, text,
               text.len == SL_BASE64_LETTERS(SL_WEBHOOK_MAC) ? read_base64
                                                             : read_hex);
}

enum sl_webhook_fault sl_webhook_read(enum sl_webhook_scheme scheme,
                                      const struct sl_webhook *message,
                                      struct sl_webhook_said *ret)
{
    static bool (*const readers[])(const struct sl_webhook *message,
                                   struct sl_webhook_said *ret) = {
        [SL_WEBHOOK_STANDARD] = read_standard,
        [SL_WEBHOOK_STRIPE] = read_stripe,
        [SL_WEBHOOK_HMAC] = read_hmac,
    };

    ret->timed = false;
    ret->seconds = (struct sl_str){"", 0};
    ret->at = 0;
    ret->count = ret->keyed_count = 0;
    if (!readers[scheme](message, ret))
        return SL_WEBHOOK_MALFORMED;
    return ret->count + ret->keyed_count > 0 ? SL_WEBHOOK_GOOD
                                             : SL_WEBHOOK_NO_SIGNATURE;
}

#define PUBLIC SL_STR("whpk_")

static bool read_public(struct sl_str text, uint8_t *room, struct sl_str *ret)
{
    uint8_t *key = room + PUBLIC.len;
    size_t len = 0;

    if (text.len != PUBLIC.len + SL_BASE64_LETTERS(SL_WEBHOOK_ED_KEY) ||
        !sl_base64_decode(sl_str_from(text, PUBLIC.len), key, &len) ||
        len != SL_WEBHOOK_ED_KEY)
        return false;
    memcpy(room, PUBLIC.at, PUBLIC.len);
    *ret = (struct sl_str){(const char *)room, PUBLIC.len + len};
    return true;
}

bool sl_webhook_is_public(struct sl_str secret, const uint8_t **ret)
{
    if (secret.len != PUBLIC.len + SL_WEBHOOK_ED_KEY ||
        !sl_str_begins(secret, PUBLIC))
        return false;
    *ret = (const uint8_t *)secret.at + PUBLIC.len;
    return true;
}

bool sl_webhook_secret(enum sl_webhook_scheme scheme, struct sl_str text,
                       uint8_t *room, struct sl_str *ret)
{
    size_t len = text.len;

    if (scheme == SL_WEBHOOK_STANDARD && sl_str_begins(text, PUBLIC))
        return read_public(text, room, ret);
    if (scheme != SL_WEBHOOK_STANDARD) {
        if (len > 0)
            memcpy(room, text.at, len);
    } else {
        if (sl_str_begins(text, SL_STR("whsec_")))
            text = sl_str_from(text, 6);
        if (!sl_base64_decode(text, room, &len))
            return false;
    }
    *ret = (struct sl_str){(const char *)room, len};
    return len > 0;
}

/* ---- writing ---- */

static char *put(char *out, struct sl_str text)
{
    memcpy(out, text.at, text.len);
    return out + text.len;
}

static char *put_hex(char *out, const struct sl_webhook_sign *sign)
{
    static const char digits[] = "0123456789abcdef";

    for (size_t i = 0; i < SL_WEBHOOK_MAC; i++) {
        *out++ = digits[sign->bytes[i] >> 4];
        *out++ = digits[sign->bytes[i] & 15];
    }
    return out;
}

void sl_webhook_write(enum sl_webhook_scheme scheme,
                      const struct sl_webhook_sign *sign, struct sl_str seconds,
                      char out[SL_WEBHOOK_TEXT])
{
    struct sl_str bytes = {(const char *)sign->bytes, SL_WEBHOOK_MAC};

    switch (scheme) {
    case SL_WEBHOOK_STANDARD:
        out = put(out, SL_STR("v1,"));
        sl_base64_encode(bytes, out);
        out += SL_BASE64_LETTERS(SL_WEBHOOK_MAC);
        break;
    case SL_WEBHOOK_STRIPE:
        if (seconds.len > 20)
            seconds.len = 20; /* the maximum of a time */
        out = put(put(out, SL_STR("t=")), seconds);
        out = put_hex(put(out, SL_STR(",v1=")), sign);
        break;
    default:
        out = put_hex(put(out, SL_STR("sha256=")), sign);
        break;
    }
    *out = '\0';
}

/* ---- names and messages of the reasons ---- */

const char *const sl_webhook_words[SL_WEBHOOK_SCHEMES] = {
    "standard-webhooks", "stripe", "hmac-sha256"};

static const char *const words[SL_WEBHOOK_FAULTS] = {
    [SL_WEBHOOK_GOOD] = "good",
    [SL_WEBHOOK_NO_BODY] = "no_body",
    [SL_WEBHOOK_NO_HEADER] = "no_header",
    [SL_WEBHOOK_TWICE] = "header_twice",
    [SL_WEBHOOK_MALFORMED] = "malformed",
    [SL_WEBHOOK_NO_SIGNATURE] = "no_signature",
    [SL_WEBHOOK_SIGNATURE] = "signature",
    [SL_WEBHOOK_TOO_OLD] = "too_old",
    [SL_WEBHOOK_TOO_NEW] = "too_new",
    [SL_WEBHOOK_REPLAYED] = "replayed",
    [SL_WEBHOOK_TOO_MANY] = "too_many",
    [SL_WEBHOOK_NOT_HERE] = "not_here",
    [SL_WEBHOOK_NO_MEMORY] = "no_memory",
};

const char *sl_webhook_fault_word(enum sl_webhook_fault fault)
{
    return words[fault];
}

const char *sl_webhook_fault_sentence(enum sl_webhook_fault fault)
{
    switch (fault) {
    case SL_WEBHOOK_GOOD:
        return "the webhook is valid";
    case SL_WEBHOOK_NO_BODY:
        return "its body is missing, so its signature cannot be verified; let "
               "the proxy or the application send it";
    case SL_WEBHOOK_NO_HEADER:
        return "a signature header is missing";
    case SL_WEBHOOK_TWICE:
        return "a signature header is sent twice";
    case SL_WEBHOOK_MALFORMED:
        return "a signature header is malformed";
    case SL_WEBHOOK_NO_SIGNATURE:
        return "it has no signature of a known version";
    case SL_WEBHOOK_SIGNATURE:
        return "its signature is wrong";
    case SL_WEBHOOK_TOO_OLD:
        return "it was sent too long ago";
    case SL_WEBHOOK_TOO_NEW:
        return "its timestamp is in the future";
    case SL_WEBHOOK_REPLAYED:
        return "it was received before";
    case SL_WEBHOOK_TOO_MANY:
        return "too many webhooks arrived recently to remember them all";
    case SL_WEBHOOK_NOT_HERE:
        return "this daemon does not verify signatures";
    default:
        return "out of memory";
    }
}
