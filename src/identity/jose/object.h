/* object.h -- one JSON object that a stranger wrote.
 *
 * Read by jansson, which holds whatever it reads on the heap; so what goes in
 * is bounded before, in length by the caller and in depth here. A NUL byte is
 * refused, names that come twice too.
 */
#ifndef SL_OBJECT_H
#define SL_OBJECT_H

#include <jansson.h>

#include "identity/jwt.h"

#define SL_OBJECT_DEPTH SL_TOKEN_DEPTH /* the object itself is 1 */

enum sl_json_object_error {
    SL_OBJECT_BROKEN, /* not JSON, a NUL, a name twice */
    SL_OBJECT_OTHER,  /* JSON, but no object */
    SL_OBJECT_DEEP,
    SL_OBJECT_NO_MEMORY,
};

/* Why, and where if that is known. What was read is not quoted: it may be a
 * secret. */
struct sl_json_object_why {
    enum sl_json_object_error fault;
    unsigned line, column; /* from 1; 0: not known */
};

/* A new reference, or NULL and *why. */
SL_MUST_USE json_t *sl_json_object_read(struct sl_str text,
                                        struct sl_json_object_why *why);

/* The text called `name`: false if there is none or if it is no text. */
SL_MUST_USE bool sl_json_object_text(const json_t *object, const char *name,
                                     struct sl_str *ret);

/* The slice of a JSON string. */
static inline struct sl_str sl_json_slice(const json_t *string)
{
    return (struct sl_str){json_string_value(string),
                           json_string_length(string)};
}

#endif
