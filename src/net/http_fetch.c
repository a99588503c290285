/* http_fetch.c -- fetches a document over HTTP or HTTPS on the loop.
 *
 * libcurl reports which descriptors and timeouts it waits for; the loop calls
 * it. All callbacks run on the loop's thread.
 *
 *     sl_http_fetch_begin() --> on_socket(), on_timeout() add events
 *           the loop   --> turn(): curl works, finish() what is done
 */
#include "net/http_fetch.h"

#include <curl/curl.h>
#include <errno.h>
#include <event2/event.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "net/address.h"

#define IDLE_MOST   64  /* handles that are kept */
#define CONNECTIONS 256 /* that stay open */
/* Bytes of header fields, with those of 1xx and of trailers. */
#define HEAD_MOST ((size_t)64 << 10)

struct sl_http_fetcher {
    struct sl_loop *loop;
    const struct sl_alloc *alloc;
    CURLM *multi;
    struct sl_timer *timer;
    CURL *idle[IDLE_MOST]; /* with the options that are always the same */
    unsigned idle_count;
    struct sl_timer *mend;        /* ends what is in `broken` */
    struct sl_http_fetch *broken; /* their descriptors cannot be watched */
};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static CURLcode global;

static void init_once(void)
{
    global = curl_global_init(CURL_GLOBAL_DEFAULT);
}

/* ---- the response ---- */

static size_t on_body(char *bytes, size_t size, size_t count, void *ctx)
{
    struct sl_http_fetch *fetch = ctx;
    size_t len = size * count;
    int err;

    if (len > fetch->most - fetch->body.len && fetch->any_status) {
        fetch->is_cut = true; /* curl aborts, and judge() keeps the status */
        len = fetch->most - fetch->body.len;
        (void)!sl_buf_add(&fetch->body, (struct sl_str){bytes, len});
        return 0;
    }
    if (len > fetch->most - fetch->body.len) {
        fetch->result = SL_HTTP_FETCH_TOO_LARGE;
        return 0; /* curl aborts */
    }
    err = sl_buf_add(&fetch->body, (struct sl_str){bytes, len});
    if (err)
        fetch->result = SL_HTTP_FETCH_NO_MEMORY;
    return err ? 0 : len;
}

/* The value of the header field `name`, or an empty slice. */
static struct sl_str value_of(struct sl_str line, struct sl_str name)
{
    struct sl_str head = {line.at, name.len};

    if (line.len <= name.len || line.at[name.len] != ':' ||
        !sl_str_eq_nocase(head, name))
        return (struct sl_str){NULL, 0};
    while (line.len > 0 && strchr("\r\n", line.at[line.len - 1]))
        line.len--;
    return sl_str_trim(sl_str_from(line, name.len + 1));
}

static void keep(char *out, size_t size, struct sl_str line, struct sl_str name)
{
    struct sl_str value = value_of(line, name);

    if (value.len > 0 && value.len < size) {
        memcpy(out, value.at, value.len);
        out[value.len] = '\0';
    }
}

static size_t on_header(char *bytes, size_t size, size_t count, void *ctx)
{
    struct sl_http_fetch *fetch = ctx;
    struct sl_str line = {bytes, size * count};

    fetch->head += line.len; /* curl keeps all of them */
    if (fetch->head > HEAD_MOST) {
        fetch->result = SL_HTTP_FETCH_TOO_LARGE;
        return 0; /* curl aborts */
    }
    keep(fetch->cache_control, sizeof(fetch->cache_control), line,
         SL_STR("cache-control"));
    keep(fetch->date, sizeof(fetch->date), line, SL_STR("date"));
    keep(fetch->retry_after, sizeof(fetch->retry_after), line,
         SL_STR("retry-after"));
    return line.len;
}

#define CLOSED "the connection was closed before the answer"

/* Did on_request() end it, since curl would have sent it again? */
static bool is_again(const struct sl_http_fetch *fetch, CURLcode code)
{
    return code == CURLE_ABORTED_BY_CALLBACK && fetch->once && fetch->began;
}

/* Many servers close a connection that idles, or after some requests, just when
 * the next request comes. */
