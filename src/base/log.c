/* log.c -- one line per event.
 *
 * A line is put together on the stack and goes out by one write(), so that
 * lines of several threads do not mix: up to LINE bytes that is what the
 * kernel promises for pipes too. What does not fit is left out in whole pairs,
 * and the line says so (`cut`); a long value ends in "...".
 *
 * Values are quoted, never trusted. In all formats control characters, also
 * the eight-bit ones, and what is not UTF-8 are escaped: a line can neither be
 * broken in two nor move a cursor.
 *
 * Floods. A place is the calling instruction and the text of its event. Each
 * has a slot with the second that it last spoke in and how often; beyond
 * PER_SECOND it only counts. There are PLACES slots, more than a program has
 * events that come in floods; when they are all in use, the one that has been
 * silent for longest is given to the new place and its count is lost.
 *
 * errno is left alone: who logs a failure may still want to look at it.
 */
#include "base/log.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"

#define LINE       ((size_t)4096) /* PIPE_BUF */
#define TAIL       ((size_t)64)   /* kept free for what ends a line */
#define VALUE_MOST ((size_t)1024)
#define PLACES     64
#define PER_SECOND 10

static const char *const level_words[] = {"error", "warn", "info", "debug"};

/* Syslog's numbers, which the journal reads. */
static const int level_numbers[] = {3, 4, 6, 7};

static struct {
    _Atomic int level, format, fd;
} out = {SL_LOG_INFO, SL_LOG_AUTO, STDERR_FILENO};

