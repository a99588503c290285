/* resp.h -- the Redis protocol, versions 2 and 3: commands and replies, read
 * and written.
 *
 * One codec for both sides. A server reads commands (resp_command.c) and
 * writes replies (resp_write.c); a client writes commands and reads replies
 * (resp_reply.c).
 *
 * The readers look at what has come, say DONE, MORE or REFUSED, and go on where
 * they stopped when there is more; the bytes may have moved in between. They
 * allocate nothing and copy nothing: slices point into the bytes. What they
 * say depends on the bytes alone, never on how they were cut.
 *
 * A length is digits and nothing else: no sign, no leading zero, nothing that
 * is more than allowed, and CR LF behind it. Whoever reads one differently from
 * his neighbour hands him commands that nobody sent. After a refusal nothing
 * behind it can be understood, so the connection is closed.
 */
#ifndef SL_WIRE_RESP_H
#define SL_WIRE_RESP_H

#include <string.h>

#include "base/buf.h"
#include "base/str.h"

enum sl_resp_result {
    SL_RESP_DONE,
    SL_RESP_MORE,    /* nothing is wrong so far */
    SL_RESP_REFUSED, /* see `why`; it stays so */
};

/* ---- commands ---- */

#define SL_RESP_ARGS    64
#define SL_RESP_BULK    ((size_t)64 << 10)  /* bytes of one argument */
#define SL_RESP_INLINE  ((size_t)8 << 10)   /* of a command on one line */
#define SL_RESP_COMMAND ((size_t)128 << 10) /* of a command in all */

/* An array of bulk strings, or a line: words parted by blanks, in double quotes
 * with \n \r \t \a \b \\ \" \xHH, in single quotes with \' alone. */
struct sl_resp_command {
    struct sl_str args[SL_RESP_ARGS];
    unsigned count;  /* 0: an empty line or array; there is nothing to do */
    size_t used;     /* DONE: how long it is */
    const char *why; /* REFUSED: a sentence, as Redis words it */
    bool is_inline;  /* it came on one line */

    /* The reader's own. */
    const char *base; /* where the bytes were */
    unsigned want;    /* arguments of the array; 0: not known yet */
    size_t at;        /* all before it is read */
    size_t bulk;      /* of the argument that is next: its length + 1, or 0 */
};

/* Before each command. Slices are left alone: of those only `count` count. */
static inline void sl_resp_command_begin(struct sl_resp_command *command)
{
    command->count = command->want = 0;
    command->at = command->bulk = 0;
    command->base = NULL;
    command->why = NULL;
}

/* Read the command that `bytes` begin with. What is in quotes is unpacked in
 * its place, so the bytes of a line may change. */
SL_MUST_USE enum sl_resp_result
sl_resp_command_read(struct sl_resp_command *command, char *bytes, size_t len);

/* Append a command. SLUICE_EFULL, SLUICE_ENOMEM: nothing was appended. */
SL_MUST_USE int sl_resp_command_write(struct sl_buf *out,
                                      const struct sl_str *args,
                                      unsigned count);

/* ---- replies ---- */

#define SL_RESP_DEPTH 16                /* of arrays in arrays */
#define SL_RESP_REPLY ((size_t)1 << 20) /* bytes of a reply, usually */

enum sl_resp_type {
    SL_RESP_SIMPLE,     /* +  text */
    SL_RESP_ERROR,      /* -  text */
    SL_RESP_INTEGER,    /* :  integer */
    SL_RESP_STRING,     /* $  text */
    SL_RESP_NIL,        /* _  $-1  *-1 */
    SL_RESP_DOUBLE,     /* ,  text: nobody here counts in fractions */
    SL_RESP_BOOLEAN,    /* #  integer: 0 or 1 */
    SL_RESP_BIG_NUMBER, /* (  text */
    SL_RESP_BULK_ERROR, /* !  text */
    SL_RESP_VERBATIM,   /* =  text, and format: "txt", "mkd" */
    SL_RESP_ARRAY,      /* *  count values follow */
    SL_RESP_MAP,        /* %  likewise: names and values by turns */
    SL_RESP_SET,        /* ~  likewise */
    SL_RESP_PUSH,       /* >  likewise; it answers nothing that was asked */
    SL_RESP_ATTRIBUTE,  /* |  likewise; and what they are about comes then */
};