static bool is_stale(const struct sl_http_fetch *fetch, CURLcode code)
{
    long opened = 0;

    curl_easy_getinfo(fetch->easy, CURLINFO_NUM_CONNECTS, &opened);
    return is_again(fetch, code) ||
           (fetch->once && fetch->sent && opened == 0 && fetch->head == 0 &&
            (code == CURLE_SEND_ERROR || code == CURLE_RECV_ERROR ||
             code == CURLE_GOT_NOTHING));
}

/* Says why there is no answer. libcurl's words for some codes tell nothing. */
static void explain(struct sl_http_fetch *fetch, CURLcode code)
{
    sl_ns limit = fetch->timeout;
    bool tls = code == CURLE_PEER_FAILED_VERIFICATION ||
               code == CURLE_SSL_CONNECT_ERROR;
    const char *why =
        tls && fetch->detail[0] ? fetch->detail : curl_easy_strerror(code);

    if (fetch->setup == 0 && fetch->connect_timeout > 0)
        limit = fetch->connect_timeout;
    if (fetch->sent && (code == CURLE_UNSUPPORTED_PROTOCOL ||
                        code == CURLE_WEIRD_SERVER_REPLY))
        why = "the answer is not HTTP/1.1";
    if (code == CURLE_PARTIAL_FILE)
        why = "the connection was closed in the middle of the answer";
    if (code == CURLE_GOT_NOTHING || is_again(fetch, code))
        why = CLOSED;
    if (code == CURLE_OPERATION_TIMEDOUT)
        snprintf(fetch->why, sizeof(fetch->why), "no %s in %g s",
                 fetch->setup == 0 ? "connection" : "complete answer",
                 (double)limit / SL_S);
    else
        snprintf(fetch->why, sizeof(fetch->why), "%s", why);
}

static void judge(struct sl_http_fetch *fetch, CURLcode code)
{
    long status = 0, bytes = 0;
    const char *peer = NULL;
    curl_off_t setup = 0; /* us */

    curl_easy_getinfo(fetch->easy, CURLINFO_PRETRANSFER_TIME_T, &setup);
    fetch->setup = (sl_ns)setup * 1000;
    curl_easy_getinfo(fetch->easy, CURLINFO_RESPONSE_CODE, &status);
    curl_easy_getinfo(fetch->easy, CURLINFO_REQUEST_SIZE, &bytes);
    curl_easy_getinfo(fetch->easy, CURLINFO_PRIMARY_IP, &peer);
    fetch->has_peer = peer && sl_ip_parse(sl_str_c(peer), &fetch->peer);
    fetch->status = (int)status;
    fetch->sent = bytes > 0;
    fetch->timed_out = code == CURLE_OPERATION_TIMEDOUT;
    fetch->stale = is_stale(fetch, code);
    if (fetch->is_cut)
        code = CURLE_OK;
    if (fetch->any_status && code == CURLE_OK) {
        fetch->why[0] = '\0'; /* of an address that was refused before */
        return;
    }
    if (fetch->no_socket && code == CURLE_COULDNT_CONNECT) {
        fetch->result = SL_HTTP_FETCH_NO_MEMORY;
        snprintf(fetch->why, sizeof(fetch->why), "out of descriptors");
        return;
    }
    if (fetch->refused &&
        (code == CURLE_COULDNT_CONNECT || code == CURLE_ABORTED_BY_CALLBACK)) {
        fetch->result = SL_HTTP_FETCH_UNREACHABLE; /* guard() has said why */
        return;
    }
    if (code == CURLE_FILESIZE_EXCEEDED)
        fetch->result = SL_HTTP_FETCH_TOO_LARGE;
    if (fetch->head > HEAD_MOST)
        snprintf(fetch->why, sizeof(fetch->why),
                 "the header fields of the answer are larger than %zu bytes",
                 HEAD_MOST);
    else if (fetch->result == SL_HTTP_FETCH_TOO_LARGE)
        snprintf(fetch->why, sizeof(fetch->why),
                 "the answer is larger than %zu bytes", fetch->most);
    else if (fetch->result == SL_HTTP_FETCH_NO_MEMORY ||
             code == CURLE_OUT_OF_MEMORY)
        snprintf(fetch->why, sizeof(fetch->why), "out of memory");
    else if (code != CURLE_OK)
        explain(fetch, code);
    else if (status != 200)
        snprintf(fetch->why, sizeof(fetch->why), "the server answers %ld%s",
                 status,
                 status / 100 == 3 ? ", and redirects are not followed" : "");
    if (fetch->result != SL_HTTP_FETCH_GOOD)
        return;
    if (code == CURLE_OUT_OF_MEMORY)
        fetch->result = SL_HTTP_FETCH_NO_MEMORY;
    else if (code != CURLE_OK)
        fetch->result = SL_HTTP_FETCH_UNREACHABLE;
    else if (status != 200)
        fetch->result = SL_HTTP_FETCH_STATUS;
}

