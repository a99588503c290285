/* known.h -- what others have found out about a caller before anybody decides.
 *
 * The facts are what a request says; this is what was made of them: the token
 * that it carries, verified, and what the registry has of those it names. All
 * of it is borrowed until sl_decide_begin() returns. No struct at all means
 * that nothing is known, which is how the library of policies asks.
 */
#ifndef SL_KNOWN_H
#define SL_KNOWN_H

#include "identity/identity.h"
#include "identity/subject.h"
#include "identity/webhook.h"

struct sl_auth_info {
    const struct sl_token *token; /* NULL: none, or one that is not believed */
    enum sl_token_error token_fault; /* GOOD also when there was none */
    const struct sl_subject *user;   /* NULL: not looked up, or the registry has
                                      * nobody at all */
    const struct sl_subject *org;
    sl_webhook_f *webhook; /* who verifies; NULL: nobody does */
    bool subjects_failed;  /* the registry could not be asked */
};

struct sl_request;
struct sl_policy;

/* Have the token that came with a request verified, if `policy` believes any:
 * known->token until the next one is verified, or why not. `tokens` may be
 * NULL: then none is believed. token.c. */
void sl_auth_info_token(struct sl_auth_info *known, struct sl_tokens *tokens,
                        const struct sl_policy *policy,
                        const struct sl_request *facts);

#endif
