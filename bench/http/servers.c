/* servers.c -- sluiced and nginx, each with one thread on one processor. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <inttypes.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/cli.h"
#include "http/http.h"

static char folder[64];
static pid_t started[8];
static unsigned started_count;

void die(const char *fmt, ...)
{
    va_list args;

    fputs("bench: ", stderr);
    va_start(args, fmt);
    vfprintf(stderr, fmt, args);
    va_end(args);
    fputc('\n', stderr);
    exit(1);
}

/* ---- what is left behind: nothing ---- */

static void clean_up(void)
{
    char pattern[128];
    glob_t found = {0};

    for (unsigned i = 0; i < started_count; i++) {
        kill(started[i], SIGKILL);
        waitpid(started[i], NULL, 0);
    }
    snprintf(pattern, sizeof(pattern), "%s/*", folder);
    if (glob(pattern, 0, NULL, &found) == 0)
        for (size_t i = 0; i < found.gl_pathc; i++)
            unlink(found.gl_pathv[i]);
    globfree(&found);
    rmdir(folder);
}

const char *work_folder(void)
{
    if (folder[0])
        return folder;
    snprintf(folder, sizeof(folder), "/tmp/sluice-bench-XXXXXX");
    if (!mkdtemp(folder))
        die("%s: %s", folder, strerror(errno));
    atexit(clean_up);
    return folder;
}

/* ---- processors ---- */

/* The nth of those that we may use, from 0; the last if there are fewer. */
static size_t processor(int nth)
{
    static cpu_set_t all;
    size_t last = 0;

    if (CPU_COUNT(&all) == 0)
        sched_getaffinity(0, sizeof(all), &all);
    for (size_t i = 0; i < CPU_SETSIZE && nth >= 0; i++)
        if (CPU_ISSET(i, &all)) {
            last = i;
            nth--;
        }
    return last;
}

static void pin(int nth)
{
    cpu_set_t one;

    CPU_ZERO(&one);
    CPU_SET(processor(nth), &one);
    sched_setaffinity(0, sizeof(one), &one);
}

bool stay_aside(void)
{
    bool two = processor(0) != processor(1);

    pin(1);
    return two;
}

/* ---- processes ---- */

/* A free port; it is used again at once. */
static unsigned free_port(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(at);
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    if (fd < 0 || bind(fd, (struct sockaddr *)&at, len) ||
        getsockname(fd, (struct sockaddr *)&at, &len))
        die("no port: %s", strerror(errno));
    close(fd);
    return ntohs(at.sin_port);
}

static pid_t start(const char *const *words)
{
    char log[128];
    pid_t pid;
    int fd;

    snprintf(log, sizeof(log), "%s/log", work_folder());
    fd = open(log, O_WRONLY | O_CREAT | O_APPEND, 0600);
    pid = fork();
    if (fd < 0 || pid < 0)
        die("%s: %s", words[0], strerror(errno));
    if (pid == 0) {
        pin(0);
        dup2(fd, 1);
        dup2(fd, 2);
        execvp(words[0], (char *const *)(uintptr_t)words);
        _exit(127);
    }
    close(fd);
    started[started_count++] = pid;
    return pid;
}

/* Until it listens, at most five seconds. */
static void wait_for(const struct server *s)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)s->port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};

    for (int i = 0; i < 500; i++) {
        int fd = socket(AF_INET, SOCK_STREAM, 0);
        int err = connect(fd, (struct sockaddr *)&at, sizeof(at));

        close(fd);
        if (!err)
            return;
        if (waitpid(s->pid, NULL, WNOHANG) != 0)
            break;
        usleep(10000);
    }
    die("%s did not start", s->name);
}

