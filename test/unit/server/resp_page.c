/* resp_page.c -- what docs/reference/resp.md shows is what happens.
 *
 *     unit-doors-resp_page resp.md          compare
 *     unit-doors-resp_page resp.md print    print the page as it should be
 *
 * In a block of redis, a line behind "> " is a command, and the lines below it
 * are what redis-cli prints of its reply. "# +2s" lets time pass. The block of
 * yaml is the policy. The table of commands is that of commands.def.
 */
#include <stdarg.h>

#include "resp_talk.h"

static char page[65536];
static struct sl_buf out;
static struct talk t;
static sl_ns now;

static void add(struct sl_str text)
{
    if (sl_buf_add(&out, text))
        abort();
}

static void addf(const char *fmt, ...) SL_PRINTF(1, 2);

static void addf(const char *fmt, ...)
{
    char line[4096];
    va_list args;

    va_start(args, fmt);
    vsnprintf(line, sizeof(line), fmt, args);
    va_end(args);
    add(sl_str_c(line));
}

static void read_page(const char *path)
{
    FILE *file = fopen(path, "r");
    size_t len = file ? fread(page, 1, sizeof(page) - 1, file) : 0;

    if (file)
        fclose(file);
    page[len] = '\0';
    if (len == 0 || len == sizeof(page) - 1) {
        printf("Bail out! %s can't be read\n", path);
        exit(1);
    }
}

/* ---- replies, as redis-cli prints them ---- */

static void print_text(struct sl_str text)
{
    add(SL_STR("\""));
    for (size_t i = 0; i < text.len; i++)
        if (text.at[i] == '"' || text.at[i] == '\\')
            addf("\\%c", text.at[i]);
        else
            addf("%c", text.at[i]);
    add(SL_STR("\"\n"));
}

static void print_value(struct sl_str *rest)
{
    struct sl_resp_value v = sl_resp_next(rest);

    switch (v.type) {
    case SL_RESP_SIMPLE:
        addf("%.*s\n", SL_STR_ARG(v.text));
        break;
    case SL_RESP_ERROR:
        addf("(error) %.*s\n", SL_STR_ARG(v.text));
        break;
    case SL_RESP_INTEGER:
        addf("(integer) %" PRId64 "\n", v.integer);
        break;
    case SL_RESP_NIL:
        add(SL_STR("(nil)\n"));
        break;
    case SL_RESP_ARRAY:
        for (size_t i = 0; i < v.count; i++) {
            addf("%*zu) ", v.count > 9 ? 2 : 1, i + 1);
            print_value(rest);
        }
        break;
    default:
        if (v.text.len > 0 && memchr(v.text.at, '\n', v.text.len))
            add(v.text); /* lines for people */
        else
            print_text(v.text);
    }
}

/* ---- blocks ---- */

static void run_command(struct sl_str line)
{
    struct sl_str rest;

    addf("> %.*s\n", SL_STR_ARG(line));
    talk_at(&t, now);
    talk_bytes(&t, line);
    talk(&t, "\r\n");
    rest = sl_buf_str(&t.out);
    while (rest.len > 0)
        print_value(&rest);
}

static void run_line(struct sl_str line)
{
    sl_ns step;

    if (line.len > 2 && memcmp(line.at, "> ", 2) == 0) {
        run_command(sl_str_from(line, 2));
    } else if (line.len > 3 && memcmp(line.at, "# +", 3) == 0) {
        CHECK_EQ(sl_parse_duration(sl_str_from(line, 3), &step, NULL), 0);
        now += step;
        addf("%.*s\n", SL_STR_ARG(line));
    } /* anything else is a reply, and comes anew */
}

static void print_commands(void)
{
    for (unsigned i = 0; i < sl_resp_row_count; i++) {
        const struct sl_resp_row *row = &sl_resp_rows[i];
        char words[32];

        if (row->most == row->least)
            snprintf(words, sizeof(words), "%u", row->least - 1);
        else if (row->most == SL_RESP_ARGS)
            snprintf(words, sizeof(words), "%u and more", row->least - 1);
        else
            snprintf(words, sizeof(words), "%u to %u", row->least - 1,
                     row->most - 1);
        addf("| `%s`%s | %s | %s |\n", row->name, row->is_public ? "*" : "",
             words, row->summary);
    }
}

/* The policy of the page, for the commands that follow it. */
static void open_policy(const char *from)
{
    static char text[4096];
    const char *end = strstr(from, "```\n");

    snprintf(text, sizeof(text), "%.*s", (int)(end ? end - from : 0), from);
    talk_close(&t);
    talk_begin(&t, text, "", NULL);
}

static void make_page(void)
{
    enum { PLAIN, REDIS, TABLE } in = PLAIN;

    for (const char *at = page; *at;) {
        struct sl_str line = {at, strcspn(at, "\n")};

        at += line.len + (at[line.len] == '\n');
        if (sl_str_eq(line, SL_STR("```yaml")))
            open_policy(at);
        if (in == REDIS && !sl_str_eq(line, SL_STR("```"))) {
            run_line(line);
            continue;
        }
        if (in == TABLE && line.len > 0)
            continue;
        in = sl_str_eq(line, SL_STR("```redis")) ? REDIS : PLAIN;
        addf("%.*s\n", SL_STR_ARG(line));
        if (sl_str_eq(line, SL_STR("| command | words | |"))) {
            add(SL_STR("|---|---|---|\n"));
            print_commands();
            in = TABLE;
        }
    }
}

int main(int argc, char **argv)
{
    if (argc < 2)
        return 2;
    read_page(argv[1]);
    sl_buf_init(&out, 1 << 20, &sl_alloc_libc);
    talk_open(&t, "", NULL);
    make_page();
    talk_close(&t);
    if (argc > 2) {
        fwrite(out.bytes, 1, out.len, stdout);
        return 0;
    }
    CASE("the page of the Redis door is what happens");
    add((struct sl_str){"", 1});
    CHECK_STR(page, out.bytes);
    sl_buf_done(&out);
    return CHECK_DONE();
}
