/* server.h -- a Redis of the test's own: started, stopped, killed, paused and
 * told things, on a free port in a folder that goes away.
 */
#ifndef SL_TEST_SERVER_H
#define SL_TEST_SERVER_H

#include <arpa/inet.h>
#include <fcntl.h>
#include <hiredis/hiredis.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

struct server {
    char dir[64];
    unsigned port;
    pid_t pid;
    redisContext *redis;   /* to tell it things */
    const char *extra[16]; /* further words of its command line */
};

static inline void server_give_up(const char *why)
{
    printf("Bail out! %s\n", why);
    exit(1);
}

static inline bool is_free(unsigned port)
{
    struct sockaddr_in sin = {.sin_family = AF_INET};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool good;

    sin.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    sin.sin_port = htons((uint16_t)port);
    good = bind(fd, (struct sockaddr *)&sin, sizeof(sin)) == 0;
    close(fd);
    return good;
}

/* A port without a listener; the bus of a cluster needs the one 10000 above
 * it. */
static inline unsigned free_port(void)
{
    static unsigned last;

    if (last == 0)
        last = 20000 + (unsigned)getpid() * 37 % 12000;
    for (unsigned i = 0; i < 1000; i++) {
        last++;
        if (is_free(last) && is_free(last + 10000))
            return last;
    }
    server_give_up("no free port");
    return 0;
}

static inline void server_run(const struct server *s, const char *program)
{
    char port[8];
    const char *words[40] = {program,     "--port",    port,
                             "--bind",    "127.0.0.1", "--save",
                             "",          "--dir",     s->dir,
                             "--logfile", "log",       "--enable-debug-command",
                             "yes"};
    unsigned n = 13;

    snprintf(port, sizeof(port), "%u", s->port);
    for (unsigned i = 0; s->extra[i]; i++)
        words[n++] = s->extra[i];
    execvp(program, (char *const *)(const void *)words);
    _exit(127);
}

/* Talk to it; at first it may not listen yet. False if it has ended. */
static inline bool server_met(struct server *s)
{
    struct timeval patience = {10, 0};

    if (s->redis)
        redisFree(s->redis);
    for (unsigned i = 0; i < 1000; i++) {
        s->redis = redisConnect("127.0.0.1", (int)s->port);
        if (s->redis && !s->redis->err) {
            redisSetTimeout(s->redis, patience);
            return true;
        }
        if (s->redis)
            redisFree(s->redis);
        s->redis = NULL;
        if (waitpid(s->pid, NULL, WNOHANG) == s->pid)
            return false;
        poll(NULL, 0, 10);
    }
    return false;
}

static inline void server_meet(struct server *s)
{
    if (!server_met(s))
        server_give_up("no Redis");
}

static inline bool server_spawned(struct server *s)
{
    fflush(stdout);
    s->pid = fork();
    if (s->pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* it ends when the test does */
        server_run(s, "redis-server");
    }
    return server_met(s);
}

static inline void server_spawn(struct server *s)
{
    if (!server_spawned(s))
        server_give_up("no Redis");
}

/* Another process may take the port first. */
static inline void server_start(struct server *s)
{
    snprintf(s->dir, sizeof(s->dir), "/tmp/sluice-redis-XXXXXX");
    if (!mkdtemp(s->dir))
        server_give_up("no folder");
    for (unsigned i = 0; i < 10; i++) {
        s->port = free_port();
        if (server_spawned(s))
            return;
    }
    server_give_up("no Redis");
}

static inline void server_kill(struct server *s, int signal)
{
    if (s->pid <= 0)
        return;
    kill(s->pid, signal);
    if (signal != SIGKILL && signal != SIGTERM)
        return;
    waitpid(s->pid, NULL, 0);
    s->pid = 0;
}

/* Take the ground away: nothing can be saved there any more. */
static inline void server_wreck(const struct server *s)
{
    char command[96];

    snprintf(command, sizeof(command), "rm -rf %s", s->dir);
    if (system(command) != 0)
        printf("# %s stays\n", s->dir);
}

static inline void server_stop(struct server *s)
{
    server_kill(s, SIGKILL);
    if (s->redis)
        redisFree(s->redis);
    s->redis = NULL;
    server_wreck(s);
}

/* Tell it something; what it answers as a number, -1 for errors. */
__attribute__((format(printf, 2, 3))) static inline long long
server_say(struct server *s, const char *fmt, ...)
{
    va_list args;
    redisReply *reply;
    long long number = -1;

    va_start(args, fmt);
    reply = redisvCommand(s->redis, fmt, args);
    va_end(args);
    if (!reply)
        return -1;
    if (reply->type == REDIS_REPLY_ERROR)
        printf("# %s\n", reply->str);
    else
        number = reply->type == REDIS_REPLY_INTEGER ? reply->integer : 0;
    freeReplyObject(reply);
    return number;
}

#endif
