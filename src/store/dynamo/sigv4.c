/* sigv4.c -- signatures of AWS (Signature Version 4), and the formats of AWS
 * keys. */
#include <jansson.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdio.h>
#include <string.h>

#include "base/timestamp.h"
#include "store/dynamo/aws.h"

#define HASH           32
#define CANONICAL_MOST ((size_t)64 << 10)

static void print_hex(const unsigned char *bytes, char *out)
{
    for (unsigned i = 0; i < HASH; i++) {
        out[2 * i] = "0123456789abcdef"[bytes[i] >> 4];
        out[2 * i + 1] = "0123456789abcdef"[bytes[i] & 15];
    }
    out[2 * HASH] = '\0';
}

int sl_sha256_hex(struct sl_str bytes, char ret[SL_SHA256_HEX])
{
    unsigned char hash[HASH];

    if (EVP_Digest(bytes.at ? bytes.at : "", bytes.len, hash, NULL,
                   EVP_sha256(), NULL) != 1)
        return SLUICE_ESYS;
    print_hex(hash, ret);
    return 0;
}

static int hmac(const void *key, size_t key_len, struct sl_str text,
                unsigned char ret[HASH])
{
    unsigned len = HASH;
    bool done = HMAC(EVP_sha256(), key, (int)key_len,
                     (const unsigned char *)(text.at ? text.at : ""), text.len,
                     ret, &len) != NULL;

    return done ? 0 : SLUICE_ESYS;
}

void sl_sigv4_date(sl_ns now, char ret[SL_SIGV4_DATE])
{
    int64_t days = now / SL_DAY, second = now % SL_DAY / SL_S;
    int64_t year, month, day;

    sl_civil_from_days(days, &year, &month, &day);
    snprintf(ret, SL_SIGV4_DATE, "%04u%02u%02uT%02u%02u%02uZ",
             (unsigned)year % 10000, (unsigned)month % 100, (unsigned)day % 100,
             (unsigned)(second / 3600) % 100, (unsigned)(second / 60 % 60),
             (unsigned)(second % 60));
}

/* ---- the canonical request ---- */

static int compare(struct sl_str a, struct sl_str b)
{
    size_t len = a.len < b.len ? a.len : b.len;
    int order = len > 0 ? memcmp(a.at, b.at, len) : 0;

    if (order != 0)
        return order;
    return a.len < b.len ? -1 : a.len > b.len;
}

/* Sorts the headers by name. */
static void put_in_order(const struct sl_sigv4 *what,
                         const struct sl_sigv4_header **ret)
{
    for (unsigned i = 0; i < what->header_count; i++) {
        unsigned at = i;

        for (; at > 0 && compare(ret[at - 1]->name, what->headers[i].name) > 0;
             at--)
            ret[at] = ret[at - 1];
        ret[at] = &what->headers[i];
    }
}

/* The value without blanks around it, and with single blanks inside. */
static void add_value(struct sl_writer *w, struct sl_str value)
{
    bool was_blank = false;

    value = sl_str_trim(value);
    for (size_t i = 0; i < value.len; i++) {
        bool blank = value.at[i] == ' ' || value.at[i] == '\t';

        if (!blank || !was_blank)
            sl_writer_add(w, (struct sl_str){blank ? " " : value.at + i, 1});
        was_blank = blank;
    }
}

static void add_names(struct sl_writer *w,
                      const struct sl_sigv4_header *const *headers,
                      unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        sl_writer_addf(w, "%s%.*s", i > 0 ? ";" : "",
                       SL_STR_ARG(headers[i]->name));
}

static int add_request(struct sl_buf *out, const struct sl_sigv4 *what,
                       const struct sl_sigv4_header *const *headers)
{
    struct sl_writer w = {out, 0};
    char hash[SL_SHA256_HEX];
    int err = sl_sha256_hex(what->body, hash);

    sl_writer_addf(&w, "%.*s\n%.*s\n%.*s\n", SL_STR_ARG(what->method),
                   SL_STR_ARG(what->path), SL_STR_ARG(what->query));
    for (unsigned i = 0; i < what->header_count; i++) {
        sl_writer_addf(&w, "%.*s:", SL_STR_ARG(headers[i]->name));
        add_value(&w, headers[i]->value);
        sl_writer_add(&w, SL_STR("\n"));
    }
    sl_writer_add(&w, SL_STR("\n"));
    add_names(&w, headers, what->header_count);
    sl_writer_addf(&w, "\n%s", err ? "" : hash);
    return err ? err : w.err;
}

/* ---- the signature ---- */