static void drop(struct sl_http_fetcher *fetcher, struct sl_http_fetch *fetch)
{
    struct sl_http_fetch **at = &fetcher->broken;

    curl_multi_remove_handle(fetcher->multi, fetch->easy);
    curl_easy_setopt(fetch->easy, CURLOPT_ERRORBUFFER, NULL);
    while (*at && *at != fetch)
        at = &(*at)->next_broken;
    if (*at)
        *at = fetch->next_broken;
    if (fetcher->idle_count < IDLE_MOST)
        fetcher->idle[fetcher->idle_count++] = fetch->easy;
    else
        curl_easy_cleanup(fetch->easy);
    curl_slist_free_all(fetch->list);
    fetch->easy = fetch->list = NULL;
}

static void finish(struct sl_http_fetcher *fetcher)
{
    CURLMsg *message;
    int left;

    while ((message = curl_multi_info_read(fetcher->multi, &left))) {
        struct sl_http_fetch *fetch = NULL;

        if (message->msg != CURLMSG_DONE)
            continue;
        curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &fetch);
        judge(fetch, message->data.result);
        drop(fetcher, fetch);
        fetch->done(fetch); /* may begin again */
    }
}

static void turn(struct sl_http_fetcher *fetcher, curl_socket_t socket,
                 int what)
{
    int running;

    curl_multi_socket_action(fetcher->multi, socket, what, &running);
    finish(fetcher);
}

/* ---- events ---- */

static void on_event(evutil_socket_t fd, short what, void *arg)
{
    int bits = (what & EV_READ ? CURL_CSELECT_IN : 0) |
               (what & EV_WRITE ? CURL_CSELECT_OUT : 0);

    turn(arg, fd, bits);
}

static short wanted(int what)
{
    int bits = what == CURL_POLL_IN    ? EV_READ
               : what == CURL_POLL_OUT ? EV_WRITE
                                       : EV_READ | EV_WRITE;

    return (short)(bits | EV_PERSIST);
}

/* Without memory for an event. If the callback of curl failed, it would stop
 * all requests, and refuse new ones while one is left. So it is this one that
 * ends, later: not within curl. Others go on, but for those that share its
 * connection of HTTP/2: they end by their timeouts. A connection for each
 * request would cost a TLS handshake for each. */
static void fail_later(struct sl_http_fetcher *fetcher, CURL *easy)
{
    struct sl_http_fetch *fetch = NULL, *other = fetcher->broken;

    curl_easy_getinfo(easy, CURLINFO_PRIVATE, &fetch);
    while (other && other != fetch)
        other = other->next_broken;
    if (!fetch || other) /* a connection without a request; it is known */
        return;
    fetch->next_broken = fetcher->broken;
    fetcher->broken = fetch;
    sl_timer_start(fetcher->mend, 0);
}

static void on_mend(void *ctx)
{
    struct sl_http_fetcher *fetcher = ctx;
    struct sl_http_fetch *fetch;

    while ((fetch = fetcher->broken)) {
        judge(fetch, CURLE_OUT_OF_MEMORY);
        drop(fetcher, fetch);
        fetch->done(fetch); /* may begin again */
    }
}

