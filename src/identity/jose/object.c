/* object.c -- one JSON object that a stranger wrote. */
#include "identity/jose/object.h"

#include <string.h>

/* How deep the brackets go. Brackets in strings are none; where the text is no
 * JSON the depth means nothing, and the parser will say so. */
static unsigned depth_of(struct sl_str text)
{
    unsigned depth = 0, most = 0;
    bool quoted = false;

    for (size_t i = 0; i < text.len; i++) {
        char c = text.at[i];

        if (c == '"') {
            quoted = !quoted;
        } else if (quoted) {
            i += c == '\\';
        } else if (c == '{' || c == '[') {
            if (++depth > most)
                most = depth;
        } else if ((c == '}' || c == ']') && depth > 0) {
            depth--;
        }
    }
    return most;
}

static json_t *refuse(struct sl_json_object_why *why,
                      enum sl_json_object_error fault,
                      const json_error_t *error)
{
    *why = (struct sl_json_object_why){.fault = fault};
    if (error && error->line > 0)
        why->line = (unsigned)error->line;
    if (error && error->column > 0)
        why->column = (unsigned)error->column;
    return NULL;
}

json_t *sl_json_object_read(struct sl_str text, struct sl_json_object_why *why)
{
    json_error_t error;
    json_t *json;

    if (text.len == 0 || memchr(text.at, '\0', text.len))
        return refuse(why, SL_OBJECT_BROKEN, NULL);
    if (depth_of(text) > SL_OBJECT_DEPTH)
        return refuse(why, SL_OBJECT_DEEP, NULL);
    json = json_loadb(text.at, text.len, JSON_REJECT_DUPLICATES, &error);
    if (json_is_object(json))
        return json;
    if (json) {
        json_decref(json);
        return refuse(why, SL_OBJECT_OTHER, NULL);
    }
    /* Without memory jansson gives up without a word, or with a wrong one. */
    return refuse(why, error.text[0] ? SL_OBJECT_BROKEN : SL_OBJECT_NO_MEMORY,
                  &error);
}

bool sl_json_object_text(const json_t *object, const char *name,
                         struct sl_str *ret)
{
    const json_t *value = json_object_get(object, name);

    if (!json_is_string(value))
        return false;
    *ret = sl_json_slice(value);
    return true;
}
