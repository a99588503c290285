/* http_fetch.h -- one document over HTTP or HTTPS, on the loop, by libcurl.
 *
 * What is fetched decides whom we believe, so nothing but the URL says where
 * it comes from: no redirects, no proxy of the environment, no passwords from
 * files, no cookies. What comes is bounded in bytes and in time, and never
 * unpacked.
 *
 * A library of its own, so that nothing else stands on libcurl.
 */
#ifndef SL_NET_HTTP_FETCH_H
#define SL_NET_HTTP_FETCH_H

#include "base/buf.h"
#include "net/loop.h"

/* Why there is no document. */
enum sl_http_fetch_result {
    SL_HTTP_FETCH_GOOD,
    SL_HTTP_FETCH_UNREACHABLE, /* no name, no connection, no trust, no time */
    SL_HTTP_FETCH_STATUS,      /* another status than 200; redirects too */
    SL_HTTP_FETCH_TOO_LARGE,
    SL_HTTP_FETCH_NO_MEMORY,
};

struct sl_http_fetcher; /* of one loop */

/* One document. It belongs to whoever asks, until done(). */
struct sl_http_fetch {
    const char *url;    /* borrowed until done(), as the next three are */
    const char *method; /* NULL: GET, or POST if something is sent */
    const char *const *headers; /* "Name: value", the last is NULL; or NULL */
    struct sl_str send;         /* at == NULL: nothing */
    bool once; /* what is sent is sent once, even if a connection that was kept
                * breaks before the answer: curl would send it again */
    size_t most;   /* bytes of the document */
    sl_ns timeout; /* for all of it */
    void (*done)(struct sl_http_fetch *fetch);
    void *ctx;

    /* What came of it, when done() is called: it may be asked for again from
     * there. */
    enum sl_http_fetch_result result;
    int status;              /* of HTTP; 0: none came */
    struct sl_buf body;      /* sl_http_fetch_forget() gives it back */
    char cache_control[256]; /* the field of that name; "": none */
    char date[64];           /* likewise */
    bool sent; /* perhaps: a connection was there. False: nobody heard of it */
    char why[256]; /* a sentence, if it is not good */

    size_t given; /* the fetcher's, as the next: bytes of `send`, if `once` */
    void *easy, *list; /* the fetcher's; easy is not NULL while it is under
                        * way */
};

SL_MUST_USE int sl_http_fetcher_open(struct sl_loop *loop,
                                     const struct sl_alloc *alloc,
                                     struct sl_http_fetcher **ret,
                                     struct sl_diag *diag);

/* Everything was forgotten or is done. NULL is allowed. Not from done(). */
void sl_http_fetcher_close(struct sl_http_fetcher *fetcher);

/* Begin. done() is called once, later; SLUICE_ENOMEM if that can't be. */
SL_MUST_USE int sl_http_fetch_begin(struct sl_http_fetcher *fetcher,
                                    struct sl_http_fetch *fetch);

/* Give up without a word, if it is under way; and give back the body. */
void sl_http_fetch_forget(struct sl_http_fetcher *fetcher,
                          struct sl_http_fetch *fetch);

#endif
