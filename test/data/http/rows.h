/* rows.h -- the requests of accepted.def and refused.def as tables. */
#ifndef SL_HTTP_ROWS_H
#define SL_HTTP_ROWS_H

#include "base/str.h"

#define GET     "GET / HTTP/1.1\r\n"
#define POST    "POST / HTTP/1.1\r\n"
#define HOST    "Host: a\r\n"
#define CHUNKED POST HOST "Transfer-Encoding: chunked\r\n\r\n"

struct refused {
    int status;
    const char *what;
    struct sl_str text;
};

/* SL_STR for tables. */
#define SLICE(literal)                                                         \
    {                                                                          \
        ("" literal), sizeof("" literal) - 1                                   \
    }

static const struct refused refused_rows[] = {
#define ROW(status, what, text) {status, what, SLICE(text)},
#include "refused.def"
};

struct accepted {
    const char *what;
    struct sl_str text;
    struct sl_str method, target, host, body;
    unsigned fields;
    bool keep_alive;
};

static const struct accepted accepted_rows[] = {
#define ROW(what, text, method, target, host, body, fields, keep_alive)        \
    {what,        SLICE(text), SLICE(method), SLICE(target),                   \
     SLICE(host), SLICE(body), fields,        keep_alive},
#include "accepted.def"
};

#endif