/* build/src/sluiced/sluiced, seen from build/bench/bench-http */
static void find_sluiced(char *path, size_t size)
{
    ssize_t len = readlink("/proc/self/exe", path, size - 1);
    char *slash;

    path[len > 0 ? len : 0] = '\0';
    for (int i = 0; i < 2; i++) {
        slash = strrchr(path, '/');
        if (!slash)
            die("this program can't find itself");
        *slash = '\0';
    }
    snprintf(path + strlen(path), size - strlen(path), "/src/sluiced/sluiced");
    if (access(path, X_OK))
        die("%s is not built", path);
}

void write_file(char path[128], const char *name, struct sl_str bytes)
{
    FILE *file;

    snprintf(path, 128, "%s/%s", work_folder(), name);
    file = fopen(path, "w");
    if (!file || fwrite(bytes.at, 1, bytes.len, file) < bytes.len ||
        fclose(file))
        die("%s: %s", path, strerror(errno));
}

/* `name` is that of its policy and of what it keeps; `usage` of its registry.
 */
static void start_http(struct server *s, const char *name, const char *policy,
                       const char *state, const char *usage)
{
    char program[4096], path[128], http[32], admin[32], grpc[32];

    find_sluiced(program, sizeof(program));
    write_file(path, name, sl_str_c(policy));
    *s = (struct server){.name = "sluiced",
                         .port = free_port(),
                         .admin_port = free_port(),
                         .grpc_port = free_port()};
    snprintf(grpc, sizeof(grpc), "127.0.0.1:%u", s->grpc_port);
    snprintf(http, sizeof(http), "127.0.0.1:%u", s->port);
    snprintf(admin, sizeof(admin), "127.0.0.1:%u", s->admin_port);
    s->pid = start((const char *const[]){program,  "-c",
                                         path,     "--threads",
                                         "1",      "--store",
                                         state,    "--usage",
                                         usage,    "--memory",
                                         "128MiB", "--listen-http",
                                         http,     "--listen-admin",
                                         admin,    "--listen-grpc",
                                         grpc,     "--listen-resp",
                                         "off",    NULL});
    wait_for(s);
}

void start_sluiced(struct server *s, const char *policy)
{
    char state[160];

    snprintf(state, sizeof(state), "memory:%s/state", work_folder());
    start_http(s, "bench.yaml", policy, state, "none");
}

void start_sluiced_registry(struct server *s, const char *policy)
{
    char state[160], usage[160];

    snprintf(state, sizeof(state), "memory:%s/state-known", work_folder());
    snprintf(usage, sizeof(usage), "sqlite:%s/known.db", work_folder());
    start_http(s, "known.yaml", policy, state, usage);
}

void start_sluiced_store(struct server *s, const char *policy,
                         const char *store)
{
    start_http(s, "store.yaml", policy, store, "none");
}

/* Until its socket is there, as above. */
static void wait_for_path(const struct server *s)
{
    for (int i = 0; i < 500 && access(s->path, F_OK); i++) {
        if (waitpid(s->pid, NULL, WNOHANG) != 0)
            die("%s did not start", s->name);
        usleep(10000);
    }
}

void start_sluiced_resp(struct server *s, const char *policy, bool is_unix)
{
    char program[4096], name[32], path[128], resp[128];

    find_sluiced(program, sizeof(program));
    *s = (struct server){.name = "sluiced", .port = free_port()};
    snprintf(name, sizeof(name), "resp-%u.yaml", s->port);
    write_file(path, name, sl_str_c(policy));
    snprintf(s->path, sizeof(s->path), "%s/resp", work_folder());
    if (is_unix)
        snprintf(resp, sizeof(resp), "unix:%s", s->path);
    else
        snprintf(resp, sizeof(resp), "127.0.0.1:%u", s->port);
    s->pid = start((const char *const[]){
        program, "-c", path, "--threads", "1", "--store", "memory:", "--memory",
        "128MiB", "--listen-http", "off", "--listen-admin", "off",
        "--listen-resp", resp, "--listen-grpc", "off", NULL});
    if (is_unix)
        wait_for_path(s);
    else
        wait_for(s);
}