/* Replace the event of a descriptor. */
static int on_socket(CURL *easy, curl_socket_t fd, int what, void *ctx,
                     void *old)
{
    struct sl_http_fetcher *fetcher = ctx;
    struct event *event = NULL;

    if (old)
        event_free(old);
    if (what != CURL_POLL_REMOVE && what != CURL_POLL_NONE) {
        event = event_new(sl_loop_base(fetcher->loop), fd, wanted(what),
                          on_event, fetcher);
        if (event && event_add(event, NULL)) {
            event_free(event);
            event = NULL;
        }
        if (!event)
            fail_later(fetcher, easy);
    }
    curl_multi_assign(fetcher->multi, fd, event);
    return 0;
}

static void on_time(void *ctx)
{
    turn(ctx, CURL_SOCKET_TIMEOUT, 0);
}

static int on_timeout(CURLM *multi, long ms, void *ctx)
{
    struct sl_http_fetcher *fetcher = ctx;

    (void)multi;
    if (ms < 0)
        sl_timer_stop(fetcher->timer);
    else
        sl_timer_start(fetcher->timer, (sl_ns)ms * SL_MS);
    return 0;
}

/* ---- the fetcher ---- */

static int open_multi(struct sl_http_fetcher *fetcher)
{
    CURLM *multi = curl_multi_init();

    if (!multi)
        return SLUICE_ENOMEM;
    fetcher->multi = multi;
    /* Without it, curl closes open connections when fewer requests run. */
    curl_multi_setopt(multi, CURLMOPT_MAXCONNECTS, (long)CONNECTIONS);
    curl_multi_setopt(multi, CURLMOPT_SOCKETFUNCTION, on_socket);
    curl_multi_setopt(multi, CURLMOPT_SOCKETDATA, fetcher);
    curl_multi_setopt(multi, CURLMOPT_TIMERFUNCTION, on_timeout);
    curl_multi_setopt(multi, CURLMOPT_TIMERDATA, fetcher);
    return 0;
}

int sl_http_fetcher_open(struct sl_loop *loop, const struct sl_alloc *alloc,
                         struct sl_http_fetcher **ret, struct sl_diag *diag)
{
    struct sl_http_fetcher *fetcher;
    int err;

    pthread_once(&once, init_once);
    if (global != CURLE_OK)
        return sl_diag_error(diag, SLUICE_ESYS, "libcurl failed to start: %s",
                             curl_easy_strerror(global));
    fetcher = sl_alloc_new(alloc, sizeof(*fetcher));
    if (!fetcher)
        return sl_diag_error(diag, SLUICE_ENOMEM, "out of memory");
    *fetcher = (struct sl_http_fetcher){.loop = loop, .alloc = alloc};
    err = sl_timer_new(loop, on_time, fetcher, &fetcher->timer);
    if (!err)
        err = sl_timer_new(loop, on_mend, fetcher, &fetcher->mend);
    if (!err)
        err = open_multi(fetcher);
    if (err) {
        sl_http_fetcher_close(fetcher);
        return sl_diag_error(diag, err, "out of memory");
    }
    *ret = fetcher;
    return 0;
}

void sl_http_fetcher_close(struct sl_http_fetcher *fetcher)
{
    if (!fetcher)
        return;
    while (fetcher->idle_count > 0)
        curl_easy_cleanup(fetcher->idle[--fetcher->idle_count]);
    if (fetcher->multi)
        curl_multi_cleanup(fetcher->multi);
    sl_timer_free(fetcher->timer);
    sl_timer_free(fetcher->mend);
    sl_alloc_free(fetcher->alloc, fetcher, sizeof(*fetcher));
}

/* ---- connections ---- */

/* What is judged is what is connected to: no name is resolved in between. */
static curl_socket_t on_open(void *ctx, curlsocktype purpose,
                             struct curl_sockaddr *a)
{
    struct sl_http_fetch *fetch = ctx;
    struct sl_address address = {.len = a->addrlen};
    struct sl_ip ip;
    int fd;

