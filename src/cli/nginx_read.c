/* nginx_read.c -- reads the limits of an nginx configuration.
 *
 * A configuration is a list of directives: words that end in ';', or in a block
 * in braces. Words are separated by blanks; quotes keep blanks together, a
 * backslash keeps the next character, '#' begins a comment.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/parse.h"
#include "cli/nginx.h"

struct reader {
    struct sl_nginx *nginx;
    struct sl_diag *diag;
    const char *file;
    struct sl_str text;
    size_t at;
    unsigned line;
    unsigned depth;
    struct sl_str words[SL_NGINX_WORDS];
    unsigned count;
    unsigned began; /* line of the first word */
};

void sl_nginx_note(struct sl_nginx *nginx, const char *file, unsigned line,
                   const char *fmt, ...)
{
    char words[512];
    va_list args;

    va_start(args, fmt);
    vsnprintf(words, sizeof(words), fmt, args);
    va_end(args);
    for (char *c = words; *c; c++)
        if ((unsigned char)*c < ' ' || *c == 0x7f)
            *c = '?';
    nginx->notes++;
    nginx->tell(nginx->ctx, file, line, words);
}

/* ---- words ---- */

static int refuse(struct reader *r, int err, const char *sentence)
{
    r->diag->file = r->file;
    r->diag->line = r->line;
    r->diag->column = 1;
    return sl_diag_error(r->diag, err, "%s", sentence);
}

static bool blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

/* Blanks and comments. */
static void skip_blanks(struct reader *r)
{
    while (r->at < r->text.len) {
        char c = r->text.at[r->at];

        if (c == '#') {
            while (r->at < r->text.len && r->text.at[r->at] != '\n')
                r->at++;
        } else if (blank(c)) {
            r->line += c == '\n';
            r->at++;
        } else {
            return;
        }
    }
}

/* Does the word end before the character at `r->at`? */
static bool ends(const struct reader *r, char quote, char before)
{
    char c = r->text.at[r->at];

    if (quote)
        return c == quote;
    return blank(c) || c == ';' || (c == '{' && before != '$');
}

/* Where the word at `r->at` ends, and its lines in r->line. */
static size_t find_end(struct reader *r, char quote)
{
    size_t begin = r->at, end;
    char before = '\0';

    while (r->at < r->text.len && !ends(r, quote, before)) {
        before = r->text.at[r->at];
        if (before == '\\' && r->at + 1 < r->text.len)
            r->line += r->text.at[++r->at] == '\n';
        r->line += before == '\n';
        r->at++;
    }
    end = r->at;
    r->at = begin;
    return end;
}

/* A word, without its quotes and backslashes. */
static int read_word(struct reader *r, struct sl_str *ret)
{
    char first = r->text.at[r->at];
    char quote = first == '"' || first == '\'' ? first : '\0';
    size_t len = 0, end;
    char *word;

    r->at += quote ? 1 : 0;
    end = find_end(r, quote);
    if (quote && end == r->text.len)
        return refuse(r, SLUICE_ECONF, "a quote is not closed");
    word = sl_arena_take(r->nginx->arena, end - r->at + 1);
    if (!word)
        return SLUICE_ENOMEM;
    while (r->at < end) {
        char c = r->text.at[r->at++];

        if (c == '\\' && r->at < end && strchr("\"'\\", r->text.at[r->at]))
            c = r->text.at[r->at++];
        if (c == '\0')
            return refuse(r, SLUICE_ECONF, "a NUL is not allowed");
        word[len++] = c;
    }
    r->at += quote ? 1 : 0;
    word[len] = '\0';
    *ret = (struct sl_str){word, len};
    return 0;
}

/* The next directive into r->words. `*end` is ';' or '{', or '}' or NUL if
 * there is none. */
static int read_words(struct reader *r, char *end)
{
    r->count = 0;
    for (;;) {
        int err;

        skip_blanks(r);
        if (r->count == 0)
            r->began = r->line;
        *end = r->at < r->text.len ? r->text.at[r->at] : '\0';
        if (*end == ';' || *end == '{' || *end == '}' || *end == '\0') {
            r->at += *end != '\0';
            if ((*end == '}' || *end == '\0') && r->count > 0)
                return refuse(r, SLUICE_ECONF,
                              "a directive does not end; write ; behind it");
            return 0;
        }
        if (r->count == SL_NGINX_WORDS) /* long lists are of no interest */
            r->count--;
        err = read_word(r, &r->words[r->count]);
        if (err)
            return err;
        r->count++;
    }
}

static bool word_is(const struct reader *r, unsigned i, const char *text)
{
    return i < r->count && sl_str_eq(r->words[i], sl_str_c(text));
}

/* ---- directives ---- */

