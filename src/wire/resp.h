/* resp.h -- the Redis protocol, versions 2 and 3: commands and replies, read
 * and written.
 *
 * A server reads commands and writes replies; a client writes commands and
 * reads replies.
 *
 * The readers return DONE, MORE or REFUSED and continue where they stopped; the
 * bytes may move in between. They allocate nothing and copy nothing: slices
 * point into the bytes. The result depends on the bytes, not on how they
 * arrive.
 *
 * A length has only digits: no sign, no leading zero, not above its maximum,
 * and CR LF after it. Two readers that disagree on a length would see different
 * commands. After a refusal the connection is closed.
 */
#ifndef SL_WIRE_RESP_H
#define SL_WIRE_RESP_H

#include <string.h>

#include "base/buf.h"
#include "base/str.h"

enum sl_resp_result {
    SL_RESP_DONE,
    SL_RESP_MORE,    /* valid so far */
    SL_RESP_REFUSED, /* see `why`; stays refused */
};

/* ---- commands ---- */

#define SL_RESP_ARGS    64
#define SL_RESP_BULK    ((size_t)64 << 10)  /* bytes of one argument */
#define SL_RESP_INLINE  ((size_t)8 << 10)   /* bytes of a command on one line */
#define SL_RESP_COMMAND ((size_t)128 << 10) /* bytes of a command */

/* An array of bulk strings, or a line: words separated by blanks, in double
 * quotes with \n \r \t \a \b \\ \" \xHH, in single quotes with \' only. */
struct sl_resp_command {
    struct sl_str args[SL_RESP_ARGS];
    unsigned count;  /* 0: an empty line or array */
    size_t used;     /* DONE: its length */
    const char *why; /* REFUSED: the message, as Redis words it */
    bool is_inline;  /* sent as a line */

    /* Private to the reader. */
    const char *base; /* address of the bytes */
    unsigned want;    /* arguments of the array; 0: not known yet */
    size_t at;        /* bytes read so far */
    size_t bulk;      /* length of the next argument + 1, or 0 */
};

/* Prepare for a command. Old slices are not cleared; `count` bounds them. */
static inline void sl_resp_command_begin(struct sl_resp_command *command)
{
    command->count = command->want = 0;
    command->at = command->bulk = 0;
    command->base = NULL;
    command->why = NULL;
}

/* Read the command at the start of `bytes`. Quoted words are decoded in place,
 * so the bytes of a line may change. */
SL_MUST_USE enum sl_resp_result
sl_resp_command_read(struct sl_resp_command *command, char *bytes, size_t len);

/* Append a command. SLUICE_EFULL, SLUICE_ENOMEM: nothing was appended. */
SL_MUST_USE int sl_resp_command_write(struct sl_buf *out,
                                      const struct sl_str *args,
                                      unsigned count);

/* ---- replies ---- */

#define SL_RESP_DEPTH 16                /* nested arrays */
#define SL_RESP_REPLY ((size_t)1 << 20) /* bytes of a reply, by default */

enum sl_resp_type {
    SL_RESP_SIMPLE,     /* +  text */
    SL_RESP_ERROR,      /* -  text */
    SL_RESP_INTEGER,    /* :  integer */
    SL_RESP_STRING,     /* $  text */
    SL_RESP_NIL,        /* _  $-1  *-1 */
    SL_RESP_DOUBLE,     /* ,  text: fractions are not used here */
    SL_RESP_BOOLEAN,    /* #  integer: 0 or 1 */
    SL_RESP_BIG_NUMBER, /* (  text */
    SL_RESP_BULK_ERROR, /* !  text */
    SL_RESP_VERBATIM,   /* =  text, and format: "txt", "mkd" */
    SL_RESP_ARRAY,      /* *  count values follow */
    SL_RESP_MAP,        /* %  likewise: names and values alternate */
    SL_RESP_SET,        /* ~  likewise */
    SL_RESP_PUSH,       /* >  likewise; not the answer to a command */
    SL_RESP_ATTRIBUTE,  /* |  likewise; the value it describes follows */
};

struct sl_resp_value {
    enum sl_resp_type type;
    struct sl_str text;
    struct sl_str format; /* VERBATIM */
    int64_t integer;
    size_t count; /* values that follow; a pair of a map is two */
};

/* Finds the end of a reply. */
struct sl_resp_reply {
    size_t most; /* maximum bytes */
    size_t used; /* DONE: its length */
    const char *why;

    /* Private to the reader. */
    size_t at;
    unsigned depth;
    struct {
        size_t left;    /* values to come */
        bool attribute; /* the described value follows */
    } open[SL_RESP_DEPTH + 1];
};

/* Prepare for a reply of at most `most` bytes. */
void sl_resp_reply_begin(struct sl_resp_reply *reply, size_t most);

/* Is there a whole reply at the start of `bytes`? */
SL_MUST_USE enum sl_resp_result sl_resp_reply_read(struct sl_resp_reply *reply,
                                                   struct sl_str bytes);

/* Remove the first value of a reply that was read from `rest`. The values of a
 * container follow it. Invalid bytes become NIL. */
struct sl_resp_value sl_resp_next(struct sl_str *rest);

/* Skip the next value with everything inside. */
void sl_resp_skip(struct sl_str *rest);

/* ---- writing replies ---- */

/* Each appends one value. SLUICE_EFULL, SLUICE_ENOMEM: nothing was appended.
 * `version` is 2 or 3. In version 2, maps are arrays of twice the length, and
 * types of version 3 are strings. Line ends in simple strings and errors become
 * blanks. */
SL_MUST_USE int sl_resp_write_simple(struct sl_buf *out, struct sl_str text);
SL_MUST_USE int sl_resp_write_error(struct sl_buf *out, struct sl_str text);
SL_MUST_USE int sl_resp_write_integer(struct sl_buf *out, int64_t n);
SL_MUST_USE int sl_resp_write_string(struct sl_buf *out, struct sl_str text);
SL_MUST_USE int sl_resp_write_nil(struct sl_buf *out, unsigned version);
SL_MUST_USE int sl_resp_write_verbatim(struct sl_buf *out, unsigned version,
                                       const char format[3],
                                       struct sl_str text);

/* The head; `count` values (pairs of a map) must follow. */
SL_MUST_USE int sl_resp_write_array(struct sl_buf *out, size_t count);
SL_MUST_USE int sl_resp_write_map(struct sl_buf *out, unsigned version,
                                  size_t count);

/* An array of integers. */
SL_MUST_USE int sl_resp_write_integers(struct sl_buf *out,
                                       const int64_t *integers, size_t count);

/* ---- values in reserved memory ----
 *
 * The caller has reserved the memory. Each returns the position after the
 * value.
 */

#define SL_RESP_HEAD                                                           \
    (SL_DIGITS + 4) /* the most of a number: with type, sign,                  \
                     * CR LF */

static inline char *sl_resp_put_number(char *to, char type, int64_t n)
{
    *to++ = type;
    if (n < 0)
        *to++ = '-';
    to += sl_digits(n < 0 ? 0 - (uint64_t)n : (uint64_t)n, to);
    return SL_PUT(to, "\r\n");
}

/* SL_RESP_HEAD + text.len + 2 bytes at most. */
static inline char *sl_resp_put_string(char *to, struct sl_str text)
{
    to = sl_resp_put_number(to, '$', (int64_t)text.len);
    if (text.len > 0)
        memcpy(to, text.at, text.len);
    return SL_PUT(to + text.len, "\r\n");
}

#endif
