/* webhook.c -- `sluice webhook`: sign or verify a webhook. webhook_out.c has
 * the rest: those that a daemon sends.
 *
 * Uses the same code as the daemon. Replays are not detected.
 */
#include <openssl/crypto.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/parse.h"
#include "base/str.h"
#include "base/timestamp.h"
#include "cli/cli.h"
#include "identity/webhook.h"

#define BODY_MOST   ((size_t)16 << 20)
#define SECRET_MOST ((size_t)64 << 10)
#define SCHEMES     "standard-webhooks|stripe|hmac-sha256"
#define TOLERANCE   (5 * SL_MIN)

struct question {
    struct sl_cli_args *args;
    struct sl_webhook_rules rules;
    struct sl_str secrets[SL_WEBHOOK_SECRETS];
    struct sl_webhook message;
    struct sl_buf secret, decoded, body; /* texts of the files */
    char seconds[SL_DIGITS];
    sl_ns now;
};

static int read_scheme(struct question *q)
{
    const char *text = sl_cli_flag(q->args, "scheme");
    const char *near;

    for (int i = 0; text && i < SL_WEBHOOK_SCHEMES; i++)
        if (strcmp(text, sl_webhook_words[i]) == 0) {
            q->rules.scheme = (enum sl_webhook_scheme)i;
            return 0;
        }
    near = text ? sl_str_nearest(sl_str_c(text), sl_webhook_words,
                                 SL_WEBHOOK_SCHEMES)
                : NULL;
    if (near)
        return sl_cli_misuse(q->args, "unknown scheme \"%s\"; did you mean %s?",
                             text, near);
    return sl_cli_misuse(q->args, "unknown or missing scheme; write --scheme "
                                  "standard-webhooks, stripe or hmac-sha256");
}

static int read_times(struct question *q)
{
    int status;

    q->now = sl_clock_wall();
    q->rules.tolerance = TOLERANCE;
    status = sl_flag_duration(q->args, "tolerance", &q->rules.tolerance);
    return status ? status : sl_flag_time(q->args, "now", &q->now);
}

static int add_secret(struct question *q, struct sl_str line)
{
    uint8_t *room = (uint8_t *)q->decoded.bytes + q->decoded.len;

    if (q->rules.secret_count == SL_WEBHOOK_SECRETS)
        return sl_cli_misuse(q->args, "the file has more than %d secrets",
                             SL_WEBHOOK_SECRETS);
    if (!sl_webhook_secret(q->rules.scheme, line, room,
                           &q->secrets[q->rules.secret_count]))
        return sl_cli_fail(
            q->args,
            "secret %u is not base64, which standard-webhooks requires",
            q->rules.secret_count + 1);
    q->decoded.len += q->secrets[q->rules.secret_count++].len;
    return 0;
}

/* One secret per line. */
static int read_secrets(struct question *q)
{
    const char *path = sl_cli_flag(q->args, "secret-file");
    struct sl_str rest;
    int status = 0;

    if (!path)
        return sl_cli_misuse(q->args,
                             "missing secret; write --secret-file FILE");
    if (sl_need_file(q->args, path, &q->secret))
        return SL_EXIT_FAILED;
    if (sl_buf_reserve(&q->decoded, q->secret.len + 1))
        return sl_cli_no_memory(q->args);
    rest = sl_buf_str(&q->secret);
    while (rest.len > 0 && !status) {
        const char *end = memchr(rest.at, '\n', rest.len);
        struct sl_str line = {rest.at,
                              end ? (size_t)(end - rest.at) : rest.len};

        rest = sl_str_from(rest, line.len + 1);
        if (line.len > 0 && line.at[line.len - 1] == '\r')
            line.len--;
        if (line.len > 0)
            status = add_secret(q, line);
    }
    if (!status && q->rules.secret_count == 0)
        status = sl_cli_fail(q->args, "%s contains no secret", path);
    q->rules.secrets = q->secrets;
    return status;
}

