/* static_files.c -- GET /ui/...: the files of web/, from memory.
 *
 * The files are in the program, as they are and gzipped. Nothing is read from
 * a disk, and nothing in them is secret: they need no token. What a page shows
 * comes from the paths that need one.
 *
 * Each answer has an ETag. A browser asks again each time and gets 304 unless
 * the program was replaced, so that a page and its scripts are of one version.
 *
 * The Content-Security-Policy allows files of this server and nothing else: no
 * inline script or style, no other server, no frame around the page. A page
 * that shows a hostile key cannot run it. Only the usage page may be in a
 * frame: of this server, and of the origins in the settings.
 */
#include "server/http/static_files.h"

#include <stdlib.h>
#include <string.h>

#include "server/http/http_int.h"

#define CONTENT_POLICY                                                         \
    "default-src 'none'; script-src 'self'; style-src 'self'; "                \
    "img-src 'self' data:; connect-src 'self'; base-uri 'none'; "              \
    "form-action 'self'; frame-ancestors "

/* ---- find a file ---- */

#define NAME_MOST   128
#define POLICY_MOST 8192

static int compare(const void *key, const void *row)
{
    const struct sl_str *name = key;
    const struct sl_static_file *file = row;
    size_t len = name->len < file->name.len ? name->len : file->name.len;
    int order = memcmp(name->at, file->name.at, len);

    return order ? order
                 : (name->len > file->name.len) - (name->len < file->name.len);
}

/* The file, or index.html of a folder; or NULL. */
static const struct sl_static_file *find_file(struct sl_str name)
{
    static const char index[] = "index.html";
    char text[NAME_MOST];

    if (name.len + sizeof(index) > sizeof(text))
        return NULL;
    if (name.len == 0 || name.at[name.len - 1] == '/') {
        memcpy(text, name.len ? name.at : "", name.len);
        memcpy(text + name.len, index, sizeof(index) - 1);
        name = (struct sl_str){text, name.len + sizeof(index) - 1};
    }
    return bsearch(&name, sl_static_files, sl_static_file_count,
                   sizeof(sl_static_files[0]), compare);
}

/* ---- the answer ---- */

static bool has_word(struct sl_str list, struct sl_str word)
{
    while (list.len > 0) {
        struct sl_str item = sl_admin_cut(&list, ',');
        struct sl_str name = sl_str_trim(sl_admin_cut(&item, ';'));

        if (sl_str_eq_nocase(name, word))
            return !sl_str_eq(sl_str_trim(item), SL_STR("q=0"));
    }
    return false;
}

/* Returns "HASH" or, of the gzipped bytes, "HASH-gz", with the quotes. */
static struct sl_str tag_of(struct sl_http_call *call,
                            const struct sl_static_file *file, bool gzip)
{
    struct sl_str end = gzip ? SL_STR("-gz\"") : SL_STR("\"");
    size_t len = 1 + file->hash.len + end.len;
    char *text = sl_arena_take(&call->arena, len);

    if (!text)
        return (struct sl_str){NULL, 0};
    text[0] = '"';
    memcpy(text + 1, file->hash.at, file->hash.len);
    memcpy(text + 1 + file->hash.len, end.at, end.len);
    return (struct sl_str){text, len};
}

/* Does If-None-Match have the tag? A proxy may have made it a weak one. */
static bool is_known(const struct sl_http_call *call, struct sl_str tag)
{
    struct sl_str list =
        sl_http1_field(call->request, SL_STR("if-none-match"), NULL);

    while (list.len > 0) {
        struct sl_str item = sl_str_trim(sl_admin_cut(&list, ','));

        if (item.len > 2 && memcmp(item.at, "W/", 2) == 0)
            item = sl_str_from(item, 2);
        if (sl_str_eq(item, tag))
            return true;
    }
    return false;
}

static bool is_below(struct sl_str name, struct sl_str folder)
{
    return name.len >= folder.len &&
           memcmp(name.at, folder.at, folder.len) == 0;
}

/* Returns "" without memory. */
static struct sl_str content_policy(struct sl_http_call *call,
                                    struct sl_str name)
{
    const struct sl_usage_page *page = call->worker->server->usage_page;
    struct sl_str rest = page ? page->origins : SL_STR("");
    struct sl_buf text;
    struct sl_writer w = {.out = &text};
    struct sl_str kept = {"", 0};

    if (!is_below(name, SL_STR("usage/")))
        return SL_STR(CONTENT_POLICY "'none'");
    sl_buf_init(&text, POLICY_MOST, call->worker->alloc);
    sl_writer_add(&w, SL_STR(CONTENT_POLICY "'self'"));
    while (rest.len > 0) {
        sl_writer_add(&w, SL_STR(" "));
        sl_writer_add(&w, sl_admin_cut(&rest, ','));
    }
    if (!w.err) {
        kept.at = sl_arena_copy(&call->arena, sl_buf_str(&text));
        kept.len = kept.at ? text.len : 0;
    }
    sl_buf_done(&text);
    return kept;
}

static void add_fields(struct sl_http_call *call, struct sl_str policy,
                       struct sl_str tag, bool gzip)
{
    sl_http_field(call, SL_STR("ETag"), tag);
    sl_http_field(call, SL_STR("Cache-Control"), SL_STR("no-cache"));
    sl_http_field(call, SL_STR("Vary"), SL_STR("Accept-Encoding"));
    sl_http_field(call, SL_STR("Content-Security-Policy"), policy);
    sl_http_field(call, SL_STR("X-Content-Type-Options"), SL_STR("nosniff"));
    sl_http_field(call, SL_STR("Referrer-Policy"), SL_STR("no-referrer"));
    if (gzip)
        sl_http_field(call, SL_STR("Content-Encoding"), SL_STR("gzip"));
}

/* The page of the demo asks the http listener of a daemon that runs it. */
static bool is_served(const struct sl_http_call *call, struct sl_str name)
{
    const struct sl_usage_page *page = call->worker->server->usage_page;

    return !is_below(name, SL_STR("demo/")) ||
           (call->arg && page && page->demo);
}

void sl_http_static(struct sl_http_call *call)
{
    struct sl_str name = sl_str_from(call->path, sizeof("/ui/") - 1);
    const struct sl_static_file *file =
        is_served(call, name) ? find_file(name) : NULL;
    bool gzip =
        has_word(sl_http1_field(call->request, SL_STR("accept-encoding"), NULL),
                 SL_STR("gzip"));
    struct sl_str tag, policy;

    if (!file) {
        sl_http_refuse(call, 404, "NOT_FOUND",
                       "there is no page %.*s; the console is at /ui/",
                       SL_STR_ARG(call->path));
        return;
    }
    tag = tag_of(call, file, gzip);
    policy = content_policy(call, name);
    if (!tag.at || policy.len == 0) {
        sl_http_no_memory(call);
        return;
    }
    if (is_known(call, tag)) {
        add_fields(call, policy, tag, false);
        sl_http_answer(call, 304, SL_STR(""), SL_STR(""));
        return;
    }
    add_fields(call, policy, tag, gzip);
    sl_http_answer(call, 200, file->type, gzip ? file->gzip : file->data);
}

void sl_http_add_slash(struct sl_http_call *call)
{
    size_t len = call->path.len;
    char *text = sl_arena_take(&call->arena, len + 1);

    if (!text) {
        sl_http_no_memory(call);
        return;
    }
    memcpy(text, call->path.at, len);
    text[len] = '/';
    sl_http_field(call, SL_STR("Location"), (struct sl_str){text, len + 1});
    sl_http_answer(call, 308, SL_STR(""), SL_STR(""));
}
