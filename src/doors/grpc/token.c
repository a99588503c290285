/* token.c -- who may use the grpc door.
 *
 * The token comes as metadata, `authorization: Bearer TOKEN`, or as
 * `x-sluice-token`; or a certificate that the door's client_ca has signed
 * serves instead. Neither where two tokens differ nor how long the right one
 * is shows in the time that comparing takes.
 */
#include <openssl/crypto.h>

#include "server/grpc/grpc_int.h"

static bool is_same(const struct sl_grpc_worker *worker, struct sl_str shown)
{
    struct sl_hash128 is = sl_hash128(&worker->secret, shown);
    struct sl_hash128 want = sl_hash128(&worker->secret, worker->door->token);

    return CRYPTO_memcmp(&is, &want, sizeof(is)) == 0;
}

void sl_grpc_take_token(struct sl_grpc_stream *stream, struct sl_str name,
                        struct sl_str value)
{
    static const struct sl_str scheme = {"Bearer ", 7};
    const struct sl_grpc_worker *worker = stream->session->worker;

    if (worker->door->token.len == 0)
        return;
    if (sl_str_eq(name, SL_STR("authorization"))) {
        if (value.len <= scheme.len ||
            !sl_str_eq_nocase((struct sl_str){value.at, scheme.len}, scheme))
            return;
        value = sl_str_trim(sl_str_from(value, scheme.len));
    }
    stream->shows_token = stream->shows_token || is_same(worker, value);
}

bool sl_grpc_admits(const struct sl_grpc_stream *stream)
{
    const struct sl_grpc_door *door = stream->session->worker->door;

    if (door->token.len == 0 && !door->accepts_client_cert)
        return true;
    if (door->token.len > 0 && stream->shows_token)
        return true;
    return door->accepts_client_cert && stream->session->conn->tls_client;
}
