/* tokens.c -- tokens for bench-http, signed by a secret that only it has. */
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdio.h>
#include <string.h>

#include "http/http.h"

#define SECRET "a-secret-of-bench-http-of-this-program-only"
#define HEADER "{\"alg\":\"HS256\",\"typ\":\"JWT\"}"

#define END "4102444800" /* the year 2100 */

const char *token_rules(void)
{
    return "{ algorithms: [HS256], secret: \"" SECRET "\", audience: api }";
}

/* base64url, behind what is in `out`. */
static void add(char out[256], const void *bytes, size_t len)
{
    size_t at = strlen(out);
    int n;

    if (at + 4 * (len / 3 + 1) + 1 > 256)
        die("a token of that user is too long");
    n = EVP_EncodeBlock((unsigned char *)out + at, bytes, (int)len);
    while (n > 0 && out[at + (size_t)n - 1] == '=')
        n--;
    out[at + (size_t)n] = '\0';
    for (char *c = out + at; *c; c++)
        *c = *c == '+' ? '-' : *c == '/' ? '_' : *c;
}

void token_make(unsigned user, char out[256])
{
    unsigned char mac[EVP_MAX_MD_SIZE];
    unsigned len = 0;
    char claims[128];
    size_t end;

    snprintf(claims, sizeof(claims),
             "{\"sub\":\"user-%u\",\"aud\":\"api\",\"exp\":" END "}", user);
    out[0] = '\0';
    add(out, HEADER, strlen(HEADER));
    end = strlen(out);
    out[end] = '.';
    out[end + 1] = '\0';
    add(out, claims, strlen(claims));
    if (!HMAC(EVP_sha256(), SECRET, (int)strlen(SECRET), (unsigned char *)out,
              strlen(out), mac, &len))
        die("there is no memory");
    end = strlen(out);
    out[end] = '.';
    out[end + 1] = '\0';
    add(out, mac, len);
}
