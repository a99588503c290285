/* tokens.c -- where names come from, and which tokens are believed.
 *
 * A secret is never shown, whether it was written or came from somewhere.
 * What stands in for it is long enough to be read back as one.
 */
#include <stdio.h>

#include "policy/print/printer.h"

#define SECRET "(a secret, which is not shown here)"

static struct sl_str source_of(const void *ctx, unsigned i,
                               char room[SL_PRINT_ITEM])
{
    static const char *const kinds[] = {
        [SL_SOURCE_HEADER] = "header",
        [SL_SOURCE_JWT] = "jwt",
        [SL_SOURCE_COOKIE] = "cookie",
        [SL_SOURCE_SUBJECT] = "subject",
    };
    const struct sl_source *source = &((const struct sl_sources *)ctx)->list[i];
    int len;

    if (source->kind == SL_SOURCE_IP)
        return SL_STR("ip");
    len = snprintf(room, SL_PRINT_ITEM, "%s.%.*s", kinds[source->kind],
                   SL_STR_ARG(source->name));
    return (struct sl_str){room, (size_t)len};
}

void sl_print_sources(struct sl_printer *p, const char *key,
                      const struct sl_sources *sources)
{
    struct sl_print_list list = {
        .item = source_of, .ctx = sources, .count = sources->count};

    sl_print_list(p, key, &list);
}

/* ---- jwt ---- */

/* The `i`th of the algorithms that are there. */
static struct sl_str algorithm_of(const void *ctx, unsigned i,
                                  char room[SL_PRINT_ITEM])
{
    unsigned bits = *(const unsigned *)ctx, at = 0;

    (void)room;
    for (;; at++)
        if ((bits & 1u << at) && i-- == 0)
            return sl_str_c(sl_algorithm_words[at]);
}

static void print_algorithms(struct sl_printer *p, const struct sl_jwt *jwt)
{
    struct sl_print_list list = {
        .item = algorithm_of, .ctx = &jwt->algorithms, .in_any_order = true};

    for (unsigned i = 0; i < SL_ALGORITHMS; i++)
        list.count += jwt->algorithms >> i & 1;
    if (list.count > 0)
        sl_print_list(p, "algorithms", &list);
}

static struct sl_str audience_of(const void *ctx, unsigned i,
                                 char room[SL_PRINT_ITEM])
{
    (void)room;
    return ((const struct sl_str *)ctx)[i];
}

static void print_keys(struct sl_printer *p, const struct sl_jwt *jwt)
{
    static const struct sl_external_value secret = {
        .written = {SECRET, sizeof(SECRET) - 1}
    };

    if (jwt->jwks.len > 0)
        sl_print_text(p, "jwks", jwt->jwks);
    if (jwt->secret.len > 0)
        sl_print_from(p, SL_STR("secret"), &secret);
}

void sl_print_jwt(struct sl_printer *p)
{
    const struct sl_jwt *jwt = &p->policy->identity.jwt;
    struct sl_print_list audiences = {.item = audience_of,
                                      .ctx = jwt->audiences,
                                      .count = jwt->audience_count};

    if (!jwt->written)
        return;
    sl_print_open(p, SL_STR("jwt"));
    sl_print_sources(p, "from", &jwt->from);
    print_algorithms(p, jwt);
    print_keys(p, jwt);
    if (jwt->issuer.len > 0)
        sl_print_text(p, "issuer", jwt->issuer);
    if (jwt->audience_count > 0)
        sl_print_list(p, "audience", &audiences);
    sl_print_duration(p, "leeway", jwt->leeway);
    sl_print_word(p, "expiry", jwt->expiry_optional ? "optional" : "required");
    sl_print_duration(p, "stale", jwt->stale);
    sl_print_close(p);
}
