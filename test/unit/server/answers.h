/* answers.h -- what a transcript has kept so far, its connection, and what came
 * of it: answers of HTTP and replies of RESP, compared with patterns. */
#ifndef SL_DOORS_ANSWERS_H
#define SL_DOORS_ANSWERS_H

#include <ctype.h>

#include "base/parse.h"
#include "base/timestamp.h"
#include "servers.h"
#include "wire/resp.h"

#define FILE_MOST (1 << 20)

enum listener { HTTP, ADMIN, RESP };

static struct {
    const char *path;
    int line;
    enum listener usual, now;
    const char *peer; /* NULL: a unix socket */
    int fd;           /* -1: not connected */
    bool ended;       /* by the server */
    bool is_head;     /* the last request was HEAD */
    bool is_unread;   /* no `<` line has followed it yet */
    bool is_http;     /* `sent` is not yet as HTTP has it */
    unsigned times;
    const char *each;   /* what the rows of a table begin with */
    bool holding;       /* the next store is one with holds that can fail */
    struct sl_buf sent; /* the request that is being read */
    struct sl_buf want; /* the body that is wanted, */
    int want_line;      /* the line that it ended in, or 0 */
    char names[16][16], values[16][128]; /* of $name */
    struct sl_arena arena;
} talk;

static void fail(const char *what, const char *text)
{
    printf("# %s:%d: %s %.2000s\n", talk.path, talk.line, what, text);
    check_state.bad = true;
}

static void stop(const char *what, const char *text)
{
    printf("Bail out! %s:%d: %s %s\n", talk.path, talk.line, what, text);
    exit(1);
}

/* ---- texts ---- */

static const char *keep(const char *text, size_t len)
{
    const char *copy = sl_arena_copy(&talk.arena, (struct sl_str){text, len});

    if (!copy)
        stop("no memory", "");
    return copy;
}

static void add(struct sl_buf *out, const char *text, size_t len)
{
    if (len > 0 && sl_buf_add(out, (struct sl_str){text, len}))
        stop("no memory", "");
}

static bool begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

/* The value of a name, or the free place behind the last one. */
static char *value_of(const char *name, size_t len, bool is_new)
{
    for (unsigned i = 0; i < SL_LEN(talk.names); i++) {
        if (is_new && !talk.names[i][0] && len < sizeof(talk.names[i]))
            memcpy(talk.names[i], name, len);
        if (strlen(talk.names[i]) == len && len > 0 &&
            memcmp(talk.names[i], name, len) == 0)
            return talk.values[i];
    }
    return NULL;
}

/* "ab*3)" is ababab. Returns what follows it. */
static const char *add_many(struct sl_buf *out, const char *at)
{
    const char *end = at + strcspn(at, ")"), *star = end;

    while (star > at && *star != '*')
        star--;
    for (long i = strtol(star + 1, NULL, 10); i > 0; i--)
        add(out, at, (size_t)(star - at));
    return end + 1;
}

/* Append a line of a request with its $-words replaced. */
static void expand(struct sl_buf *out, const char *at)
{
    for (; *at; at++) {
        size_t len = 0;
        unsigned byte;

        while (*at == '$' && isalnum((unsigned char)at[len + 1]))
            len++;
        if (begins(at, "$(")) {
            at = add_many(out, at + 2) - 1;
        } else if (begins(at, "$x") && sscanf(at + 2, "%2x", &byte) == 1) {
            add(out, &(char){(char)byte}, 1);
            at += 3;
        } else if (len > 0 && value_of(at + 1, len, false)) {
            const char *value = value_of(at + 1, len, false);

            add(out, value, strlen(value));
            at += len;
        } else {
            at += begins(at, "$$");
            add(out, at, 1);
        }
    }
}

/* How many bytes of a pattern stand for themselves. */
static size_t literal(const char *pattern)
{
    size_t len = 0;

    while (pattern[len] && !begins(pattern + len, "...") &&
           !(pattern[len] == '$' && islower((unsigned char)pattern[len + 1])))
        len++;
    return len;
}

/* Does `text` match a pattern in which ... is any text, and $name a word that
 * is kept? */
