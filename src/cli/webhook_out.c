/* webhook_out.c -- `sluice webhook endpoint`, `message`, `attempts` and
 * `replay`: webhooks that a daemon sends.
 *
 * Words are those of a sentence; settings are NAME=VALUE after them.
 */
#include <string.h>

#include "cli/cli.h"
#include "wire/json.h"

#define ENDPOINTS    "/v1/webhooks/endpoints"
#define MESSAGES     "/v1/webhooks/messages"
#define PAYLOAD_MOST ((size_t)512 << 10) /* the daemon accepts 256 KiB */
#define TOO_LONG     "the settings are too long"

/* ---- settings: NAME=VALUE ---- */

enum form {
    TEXT,
    TYPES, /* a,b: a list of texts */
    JSON,
    FLAG,  /* true or false */
    QUERY, /* an option of the path; the others are members of the body */
};

struct setting {
    const char *name;
    enum form form;
    const char *member; /* NULL: as the name */
};

/* Returns the value of the word if it is this setting, or NULL. */
static const char *value_of(const char *word, const char *name)
{
    size_t len = strlen(name);

    return strncmp(word, name, len) == 0 && word[len] == '=' ? word + len + 1
                                                             : NULL;
}

static int refuse_setting(struct sl_cli_request *r, const char *word,
                          const struct setting *settings)
{
    char names[256] = "";
    size_t len = 0;

    if (!settings[0].name)
        return sl_cli_misuse(r->args, "unexpected argument \"%s\"", word);
    for (const struct setting *s = settings; s->name && len < sizeof(names);
         s++)
        len += (size_t)snprintf(names + len, sizeof(names) - len,
                                "%s%s=", s == settings ? "" : ", ", s->name);
    return sl_cli_misuse(r->args, "unknown setting \"%s\"; valid are %s", word,
                         names);
}

/* The text must be one JSON value: it is copied into the body as it is. */
static int add_json(struct sl_cli_request *r, const char *member,
                    struct sl_str text, const char *what)
{
    json_error_t why;
    json_t *value = json_loadb(text.at, text.len, JSON_DECODE_ANY, &why);

    if (!value)
        return sl_cli_misuse(r->args, "%s is not JSON: %s (line %d)", what,
                             why.text, why.line);
    json_decref(value);
    sl_json_key(&r->body, sl_str_c(member));
    sl_json_raw(&r->body, text);
    return 0;
}

static void add_types(struct sl_cli_request *r, const char *member,
                      struct sl_str rest)
{
    sl_json_key(&r->body, sl_str_c(member));
    sl_json_open(&r->body, '[');
    while (rest.len > 0) {
        const char *comma = memchr(rest.at, ',', rest.len);
        struct sl_str item = {rest.at,
                              comma ? (size_t)(comma - rest.at) : rest.len};

        sl_json_str(&r->body, item);
        rest = sl_str_from(rest, item.len + 1);
    }
    sl_json_close(&r->body, ']');
}

static int add_setting(struct sl_cli_request *r, const struct setting *s,
                       const char *value)
{
    const char *member = s->member ? s->member : s->name;

    switch (s->form) {
    case TEXT:
        sl_json_member_text(&r->body, member, value);
        return 0;
    case TYPES:
        add_types(r, member, sl_str_c(value));
        return 0;
    case JSON:
        return add_json(r, member, sl_str_c(value), s->name);
    case QUERY:
        sl_cli_request_option(r, member, value);
        return 0;
    case FLAG:
        break;
    }
    if (strcmp(value, "true") != 0 && strcmp(value, "false") != 0)
        return sl_cli_misuse(r->args, "%s must be true or false, not \"%s\"",
                             s->name, value);
    sl_json_key(&r->body, sl_str_c(member));
    sl_json_flag(&r->body, value[0] == 't');
    return 0;
}

/* Add the settings among the words from number `from` on. */
static int add_settings(struct sl_cli_request *r, size_t from,
                        const struct setting *settings)
{
    int status = 0;

    for (size_t i = from; i < r->args->word_count && !status; i++) {
        const char *word = r->args->words[i], *value = NULL;
        const struct setting *s = settings;

        while (s->name && !(value = value_of(word, s->name)))
            s++;
        status = value ? add_setting(r, s, value)
                       : refuse_setting(r, word, settings);
    }
    return status;
}

/* ---- endpoints ---- */

