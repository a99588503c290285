/* fuzz_url.c -- URLs of any bytes.
 *
 *   (1) A URL is read as a whole, or refused with a sentence, and then the
 *       output is untouched.
 *   (2) libcurl reads an accepted URL, and sees the same scheme, host and port;
 *       no credentials.
 *   (3) If libcurl sees an address, the guard has seen it, too, and allows it.
 */
#include "fuzz.h"

#include <curl/curl.h>
#include <stdlib.h>

#include "webhook/url_guard.h"

static void must_have(CURLU *parts, CURLUPart part, const char *want)
{
    char *text = NULL;
    CURLUcode code = curl_url_get(parts, part, &text, CURLU_DEFAULT_PORT);

    if (!want) {
        MUST(code != CURLUE_OK);
        return;
    }
    MUST(code == CURLUE_OK);
    MUST(strcasecmp(text, want) == 0);
    curl_free(text);
}

/* (3) */
static void must_be_name(CURLU *parts)
{
    char *text = NULL;
    struct sl_ip ip;

    MUST(curl_url_get(parts, CURLUPART_HOST, &text, 0) == CURLUE_OK);
    MUST(!sl_ip_parse(sl_str_c(text), &ip));
    curl_free(text);
}

void fuzz_url(struct sl_str text)
{
    static const struct sl_url_rules strict = {.insecure = true};
    struct sl_webhook_url url = {.port = 70000};
    struct sl_diag diag = {.line = 0};
    char *copy, port[16], host[SL_WEBHOOK_URL + 3];
    CURLU *parts = curl_url();
    int err = sl_url_guard_read(text, &strict, &url, &diag);

    MUST((err != 0) == (diag.sentence[0] != '\0'));
    MUST((err != 0) == (url.port == 70000)); /* (1) */
    if (!err) {
        copy = strndup(text.at, text.len);
        MUST(copy && parts);
        MUST(curl_url_set(parts, CURLUPART_URL, copy, 0) == CURLUE_OK);
        snprintf(port, sizeof(port), "%u", url.port);
        snprintf(host, sizeof(host), "%.*s", SL_STR_ARG(url.host));
        must_have(parts, CURLUPART_SCHEME, url.is_tls ? "https" : "http");
        must_have(parts, CURLUPART_PORT, port); /* (2) */
        must_have(parts, CURLUPART_USER, NULL);
        must_have(parts, CURLUPART_PASSWORD, NULL);
        if (!url.is_ip) {
            must_have(parts, CURLUPART_HOST, host);
            must_be_name(parts);
        }
        free(copy);
    }
    curl_url_cleanup(parts);
}
