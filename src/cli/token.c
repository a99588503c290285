/* token.c -- `sluice token verify`: verify a JWT against a file of keys.
 *
 * Uses the same code as the daemon. Claims are data and go to out. The reason
 * of a refusal is a message and goes to err.
 */
#include <errno.h>
#include <openssl/crypto.h>
#include <string.h>

#include "base/clock.h"
#include "base/parse.h"
#include "base/timestamp.h"
#include "cli/cli.h"
#include "identity/jwt.h"

#define LEEWAY_MOST (5 * SL_MIN)

struct question {
    struct sl_cli_args *args;
    const char *path; /* of the file with keys */
    unsigned algorithms;
    struct sl_str audience;
    struct sl_token_rules rules;
    sl_ns now;
    struct sl_buf keys, typed; /* texts of the files */
    struct sl_str text;        /* the token */
    struct sl_keyset *set;
    struct sl_arena arena;
    struct sl_token token;
    struct sl_str kid;
};

static int refuse_algorithm(const struct question *q, struct sl_str word)
{
    static const char *const names[] = {
        "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256",
        "ES384", "ES512", "EdDSA", "HS256", "HS384", "HS512"};
    const char *near = sl_str_nearest(word, names, SL_LEN(names));

    if (near)
        return sl_cli_misuse(q->args,
                             "unknown algorithm \"%.*s\"; did you mean %s?",
                             SL_STR_ARG(word), near);
    return sl_cli_misuse(
        q->args,
        "unknown algorithm \"%.*s\"; write one or more of RS256, RS384, RS512, "
        "PS256, PS384, PS512, ES256, ES384, ES512, EdDSA, HS256, HS384, HS512, "
        "separated by commas",
        SL_STR_ARG(word));
}

static int read_algorithms(struct question *q, const char *list)
{
    while (list) {
        const char *comma = strchr(list, ',');
        struct sl_str word = {list,
                              comma ? (size_t)(comma - list) : strlen(list)};
        unsigned bit = sl_algorithm_of(word);

        if (!bit)
            return refuse_algorithm(q, word);
        q->algorithms |= bit;
        list = comma ? comma + 1 : NULL;
    }
    return 0;
}

static int read_times(struct question *q)
{
    int status = sl_flag_duration(q->args, "leeway", &q->rules.leeway);

    if (!status && q->rules.leeway > LEEWAY_MOST)
        return sl_cli_misuse(q->args,
                             "--leeway: %s is more than the maximum of 5m",
                             sl_cli_flag(q->args, "leeway"));
    q->now = sl_clock_wall();
    return status ? status : sl_flag_time(q->args, "now", &q->now);
}

static int read_flags(struct question *q)
{
    const char *audience = sl_cli_flag(q->args, "audience");
    int status = read_algorithms(q, sl_cli_flag(q->args, "algorithms"));

    q->path = sl_cli_flag(q->args, "jwks");
    if (!q->path)
        return sl_cli_misuse(
            q->args,
            "missing keys; write: sluice token verify --jwks FILE TOKEN");
    if (status)
        return status;
    q->rules.algorithms = q->algorithms;
    q->rules.issuer = sl_str_c(sl_cli_flag(q->args, "issuer"));
    q->rules.signature_only = sl_cli_flag(q->args, "signature-only") != NULL;
    if (audience) {
        q->audience = sl_str_c(audience);
        q->rules.audiences = &q->audience;
        q->rules.audience_count = 1;
    }
    return read_times(q);
}

