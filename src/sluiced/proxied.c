/* proxied.c -- doors that balancers stand before: who may say whom they speak
 * for, and what is heard of the others.
 *
 * Trusted are those of the policy in force when a connection comes: a reload
 * changes who is let in next.
 */
#include "sluiced/proxied.h"

#include "engine/forwarded.h"
#include "sluiced/daemon.h"

struct sl_proxied {
    struct sl_worker *worker;
    const struct sl_door_kind *kind;
    struct sl_preface *preface;
};

static bool trusts(void *ctx, const struct sl_address *peer)
{
    struct sl_proxied *p = ctx;
    struct sl_live *live = sl_engine_hold(p->worker->daemon->engine, NULL);
    struct sl_peer who = {.is_unix = sl_address_is_unix(peer)};
    bool trusted;

    who.has_ip = sl_address_ip(peer, &who.ip);
    trusted = sl_peer_trusted(&live->policy->identity, &who);
    sl_live_release(live);
    return trusted;
}

static void on_refused(void *ctx, const struct sl_address *peer,
                       const char *why)
{
    struct sl_proxied *p = ctx;
    char where[128];

    sl_address_print(peer, where, sizeof(where));
    sl_stats_refused(p->worker->stats, p->kind->name, "proxy_header");
    sl_log(SL_LOG_WARN, "connection rejected", "door", p->kind->name, "peer",
           where, "why", why, NULL);
}

int sl_proxied_open(struct sl_worker *worker, const struct sl_door_kind *kind,
                    struct sl_stand *stand)
{
    struct sl_proxied *p = sl_alloc_new(&sl_alloc_libc, sizeof(*p));
    struct sl_preface_options options = {
        .on_accept = kind->accept,
        .door = stand,
        .trusts = trusts,
        .on_refused = on_refused,
        .ctx = p,
        .alloc = &sl_alloc_libc,
    };
    int err;

    if (!p)
        return SLUICE_ENOMEM;
    *p = (struct sl_proxied){.worker = worker, .kind = kind};
    err = sl_preface_open(worker->loop, &options, &p->preface);
    if (err) {
        sl_alloc_free(&sl_alloc_libc, p, sizeof(*p));
        return err;
    }
    stand->proxied = p;
    return 0;
}

void sl_proxied_close(struct sl_proxied *proxied)
{
    if (!proxied)
        return;
    sl_preface_close(proxied->preface);
    sl_alloc_free(&sl_alloc_libc, proxied, sizeof(*proxied));
}

void sl_proxied_accept(void *ctx, int fd, const struct sl_address *peer)
{
    struct sl_proxied *p = ctx;

    sl_preface_accept(p->preface, fd, peer);
}

unsigned sl_proxied_count(const struct sl_proxied *proxied)
{
    return proxied ? sl_preface_count(proxied->preface) : 0;
}