bool start_redis(struct server *s)
{
    char port[16];

    if (access("/usr/bin/redis-server", X_OK))
        return false;
    *s = (struct server){.name = "redis-server", .port = free_port()};
    snprintf(port, sizeof(port), "%u", s->port);
    s->pid = start((const char *const[]){
        "/usr/bin/redis-server", "--port", port, "--bind", "127.0.0.1",
        "--save", "", "--appendonly", "no", "--dir", work_folder(), NULL});
    wait_for(s);
    return true;
}

bool start_nginx(struct server *s, const char *how)
{
    static const char conf[] =
        "daemon off; master_process off; worker_processes 1;\n"
        "pid %s/nginx.pid; error_log %s/nginx.log crit;\n"
        "events { worker_connections 256; }\n"
        "http { access_log off; keepalive_requests 1000000000;\n"
        "  client_body_temp_path %s; proxy_temp_path %s;\n"
        "  fastcgi_temp_path %s; uwsgi_temp_path %s; scgi_temp_path %s;\n"
        "  server { listen 127.0.0.1:%u %s; return 200; } }\n";
    char text[2048], path[128];
    const char *f = work_folder();

    if (access("/usr/sbin/nginx", X_OK))
        return false;
    *s = (struct server){.name = "nginx", .port = free_port()};
    snprintf(text, sizeof(text), conf, f, f, f, f, f, f, f, s->port, how);
    write_file(path, "nginx.conf", sl_str_c(text));
    s->pid = start((const char *const[]){"/usr/sbin/nginx", "-c", path, NULL});
    wait_for(s);
    return true;
}

/* ---- what they cost ---- */

uint64_t server_cpu(const struct server *s)
{
    char pattern[64];
    uint64_t sum = 0, one;
    glob_t found = {0};

    snprintf(pattern, sizeof(pattern), "/proc/%ld/task/*/schedstat",
             (long)s->pid);
    if (glob(pattern, 0, NULL, &found))
        die("%s is gone, or there is no schedstat", s->name);
    for (size_t i = 0; i < found.gl_pathc; i++) {
        FILE *file = fopen(found.gl_pathv[i], "r");

        if (file && fscanf(file, "%" SCNu64, &one) == 1)
            sum += one;
        if (file)
            fclose(file);
    }
    globfree(&found);
    return sum;
}

uint64_t server_resident(const struct server *s, const char *but)
{
    char path[64], line[4352];
    bool counts = true;
    uint64_t sum = 0, kb;
    FILE *file;

    snprintf(path, sizeof(path), "/proc/%ld/smaps", (long)s->pid);
    file = fopen(path, "r");
    if (!file)
        die("%s: %s", path, strerror(errno));
    while (fgets(line, sizeof(line), file)) {
        if (sscanf(line, "Rss: %" SCNu64, &kb) == 1)
            sum += counts ? kb * 1024 : 0;
        else if (strspn(line, "0123456789abcdef") > 7) /* a mapping begins */
            counts = !strstr(line, but);
    }
    fclose(file);
    return sum;
}

void ask(unsigned port, const char *method, const char *path,
         struct sl_str body, struct sl_buf *ret)
{
    struct sl_diag why = {.sentence = ""};
    struct sl_daemon_client client;
    struct sl_str answer;
    char url[64];
    int status;

    snprintf(url, sizeof(url), "http://127.0.0.1:%u", port);
    if (sl_daemon_client_init(&client, url, &sl_alloc_libc, &why) ||
        sl_daemon_client_ask(&client, method, path, body, &status, &answer))
        die("%s", why.sentence);
    if (status != 200)
        die("%s %s: %d %.*s", method, path, status, sl_str_int(answer.len),
            answer.at);
    sl_buf_clear(ret);
    if (sl_buf_add(ret, answer))
        die("there is no memory");
    sl_daemon_client_done(&client);
}
