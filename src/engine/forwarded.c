/* forwarded.c -- the address of the client behind proxies.
 *
 * A header such as X-Forwarded-For is read from its end, and only as far as
 * each address in it belongs to a trusted proxy: the first one that does not is
 * the client. What a client has written itself stands before that and is not
 * read.
 */
#include "engine/request.h"
#include "wire/http_fields.h"

/* 127.0.0.0/8 and ::1. Link-local addresses are not trusted. */
static bool is_loopback(const struct sl_ip *ip)
{
    static const uint8_t one[16] = {[15] = 1};
    unsigned differ = 0;

    if (sl_ip_is_v4(ip))
        return ip->bytes[12] == 127;
    for (unsigned i = 0; i < 16; i++)
        differ |= ip->bytes[i] ^ one[i];
    return differ == 0;
}

bool sl_ip_trusted(const struct sl_identity *identity, const struct sl_ip *ip)
{
    for (unsigned i = 0; i < identity->trusted_count; i++)
        if (sl_net_has(&identity->trusted[i], ip))
            return true;
    return identity->trusted_count == 0 && is_loopback(ip);
}

bool sl_peer_trusted(const struct sl_identity *identity,
                     const struct sl_peer *peer)
{
    return peer->is_unix ||
           (peer->has_ip && sl_ip_trusted(identity, &peer->ip));
}

/* Cuts the last item off a list. */
static struct sl_str cut_last(struct sl_str *list)
{
    size_t at = list->len;
    struct sl_str item;

    while (at > 0 && list->at[at - 1] != ',')
        at--;
    item = sl_str_trim(sl_str_from(*list, at));
    list->len = at > 0 ? at - 1 : 0;
    return item;
}

/* The address that the last proxy of a list has written. */
static bool read_last(enum sl_forwarded field, struct sl_str *list,
                      struct sl_ip *ret)
{
    if (field == SL_FORWARDED_RFC7239)
        return sl_forwarded_for(sl_forwarded_cut(list), ret);
    return sl_ip_parse(cut_last(list), ret);
}

bool sl_forwarded_client(const struct sl_identity *identity,
                         const struct sl_peer *peer,
                         const struct sl_header *headers, unsigned count,
                         struct sl_ip *ret)
{
    struct sl_str name = sl_str_c(sl_forwarded_words[identity->forwarded]);
    bool found = peer->has_ip;

    if (found)
        *ret = peer->ip;
    if (!sl_peer_trusted(identity, peer))
        return found;
    while (count-- > 0) {
        struct sl_str list = headers[count].value;

        if (!sl_str_eq_nocase(headers[count].name, name))
            continue;
        while (list.len > 0) {
            if (!read_last(identity->forwarded, &list, ret))
                return found;
            found = true;
            if (!sl_ip_trusted(identity, ret))
                return true;
        }
    }
    return found;
}
