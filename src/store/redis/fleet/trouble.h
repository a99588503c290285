/* trouble.h -- what Redis says when it does not do what it was asked.
 *
 * Each of these was said before anything was written: a script's first write is
 * where a server that can't write says so, and then it ends. Nothing has
 * happened.
 */
#ifndef SL_TROUBLE_H
#define SL_TROUBLE_H

#include "base/str.h"

enum sl_trouble {
    SL_TROUBLE_NONE, /* it is no error */
    SL_TROUBLE_NOSCRIPT,
    SL_TROUBLE_MOVED,
    SL_TROUBLE_ASK,
    SL_TROUBLE_TRYAGAIN,
    SL_TROUBLE_CLUSTERDOWN,
    SL_TROUBLE_READONLY,
    SL_TROUBLE_CROSSSLOT,
    SL_TROUBLE_OOM,
    SL_TROUBLE_LOADING,
    SL_TROUBLE_BUSY,
    SL_TROUBLE_MISCONF,
    SL_TROUBLE_NOREPLICAS,
    SL_TROUBLE_NOAUTH,
    SL_TROUBLE_WRONGPASS,
    SL_TROUBLE_NOPERM,
    SL_TROUBLE_OTHER,
    SL_TROUBLES /* how many there are */
};

/* What a reply says; *text is the error's own text, or empty. A script's error
 * may have the server's inside: "ERR Error running script ...: -READONLY ..."
 */
enum sl_trouble sl_trouble_of(struct sl_str reply, struct sl_str *text);

/* What it means and what helps, for a log; no full stop. */
const char *sl_trouble_sentence(enum sl_trouble trouble);

#endif