static int read_keys(struct question *q)
{
    /* The file belongs to the caller, so secret keys are allowed. */
    unsigned all = SL_ALG_HMAC | (SL_ALG_HMAC - 1);
    unsigned wanted = q->algorithms ? q->algorithms : all;
    struct sl_diag diag = {.file = q->path};
    char words[1024];
    int err;

    if (sl_need_file(q->args, q->path, &q->keys))
        return SL_EXIT_FAILED;
    err = sl_keyset_read(sl_buf_str(&q->keys), wanted, &sl_alloc_libc, &q->set,
                         &diag);
    if (err == SLUICE_ENOMEM)
        return sl_cli_no_memory(q->args);
    if (err) {
        sl_diag_print(&diag, (struct sl_str){NULL, 0}, words, sizeof(words));
        return sl_cli_fail(q->args, "%s", words);
    }
    if (sl_keyset_has_private(q->set))
        sl_cli_error(q->args, 0,
                     "%s contains a private key, which is not needed to verify "
                     "tokens; anyone who reads the file can sign tokens",
                     q->path);
    return 0;
}

/* The token itself, or standard input without its line end. */
static int read_token(struct question *q)
{
    const char *word = q->args->words[1];
    size_t len;

    q->text = sl_str_c(word);
    if (strcmp(word, "-") != 0)
        return 0;
    if (sl_read_all(q->args->cli, "-", &q->typed))
        return sl_cli_fail(q->args, "standard input: %s", strerror(errno));
    len = q->typed.len;
    while (len > 0 && strchr("\r\n", q->typed.bytes[len - 1]))
        len--;
    q->text = (struct sl_str){q->typed.bytes, len};
    return 0;
}

static bool is_encrypted(struct sl_str text)
{
    unsigned dots = 0;

    for (size_t i = 0; i < text.len; i++)
        dots += text.at[i] == '.';
    return dots == 4;
}

/* Write the reason with its details to `out`. */
static void explain(const struct question *q, enum sl_token_error fault,
                    char *out, size_t size)
{
    char when[SL_TIMESTAMP_TEXT], span[32];

    snprintf(out, size, "%s", sl_token_error_sentence(fault));
    if (fault == SL_TOKEN_EXPIRED) {
        sl_timestamp_print(q->token.expires, false, when);
        snprintf(out, size, "the token expired at %s, %s ago", when,
                 sl_format_duration((q->now - q->token.expires) / SL_S * SL_S,
                                    span));
    } else if (fault == SL_TOKEN_NOT_YET && q->token.begins < SL_TIME_END) {
        sl_timestamp_print(q->token.begins, false, when);
        snprintf(out, size, "the token is not valid before %s", when);
    } else if (fault == SL_TOKEN_NO_KEY && q->kid.at) {
        snprintf(out, size, "%s has no key with the id \"%.*s\"", q->path,
                 SL_STR_ARG(q->kid));
    } else if (fault == SL_TOKEN_MALFORMED && is_encrypted(q->text)) {
        snprintf(out, size,
                 "the token has five parts: it is encrypted (JWE) and only its "
                 "issuer can read it; see 'sluice token --help'");
    }
}

static int print_refused(const struct question *q, enum sl_token_error fault)
{
    FILE *out = q->args->cli->out;
    char why[1024];

    explain(q, fault, why, sizeof(why));
    if (q->args->format == SL_FORMAT_JSON) {
        fprintf(out, "{\"verified\":false,\"reason\":\"%s\"",
                sl_token_error_word(fault));
        sl_out_json(out, ",\"message\":", why);
        fputs("}\n", out);
    }
    return sl_cli_fail(q->args, "%s", why);
}

/* Claim paths do not end in NUL. */
static const char *text_of(struct question *q, struct sl_str text)
{
    const char *copy = sl_arena_copy(&q->arena, text);

    return copy ? copy : "";
}

static void print_json(struct question *q)
{
    FILE *out = q->args->cli->out;
    char when[SL_TIMESTAMP_TEXT];

    fputs("{\"verified\":true", out);
    if (q->token.expires >= 0 && q->token.expires < SL_TIME_END) {
        sl_timestamp_print(q->token.expires, false, when);
        sl_out_json(out, ",\"expires\":", when);
    } else {
        fputs(",\"expires\":null", out);
    }
    fputs(",\"claims\":{", out);
    for (unsigned i = 0; i < q->token.claim_count; i++) {
        sl_out_json(out, i > 0 ? "," : "", text_of(q, q->token.claims[i].path));
        sl_out_json(out, ":", text_of(q, q->token.claims[i].value));
    }
    fputs("}}\n", out);
}