    (void)purpose;
    if (a->addrlen > sizeof(address.bytes))
        return CURL_SOCKET_BAD;
    memcpy(&address.bytes, &a->addr, a->addrlen);
    if (!sl_address_ip(&address, &ip) ||
        !fetch->guard(fetch, &ip, sl_address_port(&address), fetch->why,
                      sizeof(fetch->why))) {
        fetch->refused = true;
        return CURL_SOCKET_BAD;
    }
    fd = socket(a->family, a->socktype | SOCK_CLOEXEC, a->protocol);
    if (fd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOBUFS ||
                   errno == ENOMEM))
        fetch->no_socket = true;
    return fd;
}

/* ---- one document ---- */

/* What is the same for all. Returns the first error: a security option must
 * not be missing. */
static CURLcode set_always(CURL *easy)
{
    static const struct {
        CURLoption option;
        long value;
    } numbers[] = {
        {CURLOPT_FOLLOWLOCATION, 0                      },
        {CURLOPT_NETRC,          CURL_NETRC_IGNORED     },
        {CURLOPT_NOSIGNAL,       1                      },
        {CURLOPT_QUICK_EXIT,     1                      },
        {CURLOPT_SSL_VERIFYPEER, 1                      },
        {CURLOPT_SSL_VERIFYHOST, 2                      },
        {CURLOPT_SSLVERSION,     CURL_SSLVERSION_TLSv1_2},
        {CURLOPT_HTTP_VERSION,   CURL_HTTP_VERSION_1_1  },
    };
    static const struct {
        CURLoption option;
        const char *value;
    } texts[] = {
        {CURLOPT_PROTOCOLS_STR, "http,https"             },
        {CURLOPT_PROXY,         ""                       },
        {CURLOPT_USERAGENT,     "sluiced/" SLUICE_VERSION},
    };
    CURLcode code = CURLE_OK;

    for (size_t i = 0; code == CURLE_OK && i < SL_LEN(numbers); i++)
        code = curl_easy_setopt(easy, numbers[i].option, numbers[i].value);
    for (size_t i = 0; code == CURLE_OK && i < SL_LEN(texts); i++)
        code = curl_easy_setopt(easy, texts[i].option, texts[i].value);
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_body);
    curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, on_header);
    return code;
}

/* What a request has of its own. Each option is set for each request: the
 * handle may have been used before. */
static CURLcode set_options(CURL *easy, struct sl_http_fetch *fetch)
{
    sl_ns connect =
        fetch->connect_timeout > 0 ? fetch->connect_timeout : fetch->timeout;
    const struct {
        CURLoption option;
        long value;
    } numbers[] = {
        {CURLOPT_TIMEOUT_MS,        (long)(fetch->timeout / SL_MS)           },
        {CURLOPT_CONNECTTIMEOUT_MS, (long)(connect / SL_MS)                  },
        {CURLOPT_MAXFILESIZE,       fetch->any_status ? 0 : (long)fetch->most},
    };
    CURLcode code = curl_easy_setopt(easy, CURLOPT_URL, fetch->url);

    for (size_t i = 0; code == CURLE_OK && i < SL_LEN(numbers); i++)
        code = curl_easy_setopt(easy, numbers[i].option, numbers[i].value);
    if (code == CURLE_OK)
        code = curl_easy_setopt(easy, CURLOPT_OPENSOCKETFUNCTION,
                                fetch->guard ? on_open : NULL);
    if (code == CURLE_OK)
        code = curl_easy_setopt(easy, CURLOPT_OPENSOCKETDATA, fetch);
    curl_easy_setopt(easy, CURLOPT_WRITEDATA, fetch);
    curl_easy_setopt(easy, CURLOPT_HEADERDATA, fetch);
    curl_easy_setopt(easy, CURLOPT_PRIVATE, fetch);
    fetch->detail[0] = '\0';
    curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, fetch->detail);
    return code;
}

static CURLcode set_headers(CURL *easy, struct sl_http_fetch *fetch)
{
    /* Without this, curl waits for "100 Continue". */
    static const char *const always[] = {"Expect:", NULL};
    const char *const *const both[] = {always, fetch->headers};

    for (unsigned k = 0; k < SL_LEN(both); k++)
        for (unsigned i = 0; both[k] && both[k][i]; i++) {
            void *list = curl_slist_append(fetch->list, both[k][i]);

            if (!list)
                return CURLE_OUT_OF_MEMORY;
            fetch->list = list;
        }
    return curl_easy_setopt(easy, CURLOPT_HTTPHEADER, fetch->list);
}