static int print_secret(struct sl_cli_args *args, json_t *answer)
{
    const char *until = sl_member_text(answer, "old_secret_until");

    sl_out_print(args->cli->out, "id      %s\nsecret  %s\n",
                 sl_member_text(answer, "id"),
                 sl_member_text(answer, "secret"));
    if (until[0])
        sl_out_print(args->cli->out, "the old secret is valid until %s\n",
                     until);
    fputs("The secret is not shown again.\n", args->cli->err);
    return SL_EXIT_OK;
}

static int add_endpoint(struct sl_cli_request *r)
{
    static const struct setting settings[] = {
        {"events",    TYPES, NULL},
        {"metadata",  JSON,  NULL},
        {"contact",   FLAG,  NULL},
        {"signature", TEXT,  NULL},
        {NULL,        TEXT,  NULL},
    };
    int status;

    sl_writer_add(&r->path, SL_STR(ENDPOINTS));
    sl_json_open(&r->body, '{');
    sl_json_member_text(&r->body, "org", r->args->words[2]);
    sl_json_member_text(&r->body, "url", r->args->words[3]);
    status = add_settings(r, 4, settings);
    sl_json_close(&r->body, '}');
    return status ? status
                  : sl_cli_request_print(r, "POST", TOO_LONG, print_secret);
}

/* "order.*,invoice.paid" */
static const char *join_events(const json_t *endpoint, char *out, size_t size)
{
    const json_t *events = json_object_get(endpoint, "events");
    size_t len = 0;

    out[0] = '\0';
    for (size_t i = 0; i < json_array_size(events) && len < size; i++)
        len += (size_t)snprintf(out + len, size - len, "%s%s", i ? "," : "",
                                json_string_value(json_array_get(events, i)));
    return out;
}

static const char *state_of(const json_t *endpoint)
{
    if (!sl_member_true(endpoint, "enabled"))
        return "disabled";
    return sl_member_true(endpoint, "contact") ? "contact" : "enabled";
}

static int print_endpoints(struct sl_cli_args *args, json_t *answer)
{
    static const char *const head[] = {"id", "org", "state", "events", "url"};
    json_t *list = json_object_get(answer, "endpoints"), *endpoint;
    struct sl_columns columns;
    char events[512];
    size_t i;

    sl_columns_init(&columns, SL_LEN(head), head);
    json_array_foreach(list, i, endpoint)
    {
        const char *const cells[] = {
            sl_member_text(endpoint, "id"),
            sl_member_text(endpoint, "org"),
            state_of(endpoint),
            join_events(endpoint, events, sizeof(events)),
            sl_member_text(endpoint, "url"),
        };

        sl_columns_add(&columns, cells);
    }
    return sl_columns_finish(&columns, args);
}

static int list_endpoints(struct sl_cli_request *r)
{
    static const struct setting none[] = {
        {NULL, TEXT, NULL}
    };
    bool has_org = r->args->word_count > 2;

    sl_writer_add(&r->path, SL_STR(ENDPOINTS));
    if (has_org)
        sl_cli_request_option(r, "org", r->args->words[2]);
    if (r->args->word_count > 3)
        return refuse_setting(r, r->args->words[3], none);
    return sl_cli_request_print(r, "GET", TOO_LONG, print_endpoints);
}

static void print_line(FILE *out, const char *label, const char *text)
{
    if (text[0])
        sl_out_print(out, "%-12s%s\n", label, text);
}

static int print_endpoint(struct sl_cli_args *args, json_t *e)
{
    static const char *const times[][2] = {
        {"next",       "next"            },
        {"old secret", "old_secret_until"},
        {"created",    "created"         },
        {"updated",    "updated"         },
    };
    FILE *out = args->cli->out;
    char events[4096];
    char *metadata = json_dumps(json_object_get(e, "metadata"), JSON_COMPACT);

    print_line(out, "id", sl_member_text(e, "id"));
    print_line(out, "org", sl_member_text(e, "org"));
    print_line(out, "url", sl_member_text(e, "url"));
    print_line(out, "events", join_events(e, events, sizeof(events)));
    print_line(out, "state", state_of(e));
    print_line(out, "reason", sl_member_text(e, "reason"));
    sl_out_print(out, "%-12s%" JSON_INTEGER_FORMAT " in a row\n", "failures",
                 sl_member_int(e, "failures"));
    print_line(out, "metadata",
               metadata && strcmp(metadata, "{}") != 0 ? metadata : "");
    for (size_t i = 0; i < SL_LEN(times); i++)
        print_line(out, times[i][0], sl_member_text(e, times[i][1]));
    sl_free_text(metadata);
    return SL_EXIT_OK;
}

