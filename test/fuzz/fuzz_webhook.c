/* fuzz_webhook.c -- the headers of webhooks, of any bytes.
 *
 *   (1) What is said to be good has a signature, at most as many as there is
 *       room for, and a time unless the scheme has none.
 *   (2) A signature that was read is written so that it is read again.
 *   (3) Base64 that is read is what encoding writes.
 */
#include "fuzz.h"

#include "base/str.h"
#include "wire/webhook.h"

static void check_again(enum sl_webhook_scheme scheme,
                        const struct sl_webhook *message,
                        const struct sl_webhook_said *said)
{
    struct sl_webhook copy = *message;
    static struct sl_webhook_said again;
    char text[SL_WEBHOOK_TEXT];

    MUST(said->count >= 1 && said->count <= SL_WEBHOOK_SIGNS); /* (1) */
    MUST(said->timed == (scheme != SL_WEBHOOK_HMAC));
    MUST(said->at >= 0 && said->at < SL_TIME_END);
    sl_webhook_write(scheme, &said->signs[0], said->seconds, text);
    copy.signature = sl_str_c(text);
    MUST(sl_webhook_read(scheme, &copy, &again) == SL_WEBHOOK_GOOD); /* (2) */
    MUST(again.count == 1 && again.at == said->at);
    MUST(memcmp(&again.signs[0], &said->signs[0], SL_WEBHOOK_MAC) == 0);
}

static void check_base64(struct sl_str text)
{
    static uint8_t bytes[1 << 16];
    static char back[1 << 17];
    size_t len;

    if (text.len > sizeof(bytes) || !sl_base64_decode(text, bytes, &len))
        return;
    sl_base64_encode((struct sl_str){(const char *)bytes, len}, back);
    MUST(SL_BASE64_LETTERS(len) == text.len);
    MUST(memcmp(back, text.at, text.len) == 0); /* (3) */
}

void fuzz_webhook(struct sl_str rest, unsigned choice)
{
    static struct sl_webhook_said said;
    struct sl_webhook message;

    (void)choice;
    message.id = fuzz_line(&rest);
    message.timestamp = fuzz_line(&rest);
    message.signature = fuzz_line(&rest);
    message.body = rest;
    check_base64(message.signature);
    for (int s = 0; s < SL_WEBHOOK_SCHEMES; s++) {
        enum sl_webhook_scheme scheme = (enum sl_webhook_scheme)s;

        if (sl_webhook_read(scheme, &message, &said) == SL_WEBHOOK_GOOD)
            check_again(scheme, &message, &said);
    }
}
