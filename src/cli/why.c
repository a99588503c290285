/* why.c -- `sluice why`: why a request was denied.
 *
 * Asks GET /v1/denials of a daemon and answers in sentences.
 */
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/parse.h"
#include "base/str.h"
#include "base/timestamp.h"
#include "cli/cli.h"

#define WITHIN (5 * SL_MIN)
#define RECENT SL_HOUR /* without at= */

struct question {
    const char *request_id;
    char scope[64];
    const char *id;
    sl_ns at, within;
    bool has_at;
};

/* ---- sentences ---- */

/* Each followed by its sentence. */
static const char *const reasons[] = {
    "feature",
    "The feature behind this route is switched off.",
    "anonymous",
    "The route needs an identity; this request had none.",
    "missing",
    "The limit counts by a value that the request lacked.",
    "role",
    "The caller has none of the roles of this route.",
    "capability",
    "The plan does not include this.",
    "unknown_plan",
    "The policy does not know the plan of the caller.",
    "unknown_subject",
    "The caller is not registered (unknown_subject: deny).",
    "store",
    "The store did not answer; the policy denies then.",
    "webhook",
    "The signature of the webhook is not valid.",
    "webhooks_full",
    "The memory of webhooks is full.",
    "require",
    "A header that the route requires is missing or wrong.",
    "cost",
    "The cost of the request could not be read.",
    "backlog",
    "The backlog behind this route is too long.",
    "running",
    "The same request was still running.",
    "reused",
    "The idempotency key belongs to another request.",
    "path",
    "The path has too many readings for one decision.",
    "long_path",
    "The path is too long.",
    "holds",
    "There is no room for another hold.",
    "queue",
    "The wait for capacity would have been too long.",
    "guard",
    "Another request of the same guard was running.",
    "blocked",
    "The caller is blocked.",
    "penalty",
    "The caller went on after denials and is blocked now.",
};

static const char *sentence_of(const char *reason)
{
    for (size_t i = 0; i < SL_LEN(reasons); i += 2)
        if (strcmp(reasons[i], reason) == 0)
            return reasons[i + 1];
    return NULL;
}

/* "user ann, org acme", or "a caller". A name that was asked for is printed as
 * it was asked for: the daemon may know only its hash. */
static void print_caller(FILE *out, json_t *caller, const struct question *q)
{
    const char *scope, *before = "";
    json_t *id;

    if (json_object_size(caller) == 0)
        sl_out_print(out, "a caller");
    json_object_foreach(caller, scope, id)
    {
        const char *text =
            strcmp(scope, q->scope) == 0 ? q->id : json_string_value(id);

        sl_out_print(out, "%s%s %s", before, scope, text ? text : "?");
        before = ", ";
    }
}

static void print_numbers(FILE *out, json_t *row)
{
    const char *plan = sl_member_text(row, "plan");
    json_int_t line = sl_member_int(row, "line");
    bool is_quota = strcmp(sl_member_text(row, "reason"), "quota") == 0;

    sl_out_print(out, "  The %s \"%s\" per %s", is_quota ? "quota" : "limit",
                 sl_member_text(row, "limit"), sl_member_text(row, "scope"));
    if (plan[0])
        sl_out_print(out, " of the plan \"%s\"", plan);
    if (line > 0)
        sl_out_print(out, " (line %" JSON_INTEGER_FORMAT " of the policy)",
                     line);
    sl_out_print(out,
                 " allows %" JSON_INTEGER_FORMAT ". %" JSON_INTEGER_FORMAT
                 " %s left, and the request costs %" JSON_INTEGER_FORMAT ".\n",
                 sl_member_int(row, "capacity"),
                 sl_member_int(row, "remaining"),
                 sl_member_int(row, "remaining") == 1 ? "was" : "were",
                 sl_member_int(row, "cost"));
}

/* Does it depend on the clock alone when the request passes? */
static bool is_certain(const char *reason)
{
    static const char *const certain[] = {"limit", "quota", "blocked",
                                          "penalty"};

    for (size_t i = 0; i < SL_LEN(certain); i++)
        if (strcmp(certain[i], reason) == 0)
            return true;
    return false;
}

