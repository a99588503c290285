/* redis.c -- a store in a Redis, as a setting: read, and shown without what is
 * secret in it. */
#include <string.h>

#include "sluiced/settings/rules.h"

#define MASK "********"

#define DEADLINE_LEAST SL_MS
#define DEADLINE_MOST  (10 * SL_S)

static bool is_redis(const char *text)
{
    return strncmp(text, "redis", 5) == 0;
}

/* Paths of a policy's URL are relative to the policy, as all of its paths. */
static int resolve_file(struct sl_settings *s, const char **file,
                        struct sl_diag *diag)
{
    if (!*file)
        return 0;
    *file = sl_settings_path(s, s->values[SL_SET_store].origin, "", *file);
    return *file ? 0
                 : sl_settings_refuse(s, SL_SET_store, diag,
                                      "the path is too long");
}

int sl_settings_deadline(const struct sl_settings *s, struct sl_diag *diag)
{
    if (s->deadline >= DEADLINE_LEAST && s->deadline <= DEADLINE_MOST)
        return 0;
    return sl_settings_refuse(
        s, SL_SET_deadline, diag,
        "the deadline must be between 1ms and 10s, not %s; the default is 20ms",
        s->values[SL_SET_deadline].text);
}

int sl_settings_redis(struct sl_settings *s, struct sl_diag *diag)
{
    const char *text = s->values[SL_SET_store].text;
    struct sl_diag why = {0};
    int status;

    s->shared = is_redis(text);
    if (!s->shared)
        return 0;
    if (sl_redis_where_read(sl_str_c(text), &s->arena, &s->redis, &why))
        return sl_settings_refuse(s, SL_SET_store, diag, "%s", why.sentence);
    status = resolve_file(s, &s->redis.ca, diag);
    if (!status)
        status = resolve_file(s, &s->redis.cert, diag);
    if (!status)
        status = resolve_file(s, &s->redis.key, diag);
    return status ? status : sl_settings_deadline(s, diag);
}

/* ---- shown ---- */

/* Up to the next '&' it is nobody's business. */
static const char *mask_option(const char *at, char **out, const char *end)
{
    static const char *const names[] = {
        "sentinel_user=", "sentinel_password=", "sslpassword=", "password="};

    for (size_t i = 0; i < SL_LEN(names); i++) {
        size_t len = strlen(names[i]);

        if (strncmp(at, names[i], len) != 0)
            continue;
        *out += snprintf(*out, (size_t)(end - *out), "%s" MASK, names[i]);
        return at + len + strcspn(at + len, "&");
    }
    return at;
}

void sl_settings_mask(const char *text, char *out, size_t size)
{
    const char *slashes = strstr(text, "://");
    const char *at = slashes ? strrchr(slashes, '@') : NULL;
    char *end = out + size - 1;

    if (at) {
        int n =
            snprintf(out, size, "%.*s" MASK, (int)(slashes - text) + 3, text);

        out += n < (int)size ? n : (int)size - 1;
        text = at;
    }
    while (*text && out < end) {
        const char *next = mask_option(text, &out, end);

        if (out > end)
            out = end; /* it was cut */
        if (next != text)
            text = next;
        else
            *out++ = *text++;
    }
    *out = '\0';
}
