/* log.c -- one line per event.
 *
 * A line is built on the stack and written by one write(), so that lines of
 * threads do not mix; up to LINE bytes the kernel guarantees this for pipes
 * too. Pairs that do not fit are left out, and the line has `cut`; a long value
 * ends in "...". Control characters and invalid UTF-8 are escaped in all
 * formats.
 *
 * Floods. A place is the calling instruction and the text of its event. Its
 * slot has the second of its last line and a count; beyond PER_SECOND it only
 * counts. When all PLACES slots are in use, the one that was silent for longest
 * is reused and its count is lost.
 *
 * errno is preserved.
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
#include "base/diag.h"

#define LINE       ((size_t)4096) /* PIPE_BUF */
#define TAIL       ((size_t)64)   /* reserved for the end of a line */
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
    unsigned events; /* in that second */
    uint64_t left_out;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of places */
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
    struct sl_str rest = sl_str_c(text);
    size_t from = line->len;

    while (rest.len > 0 && line->len - from < VALUE_MOST && !line->full) {
        size_t n = sl_diag_char_len(rest);
        char c = rest.at[0];

        if (c == '"' || c == '\\')
            put_text(line, c == '"' ? "\\\"" : "\\\\");
        else if (n > 0)
            put(line, rest.at, n);
        else
            put_hidden(line, (unsigned char)c);
        rest = sl_str_from(rest, n > 0 ? n : 1);
    }
    if (rest.len > 0)
        put_text(line, "...");
}

/* Can it be written without quotation marks? */
static bool is_plain(const char *text)
{
    struct sl_str rest = sl_str_c(text);

    if (rest.len == 0 || rest.len > VALUE_MOST)
        return false;
    for (size_t n; rest.len > 0; rest = sl_str_from(rest, n)) {
        n = sl_diag_char_len(rest);
        if (n == 0 || strchr(" \"\\=", rest.at[0]))
            return false;
    }
    return true;
}

/* Write one pair, or nothing if it does not fit. */
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

    if (line->format == SL_LOG_JOURNAL) { /* it adds the time */
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

/* Uses the TAIL bytes. */
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

/* May this place log now? Then *ret is the number of lines left out since its
 * last one. */
static bool may_speak(const void *caller, const char *event, sl_ns now,
                      uint64_t *ret)
{
    int64_t second = now / SL_S + 1; /* 0: the slot is free */
    struct place *p;
    bool may;

    pthread_mutex_lock(&lock);
    p = find_place(caller, hash_text(event));
    if (p->second != second) {
        p->second = second;
        p->events = 0;
    }
    may = p->events < PER_SECOND;
    if (may) {
        p->events++;
        *ret = p->left_out;
        p->left_out = 0;
    } else {
        p->left_out++;
    }
    pthread_mutex_unlock(&lock);
    return may;
}

/* Is `fd` the stream "DEVICE:INODE" in JOURNAL_STREAM? Children of a service
 * inherit the variable, even with their output in a file. */
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

    /* A failure can't be reported. */
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
