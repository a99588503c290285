/* http1.h -- HTTP/1.1 requests, read strictly, and answers.
 *
 * Ambiguous requests are refused and the connection is closed: two Content-
 * Lengths (even equal ones), Content-Length with Transfer-Encoding, a Transfer-
 * Encoding other than `chunked`, one on HTTP/1.0, bare LF or CR, folded lines,
 * NUL and control bytes, blanks before the colon, a missing or second Host, a
 * Host that differs from the target's, invalid chunk framing, chunk extensions,
 * HTTP versions other than 1.0 and 1.1. Trailers are read and dropped.
 * README.md has the list with the reasons.
 *
 * The parser reads from the front of a growing buffer and reports when a
 * request is complete. Slices point into the buffer until it changes. A chunked
 * body is joined in place.
 *
 * A buffer with the ceiling SL_HTTP1_CEILING(limits) does not get full before
 * the request is complete or refused.
 */
#ifndef SL_WIRE_HTTP1_H
#define SL_WIRE_HTTP1_H

#include "base/buf.h"

#define SL_HTTP1_FIELDS 100

struct sl_http1_limits {
    size_t line; /* bytes of the request line with CRLF; 8 KiB */
    size_t head; /* bytes of line and fields, and of trailers; 16 KiB */
    size_t body; /* 1 MiB */
};

/* Head, body, and after it a trailer or a chunk size. */
#define SL_HTTP1_CEILING(limits) (2 * (limits).head + (limits).body + 32)

struct sl_http1_field {
    struct sl_str name;  /* as it was sent */
    struct sl_str value; /* without surrounding blanks */
};

struct sl_http1 {
    struct sl_http1_limits limits;

    /* The request. */
    struct sl_str method;
    struct sl_str target; /* "/path?query", or "*" with OPTIONS */
    struct sl_str host;   /* of Host or of "http://host/path"; "": none */
    unsigned minor;       /* HTTP/1.minor */
    struct sl_http1_field fields[SL_HTTP1_FIELDS];
    unsigned field_count;
    struct sl_str body;
    bool keep_alive;
    bool expect_continue; /* Expect: 100-continue, and no byte of the body
                           * has arrived. The caller may send 100 and clear
                           * it */
    bool is_head_request; /* method HEAD: the answer has no body */

    /* The state of the parser; see http1.c. */
    size_t used;      /* bytes of the request in the buffer */
    size_t at;        /* bytes read so far */
    size_t from;      /* start of the current line or chunk */
    size_t mark;      /* start of the current word, or the colon */
    const char *base; /* address of the buffer, to adjust slices */
    unsigned step;
    uint64_t left; /* of the body or chunk */
    size_t body_at;
    bool chunked;

    /* REFUSED. */
    int status;      /* 400, 413, 414, 417, 431, 501, 505 */
    const char *why; /* the reason in English */
};

enum sl_http1_result {
    SL_HTTP1_MORE,    /* not complete yet */
    SL_HTTP1_DONE,    /* complete; it has `used` bytes */
    SL_HTTP1_REFUSED, /* answer `status` and close */
};

/* Prepare for the next request. */
void sl_http1_begin(struct sl_http1 *parser,
                    const struct sl_http1_limits *limits);

/* Read the buffer, which begins with the request. Call again when more bytes
 * have arrived; the buffer may have moved. `in` changes only where a chunked
 * body is joined: its framing may be removed, so that `in->len` shrinks. Bytes
 * after the request never change. The result does not depend on how the bytes
 * arrive. */
SL_MUST_USE enum sl_http1_result sl_http1_read(struct sl_http1 *parser,
                                               struct sl_buf *in);

/* The first value of a field, or an empty slice with a NULL pointer. Names
 * are compared without case. `count` (may be NULL) receives the number of
 * fields. */
struct sl_str sl_http1_field(const struct sl_http1 *parser, struct sl_str name,
                             unsigned *count);

/* ---- answers ---- */

/* "200 OK" for 200; "" for an unknown status. */
const char *sl_http1_reason(int status);

/* An answer: first line, Date, the fields, Content-Length and, unless
 * keep_alive, Connection: close; then the body unless `head`. 1xx, 204 and 304
 * have neither body nor Content-Length. */
struct sl_http1_answer {
    int status;
    const struct sl_http1_field *fields;
    unsigned field_count;
    struct sl_str content_type; /* "": none */
    struct sl_str body;
    bool keep_alive;
    bool endless; /* no Content-Length: ends with the connection, or */
    bool chunked; /* with an empty chunk, if `minor` is 1 */
    bool head;
    unsigned minor;     /* of the request; 0 needs Connection: keep-alive */
    struct sl_str date; /* "Sun, 15 Nov 2026 07:00:00 GMT"; "": none */
};

/* Append the answer. Invalid fields are left out: values with control bytes,
 * names that are not tokens, and the names that frame an answer (Connection,
 * Content-Length, Transfer-Encoding). SLUICE_EINVAL for a status outside
 * 100-999, SLUICE_EFULL or SLUICE_ENOMEM; then nothing was appended. */
SL_MUST_USE int sl_http1_write(struct sl_buf *out,
                               const struct sl_http1_answer *answer);

/* Append a part of a chunked body. An empty part is its end. */
SL_MUST_USE int sl_http1_write_chunk(struct sl_buf *out, struct sl_str part);

#endif
