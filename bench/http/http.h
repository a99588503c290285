/* http.h -- the parts of bench-http: servers, load, and what they cost. The
 * servers are bench-resp's, too. */
#ifndef SL_BENCH_HTTP_H
#define SL_BENCH_HTTP_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"

#define CONNECTIONS 64

/* Give up with a sentence. */
_Noreturn void die(const char *fmt, ...) SL_PRINTF(1, 2);

/* ---- servers.c ---- */

struct server {
    const char *name;
    pid_t pid;
    unsigned port, admin_port, grpc_port; /* 0 if there is none */
    char path[96]; /* of a unix socket beside it, or "" */
};

/* A folder for what servers write; it goes when the program ends, as do the
 * servers. */
const char *work_folder(void);

void start_sluiced(struct server *s, const char *policy);

/* The same with its state elsewhere. */
void start_sluiced_store(struct server *s, const char *policy,
                         const char *store);

/* The same with a registry of subjects. */
void start_sluiced_registry(struct server *s, const char *policy);

/* The same for its resp listener: s->port, or the socket s->path. */
void start_sluiced_resp(struct server *s, const char *policy, bool is_unix);

/* False if there is no redis-server on this machine. */
bool start_redis(struct server *s);

/* False if there is no nginx on this machine. `how` is behind its port: "" or
 * "http2". */
bool start_nginx(struct server *s, const char *how);

/* A file in the folder, and its path. */
void write_file(char path[128], const char *name, struct sl_str bytes);

/* Processor time of all its threads so far, in ns. */
uint64_t server_cpu(const struct server *s);

/* Bytes that are resident, those of the file `but` left out. */
uint64_t server_resident(const struct server *s, const char *but);

/* Ask and wait; dies unless it is answered by 200. The answer is in `ret`. */
void ask(unsigned port, const char *method, const char *path,
         struct sl_str body, struct sl_buf *ret);

/* Keep to the processor for load; servers have the other one. Tells whether
 * there are two. */
bool stay_aside(void);

/* ---- tokens.c ---- */

/* What a policy says of our tokens: the value of identity.jwt. */
const char *token_rules(void);

/* A token of user-N that is valid for the whole run. */
void token_make(unsigned user, char out[256]);

/* ---- load.c ---- */

/* Connections to one server, and what is asked of it in turn. */
struct load;

struct load *load_open(unsigned port, const struct sl_buf *questions,
                       unsigned count);
void load_close(struct load *load);

struct slice {
    uint64_t requests;
    double seconds;
    double p50, p99; /* us */
};

/* Keep every connection busy for so long: each has one question under way. */
struct slice load_run(struct load *load, double seconds);

#endif
