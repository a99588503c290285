/* http1.h -- HTTP/1.1 requests, strictly, and answers.
 *
 * Whatever two readers could understand differently is refused and the
 * connection closed: two Content-Lengths (also equal ones), Content-Length
 * with Transfer-Encoding, any Transfer-Encoding but exactly `chunked`, one on
 * HTTP/1.0, bare LF or CR, folded lines, NUL and control bytes, blanks before
 * the colon, a missing or second Host, bad chunk framing, trailers (read and
 * dropped), HTTP versions other than 1.0 and 1.1.
 *
 * The parser reads from the front of a buffer that grows at its end, and says
 * when a request is complete. Slices point into the buffer and live until it
 * changes. A chunked body is put together in place.
 */
#ifndef SL_HTTP1_H
#define SL_HTTP1_H

#include "base/buf.h"

#define SL_HTTP1_FIELDS 100

struct sl_http1_limits {
    size_t line; /* bytes of the request line; 8 KiB */
    size_t head; /* bytes of line and fields; 16 KiB */
    size_t body; /* 1 MiB */
};

struct sl_http1_field {
    struct sl_str name;  /* as it was sent */
    struct sl_str value; /* without blanks around it */
};

struct sl_http1 {
    struct sl_http1_limits limits;

    /* The request. */
    struct sl_str method, target, host;
    unsigned minor; /* HTTP/1.minor */
    struct sl_http1_field fields[SL_HTTP1_FIELDS];
    unsigned field_count;
    struct sl_str body;
    bool keep_alive;
    bool expect_continue; /* Expect: 100-continue, and the body is not here */
    bool is_head_request; /* method HEAD: the answer has no body */

    /* How far it got; see http1.c. */
    size_t used; /* bytes of the buffer that the request took */
    size_t at;   /* looked at so far */
    unsigned step;
    uint64_t left; /* of the body or chunk */
    size_t body_at;
    bool chunked;

    /* REFUSED. */
    int status;      /* 400, 413, 414, 431, 501, 505 */
    const char *why; /* a short English sentence */
};

enum sl_http1_result {
    SL_HTTP1_MORE,    /* not complete yet */
    SL_HTTP1_DONE,    /* complete; `used` bytes of the buffer were it */
    SL_HTTP1_REFUSED, /* answer `status` and close */
};

/* Get ready for the next request. */
void sl_http1_begin(struct sl_http1 *parser,
                    const struct sl_http1_limits *limits);

/* Look at the buffer's bytes, which begin with the request; may be called
 * again when more have come. `in` is changed only where a chunked body is put
 * together. */
SL_MUST_USE enum sl_http1_result sl_http1_read(struct sl_http1 *parser,
                                               struct sl_buf *in);

/* The value of a field, or an empty slice with a NULL pointer. Names compare
 * without case. `count` (may be NULL) says how often it was there. */
struct sl_str sl_http1_field(const struct sl_http1 *parser, struct sl_str name,
                             unsigned *count);

/* ---- answers ---- */

/* "200 OK" for 200. */
const char *sl_http1_reason(int status);

/* Append an answer's first line, Date (`now_http` is its text, made once a
 * second), the fields, Content-Length and, unless keep_alive, Connection:
 * close; then the body unless `head`. A field whose value has CR, LF or NUL is
 * a bug of the caller and is left out. */
struct sl_http1_answer {
    int status;
    const struct sl_http1_field *fields;
    unsigned field_count;
    struct sl_str content_type; /* "" none */
    struct sl_str body;
    bool keep_alive;
    bool head;
    unsigned minor;
    struct sl_str date; /* "Sun, 15 Nov 2026 07:00:00 GMT"; "" none */
};
SL_MUST_USE int sl_http1_write(struct sl_buf *out,
                               const struct sl_http1_answer *answer);

#endif