static bool matches(const char *pattern, const char *text)
{
    size_t name = 1, len = literal(pattern);
    char *value;

    if (strncmp(pattern, text, len) != 0)
        return false;
    pattern += len;
    text += len;
    if (!*pattern)
        return !*text;
    if (*pattern == '.') {
        pattern += 3;
        len = literal(pattern);
        while (*pattern && !matches(pattern, text)) {
            text =
                *text ? memmem(text + 1, strlen(text + 1), pattern, len) : NULL;
            if (!text)
                return false;
        }
        return true;
    }
    while (islower((unsigned char)pattern[name]))
        name++;
    for (len = 0; isalnum((unsigned char)text[len]);)
        len++;
    if (len == 0 || !matches(pattern + name, text + len))
        return false;
    value = value_of(pattern + 1, name - 1, true);
    if (!value)
        stop("too many names:", pattern);
    snprintf(value, sizeof(talk.values[0]), "%.*s", (int)len, text);
    return true;
}

static void check_text(const char *what, const char *text, const char *pattern)
{
    if (matches(pattern, text))
        return;
    fail(what, text);
    printf("#   want %s\n", pattern);
}

/* ---- connections ---- */

static void hang_up(void)
{
    if (talk.fd >= 0)
        close(talk.fd);
    talk.fd = -1;
    talk.is_unread = false;
    sl_buf_clear(&s.got);
}

static void connect_to(enum listener to)
{
    if (!servers.open)
        stop("there is no policy above", "");
    if (talk.fd >= 0 && talk.now == to && !talk.ended)
        return;
    hang_up();
    talk.now = to;
    talk.ended = false;
    if (to == RESP)
        talk.fd = come(sl_server_accept, &servers.resp_worker, talk.peer);
    else
        talk.fd =
            come(sl_server_accept,
                 to == HTTP ? &s.worker : &servers.admin_worker, talk.peer);
}

/* Turn the loop until `is_there` or the end of the connection, up to `most`
 * times. */
static bool wait_for(bool (*is_there)(void), unsigned most)
{
    for (unsigned i = 0; i < most; i++) {
        talk.ended = !take_in(&s, talk.fd);
        if (is_there())
            return true;
        if (talk.ended)
            return false;
        step(&s, i);
    }
    return false;
}

/* ---- answers of HTTP ---- */

static struct {
    int status;
    const char *fields; /* "Name: value\r\n..." */
    const char *body;   /* NULL: there is no answer */
} answer;

/* The value of a field; "(none)" if it is not there. */
static const char *field_of(const char *name, size_t len)
{
    for (const char *at = answer.fields; *at; at = strstr(at, "\r\n") + 2)
        if (strncasecmp(at, name, len) == 0 && at[len] == ':')
            return keep(at + len + 2, strcspn(at, "\r") - len - 2);
    return "(none)";
}

/* Cut one answer off what was received. False if it is not whole yet. Only the
 * head is read as a string: sanitizers measure all of a string at each call. */
static bool cut_answer(void)
{
    const char *end =
        s.got.len ? memmem(s.got.bytes, s.got.len, "\r\n\r\n", 4) : NULL;
    const char *first;
    size_t line, head, body;

    answer.body = NULL;
    if (!end)
        return false;
    head = (size_t)(end - s.got.bytes) + 4;
    first = keep(s.got.bytes, head - 2);
    line = strcspn(first, "\r") + 2;
    answer.fields = first + line;
    answer.status = (int)strtol(first + 9, NULL, 10);
    body = talk.is_head ? 0 : strtoul(field_of("content-length", 14), NULL, 10);
    if (s.got.len < head + body)
        return false;
    answer.body = keep(s.got.bytes + head, body);
    sl_buf_drop(&s.got, head + body);
    return true;
}

/* No fields but those that the line names, and what every answer has. */
static void check_only(const char *line)
{
    for (const char *at = answer.fields; *at; at = strstr(at, "\r\n") + 2) {
        size_t len = strcspn(at, ":");
        bool named = begins(at, "Date:") || begins(at, "Content-Length:");

        for (const char *p = line; !named && (p = strstr(p, "| ")); p++)
            named = strncasecmp(p + 2, at, len) == 0;
        if (!named)
            fail("a field too many:", keep(at, len));
    }
}

