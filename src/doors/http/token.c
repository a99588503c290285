/* token.c -- who may use a door.
 *
 * The token comes as `Authorization: Bearer TOKEN`; or as `X-Sluice-Token`,
 * for proxies that hand on their client's own Authorization.
 *
 * Neither where two tokens differ nor how long the right one is shows in the
 * time that comparing takes: what is compared are fingerprints of one size,
 * under a secret that nobody outside has seen.
 */
#include <openssl/crypto.h>

#include "doors/http/inner.h"

static bool is_same(const struct sl_http_worker *worker, struct sl_str shown)
{
    struct sl_hash128 is = sl_hash128(&worker->secret, shown);
    struct sl_hash128 want = sl_hash128(&worker->secret, worker->door->token);

    return CRYPTO_memcmp(&is, &want, sizeof(is)) == 0;
}

/* The token of "Bearer TOKEN", or an empty slice. */
static struct sl_str read_bearer(struct sl_str value)
{
    static const struct sl_str scheme = {"Bearer ", 7};

    if (value.len <= scheme.len ||
        !sl_str_eq_nocase((struct sl_str){value.at, scheme.len}, scheme))
        return (struct sl_str){NULL, 0};
    return sl_str_trim(sl_str_from(value, scheme.len));
}

/* Sent twice, it is not known which of the two a proxy has checked. */
static struct sl_str find_once(const struct sl_http_call *call,
                               struct sl_str name)
{
    unsigned count = 0;
    struct sl_str value = sl_http1_field(call->request, name, &count);

    return count == 1 ? value : (struct sl_str){NULL, 0};
}

static bool shows_token(struct sl_http_call *call)
{
    struct sl_str bearer =
        read_bearer(find_once(call, SL_STR("authorization")));
    struct sl_str own = find_once(call, SL_STR("x-sluice-token"));

    if (bearer.len > 0 && is_same(call->worker, bearer)) {
        call->token_in_authorize = true;
        return true;
    }
    return own.len > 0 && is_same(call->worker, own);
}

bool sl_http_admit(struct sl_http_call *call)
{
    const struct sl_http_door *door = call->worker->door;

    call->token_in_authorize = false;
    if (door->token.len == 0 && !door->accepts_client_cert)
        return true;
    if (door->token.len > 0 && shows_token(call))
        return true;
    if (door->accepts_client_cert && call->shows_cert)
        return true;
    sl_http_field(call, SL_STR("WWW-Authenticate"),
                  SL_STR("Bearer realm=\"sluice\""));
    if (door->token.len > 0)
        sl_http_refuse(
            call, 401, "UNAUTHORIZED",
            "missing or wrong token; send it as Authorization: Bearer TOKEN");
    else
        sl_http_refuse(call, 401, "UNAUTHORIZED",
                       "missing client certificate; it must be signed by the "
                       "listener's client_ca");
    return false;
}