/* Before each request, on a new connection or an open one: curl repeats one if
 * an open connection breaks, and what is allowed may have changed since a
 * connection was opened. */
static int on_request(void *ctx, char *peer, char *own, int peer_port,
                      int own_port)
{
    struct sl_http_fetch *fetch = ctx;
    struct sl_ip ip;

    (void)own;
    (void)own_port;
    fetch->refused = fetch->no_socket = false; /* another address was */
    fetch->why[0] = '\0';
    if (fetch->began && fetch->once)
        return CURL_PREREQFUNC_ABORT;
    if (fetch->guard && !sl_ip_parse(sl_str_c(peer), &ip))
        return CURL_PREREQFUNC_ABORT;
    if (fetch->guard && !fetch->guard(fetch, &ip, (unsigned)peer_port,
                                      fetch->why, sizeof(fetch->why))) {
        fetch->refused = true;
        return CURL_PREREQFUNC_ABORT;
    }
    fetch->began = true;
    return CURL_PREREQFUNC_OK;
}

static CURLcode set_sent(CURL *easy, struct sl_http_fetch *fetch)
{
    bool ask = fetch->once || fetch->guard;
    CURLcode code =
        curl_easy_setopt(easy, CURLOPT_PREREQFUNCTION, ask ? on_request : NULL);

    fetch->began = false;
    curl_easy_setopt(easy, CURLOPT_PREREQDATA, fetch);
    if (code == CURLE_OK && !fetch->send.at)
        code = curl_easy_setopt(easy, CURLOPT_HTTPGET, 1L);
    if (code == CURLE_OK && fetch->send.at)
        code = curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE,
                                (curl_off_t)fetch->send.len);
    if (code == CURLE_OK && fetch->send.at)
        code = curl_easy_setopt(easy, CURLOPT_POSTFIELDS, fetch->send.at);
    if (code == CURLE_OK)
        code = curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, fetch->method);
    return code == CURLE_OK ? set_headers(easy, fetch) : code;
}

/* A handle that was used before, or a new one; NULL: no memory. */
static CURL *take_handle(struct sl_http_fetcher *fetcher)
{
    CURL *easy;

    if (fetcher->idle_count > 0)
        return fetcher->idle[--fetcher->idle_count];
    easy = curl_easy_init();
    if (easy && set_always(easy) != CURLE_OK) {
        curl_easy_cleanup(easy);
        easy = NULL;
    }
    return easy;
}

int sl_http_fetch_begin(struct sl_http_fetcher *fetcher,
                        struct sl_http_fetch *fetch)
{
    CURL *easy = take_handle(fetcher);

    fetch->result = SL_HTTP_FETCH_GOOD;
    fetch->status = 0;
    fetch->head = 0;
    fetch->sent = fetch->timed_out = fetch->refused = fetch->is_cut = false;
    fetch->no_socket = fetch->stale = false;
    fetch->retry_after[0] = '\0';
    fetch->cache_control[0] = fetch->date[0] = fetch->why[0] = '\0';
    fetch->list = NULL;
    if (fetch->body.alloc)
        sl_buf_done(&fetch->body);
    sl_buf_init(&fetch->body, fetch->most, fetcher->alloc);
    if (!easy)
        return SLUICE_ENOMEM;
    fetch->easy = easy;
    if (set_options(easy, fetch) == CURLE_OK &&
        set_sent(easy, fetch) == CURLE_OK &&
        curl_multi_add_handle(fetcher->multi, easy) == CURLM_OK)
        return 0;
    curl_easy_cleanup(easy);
    curl_slist_free_all(fetch->list);
    fetch->easy = fetch->list = NULL;
    return SLUICE_ENOMEM;
}

void sl_http_fetch_forget(struct sl_http_fetcher *fetcher,
                          struct sl_http_fetch *fetch)
{
    if (fetch->easy)
        drop(fetcher, fetch);
    if (fetch->body.alloc)
        sl_buf_done(&fetch->body);
}