static bool read_count(struct sl_str text, uint64_t most, uint64_t *ret)
{
    return text.len > 0 && sl_parse_number(text, ret, NULL) == 0 &&
           *ret <= most;
}

/* "zone=NAME:10m" -> NAME */
static bool zone_name(struct reader *r, struct sl_str word, const char **ret)
{
    struct sl_str name = sl_str_from(word, 5);
    const char *colon = name.len > 0 ? memchr(name.at, ':', name.len) : NULL;

    if (colon)
        name.len = (size_t)(colon - name.at);
    *ret = name.len > 0 ? sl_arena_copy(r->nginx->arena, name) : NULL;
    return *ret != NULL;
}

/* "rate=30r/m" */
static bool read_rate(struct sl_str word, struct sl_nginx_zone *zone)
{
    struct sl_str rate = sl_str_from(word, 5);

    if (rate.len < 4 || memcmp(rate.at + rate.len - 3, "r/", 2) != 0)
        return false;
    zone->per_minute = rate.at[rate.len - 1] == 'm';
    if (!zone->per_minute && rate.at[rate.len - 1] != 's')
        return false;
    rate.len -= 3;
    return read_count(rate, UINT32_MAX, &zone->rate) && zone->rate > 0;
}

static int on_zone(struct reader *r, bool conn)
{
    struct sl_nginx *nginx = r->nginx;
    struct sl_nginx_zone *zone = &nginx->zones[nginx->zone_count];

    if (nginx->zone_count == SL_NGINX_ZONES)
        return refuse(r, SLUICE_EFULL, "there are more than 256 zones");
    *zone =
        (struct sl_nginx_zone){.file = r->file, .line = r->began, .conn = conn};
    if (r->count < 3)
        return refuse(r, SLUICE_ECONF,
                      "a zone has a key and a name: limit_req_zone "
                      "$binary_remote_addr zone=one:10m rate=10r/s;");
    zone->key = r->words[1];
    for (unsigned i = 2; i < r->count; i++) {
        struct sl_str word = r->words[i];

        if (sl_str_begins(word, sl_str_c("zone="))) {
            if (!zone_name(r, word, &zone->name))
                return refuse(r, SLUICE_ECONF, "a zone has no name");
        } else if (sl_str_begins(word, sl_str_c("rate=")) && !conn) {
            if (!read_rate(word, zone))
                return refuse(r, SLUICE_ECONF,
                              "a rate is written rate=10r/s or rate=30r/m");
        } else {
            sl_nginx_note(r->nginx, r->file, r->began,
                          "%.100s of a zone has no equivalent", word.at);
        }
    }
    if (!zone->name || (!conn && zone->rate == 0))
        return refuse(r, SLUICE_ECONF,
                      conn ? "a zone has a name: zone=addr:10m"
                           : "a zone has a name and a rate: zone=one:10m "
                             "rate=10r/s");
    nginx->zone_count++;
    return 0;
}

static void add_use(struct sl_nginx_block *block, struct sl_nginx_use *use)
{
    struct sl_nginx_use **last = &block->uses[use->conn];

    while (*last)
        last = &(*last)->next;
    *last = use;
}

static int on_limit_req(struct reader *r, struct sl_nginx_block *block)
{
    struct sl_nginx_use *use = sl_arena_take(r->nginx->arena, sizeof(*use));

    if (!use)
        return SLUICE_ENOMEM;
    *use = (struct sl_nginx_use){.file = r->file, .line = r->began};
    for (unsigned i = 1; i < r->count; i++) {
        struct sl_str word = r->words[i];
        uint64_t skipped;

        if (sl_str_begins(word, sl_str_c("zone="))) {
            if (!zone_name(r, word, &use->zone))
                return refuse(r, SLUICE_ECONF, "limit_req names no zone");
        } else if (sl_str_begins(word, sl_str_c("burst="))) {
            if (!read_count(sl_str_from(word, 6), UINT32_MAX - 1, &use->count))
                return refuse(r, SLUICE_ECONF, "burst= needs a whole number");
        } else if (sl_str_begins(word, sl_str_c("delay="))) {
            if (!read_count(sl_str_from(word, 6), UINT32_MAX, &skipped))
                return refuse(r, SLUICE_ECONF, "delay= needs a whole number");
            use->delay = true;
        } else if (word_is(r, i, "nodelay")) {
            use->nodelay = true;
        } else {
            return refuse(r, SLUICE_ECONF,
                          "limit_req has zone=, burst=, nodelay and delay=");
        }
    }
    if (!use->zone)
        return refuse(r, SLUICE_ECONF, "limit_req needs zone=NAME");
    add_use(block, use);
    return 0;
}