static int read_body(struct question *q)
{
    const char *path = q->args->words[1];

    if (sl_need_file(q->args, path, &q->body))
        return SL_EXIT_FAILED;
    if (q->body.len == BODY_MOST)
        return sl_cli_fail(q->args, "%s is larger than 16 MiB", path);
    q->message.body = sl_buf_str(&q->body);
    return 0;
}

static int verify(struct question *q)
{
    struct sl_webhook_seen seen;
    enum sl_webhook_fault fault;
    FILE *out = q->args->cli->out;

    if (!sl_cli_flag(q->args, "signature"))
        return sl_cli_misuse(q->args,
                             "missing signature; write --signature TEXT, the "
                             "value of its header");
    fault = q->rules.scheme == SL_WEBHOOK_STANDARD &&
                    (q->message.id.len == 0 || q->message.timestamp.len == 0)
                ? SL_WEBHOOK_NO_HEADER
                : sl_webhook_verify(&q->rules, &q->message, q->now, &seen);
    if (q->args->format == SL_FORMAT_JSON) {
        fprintf(out, "{\"verified\":%s,\"reason\":\"%s\"",
                fault ? "false" : "true", sl_webhook_fault_word(fault));
        sl_out_json(out, ",\"message\":", sl_webhook_fault_sentence(fault));
        fputs("}\n", out);
    } else if (!fault) {
        fputs("the webhook is valid\n", out);
    }
    return fault ? sl_cli_fail(q->args, "%s", sl_webhook_fault_sentence(fault))
                 : SL_EXIT_OK;
}

static int sign(struct question *q)
{
    static const char *const names[] = {"webhook-signature", "stripe-signature",
                                        "x-hub-signature-256"};
    struct sl_webhook *message = &q->message;
    struct sl_webhook_sign made;
    char text[SL_WEBHOOK_TEXT];
    FILE *out = q->args->cli->out;
    const uint8_t *key;

    if (message->timestamp.len == 0)
        message->timestamp = (struct sl_str){
            q->seconds, sl_digits((uint64_t)(q->now / SL_S), q->seconds)};
    if (message->id.len == 0)
        message->id = SL_STR("msg_test");
    if (sl_webhook_is_public(q->rules.secrets[0], &key))
        return sl_cli_fail(q->args,
                           "a public key (whpk_...) verifies, and does "
                           "not sign");
    if (sl_webhook_sign(&q->rules, message, &made))
        return sl_cli_no_memory(q->args);
    sl_webhook_write(q->rules.scheme, &made, message->timestamp, text);
    if (q->rules.scheme == SL_WEBHOOK_STANDARD)
        fprintf(out, "webhook-id: %.*s\nwebhook-timestamp: %.*s\n",
                SL_STR_ARG(message->id), SL_STR_ARG(message->timestamp));
    fprintf(out, "%s: %s\n", names[q->rules.scheme], text);
    return SL_EXIT_OK;
}

static int answer(struct question *q)
{
    bool signs = strcmp(q->args->words[0], "sign") == 0;
    int status = 0;

    if (!signs && strcmp(q->args->words[0], "verify") != 0)
        return sl_cli_misuse(q->args,
                             "unknown action \"%s\"; write: sluice webhook "
                             "endpoint, message, attempts, replay, verify or "
                             "sign",
                             q->args->words[0]);
    if (q->args->word_count != 2)
        return sl_cli_misuse(q->args,
                             "missing or unexpected argument; write: sluice "
                             "webhook %s --scheme SCHEME --secret-file FILE "
                             "BODY",
                             q->args->words[0]);
    q->message.id = sl_str_c(sl_cli_flag(q->args, "id"));
    q->message.timestamp = sl_str_c(sl_cli_flag(q->args, "timestamp"));
    q->message.signature = sl_str_c(sl_cli_flag(q->args, "signature"));
    status = read_scheme(q);
    if (!status)
        status = read_times(q);
    if (!status)
        status = read_secrets(q);
    if (!status)
        status = read_body(q);
    if (status)
        return status;
    return signs ? sign(q) : verify(q);
}

