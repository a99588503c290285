/* ngx_http_sluice_state.c -- policies, and the state that workers share.
 *
 * Policies are read where nginx reads its configuration, and inherited by the
 * workers. The state is a file, or a zone of shared memory; either is prepared
 * by the master before it starts workers, so that a state that cannot be used
 * fails the start or the reload, and the old workers stay. Each worker opens it
 * again: an open state does not survive fork().
 */
#include "ngx_http_sluice.h"

#include "libpolicy/libpolicy.h"

#define DEFAULT_SIZE (64 * 1024 * 1024)
#define LEAST_SIZE   (1024 * 1024)

/* Of a zone beside the state: its pool, and the zone of a file. */
#define ZONE_ROOM (128 * 1024)

/* How often the files of token keys are looked at. */
#define REFRESH_MS 2000

/* ---- policies ---- */

static void release_policy(void *data)
{
    sluice_policy_release(data);
}

static void log_problems(ngx_conf_t *cf, const struct sluice_problems *all,
                         const char *path)
{
    ngx_uint_t level;

    if (!all)
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0, "%s: %s", path, sluice_why());
    for (size_t i = 0; i < sluice_problems_count(all); i++) {
        struct sluice_problem p = sluice_problems_get(all, i);

        level = p.warning ? NGX_LOG_WARN : NGX_LOG_EMERG;
        if (p.line == 0)
            ngx_conf_log_error(level, cf, 0, "%s: %s", p.file, p.sentence);
        else if (*p.hint)
            ngx_conf_log_error(level, cf, 0, "%s:%ui:%ui: %s; write: %s",
                               p.file, (ngx_uint_t)p.line, (ngx_uint_t)p.column,
                               p.sentence, p.hint);
        else
            ngx_conf_log_error(level, cf, 0, "%s:%ui:%ui: %s", p.file,
                               (ngx_uint_t)p.line, (ngx_uint_t)p.column,
                               p.sentence);
    }
}

static ngx_int_t check_policy(ngx_conf_t *cf, const ngx_http_sluice_policy_t *p)
{
    struct sl_diag diag = {.sentence = ""};
    const char *note;

    if (sl_embed_check_policy(p->policy, &diag)) {
        if (diag.line)
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0, "%V:%ui: %s", &p->path,
                               (ngx_uint_t)diag.line, diag.sentence);
        else
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0, "%V: %s", &p->path,
                               diag.sentence);
        return NGX_ERROR;
    }
    note = sl_embed_policy_note(p->policy);
    if (note)
        ngx_conf_log_error(NGX_LOG_WARN, cf, 0, "%V: %s", &p->path, note);
    return NGX_OK;
}

static ngx_int_t load_policy(ngx_conf_t *cf, ngx_http_sluice_policy_t *p)
{
    struct sluice_problems *problems;
    ngx_pool_cleanup_t *cleanup = ngx_pool_cleanup_add(cf->pool, 0);
    int err;

    if (!cleanup)
        return NGX_ERROR;
    err = sluice_policy_load((char *)p->path.data, NULL, &p->policy, &problems);
    if (err || sluice_problems_warnings(problems) > 0)
        log_problems(cf, problems, (char *)p->path.data);
    sluice_problems_free(problems);
    if (err)
        return NGX_ERROR;
    cleanup->handler = release_policy;
    cleanup->data = p->policy;
    return check_policy(cf, p);
}

static ngx_http_sluice_policy_t *
find_policy(const ngx_http_sluice_main_conf_t *main, const ngx_str_t *path)
{
    ngx_http_sluice_policy_t **all = main->policies.elts;

    for (ngx_uint_t i = 0; i < main->policies.nelts; i++)
        if (all[i]->path.len == path->len &&
            ngx_memcmp(all[i]->path.data, path->data, path->len) == 0)
            return all[i];
    return NULL;
}

char *ngx_http_sluice_set_policy(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_sluice_loc_conf_t *loc = conf;
    ngx_http_sluice_main_conf_t *main =
        ngx_http_conf_get_module_main_conf(cf, ngx_http_sluice_module);
    ngx_str_t *words = cf->args->elts, path = words[1];
    ngx_http_sluice_policy_t **place;

    if (loc->policy != NGX_CONF_UNSET_PTR)
        return "is duplicate";
    if (ngx_conf_full_name(cf->cycle, &path, 1) != NGX_OK)
        return NGX_CONF_ERROR;
    loc->policy = find_policy(main, &path);
    if (loc->policy)
        return NGX_CONF_OK;
    loc->policy = ngx_pcalloc(cf->pool, sizeof(*loc->policy));
    place = ngx_array_push(&main->policies);
    if (!loc->policy || !place)
        return NGX_CONF_ERROR;
    loc->policy->path = path;
    *place = loc->policy;
    return load_policy(cf, loc->policy) == NGX_OK ? NGX_CONF_OK
                                                  : NGX_CONF_ERROR;
}

