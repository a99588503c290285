/* test_answers.c -- records answers, for the test of the API description; test
 * builds only.
 *
 * If TEST_ANSWERS names a file, each JSON answer is appended to it, once for
 * each form:
 *
 *     POST /v1/check 200 application/json 655
 *     {"allowed":true,...}
 *
 * The form of an answer is its method, status, members and types. Daemons of
 * several tests append to one file: each answer is one write.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "server/http/http.h"
#include "sluiced/daemon.h"

#define BODY_MOST 65536
#define FORMS     65536

static int to = -1;
static unsigned char seen[FORMS / 8];

static uint64_t mix(uint64_t hash, unsigned char c)
{
    return (hash ^ c) * 1099511628211u;
}

static uint64_t mix_str(uint64_t hash, struct sl_str text)
{
    for (size_t i = 0; i < text.len; i++)
        hash = mix(hash, (unsigned char)text.at[i]);
    return hash;
}

/* Returns where a string of JSON that begins at `i` ends. */
static size_t string_end(struct sl_str text, size_t i)
{
    for (i++; i < text.len && text.at[i] != '"'; i++)
        i += text.at[i] == '\\';
    return i;
}

/* Mix members, and the types of values. */
static uint64_t mix_form(uint64_t hash, struct sl_str text)
{
    for (size_t i = 0; i < text.len; i++) {
        size_t from = i;

        if (text.at[i] == '"') {
            i = string_end(text, i);
            if (i + 1 < text.len && text.at[i + 1] == ':')
                hash = mix_str(hash, (struct sl_str){text.at + from, i - from});
        }
        if (text.at[from] < '0' || text.at[from] > '9')
            hash = mix(hash, (unsigned char)text.at[from]);
    }
    return hash;
}

/* Is this the first answer of its form? */
static bool is_new(const struct sl_http_call *call)
{
    struct sl_str path = call->path;
    uint64_t hash = 14695981039346656037u;
    unsigned slashes = 0;

    for (size_t i = 0; i < path.len && slashes < 3; i++)
        if (path.at[i] == '/' && ++slashes == 3)
            path.len = i;
    hash = mix_str(hash, call->request->method);
    hash = mix_str(hash, path);
    hash = mix(mix(hash, (unsigned char)call->status),
               (unsigned char)(call->status >> 8));
    hash = mix_form(hash, call->body) % FORMS;
    if (seen[hash / 8] & 1u << hash % 8)
        return false;
    seen[hash / 8] |= (unsigned char)(1u << hash % 8);
    return true;
}

static void record(const struct sl_http_call *call)
{
    char head[1024];
    int len;

    if (!call->request || call->stream || call->body.len == 0 ||
        call->body.len > BODY_MOST || call->path.len == 0 ||
        !memmem(call->content_type.at, call->content_type.len, "json", 4) ||
        !is_new(call))
        return;
    len = snprintf(head, sizeof(head), "%.*s %.*s %d %.*s %zu\n",
                   (int)call->request->method.len, call->request->method.at,
                   (int)call->path.len, call->path.at, call->status,
                   (int)call->content_type.len, call->content_type.at,
                   call->body.len);
    if (len > 0 && (size_t)len < sizeof(head)) {
        struct iovec parts[] = {
            {head,                             (size_t)len   },
            {(void *)(uintptr_t)call->body.at, call->body.len},
            {(char[]){"\n"},                   1             }
        };

        if (writev(to, parts, 3) < 0)
            abort(); /* the test would check nothing */
    }
}

void (*sl_test_answers(void))(const struct sl_http_call *)
{
    const char *name = getenv("TEST_ANSWERS");

    if (name && to < 0)
        to = open(name, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    return to < 0 ? NULL : record;
}