/* The path of the endpoint that the third word names. */
static void write_endpoint(struct sl_cli_request *r, const char *act)
{
    sl_writer_add(&r->path, SL_STR(ENDPOINTS));
    sl_cli_request_segment(r, r->args->words[2]);
    if (act)
        sl_cli_request_segment(r, act);
}

static int show_endpoint(struct sl_cli_request *r)
{
    write_endpoint(r, NULL);
    return sl_cli_request_print(r, "GET", TOO_LONG, print_endpoint);
}

static int print_changed(struct sl_cli_args *args, json_t *answer)
{
    (void)answer;
    sl_out_print(args->cli->out, "%s is %s\n", args->words[2],
                 strcmp(args->words[1], "set") == 0      ? "changed"
                 : strcmp(args->words[1], "remove") == 0 ? "removed"
                 : strcmp(args->words[1], "enable") == 0 ? "enabled"
                                                         : "disabled");
    return SL_EXIT_OK;
}

static int change(struct sl_cli_request *r, const struct setting *settings,
                  const char *enabled)
{
    int status;

    write_endpoint(r, NULL);
    sl_json_open(&r->body, '{');
    if (enabled) {
        sl_json_key(&r->body, SL_STR("enabled"));
        sl_json_raw(&r->body, sl_str_c(enabled));
    }
    status = add_settings(r, 3, settings);
    sl_json_close(&r->body, '}');
    return status ? status
                  : sl_cli_request_print(r, "PATCH", TOO_LONG, print_changed);
}

static int set_endpoint(struct sl_cli_request *r)
{
    static const struct setting settings[] = {
        {"url",      TEXT,  NULL},
        {"events",   TYPES, NULL},
        {"metadata", JSON,  NULL},
        {"contact",  FLAG,  NULL},
        {NULL,       TEXT,  NULL},
    };

    return change(r, settings, NULL);
}

static int enable_endpoint(struct sl_cli_request *r)
{
    static const struct setting settings[] = {
        {"url",    TEXT, NULL},
        {"queued", TEXT, NULL},
        {NULL,     TEXT, NULL},
    };

    return change(r, settings, "true");
}

static int disable_endpoint(struct sl_cli_request *r)
{
    static const struct setting settings[] = {
        {"reason", TEXT, NULL},
        {"queued", TEXT, NULL},
        {NULL,     TEXT, NULL},
    };

    return change(r, settings, "false");
}

static int remove_endpoint(struct sl_cli_request *r)
{
    write_endpoint(r, NULL);
    return sl_cli_request_print(r, "DELETE", TOO_LONG, print_changed);
}

static int rotate_secret(struct sl_cli_request *r)
{
    static const struct setting settings[] = {
        {"keep",      TEXT, NULL},
        {"signature", TEXT, NULL},
        {NULL,        TEXT, NULL},
    };
    int status;

    write_endpoint(r, "rotate");
    sl_json_open(&r->body, '{');
    status = add_settings(r, 3, settings);
    sl_json_close(&r->body, '}');
    return status ? status
                  : sl_cli_request_print(r, "POST", TOO_LONG, print_secret);
}

static int print_id(struct sl_cli_args *args, json_t *answer)
{
    sl_out_print(args->cli->out, "%s\n", sl_member_text(answer, "id"));
    return SL_EXIT_OK;
}

static int ping_endpoint(struct sl_cli_request *r)
{
    write_endpoint(r, "ping");
    return sl_cli_request_print(r, "POST", TOO_LONG, print_id);
}

/* ---- messages ---- */

static int print_accepted(struct sl_cli_args *args, json_t *answer)
{
    const char *until = sl_member_text(answer, "held_until");

    sl_out_print(args->cli->out, "%s\n", sl_member_text(answer, "id"));
    if (sl_member_true(answer, "repeated"))
        fputs("It was sent before, with the same key.\n", args->cli->err);
    else if (until[0])
        sl_out_print(args->cli->err, "The quota holds it until %s.\n", until);
    else if (sl_member_int(answer, "deliveries") == 0)
        fputs("No endpoint of the organisation takes this type.\n",
              args->cli->err);
    return SL_EXIT_OK;
}