/* ---- sluice_state ---- */

static char *refuse_size(ngx_conf_t *cf, const ngx_str_t *word)
{
    ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                       "\"%V\" must be a size of at least 1m", word);
    return NGX_CONF_ERROR;
}

/* zone=NAME:SIZE */
static char *set_zone(ngx_conf_t *cf, ngx_http_sluice_main_conf_t *main,
                      ngx_str_t *word)
{
    ngx_str_t name = {word->len - 5, word->data + 5}, size;
    u_char *colon = (u_char *)ngx_strchr(name.data, ':');
    off_t bytes;

    if (!colon || colon == name.data) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "\"%V\" must be zone=NAME:SIZE", word);
        return NGX_CONF_ERROR;
    }
    size.data = colon + 1;
    size.len = (size_t)(name.data + name.len - size.data);
    name.len = (size_t)(colon - name.data);
    bytes = ngx_parse_offset(&size);
    if (bytes < LEAST_SIZE)
        return refuse_size(cf, word);
    main->size = (size_t)bytes;
    main->has_size = 1;
    main->zone = ngx_shared_memory_add(cf, &name,
                                       main->size + main->size / 32 + ZONE_ROOM,
                                       &ngx_http_sluice_module);
    return main->zone ? NGX_CONF_OK : NGX_CONF_ERROR;
}

char *ngx_http_sluice_set_state(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_sluice_main_conf_t *main = conf;
    ngx_str_t *words = cf->args->elts, size;
    off_t bytes;

    if (main->size)
        return "is duplicate";
    if (ngx_strncmp(words[1].data, "zone=", 5) == 0) {
        if (cf->args->nelts == 2)
            return set_zone(cf, main, &words[1]);
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "invalid parameter \"%V\"; the size of a zone is "
                           "written zone=NAME:SIZE",
                           &words[2]);
        return NGX_CONF_ERROR;
    }
    main->file = words[1];
    main->size = DEFAULT_SIZE;
    if (ngx_conf_full_name(cf->cycle, &main->file, 0) != NGX_OK)
        return NGX_CONF_ERROR;
    if (cf->args->nelts == 2)
        return NGX_CONF_OK;
    if (ngx_strncmp(words[2].data, "size=", 5) != 0) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "invalid parameter \"%V\"; valid: size=SIZE",
                           &words[2]);
        return NGX_CONF_ERROR;
    }
    size.data = words[2].data + 5;
    size.len = words[2].len - 5;
    bytes = ngx_parse_offset(&size);
    if (bytes < LEAST_SIZE)
        return refuse_size(cf, &words[2]);
    main->size = (size_t)bytes;
    main->has_size = 1;
    return NGX_CONF_OK;
}

/* ---- in the master ---- */

static struct sl_embed_options
options_of(const ngx_http_sluice_main_conf_t *main)
{
    return (struct sl_embed_options){
        .path = main->file.len ? (const char *)main->file.data : NULL,
        .memory = main->memory,
        .size = main->has_size ? main->size : 0};
}

/* A process of its own, whose end only wait_for() sees: nginx's handler of
 * SIGCHLD would take it. */
static pid_t start_child(sigset_t *old)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    sigprocmask(SIG_BLOCK, &set, old);
    return fork();
}

/* How the child ended, as waitpid() says; -1 without one, with its errno. */
static int wait_for(pid_t child, const sigset_t *old)
{
    int status = -1, err = ngx_errno;

    while (child > 0 && waitpid(child, &status, 0) < 0 && ngx_errno == EINTR)
        continue;
    sigprocmask(SIG_SETMASK, old, NULL);
    ngx_set_errno(err);
    return status;
}