struct sl_resp_value {
    enum sl_resp_type type;
    struct sl_str text;
    struct sl_str format; /* VERBATIM */
    int64_t integer;
    size_t count; /* of the values that follow; a pair of a map is two */
};

/* Finds the end of a reply, whatever it has inside. */
struct sl_resp_reply {
    size_t most; /* bytes that it may have */
    size_t used; /* DONE: how long it is */
    const char *why;

    /* The reader's own. */
    size_t at;
    unsigned depth;
    struct {
        size_t left;    /* values that are still to come */
        bool attribute; /* and then what they are about */
    } open[SL_RESP_DEPTH + 1];
};

/* Before each reply. `most` is the largest that is taken. */
void sl_resp_reply_begin(struct sl_resp_reply *reply, size_t most);

/* Is there a whole reply at the beginning of `bytes`? */
SL_MUST_USE enum sl_resp_result sl_resp_reply_read(struct sl_resp_reply *reply,
                                                   struct sl_str bytes);

/* Then walk over it: take the first value off `rest`. Arrays and their like
 * are followed by what they have, each taken off in turn. Of what is no reply
 * that was read, NIL is made. */
struct sl_resp_value sl_resp_next(struct sl_str *rest);

/* Pass over the next value with all that is inside. */
void sl_resp_skip(struct sl_str *rest);

/* ---- writing replies ---- */

/* Each appends one value: SLUICE_EFULL, SLUICE_ENOMEM, and then nothing was
 * appended. `version` is 2 or 3; what 2 does not have is written as its clients
 * know it: maps as arrays twice as long, texts for what has a type of its own
 * in 3. Line ends in simple strings and errors become
 * blanks. */
SL_MUST_USE int sl_resp_write_simple(struct sl_buf *out, struct sl_str text);
SL_MUST_USE int sl_resp_write_error(struct sl_buf *out, struct sl_str text);
SL_MUST_USE int sl_resp_write_integer(struct sl_buf *out, int64_t n);
SL_MUST_USE int sl_resp_write_string(struct sl_buf *out, struct sl_str text);
SL_MUST_USE int sl_resp_write_nil(struct sl_buf *out, unsigned version);
SL_MUST_USE int sl_resp_write_verbatim(struct sl_buf *out, unsigned version,
                                       const char format[3],
                                       struct sl_str text);

/* The head; `count` values (pairs of a map) are to follow. */
SL_MUST_USE int sl_resp_write_array(struct sl_buf *out, size_t count);
SL_MUST_USE int sl_resp_write_map(struct sl_buf *out, unsigned version,
                                  size_t count);

/* An array of integers, at once. */
SL_MUST_USE int sl_resp_write_integers(struct sl_buf *out,
                                       const int64_t *integers, size_t count);

/* ---- values of the Redis protocol for those who have made room for
 * all of them at once. Each returns the byte behind what it wrote.
 */

#define SL_RESP_HEAD                                                           \
    (SL_DIGITS + 4) /* the most of a number: with type, sign,                  \
                     * CR LF */

/* Bytes as they are: whole values that never change, written together. */
#define SL_RESP_PUT(to, literal)                                               \
    ((char *)memcpy((to), "" literal, sizeof(literal) - 1) +                   \
     (sizeof(literal) - 1))

static inline char *sl_resp_put_number(char *to, char type, int64_t n)
{
    *to++ = type;
    if (n < 0)
        *to++ = '-';
    to += sl_digits(n < 0 ? 0 - (uint64_t)n : (uint64_t)n, to);
    return SL_RESP_PUT(to, "\r\n");
}

/* SL_RESP_HEAD + text.len + 2 bytes at most. */
static inline char *sl_resp_put_string(char *to, struct sl_str text)
{
    to = sl_resp_put_number(to, '$', (int64_t)text.len);
    if (text.len > 0)
        memcpy(to, text.at, text.len);
    return SL_RESP_PUT(to + text.len, "\r\n");
}

#endif
