/* daemon_client.c -- client of a daemon, and the requests of commands. */
#include <ctype.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/parse.h"
#include "cli/cli.h"
#include "net/tls.h"
#include "sluice.h"
#include "wire/resp.h"

#define READ_BYTES 65536
#define HEAD_MAX   65536
#define HTTP       "HTTP/1.1"
#define RESP       "RESP (Redis protocol)"

/* ---- the URL ---- */

static bool copy_text(char *to, size_t size, struct sl_str text)
{
    if (text.len == 0 || text.len >= size)
        return false;
    memcpy(to, text.at, text.len);
    to[text.len] = '\0';
    return true;
}

/* HOST:PORT or [HOST]:PORT */
static bool split(struct sl_daemon_client *client, struct sl_str text)
{
    const char *colon = text.len > 0 ? memrchr(text.at, ':', text.len) : NULL;
    struct sl_str host, port;
    uint64_t number;

    if (!colon || !copy_text(client->where, sizeof(client->where), text))
        return false;
    host = (struct sl_str){text.at, (size_t)(colon - text.at)};
    port = sl_str_from(text, host.len + 1);
    if (host.len > 1 && host.at[0] == '[' && host.at[host.len - 1] == ']')
        host = (struct sl_str){host.at + 1, host.len - 2};
    return sl_parse_number(port, &number, NULL) == 0 && number > 0 &&
           number < 65536 &&
           copy_text(client->port, sizeof(client->port), port) &&
           copy_text(client->host, sizeof(client->host), host);
}

/* For a Unix socket, `host` is the path and `port` is empty. */
static bool set_socket(struct sl_daemon_client *client, struct sl_str path)
{
    struct sockaddr_un at;

    return path.len < sizeof(at.sun_path) &&
           copy_text(client->host, sizeof(client->host), path) &&
           copy_text(client->where, sizeof(client->where), path);
}

static bool read_url(struct sl_daemon_client *client, const char *url)
{
    struct sl_str text = sl_str_c(url);

    if (strncmp(url, "unix:", 5) == 0)
        return set_socket(client, sl_str_from(text, 5));
    client->redis = strncmp(url, "redis://", 8) == 0;
    client->https = strncmp(url, "https://", 8) == 0;
    if (!client->redis && !client->https && strncmp(url, "http://", 7) != 0)
        return false;
    text = sl_str_from(text, client->redis || client->https ? 8 : 7);
    if (text.len > 0 && text.at[text.len - 1] == '/')
        text.len--;
    return split(client, text);
}

int sl_daemon_client_init(struct sl_daemon_client *client, const char *url,
                          const struct sl_alloc *alloc, struct sl_diag *diag)
{
    *client = (struct sl_daemon_client){.fd = -1, .diag = diag};
    sl_buf_init(&client->out, SL_DAEMON_CLIENT_BYTES, alloc);
    sl_buf_init(&client->in, SL_DAEMON_CLIENT_BYTES, alloc);
    if (read_url(client, url))
        return 0;
    return sl_diag_error(diag, SLUICE_ECONF,
                         "\"%s\" is not the URL of a server; write it like "
                         "http://127.0.0.1:8080, https://HOST:PORT or "
                         "unix:/run/sluice.sock",
                         url);
}

void sl_daemon_client_copy(struct sl_daemon_client *client,
                           const struct sl_daemon_client *like,
                           struct sl_diag *diag)
{
    *client = *like;
    client->fd = -1;
    client->session = NULL;
    client->tls = sl_tls_ref(like->tls);
    client->diag = diag;
    client->cursor = SL_STR("");
    sl_buf_init(&client->out, SL_DAEMON_CLIENT_BYTES, like->out.alloc);
    sl_buf_init(&client->in, SL_DAEMON_CLIENT_BYTES, like->in.alloc);
}

/* Keeps the last answer. */
static void close_socket(struct sl_daemon_client *client)
{
    sl_tls_session_close(client->session);
    client->session = NULL;
    if (client->fd >= 0)
        close(client->fd);
    client->fd = -1;
}

void sl_daemon_client_close(struct sl_daemon_client *client)
{
    close_socket(client);
    sl_buf_clear(&client->in);
}

void sl_daemon_client_done(struct sl_daemon_client *client)
{
    sl_daemon_client_close(client);
    sl_tls_unref(client->tls);
    client->tls = NULL;
    sl_buf_done(&client->out);
    sl_buf_done(&client->in);
}

