/* found.c -- keys as they are found. */
#include "store/dynamo/aws/found.h"

#include <jansson.h>
#include <string.h>

#include "base/instant.h"

/* ---- keeping ---- */

static struct sl_str copy(char **at, struct sl_str from)
{
    struct sl_str to = {*at, from.len};

    if (from.len > 0)
        memcpy(*at, from.at, from.len);
    *at += from.len;
    return to;
}

/* They become headers: nothing that could end one. */
static bool is_clean(struct sl_str text)
{
    for (size_t i = 0; i < text.len; i++)
        if (text.at[i] <= ' ' || text.at[i] == 0x7f)
            return false;
    return true;
}

int sl_aws_keep(const struct sl_aws_keys *keys, sl_ns expires,
                struct sl_aws_found *ret, struct sl_diag *diag)
{
    char *at = ret->text;

    if (keys->id.len == 0 || keys->secret.len == 0)
        return sl_refuse(diag, SLUICE_ECONF, "there is %s; both are required",
                         keys->id.len == 0 ? "no access key id"
                                           : "no secret access key");
    if (keys->id.len > 128 || keys->secret.len > 256 || keys->token.len > 4096)
        return sl_refuse(diag, SLUICE_ECONF,
                         "a key is too long; the maximum is 128 bytes for the "
                         "id, 256 for the secret and 4096 for the token");
    if (!is_clean(keys->id) || !is_clean(keys->secret) ||
        !is_clean(keys->token))
        return sl_refuse(diag, SLUICE_ECONF,
                         "a key contains spaces or control characters");
    ret->keys.id = copy(&at, keys->id);
    ret->keys.secret = copy(&at, keys->secret);
    ret->keys.token = copy(&at, keys->token);
    ret->expires = expires;
    return 0;
}

/* ---- the shared file ---- */

static struct sl_str next_line(struct sl_str *rest)
{
    const char *end = rest->len > 0 ? memchr(rest->at, '\n', rest->len) : NULL;
    struct sl_str line = {rest->at, end ? (size_t)(end - rest->at) : rest->len};

    *rest = sl_str_from(*rest, line.len + 1);
    if (line.len > 0 && line.at[line.len - 1] == '\r')
        line.len--;
    return sl_str_trim(line);
}

/* "[name]"; in ~/.aws/config it is "[profile name]". */
static bool is_head_of(struct sl_str line, struct sl_str profile)
{
    struct sl_str name = {line.at + 1, line.len - 2};
    struct sl_str word = SL_STR("profile ");

    if (line.len < 2 || line.at[line.len - 1] != ']')
        return false;
    name = sl_str_trim(name);
    if (name.len > word.len && memcmp(name.at, word.at, word.len) == 0)
        name = sl_str_trim(sl_str_from(name, word.len));
    return sl_str_eq(name, profile);
}

static void note(struct sl_str line, struct sl_aws_keys *keys)
{
    const char *sign = line.len > 0 ? memchr(line.at, '=', line.len) : NULL;
    struct sl_str name, value;

    if (!sign)
        return;
    name = sl_str_trim((struct sl_str){line.at, (size_t)(sign - line.at)});
    value = sl_str_trim(sl_str_from(
        line, name.len > 0 ? (size_t)(sign - line.at) + 1 : line.len));
    if (sl_str_eq_nocase(name, SL_STR("aws_access_key_id")))
        keys->id = value;
    else if (sl_str_eq_nocase(name, SL_STR("aws_secret_access_key")))
        keys->secret = value;
    else if (sl_str_eq_nocase(name, SL_STR("aws_session_token")))
        keys->token = value;
}

int sl_aws_read_profile(struct sl_str text, struct sl_str profile,
                        struct sl_aws_found *ret, struct sl_diag *diag)
{
    struct sl_aws_keys keys = {
        .id = {NULL, 0}
    };
    bool inside = false, found = false;

    while (text.len > 0) {
        struct sl_str line = next_line(&text);

        if (line.len == 0 || line.at[0] == '#' || line.at[0] == ';')
            continue;
        if (line.at[0] == '[')
            found |= inside = is_head_of(line, profile);
        else if (inside)
            note(line, &keys);
    }
    if (!found)
        return sl_refuse(diag, SLUICE_ENOENT, "there is no profile [%.*s]",
                         SL_STR_ARG(profile));
    return sl_aws_keep(&keys, SL_NS_NONE, ret, diag);
}

/* ---- documents ---- */

static struct sl_str text_of(const json_t *object, const char *name)
{
    const json_t *value = json_object_get(object, name);

    return json_is_string(value) ? (struct sl_str){json_string_value(value),
                                                   json_string_length(value)}
                                 : (struct sl_str){NULL, 0};
}

static int read_object(const json_t *object, struct sl_aws_found *ret,
                       struct sl_diag *diag)
{
    struct sl_aws_keys keys = {.id = text_of(object, "AccessKeyId"),
                               .secret = text_of(object, "SecretAccessKey"),
                               .token = text_of(object, "Token")};
    struct sl_str until = text_of(object, "Expiration");
    struct sl_str code = text_of(object, "Code");
    sl_ns expires = SL_NS_NONE;

    if (code.len > 0 && !sl_str_eq(code, SL_STR("Success")))
        return sl_refuse(diag, SLUICE_ECONF, "the service answered \"%.*s\"",
                         code.len < 60 ? (int)code.len : 60, code.at);
    if (until.len > 0 && sl_instant_parse(until, &expires, NULL))
        return sl_refuse(
            diag, SLUICE_ECONF,
            "Expiration is not a time; it must look like 2026-03-31T23:59:59Z");
    return sl_aws_keep(&keys, expires, ret, diag);
}

int sl_aws_read_document(struct sl_str text, struct sl_aws_found *ret,
                         struct sl_diag *diag)
{
    json_t *root = json_loadb(text.at ? text.at : "", text.len,
                              JSON_REJECT_DUPLICATES, NULL);
    int err;

    if (json_is_object(root))
        err = read_object(root, ret, diag);
    else
        err = sl_refuse(diag, SLUICE_ECONF,
                        "the document is not a JSON object with AccessKeyId "
                        "and SecretAccessKey");
    json_decref(root);
    return err;
}