struct place {
    const void *caller;
    uint64_t event; /* a hash of its text */
    int64_t second;
    unsigned spoken; /* in that second, left out or not */
    uint64_t left_out;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* over places */
static struct place places[PLACES];

struct line {
    char bytes[LINE];
    size_t len;
    enum sl_log_format format;
    bool full; /* something did not fit */
};

static void put(struct line *line, const char *text, size_t len)
{
    if (line->full || len > LINE - TAIL - line->len) {
        line->full = true;
        return;
    }
    memcpy(line->bytes + line->len, text, len);
    line->len += len;
}

static void put_text(struct line *line, const char *text)
{
    put(line, text, strlen(text));
}

/* The length of the character at `p` (NUL-terminated) if it may be shown as
 * it is, else 0. */
static size_t shown_len(const unsigned char *p)
{
    unsigned char c = p[0];
    size_t len = c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : 2;

    if (c < 0x80)
        return c >= 0x20 && c != 0x7f;
    if (c < 0xc2 || c > 0xf4)
        return 0;
    for (size_t i = 1; i < len; i++)
        if ((p[i] & 0xc0) != 0x80) /* also at the NUL */
            return 0;
    if ((c == 0xc2 && p[1] < 0xa0) ||  /* eight-bit controls */
        (c == 0xe0 && p[1] < 0xa0) ||  /* longer than needed */
        (c == 0xed && p[1] >= 0xa0) || /* halves of UTF-16 */
        (c == 0xf0 && p[1] < 0x90) ||  /* longer than needed */
        (c == 0xf4 && p[1] >= 0x90))   /* beyond U+10FFFF */
        return 0;
    return len;
}

static void put_hidden(struct line *line, unsigned char c)
{
    bool json = line->format == SL_LOG_JSON;
    char text[8];

    if (c == '\n' || c == '\t' || c == '\r')
        put_text(line, c == '\n' ? "\\n" : c == '\t' ? "\\t" : "\\r");
    else if (json && c >= 0x80)
        put_text(line, "\\ufffd"); /* JSON has no bytes, only characters */
    else
        put(line, text,
            (size_t)snprintf(text, sizeof(text), json ? "\\u%04x" : "\\x%02x",
                             c));
}

static void put_escaped(struct line *line, const char *text)
{
    const unsigned char *p = (const unsigned char *)text;
    size_t from = line->len;

    while (*p && line->len - from < VALUE_MOST && !line->full) {
        size_t n = shown_len(p);

        if (*p == '"' || *p == '\\')
            put_text(line, *p == '"' ? "\\\"" : "\\\\");
        else if (n > 0)
            put(line, (const char *)p, n);
        else
            put_hidden(line, *p);
        p += n > 0 ? n : 1;
    }
    if (*p)
        put_text(line, "...");
}

/* May it stand without quotation marks? */
static bool is_plain(const char *text)
{
    const unsigned char *p = (const unsigned char *)text;

    if (!*p || strlen(text) > VALUE_MOST)
        return false;
    for (size_t n; *p; p += n) {
        n = shown_len(p);
        if (n == 0 || strchr(" \"\\=", *p))
            return false;
    }
    return true;
}

/* One pair, whole or not at all. */
static void put_pair(struct line *line, const char *key, const char *value)
{
    size_t from = line->len;
    bool quoted = line->format == SL_LOG_JSON || !is_plain(value);

    if (line->format == SL_LOG_JSON) {
        put_text(line, line->len > 1 ? ",\"" : "\"");
        put_escaped(line, key);
        put_text(line, "\":");
    } else {
        put_text(line, " ");
        put_escaped(line, key);
        put_text(line, "=");
    }
    if (quoted)
        put_text(line, "\"");
    put_escaped(line, value);
    if (quoted)
        put_text(line, "\"");
    if (line->full)
        line->len = from;
}

/* "2026-11-15T07:46:01.123Z" */
static void print_time(sl_ns now, char text[32])
{
    time_t seconds = (time_t)(now / SL_S);
    struct tm tm = {0};
    size_t len;

    gmtime_r(&seconds, &tm);
    len = strftime(text, 32, "%Y-%m-%dT%H:%M:%S", &tm);
    snprintf(text + len, 32 - len, ".%03dZ", (int)(now % SL_S / SL_MS));
}

static void put_head(struct line *line, enum sl_log_level level,
                     const char *event, sl_ns now)
{
    char text[48], stamp[32];

    if (line->format == SL_LOG_JOURNAL) { /* which has a clock itself */
        snprintf(text, sizeof(text), "<%d>", level_numbers[level]);
        put_text(line, text);
        put_escaped(line, event);
        return;
    }
    print_time(now, stamp);
    if (line->format == SL_LOG_JSON) {
        put_text(line, "{");
        put_pair(line, "time", stamp);
        put_pair(line, "level", level_words[level]);
        put_pair(line, "event", event);
    } else {
        snprintf(text, sizeof(text), "%s %-5s ", stamp, level_words[level]);
        put_text(line, text);
        put_escaped(line, event);
    }
}

/* What TAIL is for. */
static void put_tail(struct line *line, uint64_t left_out)
{
    bool json = line->format == SL_LOG_JSON;
    char *at = line->bytes + line->len;
    char *end = line->bytes + LINE;

    if (left_out > 0)
        at += snprintf(at, (size_t)(end - at),
                       json ? ",\"left_out\":%" PRIu64 : " left_out=%" PRIu64,
                       left_out);
    if (line->full)
        at += snprintf(at, (size_t)(end - at), json ? ",\"cut\":true" : " cut");
    at += snprintf(at, (size_t)(end - at), json ? "}\n" : "\n");
    line->len = (size_t)(at - line->bytes);
}

static uint64_t hash_text(const char *text)
{
    uint64_t h = UINT64_C(0xcbf29ce484222325);

    for (; *text; text++)
        h = (h ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
    return h;
}

static struct place *find_place(const void *caller, uint64_t event)
{
    struct place *oldest = &places[0];

    for (size_t i = 0; i < PLACES; i++) {
        struct place *p = &places[i];

        if (p->caller == caller && p->event == event)
            return p;
        if (p->second < oldest->second)
            oldest = p;
    }
    *oldest = (struct place){.caller = caller, .event = event};
    return oldest;
}

/* May this place speak now? Then *ret is how many of its lines were left out
 * since it last did. */
static bool may_speak(const void *caller, const char *event, sl_ns now,
                      uint64_t *ret)
{
    int64_t second = now / SL_S + 1; /* 0 is a slot that nobody uses */
    struct place *p;
    bool may;

    pthread_mutex_lock(&lock);
    p = find_place(caller, hash_text(event));
    if (p->second != second) {
        p->second = second;
        p->spoken = 0;
    }
    may = p->spoken < PER_SECOND;
    if (may) {
        p->spoken++;
        *ret = p->left_out;
        p->left_out = 0;
    } else {
        p->left_out++;
    }
    pthread_mutex_unlock(&lock);
    return may;
}

/* Is `fd` the stream that systemd names "DEVICE:INODE" in JOURNAL_STREAM? The
 * variable alone proves nothing: whoever was started from a service with its
 * output in a file has it too. */
static bool is_journal(int fd)
{
    const char *stream = getenv("JOURNAL_STREAM");
    struct stat st;
    char own[64];

    if (!stream || fstat(fd, &st))
        return false;
    snprintf(own, sizeof(own), "%ju:%ju", (uintmax_t)st.st_dev,
             (uintmax_t)st.st_ino);
    return strcmp(stream, own) == 0;
}

static enum sl_log_format choose_format(int fd)
{
    if (is_journal(fd))
        return SL_LOG_JOURNAL;
    return isatty(fd) ? SL_LOG_HUMAN : SL_LOG_JSON;
}

void sl_log_open(enum sl_log_level level, enum sl_log_format format, int fd)
{
    if (format == SL_LOG_AUTO)
        format = choose_format(fd);
    atomic_store(&out.level, (int)level);
    atomic_store(&out.format, (int)format);
    atomic_store(&out.fd, fd);
}

static void write_line(const struct line *line)
{
    int fd = atomic_load(&out.fd);

    /* There is nobody to tell of a failure. */
    while (write(fd, line->bytes, line->len) < 0 && errno == EINTR)
        ;
}

void sl_log(enum sl_log_level level, const char *event, ...)
{
    const void *caller = __builtin_return_address(0);
    int was = errno;
    uint64_t left_out = 0;
    struct line line;
    const char *key, *value;
    va_list args;
    sl_ns now;

    if ((int)level > atomic_load(&out.level))
        return;
    now = sl_clock_wall();
    if (may_speak(caller, event, now, &left_out)) {
        line.len = 0;
        line.full = false;
        line.format = (enum sl_log_format)atomic_load(&out.format);
        if (line.format == SL_LOG_AUTO)
            line.format = choose_format(atomic_load(&out.fd));
        put_head(&line, level, event, now);
        va_start(args, event);
        while ((key = va_arg(args, const char *)) != NULL) {
            value = va_arg(args, const char *);
            if (value)
                put_pair(&line, key, value);
        }
        va_end(args);
        put_tail(&line, left_out);
        write_line(&line);
    }
    errno = was;
}