/* ---- the connection ---- */

static int unreachable(struct sl_daemon_client *client, const char *why)
{
    sl_daemon_client_close(client);
    return sl_diag_error(client->diag, SLUICE_ESYS,
                         "cannot connect to %s: %s; is sluiced running there?",
                         client->where, why);
}

static int no_answer(struct sl_daemon_client *client)
{
    const char *why = errno == EAGAIN ? "timeout" : strerror(errno);

    sl_daemon_client_close(client);
    return sl_diag_error(client->diag, SLUICE_ESYS, "no answer from %s: %s",
                         client->where, why);
}

static int no_memory(struct sl_daemon_client *client)
{
    sl_daemon_client_close(client);
    return sl_diag_error(client->diag, SLUICE_ENOMEM, "out of memory");
}

/* `protocol` is "HTTP/1.1" or "RESP (Redis protocol)". */
static int invalid(struct sl_daemon_client *client, const char *protocol)
{
    sl_daemon_client_close(client);
    return sl_diag_error(client->diag, SLUICE_ESYS,
                         "the answer of %s is not valid %s", client->where,
                         protocol);
}

static int open_socket(const struct addrinfo *to)
{
    struct timeval wait = {.tv_sec = SL_DAEMON_CLIENT_WAIT};
    int fd = socket(to->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int one = 1, why;

    if (fd < 0)
        return -1;
    if (setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait)) == 0 &&
        setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof(wait)) == 0 &&
        (to->ai_family == AF_UNIX ||
         setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)) == 0) &&
        connect(fd, to->ai_addr, to->ai_addrlen) == 0)
        return fd;
    why = errno;
    close(fd);
    errno = why;
    return -1;
}

static int connect_unix(struct sl_daemon_client *client)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    struct addrinfo to = {.ai_family = AF_UNIX,
                          .ai_addr = (struct sockaddr *)&at,
                          .ai_addrlen = sizeof(at)};

    memcpy(at.sun_path, client->host, strlen(client->host) + 1);
    client->fd = open_socket(&to);
    return client->fd < 0 ? unreachable(client, strerror(errno)) : 0;
}

/* The handshake on a new connection. */
static int start_tls(struct sl_daemon_client *client)
{
    struct sl_tls_client_options options = {.ca = client->ca};
    struct sl_diag why = {0};
    int err = 0;

    if (!client->tls)
        err = sl_tls_open_client(&options, &client->tls, &why);
    if (!err)
        err = sl_tls_session_open(client->tls, client->fd, client->host,
                                  &client->session, &why);
    if (!err)
        return 0;
    sl_daemon_client_close(client);
    return sl_diag_error(client->diag, err == SLUICE_ENOMEM ? err : SLUICE_ESYS,
                         "cannot connect to %s: %s%s", client->where,
                         why.sentence,
                         strstr(why.sentence, "certificate is not accepted")
                             ? "; name the CA that signed it with --ca FILE"
                             : "");
}

static int connect_to(struct sl_daemon_client *client)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *list, *at;
    int err;

    if (!client->port[0])
        return connect_unix(client);
    err = getaddrinfo(client->host, client->port, &hints, &list);
    if (err)
        return unreachable(client, gai_strerror(err));
    for (at = list; at && client->fd < 0; at = at->ai_next)
        client->fd = open_socket(at);
    err = errno;
    freeaddrinfo(list);
    if (client->fd < 0)
        return unreachable(client, strerror(err));
    return client->https ? start_tls(client) : 0;
}

static ssize_t send_some(struct sl_daemon_client *client, struct sl_str text)
{
    return client->session
               ? sl_tls_session_write(client->session, text.at, text.len)
               : send(client->fd, text.at, text.len, MSG_NOSIGNAL);
}

static ssize_t receive_some(struct sl_daemon_client *client, char *to)
{
    return client->session
               ? sl_tls_session_read(client->session, to, READ_BYTES)
               : recv(client->fd, to, READ_BYTES, 0);
}

