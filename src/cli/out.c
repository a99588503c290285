/* out.c -- what errands read and print. */
#include "cli/out.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "wire/json.h"

#define POLICY_BYTES (1024 * 1024 + 1) /* one more than a policy may have */
#define PIECE        16384

/* Eight-bit controls, as UTF-8 spells them. */
static bool is_c1(const unsigned char *p)
{
    return p[0] == 0xc2 && p[1] >= 0x80 && p[1] < 0xa0;
}

void sl_out_clean(FILE *out, const char *text)
{
    const unsigned char *p = (const unsigned char *)text;

    for (; *p; p++) {
        bool control = (*p < 0x20 && *p != '\n' && *p != '\t') || *p == 0x7f;

        if (is_c1(p))
            p++;
        else if (!control) {
            fputc(*p, out);
            continue;
        }
        fputc('?', out);
    }
}

void sl_out_json(FILE *out, const char *text)
{
    size_t len = strlen(text);
    struct sl_buf buf;

    /* A byte becomes six at most. */
    sl_buf_init(&buf, 6 * len + 2, &sl_alloc_libc);
    if (sl_json_string(&buf, sl_str_c(text)) == 0)
        fwrite(buf.bytes, 1, buf.len, out);
    else
        fputs("null", out);
    sl_buf_done(&buf);
}

static bool is_set(const char *name)
{
    const char *value = getenv(name);

    return value && value[0];
}

static bool wants_colour(FILE *out)
{
    const char *force = getenv("CLICOLOR_FORCE");
    const char *term = getenv("TERM");

    if (is_set("NO_COLOR"))
        return false;
    if (force && force[0] && strcmp(force, "0") != 0)
        return true;
    if (!term || strcmp(term, "dumb") == 0)
        return false;
    return isatty(fileno(out)) == 1;
}

void sl_out_colour(FILE *out, enum sl_colour colour)
{
    static const char *const codes[] = {"\033[0m", "\033[32m", "\033[31m",
                                        "\033[33m"};

    if (wants_colour(out))
        fputs(codes[colour], out);
}

static int read_stream(FILE *in, struct sl_buf *buf)
{
    size_t got;

    do {
        size_t room = buf->ceiling - buf->len;

        if (room > PIECE)
            room = PIECE;
        if (sl_buf_reserve(buf, room)) {
            errno = ENOMEM;
            return -1;
        }
        got = room ? fread(buf->bytes + buf->len, 1, room, in) : 0;
        buf->len += got;
    } while (got > 0);
    return ferror(in) ? -1 : 0;
}

int sl_read_all(struct sl_cli *cli, const char *path, struct sl_buf *buf)
{
    bool standard = strcmp(path, "-") == 0;
    FILE *in = standard ? cli->in : fopen(path, "re");
    int err, why;

    if (!in)
        return -1;
    err = read_stream(in, buf);
    why = errno;
    if (!standard)
        fclose(in);
    errno = why;
    return err;
}

int sl_load_policy(struct sl_cli *cli, const char *path,
                   struct sluice_policy **ret,
                   struct sluice_problems **problems)
{
    struct sl_buf buf;
    int err;

    *problems = NULL;
    if (strcmp(path, "-") != 0)
        return sluice_policy_load(path, NULL, ret, problems);
    sl_buf_init(&buf, POLICY_BYTES, &sl_alloc_libc);
    err = sl_read_all(cli, path, &buf) ? SLUICE_ESYS : 0;
    if (!err)
        err = sluice_policy_parse("stdin", buf.bytes ? buf.bytes : "", buf.len,
                                  NULL, ret, problems);
    sl_buf_done(&buf);
    return err;
}

const char *sl_load_why(const char *path)
{
    if (strcmp(path, "-") == 0)
        return "cannot read standard input";
    return sluice_why();
}

void sl_print_problems(FILE *out, const struct sluice_problems *problems)
{
    const char *text = sluice_problems_text(problems);
    size_t len = strlen(text);

    fputs(text, out);
    if (len > 0 && text[len - 1] != '\n')
        fputc('\n', out);
}

void sl_free_text(char *text)
{
    free(text); /* style: the public header hands it over like this */
}

int sl_need_policy(struct sl_call *call, const char *path,
                   struct sluice_policy **ret)
{
    struct sluice_problems *problems;
    int err = sl_load_policy(call->cli, path, ret, &problems);

    if (err && problems && sluice_problems_count(problems) > 0)
        sl_print_problems(call->cli->err, problems);
    else if (err)
        sl_complain(call, 0, "%s", sl_load_why(path));
    sluice_problems_free(problems);
    return err ? SL_EXIT_POLICY : 0;
}