/* Opens and closes the state for each policy: can all of them use it? */
static ngx_int_t open_all(const ngx_http_sluice_main_conf_t *main,
                          const struct sl_embed_options *options,
                          ngx_log_t *log)
{
    ngx_http_sluice_policy_t **all = main->policies.elts;

    for (ngx_uint_t i = 0; i < main->policies.nelts; i++) {
        struct sl_diag diag = {.sentence = ""};
        struct sl_embed *embed = NULL;

        if (sl_embed_open(all[i]->policy, options, &embed, &diag)) {
            ngx_log_error(NGX_LOG_EMERG, log, 0, "%V: %s", &all[i]->path,
                          diag.sentence);
            return NGX_ERROR;
        }
        if (*sl_embed_notice(embed))
            ngx_log_error(NGX_LOG_ALERT, log, 0, "%s", sl_embed_notice(embed));
        sl_embed_close(embed);
    }
    return NGX_OK;
}

/* Tries the state in another process. A file that is damaged while others use
 * it may crash who opens it, and without its master nginx is lost. */
static ngx_int_t try_state(ngx_http_sluice_main_conf_t *main, ngx_log_t *log)
{
    struct sl_embed_options options = options_of(main);
    sigset_t old;
    pid_t child = start_child(&old);
    int status;

    if (child == 0)
        _exit(open_all(main, &options, log) == NGX_OK ? 0 : 1);
    status = wait_for(child, &old);
    if (child < 0) {
        ngx_log_error(NGX_LOG_EMERG, log, ngx_errno,
                      "sluice_state: fork() failed");
    } else if (WIFSIGNALED(status)) {
        ngx_log_error(NGX_LOG_EMERG, log, 0,
                      "sluice_state: \"%V\" is damaged: a process that opened "
                      "it ended by signal %d",
                      main->file.len ? &main->file : &main->zone->shm.name,
                      WTERMSIG(status));
    }
    return child > 0 && status == 0 ? NGX_OK : NGX_ERROR;
}

/* Opens the file, or makes it, without following a link: the master may be
 * root, and the folder not only root's. -1: logged. */
static int open_file(const ngx_http_sluice_main_conf_t *main, struct stat *info,
                     ngx_log_t *log)
{
    const char *path = (const char *)main->file.data;
    int fd = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC,
                  0600);

    if (fd < 0) {
        ngx_log_error(NGX_LOG_EMERG, log, ngx_errno,
                      "sluice_state: \"%s\" cannot be opened%s", path,
                      ngx_errno == ELOOP
                          ? "; it must not be a link: write the path of the "
                            "file itself"
                          : "");
        return -1;
    }
    if (fstat(fd, info) == 0 && S_ISREG(info->st_mode) && info->st_nlink == 1)
        return fd;
    ngx_log_error(NGX_LOG_EMERG, log, 0,
                  "sluice_state: \"%s\" must be a regular file with one name",
                  path);
    close(fd);
    return -1;
}

/* Workers may run as another user than the master. A file of root becomes
 * theirs; one of another user (sluiced's) is opened to their group. */
static ngx_int_t share_file(const ngx_http_sluice_main_conf_t *main,
                            const ngx_core_conf_t *core, ngx_log_t *log)
{
    struct stat info;
    int fd = open_file(main, &info, log), err = 0;

    if (fd < 0)
        return NGX_ERROR;
    if (geteuid() == 0 && info.st_uid != core->user)
        err = info.st_uid == 0
                  ? fchown(fd, core->user, core->group) || fchmod(fd, 0600)
                  : fchown(fd, (uid_t)-1, core->group) || fchmod(fd, 0660);
    if (err)
        ngx_log_error(NGX_LOG_EMERG, log, ngx_errno,
                      "sluice_state: \"%V\" cannot be shared with the workers",
                      &main->file);
    close(fd);
    return err ? NGX_ERROR : NGX_OK;
}

/* The folder of the file. */
static ngx_int_t find_folder(const ngx_http_sluice_main_conf_t *main,
                             u_char *folder, size_t room)
{
    const u_char *slash = main->file.data + main->file.len;

    while (slash > main->file.data + 1 && *slash != '/')
        slash--;
    if ((size_t)(slash - main->file.data) >= room)
        return NGX_ERROR;
    ngx_cpystrn(folder, main->file.data, (size_t)(slash - main->file.data) + 1);
    return NGX_OK;
}

/* What a worker does: 0, or an errno. */
static int reach(const ngx_core_conf_t *core, const char *path, int mode)
{
    if (setgid(core->group) || initgroups(core->username, core->group) ||
        setuid(core->user) || access(path, mode))
        return ngx_errno;
    return 0;
}

/* Sees as the user of the workers whether they can open the file, or enter its
 * folder. A worker that cannot would let all requests pass. */