/* Connect if necessary and send `out`. */
static int send_all(struct sl_daemon_client *client)
{
    struct sl_str left = sl_buf_str(&client->out);
    int err = client->fd < 0 ? connect_to(client) : 0;

    sl_buf_clear(&client->in);
    if (err)
        return err;

    while (left.len > 0) {
        ssize_t sent = send_some(client, left);

        if (sent < 0 && errno == EINTR)
            continue;
        if (sent < 0)
            return no_answer(client);
        left = sl_str_from(left, (size_t)sent);
    }
    return 0;
}

/* Read once from the connection. */
static int receive(struct sl_daemon_client *client)
{
    struct sl_buf *in = &client->in;
    ssize_t got;

    if (sl_buf_reserve(in, READ_BYTES))
        return no_memory(client);
    do
        got = receive_some(client, in->bytes + in->len);
    while (got < 0 && errno == EINTR);
    if (got == 0)
        errno = ECONNRESET;
    if (got <= 0)
        return no_answer(client);
    in->len += (size_t)got;
    return 0;
}

/* ---- the answer ---- */

struct head {
    int status;
    size_t len; /* the empty line included */
    uint64_t body;
    bool has_body, close;
    bool is_old, is_chunked; /* of foreign servers: HTTP/1.0; in chunks */
    struct sl_str cursor;
};

static bool read_field(struct sl_str line, struct head *head)
{
    const char *colon = line.len > 0 ? memchr(line.at, ':', line.len) : NULL;
    struct sl_str name, value;

    if (!colon)
        return false;
    name = (struct sl_str){line.at, (size_t)(colon - line.at)};
    value = sl_str_trim(sl_str_from(line, name.len + 1));
    if (sl_str_eq_nocase(name, SL_STR("Connection")))
        head->close = sl_str_eq_nocase(value, SL_STR("close"));
    if (sl_str_eq_nocase(name, SL_STR("Sluice-Cursor")))
        head->cursor = value;
    if (sl_str_eq_nocase(name, SL_STR("Transfer-Encoding")))
        head->is_chunked = true;
    if (!sl_str_eq_nocase(name, SL_STR("Content-Length")))
        return true;
    if (head->has_body || sl_parse_number(value, &head->body, NULL))
        return false;
    head->has_body = true;
    return true;
}

/* HTTP/1.1 200 OK */
static bool read_status(struct sl_str line, struct head *head)
{
    uint64_t status;

    head->is_old = line.len > 9 && memcmp(line.at, "HTTP/1.0 ", 9) == 0;
    if (line.len < 12 ||
        (!head->is_old && memcmp(line.at, "HTTP/1.1 ", 9) != 0) ||
        sl_parse_number((struct sl_str){line.at + 9, 3}, &status, NULL) ||
        status < 200 || status > 599)
        return false;
    head->status = (int)status;
    return true;
}

static bool read_head(struct sl_str text, struct head *head)
{
    bool first = true;

    while (text.len > 0) {
        const char *end = memmem(text.at, text.len, "\r\n", 2);
        struct sl_str line = {text.at, end ? (size_t)(end - text.at) : 0};

        if (!end || !(first ? read_status(line, head) : read_field(line, head)))
            return false;
        first = false;
        text = sl_str_from(text, line.len + 2);
    }
    return !first;
}

/* Is this an answer of a daemon, or one that a foreign server may give? */
static bool is_possible(const struct sl_daemon_client *client,
                        const struct head *head)
{
    if (head->body > SL_DAEMON_CLIENT_BYTES - head->len ||
        (head->has_body && head->is_chunked))
        return false;
    return client->is_foreign ||
           (head->has_body && !head->is_chunked && !head->is_old);
}

/* The size in the line of a chunk: "1f4" or "1f4;name=value". */
static bool read_chunk_size(struct sl_str line, size_t *ret)
{
    size_t i = 0;

    *ret = 0;
    for (; i < line.len && isxdigit((unsigned char)line.at[i]); i++) {
        int digit = tolower((unsigned char)line.at[i]);

        if (*ret > SL_DAEMON_CLIENT_BYTES)
            return false;
        *ret =
            *ret << 4 | (size_t)(digit <= '9' ? digit - '0' : digit - 'a' + 10);
    }
    return i > 0 && (i == line.len || line.at[i] == ';' || line.at[i] == ' ');
}

/* Moves the chunks of `text` together to `to`, unless that is NULL, and sets
 * *ret to their length. Returns 1, or 0 if there is more to come, or -1 if it
 * is not valid. Fields behind the chunks are left out. */
