/* http1_scan.h -- what the parts of the HTTP/1.1 codec share; for this room
 * only.
 *
 * A byte belongs to classes, and reading a word is running ahead until a byte
 * is not of its class. Values of fields are most of a head, so they are run
 * through a word at a time.
 */
#ifndef SL_WIRE_HTTP1_SCAN_H
#define SL_WIRE_HTTP1_SCAN_H

#include "base/str.h"
#include "wire/http1.h"

/* Where the reader is; see http1.c. */
enum sl_http1_step {
    SL_HTTP1_START,
    SL_HTTP1_METHOD,
    SL_HTTP1_TARGET,
    SL_HTTP1_VERSION,
    SL_HTTP1_FIELD_LINES,
    SL_HTTP1_BODY,     /* of Content-Length bytes */
    SL_HTTP1_SIZE,     /* of a chunk */
    SL_HTTP1_DATA,     /* of a chunk */
    SL_HTTP1_DATA_END, /* the CRLF behind it */
    SL_HTTP1_TRAILERS,
    SL_HTTP1_COMPLETE,
    SL_HTTP1_BROKEN,
};

/* Classes of bytes. */
enum {
    SL_HTTP1_TOKEN = 1,
    SL_HTTP1_URI = 2,  /* a target may contain it */
    SL_HTTP1_HOST = 4, /* a registered name may contain it */
};

extern const uint8_t sl_http1_classes[256];

static inline bool sl_http1_is(char c, unsigned classes)
{
    return sl_http1_classes[(uint8_t)c] & classes;
}

/* The first place in [at, end) whose byte is not of the class, or `end`. Only
 * one class at a time: four bytes are asked together whether all have it. */
static inline size_t sl_http1_skip(const char *bytes, size_t at, size_t end,
                                   unsigned classes)
{
    while (end - at >= 4 &&
           (sl_http1_classes[(uint8_t)bytes[at]] &
            sl_http1_classes[(uint8_t)bytes[at + 1]] &
            sl_http1_classes[(uint8_t)bytes[at + 2]] &
            sl_http1_classes[(uint8_t)bytes[at + 3]] & classes))
        at += 4;
    while (at < end && sl_http1_is(bytes[at], classes))
        at++;
    return at;
}

/* May the byte be in a value? Everything but control bytes, except tab. */
static inline bool sl_http1_is_text(char c)
{
    return ((uint8_t)c >= 0x20 && c != 0x7f) || c == '\t';
}

/* Mark the control bytes, tabs too, among eight: the top bit of their byte in
 * the word. Of a byte's seven low bits the sum with 1 reaches the top only if
 * it was 0x7f, and with 0x60 unless it was below 0x20; no sum goes beyond its
 * byte. A byte whose top bit was set before is no ASCII and no control. */
static inline uint64_t sl_http1_controls(uint64_t word)
{
    uint64_t low = word & SL_EACH(0x7f);

    return ((low + SL_EACH(1)) | ~(low + SL_EACH(0x60))) & ~word & SL_TOPS;
}

/* The first place in [at, end) whose byte may not be in a value, or `end`. */
static inline size_t sl_http1_skip_text(const char *bytes, size_t at,
                                        size_t end)
{
    while (end - at >= 8) {
        uint64_t marks = sl_http1_controls(sl_swar_load(bytes + at));

        if (marks == 0) {
            at += 8;
            continue;
        }
        at += sl_swar_first(marks);
        if (bytes[at] != '\t')
            return at;
        at++;
    }
    while (at < end && sl_http1_is_text(bytes[at]))
        at++;
    return at;
}

/* Is the token `name` this one, made of small letters and hyphens? A capital
 * differs from its small letter in one bit, and of all tokens' bytes only the
 * hyphen itself becomes a hyphen when that bit is set. */
static inline bool sl_http1_named(struct sl_str name, struct sl_str lower)
{
    if (name.len != lower.len)
        return false;
    for (size_t i = 0; i < name.len; i++)
        if ((name.at[i] | 0x20) != lower.at[i])
            return false;
    return true;
}

static inline struct sl_str sl_http1_trim(const char *bytes, size_t from,
                                          size_t end)
{
    while (from < end && (bytes[from] == ' ' || bytes[from] == '\t'))
        from++;
    while (from < end && (bytes[end - 1] == ' ' || bytes[end - 1] == '\t'))
        end--;
    return (struct sl_str){bytes + from, end - from};
}

enum sl_http1_result sl_http1_refuse(struct sl_http1 *parser, int status,
                                     const char *why);

/* Read on in the field line that began at `from`; bytes below `end` are here.
 * DONE: `at` is behind its CRLF and `mark` is where the colon stood; 0 for the
 * empty line, since no name is empty. */
enum sl_http1_result sl_http1_read_field(struct sl_http1 *parser,
                                         const char *bytes, size_t end);

/* Is this `host[:port]`, as in Host or a target? "" is not. */
bool sl_http1_is_host(struct sl_str text);

/* The head is read: see what its fields mean, and get ready for the body. */
enum sl_http1_result sl_http1_judge(struct sl_http1 *parser);

/* Read on behind the head. */
enum sl_http1_result sl_http1_read_body(struct sl_http1 *parser,
                                        struct sl_buf *in);

#endif
