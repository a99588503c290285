/* fuzz_forwarded.c -- X-Forwarded-For and Forwarded of any bytes.
 *
 *   (1) Whatever a client sent, in however many fields: what a trusted proxy
 *       appends to it, in a field of its own or behind a comma, is what counts.
 *   (2) From a peer that is not trusted nothing counts.
 *   (3) The client is the peer, or its address is in the bytes.
 *   (4) Cutting elements off ends, loses no byte but commas and blanks, and an
 *       address that was read is read again from its own text.
 */
#include "fuzz.h"

#include "engine/request.h"
#include "wire/http_fields.h"

#define LINES 8

static struct sl_net ours;
static struct sl_identity identity = {.trusted = &ours, .trusted_count = 1};

static struct sl_peer peer_at(const char *text)
{
    struct sl_peer peer = {.has_ip = true};

    MUST(sl_ip_parse(sl_str_c(text), &peer.ip));
    return peer;
}

static void must_be(const struct sl_ip *ip, const char *want)
{
    char text[SL_IP_TEXT];

    sl_ip_print(ip, text);
    MUST(strcmp(text, want) == 0);
}

/* The lines of the input, each a field. */
static unsigned split(struct sl_str text, struct sl_str name,
                      struct sl_header *fields)
{
    unsigned count = 0;

    while (count < LINES) {
        const char *end = text.len > 0 ? memchr(text.at, '\n', text.len) : NULL;
        size_t len = end ? (size_t)(end - text.at) : text.len;

        fields[count++] = (struct sl_header){
            name, {text.at, len}
        };
        if (!end)
            break;
        text = sl_str_from(text, len + 1);
    }
    return count;
}

/* The last field again, with what a proxy writes behind it. */
static char *append(struct sl_str *value, const char *comma, const char *own)
{
    size_t size = value->len + strlen(comma) + strlen(own) + 1;
    char *text = malloc(size);

    MUST(text != NULL);
    if (value->len > 0)
        memcpy(text, value->at, value->len);
    memcpy(text + value->len, comma, strlen(comma));
    memcpy(text + value->len + strlen(comma), own, strlen(own) + 1);
    *value = (struct sl_str){text, size - 1};
    return text;
}

static void try_walk(struct sl_str text, const char *own)
{
    struct sl_str name = sl_str_c(sl_forwarded_words[identity.forwarded]);
    struct sl_peer ally = peer_at("10.0.0.1"), other = peer_at("6.6.6.6");
    struct sl_header fields[LINES + 1];
    unsigned count = split(text, name, fields);
    struct sl_ip ip;
    char *made;

    MUST(sl_forwarded_client(&identity, &other, fields, count, &ip));
    must_be(&ip, "6.6.6.6");                                         /* (2) */
    MUST(sl_forwarded_client(&identity, &ally, fields, count, &ip)); /* (3) */
    fields[count] = (struct sl_header){name, sl_str_c(own)};
    MUST(sl_forwarded_client(&identity, &ally, fields, count + 1, &ip));
    must_be(&ip, "203.0.113.9"); /* (1) */
    made = append(&fields[count - 1].value, ", ", own);
    MUST(sl_forwarded_client(&identity, &ally, fields, count, &ip));
    must_be(&ip, "203.0.113.9"); /* (1) */
    free(made);
}

static void try_cuts(struct sl_str text)
{
    struct sl_str rest = text;

    while (rest.len > 0) {
        size_t before = rest.len;
        struct sl_str element = sl_forwarded_cut(&rest);
        struct sl_ip ip, again;
        char print[SL_IP_TEXT + 16];
        size_t len;

        MUST(rest.len < before && element.len <= before - rest.len);
        if (!sl_forwarded_for(element, &ip))
            continue;
        len = (size_t)snprintf(print, sizeof(print), "for=\"%s",
                               sl_ip_is_v4(&ip) ? "" : "[");
        len += sl_ip_print(&ip, print + len);
        snprintf(print + len, 4, "%s\"", sl_ip_is_v4(&ip) ? "" : "]");
        MUST(sl_forwarded_for(sl_str_c(print), &again));
        MUST(memcmp(&ip, &again, sizeof(ip)) == 0); /* (4) */
    }
}

void fuzz_forwarded(struct sl_str text)
{
    MUST(sl_net_parse(SL_STR("10.0.0.0/8"), &ours));
    identity.forwarded = SL_FORWARDED_X_FOR;
    try_walk(text, "203.0.113.9, 10.0.0.2");
    identity.forwarded = SL_FORWARDED_RFC7239;
    try_walk(text, "for=203.0.113.9;proto=https, for=\"10.0.0.2:80\"");
    try_cuts(text);
}