static int join_chunks(struct sl_str text, char *to, size_t *ret)
{
    *ret = 0;
    for (bool is_last = false;;) {
        const char *end = text.at ? memmem(text.at, text.len, "\r\n", 2) : NULL;
        struct sl_str line = {text.at, end ? (size_t)(end - text.at) : 0};
        size_t size = 0;

        if (!end)
            return 0;
        if (is_last && line.len == 0)
            return text.len == 2 ? 1 : -1;
        if (!is_last && !read_chunk_size(line, &size))
            return -1;
        text = sl_str_from(text, line.len + 2);
        if (is_last || size == 0) {
            is_last = true;
            continue;
        }
        if (text.len < size + 2)
            return 0;
        if (memcmp(text.at + size, "\r\n", 2) != 0)
            return -1;
        if (to)
            memmove(to + *ret, text.at, size);
        *ret += size;
        text = sl_str_from(text, size + 2);
    }
}

static int read_chunks(struct sl_daemon_client *client, struct head *head)
{
    struct sl_buf *in = &client->in;
    int done = 0, err = 0;

    while (!err && done == 0) {
        size_t len;

        done = join_chunks(sl_str_from(sl_buf_str(in), head->len), NULL, &len);
        if (done == 0)
            err = receive(client);
    }
    if (err)
        return err;
    if (done < 0)
        return invalid(client, HTTP);
    join_chunks(sl_str_from(sl_buf_str(in), head->len), in->bytes + head->len,
                &head->body);
    in->len = head->len + head->body;
    return 0;
}

/* A body without a length ends with the connection. */
static int read_until_end(struct sl_daemon_client *client, struct head *head)
{
    struct sl_buf *in = &client->in;
    ssize_t got = 1;

    while (got > 0) {
        if (sl_buf_reserve(in, READ_BYTES))
            return no_memory(client);
        do
            got = receive_some(client, in->bytes + in->len);
        while (got < 0 && errno == EINTR);
        if (got < 0)
            return no_answer(client);
        in->len += (size_t)got;
    }
    head->body = in->len - head->len;
    return 0;
}

static int read_body(struct sl_daemon_client *client, struct head *head)
{
    struct sl_buf *in = &client->in;
    int err = 0;

    if (head->is_chunked)
        return read_chunks(client, head);
    if (!head->has_body)
        return read_until_end(client, head);
    while (!err && in->len < head->len + head->body)
        err = receive(client); /* may move the bytes */
    return err;
}

static int read_answer(struct sl_daemon_client *client, struct head *head)
{
    struct sl_buf *in = &client->in;
    const char *end = NULL;
    size_t cursor;
    int err = 0;

    while (!err && !end && in->len <= HEAD_MAX) {
        err = receive(client);
        if (!err)
            end = memmem(in->bytes, in->len, "\r\n\r\n", 4);
    }
    if (err)
        return err;
    if (!end)
        return invalid(client, HTTP);
    head->len = (size_t)(end - in->bytes) + 4;
    if (!read_head((struct sl_str){in->bytes, head->len - 2}, head) ||
        !is_possible(client, head))
        return invalid(client, HTTP);
    cursor = head->cursor.len > 0 ? (size_t)(head->cursor.at - in->bytes) : 0;
    err = read_body(client, head);
    head->cursor.at = in->bytes + cursor;
    return err;
}

static int write_request(struct sl_daemon_client *client, const char *method,
                         const char *path, struct sl_str body)
{
    struct sl_writer w = {.out = &client->out};

    sl_buf_clear(&client->out);
    sl_writer_addf(&w, "%s %s HTTP/1.1\r\nHost: %s\r\nContent-Length: %zu\r\n",
                   method, path, client->port[0] ? client->where : "localhost",
                   body.len);
    if (client->token[0])
        sl_writer_addf(&w, "Authorization: Bearer %s\r\n", client->token);
    sl_writer_addf(&w, "%s\r\n", client->fields);
    sl_writer_add(&w, body);
    return w.err;
}

int sl_daemon_client_ask(struct sl_daemon_client *client, const char *method,
                         const char *path, struct sl_str body, int *ret_status,
                         struct sl_str *ret_body)
{
    struct head head = {.cursor = SL_STR("")};
    int err;

