/* main.c -- all fuzz targets, by name. Each becomes a program of its own, so
 * that the fuzzer counts only the branches of the code under test: this file is
 * compiled for each of them with its name as SL_FUZZ_TARGET, and the functions
 * of the others are missing there.
 *
 * The seeds of a target are in corpus/NAME, its dictionary in NAME.dict.
 */
#include "fuzz.h"

#include "base/base.h"

static const struct target {
    const char *name;
    size_t most;           /* bytes; longer inputs are passed over; 0: any */
    fuzz_f *run;           /* or: */
    fuzz_choice_f *choose; /* empty inputs are passed over */
} targets[] = {
    {"admin",      8000,    NULL,            fuzz_admin   },
    {"api",        60000,   NULL,            fuzz_api     },
    {"backoff",    0,       fuzz_backoff,    NULL         },
    {"bearer",     0,       fuzz_bearer,     NULL         },
    {"duration",   0,       fuzz_duration,   NULL         },
    {"dynamo",     0,       fuzz_dynamo,     NULL         },
    {"envoy",      0,       fuzz_envoy,      NULL         },
    {"flow",       0,       fuzz_flow,       NULL         },
    {"forwarded",  0,       fuzz_forwarded,  NULL         },
    {"grpc",       8192,    NULL,            fuzz_grpc    },
    {"http1",      0,       NULL,            fuzz_http1   },
    {"http1_diff", 0,       fuzz_http1_diff, NULL         },
    {"journal",    0,       NULL,            fuzz_journal },
    {"jwks",       0,       NULL,            fuzz_jwks    },
    {"jws",        9000,    fuzz_jws,        NULL         },
    {"key",        0,       fuzz_key,        NULL         },
    {"nginx",      0,       fuzz_nginx,      NULL         },
    {"page_token", 4096,    fuzz_page_token, NULL         },
    {"path",       0,       fuzz_path,       NULL         },
    {"pb",         1 << 16, fuzz_pb,         NULL         },
    {"policy",     0,       fuzz_policy,     NULL         },
    {"postgres",   8192,    NULL,            fuzz_postgres},
    {"proxy2",     0,       fuzz_proxy2,     NULL         },
    {"rate",       0,       fuzz_rate,       NULL         },
    {"redis",      0,       NULL,            fuzz_redis   },
    {"repeats",    0,       NULL,            fuzz_repeats },
    {"region",     0,       fuzz_region,     NULL         },
    {"resp",       0,       NULL,            fuzz_resp    },
    {"script",     0,       fuzz_script,     NULL         },
    {"size",       0,       fuzz_size,       NULL         },
    {"slots",      0,       fuzz_slots,      NULL         },
    {"spring",     0,       NULL,            fuzz_spring  },
    {"subject",    0,       NULL,            fuzz_subject },
    {"text",       0,       fuzz_text,       NULL         },
    {"url",        4096,    fuzz_url,        NULL         },
    {"usage",      0,       NULL,            fuzz_usage   },
    {"webhook",    0,       NULL,            fuzz_webhook },
    {"where",      2047,    fuzz_where,      NULL         },
    {"yaml",       0,       fuzz_yaml,       NULL         },
    {"zone",       0,       fuzz_zone,       NULL         },
};

static size_t held;

static void *resize(void *ctx, void *old, size_t old_size, size_t new_size)
{
    (void)ctx;
    MUST(held >= old_size);
    held = held - old_size + new_size;
    if (new_size == 0) {
        free(old);
        return NULL;
    }
    return realloc(old, new_size);
}

const struct sl_alloc fuzz_alloc = {.resize = resize};

static const struct target *find(void)
{
    for (size_t i = 0; i < SL_LEN(targets); i++)
        if (strcmp(targets[i].name, SL_FUZZ_TARGET) == 0)
            return &targets[i];
    abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct target *target;
    struct sl_str text = {(const char *)data, size};

    if (!target)
        target = find();
    if ((target->choose && size == 0) || (target->most && size > target->most))
        return 0;
    held = 0;
    if (target->choose)
        target->choose(sl_str_from(text, 1), data[0]);
    else
        target->run(text);
    MUST(held == 0);
    return 0;
}
