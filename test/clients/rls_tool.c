/* rls_tool.c -- read Envoy's messages and write them again, a line each.
 *
 *     q HEX   a request        a HEX   an answer
 *
 * answers the bytes that we write of what we have read, or "bad SENTENCE". For
 * rls_cross.py, which has another implementation beside it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "wire/rls.h"

#define MOST ((size_t)1 << 23)

static struct sl_rls_request request;
static struct sl_rls_response response;

static int digit_of(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static size_t read_hex(const char *text, char *out)
{
    size_t len = 0;

    for (; len < MOST && digit_of(*text) >= 0; text += 2)
        out[len++] = (char)(digit_of(text[0]) << 4 | digit_of(text[1]));
    return len;
}

static void print_hex(const struct sl_pb_out *out)
{
    if (out->full) {
        puts("bad there was no room");
        return;
    }
    for (size_t i = 0; i < out->len; i++)
        printf("%02x", (unsigned char)out->bytes[i]);
    putchar('\n');
}

int main(void)
{
    static char line[2 * MOST + 16], bytes[MOST], again[2 * MOST];

    while (fgets(line, sizeof(line), stdin)) {
        struct sl_pb_out out = {.bytes = again, .size = sizeof(again)};
        struct sl_str text = {bytes, read_hex(line + 2, bytes)};
        struct sl_diag diag = {.sentence = "this is no answer"};
        int err;

        if (line[0] == 'q') {
            err = sl_rls_request_read(text, &request, &diag);
            if (!err)
                sl_rls_request_write(&request, &out);
        } else {
            err = sl_rls_response_read(text, &response);
            if (!err)
                sl_rls_response_write(&response, &out);
            if (!err && out.len > sl_rls_response_size(&response))
                out.full = true;
        }
        if (err)
            printf("bad %s\n", diag.sentence);
        else
            print_hex(&out);
        fflush(stdout);
    }
    return 0;
}