    if (write_request(client, method, path, body))
        return no_memory(client);
    err = send_all(client);
    if (!err)
        err = read_answer(client, &head);
    if (err)
        return err;
    if (client->in.len != head.len + head.body)
        return invalid(client, HTTP); /* bytes after the answer */
    *ret_status = head.status;
    *ret_body = sl_str_from(sl_buf_str(&client->in), head.len);
    client->cursor = head.cursor;
    if (head.close || head.is_old)
        close_socket(client);
    return 0;
}

/* ---- the Redis protocol ---- */

static int read_replies(struct sl_daemon_client *client, unsigned count)
{
    struct sl_resp_reply reply;
    size_t at = 0;

    for (unsigned i = 0; i < count; i++) {
        enum sl_resp_result result;

        sl_resp_reply_begin(&reply, SL_DAEMON_CLIENT_BYTES);
        while ((result = sl_resp_reply_read(
                    &reply, sl_str_from(sl_buf_str(&client->in), at))) ==
               SL_RESP_MORE) {
            int err = receive(client);

            if (err)
                return err;
        }
        if (result == SL_RESP_REFUSED)
            return invalid(client, RESP);
        at += reply.used;
    }
    return at == client->in.len ? 0 : invalid(client, RESP);
}

int sl_daemon_client_pipeline(struct sl_daemon_client *client,
                              struct sl_str commands, unsigned count,
                              struct sl_str *ret_replies)
{
    int err;

    sl_buf_clear(&client->out);
    if (sl_buf_add(&client->out, commands))
        return no_memory(client);
    err = send_all(client);
    if (!err)
        err = read_replies(client, count);
    if (!err)
        *ret_replies = sl_buf_str(&client->in);
    return err;
}

/* ---- URL and token of a command ---- */

#define TOKEN_BYTES 4096

static const char *variable(const char *name)
{
    const char *value = getenv(name);

    return value && value[0] ? value : NULL;
}

/* A token is one line of visible ASCII, because it is sent in a header. */
static int set_token(struct sl_cli_args *args, struct sl_daemon_client *client,
                     struct sl_str text, const char *from)
{
    while (text.len > 0 && strchr("\r\n \t", text.at[text.len - 1]))
        text.len--;
    if (text.len == 0 || text.len >= sizeof(client->token))
        return sl_cli_misuse(
            args, "%s contains %s; a token has 1 to %zu characters", from,
            text.len ? "a token that is too long" : "no token",
            sizeof(client->token) - 1);
    for (size_t i = 0; i < text.len; i++)
        if (text.at[i] <= ' ' || text.at[i] > '~')
            return sl_cli_misuse(
                args, "%s contains a character that is not allowed in a token",
                from);
    memcpy(client->token, text.at, text.len);
    client->token[text.len] = '\0';
    return 0;
}

static int read_token(struct sl_cli_args *args, struct sl_daemon_client *client,
                      const char *path)
{
    struct sl_diag diag = {.line = 0};
    struct sl_buf text;
    int status;

    sl_buf_init(&text, 2 * TOKEN_BYTES, &sl_alloc_libc);
    if (sl_file_read(path, TOKEN_BYTES, &text, &diag))
        status = sl_cli_misuse(args, "%s", diag.sentence);
    else
        status = set_token(args, client, sl_buf_str(&text), path);
    sl_buf_done(&text);
    return status;
}

/* ---- requests ---- */

#define BODY_BYTES ((size_t)1 << 20) /* a daemon accepts 1 MiB */
#define PATH_BYTES ((size_t)8 << 10) /* and a line of 8 KiB */
#define BY_BYTES   128               /* of an author, see docs/operations.md */
#define NOTE_BYTES 512

/* The sources of URL and token, by listener. */
static const struct source {
    const char *flag, *variable, *url, *token, *token_file;
} sources[] = {
    [SL_LISTENER_HTTP].flag = "url",
    [SL_LISTENER_HTTP].variable = "SLUICE_URL",
    [SL_LISTENER_HTTP].url = "http://127.0.0.1:8080",
    [SL_LISTENER_HTTP].token = "SLUICE_ACCESS_TOKEN",
    [SL_LISTENER_HTTP].token_file = "SLUICE_ACCESS_TOKEN_FILE",
    [SL_LISTENER_ADMIN].flag = "admin-url",
    [SL_LISTENER_ADMIN].variable = "SLUICE_ADMIN_URL",
    [SL_LISTENER_ADMIN].url = "http://127.0.0.1:9090",
    [SL_LISTENER_ADMIN].token = "SLUICE_ADMIN_TOKEN",
    [SL_LISTENER_ADMIN].token_file = "SLUICE_ADMIN_TOKEN_FILE",
};