static void print_uncertain(FILE *out, json_t *row)
{
    char span[32];

    sl_out_print(out, "  It is not known when it would have passed.");
    if (sl_member_span(row, "retry_after_ms", span))
        sl_out_print(out, " The client was told to retry after %s.", span);
    sl_out_print(out, "\n");
}

static void print_retry(FILE *out, json_t *row)
{
    char span[32], at[SL_TIMESTAMP_TEXT];
    sl_ns from;

    if (!is_certain(sl_member_text(row, "reason"))) {
        print_uncertain(out, row);
        return;
    }
    if (!sl_member_span(row, "retry_after_ms", span)) {
        sl_out_print(out, "  Waiting does not help: no time is known at which "
                          "it would pass.\n");
        return;
    }
    if (sl_timestamp_parse(sl_str_c(sl_member_text(row, "at")), &from, NULL))
        return;
    sl_timestamp_print(from + sl_member_int(row, "retry_after_ms") * SL_MS,
                       false, at);
    sl_out_print(out, "  It would have passed %s later, at %s.\n", span, at);
}

static void print_denial(FILE *out, json_t *row, const struct question *q)
{
    const char *limit = sl_member_text(row, "limit");
    const char *reason = sl_member_text(row, "reason");
    const char *sentence = sentence_of(reason);
    bool allowed = sl_member_true(row, "allowed");

    sl_out_print(out, "%s  ", sl_member_text(row, "at"));
    print_caller(out, json_object_get(row, "caller"), q);
    sl_out_print(out, allowed ? " passed at %s" : " was denied at %s",
                 sl_member_text(row, "endpoint"));
    if (!allowed)
        sl_out_print(out, " with %" JSON_INTEGER_FORMAT " %s",
                     sl_member_int(row, "status"), sl_member_text(row, "code"));
    sl_out_print(out, ".\n");
    if (sentence)
        sl_out_print(out, "  %s\n", sentence);
    if (limit[0])
        print_numbers(out, row);
    if (!allowed && (!sentence || json_object_get(row, "retry_after_ms")))
        print_retry(out, row);
    if (sl_member_true(row, "degraded"))
        sl_out_print(out, "  It was decided without the store.\n");
    sl_out_print(out, "  Request %s, daemon %s.\n",
                 sl_member_text(row, "request_id"),
                 sl_member_text(row, "daemon"));
}

/* ---- the question ---- */

/* A timestamp whose seconds and offset may be missing: 2026-11-15T14:03 and
 * 2026-11-15 14:03:20 are times in UTC, 2026-11-15T14:03+01:00 is not. */
static bool read_time(const char *text, sl_ns *ret)
{
    const size_t minutes = strlen("2026-11-15T14:03");
    const char *rest = strlen(text) > minutes ? text + minutes : "";
    char whole[64];

    snprintf(whole, sizeof(whole), "%.*s%s%s%s", (int)minutes, text,
             rest[0] == ':' ? "" : ":00", rest,
             rest[strspn(rest, ":.0123456789")] ? "" : "Z");
    if (strlen(whole) > 10 && whole[10] == ' ')
        whole[10] = 'T';
    return sl_timestamp_parse(sl_str_c(whole), ret, NULL) == 0;
}

/* SCOPE=ID. */
static bool read_caller(const char *word, size_t len, struct question *q)
{
    if (q->id || len == 0 || len >= sizeof(q->scope))
        return false;
    snprintf(q->scope, sizeof(q->scope), "%.*s", (int)len, word);
    q->id = word + len + 1;
    return true;
}

static int read_word(struct sl_cli_args *args, const char *word,
                     struct question *q)
{
    const char *equals = strchr(word, '=');
    size_t len = equals ? (size_t)(equals - word) : 0;
    struct sl_str name = {word, len};

    if (!word[0])
        return sl_cli_misuse(args, "the request id is empty; write it as in "
                                   "sluice why req_5n2q8d0w3k7m");
    if (!equals && !q->request_id) {
        q->request_id = word;
        return 0;
    }
    if (equals && sl_str_eq(name, SL_STR("at"))) {
        q->has_at = read_time(equals + 1, &q->at);
        return q->has_at ? 0
                         : sl_cli_misuse(args,
                                         "\"%s\" is not a time; write "
                                         "at=2026-11-15T14:03 (UTC) or "
                                         "at=2026-11-15T15:03+01:00",
                                         word);
    }
    if (equals && sl_str_eq(name, SL_STR("within")))
        return sl_parse_duration(sl_str_c(equals + 1), &q->within, NULL) == 0
                   ? 0
                   : sl_cli_misuse(args,
                                   "\"%s\" is not a duration; write within=5m",
                                   word);
    if (equals && len > 0 && !equals[1])
        return sl_cli_misuse(args, "\"%s\" has no id; write user=ann", word);
    if (equals && read_caller(word, len, q))
        return 0;
    return sl_cli_misuse(args,
                         "\"%s\" is too much; write one request id, or one "
                         "SCOPE=ID with at=TIME and within=DURATION",
                         word);
}