/* "200 | Name: value | no Name | only" */
static void check_head(const char *line)
{
    if (!wait_for(cut_answer, 4000)) {
        fail("no answer, but", s.got.len ? s.got.bytes : "nothing");
        return;
    }
    if (strtol(line, NULL, 10) != answer.status) {
        fail("another status:", line);
        printf("#   got  %d %.2000s\n", answer.status, answer.body);
    }
    for (const char *at = line; (at = strstr(at, " | ")) != NULL;) {
        const char *next = strstr(at += 3, " | "), *field;

        field = keep(at, next ? (size_t)(next - at) : strlen(at));
        if (strcmp(field, "only") == 0)
            check_only(line);
        else if (begins(field, "no "))
            check_text(field, field_of(field + 3, strlen(field) - 3), "(none)");
        else if (strchr(field, ':'))
            check_text(field, field_of(field, strcspn(field, ":")),
                       strchr(field, ':') + 2);
        else
            stop("what is", field);
    }
}

/* All lines of a body that is wanted have been read. */
static void check_body(void)
{
    const char *got = answer.body ? answer.body : "(no answer)";
    size_t len = strlen(got);
    int line = talk.line;

    if (!talk.want_line)
        return;
    talk.line = talk.want_line;
    check_text("another body:", keep(got, len - (len && got[len - 1] == '\n')),
               keep(talk.want.bytes, talk.want.len));
    talk.line = line;
    talk.want_line = 0;
    sl_buf_clear(&talk.want);
}

static void want_body(const char *line)
{
    add(&talk.want, "\n", talk.want_line > 0);
    add(&talk.want, line, strlen(line));
    talk.want_line = talk.line;
}

/* ---- replies of RESP ---- */

static void show_text(struct sl_buf *out, struct sl_str text)
{
    for (size_t i = 0; i < text.len; i++) {
        char c = text.at[i];

        if (c == '\n' || c == '\r')
            add(out, c == '\n' ? "\\n" : "\\r", 2);
        else
            add(out, &c, 1);
    }
}

static void show_value(struct sl_buf *out, struct sl_str *rest)
{
    char mark = rest->at[0], number[32];
    bool is_nil = mark == '_' || rest->at[1] == '-';
    struct sl_resp_value v = sl_resp_next(rest);
    bool is_map = mark == '%', is_text = mark == '$' || mark == '=';

    if (mark == '_' || (is_nil && (mark == '$' || mark == '*'))) {
        add(out, mark == '_' ? "_" : "nil", mark == '_' ? 1 : 3);
    } else if (v.type >= SL_RESP_ARRAY) {
        add(out, is_map ? "{" : "[", 1);
        for (size_t i = 0; i < v.count; i++) {
            add(out, " ", i > 0);
            show_value(out, rest);
        }
        add(out, is_map ? "}" : "]", 1);
    } else {
        add(out, is_text ? "\"" : &mark, 1);
        snprintf(number, sizeof(number), "%" PRId64, v.integer);
        if (v.type == SL_RESP_INTEGER)
            add(out, number, strlen(number));
        else if (v.type == SL_RESP_BOOLEAN)
            add(out, v.integer ? "t" : "f", 1);
        else
            show_text(out, v.text);
        add(out, "\"", is_text);
    }
}

static const char *reply; /* the one that was cut off */

static bool cut_reply(void)
{
    struct sl_resp_reply reader;
    struct sl_buf shown;
    struct sl_str rest;

    reply = "(none)";
    sl_resp_reply_begin(&reader, FILE_MOST);
    if (s.got.len == 0 ||
        sl_resp_reply_read(&reader, sl_buf_str(&s.got)) != SL_RESP_DONE)
        return false;
    sl_buf_init(&shown, FILE_MOST, &sl_alloc_libc);
    rest = (struct sl_str){s.got.bytes, reader.used};
    show_value(&shown, &rest);
    reply = keep(shown.bytes, shown.len);
    sl_buf_done(&shown);
    sl_buf_drop(&s.got, reader.used);
    return true;
}

#endif