/* The addresses of the admin API of the installed service; see
 * ops/systemd/sluiced.service.in. The socket is for root. */
#define SERVICE_SOCKET "/run/sluice/admin.sock"
#define SERVICE_ADMIN  "http://127.0.0.1:8082"

static const char *default_url(const struct source *source)
{
    if (source != &sources[SL_LISTENER_ADMIN] || access(SERVICE_SOCKET, F_OK))
        return source->url;
    return access(SERVICE_SOCKET, W_OK) ? SERVICE_ADMIN
                                        : "unix:" SERVICE_SOCKET;
}

/* Set URL, token and CA; does not connect. */
static int open_client(struct sl_cli_request *r, enum sl_cli_listener listener)
{
    struct sl_cli_args *args = r->args;
    struct sl_daemon_client *client = &r->client;
    const struct source *source = &sources[listener];
    const char *url = sl_cli_flag(args, source->flag);
    const char *file = sl_cli_flag(args, "token-file");
    const char *value = variable(source->token);

    if (!url)
        url = variable(source->variable);
    if (sl_daemon_client_init(client, url ? url : default_url(source),
                              &sl_alloc_libc, &r->diag))
        return sl_cli_misuse(args, "%s", r->diag.sentence);
    client->ca = sl_cli_flag(args, "ca");
    if (!client->ca)
        client->ca = variable("SLUICE_CA");
    if (!file && !value)
        file = variable(source->token_file);
    if (file)
        return read_token(args, client, file);
    return value ? set_token(args, client, sl_str_c(value), source->token) : 0;
}

int sl_cli_request_run(struct sl_cli_args *args, sl_cli_request_f *ask)
{
    struct sl_cli_request r = {.args = args};
    int status;

    sl_buf_init(&r.path_text, PATH_BYTES, &sl_alloc_libc);
    sl_buf_init(&r.body_text, BODY_BYTES, &sl_alloc_libc);
    r.path.out = &r.path_text;
    r.body.out = &r.body_text;
    status = open_client(&r, args->command->listener ? args->command->listener
                                                     : SL_LISTENER_HTTP);
    if (!status)
        status = ask(&r);
    sl_daemon_client_done(&r.client);
    sl_buf_done(&r.path_text);
    sl_buf_done(&r.body_text);
    return status;
}

int sl_cli_request_turn(struct sl_cli_request *r, enum sl_cli_listener listener)
{
    sl_daemon_client_done(&r->client);
    return open_client(r, listener);
}

const char *sl_cli_author(const struct sl_cli_args *args)
{
    const char *by = sl_cli_flag(args, "by");

    if (!by)
        by = variable("SUDO_USER");
    if (!by)
        by = variable("USER");
    return by && by[0] ? by : NULL;
}

const char *sl_cli_cut_note(struct sl_cli_args *args)
{
    const char *last =
        args->word_count > 0 ? args->words[args->word_count - 1] : "";

    if (strncmp(last, "note=", 5) != 0)
        return NULL;
    args->word_count--;
    return last + 5;
}

/* Append the line of a header. */
static int add_field(struct sl_cli_request *r, const char *name,
                     const char *what, const char *value, size_t most)
{
    size_t len = strlen(r->client.fields);

    if (!value || !value[0])
        return 0;
    if (strlen(value) > most)
        return sl_cli_misuse(r->args, "%s has more than %zu bytes", what, most);
    for (const char *at = value; *at; at++)
        if ((unsigned char)*at < ' ' || *at == 0x7f)
            return sl_cli_misuse(r->args, "%s must be one line of text", what);
    snprintf(r->client.fields + len, sizeof(r->client.fields) - len,
             "%s: %s\r\n", name, value);
    return 0;
}

int sl_cli_request_sign(struct sl_cli_request *r, const char *by,
                        const char *note)
{
    int status = add_field(r, "X-Sluice-By", "the author", by, BY_BYTES);

    return status ? status
                  : add_field(r, "X-Sluice-Note", "note=", note, NOTE_BYTES);
}