static void erase(struct sl_buf *buf)
{
    if (buf->bytes)
        OPENSSL_cleanse(buf->bytes, buf->size);
    sl_buf_done(buf);
}

static int run(struct sl_cli_args *args)
{
    struct question q = {.args = args};
    int status;

    if (sl_webhook_is_out(args->words[0]))
        return sl_webhook_out(args);
    sl_buf_init(&q.secret, SECRET_MOST, &sl_alloc_libc);
    sl_buf_init(&q.decoded, SECRET_MOST + 1, &sl_alloc_libc);
    sl_buf_init(&q.body, BODY_MOST, &sl_alloc_libc);
    status = answer(&q);
    erase(&q.secret);
    erase(&q.decoded);
    sl_buf_done(&q.body);
    return status;
}

static const struct sl_flag flags[] = {
    {'\0', "scheme",      SCHEMES,    "signature scheme"                     },
    {'\0', "secret-file", "FILE",     "file with the secrets, one per line"  },
    {'\0', "signature",   "TEXT",     "value of the signature header"        },
    {'\0', "id",          "TEXT",     "value of the webhook-id header"       },
    {'\0', "timestamp",   "SECONDS",  "value of the webhook-timestamp header"},
    {'\0', "tolerance",   "DURATION", "allowed clock difference (5m)"        },
    {'\0', "now",         "INSTANT",  "the time, like 2026-03-31T12:00:00Z"  },
    {'\0', NULL,          NULL,       NULL                                   },
};

static const char *const actions[] = {
    "endpoint", "add|list|show|set|rotate|enable|disable|remove|ping",
    "message",  "send|list|show",
    NULL,
};

const struct sl_command sl_command_webhook = {
    .name = "webhook",
    .usage = "endpoint|message|attempts|replay ... | verify|sign --scheme "
             "SCHEME --secret-file FILE BODY",
    .summary = "Send webhooks: endpoints, messages, replays; verify and sign",
    .help =
        "The daemon queues, signs, paces and repeats messages to the\n"
        "endpoints of your customers. FILE has the payload, a JSON value, or\n"
        "is '-'. TIME is like 2026-12-31T23:59:59Z.\n"
        "\n"
        "  sluice webhook endpoint add acme https://example.com/hook \\\n"
        "      events='order.*,invoice.paid'\n"
        "  sluice webhook endpoint list acme\n"
        "  sluice webhook endpoint show|enable|remove|ping ep_1\n"
        "  sluice webhook endpoint set ep_1 url=https://example.com/new\n"
        "  sluice webhook endpoint rotate ep_1 keep=24h\n"
        "  sluice webhook endpoint disable ep_1 reason=unpaid queued=drop\n"
        "  sluice webhook message send acme order.paid order.json key=o-7\n"
        "  sluice webhook message list acme type='order.*' limit=20\n"
        "  sluice webhook message show msg_1\n"
        "  sluice webhook attempts acme result=failed\n"
        "  sluice webhook replay msg_1\n"
        "  sluice webhook replay ep_1 from=2026-11-15T00:00:00Z \\\n"
        "      type='order.*'\n"
        "\n"
        "Signatures: BODY is a file with the exact body, or '-'. verify "
        "prints\n"
        "the reason and exits 1 if the webhook is invalid. sign prints the\n"
        "headers to send with it.\n"
        "\n"
        "  sluice webhook sign --scheme standard-webhooks --secret-file s \\\n"
        "      --id msg_1 body.json\n"
        "  sluice webhook verify --scheme standard-webhooks --secret-file s "
        "\\\n"
        "      --id msg_1 --timestamp 1674087231 --signature 'v1,K5oZ...' "
        "body.json\n"
        "  sluice webhook verify --scheme stripe --secret-file s \\\n"
        "      --signature 't=1492774577,v1=5257a8...' - < body.json\n",
    .words = "endpoint|message|attempts|replay|verify|sign",
    .actions = actions,
    .formats = "table|json",
    .flags = flags,
    .listener = SL_LISTENER_HTTP,
    .least = 1,
    .most = 16,
    .run = run,
};
