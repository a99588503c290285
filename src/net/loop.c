/* loop.c -- one thread's event loop, on libevent.
 *
 * A turn is one call of libevent's loop with EVLOOP_ONCE: wait, then call back
 * for all that is ready. The first caller in a turn reads the clock, after the
 * wait; later callers of the turn get the same time.
 *
 * libevent does not lock: only the loop's thread touches its base. Other
 * threads append to a list and wake the loop by an eventfd.
 *
 *     post: [lock] append [unlock], write the eventfd if the list was empty
 *     loop: read the eventfd, [lock] take the whole list [unlock], call each
 *
 * Posts made by posts wait for the next turn, so sockets are always served.
 *
 * Timers have the precision of libevent's coarse clock, some milliseconds. Its
 * precise timers cost a system call per turn.
 */
#include "net/loop.h"

#include <assert.h>
#include <errno.h>
#include <event2/event.h>
#include <event2/event_struct.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

struct post {
    sl_loop_f *f;
    void *ctx;
    struct post *next;
};

struct sl_loop {
    struct event_base *base;
    struct sl_clock *clock;  /* the caller's, or &machine */
    struct sl_clock machine; /* also the source of monotonic time */
    bool is_turning;         /* time is cached only within a turn */
    bool has_now, has_mono;
    sl_ns now, mono;

    int wake_fd; /* an eventfd */
    struct event woken;
    _Atomic bool stop;
    pthread_mutex_t lock; /* of the list */
    struct post *first, **end;
};

struct sl_timer {
    struct event event;
    sl_loop_f *on_time;
    void *ctx;
};

/* libevent's messages repeat its return values. */
static void keep_silent(int severity, const char *message)
{
    (void)severity;
    (void)message;
}

static void silence(void)
{
    event_set_log_callback(keep_silent);
}

static void begin_turn(struct sl_loop *loop)
{
    loop->is_turning = true;
    loop->has_now = loop->has_mono = false;
}

static struct post *take_posts(struct sl_loop *loop)
{
    struct post *posts;

    pthread_mutex_lock(&loop->lock);
    posts = loop->first;
    loop->first = NULL;
    loop->end = &loop->first;
    pthread_mutex_unlock(&loop->lock);
    return posts;
}

static void run_posts(struct sl_loop *loop)
{
    for (struct post *post = take_posts(loop), *next; post; post = next) {
        sl_loop_f *f = post->f;
        void *ctx = post->ctx;

        next = post->next;
        sl_alloc_free(&sl_alloc_libc, post, sizeof(*post));
        f(ctx);
    }
}

static void on_woken(evutil_socket_t fd, short what, void *arg)
{
    uint64_t times;
    ssize_t n = read(fd, &times, sizeof(times));

    (void)n; /* nothing to read does no harm */
    (void)what;
    run_posts(arg);
}

/* Safe in a signal handler. */
static void wake(struct sl_loop *loop)
{
    static const uint64_t once = 1;
    int was = errno;
    ssize_t n = write(loop->wake_fd, &once, sizeof(once));

    (void)n; /* a full counter wakes already */
    errno = was;
}

/* Only epoll: what libevent falls back to when that fails has a ceiling of
 * 1,024 descriptors, or walks over all of them at every turn. */
static struct event_base *open_base(void)
{
    struct event_config *config = event_config_new();
    struct event_base *base = NULL;

    if (!config)
        return NULL;
    if (event_config_set_flag(config, EVENT_BASE_FLAG_NOLOCK) == 0 &&
        event_config_set_flag(config, EVENT_BASE_FLAG_IGNORE_ENV) == 0 &&
        event_config_avoid_method(config, "poll") == 0 &&
        event_config_avoid_method(config, "select") == 0)
        base = event_base_new_with_config(config);
    event_config_free(config);
    return base;
}

static int open_bell(struct sl_loop *loop)
{
    loop->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (loop->wake_fd < 0)
        return -1;
    event_assign(&loop->woken, loop->base, loop->wake_fd, EV_READ | EV_PERSIST,
                 on_woken, loop);
    return event_add(&loop->woken, NULL);
}

int sl_loop_open(struct sl_clock *clock, struct sl_loop **ret,
                 struct sl_diag *diag)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    struct sl_loop *loop = sl_alloc_new(&sl_alloc_libc, sizeof(*loop));
    int err;

    if (!loop)
        return sl_diag_error(diag, SLUICE_ENOMEM, "out of memory");
    pthread_once(&once, silence);
    *loop = (struct sl_loop){.wake_fd = -1, .end = &loop->first};
    pthread_mutex_init(&loop->lock, NULL);
    sl_clock_init_real(&loop->machine);
    loop->clock = clock ? clock : &loop->machine;
    errno = ENOMEM; /* unless the system says otherwise */
    loop->base = open_base();
    if (!loop->base || open_bell(loop)) {
        err = errno == ENOMEM ? SLUICE_ENOMEM : SLUICE_ESYS;
        sl_diag_error(diag, err, "cannot create an event loop: %s",
                      strerror(errno));
        sl_loop_close(loop);
        return err;
    }
    *ret = loop;
    return 0;
}

