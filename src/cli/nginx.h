/* nginx.h -- limits of an nginx configuration as a policy.
 *
 * Read are limit_req_zone, limit_req, limit_conn_zone, limit_conn, their
 * status and dry_run, and the blocks around them: http, server, location. All
 * other directives are skipped; others about limits are reported. The rules of
 * nginx apply: a block inherits limit_req from the block around it only if it
 * has none of its own, and the same for limit_conn; an exact location comes
 * before prefixes, the longest prefix before shorter ones.
 *
 *   limit_req without burst        token-bucket, burst 1
 *   burst=N nodelay                token-bucket, burst N + 1
 *   burst=N                        leaky-bucket, queue N
 *   limit_conn                     concurrency
 *   limit_req_dry_run on           mode: shadow
 *   limit_req_status CODE          deny: { status: CODE }
 *
 * What has no equivalent is reported: a note on standard error, and the rest
 * is written.
 */
#ifndef SL_CLI_NGINX_H
#define SL_CLI_NGINX_H

#include "base/arena.h"
#include "base/buf.h"
#include "base/diag.h"

#define SL_NGINX_BYTES    (1024 * 1024) /* of each file */
#define SL_NGINX_DEPTH    32            /* of blocks and includes */
#define SL_NGINX_WORDS    64            /* of a directive */
#define SL_NGINX_ZONES    256
#define SL_NGINX_FILES    256
#define SL_NGINX_BLOCKS   4096
#define SL_NGINX_IDENTITY 32 /* variables that become scopes */

/* Called with a note about a line of `file`. */
typedef void sl_nginx_tell_f(void *ctx, const char *file, unsigned line,
                             const char *sentence);

struct sl_nginx;
struct sl_nginx_block;

/* Called for `include PATTERN`: calls sl_nginx_read() for each file. Returns
 * its first error, SLUICE_ENOENT if there is no such file, or 0. */
typedef int sl_nginx_include_f(void *ctx, struct sl_nginx *nginx,
                               struct sl_nginx_block *into, const char *pattern,
                               struct sl_diag *diag);

struct sl_nginx_zone {
    const char *name;
    struct sl_str key; /* $binary_remote_addr */
    const char *file;
    unsigned line;
    bool conn;       /* limit_conn_zone */
    bool per_minute; /* rate=30r/m */
    uint64_t rate;   /* requests per second or minute */
};

/* One limit_req or limit_conn. */
struct sl_nginx_use {
    const char *zone;
    const char *file;
    unsigned line;
    bool conn, nodelay, delay;
    uint64_t count; /* burst, or connections */
    struct sl_nginx_use *next;
};

struct sl_nginx_block {
    enum { SL_NGINX_HTTP, SL_NGINX_SERVER, SL_NGINX_LOCATION } kind;
    enum { SL_NGINX_PREFIX, SL_NGINX_EXACT, SL_NGINX_REGEX } match;
    struct sl_str path;   /* of a location */
    struct sl_str *names; /* of a server */
    unsigned name_count;
    bool is_default;              /* listen ... default_server */
    struct sl_nginx_use *uses[2]; /* limit_req, limit_conn; in order */
    int dry[2];                   /* -1: not set */
    unsigned status[2];           /* 0: not set */
    const char *file;
    unsigned line;
    struct sl_nginx_block *up, *child, *last, *next;
};

struct sl_nginx {
    struct sl_arena *arena;
    sl_nginx_tell_f *tell;
    sl_nginx_include_f *include; /* or NULL: reported, and skipped */
    void *ctx;
    struct sl_nginx_block top;
    struct sl_nginx_zone zones[SL_NGINX_ZONES];
    unsigned zone_count, block_count, file_count;
    unsigned notes;
};

/* `nginx` needs `arena` and `tell`; the rest is zero. */
void sl_nginx_init(struct sl_nginx *nginx);

/* Read a file into a block: &nginx->top, or what `include` got. `name` and the
 * text must stay until the policy is written. SLUICE_ECONF with file, line and
 * column in `diag`, SLUICE_EFULL, after a sentence in `diag`, if it is too
 * large, or SLUICE_ENOMEM. */
SL_MUST_USE int sl_nginx_read(struct sl_nginx *nginx,
                              struct sl_nginx_block *into, const char *name,
                              struct sl_str text, struct sl_diag *diag);

/* Write the policy. SLUICE_ENOENT: there is no limit_req and no limit_conn. */
SL_MUST_USE int sl_nginx_write(struct sl_nginx *nginx, struct sl_buf *out);

/* `sluice import nginx FILE`: reads FILE and what it includes, relative to its
 * folder, and prints the policy. Returns the exit status. */
struct sl_cli_args;
int sl_import_nginx(struct sl_cli_args *args, const char *path);

/* Tell a note. */
void sl_nginx_note(struct sl_nginx *nginx, const char *file, unsigned line,
                   const char *fmt, ...) SL_PRINTF(4, 5);

#endif
