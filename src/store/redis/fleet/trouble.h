/* trouble.h -- what Redis says when it does not do what it was asked.
 *
 * Each of these was said before anything was written: a script's first write is
 * where a server that can't write says so, and then it ends. Nothing has
 * happened.
 */
#ifndef SL_REDIS_ERROR_H
#define SL_REDIS_ERROR_H

#include "base/str.h"

enum sl_redis_error {
    SL_REDIS_ERROR_NONE, /* it is no error */
    SL_REDIS_ERROR_NOSCRIPT,
    SL_REDIS_ERROR_MOVED,
    SL_REDIS_ERROR_ASK,
    SL_REDIS_ERROR_TRYAGAIN,
    SL_REDIS_ERROR_CLUSTERDOWN,
    SL_REDIS_ERROR_READONLY,
    SL_REDIS_ERROR_CROSSSLOT,
    SL_REDIS_ERROR_OOM,
    SL_REDIS_ERROR_LOADING,
    SL_REDIS_ERROR_BUSY,
    SL_REDIS_ERROR_MISCONF,
    SL_REDIS_ERROR_NOREPLICAS,
    SL_REDIS_ERROR_NOAUTH,
    SL_REDIS_ERROR_WRONGPASS,
    SL_REDIS_ERROR_NOPERM,
    SL_REDIS_ERROR_OTHER,
    SL_REDIS_ERRORS /* how many there are */
};

/* What a reply says; *text is the error's own text, or empty. A script's error
 * may have the server's inside: "ERR Error running script ...: -READONLY ..."
 */
enum sl_redis_error sl_redis_error_of(struct sl_str reply, struct sl_str *text);

/* What it means and what helps, for a log; no full stop. */
const char *sl_redis_error_sentence(enum sl_redis_error trouble);

#endif