static void print_table(struct question *q)
{
    FILE *out = q->args->cli->out;
    size_t widest = 0;

    if (q->rules.signature_only)
        fputs("the signature is valid\n", out);
    for (unsigned i = 0; i < q->token.claim_count; i++)
        if (q->token.claims[i].path.len > widest)
            widest = q->token.claims[i].path.len;
    for (unsigned i = 0; i < q->token.claim_count; i++) {
        struct sl_str path = q->token.claims[i].path;

        sl_out_print(out, "%s%*s%s\n", text_of(q, path),
                     sl_str_int(widest - path.len + 2), "",
                     text_of(q, q->token.claims[i].value));
    }
}

static int verify(struct question *q)
{
    int status = read_flags(q);
    enum sl_token_error fault;

    if (!status)
        status = read_keys(q);
    if (!status)
        status = read_token(q);
    if (status)
        return status;
    fault = sl_token_verify(q->set, &q->rules, q->text, q->now, &q->arena,
                            &q->token, &q->kid);
    if (fault)
        return print_refused(q, fault);
    if (q->args->format == SL_FORMAT_JSON)
        print_json(q);
    else
        print_table(q);
    return SL_EXIT_OK;
}

static int run(struct sl_cli_args *args)
{
    struct question q = {.args = args};
    int status;

    if (strcmp(args->words[0], "verify") != 0)
        return sl_cli_misuse(
            args,
            "unknown action \"%s\"; write: sluice token verify "
            "--jwks FILE TOKEN",
            args->words[0]);
    sl_buf_init(&q.keys, SL_KEYSET_BYTES + 1, &sl_alloc_libc);
    sl_buf_init(&q.typed, SL_TOKEN_BYTES + 3, &sl_alloc_libc);
    sl_arena_init(&q.arena, 2 * SL_TOKEN_ARENA, &sl_alloc_libc);
    status = verify(&q);
    sl_keyset_unref(q.set);
    if (q.keys.bytes)
        OPENSSL_cleanse(q.keys.bytes, q.keys.size);
    sl_arena_done(&q.arena);
    sl_buf_done(&q.typed);
    sl_buf_done(&q.keys);
    return status;
}

static const struct sl_flag flags[] = {
    {'\0', "jwks",           "FILE",     "file with a JWKS or one JWK"        },
    {'\0', "algorithms",     "LIST",     "allowed ones, like RS256,ES256"     },
    {'\0', "issuer",         "TEXT",     "required value of iss"              },
    {'\0', "audience",       "TEXT",     "required value of aud"              },
    {'\0', "leeway",         "DURATION", "allowed clock difference"           },
    {'\0', "now",            "INSTANT",  "the time, like 2026-03-31T12:00:00Z"},
    {'\0', "signature-only", NULL,       "do not check the claims"            },
    {'\0', NULL,             NULL,       NULL                                 },
};

const struct sl_command sl_command_token = {
    .name = "token",
    .usage = "verify --jwks FILE TOKEN",
    .summary = "Verify a JWT against a JWKS file",
    .help = "Verifies a signed JWT as the daemon does and prints its claims.\n"
            "If the token is invalid, it prints the reason and exits 1. '-'\n"
            "reads the token from standard input, so that it is not visible\n"
            "in the process list. The guide to tokens lists what is\n"
            "accepted.\n"
            "\n"
            "Encrypted tokens (JWE, five parts) are not supported. NextAuth\n"
            "encrypts its sessions by default; configure it to sign them.\n"
            "\n"
            "  sluice token verify --jwks jwks.json eyJhbGciOi...\n"
            "  sluice token verify --jwks jwks.json --algorithms RS256 \\\n"
            "      --issuer https://id.example/ --audience api - < token\n"
            "  sluice token verify --jwks jwks.json -o json - < token | jq "
            ".claims\n",
    .words = "verify",
    .formats = "table|json",
    .flags = flags,
    .least = 2,
    .most = 2,
    .run = run,
};
