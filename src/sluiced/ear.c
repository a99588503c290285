/* ear.c -- being called on a loop when a descriptor can be read. */
#include "sluiced/ear.h"

#include <event2/event.h>

struct sl_fd_watch {
    struct event *event;
    sl_loop_f *on_sound;
    void *ctx;
};

static void on_readable(evutil_socket_t fd, short what, void *arg)
{
    struct sl_fd_watch *ear = arg;

    (void)fd;
    (void)what;
    ear->on_sound(ear->ctx);
}

int sl_fd_watch_open(struct sl_loop *loop, int fd, sl_loop_f *on_sound,
                     void *ctx, struct sl_fd_watch **ret)
{
    struct sl_fd_watch *ear = sl_alloc_new(&sl_alloc_libc, sizeof(*ear));

    if (!ear)
        return SLUICE_ENOMEM;
    *ear = (struct sl_fd_watch){.on_sound = on_sound, .ctx = ctx};
    ear->event = event_new(sl_loop_base(loop), fd, EV_READ | EV_PERSIST,
                           on_readable, ear);
    if (!ear->event || event_add(ear->event, NULL)) {
        sl_fd_watch_close(ear);
        return SLUICE_ENOMEM;
    }
    *ret = ear;
    return 0;
}

void sl_fd_watch_close(struct sl_fd_watch *ear)
{
    if (!ear)
        return;
    if (ear->event)
        event_free(ear->event);
    sl_alloc_free(&sl_alloc_libc, ear, sizeof(*ear));
}
