/* talk.c -- run transcripts: what clients send to the servers, and what they
 * get. test/server/README.md has the language of the files.
 *
 *     unit-doors-talk FILE.talk...
 */
#include "answers.h"

/* ---- requests ---- */

static bool is_never(void)
{
    return false;
}

/* Nothing has come that no line has looked at. */
static void check_unread(void)
{
    if (talk.fd < 0)
        return;
    wait_for(is_never, 2);
    if (!talk.is_unread && s.got.len > 0)
        fail("no line wants", s.got.bytes);
    sl_buf_clear(&s.got);
}

static void send_all(struct sl_str text)
{
    ssize_t n = 0;

    for (unsigned i = 0; text.len > 0 && i < 4000; i++) {
        n = send(talk.fd, text.at, text.len, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && errno != EAGAIN)
            break;
        text = sl_str_from(text, n > 0 ? (size_t)n : 0);
        step(&s, i);
    }
}

/* "GET /v1/auth | X-User: ann" and the body in the lines below it, or "POST
 * /v1/check BODY", as HTTP has them. */
static void send_http(struct sl_str text)
{
    const char *end = memchr(text.at, '\n', text.len), *at;
    size_t head = end ? (size_t)(end - text.at) : text.len;
    const char *line = keep(text.at, head);
    struct sl_buf out;

    at = strchr(line + strcspn(line, " ") + 1, ' ');
    if (at && !begins(at, " | "))
        line = keep(line, head = (size_t)(at - line));
    text = sl_str_from(text, head + 1);
    talk.is_head = begins(line, "HEAD ");
    sl_buf_init(&out, 8 << 20, &sl_alloc_libc);
    at = strstr(line, " | ");
    add(&out, line, at ? (size_t)(at - line) : head);
    add(&out, " HTTP/1.1\r\n", 11);
    add(&out, "Host: localhost\r\n", strstr(line, " | Host:") ? 0 : 17);
    while (at) {
        const char *next = strstr(at += 3, " | ");

        add(&out, at, next ? (size_t)(next - at) : strlen(at));
        add(&out, "\r\n", 2);
        at = next;
    }
    if (sl_buf_addf(&out, "Content-Length: %zu\r\n\r\n", text.len))
        stop("no memory", "");
    add(&out, text.at, text.len);
    send_all(sl_buf_str(&out));
    sl_buf_done(&out);
}

/* The lines of a request have ended: send it. */
static void flush(void)
{
    if (talk.sent.len == 0)
        return;
    for (; talk.times > 0; talk.times--) {
        connect_to(talk.now);
        if (talk.is_http)
            send_http(sl_buf_str(&talk.sent));
        else
            send_all(sl_buf_str(&talk.sent));
        if (talk.times > 1)
            wait_for(talk.now == RESP ? cut_reply : cut_answer, 4000);
    }
    talk.times = 1;
    talk.is_unread = true;
    talk.is_http = false;
    sl_buf_clear(&talk.sent);
}

/* The listener of "admin> GET /"; the usual one without a name. */
static enum listener listener_of(const char *line)
{
    return begins(line, "http")    ? HTTP
           : begins(line, "admin") ? ADMIN
           : begins(line, "resp")  ? RESP
                                   : talk.usual;
}

static void read_request(const char *line)
{
    const char *text = strchr(line, '>') + 1;
    char form = *text == '>' || *text == '-' ? *text++ : ' ';

    text += *text == ' ';
    if (talk.sent.len == 0) {
        check_unread();
        talk.is_unread = false;
        connect_to(listener_of(line));
    }
    add(&talk.sent, "\n", talk.is_http);
    expand(&talk.sent, text);
    if (form == '>' || (form == ' ' && talk.now == RESP))
        add(&talk.sent, "\r\n", 2);
    talk.is_http = form == ' ' && talk.now != RESP;
}

/* A line behind '<'. */
static void read_wanted(const char *text)
{
    bool is_head = talk.now != RESP && strspn(text, "0123456789") == 3;

    flush();
    talk.is_unread = false;
    if (strcmp(text, "closed") == 0) {
        check_body();
        wait_for(is_never, 400);
        if (!talk.ended || s.got.len > 0)
            fail("it is open, or there is", s.got.len ? s.got.bytes : "");
    } else if (strcmp(text, "nothing") == 0) {
        check_body();
        check_unread();
    } else if (talk.now == RESP) {
        wait_for(cut_reply, 100);
        check_text("another reply:", reply, text);
    } else if (is_head) {
        check_body();
        check_head(text);
        if (begins(text + 3, " ..."))
            want_body(text + 4);
        else if (text[3] && !begins(text + 3, " | "))
            stop("what is", text);
    } else if (text[0] == '*') {
        char *part;
        unsigned long want = strtoul(text + 1, &part, 10);

        if (answer.body && count_in(answer.body, part + 1) != want)
            fail("not so often in the body:", text);
    } else if (text[0] != '!') {
        want_body(text);
    } else if (answer.body && strstr(answer.body, text + 2)) {
        fail("the body should not have", text + 2);
    }
}

/* A row below `each REQUEST`: the rest of a request, " -> ", and its answer. */
static void read_row(const char *row)
{
    const char *arrow = strstr(row, " -> ");
    struct sl_buf line;

    if (!arrow)
        stop("a row has a ->, not", row);
    sl_buf_init(&line, FILE_MOST, &sl_alloc_libc);
    add(&line, "> ", 2);
    add(&line, talk.each, strlen(talk.each));
    add(&line, " ", talk.each[0] != '\0');
    add(&line, row, (size_t)(arrow - row));
    read_request(keep(line.bytes, line.len));
    read_wanted(arrow + 4);
    check_body();
    sl_buf_done(&line);
}

