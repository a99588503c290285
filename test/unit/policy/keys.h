/* keys.h -- what the tests of keys share. */
#ifndef SL_TEST_KEYS_H
#define SL_TEST_KEYS_H

#include "check.h"
#include "policy/key.h"

static struct sl_arena arena;

static inline struct sl_key_template template(const char *text)
{
    struct sl_key_template key = {.count = 0};
    struct sl_diag diag = {.line = 0};

    if (!CHECK_EQ(sl_key_template_read(sl_str_c(text), &arena, &key, &diag), 0))
        printf("# %s: %s\n", text, diag.sentence);
    CHECK_STR(diag.sentence, "");
    return key;
}

/* What the names of these tests are filled with. */
static inline struct sl_key_context key_context(void)
{
    return (struct sl_key_context){
        .env = SL_STR("prod"),
        .endpoint = SL_STR("assistant_query"),
        .name = SL_STR("session"),
        .window_start_ms = 1700000000000,
    };
}

#endif