static ngx_int_t check_reach(const ngx_core_conf_t *core, const char *path,
                             int mode, ngx_log_t *log)
{
    sigset_t old;
    int status;
    pid_t pid;

    if (geteuid() != 0)
        return NGX_OK; /* workers have the user of the master */
    pid = start_child(&old);
    if (pid == 0)
        _exit(reach(core, path, mode));
    status = wait_for(pid, &old);
    if (pid > 0 && status == 0)
        return NGX_OK;
    ngx_log_error(NGX_LOG_EMERG, log, pid > 0 ? WEXITSTATUS(status) : ngx_errno,
                  "sluice_state: the workers, which run as \"%s\", cannot use "
                  "\"%s\"; name a file in a folder that they may enter, such "
                  "as /var/lib/nginx",
                  core->username, path);
    return NGX_ERROR;
}

/* Can the policies be used, over a state that is not shared? This reads the
 * files of token keys. */
static ngx_int_t test_policies(const ngx_http_sluice_main_conf_t *main,
                               ngx_log_t *log)
{
    struct sl_embed_options options = {.size = main->size};
    ngx_int_t rc;

    options.memory = mmap(NULL, main->size, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (options.memory == MAP_FAILED) {
        ngx_log_error(NGX_LOG_EMERG, log, ngx_errno,
                      "sluice_state: no memory for %uz bytes", main->size);
        return NGX_ERROR;
    }
    rc = open_all(main, &options, log);
    munmap(options.memory, main->size);
    return rc;
}

/* nginx -t changes no state: it sees whether the file could be made. */
static ngx_int_t test_file(const ngx_http_sluice_main_conf_t *main,
                           const ngx_core_conf_t *core, ngx_log_t *log)
{
    u_char folder[NGX_MAX_PATH];
    struct stat info;

    if (find_folder(main, folder, sizeof(folder)) != NGX_OK)
        return NGX_ERROR;
    if (access((const char *)folder, W_OK)) {
        ngx_log_error(NGX_LOG_EMERG, log, ngx_errno,
                      "sluice_state: no file can be made in \"%s\"", folder);
        return NGX_ERROR;
    }
    if (lstat((const char *)main->file.data, &info) == 0 &&
        (!S_ISREG(info.st_mode) || info.st_nlink != 1)) {
        ngx_log_error(NGX_LOG_EMERG, log, 0,
                      "sluice_state: \"%V\" must be a regular file with one "
                      "name, not a link",
                      &main->file);
        return NGX_ERROR;
    }
    if (check_reach(core, (const char *)folder, X_OK, log) != NGX_OK)
        return NGX_ERROR;
    return test_policies(main, log);
}

/* A file with the size that is written, if it can have it: old workers, of a
 * reload, use theirs. */
static void grow_file(const ngx_http_sluice_main_conf_t *main, ngx_log_t *log)
{
    struct sl_diag diag = {.sentence = ""};
    int rc = sl_embed_grow((const char *)main->file.data, main->size, &diag);

    if (rc > 0) {
        ngx_log_error(NGX_LOG_NOTICE, log, 0,
                      "sluice_state: \"%V\" has grown to %uz bytes; usage is "
                      "kept",
                      &main->file, main->size);
    } else if (rc < 0) {
        ngx_log_error(NGX_LOG_WARN, log, 0,
                      "sluice_state: \"%V\" did not grow: %s", &main->file,
                      diag.sentence);
    }
}

/* Before and after it is opened: a file with links is not touched. */
static ngx_int_t prepare_file(ngx_http_sluice_main_conf_t *main,
                              const ngx_core_conf_t *core, ngx_log_t *log)
{
    struct stat info;
    int fd = open_file(main, &info, log);

    if (fd < 0)
        return NGX_ERROR;
    close(fd);
    if (main->has_size)
        grow_file(main, log);
    if (try_state(main, log) != NGX_OK || share_file(main, core, log) != NGX_OK)
        return NGX_ERROR;
    return check_reach(core, (const char *)main->file.data, R_OK | W_OK, log);
}

/* The memory of the state is one piece of the zone's pool, kept from one
 * configuration to the next. */
static ngx_int_t take_memory(ngx_http_sluice_main_conf_t *main,
                             ngx_shm_zone_t *zone)
{
    ngx_slab_pool_t *pool = (ngx_slab_pool_t *)zone->shm.addr;

    if (!pool->data)
        pool->data = ngx_slab_alloc(pool, main->size);
    main->memory = pool->data;
    if (main->memory)
        return NGX_OK;
    ngx_log_error(NGX_LOG_EMERG, zone->shm.log, 0,
                  "sluice_state: the zone \"%V\" is too small",
                  &zone->shm.name);
    return NGX_ERROR;
}

static ngx_int_t init_zone(ngx_shm_zone_t *zone, void *before)
{
    ngx_http_sluice_main_conf_t *main = zone->data;
    const ngx_core_conf_t *core =
        (ngx_core_conf_t *)ngx_get_conf(main->cycle->conf_ctx, ngx_core_module);
    ngx_int_t rc;

    (void)before; /* the memory is found by its pool */
    if (!main->file.len) {
        rc = take_memory(main, zone);
        return rc == NGX_OK ? try_state(main, zone->shm.log) : rc;
    }
    return ngx_test_config ? test_file(main, core, zone->shm.log)
                           : prepare_file(main, core, zone->shm.log);
}

/* A file has a zone, too: nginx prepares zones when it knows the user of the
 * workers, and keeps the old workers if that fails. */
ngx_int_t ngx_http_sluice_prepare_state(ngx_conf_t *cf,
                                        ngx_http_sluice_main_conf_t *main)
{
    static ngx_str_t usual = ngx_string("zone=sluice:64m");
    static ngx_str_t of_file = ngx_string("sluice_state_file");

    if (main->policies.nelts == 0)
        return NGX_OK;
    if (!main->size && set_zone(cf, main, &usual) != NGX_CONF_OK)
        return NGX_ERROR;
    if (main->file.len)
        main->zone = ngx_shared_memory_add(cf, &of_file, ZONE_ROOM,
                                           &ngx_http_sluice_module);
    if (!main->zone)
        return NGX_ERROR;
    main->cycle = cf->cycle;
    main->zone->init = init_zone;
    main->zone->data = main;
    return NGX_OK;
}

/* ---- in a worker ---- */

/* The files of token keys may have changed. */
static void on_refresh(ngx_event_t *event)
{
    ngx_http_sluice_main_conf_t *main = event->data;
    ngx_http_sluice_policy_t **all = main->policies.elts;

    for (ngx_uint_t i = 0; i < main->policies.nelts; i++) {
        struct sl_diag diag = {.sentence = ""};

        if (all[i]->embed && sl_embed_refresh(all[i]->embed, &diag) < 0)
            ngx_log_error(NGX_LOG_ERR, event->log, 0,
                          "sluice: %V: %s; the keys in use stay", &all[i]->path,
                          diag.sentence);
    }
    ngx_add_timer(event, REFRESH_MS);
}

static void start_refresh(ngx_http_sluice_main_conf_t *main, ngx_log_t *log)
{
    main->refresh = (ngx_event_t){
        .handler = on_refresh, .data = main, .log = log, .cancelable = 1};
    ngx_add_timer(&main->refresh, REFRESH_MS);
}

void ngx_http_sluice_open_state(ngx_http_sluice_main_conf_t *main,
                                ngx_log_t *log)
{
    ngx_http_sluice_policy_t **all = main->policies.elts;
    struct sl_embed_options options = options_of(main);
    ngx_uint_t reads_files = 0;

    for (ngx_uint_t i = 0; i < main->policies.nelts; i++) {
        struct sl_diag diag = {.sentence = ""};

        if (sl_embed_open(all[i]->policy, &options, &all[i]->embed, &diag)) {
            ngx_log_error(NGX_LOG_ALERT, log, 0,
                          "sluice: %V: %s; this worker lets all requests pass",
                          &all[i]->path, diag.sentence);
            continue;
        }
        reads_files |= sl_embed_reads_keys(all[i]->embed);
    }
    if (reads_files)
        start_refresh(main, log);
}

/* Requests that are under way when a worker is told to exit at once end here.
 * Their permits are free again. */
void ngx_http_sluice_close_state(ngx_http_sluice_main_conf_t *main)
{
    ngx_http_sluice_policy_t **all = main->policies.elts;

    main->is_closing = 1;
    while (!ngx_queue_empty(&main->held))
        ngx_http_sluice_end(ngx_queue_data(ngx_queue_head(&main->held),
                                           ngx_http_sluice_ctx_t, queue),
                            NULL);
    for (ngx_uint_t i = 0; i < main->policies.nelts; i++) {
        sl_embed_close(all[i]->embed);
        all[i]->embed = NULL;
    }
}
