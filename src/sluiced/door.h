/* door.h -- the doors of the daemon, each by the same few calls.
 *
 * A doorway is where a door stands: its sockets, its certificate, and what all
 * loops share of it. A stand is one loop's place at one door. What differs from
 * door to door is a row of calls, struct sl_door_kind, in doors/NAME.c; nothing
 * else in the daemon asks which door it is.
 *
 * To add a door: add its words to enum sl_door (settings.h), its structs to
 * the two unions below, and its row to sl_door_kinds.
 */
#ifndef SL_DOOR_H
#define SL_DOOR_H

#include <stdatomic.h>

#include "doors/grpc/grpc.h"
#include "doors/http/http.h"
#include "doors/resp/resp.h"
#include "net/listener.h"
#include "sluiced/proxied.h"
#include "sluiced/settings/settings.h"

struct sl_daemon;
struct sl_worker;

struct sl_doorway {
    bool open;
    struct sl_sockets sockets;
    struct sl_tls *tls;
    bool accepts_client_cert; /* a client's certificate serves as token */
    char where[128];
    struct sl_crowd *crowd; /* NULL: each loop counts for itself */
    union {                 /* read only while it is open */
        struct sl_http_door http;
        struct sl_grpc_door grpc;
        struct sl_resp_door resp;
    };
};

struct sl_stand {
    bool up;
    struct sl_listener *listener;
    struct sl_proxied *proxied;        /* NULL: who connects is the client */
    _Atomic(struct sl_tls *) next_tls; /* to be used from now on, or NULL */
    union {
        struct sl_http_worker http;
        struct sl_grpc_worker grpc;
        struct sl_resp_worker resp;
    };
};

struct sl_door_kind {
    const char *name; /* for systemd, metrics and logs */
    bool operates;    /* the admin listener: on the first loop only, its
                       * own token, and open to the last */
    bool http2;       /* offer h2 by ALPN */

    /* Fill in what the loops share; sockets and certificate are there. */
    void (*describe)(struct sl_daemon *daemon, struct sl_doorway *way);

    /* Use way->crowd; NULL if its loops count each for itself. */
    void (*gather)(struct sl_doorway *way);

    /* Serve on the worker's loop, with `most` connections at once. */
    int (*open)(struct sl_stand *stand, struct sl_worker *worker,
                const struct sl_doorway *way, unsigned most);
    void (*close)(struct sl_stand *stand);
    sl_accept_f *accept; /* its ctx is the stand */
    void (*certify)(struct sl_stand *stand, struct sl_tls *tls);

    /* It ends: what is answered from now on may say so. */
    void (*warn)(struct sl_stand *stand);
    /* Finish what is under way, close what is idle. */
    void (*drain)(struct sl_stand *stand);
    unsigned (*count)(const struct sl_stand *stand); /* of connections */

    /* Decide by another engine from now on; for the virtual clock. */
    void (*move)(struct sl_stand *stand, struct sl_engine *engine);
};

/* By door; NULL where this version has none. */
extern const struct sl_door_kind *const sl_door_kinds[SL_DOORS];

extern const struct sl_door_kind sl_door_http, sl_door_grpc, sl_door_resp,
    sl_door_admin;

#endif