void sl_loop_close(struct sl_loop *loop)
{
    if (!loop)
        return;
    for (struct post *post = take_posts(loop), *next; post; post = next) {
        next = post->next;
        sl_alloc_free(&sl_alloc_libc, post, sizeof(*post));
    }
    if (loop->base)
        event_base_free(loop->base);
    if (loop->wake_fd >= 0)
        close(loop->wake_fd);
    pthread_mutex_destroy(&loop->lock);
    sl_alloc_free(&sl_alloc_libc, loop, sizeof(*loop));
}

void sl_loop_run(struct sl_loop *loop)
{
    while (!atomic_load(&loop->stop)) {
        begin_turn(loop);
        if (event_base_loop(loop->base, EVLOOP_ONCE) < 0)
            break;
    }
    begin_turn(loop);
    run_posts(loop);
    loop->is_turning = false;
    atomic_store(&loop->stop, false);
}

void sl_loop_stop(struct sl_loop *loop)
{
    atomic_store(&loop->stop, true);
    wake(loop);
}

sl_ns sl_loop_now(struct sl_loop *loop)
{
    if (!loop->has_now || !loop->is_turning) {
        loop->now = sl_clock_now(loop->clock);
        loop->has_now = true;
    }
    return loop->now;
}

sl_ns sl_loop_instant(struct sl_loop *loop)
{
    return sl_clock_now(loop->clock);
}

/* A virtual clock stands still, but the network does not: without its own
 * monotonic source, the machine's is used. */
static sl_ns read_mono(struct sl_loop *loop)
{
    struct sl_clock *clock = loop->clock;

    if (!clock->mono)
        clock = &loop->machine;
    return clock->mono(clock->ctx);
}

sl_ns sl_loop_mono(struct sl_loop *loop)
{
    sl_ns now;

    if (!loop->has_mono || !loop->is_turning) {
        now = read_mono(loop);
        if (now > loop->mono)
            loop->mono = now;
        loop->has_mono = true;
    }
    return loop->mono;
}

int sl_loop_post(struct sl_loop *loop, sl_loop_f *f, void *ctx)
{
    struct post *post = sl_alloc_new(&sl_alloc_libc, sizeof(*post));
    bool was_empty;

    if (!post)
        return SLUICE_ENOMEM;
    *post = (struct post){.f = f, .ctx = ctx};
    pthread_mutex_lock(&loop->lock);
    was_empty = !loop->first;
    *loop->end = post;
    loop->end = &post->next;
    pthread_mutex_unlock(&loop->lock);
    if (was_empty)
        wake(loop);
    return 0;
}

static void on_timeout(evutil_socket_t fd, short what, void *arg)
{
    struct sl_timer *timer = arg;

    (void)fd;
    (void)what;
    timer->on_time(timer->ctx);
}

int sl_timer_new(struct sl_loop *loop, sl_loop_f *on_time, void *ctx,
                 struct sl_timer **ret)
{
    struct sl_timer *timer = sl_alloc_new(&sl_alloc_libc, sizeof(*timer));

    if (!timer)
        return SLUICE_ENOMEM;
    *timer = (struct sl_timer){.on_time = on_time, .ctx = ctx};
    event_assign(&timer->event, loop->base, -1, 0, on_timeout, timer);
    *ret = timer;
    return 0;
}

void sl_timer_start(struct sl_timer *timer, sl_ns after)
{
    sl_ns us = after > 0 ? (after - 1) / SL_US + 1 : 0;
    struct timeval tv = {us / 1000000, us % 1000000};

    /* Without memory for the heap, fire early rather than never. */
    if (event_add(&timer->event, &tv))
        event_active(&timer->event, EV_TIMEOUT, 0);
}

void sl_timer_stop(struct sl_timer *timer)
{
    event_del(&timer->event);
}

void sl_timer_free(struct sl_timer *timer)
{
    if (!timer)
        return;
    event_del(&timer->event);
    sl_alloc_free(&sl_alloc_libc, timer, sizeof(*timer));
}

struct event_base *sl_loop_base(struct sl_loop *loop)
{
    return loop->base;
}