static int on_limit_conn(struct reader *r, struct sl_nginx_block *block)
{
    struct sl_nginx_use *use = sl_arena_take(r->nginx->arena, sizeof(*use));

    if (!use)
        return SLUICE_ENOMEM;
    *use =
        (struct sl_nginx_use){.file = r->file, .line = r->began, .conn = true};
    if (r->count != 3 || !read_count(r->words[2], UINT32_MAX, &use->count) ||
        use->count == 0)
        return refuse(r, SLUICE_ECONF,
                      "limit_conn needs a zone and a number: limit_conn addr "
                      "10;");
    use->zone = r->words[1].at;
    add_use(block, use);
    return 0;
}

static int on_status(struct reader *r, struct sl_nginx_block *block, bool conn)
{
    uint64_t status;

    if (r->count != 2 || !read_count(r->words[1], 599, &status) || status < 400)
        return refuse(r, SLUICE_ECONF, "the status must be 400 to 599");
    block->status[conn] = (unsigned)status;
    return 0;
}

static int on_server_name(struct reader *r, struct sl_nginx_block *block)
{
    size_t size = r->count * sizeof(struct sl_str);

    if (block->kind != SL_NGINX_SERVER || r->count < 2)
        return 0;
    block->names = sl_arena_take(r->nginx->arena, size);
    if (!block->names)
        return SLUICE_ENOMEM;
    memcpy(block->names, r->words + 1, size - sizeof(struct sl_str));
    block->name_count = r->count - 1;
    return 0;
}

static int on_include(struct reader *r, struct sl_nginx_block *block)
{
    struct sl_nginx *nginx = r->nginx;
    int err;

    if (r->count != 2)
        return refuse(r, SLUICE_ECONF, "include needs one file");
    if (!nginx->include) {
        sl_nginx_note(nginx, r->file, r->began, "%.400s is not read",
                      r->words[1].at);
        return 0;
    }
    err = nginx->include(nginx->ctx, nginx, block, r->words[1].at, r->diag);
    if (err != SLUICE_ENOENT || r->diag->sentence[0])
        return err;
    sl_nginx_note(nginx, r->file, r->began,
                  "%.400s is included, but cannot be read", r->words[1].at);
    return 0;
}

/* Directives about limits and denials that have no equivalent. */
static void tell_others(struct reader *r)
{
    struct sl_str name = r->words[0];

    if (sl_str_begins(name, sl_str_c("limit_req")) ||
        sl_str_begins(name, sl_str_c("limit_conn")) ||
        sl_str_begins(name, sl_str_c("limit_zone")))
        sl_nginx_note(r->nginx, r->file, r->began, "%.100s has no equivalent",
                      name.at);
    for (unsigned i = 1; word_is(r, 0, "error_page") && i < r->count; i++)
        if (word_is(r, i, "429"))
            sl_nginx_note(r->nginx, r->file, r->began,
                          "error_page 429: the policy has the body of denials "
                          "below errors: rate_limited");
}

static void on_listen(const struct reader *r, struct sl_nginx_block *block)
{
    for (unsigned i = 1; i < r->count; i++)
        if (word_is(r, i, "default_server") || word_is(r, i, "default"))
            block->is_default = true;
}

/* A directive without a block. */
static int on_simple(struct reader *r, struct sl_nginx_block *block)
{
    static const char *const twice[2][2] = {
        {"limit_req_dry_run", "limit_conn_dry_run"},
        {"limit_req_status",  "limit_conn_status" }
    };

    for (int conn = 0; conn < 2; conn++) {
        if (word_is(r, 0, twice[0][conn])) {
            block->dry[conn] = word_is(r, 1, "on");
            return 0;
        }
        if (word_is(r, 0, twice[1][conn]))
            return on_status(r, block, conn);
    }
    if (word_is(r, 0, "limit_req_zone"))
        return on_zone(r, false);
    if (word_is(r, 0, "limit_conn_zone"))
        return on_zone(r, true);
    if (word_is(r, 0, "limit_req"))
        return on_limit_req(r, block);
    if (word_is(r, 0, "limit_conn"))
        return on_limit_conn(r, block);
    if (word_is(r, 0, "server_name"))
        return on_server_name(r, block);
    if (word_is(r, 0, "include"))
        return on_include(r, block);
    if (word_is(r, 0, "listen"))
        on_listen(r, block);
    else
        tell_others(r);
    return 0;
}

/* ---- blocks ---- */

/* A server or a location, or NULL if there are too many. */
static struct sl_nginx_block *new_block(struct reader *r,
                                        struct sl_nginx_block *up)
{
    struct sl_nginx_block *block;

