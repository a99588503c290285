/* words.c -- how choices are written in a policy, by their values. */
#include "policy/policy.h"

const char *const sl_mode_words[3] = {"enforce", "shadow", "off"};
const char *const sl_missing_words[3] = {"anonymous", "skip", "deny"};
const char *const sl_anonymous_words[3] = {"limit", "pass", "deny"};
const char *const sl_unknown_words[3] = {"default", "pass", "deny"};
const char *const sl_reset_words[2] = {"full", "next"};
const char *const sl_forwarded_words[2] = {"x-forwarded-for", "forwarded"};
const char *const sl_sign_in_words[3] = {"fresh", "carry", "cap"};
const char *const sl_failure_words[3] = {"allow", "local", "deny"};
const char *const sl_full_words[2] = {"allow", "deny"};
const char *const sl_algorithm_words[SL_ALGORITHMS] = {
    "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256",
    "ES384", "ES512", "EdDSA", "HS256", "HS384", "HS512",
};
const char *const sl_count_words[3] = {"all", "each", "quota"};
