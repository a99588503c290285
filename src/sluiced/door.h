/* door.h -- the doors of the daemon, each by the same few calls.
 *
 * A doorway is where a door stands: its sockets, its certificate, and what all
 * loops share of it. A stand is one loop's place at one door. What differs from
 * door to door is a row of calls, struct sl_protocol, in doors/NAME.c; nothing
 * else in the daemon asks which door it is.
 *
 * To add a door: add its words to enum sl_protocol_id (settings.h), its structs
 * to the two unions below, and its row to sl_protocols.
 */
#ifndef SL_DOOR_H
#define SL_DOOR_H

#include <stdatomic.h>

#include "net/listener.h"
#include "server/grpc/grpc.h"
#include "server/http/http.h"
#include "server/resp/resp.h"
#include "sluiced/proxied.h"
#include "sluiced/settings.h"

struct sl_daemon;
struct sl_worker;

struct sl_server_listener {
    bool open;
    struct sl_sockets sockets;
    struct sl_tls *tls;
    bool accepts_client_cert; /* a client's certificate serves as token */
    char where[128];
    struct sl_conn_limit *crowd; /* NULL: each loop counts for itself */
    union {                      /* read only while it is open */
        struct sl_http_door http;
        struct sl_grpc_door grpc;
        struct sl_resp_door resp;
    };
};

struct sl_listener_worker {
    bool up;
    struct sl_listener *listener;
    struct sl_proxy_listeners *proxied; /* NULL: who connects is the client */
    _Atomic(struct sl_tls *) next_tls;  /* to be used from now on, or NULL */
    union {
        struct sl_http_worker http;
        struct sl_grpc_worker grpc;
        struct sl_resp_worker resp;
    };
};

struct sl_protocol {
    const char *name; /* for systemd, metrics and logs */
    bool operates;    /* the admin listener: on the first loop only, its
                       * own token, and open to the last */
    bool http2;       /* offer h2 by ALPN */

    /* Fill in what the loops share; sockets and certificate are there. */
    void (*describe)(struct sl_daemon *daemon, struct sl_server_listener *way);

    /* Use way->crowd; NULL if its loops count each for itself. */
    void (*gather)(struct sl_server_listener *way);

    /* Serve on the worker's loop, with `most` connections at once. */
    int (*open)(struct sl_listener_worker *stand, struct sl_worker *worker,
                const struct sl_server_listener *way, unsigned most);
    void (*close)(struct sl_listener_worker *stand);
    sl_accept_f *accept; /* its ctx is the stand */
    void (*certify)(struct sl_listener_worker *stand, struct sl_tls *tls);

    /* It ends: what is answered from now on may say so. */
    void (*warn)(struct sl_listener_worker *stand);
    /* Finish what is under way, close what is idle. */
    void (*drain)(struct sl_listener_worker *stand);
    unsigned (*count)(
        const struct sl_listener_worker *stand); /* of connections */

    /* Decide by another engine from now on; for the virtual clock. */
    void (*move)(struct sl_listener_worker *stand, struct sl_engine *engine);
};

/* By door; NULL where this version has none. */
extern const struct sl_protocol *const sl_protocols[SL_PROTOCOLS];

extern const struct sl_protocol sl_protocol_http, sl_protocol_grpc,
    sl_protocol_resp, sl_protocol_admin;

#endif