static void add_times(struct sl_cli_request *r, const struct question *q)
{
    char text[SL_TIMESTAMP_TEXT];
    sl_ns now = sl_clock_wall();
    sl_ns from = q->has_at ? q->at - q->within : now - q->within;

    sl_timestamp_print(from > 0 ? from : 0, true, text);
    sl_cli_request_option(r, "from", text);
    if (!q->has_at)
        return;
    sl_timestamp_print(q->at + q->within, true, text);
    sl_cli_request_option(r, "to", text);
}

static int read_question(struct sl_cli_args *args, struct question *q)
{
    int status = 0;

    *q = (struct question){.within = -1};
    for (size_t i = 0; i < args->word_count && !status; i++)
        status = read_word(args, args->words[i], q);
    if (status)
        return status;
    if (q->request_id && (q->id || q->has_at || q->within >= 0))
        return sl_cli_misuse(args, "a request id needs no other words");
    if (!q->request_id && !q->id)
        return sl_cli_misuse(args, "missing request id or SCOPE=ID; write "
                                   "sluice why user=ann at=2026-11-15T14:03");
    if (q->within < 0)
        q->within = q->has_at ? WITHIN : RECENT;
    return 0;
}

static int ask_why(struct sl_cli_request *r)
{
    static const char too_long[] = "the words are too long";
    struct question q;
    json_t *answer, *row;
    size_t i;
    int status = read_question(r->args, &q);

    if (status)
        return status;
    sl_writer_add(&r->path, SL_STR("/v1/denials"));
    sl_cli_request_option(r, "request_id", q.request_id);
    if (q.id) {
        sl_cli_request_option(r, "scope", q.scope);
        sl_cli_request_option(r, "id", q.id);
        add_times(r, &q);
    }
    sl_cli_request_option(r, "limit", sl_cli_flag(r->args, "limit"));
    if (sl_cli_flag(r->args, "passed"))
        sl_cli_request_option(r, "passed", "true");
    status = sl_cli_request_send(r, "GET", too_long, &answer);
    if (status)
        return status;
    if (json_array_size(json_object_get(answer, "denials")) == 0)
        status = sl_cli_fail(r->args,
                             "no such denial is known: it was not denied, or "
                             "long ago, or by another daemon, or with many "
                             "others of this caller in a second");
    else if (r->args->format == SL_FORMAT_JSON)
        status = sl_json_print(r->args, answer);
    else
        json_array_foreach(json_object_get(answer, "denials"), i, row)
            print_denial(r->args->cli->out, row, &q);
    json_decref(answer);
    return status;
}

static const struct sl_flag flags[] = {
    {'\0', "limit",  "N",  "at most so many (100)"                 },
    {'\0', "passed", NULL, "also the recorded share of what passed"},
    {'\0', NULL,     NULL, NULL                                    },
};

const struct sl_command sl_command_why = {
    .name = "why",
    .usage = "REQUEST_ID | SCOPE=ID [at=TIME] [within=DURATION]",
    .summary = "Say why a request was denied",
    .help = "Asks a daemon for its history of denials, and says which limit\n"
            "or rule denied a request and when it would have passed, if that\n"
            "is known. Times without an offset are UTC. Without at= the last "
            "hour is looked\n"
            "at. Exits with 1 if nothing is found.\n"
            "\n"
            "  sluice why req_5n2q8d0w3k7m\n"
            "  sluice why user=ann at=2026-11-15T14:03 within=5m\n"
            "  sluice why ip=203.0.113.7 -o json\n",
    .formats = "table|json",
    .flags = flags,
    .listener = SL_LISTENER_ADMIN,
    .least = 1,
    .most = 3,
    .ask = ask_why,
};