/* ---- words ---- */

/* "30s", "+30s" or an instant. */
static void set_clock(const char *text)
{
    struct sl_str word = sl_str_c(text + (text[0] == '+'));
    sl_ns now;

    if (sl_parse_duration(word, &now, NULL) &&
        sl_timestamp_parse(word, &now, NULL))
        stop("no time:", text);
    s.rig.now = text[0] == '+' ? s.rig.now + now : now;
    sl_clock_set(&s.clock, s.rig.now);
    turn(&s);
}

static void set_token(const char *text)
{
    struct sl_str token = sl_str_c(strcmp(text, "none") == 0 ? "" : text);

    hang_up();
    s.door.token = servers.admin_door.token = servers.resp_door.token = token;
}

static void read_word(const char *line)
{
    size_t len = strcspn(line, " ");
    const char *word = keep(line, len), *rest = line + len + (line[len] == ' ');

    if (strcmp(word, "clock") == 0) {
        set_clock(rest);
    } else if (strcmp(word, "connect") == 0) {
        hang_up();
    } else if (strcmp(word, "certificates") == 0) {
        s.door.accepts_client_cert = strcmp(rest, "yes") == 0;
    } else if (strcmp(word, "forward_auth") == 0) {
        s.door.forward = begins(rest, "path")        ? SL_FORWARD_PATH
                         : begins(rest, "forwarded") ? SL_FORWARD_FORWARDED
                                                     : SL_FORWARD_ORIGINAL;
    } else if (strcmp(word, "hosts") == 0) {
        hang_up();
        s.door.hosts = servers.admin_door.hosts = sl_str_c(rest);
    } else if (strcmp(word, "each") == 0) {
        talk.each = rest;
    } else if (strcmp(word, "listener") == 0) {
        talk.usual = listener_of(rest);
    } else if (strcmp(word, "peer") == 0) {
        hang_up();
        talk.peer = strcmp(rest, "unix") == 0 ? NULL : rest;
    } else if (strcmp(word, "registry") == 0) {
        open_registry();
    } else if (strcmp(word, "store") == 0) {
        if (strcmp(rest, "holding") == 0)
            talk.holding = true;
        else
            set_store(rest);
    } else if (strcmp(word, "times") == 0) {
        talk.times = (unsigned)strtoul(rest, NULL, 10);
    } else if (strcmp(word, "token") == 0) {
        set_token(rest);
    } else if (strcmp(word, "program") != 0 || !set_program(rest)) {
        stop("what is", line);
    }
}

/* ---- files ---- */

static void read_line(const char *line)
{
    size_t to = strcspn(line, ">");

    if (line[0] == '<') {
        read_wanted(line + 1 + (line[1] == ' '));
        return;
    }
    check_body();
    if (begins(line, "  ")) {
        read_row(line + 2);
        return;
    }
    if (line[to] == '>' && (to == 0 || strspn(line, "adhimnprtes") == to)) {
        read_request(line);
        return;
    }
    flush();
    if (begins(line, "== ")) {
        check_unread();
        CASE(line + 3);
    } else if (line[0] && line[0] != '#') {
        read_word(line);
    }
}

/* Open the servers with the indented lines; returns where they end. */
static char *read_policy(char *at)
{
    struct sl_buf policy;

    hang_up();
    close_servers();
    sl_buf_init(&policy, 1 << 20, &sl_alloc_libc);
    for (; begins(at, "  "); talk.line++) {
        size_t len = strcspn(at, "\n") + 1;

        expand(&policy, keep(at + 2, len - 2));
        at += len;
    }
    add(&policy, "", 1);
    open_servers(policy.bytes, talk.holding);
    talk.holding = false;
    sl_buf_done(&policy);
    return at;
}

/* Cut a line off, with those that a backslash joins to it. */
static char *cut_line(char **at)
{
    char *line = *at, *end = line + strcspn(line, "\n");

    for (talk.line++; end > line && end[-1] == '\\'; talk.line++) {
        char *next = end + 1;

        next += strspn(next, "<> ");
        memmove(end - 1, next, strlen(next) + 1);
        end = line + strcspn(line, "\n");
    }
    *at = end + (*end == '\n');
    *end = '\0';
    return line;
}

static void run_file(const char *path)
{
    char *text = calloc(1, FILE_MOST), *at = text;
    FILE *file = fopen(path, "r");

    talk.path = path;
    talk.line = 0;
    talk.usual = HTTP;
    talk.peer = LOCAL;
    talk.times = 1;
    talk.fd = -1;
    if (!file || !fread(text, 1, FILE_MOST - 1, file))
        stop("can't be read:", path);
    fclose(file);
    while (*at) {
        char *line = cut_line(&at);

        if (strcmp(line, "policy") == 0)
            at = read_policy(at);
        else
            read_line(line);
    }
    read_line("");
    check_unread();
    check_close();
    hang_up();
    close_servers();
    free(text);
}

int main(int argc, char **argv)
{
    sl_arena_init(&talk.arena, (size_t)1 << 30, &sl_alloc_libc);
    sl_buf_init(&talk.sent, 8 << 20, &sl_alloc_libc);
    sl_buf_init(&talk.want, FILE_MOST, &sl_alloc_libc);
    for (int i = 1; i < argc; i++)
        run_file(argv[i]);
    sl_buf_done(&talk.sent);
    sl_buf_done(&talk.want);
    sl_arena_done(&talk.arena);
    return CHECK_DONE();
}
