/* demo.h -- what runs when nobody has written a policy yet.
 */
#ifndef SL_DEMO_H
#define SL_DEMO_H

#include <stdio.h>

/* YAML; it passes `sluice check` without a warning, which a test sees to. */
extern const char sl_demo_policy[];

/* Say what there is to try. The addresses are "127.0.0.1:8080" or "unix:PATH";
 * NULL if that door is closed. `state` is the file of the state, or NULL. */
void sl_demo_print(FILE *out, const char *http, const char *resp,
                   const char *admin, const char *state);

#endif