static int send_message(struct sl_cli_request *r)
{
    static const struct setting settings[] = {
        {"key", TEXT, "idempotency_key"},
        {NULL,  TEXT, NULL             },
    };
    struct sl_cli_args *args = r->args;
    struct sl_buf payload;
    int status;

    sl_buf_init(&payload, PAYLOAD_MOST, &sl_alloc_libc);
    status = sl_need_file(args, args->words[4], &payload);
    sl_writer_add(&r->path, SL_STR(MESSAGES));
    sl_json_open(&r->body, '{');
    sl_json_member_text(&r->body, "org", args->words[2]);
    sl_json_member_text(&r->body, "type", args->words[3]);
    if (!status)
        status = add_settings(r, 5, settings);
    if (!status)
        status = add_json(r, "payload", sl_buf_str(&payload), args->words[4]);
    sl_json_close(&r->body, '}');
    sl_buf_done(&payload);
    return status ? status
                  : sl_cli_request_print(r, "POST", "the payload is too long",
                                         print_accepted);
}

static int print_messages(struct sl_cli_args *args, json_t *answer)
{
    static const char *const members[] = {"at",      "id",         "org",
                                          "type",    "deliveries", "delivered",
                                          "waiting", "dead"};

    return sl_columns_print(args, json_object_get(answer, "messages"), members,
                            SL_LEN(members));
}

static int list_messages(struct sl_cli_request *r)
{
    static const struct setting settings[] = {
        {"type",   QUERY, NULL},
        {"from",   QUERY, NULL},
        {"to",     QUERY, NULL},
        {"limit",  QUERY, NULL},
        {"before", QUERY, NULL},
        {NULL,     TEXT,  NULL},
    };
    bool has_org = r->args->word_count > 2 && !strchr(r->args->words[2], '=');
    int status;

    sl_writer_add(&r->path, SL_STR(MESSAGES));
    if (has_org)
        sl_cli_request_option(r, "org", r->args->words[2]);
    status = add_settings(r, has_org ? 3 : 2, settings);
    return status ? status
                  : sl_cli_request_print(r, "GET", TOO_LONG, print_messages);
}

static int print_message(struct sl_cli_args *args, json_t *m)
{
    static const char *const deliveries[] = {"endpoint", "state", "attempts",
                                             "next", "url"};
    static const char *const attempts[] = {
        "at", "endpoint", "attempt", "status", "result", "latency_ms", "error"};
    FILE *out = args->cli->out;
    json_t *list = json_object_get(m, "attempts");
    int status;

    print_line(out, "id", sl_member_text(m, "id"));
    print_line(out, "org", sl_member_text(m, "org"));
    print_line(out, "type", sl_member_text(m, "type"));
    print_line(out, "at", sl_member_text(m, "at"));
    fputc('\n', out);
    status = sl_columns_print(args, json_object_get(m, "deliveries"),
                              deliveries, SL_LEN(deliveries));
    if (status || json_array_size(list) == 0)
        return status;
    fputc('\n', out);
    return sl_columns_print(args, list, attempts, SL_LEN(attempts));
}

static int show_message(struct sl_cli_request *r)
{
    sl_writer_add(&r->path, SL_STR(MESSAGES));
    sl_cli_request_segment(r, r->args->words[2]);
    return sl_cli_request_print(r, "GET", TOO_LONG, print_message);
}

/* ---- the log, and replay ---- */

static int print_attempts(struct sl_cli_args *args, json_t *answer)
{
    static const char *const members[] = {"at",       "org",        "message",
                                          "endpoint", "attempt",    "status",
                                          "result",   "latency_ms", "error"};

    return sl_columns_print(args, json_object_get(answer, "attempts"), members,
                            SL_LEN(members));
}

static int list_attempts(struct sl_cli_request *r)
{
    static const struct setting settings[] = {
        {"endpoint", QUERY, NULL},
        {"message",  QUERY, NULL},
        {"result",   QUERY, NULL},
        {"from",     QUERY, NULL},
        {"to",       QUERY, NULL},
        {"limit",    QUERY, NULL},
        {"before",   QUERY, NULL},
        {NULL,       TEXT,  NULL},
    };
    bool has_org = r->args->word_count > 1 && !strchr(r->args->words[1], '=');
    int status;

    sl_writer_add(&r->path, SL_STR("/v1/webhooks/attempts"));
    if (has_org)
        sl_cli_request_option(r, "org", r->args->words[1]);
    status = add_settings(r, has_org ? 2 : 1, settings);
    return status ? status
                  : sl_cli_request_print(r, "GET", TOO_LONG, print_attempts);
}

static int print_replayed(struct sl_cli_args *args, json_t *answer)
{
    json_int_t count =
        sl_member_int(answer, "queued") + sl_member_int(answer, "deliveries");

    fprintf(args->cli->out, "%" JSON_INTEGER_FORMAT " %s will be sent again\n",
            count, count == 1 ? "message" : "messages");
    return SL_EXIT_OK;
}

