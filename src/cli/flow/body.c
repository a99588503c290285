/* body.c -- one field of a JSON text, by its dotted path.
 *
 * `error.code` is the member `code` of the member `error`; a member that has
 * dots in its own name goes first. In an array the step is an index.
 */
#include <jansson.h>
#include <string.h>

#include "base/parse.h"
#include "cli/flow/compare.h"

static json_t *member(json_t *at, struct sl_str step)
{
    uint64_t index;

    if (json_is_object(at))
        return json_object_getn(at, step.at, step.len);
    if (json_is_array(at) && sl_parse_number(step, &index, NULL) == 0)
        return json_array_get(at, (size_t)index);
    return NULL;
}

static json_t *find(json_t *at, struct sl_str path)
{
    while (at && path.len > 0) {
        const char *dot = memchr(path.at, '.', path.len);
        json_t *whole = member(at, path);
        struct sl_str step = {path.at,
                              dot ? (size_t)(dot - path.at) : path.len};

        if (whole)
            return whole;
        at = member(at, step);
        path = sl_str_from(path, step.len + (dot != NULL));
    }
    return at;
}

static char *as_text(json_t *value, struct sl_arena *arena)
{
    size_t flags = JSON_COMPACT | JSON_ENCODE_ANY | JSON_PRESERVE_ORDER;
    size_t len;
    char *text;

    if (json_is_string(value))
        return sl_arena_copy(arena, (struct sl_str){json_string_value(value),
                                                    json_string_length(value)});
    len = json_dumpb(value, NULL, 0, flags);
    text = sl_arena_take(arena, len + 1);
    if (text) {
        json_dumpb(value, text, len, flags);
        text[len] = '\0';
    }
    return text;
}

const char *sl_flow_body_field(const char *json, const char *path,
                               struct sl_arena *arena, int *ret_err)
{
    json_error_t error;
    json_t *root = json_loads(json, JSON_DECODE_ANY, &error);
    json_t *value = find(root, sl_str_c(path));
    const char *text = NULL;

    if (!root && json_error_code(&error) == json_error_out_of_memory)
        *ret_err = SLUICE_ENOMEM;
    if (value) {
        text = as_text(value, arena);
        if (!text)
            *ret_err = SLUICE_ENOMEM;
    }
    json_decref(root);
    return text;
}
