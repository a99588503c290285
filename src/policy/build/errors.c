/* errors.c -- `errors`: what a refusal looks like. */
#include "policy/build/build.h"

#include "policy/print/printer.h"

/* A character of the file makes at most six of the print, \uXXXX. */
#define PRINTED_BYTES ((size_t)8 * SL_YAML_BYTES)

/* The pieces of a body don't tell what came from outside, so it is printed
 * while its nodes are there. */
static struct sl_str print_body(struct sl_build *b, const struct sl_node *body)
{
    struct sl_str text = SL_STR("");
    struct sl_buf out;

    sl_buf_init(&out, PRINTED_BYTES, b->scratch->alloc);
    if (sl_print_body(&out, body))
        b->no_memory = true;
    else
        text = sl_build_keep(b, sl_buf_str(&out));
    sl_buf_done(&out);
    return text;
}

/* What each error may be called in HTTP. Clients go by the status: a store that
 * fails must not look like a limit, nor a limit like something forbidden. */
struct family {
    const char *name;
    int usual;
    const int *statuses; /* 0 behind the last; NULL: all from 500 to 599 */
    const char *words;   /* what may be written */
};

static const int rates[] = {429, 503, 420, 0};
static const int plans[] = {402, 403, 429, 0};
static const int rights[] = {403, 404, 0};
static const int names[] = {401, 403, 0};
static const int conflicts[] = {409, 412, 422, 423, 425, 0};

/* In the order of enum sl_error. */
static const struct family families[SL_ERRORS] = {
    {"rate_limited", 429, rates,     "429, 503 or 420"          },
    {"plan_limit",   402, plans,     "402, 403 or 429"          },
    {"forbidden",    403, rights,    "403 or 404"               },
    {"unauthorized", 401, names,     "401 or 403"               },
    {"conflict",     409, conflicts, "409, 412, 422, 423 or 425"},
    {"unavailable",  503, NULL,      "500 to 599"               },
};

static bool is_in(const struct family *family, int status)
{
    const int *one = family->statuses;

    if (!one)
        return status >= 500;
    while (*one && *one != status)
        one++;
    return *one != 0;
}

static int read_status(struct sl_build *b, const struct sl_node *node,
                       const struct family *family)
{
    int status = sl_build_status(b, node, 0);
    const struct sl_node *text = sl_build_scalar(node, "status");

    if (status == 0 || !text || is_in(family, status))
        return status;
    sl_hint(sl_report_error(b->report, SL_AT(text),
                            "Status %s is not valid for the error \"%s\". "
                            "Valid statuses: %s",
                            sl_build_shown(text).text, family->name,
                            family->words),
            "status: %d", family->usual);
    return 0;
}

void sl_build_errors(struct sl_build *b)
{
    const struct sl_node *errors = sl_node_get(b->root, "errors");

    for (int i = 0; i < SL_ERRORS; i++) {
        const struct sl_node *node = sl_node_get(errors, families[i].name);
        const struct sl_node *body = sl_node_get(node, "body");
        struct sl_error_form *form = &b->policy->errors[i];
        int err;

        form->status = read_status(b, node, &families[i]);
        if (!body || body->kind == SL_NODE_EMPTY)
            continue;
        err = sl_text_read_body(body, b->arena, &form->body, b->report);
        if (err == SLUICE_ENOMEM)
            b->no_memory = true;
        form->has_body = !err;
        if (!err)
            form->printed = print_body(b, body);
    }
}