/* One message by its id, or a range of an endpoint. */
static int replay(struct sl_cli_request *r)
{
    static const struct setting range[] = {
        {"from", TEXT, NULL},
        {"to",   TEXT, NULL},
        {"type", TEXT, NULL},
        {NULL,   TEXT, NULL},
    };
    const char *id = r->args->words[1];
    bool is_message = strncmp(id, "msg_", 4) == 0;
    int status;

    if (!is_message && strncmp(id, "ep_", 3) != 0)
        return sl_cli_misuse(r->args,
                             "\"%s\" is not the id of a message (msg_...) or "
                             "an endpoint (ep_...)",
                             id);
    if (!is_message && r->args->word_count == 2)
        return sl_cli_misuse(r->args,
                             "missing range; write: sluice webhook replay %s "
                             "from=TIME [to=TIME] [type=TYPE]",
                             id);
    sl_writer_addf(&r->path, "%s", is_message ? MESSAGES : ENDPOINTS);
    sl_cli_request_segment(r, id);
    sl_cli_request_segment(r, "replay");
    if (!is_message)
        sl_json_open(&r->body, '{');
    status = add_settings(r, 2, is_message ? range + SL_LEN(range) - 1 : range);
    if (!is_message)
        sl_json_close(&r->body, '}');
    return status ? status
                  : sl_cli_request_print(r, "POST", TOO_LONG, print_replayed);
}

/* ---- actions ---- */

static const struct action {
    const char *group, *name; /* NULL: the group has no actions */
    sl_cli_request_f *ask;
    unsigned least;    /* words, with those two */
    const char *words; /* after them */
} actions[] = {
    {"endpoint", "add",     add_endpoint,     4, "ORG URL"         },
    {"endpoint", "list",    list_endpoints,   2, "[ORG]"           },
    {"endpoint", "show",    show_endpoint,    3, "ID"              },
    {"endpoint", "set",     set_endpoint,     4, "ID NAME=VALUE..."},
    {"endpoint", "rotate",  rotate_secret,    3, "ID [keep=24h]"   },
    {"endpoint", "enable",  enable_endpoint,  3, "ID"              },
    {"endpoint", "disable", disable_endpoint, 3, "ID [reason=TEXT]"},
    {"endpoint", "remove",  remove_endpoint,  3, "ID"              },
    {"endpoint", "ping",    ping_endpoint,    3, "ID"              },
    {"message",  "send",    send_message,     5, "ORG TYPE FILE"   },
    {"message",  "list",    list_messages,    2, "[ORG]"           },
    {"message",  "show",    show_message,     3, "ID"              },
    {"attempts", NULL,      list_attempts,    1, "[ORG]"           },
    {"replay",   NULL,      replay,           2, "ID [from=TIME]"  },
};

static int refuse_action(struct sl_cli_args *args)
{
    const char *group = args->words[0];
    const char *given = args->word_count > 1 ? args->words[1] : "";
    const char *names[SL_LEN(actions)], *near;
    size_t count = 0;

    for (size_t i = 0; i < SL_LEN(actions); i++)
        if (strcmp(actions[i].group, group) == 0)
            names[count++] = actions[i].name;
    near = given[0] ? sl_str_nearest(sl_str_c(given), names, count) : NULL;
    if (near)
        return sl_cli_misuse(args, "unknown action \"%s\"; did you mean %s?",
                             given, near);
    return sl_cli_misuse(args,
                         "unknown or missing action; write: sluice "
                         "webhook %s %s",
                         group,
                         strcmp(group, "message") == 0
                             ? "send, list or show"
                             : "add, list, show, set, rotate, enable, disable, "
                               "remove or ping");
}

bool sl_webhook_is_out(const char *word)
{
    for (size_t i = 0; i < SL_LEN(actions); i++)
        if (strcmp(actions[i].group, word) == 0)
            return true;
    return false;
}

int sl_webhook_out(struct sl_cli_args *args)
{
    const struct action *a = NULL;
    char **words = args->words;

    for (size_t i = 0; i < SL_LEN(actions) && !a; i++)
        if (strcmp(actions[i].group, words[0]) == 0 &&
            (!actions[i].name ||
             (args->word_count > 1 && strcmp(actions[i].name, words[1]) == 0)))
            a = &actions[i];
    if (!a)
        return refuse_action(args);
    if (args->word_count < a->least)
        return sl_cli_misuse(args,
                             "missing argument; write: sluice webhook %s%s%s "
                             "%s",
                             a->group, a->name ? " " : "",
                             a->name ? a->name : "", a->words);
    return sl_cli_request_run(args, a->ask);
}