void sl_cli_request_segment(struct sl_cli_request *r, const char *text)
{
    sl_writer_add(&r->path, SL_STR("/"));
    sl_url_encode(&r->path, sl_str_c(text));
}

void sl_cli_request_option(struct sl_cli_request *r, const char *name,
                           const char *value)
{
    struct sl_str path = sl_buf_str(&r->path_text);
    bool first = path.len == 0 || !memchr(path.at, '?', path.len);

    if (!value)
        return;
    sl_writer_addf(&r->path, "%c%s=", first ? '?' : '&', name);
    sl_url_encode(&r->path, sl_str_c(value));
}

/* The exit status for an HTTP status. */
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
        return SL_EXIT_FAILED;
    }
}

/* Print the reason of an HTTP status above 399. */
static int refused(struct sl_cli_request *r, int code, json_t *problem)
{
    const char *detail = sl_member_text(problem, "detail");

    if (code == 401)
        return sl_cli_fail(r->args, SL_TOKEN_REQUIRED, r->client.where);
    return sl_cli_error(r->args, status_of(code), "%s",
                        detail[0] ? detail : SL_REJECTED);
}

/* A path ends in NUL for the client; the NUL is not part of it. */
static int end_path(struct sl_cli_request *r)
{
    int err = r->path.err ? r->path.err : r->body.err;

    if (!err)
        err = sl_buf_add(&r->path_text, (struct sl_str){"", 1});
    if (!err)
        r->path_text.len--;
    return err;
}

/* Send the request. Returns 0, or an exit status after printing why. */
static int exchange(struct sl_cli_request *r, const char *method,
                    const char *too_long, int *ret_code, struct sl_str *ret)
{
    int err = end_path(r);

    if (err == SLUICE_EFULL)
        return sl_cli_misuse(r->args, "%s", too_long);
    if (err)
        return sl_cli_no_memory(r->args);
    err = sl_daemon_client_ask(&r->client, method, r->path_text.bytes,
                               sl_buf_str(&r->body_text), ret_code, ret);
    if (err)
        return sl_cli_error(r->args,
                            err == SLUICE_ENOMEM ? SL_EXIT_FAILED
                                                 : SL_EXIT_UNREACHABLE,
                            "%s", r->diag.sentence);
    return 0;
}

int sl_cli_request_text(struct sl_cli_request *r, const char *method,
                        const char *too_long, struct sl_str *ret)
{
    int code = 0, status = exchange(r, method, too_long, &code, ret);
    json_t *root;

    if (status || code < 400)
        return status;
    root = json_loadb(ret->at, ret->len, JSON_REJECT_DUPLICATES, NULL);
    status = refused(r, code, root);
    json_decref(root);
    return status;
}

int sl_cli_request_send(struct sl_cli_request *r, const char *method,
                        const char *too_long, json_t **ret)
{
    struct sl_str text;
    json_t *root;
    int code = 0, status = exchange(r, method, too_long, &code, &text);

    if (status)
        return status;
    root = json_loadb(text.at, text.len, JSON_REJECT_DUPLICATES, NULL);
    if (code >= 400)
        status = refused(r, code, root);
    else if (!root)
        status = sl_cli_fail(r->args, "the answer of %s is not JSON",
                             r->client.where);
    if (status)
        json_decref(root);
    else
        *ret = root;
    return status;
}

int sl_cli_request_print(struct sl_cli_request *r, const char *method,
                         const char *too_long, sl_print_f *print)
{
    json_t *answer = NULL;
    int status = sl_cli_request_send(r, method, too_long, &answer);

    if (!status)
        status = r->args->format == SL_FORMAT_JSON
                     ? sl_json_print(r->args, answer)
                     : print(r->args, answer);
    json_decref(answer);
    return status;
}

void sl_url_encode(struct sl_writer *w, struct sl_str text)
{
    for (size_t i = 0; i < text.len; i++) {
        unsigned char c = (unsigned char)text.at[i];
        unsigned char letter = c | 0x20;
        bool plain = (letter >= 'a' && letter <= 'z') ||
                     (c >= '0' && c <= '9') || (c && strchr("-._~", c));

        if (plain)
            sl_writer_add(w, (struct sl_str){text.at + i, 1});
        else
            sl_writer_addf(w, "%%%02X", c);
    }
}
