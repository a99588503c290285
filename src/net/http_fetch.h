/* http_fetch.h -- fetches a document over HTTP or HTTPS on the loop, by
 * libcurl.
 *
 * Keys are fetched this way, so only the URL decides where they come from: no
 * redirects, no proxy of the environment, no .netrc, no cookies. Bytes and time
 * are bounded; nothing is decompressed.
 *
 * A separate library, so that only its users link libcurl.
 */
#ifndef SL_NET_HTTP_FETCH_H
#define SL_NET_HTTP_FETCH_H

#include "base/buf.h"
#include "base/ip.h"
#include "net/loop.h"

enum sl_http_fetch_result {
    SL_HTTP_FETCH_GOOD,
    SL_HTTP_FETCH_UNREACHABLE, /* DNS, connection, certificate, timeout */
    SL_HTTP_FETCH_STATUS,      /* not 200 */
    SL_HTTP_FETCH_TOO_LARGE,
    SL_HTTP_FETCH_NO_MEMORY, /* or a limit of epoll; with `guard`, or of
                              * descriptors */
};

struct sl_http_fetcher; /* of one loop */

/* One request. The caller keeps it until done(). */
struct sl_http_fetch {
    const char *url;            /* borrowed until done(), like the next three */
    const char *method;         /* NULL: GET, or POST with `send` */
    const char *const *headers; /* "Name: value", the last is NULL; or NULL */
    struct sl_str send;         /* the body; at == NULL: none */
    bool once;             /* do not send again if a reused connection breaks */
    size_t most;           /* bytes of the response body */
    sl_ns timeout;         /* in total */
    sl_ns connect_timeout; /* 0: `timeout` */
    bool any_status;       /* every answer is GOOD, whatever its status; its
                            * body is cut at `most` bytes */
    /* May a connection to this address be opened, and be used for this request?
     * If not, `why` has a sentence. NULL: to any. */
    bool (*guard)(struct sl_http_fetch *fetch, const struct sl_ip *ip,
                  unsigned port, char *why, size_t size);
    void (*done)(struct sl_http_fetch *fetch);
    void *ctx;

    /* The result in done(), which may begin it again. */
    enum sl_http_fetch_result result;
    int status;              /* of HTTP; 0: none */
    struct sl_buf body;      /* freed by sl_http_fetch_forget() */
    char cache_control[256]; /* header field; "": none */
    char date[64];           /* header field; "": none */
    char retry_after[64];    /* header field; "": none */
    bool timed_out;          /* no complete answer in time */
    bool stale;              /* with `once`: a connection that was used before
                              * was closed, and nothing was answered */
    bool refused;            /* by `guard` */
    struct sl_ip peer;       /* the address that answered, if has_peer */
    bool has_peer;
    bool sent;     /* true: the server may have received the request */
    sl_ns setup;   /* DNS, connection, TLS; 0: no request was sent */
    char why[256]; /* a sentence, unless GOOD */

    /* Private. */
    struct sl_http_fetch *next_broken;
    size_t head;       /* bytes of header fields so far */
    bool is_cut;       /* the answer was longer than `most` */
    bool no_socket;    /* for lack of descriptors or memory */
    bool began;        /* a request was sent, with `once` or `guard` */
    char detail[256];  /* what curl says about an error */
    void *easy, *list; /* easy is not NULL while the request runs */
};

SL_MUST_USE int sl_http_fetcher_open(struct sl_loop *loop,
                                     const struct sl_alloc *alloc,
                                     struct sl_http_fetcher **ret,
                                     struct sl_diag *diag);

/* All requests are done or forgotten. Not from done(). NULL is allowed. */
void sl_http_fetcher_close(struct sl_http_fetcher *fetcher);

/* Begin. done() is called once, later. SLUICE_ENOMEM. */
SL_MUST_USE int sl_http_fetch_begin(struct sl_http_fetcher *fetcher,
                                    struct sl_http_fetch *fetch);

/* Cancel without done(), if it runs; free the body. */
void sl_http_fetch_forget(struct sl_http_fetcher *fetcher,
                          struct sl_http_fetch *fetch);

#endif
