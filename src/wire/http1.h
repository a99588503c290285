/* http1.h -- HTTP/1.1 requests, strictly, and answers.
 *
 * Whatever two readers could understand differently is refused and the
 * connection closed: two Content-Lengths (also equal ones), Content-Length
 * with Transfer-Encoding, any Transfer-Encoding but exactly `chunked`, one on
 * HTTP/1.0, bare LF or CR, folded lines, NUL and control bytes, blanks before
 * the colon, a missing or second Host, a Host that is not the target's, bad
 * chunk framing and chunk extensions, HTTP versions other than 1.0 and 1.1.
 * Trailers are read and dropped. README.md has the list with the reasons.
 *
 * The parser reads from the front of a buffer that grows at its end, and says
 * when a request is complete. Slices point into the buffer and live until it
 * changes. A chunked body is put together in place.
 *
 * A buffer whose ceiling is SL_HTTP1_CEILING(limits) never runs full before
 * the request is complete or refused.
 */
#ifndef SL_WIRE_HTTP1_H
#define SL_WIRE_HTTP1_H

#include "base/buf.h"

#define SL_HTTP1_FIELDS 100

struct sl_http1_limits {
    size_t line; /* bytes of the request line with its CRLF; 8 KiB */
    size_t head; /* bytes of line and fields; the same for trailers; 16 KiB */
    size_t body; /* 1 MiB */
};

/* Head, body, and behind it a trailer or the size of a chunk. */
#define SL_HTTP1_CEILING(limits) (2 * (limits).head + (limits).body + 32)

struct sl_http1_field {
    struct sl_str name;  /* as it was sent */
    struct sl_str value; /* without blanks around it */
};

struct sl_http1 {
    struct sl_http1_limits limits;

    /* The request. */
    struct sl_str method;
    struct sl_str target; /* "/path?query", or "*" with OPTIONS */
    struct sl_str host;   /* of Host or of "http://host/path"; "" none */
    unsigned minor;       /* HTTP/1.minor */
    struct sl_http1_field fields[SL_HTTP1_FIELDS];
    unsigned field_count;
    struct sl_str body;
    bool keep_alive;
    bool expect_continue; /* Expect: 100-continue, and none of the body is
                             here: the caller may say 100, and clear it */
    bool is_head_request; /* method HEAD: the answer has no body */

    /* How far it got; see http1.c. */
    size_t used;      /* bytes of the buffer that the request took */
    size_t at;        /* looked at so far */
    size_t from;      /* where the line or chunk being read began */
    size_t mark;      /* where the word being read began, or the colon stood */
    const char *base; /* where the buffer was, for slices to follow it */
    unsigned step;
    uint64_t left; /* of the body or chunk */
    size_t body_at;
    bool chunked;

    /* REFUSED. */
    int status;      /* 400, 413, 414, 417, 431, 501, 505 */
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
 * again when more have come, also if the buffer has moved. `in` is changed
 * only where a chunked body is put together: what framed it may be taken out,
 * so that `in->len` shrinks. What follows the request is never changed. What
 * it says does not depend on how the bytes were cut. */
SL_MUST_USE enum sl_http1_result sl_http1_read(struct sl_http1 *parser,
                                               struct sl_buf *in);

/* The value of a field, the first if there are several, or an empty slice with
 * a NULL pointer. Names compare without case. `count` (may be NULL) says how
 * often it was there. */
struct sl_str sl_http1_field(const struct sl_http1 *parser, struct sl_str name,
                             unsigned *count);

/* ---- answers ---- */

/* "200 OK" for 200; "" for a status that is not known. */
const char *sl_http1_reason(int status);

/* An answer's first line, Date (its text is made once a second), the fields,
 * Content-Length and, unless keep_alive, Connection: close; then the body
 * unless `head`. 1xx, 204 and 304 have neither body nor Content-Length. */
struct sl_http1_answer {
    int status;
    const struct sl_http1_field *fields;
    unsigned field_count;
    struct sl_str content_type; /* "" none */
    struct sl_str body;
    bool keep_alive;
    bool endless; /* it goes on until the connection ends: no Content-Length */
    bool head;
    unsigned minor;     /* of the request; 0 is told that keep_alive is so */
    struct sl_str date; /* "Sun, 15 Nov 2026 07:00:00 GMT"; "" none */
};

/* Append the answer. A field that would break it is a bug of the caller and is
 * left out: a value with CR, LF, NUL or another control byte, a name that is
 * no token, and the names that frame an answer (Connection, Content-Length,
 * Transfer-Encoding). SLUICE_EINVAL for a status outside 100-999, SLUICE_EFULL
 * or SLUICE_ENOMEM if it does not fit; then nothing was appended. */
SL_MUST_USE int sl_http1_write(struct sl_buf *out,
                               const struct sl_http1_answer *answer);

#endif
