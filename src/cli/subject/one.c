/* one.c -- get, set and rm: one subject. */
#include <string.h>

#include "cli/numbers.h"
#include "cli/out.h"
#include "cli/subject/subject.h"
#include "wire/json.h"

#define BODY_BYTES ((size_t)64 << 10)

/* ---- printing ---- */

static void print_text(FILE *out, const char *label, const char *text)
{
    if (!text || !text[0])
        return;
    fprintf(out, "%-9s", label);
    sl_out_clean(out, text);
    fputc('\n', out);
}

static void print_list(FILE *out, const char *label, const json_t *list)
{
    size_t i;
    json_t *item;

    if (json_array_size(list) == 0)
        return;
    fprintf(out, "%-9s", label);
    json_array_foreach(list, i, item)
    {
        if (i > 0)
            fputs(", ", out);
        sl_out_clean(out, json_string_value(item));
    }
    fputc('\n', out);
}

static const char *text_of(const json_t *map, const char *name)
{
    const char *text = json_string_value(json_object_get(map, name));

    return text ? text : "";
}

static void print_rate(FILE *out, const json_t *rate)
{
    fputs("override ", out);
    sl_out_clean(out, text_of(rate, "limit"));
    fputs(" = ", out);
    sl_out_clean(out, text_of(rate, "rate"));
    if (text_of(rate, "until")[0])
        fprintf(out, ", %s %s",
                json_is_true(json_object_get(rate, "over")) ? "ended" : "until",
                text_of(rate, "until"));
    if (text_of(rate, "by")[0]) {
        fputs(", by ", out);
        sl_out_clean(out, text_of(rate, "by"));
    }
    if (text_of(rate, "note")[0]) {
        fputs(": ", out);
        sl_out_clean(out, text_of(rate, "note"));
    }
    fputc('\n', out);
}

static void print_plan(FILE *out, const json_t *subject)
{
    const char *expires = text_of(subject, "expires");

    fputs("plan     ", out);
    sl_out_clean(out, text_of(subject, "plan")[0] ? text_of(subject, "plan")
                                                  : "none");
    if (expires[0])
        fprintf(out, ", %s %s",
                json_is_true(json_object_get(subject, "expired")) ? "ended"
                                                                  : "until",
                expires);
    fputc('\n', out);
}

int sl_subject_print(struct sl_call *call, json_t *subject)
{
    FILE *out = call->cli->out;
    json_t *item;
    size_t i;

    if (call->format == SL_FORMAT_JSON)
        return sl_json_print(call, subject);
    fprintf(out, "%-9s", text_of(subject, "scope"));
    sl_out_clean(out, text_of(subject, "id"));
    fputc('\n', out);
    print_plan(out, subject);
    print_list(out, "roles", json_object_get(subject, "roles"));
    print_list(out, "aliases", json_object_get(subject, "aliases"));
    json_array_foreach(json_object_get(subject, "override_details"), i, item)
        print_rate(out, item);
    print_text(out, "note", text_of(subject, "note"));
    fprintf(out, "changed  %s by ", text_of(subject, "updated"));
    sl_out_clean(out, text_of(subject, "by"));
    fputc('\n', out);
    json_array_foreach(json_object_get(subject, "warnings"), i, item)
        print_text(call->cli->err, "warning:", json_string_value(item));
    return SL_EXIT_OK;
}

/* ---- asking ---- */

int sl_subject_no_memory(struct sl_call *call)
{
    return sl_complain(call, SL_EXIT_NO, "out of memory");
}

static int check_scope(struct sl_call *call, const char *scope)
{
    if (strcmp(scope, "user") == 0 || strcmp(scope, "org") == 0)
        return 0;
    return sl_complain(call, SL_EXIT_USAGE,
                       "unknown scope \"%s\"; write user ID or org ID", scope);
}

/* /v1/subjects/SCOPE/ID with a NUL behind it. */
static int write_path(struct sl_call *call, struct sl_buf *path, char **words)
{
    int err = sl_buf_addf(path, "/v1/subjects/%s/", words[0]);

    if (!err)
        err = sl_reach_encode(path, sl_str_c(words[1]));
    if (!err && sl_call_flag(call, "force"))
        err = sl_buf_addf(path, "?force=true");
    return err ? err : sl_buf_add(path, (struct sl_str){"", 1});
}

static int ask(struct sl_call *call, struct sl_client *client,
               const char *method, char **words, struct sl_str body,
               json_t **ret)
{
    struct sl_buf path;
    int status = check_scope(call, words[0]);

    if (status)
        return status;
    sl_buf_init(&path, SL_SUBJECT_PATH, &sl_alloc_libc);
    if (write_path(call, &path, words))
        status = sl_complain(call, SL_EXIT_USAGE, "the id is too long");
    else
        status = sl_reach_ask(call, client, method, path.bytes, body, ret);
    sl_buf_done(&path);
    return status;
}

int sl_subject_get(struct sl_call *call, struct sl_client *client, char **words,
                   size_t count)
{
    json_t *subject = NULL;
    int status = ask(call, client, "GET", words, SL_STR(""), &subject);

    (void)count;
    if (!status)
        status = sl_subject_print(call, subject);
    json_decref(subject);
    return status;
}