    if (r->nginx->block_count++ == SL_NGINX_BLOCKS)
        return NULL;
    block = sl_arena_take(r->nginx->arena, sizeof(*block));
    if (!block)
        return NULL;
    *block = (struct sl_nginx_block){
        .file = r->file, .line = r->began, .dry = {-1, -1},
                .up = up
    };
    if (up->last)
        up->last->next = block;
    else
        up->child = block;
    up->last = block;
    return block;
}

/* location [=|~|~*|^~] PATH */
static void set_location(struct reader *r, struct sl_nginx_block *block)
{
    block->kind = SL_NGINX_LOCATION;
    block->path = r->count > 1 ? r->words[r->count - 1] : sl_str_c("/");
    if (block->path.len == 0 || block->path.at[0] != '/' ||
        word_is(r, 1, "~") || word_is(r, 1, "~*"))
        block->match = SL_NGINX_REGEX; /* or a name, such as @errors */
    else if (word_is(r, 1, "="))
        block->match = SL_NGINX_EXACT;
}

/* Code of another language, until its brace. */
static int skip_code(struct reader *r)
{
    unsigned depth = 1;

    while (r->at < r->text.len && depth > 0) {
        char c = r->text.at[r->at++];

        r->line += c == '\n';
        depth += c == '{';
        depth -= c == '}';
    }
    return depth ? refuse(r, SLUICE_ECONF, "a block does not end") : 0;
}

/* Values, not directives: map, geo, types; or connections, not requests:
 * stream, mail. Limits of the latter are told. */
static int skip_values(struct reader *r, bool connections)
{
    unsigned depth = 1;

    while (depth > 0) {
        char end;
        int err = read_words(r, &end);

        if (err)
            return err;
        if (end == '\0')
            return refuse(r, SLUICE_ECONF,
                          "a block does not end; } is missing");
        if (connections && word_is(r, 0, "limit_conn"))
            sl_nginx_note(r->nginx, r->file, r->began,
                          "limit_conn of connections, not requests, has no "
                          "equivalent; leave it in nginx");
        depth += end == '{';
        depth -= end == '}';
    }
    return 0;
}

static int read_block(struct reader *r, struct sl_nginx_block *block);

static int on_block(struct reader *r, struct sl_nginx_block *block)
{
    static const char lua[] = "_by_lua_block";
    struct sl_str name = r->words[0];
    size_t len = sizeof(lua) - 1;
    bool server = word_is(r, 0, "server") && block->kind == SL_NGINX_HTTP;

    if (name.len > len && memcmp(name.at + name.len - len, lua, len) == 0)
        return skip_code(r);
    if (server || word_is(r, 0, "location")) {
        block = new_block(r, block);
        if (!block)
            return refuse(r, SLUICE_EFULL, "there are too many blocks");
        if (server)
            block->kind = SL_NGINX_SERVER;
        else
            set_location(r, block);
    } else if (word_is(r, 0, "map") || word_is(r, 0, "geo") ||
               word_is(r, 0, "split_clients") || word_is(r, 0, "types") ||
               word_is(r, 0, "upstream")) {
        return skip_values(r, false);
    } else if (word_is(r, 0, "stream") || word_is(r, 0, "mail")) {
        return skip_values(r, true);
    }
    return read_block(r, block);
}

static int read_block(struct reader *r, struct sl_nginx_block *block)
{
    int err = 0;

    if (r->depth == SL_NGINX_DEPTH)
        return refuse(r, SLUICE_ECONF, "blocks are nested too deeply");
    r->depth++;
    while (!err) {
        char end;

        err = read_words(r, &end);
        if (err)
            return err;
        if (end == '}' && r->depth > 1)
            break;
        if (end == '}')
            return refuse(r, SLUICE_ECONF, "a } without a {");
        if (end == '\0' && r->depth > 1)
            return refuse(r, SLUICE_ECONF,
                          "a block does not end; } is missing");
        if (end == '\0')
            break;
        if (r->count == 0)
            err = refuse(r, SLUICE_ECONF, "a directive has no name");
        else
            err = end == ';' ? on_simple(r, block) : on_block(r, block);
    }
    r->depth--;
    return err;
}

void sl_nginx_init(struct sl_nginx *nginx)
{
    nginx->top = (struct sl_nginx_block){
        .kind = SL_NGINX_HTTP, .dry = {-1, -1}
    };
    nginx->zone_count = nginx->block_count = 0;
    nginx->file_count = nginx->notes = 0;
}

int sl_nginx_read(struct sl_nginx *nginx, struct sl_nginx_block *into,
                  const char *name, struct sl_str text, struct sl_diag *diag)
{
    struct reader r = {
        .nginx = nginx, .diag = diag, .file = name, .text = text, .line = 1};

    if (nginx->file_count++ == SL_NGINX_FILES)
        return refuse(&r, SLUICE_EFULL, "there are more than 256 files");
    return read_block(&r, into);
}
