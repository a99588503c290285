/* reach.c -- the daemon that an errand asks. */
#include "cli/reach.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "cli/out.h"

#define TOKEN_BYTES 4096

/* ---- where, and with which token ---- */

static const char *variable(const char *name)
{
    const char *value = getenv(name);

    return value && value[0] ? value : NULL;
}

static const char *choose_url(struct sl_call *call, bool admin)
{
    const char *url = sl_call_flag(call, admin ? "admin-url" : "url");

    if (!url)
        url = variable(admin ? "SLUICE_ADMIN_URL" : "SLUICE_URL");
    if (!url)
        url = admin ? "http://127.0.0.1:9090" : "http://127.0.0.1:8080";
    return url;
}

/* A token is one line of visible ASCII: nothing else can be a header. */
static int keep_token(struct sl_call *call, struct sl_client *client,
                      struct sl_str text, const char *from)
{
    while (text.len > 0 && strchr("\r\n \t", text.at[text.len - 1]))
        text.len--;
    if (text.len == 0 || text.len >= sizeof(client->token))
        return sl_complain(call, SL_EXIT_USAGE,
                           "%s contains %s; a token has 1 to %zu characters",
                           from,
                           text.len ? "a token that is too long" : "no token",
                           sizeof(client->token) - 1);
    for (size_t i = 0; i < text.len; i++)
        if (text.at[i] <= ' ' || text.at[i] > '~')
            return sl_complain(
                call, SL_EXIT_USAGE,
                "%s contains a character that is not allowed in a token", from);
    memcpy(client->token, text.at, text.len);
    client->token[text.len] = '\0';
    return 0;
}

static int read_token(struct sl_call *call, struct sl_client *client,
                      const char *path)
{
    struct sl_diag diag = {.line = 0};
    struct sl_buf text;
    int status;

    sl_buf_init(&text, 2 * TOKEN_BYTES, &sl_alloc_libc);
    if (sl_file_read(path, TOKEN_BYTES, &text, &diag))
        status = sl_complain(call, SL_EXIT_USAGE, "%s", diag.sentence);
    else
        status = keep_token(call, client, sl_buf_str(&text), path);
    sl_buf_done(&text);
    return status;
}

static int find_token(struct sl_call *call, bool admin,
                      struct sl_client *client)
{
    const char *file = sl_call_flag(call, "token-file");
    const char *name = admin ? "SLUICE_ADMIN_TOKEN" : "SLUICE_ACCESS_TOKEN";
    const char *value = variable(name);

    if (!file && !value)
        file = variable(admin ? "SLUICE_ADMIN_TOKEN_FILE"
                              : "SLUICE_ACCESS_TOKEN_FILE");
    if (file)
        return read_token(call, client, file);
    return value ? keep_token(call, client, sl_str_c(value), name) : 0;
}

int sl_reach(struct sl_call *call, bool admin, struct sl_client *client)
{
    struct sl_diag diag = {.line = 0};

    if (sl_client_init(client, choose_url(call, admin), &sl_alloc_libc, &diag))
        return sl_complain(call, SL_EXIT_USAGE, "%s", diag.sentence);
    return find_token(call, admin, client);
}

/* ---- asking ---- */

/* What a refusal is to whoever asked. */
static int status_of(int code)
{
    switch (code) {
    case 400:
    case 404:
    case 405:
    case 409:
    case 413:
        return SL_EXIT_USAGE;
    case 503:
        return SL_EXIT_STORE;
    default:
        return SL_EXIT_NO;
    }
}

static int refused(struct sl_call *call, const struct sl_client *client,
                   int code, json_t *problem)
{
    const char *detail = json_string_value(json_object_get(problem, "detail"));

    if (code == 401)
        return sl_complain(call, SL_EXIT_NO,
                           "%s requires a token; name the file that contains "
                           "it with --token-file",
                           client->where);
    return sl_complain(call, status_of(code), "%s",
                       detail ? detail : "the daemon rejected the request");
}

int sl_reach_ask(struct sl_call *call, struct sl_client *client,
                 const char *method, const char *path, struct sl_str body,
                 json_t **ret)
{
    struct sl_diag diag = {.line = 0};
    struct sl_str text;
    json_t *root;
    int code, status = 0;
    int err = sl_client_ask(client, method, path, body, &code, &text, &diag);

    if (err)
        return sl_complain(call,
                           err == SLUICE_ENOMEM ? SL_EXIT_NO : SL_EXIT_NOBODY,
                           "%s", diag.sentence);
    root = json_loadb(text.at, text.len, JSON_REJECT_DUPLICATES, NULL);
    if (code >= 400)
        status = refused(call, client, code, root);
    else if (!root)
        status = sl_complain(call, SL_EXIT_NO, "the answer of %s is not JSON",
                             client->where);
    if (status)
        json_decref(root);
    else
        *ret = root;
    return status;
}

int sl_reach_encode(struct sl_buf *out, struct sl_str text)
{
    static const char digits[] = "0123456789ABCDEF";
    int err = 0;

    for (size_t i = 0; i < text.len && !err; i++) {
        unsigned char c = (unsigned char)text.at[i];
        unsigned char letter = c | 0x20;
        char coded[3] = {'%', digits[c >> 4], digits[c & 15]};
        bool plain = (letter >= 'a' && letter <= 'z') ||
                     (c >= '0' && c <= '9') || (c && strchr("-._~", c));

        err = plain ? sl_buf_add(out, (struct sl_str){text.at + i, 1})
                    : sl_buf_add(out, (struct sl_str){coded, 3});
    }
    return err;
}