int sl_subject_rm(struct sl_call *call, struct sl_client *client, char **words,
                  size_t count)
{
    json_t *answer = NULL;
    int status = ask(call, client, "DELETE", words, SL_STR(""), &answer);

    (void)count;
    if (!status && call->format == SL_FORMAT_JSON)
        status = sl_json_print(call, answer);
    else if (!status)
        fprintf(call->cli->out, "removed %s\n", words[1]);
    json_decref(answer);
    return status;
}

/* ---- set ---- */

/* What is written of a subject; texts and overrides, in turn. */
struct body {
    struct sl_buf text, rates;
    unsigned count, rate_count;
};

static int add_name(struct sl_buf *out, unsigned *count, struct sl_str name)
{
    int err = sl_buf_add(out, (*count)++ > 0 ? SL_STR(",") : SL_STR(""));

    if (!err)
        err = sl_json_string(out, name);
    return err ? err : sl_buf_add(out, SL_STR(":"));
}

/* "" takes it away. */
static int add_value(struct sl_buf *out, struct sl_str value)
{
    return value.len > 0 ? sl_json_string(out, value)
                         : sl_buf_add(out, SL_STR("null"));
}

/* a,b,c */
static int add_list(struct sl_buf *out, struct sl_str value)
{
    int err = sl_buf_add(out, SL_STR("["));
    bool first = true;

    while (value.len > 0 && !err) {
        const char *comma = memchr(value.at, ',', value.len);
        size_t len = comma ? (size_t)(comma - value.at) : value.len;

        if (!first)
            err = sl_buf_add(out, SL_STR(","));
        if (!err)
            err = sl_json_string(out, (struct sl_str){value.at, len});
        value = sl_str_from(value, len + 1);
        first = false;
    }
    return err ? err : sl_buf_add(out, SL_STR("]"));
}

static int add_pair(struct body *body, struct sl_str name, struct sl_str value)
{
    static const char *const texts[] = {"plan", "expires", "until", "note"};
    static const char *const lists[] = {"roles", "aliases"};
    int err;

    for (size_t i = 0; i < SL_LEN(texts); i++)
        if (sl_str_eq(name, sl_str_c(texts[i]))) {
            err = add_name(&body->text, &body->count, name);
            return err ? err : add_value(&body->text, value);
        }
    for (size_t i = 0; i < SL_LEN(lists); i++)
        if (sl_str_eq(name, sl_str_c(lists[i]))) {
            err = add_name(&body->text, &body->count, name);
            return err ? err : add_list(&body->text, value);
        }
    err = add_name(&body->rates, &body->rate_count, name);
    return err ? err : add_value(&body->rates, value);
}

static int read_pairs(struct sl_call *call, struct body *body, char **words,
                      size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const char *equals = strchr(words[i], '=');
        struct sl_str name = {words[i],
                              equals ? (size_t)(equals - words[i]) : 0};

        if (name.len == 0)
            return sl_complain(
                call, SL_EXIT_USAGE,
                "\"%s\" is not a setting of a subject; write plan=NAME, "
                "expires=TIME, roles=A,B, aliases=A,B, note=TEXT, LIMIT=RATE "
                "or until=TIME",
                words[i]);
        if (add_pair(body, name, sl_str_c(equals + 1)))
            return sl_subject_no_memory(call);
    }
    return 0;
}

static int finish(struct sl_call *call, struct body *body)
{
    const char *by = sl_subject_by(call);
    int err = 0;

    if (by) {
        err = add_name(&body->text, &body->count, SL_STR("by"));
        if (!err)
            err = sl_json_string(&body->text, sl_str_c(by));
    }
    if (!err && body->rate_count > 0) {
        err = add_name(&body->text, &body->count, SL_STR("overrides"));
        if (!err)
            err = sl_buf_add(&body->text, SL_STR("{"));
        if (!err)
            err = sl_buf_add(&body->text, sl_buf_str(&body->rates));
        if (!err)
            err = sl_buf_add(&body->text, SL_STR("}"));
    }
    if (!err)
        err = sl_buf_add(&body->text, SL_STR("}"));
    return err ? sl_subject_no_memory(call) : 0;
}

int sl_subject_set(struct sl_call *call, struct sl_client *client, char **words,
                   size_t count)
{
    const char *method = sl_call_flag(call, "replace") ? "PUT" : "PATCH";
    struct body body = {.count = 0};
    json_t *subject = NULL;
    int status;

    sl_buf_init(&body.text, BODY_BYTES, &sl_alloc_libc);
    sl_buf_init(&body.rates, BODY_BYTES, &sl_alloc_libc);
    status = sl_buf_add(&body.text, SL_STR("{"))
                 ? sl_subject_no_memory(call)
                 : read_pairs(call, &body, words + 2, count - 2);
    if (!status)
        status = finish(call, &body);
    if (!status)
        status =
            ask(call, client, method, words, sl_buf_str(&body.text), &subject);
    if (!status)
        status = sl_subject_print(call, subject);
    json_decref(subject);
    sl_buf_done(&body.text);
    sl_buf_done(&body.rates);
    return status;
}