/* "AWS4" and the secret, then link by link. */
static int make_key(const struct sl_sigv4 *what, struct sl_str day,
                    unsigned char ret[HASH])
{
    struct sl_str links[] = {day, what->region, what->service,
                             SL_STR("aws4_request")};
    struct sl_str secret = what->keys->secret;
    unsigned char key[HASH];
    char first[4 + 256] = "AWS4";
    int err;

    if (secret.len > sizeof(first) - 4)
        return SLUICE_EINVAL;
    if (secret.len > 0)
        memcpy(first + 4, secret.at, secret.len);
    err = hmac(first, 4 + secret.len, links[0], key);
    for (unsigned i = 1; i < SL_LEN(links) && !err; i++) {
        unsigned char next[HASH];

        err = hmac(key, HASH, links[i], next);
        memcpy(key, next, HASH);
    }
    memcpy(ret, key, HASH);
    explicit_bzero(first, sizeof(first));
    explicit_bzero(key, sizeof(key));
    return err;
}

/* Signs the canonical request in `scratch`. */
static int sign(const struct sl_sigv4 *what, const char *date,
                struct sl_buf *scratch, char ret[SL_SHA256_HEX])
{
    unsigned char key[HASH], signature[HASH];
    char hash[SL_SHA256_HEX];
    size_t request = scratch->len;
    int err = sl_sha256_hex(sl_buf_str(scratch), hash);

    if (!err)
        err = sl_buf_addf(
            scratch, "AWS4-HMAC-SHA256\n%s\n%.8s/%.*s/%.*s/aws4_request\n%s",
            date, date, SL_STR_ARG(what->region), SL_STR_ARG(what->service),
            hash);
    if (!err)
        err = make_key(what, (struct sl_str){date, 8}, key);
    if (!err)
        err = hmac(key, HASH, sl_str_from(sl_buf_str(scratch), request),
                   signature);
    if (!err)
        print_hex(signature, ret);
    explicit_bzero(key, sizeof(key));
    return err;
}

int sl_sigv4_sign(const struct sl_sigv4 *what, struct sl_buf *out)
{
    const struct sl_sigv4_header *headers[SL_SIGV4_HEADERS];
    char date[SL_SIGV4_DATE], signature[SL_SHA256_HEX];
    struct sl_writer w = {out, 0};
    struct sl_buf scratch;
    size_t before = out->len;

    if (what->header_count > SL_SIGV4_HEADERS)
        return SLUICE_EINVAL;
    put_in_order(what, headers);
    sl_sigv4_date(what->now, date);
    sl_buf_init(&scratch, CANONICAL_MOST, out->alloc);
    w.err = add_request(&scratch, what, headers);
    if (!w.err)
        w.err = sign(what, date, &scratch, signature);
    if (!w.err) {
        sl_writer_addf(
            &w,
            "AWS4-HMAC-SHA256 "
            "Credential=%.*s/%.8s/%.*s/%.*s/aws4_request, SignedHeaders=",
            SL_STR_ARG(what->keys->id), date, SL_STR_ARG(what->region),
            SL_STR_ARG(what->service));
        add_names(&w, headers, what->header_count);
        sl_writer_addf(&w, ", Signature=%s", signature);
    }
    if (w.err)
        out->len = before;
    sl_buf_done(&scratch);
    return w.err;
}

/* ---- keys ---- */

static struct sl_str copy(char **at, struct sl_str from)
{
    struct sl_str to = {*at, from.len};

    if (from.len > 0)
        memcpy(*at, from.at, from.len);
    *at += from.len;
    return to;
}

/* Keys become headers: no byte may end one. */
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
        return sl_diag_error(
            diag, SLUICE_ECONF, "there is %s; both are required",
            keys->id.len == 0 ? "no access key id" : "no secret access key");
    if (keys->id.len > 128 || keys->secret.len > 256 || keys->token.len > 4096)
        return sl_diag_error(
            diag, SLUICE_ECONF,
            "a key is too long; the maximum is 128 bytes for the "
            "id, 256 for the secret and 4096 for the token");
    if (!is_clean(keys->id) || !is_clean(keys->secret) ||
        !is_clean(keys->token))
        return sl_diag_error(diag, SLUICE_ECONF,
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
        return sl_diag_error(diag, SLUICE_ENOENT, "there is no profile [%.*s]",
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

    if (!json_is_object(object))
        return sl_diag_error(
            diag, SLUICE_ECONF,
            "the document is not a JSON object with AccessKeyId "
            "and SecretAccessKey");
    if (code.len > 0 && !sl_str_eq(code, SL_STR("Success")))
        return sl_diag_error(diag, SLUICE_ECONF,
                             "the service answered \"%.*s\"",
                             code.len < 60 ? (int)code.len : 60, code.at);
    if (until.len > 0 && sl_timestamp_parse(until, &expires, NULL))
        return sl_diag_error(
            diag, SLUICE_ECONF,
            "Expiration is not a time; it must look like 2026-03-31T23:59:59Z");
    return sl_aws_keep(&keys, expires, ret, diag);
}

int sl_aws_read_document(struct sl_str text, struct sl_aws_found *ret,
                         struct sl_diag *diag)
{
    json_t *root = json_loadb(text.at ? text.at : "", text.len,
                              JSON_REJECT_DUPLICATES, NULL);
    int err = read_object(root, ret, diag);

    json_decref(root);
    return err;
}
